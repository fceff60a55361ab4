#!/usr/bin/python3
# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Many nodes sent to PXE at once, beside the same by a script of the tenant.

The script has a thread for each server, which asks for the rescue and looks
once a second. The driver runs in a thread for each node, as Ironic's
conductor runs it, which includes Ironic's locks and database; Ironic as a
whole, which is asked through its API, is shown beside it. Needs
``tools/minicloud up --hypervisor fake``; QUINTUPLEO_STATE_DIR says where, if
not in the usual place.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import sys
import time

import fake_lab

from onebox import system

# Whole answers in the log would be measured, too.
LOG_LEVELS = 'keystoneauth=INFO,ironic=INFO'


class Benchmark:
    """Both sides of the comparison."""

    def __init__(self, lab, pairs):
        self.lab = lab
        self.servers = [server for server, _ in pairs]
        self.nodes = [node for _, node in pairs]
        self.rescue_image = lab.cloud.image.find_image(
            'quintupleo-rescue-bios', ignore_missing=False).id

    def by_a_script(self, number):
        """Rescue so many servers; return a dict of figures."""
        def rescue(server):
            self.lab.cloud.compute.rescue_server(
                server, None, self.rescue_image)
            self._wait_for(server, 'RESCUE')

        with self.lab.requests() as requests:
            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(number) as pool:
                list(pool.map(rescue, self.servers[:number]))
            took = time.monotonic() - begun
        self._back(self.servers[:number])
        return _figures(took, requests)

    def _back(self, servers):
        def unrescue(server):
            self.lab.cloud.compute.unrescue_server(server)
            self._wait_for(server, 'ACTIVE')

        fake_lab.each(unrescue, servers)

    def _wait_for(self, server, status):
        deadline = time.monotonic() + 600
        while True:
            found = self.lab.cloud.compute.get_server(server.id)
            if found.status == status and not found.task_state:
                return
            if time.monotonic() > deadline:
                raise system.Error(f'{server.name} is {found.status}.')
            time.sleep(1)

    def by_the_conductor(self, conductor, number):
        """Set PXE and reboot so many nodes; return a dict of figures."""
        nodes = [node.id for node in self.nodes[:number]]
        with self.lab.requests() as requests:
            answer = conductor.ask('to_pxe', nodes)
        self._require_rescue(number)
        conductor.ask('to_disk', nodes)
        return {**_figures(answer['seconds'], requests),
                'cpu seconds': answer['cpu seconds']}

    def _require_rescue(self, number):
        wrong = [server.name for server in map(
            self.lab.cloud.compute.get_server, self.servers[:number])
            if server.status != 'RESCUE']
        if wrong:
            raise system.Error('Not in RESCUE: ' + ', '.join(wrong))

    def by_ironic(self, number):
        """Set PXE and reboot so many nodes; return a dict of figures."""
        api = self.lab.nodes.connection.baremetal
        nodes = self.nodes[:number]
        with self.lab.requests() as requests:
            begun = time.monotonic()

            def send(node):
                api.set_node_boot_device(node, 'pxe', False)
                api.set_node_power_state(node, 'rebooting')

            with concurrent.futures.ThreadPoolExecutor(number) as pool:
                list(pool.map(send, nodes))
            self._wait({node.id for node in nodes})
            took = time.monotonic() - begun
        self._require_rescue(number)
        for node in nodes:
            api.set_node_power_state(node, 'rebooting')
        self._wait({node.id for node in nodes})
        return _figures(took, requests)

    def _wait(self, wanted):
        deadline = time.monotonic() + 600
        while wanted:
            for node in self.lab.nodes.connection.baremetal.nodes(
                    fields=['uuid', 'target_power_state', 'last_error']):
                if node.last_error:
                    raise system.Error(node.last_error)
                if not node.target_power_state:
                    wanted.discard(node.id)
            if time.monotonic() > deadline:
                raise system.Error(f'{len(wanted)} nodes are not done.')
            time.sleep(0.25)


def _figures(took, requests):
    reads = [moment for moment, method, _ in requests if method == 'GET']
    # While nothing is sent any more, all there is to do is to wait.
    sent = [moment for moment, method, _ in requests if method == 'POST']
    waiting = [moment for moment in reads if sent and moment > max(sent)]
    seconds = collections.Counter(
        moment.replace(microsecond=0) for moment in waiting)
    waited = ((max(waiting) - max(sent)).total_seconds() if waiting else 0)
    return {'seconds': took, 'reads': len(reads), 'actions': len(sent),
            'reads/s': len(reads) / took,
            'then reads/s': len(waiting) / waited if waited > 1 else None,
            'most': max(seconds.values(), default=0)}


def _row(title, figures):
    return f'{title:<24}' + ''.join(
        f'{"-" if value is None else format(value, ".1f"):>14}'
        for value in figures.values())


def measure(benchmark, title, ours, arguments, results):
    """Compare the script with one way of ours, and print the figures."""
    # Signs in and reads the images.
    benchmark.by_a_script(1), ours(1)
    for number in arguments.nodes:
        for _ in range(arguments.rounds):
            figures = {'a script': benchmark.by_a_script(number),
                       title: ours(number)}
            print(f'{number} to PXE'.ljust(24) + ''.join(
                f'{name:>14}' for name in figures[title]))
            for side, values in figures.items():
                print(_row(f'  {side}', values), flush=True)
            ratio = (figures[title]['seconds']
                     / figures['a script']['seconds'])
            print(f'  {ratio:.2f} times the script', flush=True)
            results.append({'nodes': number, 'ratio': ratio, **figures})


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, nargs='+', default=[1, 10, 100])
    parser.add_argument('--ways', nargs='+', choices=['driver', 'ironic'],
                        default=['driver', 'ironic'],
                        help='the driver as the conductor runs it, or Ironic '
                             'as a whole')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--json', metavar='FILE',
                        help='write all figures to this file')
    arguments = parser.parse_args()
    results = []
    try:
        lab = fake_lab.Lab(os.environ.get('QUINTUPLEO_STATE_DIR',
                                          '/var/lib/quintupleo'), {},
                           '[DEFAULT]', f'default_log_levels = {LOG_LEVELS}')
        try:
            benchmark = Benchmark(lab, lab.add(max(arguments.nodes)))
            if 'ironic' in arguments.ways:
                measure(benchmark, 'Ironic, API and all', benchmark.by_ironic,
                        arguments, results)
            if 'driver' in arguments.ways:
                with lab.conductor() as conductor:
                    # As power sync has, before anybody asks for anything.
                    conductor.ask('look', [
                        node.id for node in benchmark.nodes])
                    measure(benchmark, 'the driver', functools.partial(
                        benchmark.by_the_conductor, conductor), arguments,
                        results)
        finally:
            lab.close()
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
