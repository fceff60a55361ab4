# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo environment snapshot`` and ``restore``."""

from osc_lib.command import command
from osc_lib.i18n import _

from quintupleo_power.environments import environment
from quintupleo_power.environments import snapshots
from quintupleo_power.osc import common


class _SnapshotCommand(common.OfEnvironment):
    """A command for one snapshot of one environment."""

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument('snapshot', metavar='<snapshot>',
                            type=common.valid_name,
                            help=_("The snapshot's name"))
        common.add_timeout_option(
            parser, snapshots.TIMEOUT, _('How long to wait for one server'),
            'snapshot_timeout')


class SnapshotEnvironment(_SnapshotCommand):
    _description = _(
        'Keep the disks of all servers of an environment as they are at one '
        'moment, all or none. Servers that run are stopped for it, and '
        'started again.')

    def act(self, parsed_args, environments):
        environments.snapshot(parsed_args.name, parsed_args.snapshot)


class RestoreEnvironment(_SnapshotCommand):
    _description = _(
        'Bring the disks of all servers of an environment back to a '
        'snapshot. The servers are switched off then.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument(
            '--start', action='store_true',
            help=_('Start the servers that ran when the snapshot was made'))

    def act(self, parsed_args, environments):
        environments.restore(parsed_args.name, parsed_args.snapshot,
                             parsed_args.start)


class ListSnapshots(common.EnvironmentsCommand, command.Lister):
    _description = _(
        'List the snapshots of environments. An INCOMPLETE one was '
        'interrupted: make it again, or delete it.')

    def add_arguments(self, parser):
        parser.add_argument('name', metavar='<name>', nargs='?',
                            help=_('Only those of this environment'))

    def act(self, parsed_args, environments):
        return ('Environment', 'Name', 'Status', 'Created At', 'Servers'), [
            (each.environment, each.name,
             environment.COMPLETE if each.is_complete
             else environment.INCOMPLETE, each.created_at, each.servers)
            for each in environments.snapshots.all(parsed_args.name)]


class DeleteSnapshots(common.OfEnvironment):
    _description = _(
        'Remove snapshots of an environment. It is not an error if one does '
        'not exist.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument(
            'snapshots', metavar='<snapshot>', nargs='+',
            type=common.valid_name,
            help=_("The snapshot's name; may be repeated"))

    def act(self, parsed_args, environments):
        for each in parsed_args.snapshots:
            existed = environments.snapshots.delete(parsed_args.name, each)
            common.print_removed(self.app, each, existed)
