# SPDX-License-Identifier: Apache-2.0
"""The life of a node with real guests, under BIOS and under UEFI.

Under BIOS the disk is written from a raw image, under UEFI from a qcow2 one.
"""

import re
import secrets

import pytest

from onebox import processes
from onebox import system
from tests.e2e import lives as machine_lives

# What a member of a project may do with a server.
TENANT_ACTIONS = {'create', 'stop', 'start', 'reboot', 'rescue', 'unrescue'}


def enrolled_node_becomes_manageable(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    assert lab.nodes.node(name).power_state == 'power off'


def cleaning_makes_it_available(lab, stage, name):
    lab.nodes.provision(name, 'provide', 'available', stage, 900)
    assert 'rescue' in _actions(lab, name)
    # As it was built: Ironic unpacks what it knows to be compressed.
    assert _ramdisk_sizes(lab, name) == {
        lab.images.agent_ramdisk.stat().st_size}


def _ramdisk_sizes(lab, name):
    """Return the sizes of the ramdisks that a machine has fetched."""
    return set(map(int, re.findall(
        rf'GET /{lab.nodes.node(name).id}/deploy_ramdisk \S+ 200 (\d+)',
        (lab.ironic.logs / 'nginx-access.log').read_text())))


def deployment_makes_it_active(lab, stage, name):
    uefi = 'uefi' in name
    lab.nodes.deploy(name, stage, timeout=1200,
                     image=qcow2_image(lab, name) if uefi else None)
    line = lab.wait_for_system(name, stage)
    firmware = 'UEFI' if uefi else 'BIOS'
    assert f'hostname {name}' in line
    assert 'root on /dev/vda' in line
    assert f'firmware {firmware}' in line


def qcow2_image(lab, name):
    """Return instance_info of an image that the agent has to convert."""
    path = lab.ironic.images / f'{name}.qcow2'
    system.run(['qemu-img', 'convert', '-O', 'qcow2', lab.images.disk, path])
    return lab.nodes.image(path)


def it_reboots_from_its_disk(lab, stage, name):
    lab.nodes.set_power_state(name, 'rebooting', 'power on')
    # libvirt begins the console log anew with each start of the guest.
    lab.wait_for_system(name, stage)
    assert _actions(lab, name)[-1] == 'reboot'


def pxe_reaches_the_network_and_disk_comes_back(lab, stage, name):
    lab.nodes.set_boot_device(name, 'pxe', False)
    lab.nodes.set_power_state(name, 'rebooting', 'power on')
    processes.wait_for(
        lambda: 'quintupleo rescue image' in lab.host_cloud.console_log(name),
        120, f'{name} to show the rescue image')
    lab.nodes.set_power_state(name, 'rebooting', 'power on')
    lab.wait_for_system(name, stage)
    assert _actions(lab, name)[-2:] == ['rescue', 'unrescue']


def rescue_opens_it_and_unrescue_gives_it_back(lab, stage, name):
    lab.nodes.provision(name, 'rescue', 'rescue', stage, 900,
                        rescue_password=secrets.token_urlsafe())
    processes.wait_for(
        lambda: 'login: ' in lab.host_cloud.console_log(name), 120,
        f'{name} to let the user "rescue" log in')
    lab.nodes.provision(name, 'unrescue', 'active', stage, 300)
    assert 'root on /dev/vda' in lab.wait_for_system(name, stage)


def undeployed_node_is_cleaned_and_available(lab, stage, name):
    lab.nodes.connection.baremetal.update_node(name, automated_clean=True)
    lab.nodes.provision(name, 'deleted', 'available', stage, 900)
    assert lab.nodes.node(name).power_state == 'power off'


def node_is_available_without_cleaning(lab, stage, name):
    # Another one is cleaned; this life need not be as long.
    lab.nodes.connection.baremetal.update_node(name, automated_clean=False)
    lab.nodes.provision(name, 'provide', 'available', stage, 120)


def undeployed_node_is_available_without_cleaning(lab, stage, name):
    lab.nodes.connection.baremetal.update_node(name, automated_clean=False)
    lab.nodes.provision(name, 'deleted', 'available', stage, 300)
    assert lab.nodes.node(name).power_state == 'power off'


def all_was_within_the_rights_of_a_tenant(lab, stage, name):
    assert set(_actions(lab, name)) <= TENANT_ACTIONS
    assert all(message != 'Error'
               for _, _, message in lab.host_cloud.actions(name))


UNTIL_UNDEPLOYED = (
    enrolled_node_becomes_manageable, cleaning_makes_it_available,
    deployment_makes_it_active, it_reboots_from_its_disk,
    rescue_opens_it_and_unrescue_gives_it_back)
LIFE = (*UNTIL_UNDEPLOYED, undeployed_node_is_cleaned_and_available,
        all_was_within_the_rights_of_a_tenant)


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


# In a default run a BIOS machine of an environment has this life
# (test_environment.py), and a UEFI one a life from virtual media.
MACHINES = (machine_lives.machine('pxe-bios', 'bios'),
            machine_lives.machine('pxe-uefi', 'uefi'))
LIVES = {machine.name: LIFE for machine in MACHINES}


def prepare(lab, names):
    """Make the servers."""
    machine_lives.make_servers(lab, MACHINES, names, rescue_interface='agent')


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
