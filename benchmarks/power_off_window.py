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

"""How long a server's own disk runs when it is powered off out of PXE.

Nova leaves RESCUE only by starting the server's own disk. From libvirt's own
events: the seconds from that start to the stop that follows, when the driver
does it and when a script does that asks Nova twenty times a second. Needs what
``tools/quickstart`` leaves: a node that runs from its disk.
"""

import argparse
import contextlib
import datetime
import re
import statistics
import subprocess
import sys
import time

import pxe_reboot

from onebox.minicloud import libvirt
from onebox import system

EVENT = re.compile(
    r"^(\S+ [\d:.]+)\S*: event 'lifecycle' for domain '?\S+?'?: (\w+)",
    re.MULTILINE)


class Window(pxe_reboot.Benchmark):
    """Both sides of the comparison."""

    def by_the_driver(self):
        """Power off through Ironic; return the seconds of the window."""
        self._into_rescue()
        with self._events() as events:
            self.lab.nodes.set_power_state(self.name, 'power off',
                                           'power off', pause=0.05)
        return self._window(events)

    def by_a_script(self):
        """Do the two actions at once; return the seconds of the window."""
        self._into_rescue()
        compute = self.lab.host_cloud.connection.compute
        with self._events() as events:
            compute.unrescue_server(self.server)
            self._until('ACTIVE', pause=0.05)
            compute.stop_server(self.server)
            self._until('SHUTOFF', pause=0.05)
        return self._window(events)

    def _into_rescue(self):
        nodes = self.lab.nodes
        nodes.set_boot_device(self.name, 'pxe', False)
        nodes.set_power_state(self.name, 'rebooting', 'power on')

    @contextlib.contextmanager
    def _events(self):
        """Collect libvirt's lifecycle events of the server's domain."""
        found = []
        with subprocess.Popen(
                # Into a pipe it would write when it ends, which is too late.
                ['stdbuf', '-oL', 'virsh', '--connect', libvirt.URI, 'event',
                 '--loop', '--timestamp', '--event', 'lifecycle'],
                stdout=subprocess.PIPE, text=True) as watching:
            try:
                yield found
                # libvirt tells of the stop right before Nova does.
                time.sleep(1)
            finally:
                watching.terminate()
                found.append(watching.stdout.read())

    @staticmethod
    def _window(events):
        changes = [(datetime.datetime.strptime(
            time, '%Y-%m-%d %H:%M:%S.%f'), what)
            for time, what in EVENT.findall(events[0])]
        started = [time for time, what in changes if what == 'Started']
        stopped = [time for time, what in changes if what == 'Stopped']
        if len(started) != 1 or not stopped or stopped[-1] < started[0]:
            raise system.Error(f'libvirt told of these events: {changes}')
        return (stopped[-1] - started[0]).total_seconds()


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--node', default='bios-0')
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    sides = {'a script': [], 'the driver': []}
    try:
        window = Window(arguments.node)
        for _ in range(arguments.rounds + 1):
            sides['a script'].append(window.by_a_script())
            sides['the driver'].append(window.by_the_driver())
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    for side, seconds in sides.items():
        # The first round signs in and reads the image.
        print(f'{side:<12} median {statistics.median(seconds[1:]):.2f} s, '
              'all ' + ', '.join(f'{each:.2f}' for each in seconds[1:]))
    return 0


if __name__ == '__main__':
    sys.exit(main())
