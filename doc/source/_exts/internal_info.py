# SPDX-License-Identifier: Apache-2.0
"""The directive ``internal-info``: what the driver keeps with a node."""

from docutils import nodes
from docutils import statemachine
from sphinx.util import docutils

from quintupleo_power.node import internal_info


def lines():
    """Yield the table as reStructuredText."""
    yield from ('.. list-table::', '   :header-rows: 1', '')
    rows = [(f'``{key}``', f'``{owner}``', meaning) for key, (
        owner, meaning) in internal_info.KEYS.items()]
    for row in [('Key of driver_internal_info', 'Set by', 'What it holds'),
                *rows]:
        for number, cell in enumerate(row):
            yield f"   {'  ' if number else '* '}- {cell}"
    yield ''


class InternalInfo(docutils.SphinxDirective):
    """Puts the table where it stands."""

    def run(self):
        """Return the table's nodes."""
        self.env.note_dependency(internal_info.__file__)
        container = nodes.Element()
        self.state.nested_parse(
            statemachine.StringList(list(lines()), 'internal-info'), 0,
            container)
        return container.children


def setup(app):
    """Register the directive."""
    app.add_directive('internal-info', InternalInfo)
    return {'parallel_read_safe': True}
