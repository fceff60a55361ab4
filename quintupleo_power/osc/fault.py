# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo fault``, by Ironic's vendor passthru."""

from osc_lib.command import command
from osc_lib.i18n import _

from quintupleo_power.environments import errors
from quintupleo_power.faults import kinds
from quintupleo_power.osc import common

_FIELDS = ('id', 'kind', *kinds.NUMBERS, 'draws', 'injected')
_COLUMNS = ('ID', *(name.capitalize() for name in _FIELDS[1:]))


class FaultCommand(common.Command):
    """A command about the faults of a node, which is its first argument."""

    def add_arguments(self, parser):
        common.add_baremetal_options(parser.add_mutually_exclusive_group())
        parser.add_argument('node', metavar='<node>',
                            help=_('Node of Ironic, UUID or name'))

    def request(self, parsed_args, verb, body=None):
        """Return the faults that the passthru responds with, as tuples."""
        with common.shown_progress(), errors.translated('Ironic'):
            response = common.baremetal(
                self.app, parsed_args).call_node_vendor_passthru(
                    parsed_args.node, verb, 'faults', body)
        return [tuple(fault[name] for name in _FIELDS)
                for fault in response.json()['faults']]


class CreateFault(FaultCommand, command.ShowOne):
    _description = _('Create a fault that happens to requests of a node')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument(
            'kind', metavar='<kind>', choices=kinds.KINDS, help='; '.join(
                f'{name}: {meaning}'
                for name, (_, meaning) in kinds.KINDS.items()))
        for name, (*_range, meaning) in kinds.NUMBERS.items():
            parser.add_argument(f'--{name}', metavar=f'<{name}>', help=meaning)

    def take_action(self, parsed_args):
        fault, = self.request(parsed_args, 'POST', {
            name: getattr(parsed_args, name)
            for name in ('kind', *kinds.NUMBERS)})
        return _FIELDS, fault


class ListFaults(FaultCommand, command.Lister):
    _description = _('List the faults that are still to happen to a node')

    def take_action(self, parsed_args):
        return _COLUMNS, self.request(parsed_args, 'GET')


class DeleteFaults(FaultCommand, command.Lister):
    _description = _('Delete faults of a node, and list those deleted')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        chosen = parser.add_mutually_exclusive_group(required=True)
        chosen.add_argument('--all', action='store_true', help=_(
            'Delete all, and a late request that is still to be done'))
        chosen.add_argument('fault', metavar='<fault>', nargs='?',
                            help=_('ID of the fault to delete'))

    def take_action(self, parsed_args):
        return _COLUMNS, self.request(
            parsed_args, 'DELETE', {} if parsed_args.all else
            {'id': parsed_args.fault})
