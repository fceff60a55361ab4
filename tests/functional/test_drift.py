# SPDX-License-Identifier: Apache-2.0
"""What a real Ironic says of a server that somebody else changed.

The somebody is the tenant, who may do all of it without Ironic's knowledge.
"""

import uuid

from openstack import exceptions
from openstack import utils
import pytest

from onebox import progress

ON = 'power on'

# The version of Ironic's API that shows the health of nodes.
HEALTH = '1.109'


class Machine:
    """A node that counts as deployed, and its server."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.compute = deployment.cloud.compute
        self.server = deployment.server(name=f'drift-{uuid.uuid4()}')
        # By name, as that is how a server can be replaced.
        self.node = deployment.node(self.server.name)
        deployment.manage(self.node)
        # An adoption ends in "active", which is all that matters here.
        deployment.api.update_node(self.node, instance_info={
            'image_source': 'http://192.0.2.1/image'}, properties={
                'capabilities': 'boot_option:local'})
        with progress.Progress('test').stage('adopt') as stage:
            deployment.nodes.provision(
                self.node.id, 'adopt', 'active', stage, 60)

    def reboot(self, device='disk'):
        """Let Ironic act: what it leaves is what it knows."""
        self.deployment.nodes.set_boot_device(self.node.id, device, False)
        self.deployment.nodes.set_power_state(self.node.id, 'rebooting', ON)

    def wait(self, *statuses):
        """Wait until the server is in one of some states."""
        def look():
            found = self.compute.get_server(self.server.id)
            return found.status in statuses and not found.task_state
        self.deployment.wait_for(look, ' or '.join(statuses))

    def validated(self):
        """What validate says of the power interface."""
        result = self.deployment.api.validate_node(
            self.node.id, required=())['power']
        return None if result.result else result.reason

    def complained(self, *parts):
        """Wait until validate does not go by an older reading any more."""
        def look():
            sentence = self.validated() or ''
            return sentence and all(
                part in sentence for part in parts) and sentence
        return self.deployment.wait_for(look, f'validate to say {parts}')

    def history(self):
        """What the node's history holds."""
        answer = self.deployment.api.get(
            f'/nodes/{self.node.id}/history?detail=true',
            microversion='1.78')
        exceptions.raise_from_response(answer)
        return [entry['event'] for entry in answer.json()['history']]

    def health(self):
        """The health of the node."""
        answer = self.deployment.api.get(
            f'/nodes/{self.node.id}', microversion=HEALTH)
        exceptions.raise_from_response(answer)
        return answer.json()['health']

    def says(self, *parts, health):
        """Wait until power sync has told it, and look at every surface."""
        sentence = self.complained(*parts)
        told = sentence.partition(': ')[2]
        # Until it is written: in SQLite, Ironic 24.1 keeps a transaction open
        # when it lists a history, and can write nothing then.
        log = self.deployment.ironic.logs / 'ironic.log'
        self.deployment.wait_for(
            lambda: f'{self.node.id}: {told}' in log.read_text(
                errors='replace'), f'the log to hold "{told}"')
        self.deployment.wait_for(
            lambda: told in self.history(), f'the history to hold "{told}"')
        if utils.supports_microversion(self.deployment.api, HEALTH):
            self.deployment.wait_for(lambda: self.health() == health,
                                     f'the health to be {health}')

    def remove(self):
        """Delete node and server."""
        api = self.deployment.api
        api.set_node_maintenance(self.node.id, 'removed')
        api.delete_node(self.node.id)
        self.compute.delete_server(self.server.id, force=False)


@pytest.fixture(scope='module')
def quick_sync(deployment):
    """An Ironic that synchronises power often."""
    with deployment.options('[conductor]', 'sync_power_state_interval = 2',
                            'power_state_sync_max_retries = 1'):
        yield deployment


@pytest.fixture
def machine(quick_sync):
    found = Machine(quick_sync)
    yield found
    found.remove()


@pytest.mark.full
def test_left_alone(machine):
    machine.reboot()
    assert machine.validated() is None


def test_rebuilt(machine):
    machine.reboot()
    machine.compute.rebuild_server(
        machine.server.id, image=machine.server.image.id)
    machine.wait('ACTIVE')
    machine.says(machine.server.id, 'was rebuilt at', 'deploy the node again',
                 health='Critical')
    # Ironic's own requests do not cover it up.
    machine.reboot()
    assert 'was rebuilt at' in machine.validated()


@pytest.mark.full
def test_resized(machine):
    machine.reboot()
    flavor = machine.compute.find_flavor(
        'baremetal-small', ignore_missing=False)
    machine.compute.resize_server(machine.server.id, flavor.id)
    machine.wait('VERIFY_RESIZE')
    machine.complained('a resize waits to be confirmed')
    machine.compute.confirm_server_resize(machine.server.id)
    machine.wait('ACTIVE')
    machine.says("from flavor 'tiny'", 'inspect the node again',
                 health='Warning')


@pytest.mark.full
def test_unrescued(machine):
    machine.reboot('pxe')
    machine.wait('RESCUE')
    assert machine.validated() is None
    machine.compute.unrescue_server(machine.server.id)
    machine.wait('ACTIVE')
    machine.says('was booted from the network by Ironic and is ACTIVE now',
                 health='Warning')


@pytest.mark.full
def test_rescued(machine):
    machine.reboot()
    machine.compute.rescue_server(machine.server.id)
    machine.wait('RESCUE')
    machine.says('was rescued, not by Ironic', health='Warning')
    # What the sentence advises helps.
    machine.reboot()
    assert machine.validated() is None


@pytest.mark.full
def test_replaced(machine):
    machine.reboot()
    old = machine.server
    api = machine.deployment.api
    # Power sync would give the node up while no server has the name.
    api.set_node_maintenance(machine.node.id, 'its server is replaced')
    machine.compute.delete_server(old.id)
    machine.compute.wait_for_delete(old, interval=0.3)
    machine.server = machine.deployment.server(name=old.name)
    api.unset_node_maintenance(machine.node.id)
    parts = (f'is server {machine.server.id} now', f'was server {old.id}')
    machine.complained(*parts)
    _given_up(machine, *parts)
    with pytest.raises(Exception, match='is server .* now and was server'):
        machine.reboot()
    assert machine.deployment.actions(machine.server.id) == []


@pytest.mark.full
def test_deleted(machine):
    machine.reboot()
    machine.compute.delete_server(machine.server.id)
    machine.compute.wait_for_delete(machine.server, interval=0.3)
    told = f"No server is named '{machine.server.name}'"
    machine.complained(told)
    _given_up(machine, told)


def _given_up(machine, *parts):
    """Wait until power sync puts the node into maintenance, saying why."""
    api = machine.deployment.api
    machine.deployment.wait_for(
        lambda: api.get_node(machine.node.id).is_maintenance,
        'power sync to give the node up')
    node = api.get_node(machine.node.id)
    for text in (node.maintenance_reason, node.last_error,
                 '\n'.join(machine.history())):
        assert all(part in text for part in parts), text
