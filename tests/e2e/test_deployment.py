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

"""The life of a node with real guests, under BIOS and under UEFI."""

import pytest

from onebox import processes
from tests.e2e import lives as machine_lives

MACHINES = ('bios-0', 'uefi-0')
# What a member of a project may do with a server.
TENANT_ACTIONS = {'create', 'stop', 'start', 'reboot', 'rescue', 'unrescue'}


def enrolled_node_becomes_manageable(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    assert lab.nodes.node(name).power_state == 'power off'


def cleaning_makes_it_available(lab, stage, name):
    lab.nodes.provision(name, 'provide', 'available', stage, 900)
    assert 'rescue' in _actions(lab, name)


def deployment_makes_it_active(lab, stage, name):
    lab.nodes.deploy(name, stage, timeout=1200)
    line = lab.wait_for_system(name, stage)
    firmware = 'UEFI' if name.startswith('uefi') else 'BIOS'
    assert f'hostname {name}' in line
    assert 'root on /dev/vda' in line
    assert f'firmware {firmware}' in line


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


def undeployed_node_is_cleaned_and_available(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 900)
    assert lab.nodes.node(name).power_state == 'power off'


def all_was_within_the_rights_of_a_tenant(lab, stage, name):
    assert set(_actions(lab, name)) <= TENANT_ACTIONS
    assert all(message != 'Error'
               for _, _, message in lab.host_cloud.actions(name))


LIFE = (enrolled_node_becomes_manageable, cleaning_makes_it_available,
        deployment_makes_it_active, it_reboots_from_its_disk,
        pxe_reaches_the_network_and_disk_comes_back,
        undeployed_node_is_cleaned_and_available,
        all_was_within_the_rights_of_a_tenant)


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


@pytest.fixture(scope='module')
def lives(lab):
    """The machines' lives, from now on."""
    return machine_lives.Lives(lab, dict.fromkeys(MACHINES, LIFE))


@pytest.mark.parametrize('name', MACHINES)
@pytest.mark.parametrize('step', LIFE, ids=[step.__name__ for step in LIFE])
def test_life(lives, step, name):
    lives.went_well(name, step)
