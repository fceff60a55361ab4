# SPDX-License-Identifier: Apache-2.0
"""What the commands share: connections, errors, options and columns."""

import argparse
import contextlib
import json
import re
import sys

from cliff import columns
import openstack
from osc_lib.command import command
from osc_lib import exceptions
from osc_lib.i18n import _

from quintupleo_power.environments import environment
from quintupleo_power.environments import errors
from quintupleo_power.environments import progress
from quintupleo_power.environments import retry
from quintupleo_power.environments import schema
from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import openstacksdk


def connection(app):
    """Return the client's connection to the cloud."""
    found = app.client_manager.sdk_connection
    answers.check(found.session)
    return openstacksdk.drop_microversions(found)


@contextlib.contextmanager
def shown_progress(interrupted='Interrupted.'):
    """Yield a Progress; raise EnvironmentsError as CommandError.

    :param interrupted: message after Ctrl-C, for which cliff exits with 130.
    """
    shown = progress.Progress(sys.stderr)
    try:
        yield shown
    except errors.EnvironmentsError as exc:
        if isinstance(exc.__context__, KeyboardInterrupt):
            # What could not be undone after it.
            shown.note(str(exc))
            raise exc.__context__
        raise exceptions.CommandError(str(exc))
    except KeyboardInterrupt:
        shown.note(interrupted)
        raise
    finally:
        shown.end()


def argument_type(pattern, expected, convert=str):
    """Return a type for argparse; errors say what is expected."""
    def parse(text):
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(
                f'{text!r} is not {expected}')
        return convert(text)

    return parse


_positive_int = argument_type('0*[1-9][0-9]*', 'an integer from 1 on', int)
# Of an environment, or of a snapshot.
valid_name = argument_type(
    schema.ENVIRONMENT_PATTERN, 'a name: use up to 40 letters, digits, dots, '
    'dashes and underscores, the first a letter or a digit')


class Command(command.Command):
    """A command with arguments of its own."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser):
        """Add the command's arguments."""


class EnvironmentsCommand(Command):
    """A command that does something with the project's environments."""

    # The message after Ctrl-C.
    interrupted = ('Interrupted. Nothing is lost: the same command goes on '
                   'where this one ended, and "openstack quintupleo '
                   'environment delete" removes what there is.')

    def take_action(self, parsed_args):
        options = {name: getattr(parsed_args, name) for name in (
            'concurrency', 'timeout', 'removal_timeout', 'snapshot_timeout')
            if hasattr(parsed_args, name)}
        with (shown_progress(self.interrupted) as shown,
              errors.translated()):
            return self.act(parsed_args, environment.Environments(
                connection(self.app), shown, **options))

    def produce_output(self, parsed_args, column_names, data):
        """Print nothing after a file on standard output."""
        return column_names and super().produce_output(
            parsed_args, column_names, data)


class OfEnvironment(EnvironmentsCommand):
    """A command for one environment, which is its first argument."""

    def add_arguments(self, parser):
        parser.add_argument('name', metavar='<environment>',
                            help=_("The environment's name"))


def add_concurrency_option(parser):
    parser.add_argument(
        '--concurrency', metavar='<number>', type=_positive_int,
        default=retry.CONCURRENCY,
        help=_('Requests that may be under way at once '
               '(default: %(default)s)'))


def add_timeout_option(parser, default, help_text, dest='timeout'):
    parser.add_argument(
        '--timeout', metavar='<seconds>', type=_positive_int, dest=dest,
        default=default, help=help_text + _(' (default: %(default)s)'))


def add_baremetal_options(group):
    """Add the options that :func:`baremetal` reads."""
    group.add_argument(
        '--os-baremetal-cloud', metavar='<cloud>',
        help=_("Entry of clouds.yaml whose Ironic it is (default: the host "
               "cloud's own)"))
    group.add_argument(
        '--os-baremetal-endpoint', metavar='<url>',
        help=_('Address of an Ironic that asks for no credentials'))


def add_enrolment_options(parser):
    """Add the options of commands that enroll nodes."""
    target = parser.add_mutually_exclusive_group()
    add_baremetal_options(target)
    target.add_argument(
        '-o', '--output', metavar='<file>',
        help=_('Write this file instead of enrolling; "-" for standard '
               'output, and nothing else there'))
    parser.add_argument(
        '--tag-servers', action='store_true',
        help=_("Set metadata quintupleo_node of each server to its node's "
               'UUID, as [quintupleo]require_server_metadata of the '
               'conductor wants it'))
    parser.add_argument(
        '--host-cloud', metavar='<cloud>',
        help=_("What the conductor's clouds.yaml calls the host cloud "
               '(default: none, for what its section [quintupleo] names)'))


def enroll(app, parsed_args, found, described):
    """Enroll nodes, or write them to a file; return columns and rows."""
    if parsed_args.output and parsed_args.tag_servers:
        raise errors.EnvironmentsError(
            '--tag-servers takes the UUIDs that Ironic gives the nodes: leave '
            'it out with -o, and tag the servers by "openstack server set '
            '--property quintupleo_node=<uuid of the node>"')
    if parsed_args.output:
        _write(app, parsed_args.output, {'nodes': described})
        if parsed_args.output == '-':
            return (), ()
        return ('Name', 'Server'), [
            (each['name'], each['driver_info']['quintupleo_server'])
            for each in described]
    return ('Name', 'UUID', 'Server', 'Outcome'), found.enroll(
        described, baremetal(app, parsed_args), parsed_args.tag_servers)


def baremetal(app, parsed_args):
    """Return openstacksdk's proxy of the Ironic that the options name."""
    if parsed_args.os_baremetal_endpoint:
        return openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type='none',
            endpoint=parsed_args.os_baremetal_endpoint).baremetal
    if parsed_args.os_baremetal_cloud:
        with errors.translated('--os-baremetal-cloud'):
            return openstacksdk.drop_microversions(openstack.connect(
                cloud=parsed_args.os_baremetal_cloud)).baremetal
    cloud = connection(app)
    with contextlib.suppress(*errors.CLOUD_ERRORS):
        # openstacksdk has several ways to say that it does not exist.
        if cloud.baremetal.get_endpoint():
            return cloud.baremetal
    raise errors.EnvironmentsError(
        'The host cloud has no Ironic of its own: name another one with '
        '--os-baremetal-cloud or --os-baremetal-endpoint')


def _write(app, path, content):
    text = json.dumps(content, indent=2) + '\n'
    if path == '-':
        app.stdout.write(text)
        return
    try:
        with open(path, 'w', encoding='utf-8') as target:
            target.write(text)
    except OSError as exc:
        raise errors.EnvironmentsError(
            f'{path} cannot be written: {exc.strerror}')


class LinesColumn(columns.FormattableColumn):
    """A list of dicts, shown to users as lines of a format."""

    def __init__(self, value, line):
        super().__init__(value)
        self._line = line

    def human_readable(self):
        """Return a line for each dict."""
        return '\n'.join(
            self._line.format(**{
                name: ', '.join(value) if isinstance(value, list) else value
                for name, value in each.items()})
            for each in self._value)


def add_deletion_options(parser):
    parser.add_argument(
        '--ignore-missing', action='store_true',
        help=_('It is no error if one does not exist'))


def delete_each(app, parsed_args, names, delete):
    """Delete each of some names, and raise at the end what was wrong.

    :param delete: function that returns whether it existed.
    """
    problems = []
    for name in names:
        # An error of one does not keep the others.
        try:
            with errors.translated():
                existed = delete(name)
            if not (existed or parsed_args.ignore_missing):
                raise errors.EnvironmentsError('it does not exist')
        except errors.EnvironmentsError as exc:
            problems.append(f'{name}: {exc}')
        else:
            print(f'{name}: ' + ('deleted' if existed else 'does not exist'),
                  file=app.stdout)
    if problems:
        raise errors.EnvironmentsError('\n'.join([
            *problems, f'{len(problems)} of {len(names)} failed to delete.']))
