# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/minicloud."""

import argparse
import sys

from onebox.minicloud import cloud as whole
from onebox.minicloud import network
from onebox.minicloud import nova
from onebox.minicloud import settings
from onebox import progress
from onebox import system

DESCRIPTION = '''\
A real OpenStack cloud on this machine: Keystone, Glance, Placement, Neutron
and Nova, and Cinder if asked for, from PyPI, with MariaDB, RabbitMQ, libvirt,
Open vSwitch and Ceph from Debian packages. Everything listens on 127.0.0.1
only; with layer 3 the APIs do on an address for guests, too.
'''
EPILOG = '''\
environment variables:
  QUINTUPLEO_STATE_DIR  state, deleted by "down" but for its logs
                        (%s)
  QUINTUPLEO_CACHE_DIR  what can be made again, kept by "down"
                        (%s)
''' % (system.STATE_DIR, system.CACHE_DIR)


def _choices():
    """Return the options of the commands that decide what the cloud has."""
    choices = argparse.ArgumentParser(add_help=False)
    choices.add_argument(
        '--hypervisor', choices=('libvirt', 'fake'),
        help='libvirt runs guests (the default); fake only says so')
    choices.add_argument(
        '--volumes', action='store_true',
        help='with Cinder, its volumes in a small Ceph cluster; a cloud that '
             'is there gains them')
    choices.add_argument(
        '--layer3', action='store_true',
        help='with routers and floating IPs that work, an external network '
             '"public" that this machine is on, and APIs that guests reach '
             'there; only for a new cloud with libvirt')
    choices.add_argument(
        '--nova', choices=nova.RELEASES,
        help=f'release of Nova: {nova.help_text()}; others than the default '
             'only with a fake hypervisor')
    return choices


def parser():
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog='minicloud', description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = result.add_subparsers(dest='command', required=True,
                                     metavar='COMMAND')
    choices = _choices()
    command = commands.add_parser(
        'up', parents=[choices],
        help='make the cloud, or what is missing of it')
    command.set_defaults(function=up)
    command = commands.add_parser(
        'install', parents=[choices],
        help='only fetch and install what the cloud runs on; without a '
             'network "up" then does the rest')
    command.set_defaults(function=install)
    command = commands.add_parser(
        'status', help='show services; exit code 0 if all are healthy')
    command.set_defaults(function=status)
    command = commands.add_parser(
        'down', help='stop and delete the cloud with all its guests')
    command.set_defaults(function=down)
    command = commands.add_parser(
        'plug', help='put this machine on a network of the cloud')
    command.add_argument('network', help='name or UUID of the network')
    command.add_argument('address', help='address for this machine with '
                         'prefix length, such as 192.0.2.1/24')
    command.set_defaults(function=plug)
    command = commands.add_parser(
        'unplug', help='take this machine off a network again')
    command.add_argument('network', help='name or UUID of the network')
    command.set_defaults(function=unplug)
    return result


def main(argv=None):
    """Run the command; return its exit code."""
    arguments = parser().parse_args(argv)
    try:
        system.require_root()
        return arguments.function(arguments) or 0
    except system.Error as error:
        print('\n%s' % error.report(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nInterrupted. What runs was left running: "tools/minicloud '
              'up" goes on, "tools/minicloud down" removes it.',
              file=sys.stderr)
        return 130


def up(arguments):
    """Make the cloud."""
    cloud = settings.Settings()
    with whole.lock(cloud):
        # What another run decided while this one waited to begin counts.
        cloud = settings.Settings()
        shown = progress.Progress('minicloud up', whole.STAGES_UP)
        whole.up(cloud, shown, arguments.hypervisor, arguments.volumes,
                 arguments.nova, arguments.layer3)
        shown.summary()
    print('''
The cloud is up. Guests: %s
Use it as its tenant:
    export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=minicloud
    %s server list
OS_CLOUD=minicloud-admin is its administrator.''' % (
        whole.virtualization(cloud), cloud.clouds_yaml,
        cloud.venv_link / 'bin/openstack'))


def install(arguments):
    """Have what the cloud runs on."""
    cloud = settings.Settings()
    with whole.lock(cloud):
        cloud = settings.Settings()
        whole.install(
            cloud, progress.Progress('minicloud install',
                                     whole.STAGES_INSTALL),
            arguments.hypervisor, arguments.volumes, arguments.nova,
            arguments.layer3)


def status(arguments):
    """Show the services."""
    cloud = settings.Settings()
    if not cloud.exists():
        print('There is no minicloud. "tools/minicloud up" makes one.')
        return 1
    rows = whole.examine(cloud)
    line = '%-26s %8s  %-9s %-19s %s'
    print(line % ('SERVICE', 'PID', 'HEALTH', 'PORTS', 'LOG'))
    for name, pid, healthy, ports, log in rows:
        print(line % (name, pid, 'ok' if healthy else 'NOT OK', ports, log))
    services, guests = whole.memory(cloud)
    print('\nNova: %s. Hypervisor: %s. Guests: %s' % (
        cloud.nova, cloud.hypervisor, whole.virtualization(cloud)))
    print('Memory: services %.1f GiB, guests %.1f GiB' % (
        services / 2**30, guests / 2**30))
    if cloud.layer3:
        print('External network: %s, %s; this machine is %s on it' % (
            settings.EXTERNAL_NETWORK, cloud.public_network,
            cloud.public_address))
    print('Credentials: %s' % cloud.clouds_yaml)
    return 0 if all(row[2] for row in rows) else 1


def down(arguments):
    """Delete the cloud."""
    cloud = settings.Settings()
    with whole.lock(cloud):
        cloud = settings.Settings()
        shown = progress.Progress('minicloud down', whole.STAGES_DOWN)
        whole.down(cloud, shown)
    print('\nNothing of the cloud runs. Logs of the last run: %s\n'
          'Kept for the next time: %s' % (cloud.logs,
                                          cloud.cache / 'minicloud'))


def plug(arguments):
    """Put this machine on a network."""
    device = network.plug_network(_running(), arguments.network,
                                  arguments.address)
    print('%s has %s.' % (device, arguments.address))


def unplug(arguments):
    """Take this machine off a network."""
    network.unplug_network(_running(), arguments.network)


def _running():
    cloud = settings.Settings()
    if not cloud.exists():
        raise system.Error('There is no minicloud. "tools/minicloud up" '
                           'makes one.')
    return cloud
