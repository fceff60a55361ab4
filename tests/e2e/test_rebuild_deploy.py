# SPDX-License-Identifier: Apache-2.0
"""Real guests that are deployed by rebuild, under BIOS and under UEFI."""

import pytest

from onebox import processes
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment
from tests.e2e import test_wipe

MACHINES = (machine_lives.machine('rebuild-bios', 'bios'),
            machine_lives.machine('rebuild-uefi', 'uefi'))
HELLO = 'user data of {} ran'


def prepare(lab, names):
    """Make the servers."""
    machine_lives.make_servers(lab, MACHINES, names,
                               deploy_interface='quintupleo-rebuild')


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


def _deploy(lab, stage, name, script):
    lab.nodes.connection.baremetal.update_node(
        name, instance_info=lab.nodes.image())
    lab.nodes.provision(name, 'active', 'active', stage, 600, config_drive={
        'user_data': f'#!/bin/sh\necho "{script}"\n',
        'meta_data': {'hostname': f'host-{name}'}})


def cleaning_makes_it_available(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    lab.nodes.provision(name, 'provide', 'available', stage, 300)


def deployment_makes_it_active(lab, stage, name):
    _deploy(lab, stage, name, HELLO.format(name))
    line = lab.wait_for_system(name, stage)
    firmware = 'UEFI' if name.endswith('uefi') else 'BIOS'
    assert f'hostname host-{name}' in line
    assert 'root on /dev/vda' in line
    assert f'firmware {firmware}' in line
    processes.wait_for(
        lambda: HELLO.format(name) in lab.host_cloud.console_log(name), 120,
        f'the console of {name} to show its user data')


def next_instance_meets_nothing_of_the_last_one(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 300)
    _deploy(lab, stage, name, 'second instance')
    lab.wait_for_system(name, stage)
    processes.wait_for(
        lambda: 'second instance' in lab.host_cloud.console_log(name), 120,
        f'the console of {name} to show its new user data')
    assert HELLO.format(name) not in lab.host_cloud.console_log(name)


def undeployed_node_is_available(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 300)
    assert lab.nodes.node(name).power_state == 'power off'


def no_agent_ever_ran(lab, stage, name):
    assert 'agent_url' not in lab.nodes.node(name).driver_internal_info
    # But for a PXE boot and the way back.
    assert _actions(lab, name).count('rescue') == _actions(
        lab, name).count('unrescue') <= 1
    assert all(message != 'Error'
               for _, _, message in lab.host_cloud.actions(name))


LIFE = (cleaning_makes_it_available, deployment_makes_it_active,
        *test_wipe.DISK_STEPS,
        undeployed_node_is_available, no_agent_ever_ran)
# Others reboot and go to PXE in a default run.
LONG_LIFE = (*LIFE[:2], test_deployment.it_reboots_from_its_disk,
             test_deployment.pxe_reaches_the_network_and_disk_comes_back,
             *test_wipe.DISK_STEPS,
             next_instance_meets_nothing_of_the_last_one,
             undeployed_node_is_available, no_agent_ever_ran)
LIVES = {'rebuild-bios': LONG_LIFE, 'rebuild-uefi': LIFE}


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=['rebuild-bios']))
def test_life(lives, name, step):
    lives.went_well(name, step)


@pytest.mark.full
def test_each_firmware_has_one_image(lab, lives):
    for machine in MACHINES:
        lives.went_well(machine.name, no_agent_ever_ran)
    checksum = f'sha256:{lab.nodes.image()["image_os_hash_value"]}'
    found = [image for image in lab.host_cloud.connection.image.images(
        tag='quintupleo-instance')
        if image.properties['quintupleo_checksum'] == checksum
        # That of a machine of test_firmware.
        and not image.needs_secure_boot]
    assert len(found) == len(MACHINES)
