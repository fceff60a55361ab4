# SPDX-License-Identifier: Apache-2.0
"""The directive ``autoprogram-cliff`` as the commands print their help."""

from cliff import sphinxext


class CommandReference(sphinxext.AutoprogramCliffDirective):
    """Fills in defaults, and leaves out what each command of a client has."""

    def _drop_ignored_options(self, parser, ignored_opts):
        super()._drop_ignored_options(parser, ignored_opts)
        for action in list(parser._actions):
            # Of the output format "shell": a command may have an option of
            # the same name.
            if action.help == 'add a prefix to all variable names':
                parser._actions.remove(action)
            elif action.help:
                action.help = action.help % {**vars(action),
                                             'prog': parser.prog}


def setup(app):
    """Register the directive."""
    app.add_directive('autoprogram-cliff', CommandReference, override=True)
    return {'parallel_read_safe': True}
