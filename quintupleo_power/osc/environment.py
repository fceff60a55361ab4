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
from quintupleo_power.environments import owned_resources
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


def _values(found):
    """Return the columns of an environment as a dict."""
    servers = [{
        'name': each.body.name, 'id': each.id,
        'role': each.key.split('.')[1], 'status': each.body.status,
        'addresses': _addresses(found, each)}
        for each in sorted(found.all(plan.SERVER), key=lambda each: (
            each.key.split('.')[1], len(each.key), each.key))]
    ironic = found.ironic and found.ironic.body
    return {
        'name': found.name,
        'status': found.status,
        'created_at': (f'{found.created_at:%Y-%m-%dT%H:%M:%SZ}'
                       if found.created_at else ''),
        'ironic_url': ironic.metadata[conductor.URL] if ironic else '',
        'ironic_status': conductor.status(ironic) if ironic else '',
        'roles': _roles(found),
        'servers': common.LinesColumn(servers, '{name} {status} {id}'),
        'networks': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.NETWORK)}),
        'virtual_ips': format_columns.DictColumn(
            {each.body.name: ', '.join(owned_resources.fixed_ips(each.body))
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


def _roles(found):
    """Return a column with the roles of an environment, or none of them."""
    roles = found.definition.roles if found.definition else ()
    return common.LinesColumn(
        [{'name': role.name, 'kind': role.kind, 'count': role.count}
         for role in roles], '{name}: {count} ({kind})')


def _addresses(found, server):
    """Return the addresses that the ports of a server keep."""
    prefix = plan.key(plan.PORT, *server.key.split('.')[1:], '')
    return [address for each in found.all(plan.PORT)
            if each.key.startswith(prefix)
            for address in owned_resources.fixed_ips(each.body)]


class CreateEnvironment(common.EnvironmentsCommand, command.ShowOne):
    _description = _('Create an environment, or the rest of it, from a file')

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
            return _preview_columns(name, *environments.preview(wanted, name))
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
        return zip(*_values(found).items(), strict=True)


def _preview_columns(name, wanted, costs):
    return ('name', 'to_make', 'quota'), (
        name,
        common.LinesColumn(
            [{'what': what, 'names': names} for what, names in wanted.items()],
            '{what}: {names}'),
        common.LinesColumn(
            [{'what': each.what, 'needed': each.needed, 'used': each.used,
              # As quotas are shown by all of OpenStack.
              'limit': -1 if each.used is not None and each.limit is None
                       else each.limit}
             for each in costs],
            '{what}: {needed} needed, {used} in use, limit {limit}'))


class ListEnvironments(common.EnvironmentsCommand, command.Lister):
    _description = _('List environments')

    def add_arguments(self, parser):
        parser.add_argument(
            '--long', action='store_true',
            help=_('List roles, and URL and status of an Ironic, too'))

    def act(self, parsed_args, environments):
        titles = ['Name', 'Status', 'Created At', 'Servers']
        if parsed_args.long:
            titles += ['Roles', 'Ironic URL', 'Ironic Status']
        return titles, [
            [len(each.all(plan.SERVER)) if title == 'Servers'
             else _values(each)[title.lower().replace(' ', '_')]
             for title in titles] for each in environments.all()]


class ShowEnvironment(common.OfEnvironment, command.ShowOne):
    _description = _('Show an environment')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        _add_clouds_yaml_option(parser)
        parser.add_argument(
            '--long', action='store_true',
            help=_('Show, of the nodes in an Ironic, power state, boot device '
                   'in use, health and what is wrong with the server, too'))
        common.add_baremetal_options(parser.add_mutually_exclusive_group())

    def act(self, parsed_args, environments):
        found = environments.get(parsed_args.name)
        if parsed_args.clouds_yaml:
            clouds_yaml.write(parsed_args.clouds_yaml, parsed_args.name,
                              environments.access(found))
        values = _values(found)
        if parsed_args.long:
            values['nodes'] = common.LinesColumn(
                environments.node_states(
                    found, common.baremetal(self.app, parsed_args)),
                '{name}: {power_state}, boot device {boot_device}, health '
                '{health}, problem {problem}')
        return zip(*values.items(), strict=True)


class DeleteEnvironment(common.EnvironmentsCommand):
    _description = _('Delete environments with all that belongs to them')

    def add_arguments(self, parser):
        parser.add_argument('names', metavar='<environment>', nargs='*',
                            help=_("The environment's name; may be repeated"))
        parser.add_argument(
            '--older-than', metavar='<age>', type=_age,
            help=_('Only those that are older, such as 90m, 6h or 2d; '
                   'without names, all that are, after a confirmation'))
        parser.add_argument(
            '--prefix', metavar='<text>',
            help=_('With --older-than and without names: only those whose '
                   'names begin with it'))
        parser.add_argument(
            '--dry-run', action='store_true',
            help=_('Show the names of those to delete, and delete nothing'))
        parser.add_argument(
            '--yes', '--auto-approve', action='store_true',
            help=_('Delete without asking for a confirmation'))
        common.add_deletion_options(parser)
        common.add_concurrency_option(parser)
        common.add_timeout_option(
            parser, remover.TIMEOUT, _(
                'How long to try again to remove resources in use'),
            'removal_timeout')

    def act(self, parsed_args, environments):
        age, names = parsed_args.older_than, parsed_args.names
        is_sweep = age is not None and not names
        if age is None and not names:
            raise errors.EnvironmentsError(
                'Which environment? Give its name, or --older-than')
        if parsed_args.prefix and not is_sweep:
            raise errors.EnvironmentsError(
                '--prefix is for --older-than without names: leave it out')
        if age is not None:
            before = timeutils.utcnow(with_timezone=True) - age
            names = [each.name for each in environments.all()
                     if each.created_at and each.created_at < before
                     and (each.name in names if names else
                          each.name.startswith(parsed_args.prefix or ''))]
        if parsed_args.dry_run or is_sweep:
            print('To be deleted: ' + (', '.join(names) or 'nothing'),
                  file=self.app.stdout, flush=True)
        if parsed_args.dry_run or (is_sweep and names and not parsed_args.yes
                                   and not _is_confirmed()):
            return
        common.delete_each(self.app, parsed_args, names, environments.delete)


def _is_confirmed():
    try:
        return input(_('Delete them? [y/N] ')).strip().lower() in ('y', 'yes')
    except EOFError:
        raise errors.EnvironmentsError(
            'Nothing was deleted, as nobody can be asked: give --yes')


class ScaleEnvironment(common.OfEnvironment, command.ShowOne):
    _description = _('Set the number of servers of a role')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument('role', metavar='<role>',
                            help=_("The role's name"))
        parser.add_argument('count', metavar='<count>', type=_count,
                            help=_(
            'How many servers it is to have; the ones with the highest '
            'numbers go first: take their nodes out of Ironic before'))
        _add_wait_options(parser)

    def act(self, parsed_args, environments):
        found = environments.scale(parsed_args.name, parsed_args.role,
                                   parsed_args.count, parsed_args.wait)
        return zip(*_values(found).items(), strict=True)


class EnrollEnvironment(common.OfEnvironment, command.Lister):
    _description = _('Enroll the servers of an environment in an Ironic')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        common.add_enrolment_options(parser)

    def act(self, parsed_args, environments):
        return common.enroll(
            self.app, parsed_args, environments, environments.describe_nodes(
                parsed_args.name, parsed_args.host_cloud))


class EnvironmentLogs(common.OfEnvironment):
    _description = _('Show or save the console logs of an environment')

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
            print(f'{found.name}: logs written to {parsed_args.output}',
                  file=self.app.stdout)
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
    _description = _('Create a snapshot of all servers, stopped for it')

    def act(self, parsed_args, environments):
        environments.snapshot(parsed_args.name, parsed_args.snapshot)
        print(f'{parsed_args.snapshot}: created', file=self.app.stdout)


class RestoreEnvironment(_SnapshotCommand):
    _description = _('Restore all servers from a snapshot, and stop them')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument(
            '--start', action='store_true',
            help=_('Start the servers that ran when the snapshot was made'))

    def act(self, parsed_args, environments):
        environments.restore(parsed_args.name, parsed_args.snapshot,
                             parsed_args.start)
        print(f'{parsed_args.snapshot}: restored', file=self.app.stdout)


class ListSnapshots(common.EnvironmentsCommand, command.Lister):
    _description = _('List snapshots of environments')

    def add_arguments(self, parser):
        parser.add_argument('name', metavar='<environment>', nargs='?',
                            help=_('Only those of this environment'))

    def act(self, parsed_args, environments):
        return ('Environment', 'Name', 'Status', 'Created At', 'Servers'), [
            (each.environment, each.name,
             environment.COMPLETE if each.is_complete
             else environment.INCOMPLETE, each.created_at, each.servers)
            for each in environments.snapshots.all(parsed_args.name)]


class DeleteSnapshots(common.OfEnvironment):
    _description = _('Delete snapshots of an environment')

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument(
            'snapshots', metavar='<snapshot>', nargs='+',
            type=common.valid_name,
            help=_("The snapshot's name; may be repeated"))
        common.add_deletion_options(parser)

    def act(self, parsed_args, environments):
        common.delete_each(
            self.app, parsed_args, parsed_args.snapshots,
            lambda name: environments.snapshots.delete(parsed_args.name, name))
