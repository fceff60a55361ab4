# SPDX-License-Identifier: Apache-2.0
"""The rescue image boots, whatever the network does at first."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from tests.images import machine

IMAGE = os.path.join(machine.IMAGES_DIR, 'ipxe.iso')
TOOLS = pathlib.Path(__file__).resolve().parents[2] / 'tools'
USER = ('setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups')


@pytest.fixture
def folder():
    """A folder of another user than root."""
    with tempfile.TemporaryDirectory() as name:
        shutil.chown(name, 'nobody', 'nogroup')
        yield pathlib.Path(name)


def test_another_user_than_root_builds_the_same(folder):
    # The checkout may be where only root gets to.
    shutil.copytree(TOOLS, folder / 'tools')
    output = folder / 'new' / 'ipxe.iso'
    subprocess.run(
        [*USER, folder / 'tools' / 'build-ipxe-image', '--output', output],
        check=True, env={'PATH': '/usr/bin:/bin', 'HOME': str(folder)})
    assert output.stat().st_uid != 0
    assert output.read_bytes() == pathlib.Path(IMAGE).read_bytes()


@pytest.mark.parametrize('card', ['virtio-net-pci', 'e1000'])
@pytest.mark.parametrize('firmware', ['bios', 'uefi'])
def test_boots_from_the_card_that_answers_at_last(tmp_path, firmware, card):
    """Two cards, no DHCP; then one answers, first with bad boot files."""
    boot_file = tmp_path / 'tftp' / 'boot.ipxe'
    boot_file.parent.mkdir()
    arguments = ['-m', '512', '-cdrom', IMAGE]
    for number in (0, 1):
        # Hubs, so that a network can be plugged in behind the card later.
        arguments += [
            '-netdev', 'hubport,hubid=%d,id=net%d' % (number, number),
            '-device', '%s,netdev=net%d,romfile=,mac=52:54:00:00:00:0%d'
            % (card, number, number)]

    with machine.Machine(str(tmp_path), firmware, arguments) as guest:
        guest.wait_for('quintupleo rescue image: iPXE', 60)
        guest.wait_for('no DHCP answer on net0 .52:54:00:00:00:00', 60)
        guest.wait_for('no DHCP answer on net1 .52:54:00:00:00:01', 60)

        guest.monitor('netdev_add user,id=late,tftp=%s,bootfile=boot.ipxe'
                      % boot_file.parent)
        guest.monitor('netdev_add hubport,hubid=1,id=plug,netdev=late')
        guest.wait_for('no boot from net1', 90)
        guest.wait_for('IP 10.0.2.15, next-server 10.0.2.2, '
                       'filename boot.ipxe', 5)

        boot_file.write_text('#!ipxe\necho First script\nno-such-command\n')
        guest.wait_for('First script', 90)
        guest.wait_for('no boot from net1', 30)

        boot_file.write_text('#!ipxe\necho Second script\nexit\n')
        guest.wait_for('Second script', 90)
        guest.wait_for('the boot file of net1 .* came back', 30)
        guest.wait_for('waiting for DHCP on net0', 30)


@pytest.mark.parametrize('firmware', ['bios', 'uefi'])
def test_says_that_there_is_no_network_card(tmp_path, firmware):
    arguments = ['-m', '512', '-cdrom', IMAGE, '-nic', 'none']
    with machine.Machine(str(tmp_path), firmware, arguments) as guest:
        guest.wait_for('no network card found', 60)
        guest.wait_for('quintupleo rescue image: iPXE', 60)
        guest.wait_for('no network card found', 60)
