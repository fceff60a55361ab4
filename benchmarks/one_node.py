# SPDX-License-Identifier: Apache-2.0
"""One node's power, beside the bare Nova actions and sushy-tools.

They take turns: power off, power on, PXE and reboot, reboot within PXE; back
to the disk is not timed. The driver and the script have two servers of the
same image and flavor and exchange them after each round; the peer has a third
one. The first rounds are not counted: the driver learns in them how long the
actions take. Run it with ``tools/benchmark one_node``.
"""

import argparse
import random
import statistics
import sys
import time

import nova_lab
import report
import sushy_tools

from onebox import system

# Seconds between two looks at whether it is done.
PAUSE = 0.05
# Whole answers in the log would be measured, too.
LOG_LEVELS = 'keystoneauth=INFO,ironic=INFO'
# Nova's API has written of a request by then.
LOGGED = 0.5
# Seconds between two operations, at most and beside those until it is quiet.
LONGEST_REST = 3
CHANCE = random.SystemRandom()
# Rounds that do not count: the first ones, and those in which the hypervisor
# below gave more than this share of the processors to other machines.
FIRST_ROUNDS = 4
STOLEN = 0.05


class Bare:
    """The Nova actions by a script of the tenant."""

    title = 'the bare Nova action'

    def __init__(self, lab, server):
        self._compute = lab.cloud.compute
        self._server = server
        self._image = lab.cloud.image.find_image(
            'quintupleo-rescue-bios', ignore_missing=False).id

    def power_off(self):
        self._compute.stop_server(self._server)
        self._wait('SHUTOFF')

    def power_on(self):
        self._compute.start_server(self._server)
        self._wait('ACTIVE')

    def to_pxe(self):
        self._compute.rescue_server(self._server, None, self._image)
        self._wait('RESCUE')

    def reboot_within_pxe(self):
        # Nova reboots no server in RESCUE.
        self.back()
        self.to_pxe()

    def back(self):
        self._compute.unrescue_server(self._server)
        self._wait('ACTIVE')

    def require(self, operation):
        """Each operation has waited for its status."""

    def _wait(self, status):
        deadline = time.monotonic() + 300
        while True:
            found = self._compute.get_server(self._server.id)
            if found.status == status and not found.task_state:
                return
            if time.monotonic() > deadline:
                raise system.Error(f'{found.name} is {found.status} and not '
                                   f'{status}.')
            time.sleep(PAUSE)


class ThroughIronic:
    """What an operator asks Ironic for."""

    def __init__(self, lab, title, driver, server=None, driver_info=None,
                 pxe_status=None):
        """Make the node.

        :param server: its server; None for fake hardware.
        :param pxe_status: status of the server when it boots from PXE.
        """
        self.title = title
        self._lab, self._server, self._pxe_status = lab, server, pxe_status
        self._name = (f'{driver}-{time.time():.0f}'
                      + (f'-{server.name}' if server else ''))
        api = lab.nodes.connection.baremetal
        node = api.create_node(name=self._name, driver=driver,
                               driver_info=driver_info or {})
        api.set_node_provision_state(node, 'manage', wait=True, timeout=300)
        self._set('power on', 'power on')

    def power_off(self):
        self._set('power off', 'power off')

    def power_on(self):
        self._set('power on', 'power on')

    def to_pxe(self):
        self._lab.nodes.set_boot_device(self._name, 'pxe', True)
        self._set('rebooting', 'power on')

    def reboot_within_pxe(self):
        self._set('rebooting', 'power on')

    def back(self):
        if self._server is None:
            return
        self._lab.nodes.set_boot_device(self._name, 'disk', True)
        self._to_disk()

    def require(self, operation):
        """Raise an error if the server is not where the operation ends."""
        if self._server is None:
            return
        status = (self._pxe_status if operation in TO_PXE else
                  OTHER_STATUS[operation])
        found = self._lab.cloud.compute.get_server(self._server.id)
        if found.status != status:
            raise system.Error(f'{found.name} is {found.status} and not '
                               f'{status} after "{operation}".')

    def _to_disk(self):
        self._set('rebooting', 'power on')

    def _set(self, target, wanted):
        self._lab.nodes.set_power_state(self._name, target, wanted,
                                        pause=PAUSE)


class ThroughRedfish(ThroughIronic):
    """The same with sushy-tools."""

    def _to_disk(self):
        # Its rescue mode does not reboot a server in RESCUE.
        self._set('power off', 'power off')
        self._set('power on', 'power on')


OPERATIONS = {'power off': 'power_off', 'power on': 'power_on',
              'set PXE and reboot': 'to_pxe',
              'reboot within PXE': 'reboot_within_pxe'}
TO_PXE = ('set PXE and reboot', 'reboot within PXE')
BACK = 'back to the disk'
# Where the others leave a server.
OTHER_STATUS = {'power off': 'SHUTOFF', 'power on': 'ACTIVE', BACK: 'ACTIVE'}


def sides(lab):
    """Make the sides of the comparison.

    :returns: lists of them for even and for odd rounds, the bare one first.
    """
    first, second, *others = lab.build_servers(3 if lab.peer else 2)
    theirs = [
        ThroughIronic(lab, 'Ironic alone', 'fake-hardware'),
        # Without a rescue it asks for PXE in vain, but of a patched Nova.
        *(ThroughRedfish(lab, f'sushy-tools {lab.peer.version}', 'redfish',
                         each, lab.peer.driver_info(each.id),
                         'RESCUE' if lab.peer.rescues else 'ACTIVE')
          for each in others)]
    return [[Bare(lab, bare),
             ThroughIronic(lab, 'quintupleo', 'quintupleo', ours,
                           {'quintupleo_server': ours.id}, 'RESCUE'), *theirs]
            for bare, ours in ((first, second), (second, first))]


def one_round(lab, side):
    """Do all operations.

    :returns: {operation: (seconds, requests)}, without those of a peer that
        failed.
    """
    found = {}
    for operation, method in OPERATIONS.items():
        # How long a guest takes to be switched off depends on what it does,
        # which its firmware does in the same order each time.
        time.sleep(LONGEST_REST * CHANCE.random())
        lab.wait_quiet()
        try:
            with lab.requests() as requests:
                begun = time.monotonic()
                getattr(side, method)()
                took = time.monotonic() - begun
                time.sleep(LOGGED)
            side.require(operation)
        except system.Error as error:
            if not isinstance(side, ThroughRedfish):
                raise
            print(f'{side.title}, {operation}: {error}', flush=True)
            continue
        found[operation] = took, len(requests)
    side.back()
    side.require(BACK)
    return found


def table(results):
    """Lines of the table.

    :param results: {side: {operation: [(seconds, requests)]}}, the bare one
        first.
    """
    titles = list(results)
    medians = {
        title: {operation: [statistics.median(column)
                            for column in zip(*rows, strict=True)]
                for operation, rows in operations.items() if rows}
        for title, operations in results.items()}
    rounds = {title: max(map(len, operations.values()))
              for title, operations in results.items()}
    lines = [[f'median of {rounds[titles[0]]} rounds' + ''.join(
                  f', {title}: {number}' for title, number in rounds.items()
                  if number != rounds[titles[0]]), f'{titles[0]}: seconds',
              *(f'{title}: {what}' for title in titles[1:]
                for what in ('seconds', 'times bare Nova', 'requests'))]]
    for operation in OPERATIONS:
        bare = medians[titles[0]][operation][0]
        lines.append([operation, round(bare, 2)])
        for title in titles[1:]:
            if operation not in medians[title]:
                lines[-1] += ['failed', None, None]
                continue
            seconds, requests = medians[title][operation]
            lines[-1] += [round(seconds, 2), round(seconds / bare, 2),
                          round(requests)]
    return lines


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--peer-rounds', type=int, default=3,
                        help='of sushy-tools, which takes minutes for one')
    sushy_tools.add_argument(parser)
    parser.add_argument('--no-peer', action='store_const', const=None,
                        dest='peer', help='without sushy-tools')
    report.add_arguments(parser)
    arguments = parser.parse_args()
    try:
        with nova_lab.Lab(
                system.state_dir(), {}, '[DEFAULT]',
                f'default_log_levels = {LOG_LEVELS}',
                *(() if arguments.peer else nova_lab.IDLE_LINES),
                '[conductor]', 'sync_power_state_interval = 0',
                peer=arguments.peer) as lab:
            exchanged = sides(lab)
            # The bare one is the first in the table.
            results = {side.title: {operation: [] for operation in OPERATIONS}
                       for side in exchanged[0]}
            # The first rounds sign in, read the images and learn how long
            # the actions take.
            number, stolen = 1 - FIRST_ROUNDS, 0
            while number <= arguments.rounds:
                print(f'round {number} of {arguments.rounds}', flush=True)
                processors = nova_lab.Processors()
                # The peer learns nothing from round to round.
                sides_now = [
                    side for side in exchanged[number % 2]
                    if not isinstance(side, ThroughRedfish)
                    or 0 < number <= arguments.peer_rounds]
                # Whoever comes first has an advantage or not: take turns.
                CHANCE.shuffle(sides_now)
                found = {side.title: one_round(lab, side)
                         for side in sides_now}
                share = processors.stolen()
                if share > STOLEN:
                    stolen += 1
                    if stolen > arguments.rounds:
                        raise system.Error(
                            f'In {stolen} rounds other machines had more than '
                            f'{STOLEN:.0%} of the processors: run it again '
                            'when they have less to do.')
                    print(f'{share:.0%} of the processors went to other '
                          'machines: once more', flush=True)
                    continue
                if number > 0:
                    for title, rows in found.items():
                        for operation, row in rows.items():
                            results[title][operation].append(row)
                number += 1
            report.write(arguments, 'one-node', lab.versions(),
                         table(results), results)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
