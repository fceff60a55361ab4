# SPDX-License-Identifier: Apache-2.0
"""The kernels boot on a host that takes their processor away again and again.

Without ``no_timer_check`` Linux counts the ticks of ten intervals by the time
stamp counter, which goes on (``timer_irq_works`` in
arch/x86/kernel/apic/io_apic.c), and panics after four attempts. With KVM it
leaves the check out.
"""

import os
import re
import signal
import sys
import time

import pytest

from tests.images import machine

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../../tools'))

from onebox import ironic_files  # noqa: E402

CHECK = r'\.\.TIMER: '
PANIC = "IO-APIC . timer doesn't work"
PAST_IT = 'Mount-cache hash table'


def boot(folder, firmware, arguments):
    """Boot a machine that runs 2 ms of 102, and return what it came to."""
    with machine.Machine(str(folder), firmware, [
            '-m', '512', '-nic', 'none', '-no-reboot', *arguments]) as guest:
        # Machine.wait_for looks too seldom: the check would be over.
        deadline = time.monotonic() + 120
        while not (console := guest.console()).count('Linux version '):
            assert time.monotonic() < deadline, console
            time.sleep(0.005)
        while not re.search(f'{PANIC}|{PAST_IT}', guest.console()):
            assert time.monotonic() < deadline, guest.console()
            os.kill(guest.process.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(guest.process.pid, signal.SIGCONT)
            time.sleep(0.002)
        guest.wait_for(CHECK, 0)
        return guest.wait_for(f'{PANIC}|{PAST_IT}', 0).group()


def agent(parameters):
    return ['-kernel', os.path.join(machine.IMAGES_DIR, 'agent.kernel'),
            '-append', f'{parameters} panic=-1']


def test_agent(tmp_path):
    assert boot(tmp_path, 'bios',
                agent(ironic_files.AGENT_PARAMETERS)) == PAST_IT


def test_host_is_too_busy_for_the_check(tmp_path):
    parameters = ironic_files.AGENT_PARAMETERS.replace('no_timer_check', '')
    assert re.match(PANIC, boot(tmp_path, 'bios', agent(parameters)))


@pytest.mark.parametrize('firmware', ['bios', 'uefi'])
def test_disk_image(tmp_path, firmware):
    disk = os.path.join(machine.IMAGES_DIR, 'debian.raw')
    assert boot(tmp_path, firmware, [
        '-snapshot', '-drive',
        f'file={disk},format=raw,if=virtio']) == PAST_IT
