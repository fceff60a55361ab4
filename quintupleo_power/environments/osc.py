# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo ...``."""

import contextlib
import datetime
import json
import re
import sys

from cliff import columns
import openstack
from osc_lib.cli import format_columns
from osc_lib.command import command
from osc_lib import exceptions
from osc_lib.i18n import _
import yaml

from quintupleo_power.checks import clouds
from quintupleo_power.checks import conductor
from quintupleo_power.checks import results
from quintupleo_power.checks import runner
from quintupleo_power.checks import trial
from quintupleo_power.environments import conversion
from quintupleo_power.environments import definition
from quintupleo_power.environments import document
from quintupleo_power.environments import environment
from quintupleo_power.environments import failures
from quintupleo_power.environments import images
from quintupleo_power.environments import mark
from quintupleo_power.environments import owners
from quintupleo_power.environments import patience
from quintupleo_power.environments import plan
from quintupleo_power.environments import progress
from quintupleo_power.environments import remover
from quintupleo_power.environments import schema
from quintupleo_power.environments import sets
from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import snapshots

_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}


class CreateImages(command.Lister):
    _description = _(
        'Make the images that a host cloud needs: those that boot a server '
        'from the network and the empty ones that servers are made from. '
        'What is there already stays.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--iso', metavar='<file>', required=True,
            help=_('CD image to boot from the network with, as '
                   'tools/build-ipxe-image makes it'))
        parser.add_argument(
            '--network-first-iso', metavar='<file>',
            help=_('Make the images for network-first servers, too, of this '
                   'CD image, as tools/build-ipxe-image --network-first '
                   'makes it'))
        parser.add_argument(
            '--boot-mode', action='append', choices=images.BOOT_MODES,
            help=_('Boot mode to make images for; may be repeated '
                   '(default: both)'))
        parser.add_argument(
            '--hypervisor-type', metavar='<type>',
            help=_('Make images whose servers Nova schedules to hypervisors '
                   'of this type, such as qemu, lxc or vmware; it ends the '
                   'names of the empty images'))
        parser.add_argument(
            '--prefix', metavar='<prefix>', default='quintupleo',
            help=_('What the names begin with (default: %(default)s); with '
                   'another one, set rescue_image_bios, rescue_image_uefi, '
                   'empty_image_bios and empty_image_uefi in section '
                   '[quintupleo], and name the empty ones in environments'))
        parser.add_argument(
            '--replace', action='store_true',
            help=_('Replace images of these names and other content'))
        return parser

    def take_action(self, parsed_args):
        """Make the images, and list them.

        :param parsed_args: the command's arguments.
        :returns: (names of the columns, rows).
        :raises: CommandError if an image cannot be made.
        """
        columns = ('name', 'id', 'boot_mode', 'purpose', 'outcome')
        try:
            made = list(images.create_all(
                _connection(self.app), parsed_args.iso,
                parsed_args.boot_mode or images.BOOT_MODES,
                parsed_args.prefix, parsed_args.replace,
                parsed_args.network_first_iso,
                parsed_args.hypervisor_type))
        except images.ImageError as exc:
            raise exceptions.CommandError(str(exc))
        return (('Name', 'ID', 'Boot Mode', 'Purpose', 'Outcome'),
                [tuple(getattr(image, column) for column in columns)
                 for image in made])


def _connection(app):
    """Return the client's connection to the cloud."""
    connection = app.client_manager.sdk_connection
    answers.check(connection.session)
    return connection


@contextlib.contextmanager
def _environments(app, parsed_args):
    """The project's environments, with errors as the client shows them."""
    shown = progress.Progress(sys.stderr)
    try:
        yield environment.Environments(
            _connection(app), shown,
            getattr(parsed_args, 'concurrency', patience.CONCURRENCY),
            getattr(parsed_args, 'timeout', environment.TIMEOUT),
            getattr(parsed_args, 'removal_timeout', remover.PATIENCE),
            getattr(parsed_args, 'snapshot_timeout', sets.TIMEOUT))
    except (failures.Failure, document.DocumentError,
            conversion.ConversionError) as exc:
        shown.end()
        raise exceptions.CommandError(str(exc))
    except failures.CLOUD_ERRORS as exc:
        shown.end()
        raise exceptions.CommandError(
            f'The cloud: {failures.explain(exc)}')
    except KeyboardInterrupt:
        shown.end()
        raise exceptions.CommandError(
            'Interrupted. Nothing is lost: the same command goes on where '
            'this one ended, and "openstack quintupleo environment delete" '
            'removes what there is.')
    finally:
        shown.end()


def _positive(text):
    if not re.fullmatch('[0-9]+', text) or not int(text):
        raise ValueError(text)
    return int(text)


_positive.__name__ = 'number from 1 on'


def _number(text):
    if not re.fullmatch('[0-9]+', text):
        raise ValueError(text)
    return int(text)


_number.__name__ = 'number from 0 on'


def _age(text):
    """Read an age such as 6h."""
    match = re.fullmatch('([0-9]+)([smhd])', text)
    if not match:
        raise ValueError(text)
    return datetime.timedelta(seconds=int(match[1]) * _UNITS[match[2]])


_age.__name__ = 'age such as 90m, 6h or 2d'


def _add_concurrency(parser):
    parser.add_argument(
        '--concurrency', metavar='<number>', type=_positive,
        default=patience.CONCURRENCY,
        help=_('Requests that may be under way at once '
               '(default: %(default)s)'))


def _add_pace(parser):
    _add_concurrency(parser)
    parser.add_argument(
        '--timeout', metavar='<seconds>', type=_positive,
        default=environment.TIMEOUT,
        help=_('How long to wait for one server or volume '
               '(default: %(default)s)'))


def _add_wait(parser):
    parser.add_argument(
        '--wait', action='store_true',
        help=_('Wait until all servers are built, and those of kind '
               'baremetal switched off; without it, "create --wait" does so '
               'later'))


class _Lines(columns.FormattableColumn):
    """A list that people read as lines, and programs as it is."""

    def __init__(self, value, line):
        super().__init__(value)
        self._line = line

    def human_readable(self):
        """The entries as lines."""
        return '\n'.join(
            self._line.format(**{
                name: ', '.join(value) if isinstance(value, list) else value
                for name, value in each.items()})
            for each in self._value)


def _summary(found):
    """An environment for ShowOne."""
    servers = [{
        'name': each.body.name, 'id': each.id,
        'role': each.key.split('.')[1], 'status': each.body.status,
        'addresses': _addresses(found, each)}
        for each in found.all(plan.SERVER)]
    columns = {
        'name': found.name,
        'status': found.status,
        'created_at': _moment(found.created_at),
        'roles': format_columns.DictColumn(
            {role.name: f'{role.count} ({role.kind})'
             for role in found.definition.roles} if found.definition else {}),
        'servers': _Lines(
            sorted(servers, key=lambda each: _natural(each['name'])),
            '{name} {status} {id}'),
        'networks': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.NETWORK)}),
        'virtual_ips': format_columns.DictColumn(
            {each.body.name: ', '.join(_fixed(each.body))
             for each in found.all(plan.VIRTUAL_IP)}),
        'ports': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.PORT)
             if each.key.count('.') == 1}),
        'floating_ips': format_columns.DictColumn(
            {mark.name(found.name, each.key.partition('.')[2]):
             each.body.floating_ip_address
             for each in found.all(plan.FLOATING_IP)}),
        'volumes': format_columns.DictColumn(
            {each.body.name: each.id for each in found.all(plan.VOLUME)}),
    }
    return tuple(columns), tuple(columns.values())


def _addresses(found, server):
    """The addresses that the ports of a server keep."""
    prefix = plan.key(plan.PORT, *server.key.split('.')[1:], '')
    return [address for each in found.all(plan.PORT)
            if each.key.startswith(prefix)
            for address in _fixed(each.body)]


def _fixed(port):
    return [each['ip_address'] for each in port.fixed_ips or ()]


def _moment(created_at):
    return created_at.strftime('%Y-%m-%dT%H:%M:%SZ') if created_at else ''


def _natural(name):
    """Sort compute-2 before compute-10."""
    return [int(part) if part.isdigit() else part
            for part in re.split('([0-9]+)', name)]


class CreateEnvironment(command.ShowOne):
    _description = _(
        'Make an environment from a file: networks, servers that become '
        'bare-metal nodes, and ordinary ones. What is there already stays, '
        'so that the same command goes on after an interruption.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file', metavar='<file>',
            help=_('The environment in YAML; environment.yaml.sample has an '
                   'example of each key'))
        parser.add_argument(
            '--name', metavar='<name>',
            help=_('Its name (default: "name" in the file)'))
        _add_wait(parser)
        parser.add_argument(
            '--dry-run', action='store_true',
            help=_('Show what would be made, and what it costs in quota'))
        _add_pace(parser)
        return parser

    def take_action(self, parsed_args):
        """Make the environment, or forecast that.

        :param parsed_args: the command's arguments.
        :returns: (names of the members, their values).
        :raises: CommandError if it cannot be made.
        """
        with _environments(self.app, parsed_args) as environments:
            wanted = definition.load(parsed_args.file)
            name = parsed_args.name or wanted.name
            if not name:
                raise failures.Failure(
                    f'{parsed_args.file} has no "name": add one, or give '
                    '--name')
            if not re.fullmatch(schema.ENVIRONMENT_PATTERN, name):
                raise failures.Failure(
                    f'"{name}" cannot be the name of an environment: up to '
                    '40 letters, digits, dots, dashes and underscores, the '
                    'first a letter or a digit')
            if parsed_args.dry_run:
                return _forecast(environments.forecast(wanted, name))
            return _summary(environments.create(
                wanted, name, parsed_args.wait))


def _forecast(found):
    return ('name', 'to_make', 'quota'), (
        found.name,
        _Lines([{'what': what, 'names': sorted(names, key=_natural)}
                for what, names in found.names().items()],
               '{what}: {names}'),
        _Lines([
            {'what': each.what, 'needed': each.needed,
             'used': _or_unknown(each.used),
             'limit': 'none' if each.used is not None and each.limit is None
                      else _or_unknown(each.limit)}
            for each in found.costs],
            '{what}: {needed} needed, {used} in use, limit {limit}'))


def _or_unknown(number):
    return 'unknown' if number is None else number


class ListEnvironments(command.Lister):
    _description = _(
        'List the environments of the project. COMPLETE ones have all that '
        'their file says, INCOMPLETE ones were interrupted or have lost '
        'something, and LEFTOVER is what a deletion could not remove.')

    def take_action(self, parsed_args):
        """List the environments.

        :param parsed_args: the command's arguments.
        :returns: (names of the columns, rows).
        :raises: CommandError if the cloud cannot be asked.
        """
        with _environments(self.app, parsed_args) as environments:
            return (('Name', 'Status', 'Created At', 'Servers'), [
                (each.name, each.status, _moment(each.created_at),
                 len(each.all(plan.SERVER))) for each in environments.all()])


class ShowEnvironment(command.ShowOne):
    _description = _('Show an environment.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', help=_('Its name'))
        return parser

    def take_action(self, parsed_args):
        """Show the environment.

        :param parsed_args: the command's arguments.
        :returns: (names of the members, their values).
        :raises: CommandError if there is none of that name.
        """
        with _environments(self.app, parsed_args) as environments:
            return _summary(environments.get(parsed_args.name))


class DeleteEnvironment(command.Command):
    _description = _(
        'Remove environments: all that carries their mark, and nothing '
        'else. One that is not there is no mistake.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
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
        _add_concurrency(parser)
        parser.add_argument(
            '--timeout', metavar='<seconds>', type=_positive,
            dest='removal_timeout', default=remover.PATIENCE,
            help=_('How long to try again to remove what is still in use '
                   '(default: %(default)s)'))
        return parser

    def take_action(self, parsed_args):
        """Remove the environments.

        :param parsed_args: the command's arguments.
        :raises: CommandError if one of them could not be removed.
        """
        with _environments(self.app, parsed_args) as environments:
            names = parsed_args.names
            if parsed_args.older_than is not None:
                names = self._old(environments, parsed_args)
            elif not names:
                raise failures.Failure(
                    'Which environment? Give its name, or --older-than')
            self._delete(environments, names)

    def _old(self, environments, parsed_args):
        before = (datetime.datetime.now(datetime.timezone.utc)
                  - parsed_args.older_than)
        chosen = parsed_args.names
        return [each.name for each in environments.all()
                if each.created_at and each.created_at < before
                and (each.name in chosen if chosen
                     else each.name.startswith(parsed_args.prefix))]

    def _delete(self, environments, names):
        problems = []
        for name in names:
            # One that stays does not keep the others.
            try:
                existed = environments.delete(name)
            except failures.Stopped:
                raise
            except failures.Failure as exc:
                problems.append(f'Environment "{name}":\n{exc}')
            else:
                print(f'{name}: ' + ('removed' if existed
                                     else 'there is none'),
                      file=self.app.stdout)
        if not names:
            print('There is none to be removed.', file=self.app.stdout)
        if problems:
            raise failures.Failure('\n'.join(problems))


class ScaleEnvironment(command.ShowOne):
    _description = _(
        'Give a role of an environment another number of servers. Those with '
        'the highest numbers go first: take their nodes out of Ironic '
        'before.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>',
                            help=_("The environment's name"))
        parser.add_argument('role', metavar='<role>',
                            help=_("The role's name"))
        parser.add_argument('count', metavar='<count>', type=_number,
                            help=_('How many servers it is to have'))
        _add_wait(parser)
        _add_pace(parser)
        return parser

    def take_action(self, parsed_args):
        """Change the number of servers.

        :param parsed_args: the command's arguments.
        :returns: (names of the members, their values).
        :raises: CommandError if that cannot be done.
        """
        with _environments(self.app, parsed_args) as environments:
            return _summary(environments.scale(
                parsed_args.name, parsed_args.role, parsed_args.count,
                parsed_args.wait))


def _snapshot_name(text):
    if not snapshots.NAMES.fullmatch(text):
        raise ValueError(text)
    return text


_snapshot_name.__name__ = (
    'name of up to 40 letters, digits, dots, dashes and underscores')


def _add_snapshot(parser):
    parser.add_argument('name', metavar='<name>',
                        help=_("The environment's name"))
    parser.add_argument('snapshot', metavar='<snapshot>',
                        type=_snapshot_name, help=_("The snapshot's name"))
    parser.add_argument(
        '--timeout', metavar='<seconds>', type=_positive,
        dest='snapshot_timeout', default=sets.TIMEOUT,
        help=_('How long to wait for one server (default: %(default)s)'))


class SnapshotEnvironment(command.Command):
    _description = _(
        'Keep the disks of all servers of an environment as they are at one '
        'moment, all or none. Servers that run are stopped for it, and '
        'started again.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        _add_snapshot(parser)
        return parser

    def take_action(self, parsed_args):
        """Make the snapshot.

        :param parsed_args: the command's arguments.
        :raises: CommandError if it cannot be made.
        """
        with _environments(self.app, parsed_args) as environments:
            environments.snapshot(parsed_args.name, parsed_args.snapshot)


class RestoreEnvironment(command.Command):
    _description = _(
        'Bring the disks of all servers of an environment back to a '
        'snapshot. The servers are switched off then.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        _add_snapshot(parser)
        parser.add_argument(
            '--start', action='store_true',
            help=_('Start the servers that ran when the snapshot was made'))
        return parser

    def take_action(self, parsed_args):
        """Bring the servers back to the snapshot.

        :param parsed_args: the command's arguments.
        :raises: CommandError if that cannot be done.
        """
        with _environments(self.app, parsed_args) as environments:
            environments.restore(parsed_args.name, parsed_args.snapshot,
                                 parsed_args.start)


class ListSnapshots(command.Lister):
    _description = _(
        'List the snapshots of environments. An INCOMPLETE one was '
        'interrupted: make it again, or delete it.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>', nargs='?',
                            help=_('Only those of this environment'))
        return parser

    def take_action(self, parsed_args):
        """List the snapshots.

        :param parsed_args: the command's arguments.
        :returns: (names of the columns, rows).
        :raises: CommandError if the cloud cannot be asked.
        """
        with _environments(self.app, parsed_args) as environments:
            return (('Environment', 'Name', 'Status', 'Created At',
                     'Servers'), [
                (each.environment, each.name,
                 environment.COMPLETE if each.is_complete
                 else environment.INCOMPLETE, each.created_at, each.servers)
                for each in environments.snapshots(parsed_args.name)])


class DeleteSnapshots(command.Command):
    _description = _(
        'Remove snapshots of an environment. One that is not there is no '
        'mistake.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>',
                            help=_("The environment's name"))
        parser.add_argument(
            'snapshots', metavar='<snapshot>', nargs='+',
            type=_snapshot_name, help=_("The snapshot's name; may be "
                                        'repeated'))
        return parser

    def take_action(self, parsed_args):
        """Remove the snapshots.

        :param parsed_args: the command's arguments.
        :raises: CommandError if something of one stays.
        """
        with _environments(self.app, parsed_args) as environments:
            for each in parsed_args.snapshots:
                existed = environments.delete_snapshot(parsed_args.name, each)
                print(f'{each}: ' + ('removed' if existed
                                     else 'there is none'),
                      file=self.app.stdout)


class EnrollEnvironment(command.Lister):
    _description = _(
        'Make the machines of an environment nodes of an Ironic, each once, '
        'or write a file for "openstack baremetal create".')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='<name>',
                            help=_("The environment's name"))
        where = parser.add_mutually_exclusive_group()
        where.add_argument(
            '--os-baremetal-cloud', metavar='<cloud>',
            help=_("Entry of clouds.yaml whose Ironic it is (default: the "
                   "host cloud's own)"))
        where.add_argument(
            '--os-baremetal-endpoint', metavar='<url>',
            help=_('Address of an Ironic that asks for no credentials'))
        where.add_argument(
            '-o', '--output', metavar='<file>',
            help=_('Write this file instead of enrolling'))
        parser.add_argument(
            '--host-cloud', metavar='<cloud>',
            help=_("What the conductor's clouds.yaml calls the host cloud "
                   '(default: none, for what its section [quintupleo] '
                   'names)'))
        return parser

    def take_action(self, parsed_args):
        """Enrol the machines, or write a file of them.

        :param parsed_args: the command's arguments.
        :returns: (names of the columns, rows).
        :raises: CommandError if that cannot be done.
        """
        with _environments(self.app, parsed_args) as environments:
            if parsed_args.output:
                described = environments.enroll(
                    parsed_args.name, cloud=parsed_args.host_cloud)
                _write(self.app, parsed_args.output, {'nodes': described})
                return ('Name', 'Server'), [
                    (each['name'], each['driver_info']['quintupleo_server'])
                    for each in described]
            return ('Name', 'UUID', 'Server', 'Outcome'), [
                (each.name, each.id, each.server, each.outcome)
                for each in environments.enroll(
                    parsed_args.name, _baremetal(self.app, parsed_args),
                    parsed_args.host_cloud)]


def _baremetal(app, parsed_args):
    """openstacksdk's proxy of the Ironic that is meant."""
    if parsed_args.os_baremetal_endpoint:
        return openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type='none',
            endpoint=parsed_args.os_baremetal_endpoint).baremetal
    if parsed_args.os_baremetal_cloud:
        try:
            return openstack.connect(
                cloud=parsed_args.os_baremetal_cloud).baremetal
        except openstack.exceptions.ConfigException as exc:
            raise failures.Failure(f'--os-baremetal-cloud: {exc}')
    connection = _connection(app)
    try:
        if connection.baremetal.get_endpoint():
            return connection.baremetal
    except failures.CLOUD_ERRORS:
        # openstacksdk says in its way that there is none.
        pass
    raise failures.Failure(
        'The host cloud has no Ironic of its own: say which one is to have '
        'the nodes with --os-baremetal-cloud or --os-baremetal-endpoint, or '
        'write a file with -o')


def _write(app, path, content):
    text = json.dumps(content, indent=2) + '\n'
    if path == '-':
        app.stdout.write(text)
        return
    try:
        with open(path, 'w', encoding='utf-8') as target:
            target.write(text)
    except OSError as exc:
        raise failures.Failure(f'{path} cannot be written: {exc.strerror}')


class ConvertNodes(command.Command):
    _description = _(
        'Convert a file of nodes that was written for virtual BMCs (IPMI or '
        'Redfish) for the hardware type quintupleo. The servers are found by '
        'their UUID or by the MAC addresses of their ports.')

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'file', metavar='<file>',
            help=_('nodes.json (instackenv.json), or a file for "openstack '
                   'baremetal create"'))
        parser.add_argument(
            '-o', '--output', metavar='<file>', default='-',
            help=_('Write this file (default: standard output)'))
        parser.add_argument(
            '--host-cloud', metavar='<cloud>',
            help=_("What the conductor's clouds.yaml calls the host cloud"))
        return parser

    def take_action(self, parsed_args):
        """Convert the file.

        :param parsed_args: the command's arguments.
        :raises: CommandError if it cannot be converted.
        """
        with _environments(self.app, parsed_args):
            try:
                with open(parsed_args.file, encoding='utf-8') as source:
                    content = yaml.safe_load(source)
            except (OSError, ValueError, yaml.YAMLError) as exc:
                raise failures.Failure(
                    f'{parsed_args.file} cannot be read: '
                    f'{getattr(exc, "strerror", None) or exc}')
            converted = conversion.convert(
                content, owners.Servers(_connection(self.app)).find,
                parsed_args.host_cloud)
            for note in converted.notes:
                print(note, file=sys.stderr)
            _write(self.app, parsed_args.output, converted.content)


class Check(command.Lister):
    _description = _(
        'Look whether a cloud can be a host cloud, and whether a conductor '
        'is set up for it. Nothing is changed without --try. The exit status '
        'is 1 if a check fails.')

    # Credentials that do not serve are something to be found, too.
    auth_required = False

    def get_parser(self, prog_name):
        """Return the parser of the command's arguments.

        :param prog_name: what the usage message calls the command.
        :returns: an :class:`argparse.ArgumentParser`.
        """
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--config-file', metavar='<file>', action='append',
            dest='config_files',
            help=_("Configuration of a conductor, which then names the "
                   'cloud, its credentials and the images; may be repeated '
                   '(default: what a conductor reads, unless a cloud is '
                   'named)'))
        parser.add_argument(
            '--flavor', metavar='<flavor>',
            help=_('Flavor of a machine that is to be made, for the quota '
                   'and for --try'))
        parser.add_argument(
            '--server', metavar='<server>', action='append', default=[],
            dest='servers',
            help=_('Look at this server, too; UUID or name; may be repeated'))
        parser.add_argument(
            '--network', metavar='<network>', action='append', default=[],
            dest='networks',
            help=_('Look at this network, on which machines are to be '
                   'provisioned; UUID or name; may be repeated'))
        parser.add_argument(
            '--environment', metavar='<name>', action='append', default=[],
            dest='environments',
            help=_('Look at the servers of this environment, too; may be '
                   'repeated'))
        parser.add_argument(
            '--try', action='store_true', dest='is_trial',
            help=_('Make a machine, use it, and remove it; needs --flavor'))
        parser.add_argument(
            '--timeout', metavar='<seconds>', type=_positive,
            default=environment.TIMEOUT,
            help=_('With --try: how long to wait for one thing '
                   '(default: %(default)s)'))
        return parser

    def take_action(self, parsed_args):
        """Make the checks, and list what they found.

        :param parsed_args: the command's arguments.
        :returns: (names of the columns, rows).
        :raises: CommandError if --try lacks a flavor, the configuration
            cannot be read, or something of the trial stays.
        """
        if parsed_args.is_trial and not parsed_args.flavor:
            raise exceptions.CommandError(
                '--try needs the flavor of the machine that it makes: give '
                '--flavor; "openstack flavor list" shows those that there '
                'are')
        settings = self._settings(parsed_args.config_files)
        target = (clouds.of_conductor() if settings
                  else clouds.of_user(self._connect))
        found = self._found(target, settings, parsed_args)
        self._has_failed = any(each.verdict.result == results.FAIL
                               for each in found)
        return ('Check', 'Result', 'Found', 'What To Do'), [
            (each.check, each.verdict.result, each.verdict.found,
             each.verdict.advice) for each in found]

    def run(self, parsed_args):
        """Run the command, whose exit status tells of checks that failed.

        :param parsed_args: the command's arguments.
        :returns: the exit status: 1 if a check failed, else 0.
        """
        return super().run(parsed_args) or int(self._has_failed)

    def _settings(self, files):
        """What a conductor is configured with, if that is what is meant."""
        options = self.app.options
        named = options.cloud or getattr(options, 'auth_url', None)
        files = files or ([] if named else conductor.usual_files())
        try:
            return conductor.load(files) if files else None
        except conductor.ConfigurationError as exc:
            raise exceptions.CommandError(str(exc))

    def _connect(self):
        # The client's own connection exists only after a sign-in.
        options = self.app.options
        return openstack.connection.Connection(
            config=self.app.cloud_config.get_one(
                cloud=options.cloud, argparse=options))

    def _found(self, target, settings, parsed_args):
        wishes = runner.Wishes(
            parsed_args.flavor, parsed_args.servers, parsed_args.networks,
            parsed_args.environments)
        shown = progress.Progress(sys.stderr)
        tried = (trial.Trial(target.connection, target.compute, target.host,
                             parsed_args.flavor, shown, parsed_args.timeout)
                 if parsed_args.is_trial and target.connection else None)
        try:
            with tried or contextlib.nullcontext():
                return list(runner.run(target, wishes, settings, tried))
        except failures.Failure as exc:
            raise exceptions.CommandError(str(exc))
        except KeyboardInterrupt:
            raise exceptions.CommandError(
                'Interrupted. Nothing is left of what --try made.' if tried
                else 'Interrupted. Nothing was changed.')
        finally:
            shown.end()
