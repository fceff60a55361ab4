# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo server``."""

from osc_lib.cli import parseractions
from osc_lib.command import command
from osc_lib.i18n import _

from quintupleo_power.osc import common


class EnrollServers(common.EnvironmentsCommand, command.Lister):
    _description = _('Enroll existing servers of the project in an Ironic')

    interrupted = _('Interrupted. The same command goes on where this one '
                    'ended.')

    def add_arguments(self, parser):
        parser.add_argument(
            'servers', metavar='<server>', nargs='+',
            help=_('Server to enroll; UUID or unique name'))
        common.add_enrolment_options(parser)
        parser.add_argument(
            '--resource-class', metavar='<resource-class>',
            help=_("Resource class of the nodes (default: Ironic's)"))
        parser.add_argument(
            '--capability', metavar='<name=value>', dest='capabilities',
            action=parseractions.KeyValueAction,
            help=_('Capability of the nodes, beside their boot mode; may be '
                   'repeated'))
        parser.add_argument(
            '--physical-network', metavar='<network=name>',
            dest='physical_networks', action=parseractions.KeyValueAction,
            help=_('Physical network of the ports on this network of the '
                   'host cloud, UUID or name; may be repeated'))

    def act(self, parsed_args, environments):
        described = environments.describe_servers(
            parsed_args.servers, cloud=parsed_args.host_cloud,
            resource_class=parsed_args.resource_class,
            further=parsed_args.capabilities,
            physical_networks=parsed_args.physical_networks)
        return common.enroll(self.app, parsed_args, environments, described)
