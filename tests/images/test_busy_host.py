# SPDX-License-Identifier: Apache-2.0
"""The kernels boot on a host that often stops the emulator.

Linux waits for ten timer ticks by the time stamp counter, and wants to have
seen four of them (``timer_irq_works`` in arch/x86/kernel/apic/io_apic.c). The
counter goes on while the emulator is stopped, and the ticks do not: after four
attempts the kernel panics. ``no_timer_check`` leaves the check out, as Linux
does with KVM.
"""

import os
import pathlib
import re
import signal
import sys
import time

import pytest

from tests.images import machine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox import ironic_files  # noqa: E402

CHECK = r'\.\.TIMER: '
PANIC = "IO-APIC . timer doesn't work"
PAST_IT = 'Mount-cache hash table'


def boot(folder, firmware, arguments):
    """Boot a machine that runs for 2 ms, then is stopped for 100 ms.

    :returns: the text on its console that ended the boot.
    """
    with machine.Machine(str(folder), firmware, [
            '-m', '512', '-nic', 'none', '-no-reboot', *arguments]) as guest:
        # Machine.wait_for looks too seldom: the check would be over.
        deadline = time.monotonic() + 120
        while 'Linux version ' not in (console := guest.console()):
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
