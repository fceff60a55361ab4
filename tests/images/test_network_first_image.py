# SPDX-License-Identifier: Apache-2.0
"""The network-first image asks the network and goes on to the disk."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.images import machine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox.minicloud import kvm  # noqa: E402

IMAGE = os.path.join(machine.IMAGES_DIR, 'ipxe-network-first.iso')
DISK_BOOTS = kvm.MARKER.decode()
FIRMWARES = pytest.mark.parametrize('firmware', ['bios', 'uefi'])


@pytest.fixture
def disk(tmp_path, firmware):
    """A disk that says on the serial port that it was booted."""
    path = tmp_path / 'disk'
    if firmware == 'bios':
        path.write_bytes(kvm.boot_sector().ljust(1024 * 1024, b'\0'))
        return path
    # The CD's own file system for UEFI, with another script.
    script = tmp_path / 'script'
    script.write_text('#!ipxe\necho %s\nshell\n' % DISK_BOOTS)
    subprocess.run(['xorriso', '-osirrox', 'on', '-indev', IMAGE, '-extract',
                    '/isolinux/efi.img', path],
                   check=True, stderr=subprocess.DEVNULL)
    path.chmod(0o600)
    subprocess.run(['mcopy', '-o', '-i', path, script, '::/autoexec.ipxe'],
                   check=True)
    return path


def arguments(disk, *network):
    """The CD is the first boot device, the disk the second."""
    drive = 'if=none,format=raw,id=%s,file=%s'
    return ['-m', '512', *network,
            '-drive', drive % ('cd', IMAGE) + ',media=cdrom,readonly=on',
            '-device', 'ide-cd,drive=cd,bootindex=1',
            '-drive', drive % ('disk', disk),
            '-device', 'virtio-blk-pci,drive=disk,bootindex=2']


def boot_file(tmp_path, script):
    """A network whose DHCP names a boot file with this script."""
    folder = tmp_path / 'tftp'
    folder.mkdir()
    if script:
        (folder / 'boot.ipxe').write_text('#!ipxe\n' + script)
    return ('-netdev', 'user,id=net,tftp=%s,bootfile=boot.ipxe' % folder,
            '-device', 'virtio-net-pci,netdev=net,romfile=,'
            'mac=52:54:00:00:00:00')


@FIRMWARES
def test_what_the_network_gives_is_booted(tmp_path, firmware, disk):
    network = boot_file(tmp_path, 'echo From the network\nshell\n')
    with machine.Machine(str(tmp_path), firmware,
                         arguments(disk, *network)) as guest:
        guest.wait_for('quintupleo network-first image: iPXE', 60)
        guest.wait_for('From the network', 60)
        assert DISK_BOOTS not in guest.console()


@FIRMWARES
@pytest.mark.parametrize('code', [0, 1])
def test_disk_boots_when_the_network_says_so(tmp_path, firmware, disk, code):
    network = boot_file(
        tmp_path, 'echo Not from the network\nexit %d\n' % code)
    with machine.Machine(str(tmp_path), firmware,
                         arguments(disk, *network)) as guest:
        guest.wait_for('Not from the network', 60)
        guest.wait_for('going on to the next boot device', 10)
        guest.wait_for(DISK_BOOTS, 60)
        assert 'trying again' not in guest.console()


@FIRMWARES
def test_disk_boots_when_the_boot_file_cannot_be_had(
        tmp_path, firmware, disk):
    network = boot_file(tmp_path, None)
    with machine.Machine(str(tmp_path), firmware,
                         arguments(disk, *network)) as guest:
        for _ in range(3):
            guest.wait_for('no boot from net0', 60)
        guest.wait_for(DISK_BOOTS, 60)


@FIRMWARES
def test_disk_boots_when_nothing_answers(tmp_path, firmware, disk):
    """Two cards, so that one does not stand for all."""
    network = ()
    for number in (0, 1):
        network += (
            '-netdev', 'hubport,hubid=%d,id=net%d' % (number, number),
            '-device', 'virtio-net-pci,netdev=net%d,romfile=,mac=52:54:00:00:'
            '00:0%d' % (number, number))
    with machine.Machine(str(tmp_path), firmware,
                         arguments(disk, *network)) as guest:
        for _ in range(3):
            guest.wait_for('no DHCP answer on net0', 60)
            guest.wait_for('no DHCP answer on net1', 60)
        guest.wait_for(DISK_BOOTS, 60)


@FIRMWARES
def test_disk_boots_without_a_network_card(tmp_path, firmware, disk):
    with machine.Machine(str(tmp_path), firmware,
                         arguments(disk, '-nic', 'none')) as guest:
        guest.wait_for('no network card found', 60)
        guest.wait_for(DISK_BOOTS, 60)
