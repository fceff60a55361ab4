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

"""Whether firmware boots in KVM on this machine: tried, not guessed.

Some machines offer /dev/kvm and then fail in a guest's real mode, with Nova
none the wiser.
"""

import os
import pathlib
import pwd
import stat
import tempfile

from onebox import system

DEVICE = pathlib.Path('/dev/kvm')
MARKER = b'KVM-BOOTS'
TIMEOUT = 20
GUEST_USER = 'libvirt-qemu'


def boot_sector():
    """Return a boot sector that writes a marker to the serial port.

    It then ends the guest by writing to QEMU's isa-debug-exit device.
    """
    code = bytes([
        0x31, 0xc0,         # xor ax, ax
        0x8e, 0xd8,         # mov ds, ax
        0xbe, 0x18, 0x7c,   # mov si, 0x7c18: the text behind the code
        0xba, 0xf8, 0x03,   # mov dx, 0x3f8: the serial port
        0xac,               # lodsb
        0x84, 0xc0,         # test al, al
        0x74, 0x03,         # jz over the next two
        0xee,               # out dx, al
        0xeb, 0xf8,         # jmp back to lodsb
        0xe6, 0xf4,         # out 0xf4, al: the end
        0xf4,               # hlt
        0xeb, 0xfd,         # jmp back to hlt
        0x90,               # nop
    ])
    return (code + MARKER + b'\0').ljust(510, b'\0') + b'\x55\xaa'


def probe(accelerator='kvm'):
    """Boot the sector.

    :returns: whether it worked, and in words why or why not.
    """
    if accelerator == 'kvm' and not DEVICE.exists():
        return False, 'there is no /dev/kvm'
    with tempfile.TemporaryDirectory() as folder:
        disk = pathlib.Path(folder) / 'disk'
        disk.write_bytes(boot_sector())
        output = pathlib.Path(folder) / 'serial'
        try:
            system.run([
                'qemu-system-x86_64', '-accel', accelerator, '-m', '32',
                '-nodefaults', '-display', 'none', '-no-reboot',
                '-drive', 'file=%s,format=raw' % disk,
                '-serial', 'file:%s' % output,
                '-device', 'isa-debug-exit,iobase=0xf4,iosize=0x04'],
                check=False, timeout=TIMEOUT)
        except system.Error:
            pass
        if output.exists() and MARKER in output.read_bytes():
            return True, 'firmware boots in KVM'
    return False, 'firmware does not boot in the KVM of this machine'


def usable_by_guests():
    """Whether guests' processes may open /dev/kvm."""
    try:
        user = pwd.getpwnam(GUEST_USER)
    except KeyError:
        return False
    status = DEVICE.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o006 == 0o006:
        return True
    groups = os.getgrouplist(GUEST_USER, user.pw_gid)
    return status.st_gid in groups and mode & 0o060 == 0o060


def open_for_guests():
    """Let guests' processes open /dev/kvm.

    Even a cloud that emulates needs that: libvirt otherwise examines all
    QEMU binaries again at each start of a guest, which takes a minute.

    :returns: the mode to go back to, or None if nothing was changed.
    """
    if not DEVICE.exists() or usable_by_guests():
        return None
    mode = stat.S_IMODE(DEVICE.stat().st_mode)
    DEVICE.chmod(0o666)
    return mode
