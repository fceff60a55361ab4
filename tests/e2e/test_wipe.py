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

"""What is on real disks after wipe_disk, snapshot and restore."""

import hashlib
import json
import subprocess

from openstack import exceptions
import pytest

from onebox.minicloud import settings
from onebox import progress
from tests.e2e import lives as machine_lives

NAME = 'uefi-0'
# Of Ironic's API: a service without a ramdisk.
SERVICE = '1.108'
PATIENCE = 900

ENVIRONMENT = 'volumes'
FILE = '''
roles:
  machine: {flavor: tiny, disks: [{size: 1}, {size: 1}]}
'''


def node_is_deployed(lab, stage, name):
    api = lab.nodes.connection.baremetal
    # This life need not be as long as those that clean.
    api.update_node(name, automated_clean=False)
    for verb, state in (('manage', 'manageable'), ('provide', 'available')):
        if lab.nodes.node(name).provision_state not in (
                'available', 'active', state):
            lab.nodes.provision(name, verb, state, stage, 120)
    lab.nodes.deploy(name, stage)
    assert f'hostname {name}' in lab.wait_for_system(name, stage, PATIENCE)


def snapshot_leaves_it_running(lab, stage, name):
    _service(lab, stage, name, 'snapshot', {'name': 'good'})
    assert _actions(lab, name)[-3:] == ['stop', 'createImage', 'start']
    lab.wait_for_system(name, stage, PATIENCE)


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
    assert f'hostname {name}' in line
    assert 'firmware UEFI' in line


def undeployed_node_is_wiped_in_a_manual_cleaning(lab, stage, name):
    lab.nodes.provision(name, 'deleted', 'available', stage, 300)
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    _run(lab, stage, name, 'clean', 'clean_steps', 'manageable', [
        ('delete_snapshot', {'name': 'good'}), ('wipe_disk', {})])
    assert _is_empty(lab, name)
    lab.nodes.provision(name, 'provide', 'available', stage, 120)


LIFE = (node_is_deployed, snapshot_leaves_it_running, wiped_disk_is_empty,
        restored_system_boots, undeployed_node_is_wiped_in_a_manual_cleaning)


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


@pytest.fixture(scope='module')
def lives(lab):
    """The machine's life, from now on."""
    return machine_lives.Lives(lab, {NAME: LIFE})


@pytest.mark.parametrize('step', LIFE, ids=[step.__name__ for step in LIFE])
def test_life(lives, step):
    lives.went_well(NAME, step)


def _rbd(lab, *words):
    return subprocess.run(
        ['rbd', '--conf', lab.cloud.etc / 'ceph' / 'ceph.conf', *words],
        check=True, stdout=subprocess.PIPE).stdout


def _write(lab, volume, pattern):
    _rbd(lab, 'bench', '--io-type', 'write', '--io-size', '1M', '--io-total',
         '8M', '--io-pattern', pattern,
         f'{settings.VOLUME_POOL}/volume-{volume}')


def _content(lab, volume):
    return hashlib.sha256(_rbd(
        lab, 'export', f'{settings.VOLUME_POOL}/volume-{volume}',
        '-')).hexdigest()


def _command(lab, *words):
    return lab.host_cloud.client('quintupleo', 'environment', *words).stdout


def _volumes(lab):
    """UUIDs of the machine's volumes, in the order of its devices."""
    server, = (each for each in lab.host_cloud.connection.compute.servers()
               if each.name == f'{ENVIRONMENT}-machine-0')
    assert server.status == 'SHUTOFF'
    found = lab.host_cloud.connection.compute.volume_attachments(server.id)
    return [each.volume_id for each in sorted(
        found, key=lambda each: each.device)]


def test_volumes_of_an_environment_go_back(lab, tmp_path):
    path = tmp_path / 'volumes.yaml'
    path.write_text(FILE)
    shown = progress.Progress('snapshots')
    try:
        with shown.stage('Volumes') as stage:
            _command(lab, 'create', path, '--name', ENVIRONMENT, '--wait')
            volumes = _volumes(lab)
            for volume in volumes:
                _write(lab, volume, 'seq')
            before = [_content(lab, volume) for volume in volumes]
            stage.waiting('snapshots')
            _command(lab, 'snapshot', ENVIRONMENT, 'start')
            for volume in volumes:
                _write(lab, volume, 'rand')
            assert before != [_content(lab, volume) for volume in volumes]
            stage.waiting('their return')
            _command(lab, 'restore', ENVIRONMENT, 'start')
            assert _volumes(lab) == volumes
            assert before == [_content(lab, volume) for volume in volumes]
    finally:
        _command(lab, 'delete', ENVIRONMENT)
