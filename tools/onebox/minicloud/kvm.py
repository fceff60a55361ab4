# SPDX-License-Identifier: Apache-2.0
"""Whether firmware boots in KVM on this machine: tried, not guessed.

Some machines offer /dev/kvm and then fail in a guest's real mode, with Nova
none the wiser.
"""

import os
import pathlib
import pwd
import stat
import subprocess
import tempfile

from onebox import processes
from onebox import system

DEVICE = pathlib.Path('/dev/kvm')
MARKER = b'KVM-BOOTS'
TIMEOUT = 10
GUEST_USER = 'libvirt-qemu'


def boot_sector():
    """Return a boot sector that works the firmware, then reports.

    For two seconds it reads the disk and asks for keys through the BIOS,
    with interrupts on: that is where a broken KVM dies, not in the first
    instructions. It then writes a marker to the serial port and ends the
    guest by writing to QEMU's isa-debug-exit device.
    """
    code = bytes([
        0x31, 0xc0,              # 00 xor ax, ax
        0x8e, 0xd8,              # 02 mov ds, ax
        0x8e, 0xc0,              # 04 mov es, ax
        0xfb,                    # 06 sti
        0x8b, 0x36, 0x6c, 0x04,  # 07 mov si, [0x46c]: ticks of 1/18 s
        0xb8, 0x01, 0x02,        # 0b mov ax, 0x0201: read a sector
        0xbb, 0x00, 0x80,        # 0e mov bx, 0x8000: to there
        0xb9, 0x01, 0x00,        # 11 mov cx, 1: the first
        0xb6, 0x00,              # 14 mov dh, 0
        0xcd, 0x13,              # 16 int 0x13
        0xb4, 0x01,              # 18 mov ah, 1: is a key pressed?
        0xcd, 0x16,              # 1a int 0x16
        0xa1, 0x6c, 0x04,        # 1c mov ax, [0x46c]
        0x29, 0xf0,              # 1f sub ax, si
        0x3d, 0x24, 0x00,        # 21 cmp ax, 36 ticks
        0x72, 0xe5,              # 24 jb 0b
        0xbe, 0x39, 0x7c,        # 26 mov si, 0x7c39: the text behind this
        0xba, 0xf8, 0x03,        # 29 mov dx, 0x3f8: the serial port
        0xac,                    # 2c lodsb
        0x84, 0xc0,              # 2d test al, al
        0x74, 0x03,              # 2f jz 34
        0xee,                    # 31 out dx, al
        0xeb, 0xf8,              # 32 jmp 2c
        0xe6, 0xf4,              # 34 out 0xf4, al: the end
        0xf4,                    # 36 hlt
        0xeb, 0xfd,              # 37 jmp 36
    ])
    return (code + MARKER + b'\0').ljust(510, b'\0') + b'\x55\xaa'


def probe():
    """Boot the sector.

    :returns: whether it worked, and in words why or why not.
    """
    if not DEVICE.exists():
        return False, 'there is no /dev/kvm'
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'disk').write_bytes(boot_sector())
        guest = subprocess.Popen(
            # The processor is the one that Nova shows: config.py has it.
            ['qemu-system-x86_64', '-accel', 'kvm', '-cpu', 'host',
             '-m', '32', '-nodefaults', '-display', 'none', '-no-reboot',
             '-drive', 'file=disk,format=raw', '-serial', 'file:serial',
             '-device', 'isa-debug-exit,iobase=0xf4,iosize=0x04'],
            cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / 'errors').open('w'))
        try:
            processes.wait_for(
                lambda: guest.poll() is not None or _broken(folder),
                TIMEOUT, 'a guest to boot')
        except system.Error:
            pass
        finally:
            guest.kill()
            guest.wait()
        serial = folder / 'serial'
        if serial.exists() and MARKER in serial.read_bytes():
            return True, 'firmware boots in KVM'
    return False, 'firmware does not boot in the KVM of this machine'


def _broken(folder):
    """QEMU stops a guest whose processor state KVM cannot handle."""
    return 'internal error' in (folder / 'errors').read_text(errors='replace')


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
