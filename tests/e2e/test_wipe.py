# SPDX-License-Identifier: Apache-2.0
"""What is on real disks after wipe_disk, snapshot and restore."""

import json
import subprocess

from openstack import exceptions
import pytest

from tests.e2e import lives as machine_lives

MACHINE = machine_lives.machine('wipe-uefi', 'uefi')
# Of Ironic's API: a service without a ramdisk.
SERVICE = '1.108'
PATIENCE = 900


def node_is_deployed(lab, stage, name):
    api = lab.nodes.connection.baremetal
    # This life need not be as long as those that clean.
    api.update_node(name, automated_clean=False)
    for verb, state in (('manage', 'manageable'), ('provide', 'available')):
        lab.nodes.provision(name, verb, state, stage, 120)
    lab.nodes.deploy(name, stage)
    assert f'hostname {name}' in lab.wait_for_system(name, stage, PATIENCE)


def snapshot_leaves_it_running(lab, stage, name):
    _service(lab, stage, name, 'snapshot', {'name': 'good'})
    assert _actions(lab, name)[-3:] == ['stop', 'createImage', 'start']
    assert lab.nodes.node(name).power_state == 'power on'


def wiped_disk_is_empty(lab, stage, name):
    assert not _is_empty(lab, name)
    _service(lab, stage, name, 'wipe_disk', {})
    assert _server(lab, name).status == 'SHUTOFF'
    assert lab.nodes.node(name).power_state == 'power off'
    assert _is_empty(lab, name)
    # The agent was not needed for it.
    assert _actions(lab, name)[-2:] == ['rebuild', 'stop']


def restored_system_boots(lab, stage, name):
    _service(lab, stage, name, 'restore', {'name': 'good'})
    assert not _is_empty(lab, name)
    lab.nodes.set_power_state(name, 'power on', 'power on')
    line = lab.wait_for_system(name, stage, PATIENCE)
    assert name in line
    assert f'firmware {"BIOS" if name.endswith("bios") else "UEFI"}' in line


def undeployed_node_is_wiped_in_a_manual_cleaning(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 300)
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    _run(lab, stage, name, 'clean', 'clean_steps', 'manageable', [
        ('delete_snapshot', {'name': 'good'}), ('wipe_disk', {})])
    assert _is_empty(lab, name)
    lab.nodes.provision(name, 'provide', 'available', stage, 120)


# In a default run they are part of a life without an agent
# (test_rebuild_deploy.py).
DISK_STEPS = (snapshot_leaves_it_running, wiped_disk_is_empty,
              restored_system_boots)
LIVES = {MACHINE.name: (
    node_is_deployed, *DISK_STEPS,
    undeployed_node_is_wiped_in_a_manual_cleaning)}


def _service(lab, stage, name, step, arguments):
    _run(lab, stage, name, 'service', 'service_steps', 'active',
         [(step, arguments)])


def _run(lab, stage, name, target, key, wanted, steps):
    """Run steps without a ramdisk."""
    answer = lab.nodes.connection.baremetal.put(
        f'/nodes/{name}/states/provision', microversion=SERVICE,
        json={'target': target, 'disable_ramdisk': True, key: [
            {'interface': 'management', 'step': step, 'args': arguments}
            for step, arguments in steps]})
    exceptions.raise_from_response(answer)
    lab.nodes.wait(name, wanted, stage, 600)


def _server(lab, name):
    compute = lab.host_cloud.connection.compute
    return compute.get_server(compute.find_server(name).id)


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


def _is_empty(lab, name):
    """Whether a server's disk holds nothing but zeros."""
    disk = lab.cloud.instances / _server(lab, name).id / 'disk'
    size = json.loads(subprocess.run(
        ['qemu-img', 'info', '--force-share', '--output=json', disk],
        check=True, stdout=subprocess.PIPE).stdout)['virtual-size']
    nothing = lab.cloud.data / 'nothing.raw'
    with open(nothing, 'wb') as target:
        target.truncate(size)
    try:
        compared = subprocess.run(
            ['qemu-img', 'compare', '--force-share', '-F', 'raw', disk,
             nothing], stdout=subprocess.DEVNULL)
        assert compared.returncode in (0, 1)
        return compared.returncode == 0
    finally:
        nothing.unlink()


def prepare(lab, names):
    """Make the server."""
    machine_lives.make_servers(lab, [MACHINE], names)


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
