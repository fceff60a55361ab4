# SPDX-License-Identifier: Apache-2.0
"""Snapshots of machines and of environments, with a real Nova and Glance.

What is on the disks is for the end-to-end tests; here the image that a server
was made from tells it.
"""

from openstack import utils
import pytest

from quintupleo_power.host_cloud import snapshots
from tests.functional import machines
from tests.functional import test_environments
from tests import projects

NAME = test_environments.NAME
FILE = '''
roles:
  control: {kind: server, image: quintupleo-empty-bios, flavor: tiny}
  compute: {flavor: tiny, count: 2}
'''


def _named(name):
    return {'name': name}


@pytest.fixture
def machine(deployment):
    before = deployment.holdings()
    found = machines.Machine(deployment)
    yield found
    server = found.compute.get_server(found.server)
    found.remove()
    found.compute.wait_for_delete(server, interval=0.3)
    images = deployment.cloud.image
    for image in images.images():
        if (image.name or '').endswith(found.server):
            images.delete_image(image)
    assert projects.holdings(deployment.cloud) == before


def _image(machine, name):
    """The image of a snapshot, None if there is none."""
    return machine.deployment.cloud.image.find_image(
        snapshots.title(name, machine.server))


def _image_of(machine):
    """UUID of the image that the server was made from."""
    return machine.compute.get_server(machine.server).image.id


def test_machine_goes_back_to_a_snapshot(machine):
    empty = _image_of(machine)
    machine.clean(('snapshot', _named('first')))
    kept = _image(machine, 'first')
    assert kept.status == 'active'
    # What makes the machine is kept with it.
    properties = {**kept.to_dict(), **(kept.to_dict()['properties'] or {})}
    assert str(properties['os_shutdown_timeout']) == '0'
    machine.clean(('restore', _named('first')))
    assert _image_of(machine) == kept.id
    machine.clean(('wipe_disk', {}), ('delete_snapshot', _named('first')))
    assert _image_of(machine) == empty
    assert _image(machine, 'first') is None
    # It ran when the first began, which started it again.
    machine.assert_off('stop', 'createImage', 'start', 'rebuild', 'stop',
                       'rebuild')


@pytest.mark.full
def test_second_of_a_name(machine):
    machine.clean(('snapshot', _named('first')))
    node = machine.clean(('snapshot', _named('first')),
                         wanted='clean failed')
    assert 'has a snapshot "first"' in node.last_error


@pytest.mark.full
def test_snapshot_of_a_snapshot(machine):
    """Nova hands the marks of the one on to the image of the other."""
    machine.clean(('snapshot', _named('first')), ('restore', _named('first')),
                  ('snapshot', _named('second')))
    machine.compute.create_server_image(machine.server, 'mine', wait=True)
    try:
        machine.clean(('restore', _named('second')))
        assert _image_of(machine) == _image(machine, 'second').id
        node = machine.clean(('restore', _named('third')),
                             wanted='clean failed')
        assert 'it has first, second' in node.last_error
    finally:
        images = machine.deployment.cloud.image
        images.delete_image(images.find_image('mine'))


@pytest.mark.full
def test_deployed_machine_in_service(machine):
    deployment, node = machine.deployment, machine.node
    if not utils.supports_microversion(deployment.api, machines.SERVICE):
        pytest.skip('A service of this Ironic boots its agent first')
    machine.adopt()
    machine.service(('snapshot', _named('good')))
    assert deployment.actions(machine.server) == [
        'stop', 'createImage', 'start']
    assert deployment.api.get_node(node).power_state == 'power on'
    machine.service(('restore', _named('good')))
    assert deployment.api.get_node(node).power_state == 'power off'
    # It was Ironic's own doing.
    result = deployment.api.validate_node(node, required=())
    assert result['power'].result, result['power'].reason


@pytest.fixture
def environment(deployment, tmp_path):
    """An environment of three servers, and the commands."""
    found = test_environments.Project(deployment, tmp_path)
    before = deployment.holdings()
    found.create(path=found.write('snapshots.yaml', FILE))
    yield found
    found.run('delete', NAME, '--ignore-missing')
    # Its snapshots have gone with it.
    assert projects.holdings(found.cloud) == before


def _statuses(environment):
    return {name.removeprefix(f'{NAME}-'): server.status
            for name, server in environment.servers().items()}


@pytest.mark.full
@pytest.mark.newest
def test_environment_goes_back_to_its_start(environment):
    before = _statuses(environment)
    assert before['control-0'] == 'ACTIVE'
    environment.run('snapshot', 'create', NAME, 'start')
    assert _statuses(environment) == before
    found, = environment.run('snapshot', 'list', NAME, '-f', 'json')
    assert (found['Name'], found['Status'], found['Servers']) == (
        'start', 'COMPLETE', 3)
    environment.run('snapshot', 'restore', NAME, 'start')
    assert set(_statuses(environment).values()) == {'SHUTOFF'}
    images = {name: server.image.id
              for name, server in environment.servers().items()}
    for name, server in environment.servers().items():
        kept = environment.cloud.image.find_image(
            snapshots.title('start', server.id))
        assert images[name] == kept.id
    environment.run('snapshot', 'restore', NAME, 'start', '--start')
    assert _statuses(environment) == before

    again = environment.run('snapshot', 'create', NAME, 'start', check=False)
    assert again.returncode == 1
    assert 'snapshot delete' in again.stderr
    assert 'deleted' in environment.run('snapshot', 'delete', NAME, 'start')
    assert environment.run('snapshot', 'list', '-f', 'json') == []
    gone = environment.run('snapshot', 'restore', NAME, 'start', check=False)
    assert 'it has none' in gone.stderr


@pytest.mark.full
@pytest.mark.newest
def test_one_that_fails_leaves_none(environment):
    server = environment.servers()[f'{NAME}-compute-1']
    # As a lock stops only who has no right to unlock.
    environment.deployment.admin.compute.lock_server(
        environment.servers()[f'{NAME}-control-0'].id)
    failed = environment.run('snapshot', 'create', NAME, 'start', '--timeout',
                             '20', check=False)
    assert failed.returncode == 1
    assert f'{NAME}-control-0' in failed.stderr
    environment.deployment.admin.compute.unlock_server(
        environment.servers()[f'{NAME}-control-0'].id)
    assert environment.run('snapshot', 'list', '-f', 'json') == []
    assert environment.cloud.image.find_image(
        snapshots.title('start', server.id)) is None
    assert _statuses(environment)['control-0'] == 'ACTIVE'
