# SPDX-License-Identifier: Apache-2.0
"""How long a server's own disk runs when it is powered off out of PXE.

Nova leaves RESCUE only by starting the server's own disk. From libvirt's own
events: the seconds from that start to the stop that follows, when the driver
does it and when a script does that asks Nova twenty times a second. Run it
with ``tools/benchmark power_off_window``.
"""

import argparse
import contextlib
import datetime
import re
import statistics
import subprocess
import sys
import time

import nova_lab
import one_node
import report

from onebox.minicloud import libvirt
from onebox.minicloud import settings
from onebox import system

EVENT = re.compile(
    r"^(\S+ [\d:.]+)\S*: event 'lifecycle' for domain '?\S+?'?: (\w+)",
    re.MULTILINE)


class Window:
    """Both sides of the comparison."""

    def __init__(self, lab):
        self._script, self._driver, _ = one_node.sides(lab)

    def by_the_driver(self):
        """Power off through Ironic; return the seconds of the window."""
        self._driver.to_pxe()
        with self._events() as events:
            self._driver.power_off()
        self._driver.back()
        return self._window(events)

    def by_a_script(self):
        """Do the two actions at once; return the seconds of the window."""
        self._script.to_pxe()
        with self._events() as events:
            self._script.back()
            self._script.power_off()
        self._script.power_on()
        return self._window(events)

    @contextlib.contextmanager
    def _events(self):
        """Collect libvirt's lifecycle events of the server's domain."""
        found = []
        with subprocess.Popen(
                # Into a pipe it would write when it ends, which is too late.
                ['stdbuf', '-oL', 'virsh', '--connect',
                 libvirt.uri(settings.Settings()), 'event', '--loop',
                 '--timestamp', '--event', 'lifecycle'],
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
    parser.add_argument('--rounds', type=int, default=10)
    report.add_arguments(parser)
    arguments = parser.parse_args()
    results = {'a script': [], 'quintupleo': []}
    try:
        with nova_lab.Lab(
                system.state_dir(), {}, '[DEFAULT]',
                f'default_log_levels = {one_node.LOG_LEVELS}',
                *nova_lab.IDLE_LINES) as lab:
            window = Window(lab)
            # The first round signs in and reads the image.
            for number in range(arguments.rounds + 1):
                found = window.by_a_script(), window.by_the_driver()
                for seconds, side in zip(found, results.values(),
                                         strict=True):
                    side += [seconds] if number else []
            versions = lab.versions()
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    medians = {side: statistics.median(seconds)
               for side, seconds in results.items()}
    report.write(
        arguments, 'power-off-window', versions,
        [[f'median of {arguments.rounds} rounds',
          *(f'{side}: seconds' for side in medians)],
         ['the own disk runs', *(round(seconds, 2)
                                 for seconds in medians.values())]],
        results)
    return 0


if __name__ == '__main__':
    sys.exit(main())
