# SPDX-License-Identifier: Apache-2.0
"""Deployment by rebuild in Ironic's own life of a node, with a real Nova.

What the deployed system makes of it is for the end-to-end tests.
"""

import base64
import secrets
import struct

from openstack import exceptions
import pytest

from onebox import progress
from tests.functional import machines

INTERFACE = 'quintupleo-rebuild'
TAG = 'quintupleo-instance'
SCRIPT = '#!/bin/sh\necho hello\n'


def _public_key():
    """A key of 32 bytes, as OpenSSH writes it."""
    parts = (b'ssh-ed25519', bytes(range(32)))
    blob = b''.join(struct.pack('>I', len(part)) + part for part in parts)
    return f'ssh-ed25519 {base64.b64encode(blob).decode()} test'


DRIVE = {'user_data': SCRIPT, 'meta_data': {
    'hostname': 'web', 'public_keys': {'mine': _public_key()},
    'meta': {'role': 'web'}}}


class Machine(machines.Machine):
    """A node that is deployed by rebuild."""

    def __init__(self, deployment, never_off=False):
        super().__init__(deployment)
        if never_off:
            self.forbid_power_off()
        deployment.api.update_node(self.node, deploy_interface=INTERFACE)
        self.provision('provide', 'available')

    def provision(self, verb, wanted, **arguments):
        """Ask for a provision state and wait until it is reached."""
        with progress.Progress('test').stage(verb) as stage:
            self.deployment.nodes.provision(
                self.node, verb, wanted, stage, 120, **arguments)

    def set_image(self, path):
        """Choose the image for the next deployment."""
        self.deployment.api.update_node(self.node, instance_info={
            # Ironic 39 cannot find out of a file.
            'image_type': 'whole-disk', 'image_source': f'file://{path}'})

    def deploy(self, path, **arguments):
        """Deploy an image; return the server as an administrator sees it."""
        self.set_image(path)
        self.provision('active', 'active', **arguments)
        return self.deployment.admin.compute.get_server(self.server)


@pytest.fixture
def image(deployment):
    """The path of an image, and of others by a number."""
    made = []

    def make(number=0):
        path = deployment.ironic.images / f'system-{number}.raw'
        path.write_bytes(secrets.token_bytes(1024 * 1024))
        path.chmod(0o644)
        made.append(path)
        return path

    yield make
    for path in made:
        path.unlink()


@pytest.fixture
def new_machine(deployment):
    """Makes machines; they and their images are removed at the end."""
    made = []

    def make(**arguments):
        made.append(Machine(deployment, **arguments))
        return made[-1]

    yield make
    for machine in made:
        machine.remove()
    for machine in made:
        deployment.wait_for(
            lambda machine=machine: machine.compute.find_server(
                machine.server) is None, 'the server to go')
    for found in _cached(deployment):
        deployment.cloud.image.delete_image(found)


def _cached(deployment):
    return list(deployment.cloud.image.images(tag=TAG))


@pytest.mark.full
def test_life_without_an_agent(deployment, new_machine, image):
    machine = new_machine()
    # Automated cleaning.
    assert deployment.actions(machine.server) == ['rebuild', 'stop']
    empty = machine.compute.get_server(machine.server).image.id
    server = machine.deploy(image(), config_drive=DRIVE)
    cached, = _cached(deployment)
    # Nova's API has it as a text.
    assert (server.status, server.image.id, str(server.has_config_drive)) == (
        'ACTIVE', cached.id, 'True')
    assert base64.b64decode(server.user_data).decode() == SCRIPT
    assert (server.hostname, server.metadata) == ('web', {'role': 'web'})
    assert server.key_name
    assert list(deployment.cloud.compute.keypairs()) == []
    assert deployment.actions(machine.server)[2:] == ['rebuild', 'start']
    machine.provision('deleted', 'available')
    server = deployment.admin.compute.get_server(machine.server)
    assert (server.status, server.image.id, server.user_data,
            server.key_name, server.metadata) == (
        'SHUTOFF', empty, None, None, {})
    assert deployment.actions(machine.server)[4:] == ['stop', 'rebuild']


@pytest.mark.full
def test_life_of_a_machine_that_is_never_off(deployment, new_machine, image):
    machine = new_machine(never_off=True)
    # What Ironic does after each cleaning of such a node is the reboot.
    machine.assert_on('rebuild', 'reboot')
    server = machine.deploy(image(), config_drive=DRIVE)
    cached, = _cached(deployment)
    assert (server.image.id, server.metadata) == (cached.id, {'role': 'web'})
    machine.assert_on('rebuild', 'reboot', 'rebuild')
    machine.provision('deleted', 'available')
    server = deployment.admin.compute.get_server(machine.server)
    assert (server.user_data, server.metadata) == (None, {})
    assert server.image.id != cached.id
    machine.assert_on('rebuild', 'reboot', 'rebuild', 'rebuild', 'reboot')


def test_two_at_once_upload_one_image(deployment, new_machine, image):
    pair, path = [new_machine(), new_machine()], image()
    for machine in pair:
        machine.set_image(path)
        deployment.api.set_node_provision_state(machine.node, 'active')
    for machine in pair:
        with progress.Progress('test').stage('both') as stage:
            deployment.nodes.wait(machine.node, 'active', stage, 120)
    cached, = _cached(deployment)
    assert {machine.compute.get_server(machine.server).image.id
            for machine in pair} == {cached.id}


@pytest.mark.full
def test_images_that_no_server_is_made_from_go(deployment, new_machine,
                                               image):
    with deployment.options('[quintupleo]', 'unused_instance_images = 0'):
        first, second = new_machine(), new_machine()
        first.deploy(image(0))
        second.deploy(image(1))
        # A server is made from each.
        assert len(_cached(deployment)) == 2
        first.provision('deleted', 'available')
        server = first.deploy(image(2))
        assert {each.id for each in _cached(deployment)} == {
            server.image.id,
            second.compute.get_server(second.server).image.id}


def test_failed_deployment_can_be_repeated(deployment, new_machine, image):
    machine, path = new_machine(), image()
    machine.set_image(path)
    deployment.admin.compute.lock_server(machine.server)
    deployment.api.set_node_provision_state(machine.node, 'active')
    node = deployment.wait_for(
        lambda: machine.in_state('deploy failed'), 'the deployment to fail')
    assert 'it is locked' in node.last_error
    deployment.admin.compute.unlock_server(machine.server)
    machine.deploy(path)


def test_what_is_refused_leaves_the_machine_alone(deployment, new_machine,
                                                  image):
    machine = new_machine()
    machine.set_image(image())
    before = deployment.actions(machine.server)
    deployment.api.set_node_provision_state(
        machine.node, 'active', config_drive={'vendor_data': {'a': 1}})
    node = deployment.wait_for(
        lambda: machine.in_state('deploy failed'), 'the deployment to fail')
    assert 'vendor_data' in node.last_error
    assert deployment.actions(machine.server) == before
    assert _cached(deployment) == []


def test_disk_of_an_instance_that_overrides_the_interface_is_wiped(
        deployment, new_machine, image):
    machine = new_machine()
    empty = machine.compute.get_server(machine.server).image.id
    deployment.api.update_node(machine.node, deploy_interface='direct')
    machine.set_image(image())
    deployment.api.patch_node(machine.node, [
        {'op': 'add', 'path': '/instance_info/deploy_interface',
         'value': INTERFACE}])
    machine.provision('active', 'active')
    assert machine.compute.get_server(machine.server).image.id != empty
    # The interface of the node would boot an agent, which nobody has here.
    machine.provision('deleted', 'available')
    assert machine.compute.get_server(machine.server).image.id == empty
    assert deployment.actions(machine.server)[-2:] == ['stop', 'rebuild']


@pytest.mark.parametrize('interface, step', [
    ('deploy', 'write_poetry'),
    pytest.param('power', 'set_power_state', marks=pytest.mark.full)])
def test_deploy_step_that_cannot_be_run_fails_the_deployment(
        deployment, new_machine, image, interface, step):
    machine = new_machine()
    machine.set_image(image())
    before = deployment.actions(machine.server)
    deployment.api.set_node_provision_state(
        machine.node, 'active', deploy_steps=[
            {'interface': interface, 'step': step, 'args': {},
             'priority': 50}])
    node = deployment.wait_for(
        lambda: machine.in_state('deploy failed'), 'the deployment to fail')
    assert step in node.last_error
    assert deployment.actions(machine.server) == before


@pytest.mark.parametrize('interface, step, arguments', [
    pytest.param('power', 'set_power_state', {'power_state': 'power off'},
                 marks=pytest.mark.full),
    ('deploy', 'tear_down', {})])
def test_service_step_that_is_none_is_not_called(
        deployment, new_machine, image, interface, step, arguments):
    machine = new_machine()
    server = machine.deploy(image())
    before = deployment.actions(machine.server)
    # openstacksdk's function has no service steps.
    exceptions.raise_from_response(deployment.api.put(
        f'/nodes/{machine.node}/states/provision', microversion='1.87',
        json={'target': 'service', 'service_steps': [
            {'interface': interface, 'step': step, 'args': arguments}]}))
    node = deployment.wait_for(
        lambda: machine.in_state('service failed'), 'the service to fail')
    assert step in node.last_error
    assert deployment.actions(machine.server) == before
    assert machine.compute.get_server(machine.server).image == server.image
