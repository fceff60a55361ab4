# SPDX-License-Identifier: Apache-2.0
"""Command ``openstack quintupleo environment logs``."""

from osc_lib.i18n import _

from quintupleo_power.osc import common


class EnvironmentLogs(common.OfEnvironment):
    _description = _(
        'Show what the servers of an environment have written to their serial '
        "consoles, each line with its server's name, or write it to files.")

    interrupted = _('Interrupted.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument(
            '-f', '--follow', action='store_true',
            help=_('Go on with what they write, until Ctrl-C'))
        chosen.add_argument(
            '--output', metavar='<folder>',
            help=_("Write each server's console log, and a file with its "
                   'state and actions, into this folder; where it has an '
                   'Ironic of its own, the log of that, and states and '
                   'history of its nodes, too'))
        common.add_concurrency_option(parser)

    def act(self, parsed_args, environments):
        if parsed_args.output:
            environments.save_logs(parsed_args.name, parsed_args.output)
            return
        logs = environments.console_logs(parsed_args.name)
        width = max(map(len, logs.names), default=0)
        for name, line in logs.lines(parsed_args.follow):
            print(f'{name:<{width}} | {line}', file=self.app.stdout,
                  flush=True)
