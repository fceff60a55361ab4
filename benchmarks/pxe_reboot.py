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

"""Set PXE and reboot through Ironic, beside the bare Nova rescue.

Needs what ``tools/quickstart`` leaves: a node that runs from its disk. Both
sides start from the same running system of the same server, in turns; after
each the server is brought back to its disk, which is not timed.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
sys.dont_write_bytecode = True

from onebox import progress  # noqa: E402
from onebox import quickstart  # noqa: E402
from onebox import system  # noqa: E402

REQUEST = re.compile(r'keystoneauth\.session .*REQ: curl.* -X (\w+) (\S+)')


class Benchmark:
    """Both sides of the comparison."""

    def __init__(self, name):
        self.lab = quickstart.Quickstart(progress.Progress('benchmark'))
        self.lab.attach()
        self.name = name
        self.server = self.lab.host_cloud.connection.compute.find_server(
            name, ignore_missing=False)
        self.log = self.lab.ironic.logs / 'ironic.log'

    def bare(self):
        """Rescue as a script of the tenant does; return (seconds, reads)."""
        compute = self.lab.host_cloud.connection.compute
        image = self.lab.host_cloud.connection.image.find_image(
            'quintupleo-rescue-' + ('uefi' if 'uefi' in self.name
                                    else 'bios'), ignore_missing=False)
        begun = time.monotonic()
        compute.rescue_server(self.server, None, image.id)
        reads = self._until('RESCUE', pause=0.05)
        took = time.monotonic() - begun
        compute.unrescue_server(self.server)
        self._until('ACTIVE', pause=0.2)
        return took, reads + 1

    def through_ironic(self):
        """The same through Ironic's API; return (seconds, requests)."""
        nodes = self.lab.nodes
        position = self.log.stat().st_size
        begun = time.monotonic()
        nodes.set_boot_device(self.name, 'pxe', False)
        nodes.set_power_state(self.name, 'rebooting', 'power on', pause=0.05)
        took = time.monotonic() - begun
        requests = self._requests(position)
        found = self.lab.host_cloud.connection.compute.get_server(self.server)
        if found.status != 'RESCUE':
            raise system.Error(f'Server {self.name} is {found.status}.')
        nodes.set_power_state(self.name, 'rebooting', 'power on')
        return took, requests

    def _until(self, status, pause):
        reads = 0
        deadline = time.monotonic() + 120
        while True:
            found = self.lab.host_cloud.connection.compute.get_server(
                self.server)
            reads += 1
            if found.status == status and not found.task_state:
                return reads
            if time.monotonic() > deadline:
                raise system.Error(f'Server {self.name} is {found.status} '
                                   f'and not {status}.')
            time.sleep(pause)

    def _requests(self, position):
        """What the conductor sent to the host cloud since a place in its log.

        Requests about other servers (power sync) are left out.
        """
        with open(self.log) as source:
            source.seek(position)
            found = [match.groups() for match in map(REQUEST.search, source)
                     if match]
        return [(method, url) for method, url in found
                if '/servers/' not in url or self.server.id in url]


def _table(results):
    lines = [f"{'':<28} {'seconds (median)':>18} {'requests':>10}"]
    for title, (seconds, requests) in results.items():
        lines.append(f'{title:<28} {statistics.median(seconds):>18.2f} '
                     f'{max(requests):>10}')
    return lines


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--node', default='bios-0')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--json', metavar='FILE',
                        help='write all figures to this file')
    arguments = parser.parse_args()
    try:
        benchmark = Benchmark(arguments.node)
        bare, ours = [], []
        for number in range(arguments.rounds + 1):
            one, other = benchmark.bare(), benchmark.through_ironic()
            if not number:
                # The first round signs in and reads the image.
                continue
            bare.append(one)
            ours.append(other)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    results = {
        'bare Nova rescue': ([row[0] for row in bare],
                             [row[1] for row in bare]),
        'set PXE + reboot by Ironic': ([row[0] for row in ours],
                                       [len(row[1]) for row in ours])}
    print('\n'.join(_table(results)))
    ratio = (statistics.median(results['set PXE + reboot by Ironic'][0])
             / statistics.median(results['bare Nova rescue'][0]))
    print(f'ratio of the medians: {ratio:.2f}')
    print('requests of the last round:')
    for method, url in ours[-1][1]:
        print(f'  {method:<5} {url}')
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({
            'node': arguments.node, 'ratio': ratio,
            'bare': bare, 'ours': ours}, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
