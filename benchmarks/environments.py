# SPDX-License-Identifier: Apache-2.0
"""Many servers made and removed, beside the same by a script of the tenant.

The script sends the least that makes such machines: a port and a server for
each, and a stop once it is built, which one list a second tells for all. Both
sides may have as many requests under way. Run it with
``tools/benchmark environments``.
"""

import argparse
import concurrent.futures
import io
import os
import pathlib
import statistics
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / 'tools'),
                str(pathlib.Path(__file__).resolve().parents[1])]
sys.dont_write_bytecode = True

import openstack  # noqa: E402

from onebox.minicloud import settings  # noqa: E402
from onebox import system  # noqa: E402
from quintupleo_power.environments import definition  # noqa: E402
from quintupleo_power.environments import environment  # noqa: E402
from quintupleo_power.environments import images  # noqa: E402
from quintupleo_power.environments import progress  # noqa: E402
import report  # noqa: E402

NAME = 'benchmark'
FILE = '''
networks: {{provision: {{subnets: [{{cidr: 192.0.2.0/24}}]}}}}
roles:
  machine: {{flavor: tiny, count: {count}, nics: [{{network: provision}}]}}
'''
SIDES = ('script', 'ours')


class Benchmark:
    """Both sides of the comparison."""

    def __init__(self, connection, concurrency):
        self._connection = connection
        self._concurrency = concurrency
        name = 'quintupleo-empty-bios'
        self._image, _ = images.create(
            connection, name, images.content(images.EMPTY, 'bios'))
        self._flavor = connection.compute.find_flavor(
            'tiny', ignore_missing=False).id

    def by_a_script(self, number):
        """Make and remove so many; return the seconds of each."""
        neutron, nova = self._connection.network, self._connection.compute
        network = neutron.create_network(
            name=NAME, is_port_security_enabled=False)
        neutron.create_subnet(network_id=network.id, ip_version=4,
                              cidr='192.0.2.0/24', is_dhcp_enabled=False)
        ports = []

        def make(index):
            port = neutron.create_port(network_id=network.id,
                                       name=f'{NAME}-{index}')
            ports.append(port)
            nova.create_server(
                name=f'{NAME}-{index}', image_id=self._image,
                flavor_id=self._flavor, networks=[{'port': port.id}])

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self._concurrency) as pool:
            made = [pool.submit(make, index) for index in range(number)]
            self._stop_all(pool, number, made)
        took = time.monotonic() - begun
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self._concurrency) as pool:
            list(pool.map(nova.delete_server, list(nova.servers())))
            while list(nova.servers()):
                time.sleep(1)
            list(pool.map(neutron.delete_port, ports))
        neutron.delete_network(network)
        return took, time.monotonic() - begun

    def _stop_all(self, pool, number, made):
        """Stop each server once it is built, and wait for that."""
        nova, asked = self._connection.compute, set()
        while True:
            for future in made:
                if future.done():
                    future.result()
            servers = list(nova.servers())
            wrong = [server.name for server in servers
                     if server.status == 'ERROR']
            if wrong:
                raise system.Error('In ERROR: ' + ', '.join(wrong))
            if sum(server.status == 'SHUTOFF' and not server.task_state
                   for server in servers) == number:
                return
            for server in servers:
                if server.status == 'ACTIVE' and server.id not in asked:
                    asked.add(server.id)
                    made.append(pool.submit(nova.stop_server, server.id))
            time.sleep(1)

    def by_us(self, number):
        """Make and remove so many; return the seconds of each."""
        wanted = definition.parse(FILE.format(count=number))
        environments = environment.Environments(
            self._connection, progress.Progress(io.StringIO()),
            self._concurrency)
        begun = time.monotonic()
        environments.create(wanted, NAME)
        took = time.monotonic() - begun
        begun = time.monotonic()
        environments.delete(NAME)
        return took, time.monotonic() - begun


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog='benchmark environments',
                                     description=__doc__)
    parser.add_argument('--servers', type=int, default=50)
    parser.add_argument('--concurrency', type=int, default=10)
    parser.add_argument('--rounds', type=int, default=3)
    report.add_arguments(parser)
    arguments = parser.parse_args()
    cloud = settings.Settings(os.environ['QUINTUPLEO_STATE_DIR'])
    config = openstack.config.OpenStackConfig(
        config_files=[str(cloud.clouds_yaml)], load_envvars=False)
    connection = openstack.connection.Connection(
        config=config.get_one('minicloud'))
    benchmark = Benchmark(connection, arguments.concurrency)
    # Signs in, and lets Nova and Neutron begin.
    benchmark.by_a_script(2), benchmark.by_us(2)
    found = {side: [] for side in SIDES}
    for number in range(arguments.rounds):
        for side in SIDES if number % 2 else reversed(SIDES):
            run = (benchmark.by_a_script if side == 'script'
                   else benchmark.by_us)
            found[side].append(run(arguments.servers))
    medians = {side: [statistics.median(column)
                      for column in zip(*rounds, strict=True)]
               for side, rounds in found.items()}
    ratios = [ours / script for ours, script in zip(
        medians['ours'], medians['script'], strict=True)]
    table = [[f'{arguments.servers} servers, '
              f'median of {arguments.rounds} rounds', 'a script: seconds',
              'quintupleo: seconds', 'times the script']]
    for place, what in enumerate(('made', 'removed')):
        table.append([what, *(round(medians[side][place], 1)
                              for side in SIDES), round(ratios[place], 2)])
    report.write(arguments, 'environments',
                 {'Nova': system.release(cloud.nova_venv, 'nova')},
                 table, {**found, 'ratios': ratios})
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        sys.exit(1)
