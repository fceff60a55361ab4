# SPDX-License-Identifier: Apache-2.0
"""Lives of nodes whose disks are volumes, the network-first ones among them.

Two network-first machines, made in the two ways that there are; and a machine
of the usual kind that boots from a volume.
"""

import json
import subprocess

import pytest

from onebox.minicloud import settings
from onebox import processes
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment

MACHINES = (
    machine_lives.machine('first-bios', 'bios', 'network-first'),
    machine_lives.machine('first-uefi', 'uefi',
                          'network-first, all volumes'),
    machine_lives.machine('volume-bios', 'bios', 'volume'),
)


def node_becomes_manageable(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    assert lab.nodes.node(name).power_state == 'power off'


def cleaning_makes_it_available(lab, stage, name):
    lab.nodes.provision(name, 'provide', 'available', stage, 900)
    assert 'start' in _actions(lab, name)


def deployment_makes_it_active(lab, stage, name):
    lab.nodes.deploy(name, stage, timeout=1200)
    _system_is_up(lab, stage, name)


def _system_is_up(lab, stage, name):
    line = lab.wait_for_system(name, stage, timeout=900)
    firmware = 'UEFI' if name.endswith('uefi') else 'BIOS'
    assert f'hostname {name}' in line
    assert 'root on /dev/vda' in line
    assert f'firmware {firmware}' in line


def it_has_asked_the_network_before_its_disk(lab, stage, name):
    console = lab.host_cloud.console_log(name)
    assert 'quintupleo network-first image: iPXE' in console
    assert 'going on to the next boot device' in console


def it_reboots_the_same_way(lab, stage, name):
    lab.nodes.set_power_state(name, 'rebooting', 'power on')
    _system_is_up(lab, stage, name)
    it_has_asked_the_network_before_its_disk(lab, stage, name)
    assert _actions(lab, name)[-1] == 'reboot'


def undeployed_node_is_cleaned_and_available(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 900)
    assert lab.nodes.node(name).power_state == 'power off'


def nova_only_switched_it_on_and_off(lab, stage, name):
    assert set(_actions(lab, name)) <= {'create', 'stop', 'start', 'reboot'}
    assert all(message != 'Error'
               for _, _, message in lab.host_cloud.actions(name))


def pxe_is_a_rescue(lab, stage, name):
    lab.nodes.set_boot_device(name, 'pxe', False)
    lab.nodes.set_power_state(name, 'power on', 'power on')
    processes.wait_for(
        lambda: 'quintupleo rescue image' in lab.host_cloud.console_log(name),
        120, f'{name} to show the rescue image')
    assert _actions(lab, name)[-1] == 'rescue'


def boot_mode_is_that_of_the_volumes_image(lab, stage, name):
    # Not Ironic's default, which is UEFI.
    assert lab.nodes.node(name).boot_mode == 'bios'


def power_off_leaves_the_rescue(lab, stage, name):
    lab.nodes.set_power_state(name, 'power off', 'power off')
    assert _actions(lab, name)[-2:] == ['unrescue', 'stop']
    assert _server(lab, name).status == 'SHUTOFF'


def rebuild_wipes_the_volume(lab, stage, name):
    server = _server(lab, name)
    volume = server.attached_volumes[0]['id']
    subprocess.run(
        _rbd(lab, 'bench', '--io-type', 'write', '--io-size', '1M',
             '--io-total', '4M', _path(volume)), check=True)
    assert _has_content(lab, volume)
    image = lab.host_cloud.connection.image.find_image('quintupleo-empty-bios')
    answer = lab.host_cloud.connection.compute.post(
        f'/servers/{server.id}/action', microversion='2.93',
        json={'rebuild': {'imageRef': image.id}})
    assert answer.status_code == 202, answer.text
    # It is ACTIVE without a task for a moment before Nova stops it again.
    processes.wait_for(
        lambda: (_server(lab, name).status, _server(lab, name).task_state)
        == ('SHUTOFF', None), 120, f'Nova to rebuild {name} and stop it')
    assert [each['id'] for each in _server(lab, name).attached_volumes] == [
        volume]
    assert not _has_content(lab, volume)


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


def _server(lab, name):
    compute = lab.host_cloud.connection.compute
    return compute.get_server(compute.find_server(name).id)


def _path(volume):
    return f'{settings.VOLUME_POOL}/volume-{volume}'


def _rbd(lab, *words):
    return ['rbd', '--conf', lab.cloud.etc / 'ceph' / 'ceph.conf', *words]


def _has_content(lab, volume):
    """Whether anything is stored of a volume."""
    extents = subprocess.run(
        _rbd(lab, 'diff', '--format', 'json', _path(volume)),
        check=True, stdout=subprocess.PIPE).stdout
    return bool(json.loads(extents))


LIVES = {
    'first-bios': (
        node_becomes_manageable, cleaning_makes_it_available,
        deployment_makes_it_active, it_reboots_the_same_way,
        undeployed_node_is_cleaned_and_available,
        nova_only_switched_it_on_and_off),
    'first-uefi': (
        node_becomes_manageable,
        test_deployment.node_is_available_without_cleaning,
        deployment_makes_it_active, it_has_asked_the_network_before_its_disk,
        nova_only_switched_it_on_and_off),
    'volume-bios': (
        node_becomes_manageable, pxe_is_a_rescue,
        boot_mode_is_that_of_the_volumes_image, power_off_leaves_the_rescue,
        rebuild_wipes_the_volume),
}


def prepare(lab, names):
    """Make the servers."""
    lab.host_cloud.create_images(lab.images.rescue, lab.images.network_first)
    machine_lives.make_servers(lab, MACHINES, names)


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=['first-bios']))
def test_life(lives, name, step):
    lives.went_well(name, step)
