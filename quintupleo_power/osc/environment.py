# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo environment``."""

import datetime

from openstack import config
from osc_lib.cli import format_columns
from osc_lib.command import command
from osc_lib.i18n import _
from oslo_utils import timeutils

from quintupleo_power.environments import conductor
from quintupleo_power.environments import definition
from quintupleo_power.environments import environment
from quintupleo_power.environments import errors
from quintupleo_power.environments import networking
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import remover
from quintupleo_power.environments import schema
from quintupleo_power.environments import snapshots
from quintupleo_power.osc import clouds_yaml
from quintupleo_power.osc import common

_UNITS = {'s': 'seconds', 'm': 'minutes', 'h': 'hours', 'd': 'days'}

_count = common.argument_type('[0-9]+', 'an integer from 0 on', int)
_age = common.argument_type(
    '[0-9]+[smhd]', 'an age such as 90m, 6h or 2d',
    lambda text: datetime.timedelta(**{_UNITS[text[-1]]: int(text[:-1])}))


def _add_wait_options(parser):
    parser.add_argument(
        '--wait', action='store_true',
        help=_('Wait until all servers are built, those of kind baremetal '
               'are powered off, and an Ironic of kind ironic has made them '
               'available. You can also run "create --wait" later'))
    common.add_concurrency_option(parser)
    common.add_timeout_option(
        parser, environment.TIMEOUT,
        _('How long to wait for one server or volume, or for something new '
          'from Ironic'))


def _add_clouds_yaml_option(parser):
    parser.add_argument(
        '--clouds-yaml', metavar='<file>',
        help=_('Write an entry for the Ironic of the environment into this '
               'file, and the certificate beside it. Use it by "openstack '
               '--os-cloud <name> baremetal". Other entries stay, comments '
               'do not'))


def _columns(found):
    """Return (names, values) of an environment."""
    servers = [{
        'name': each.body.name, 'id': each.id,
        'role': each.key.split('.')[1], 'status': each.body.status,
        'addresses': _addresses(found, each)}
        for each in sorted(
            found.all(plan.SERVER),
            key=lambda each: common.natural_order(each.body.name))]
    ironic = found.ironic and found.ironic.body
    columns = {
        'name': found.name,
        'status': found.status,
        'created_at': _timestamp(found.created_at),
        'ironic_url': ironic.metadata[conductor.URL] if ironic else '',
        'ironic_status': conductor.status(ironic) if ironic else '',
        'roles': format_columns.DictColumn(
            {role.name: f'{role.count} ({role.kind})'
             for role in found.definition.roles} if found.definition else {}),
        'servers': common.LinesColumn(servers, '{name} {status} {id}'),
        'networks': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.NETWORK)}),
        'virtual_ips': format_columns.DictColumn(
            {each.body.name: ', '.join(networking.fixed_ips(each.body))
             for each in found.all(plan.VIRTUAL_IP)}),
        'ports': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.PORT)
             if each.key.count('.') == 1}),
        'floating_ips': format_columns.DictColumn(
            {ownership.name(found.name, each.key.partition('.')[2]):
             each.body.floating_ip_address
             for each in found.all(plan.FLOATING_IP)}),
        'volumes': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.VOLUME)}),
    }
    return tuple(columns), tuple(columns.values())


def _addresses(found, server):
    """Return the addresses that the ports of a server keep."""
    prefix = plan.key(plan.PORT, *server.key.split('.')[1:], '')
    return [address for each in found.all(plan.PORT)
            if each.key.startswith(prefix)
            for address in networking.fixed_ips(each.body)]


def _timestamp(moment):
    return moment.strftime('%Y-%m-%dT%H:%M:%SZ') if moment else ''


class CreateEnvironment(common.EnvironmentsCommand, command.ShowOne):
    _description = _(
        'Make an environment from a file: networks, servers that become '
        'bare-metal nodes, and ordinary ones. Existing resources stay, so '
        'the same command goes on after an interruption.')

    def add_arguments(self, parser):
        parser.add_argument(
            'file', metavar='<file>',
            help=_('The environment in YAML; environment.yaml.sample has an '
                   'example of each key'))
        parser.add_argument(
            '--name', metavar='<name>', type=common.valid_name,
            help=_('Its name (default: "name" in the file)'))
        parser.add_argument(
            '--dry-run', action='store_true',
            help=_('Show the resources and their cost in quota, and make '
                   'nothing'))
        parser.add_argument(
            '--ironic-os-cloud', metavar='<cloud>',
            help=_('Entry of clouds.yaml whose credentials the role of kind '
                   'ironic gets (default: an application credential is made '
                   'for it, and removed with the environment)'))
        _add_clouds_yaml_option(parser)
        _add_wait_options(parser)

    def act(self, parsed_args, environments):
        wanted = definition.load(parsed_args.file)
        name = parsed_args.name or wanted.name
        if not name:
            raise errors.EnvironmentsError(
                f'{parsed_args.file} has no "name": add one, or give --name')
        if parsed_args.dry_run:
            return _preview_columns(name, environments.preview(wanted, name))
        if parsed_args.clouds_yaml:
            clouds_yaml.check(parsed_args.clouds_yaml, name)
        if ((parsed_args.clouds_yaml or parsed_args.ironic_os_cloud)
                and not any(role.kind == schema.IRONIC
                            for role in wanted.roles)):
            raise errors.EnvironmentsError(
                f'{parsed_args.file} has no role of kind ironic, which '
                '--clouds-yaml and --ironic-os-cloud are for')
        with errors.translated('--ironic-os-cloud'):
            cloud = (config.OpenStackConfig().get_one(
                cloud=parsed_args.ironic_os_cloud)
                if parsed_args.ironic_os_cloud else None)
        found = environments.create(wanted, name, parsed_args.wait, cloud)
        if parsed_args.clouds_yaml:
            clouds_yaml.write(parsed_args.clouds_yaml, name,
                              environments.access(found))
        return _columns(found)


def _preview_columns(name, preview):
    return ('name', 'to_make', 'quota'), (
        name,
        common.LinesColumn(
            [{'what': what, 'names': sorted(names, key=common.natural_order)}
             for what, names in preview.names.items()],
            '{what}: {names}'),
        common.LinesColumn(
            [{'what': each.what, 'needed': each.needed,
              'used': _or_unknown(each.used),
              'limit': 'none' if each.used is not None and each.limit is None
                       else _or_unknown(each.limit)}
             for each in preview.costs],
            '{what}: {needed} needed, {used} in use, limit {limit}'))


def _or_unknown(number):
    return 'unknown' if number is None else number


class ListEnvironments(common.EnvironmentsCommand, command.Lister):
    _description = _(
        'List the environments of the project. COMPLETE ones have all '
        'resources of their file, INCOMPLETE ones were interrupted or have '
        'lost something. LEFTOVER ones remain from a deletion.')

    def act(self, parsed_args, environments):
        return ('Name', 'Status', 'Created At', 'Servers'), [
            (each.name, each.status, _timestamp(each.created_at),
             len(each.all(plan.SERVER))) for each in environments.all()]


class ShowEnvironment(common.OfEnvironment, command.ShowOne):
    _description = _('Show an environment.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        _add_clouds_yaml_option(parser)

    def act(self, parsed_args, environments):
        found = environments.get(parsed_args.name)
        if parsed_args.clouds_yaml:
            clouds_yaml.write(parsed_args.clouds_yaml, parsed_args.name,
                              environments.access(found))
        return _columns(found)


class DeleteEnvironment(common.EnvironmentsCommand):
    _description = _(
        'Remove environments: all that belongs to them, and nothing else. '
        'It is not an error if one does not exist.')

    def add_arguments(self, parser):
        parser.add_argument('names', metavar='<name>', nargs='*',
                            help=_('Its name; may be repeated'))
        parser.add_argument(
            '--older-than', metavar='<age>', type=_age,
            help=_('Only those that are older, such as 90m, 6h or 2d; '
                   'without names, all that are'))
        parser.add_argument(
            '--prefix', metavar='<text>', default='',
            help=_('With --older-than and without names: only those whose '
                   'names begin with it'))
        common.add_concurrency_option(parser)
        common.add_timeout_option(
            parser, remover.TIMEOUT, _(
                'How long to try again to remove resources in use'),
            'removal_timeout')

    def act(self, parsed_args, environments):
        age, names = parsed_args.older_than, parsed_args.names
        if age is None and not names:
            raise errors.EnvironmentsError(
                'Which environment? Give its name, or --older-than')
        if age is not None:
            before = timeutils.utcnow(with_timezone=True) - age
            names = [each.name for each in environments.all()
                     if each.created_at and each.created_at < before
                     and (each.name in names if names
                          else each.name.startswith(parsed_args.prefix))]
        problems = []
        for name in names:
            # An error of one does not keep the others.
            try:
                with errors.translated():
                    existed = environments.delete(name)
            except errors.Cancelled:
                raise
            except errors.EnvironmentsError as exc:
                problems.append(f'Environment "{name}":\n{exc}')
            else:
                common.print_removed(self.app, name, existed)
        if not names:
            print('Nothing is to be removed.', file=self.app.stdout)
        if problems:
            raise errors.EnvironmentsError('\n'.join(problems))


class ScaleEnvironment(common.OfEnvironment, command.ShowOne):
    _description = _(
        'Give a role of an environment another number of servers. Those with '
        'the highest numbers go first: take their nodes out of Ironic '
        'before.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument('role', metavar='<role>',
                            help=_("The role's name"))
        parser.add_argument('count', metavar='<count>', type=_count,
                            help=_('How many servers it is to have'))
        _add_wait_options(parser)

    def act(self, parsed_args, environments):
        return _columns(environments.scale(
            parsed_args.name, parsed_args.role, parsed_args.count,
            parsed_args.wait))


class EnrollEnvironment(common.OfEnvironment, command.Lister):
    _description = _(
        'Make the servers of an environment nodes of an Ironic, each once, '
        'or write a file for "openstack baremetal create".')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        common.add_enrolment_options(parser)

    def act(self, parsed_args, environments):
        return common.enroll(
            self.app, parsed_args, environments, environments.describe_nodes(
                parsed_args.name, parsed_args.host_cloud))


class EnvironmentLogs(common.OfEnvironment):
    _description = _(
        'Show the serial console logs of the servers of an environment, each '
        "line with its server's name, or write them to files.")

    interrupted = _('Interrupted.')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument(
            '-f', '--follow', action='store_true',
            help=_('Go on with new output, until Ctrl-C'))
        chosen.add_argument(
            '--output', metavar='<folder>',
            help=_("Write each server's console log, state and actions into "
                   'this folder. For an Ironic of the environment, also '
                   'write its log and the states and history of its nodes'))
        common.add_concurrency_option(parser)

    def act(self, parsed_args, environments):
        found = environments.get(parsed_args.name)
        if parsed_args.output:
            environments.save_logs(found, parsed_args.output)
            return
        logs = environments.console_logs(found)
        width = max(map(len, logs.names), default=0)
        for name, line in logs.lines(parsed_args.follow):
            print(f'{name:<{width}} | {line}', file=self.app.stdout,
                  flush=True)


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
