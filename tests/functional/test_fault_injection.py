# SPDX-License-Identifier: Apache-2.0
"""Faults on demand: each kind, with a real Ironic and a real Nova."""

import json
import secrets
import time

from onebox import progress
from openstack import exceptions
import pytest

from quintupleo_power.faults import kinds
from tests.functional import machines

OFF, ON, REBOOT = 'power off', 'power on', 'rebooting'
# Seconds that Ironic gives a power request that brings no timeout.
TIMEOUT = 6
OPTIONS = ('[conductor]', f'power_state_change_timeout = {TIMEOUT}')
# Of Ironic's API: the history of a node.
HISTORY = '1.78'
INTERVAL = 2


class Machine(machines.Machine):
    """A node that has faults."""

    def ask(self, method, path, body=None, **options):
        """Ask Ironic's API about the node and return what it answers."""
        answer = self.deployment.api.request(
            f'/nodes/{self.node}/{path}', method, json=body, **options)
        exceptions.raise_from_response(answer)
        return answer.json() if answer.content else None

    def passthru(self, method, **arguments):
        """Call the vendor passthru; return the faults that it is about."""
        return self.ask(method, 'vendor_passthru/faults', arguments or None)[
            'faults']

    def create(self, kind, **arguments):
        """Give the node a fault."""
        fault, = self.passthru('POST', kind=kind, **arguments)
        return fault

    def power(self, target):
        """Ask for a power state; return the node when that has ended."""
        self.deployment.api.set_node_power_state(self.node, target)
        return self.at_rest()

    def at_rest(self):
        """Return the node when nothing has it any more."""
        def look():
            node = self.deployment.api.get_node(self.node)
            return None if (node.target_power_state
                            or node.reservation) else node

        return self.deployment.wait_for(look, 'the end of a request')

    def boot_from(self, device, persistent=False):
        """Set the boot device and reboot."""
        self.deployment.nodes.set_boot_device(self.node, device, persistent)
        self.power(REBOOT)

    @property
    def actions(self):
        """What Nova has done with the server."""
        return self.deployment.actions(self.server)

    def wait_for_status(self, status):
        """Wait until the server is in a status."""
        self.deployment.wait_for(lambda: self.status == status,
                                 f'the server to be {status}')


@pytest.fixture(scope='module')
def permitted(deployment):
    """An Ironic that leaves power states alone; it permits faults anyway."""
    with deployment.options(*OPTIONS, 'sync_power_state_interval = 3600'):
        yield deployment


@pytest.fixture
def machine(permitted):
    found = Machine(permitted)
    yield found
    found.remove()


def test_power_fails_as_often_as_it_says(machine):
    fault = machine.create('power-fails', times=2)
    for _ in range(2):
        node = machine.power(OFF)
        assert (node.power_state, machine.actions) == (ON, [])
        assert f'fault {fault["id"]}' in node.last_error
    assert machine.passthru('GET') == []
    machine.power(OFF)
    machine.assert_off('stop')


@pytest.mark.full
def test_power_hangs(machine):
    machine.create('power-hangs', seconds=3)
    begun = time.monotonic()
    machine.power(OFF)
    assert time.monotonic() - begun >= 3
    machine.assert_off('stop')
    # For no longer than Ironic waits.
    machine.create('power-hangs', seconds=3600)
    begun = time.monotonic()
    node = machine.power(ON)
    assert time.monotonic() - begun < 5 * TIMEOUT
    assert f'not answered within {TIMEOUT} s' in node.last_error
    assert machine.actions == ['stop']


def test_power_is_ignored(machine):
    machine.create('power-ignored')
    node = machine.power(OFF)
    assert (node.power_state, node.last_error) == (OFF, None)
    assert (machine.status, machine.actions) == ('ACTIVE', [])


def pass_the_time_of_a_late_request():
    """Wait until one that is 5 s late would be done: nothing shows that.

    The driver looks for them each 5 s.
    """
    time.sleep(12)


@pytest.mark.full
def test_power_is_late(machine):
    machine.create('power-late', seconds=5)
    node = machine.power(OFF)
    assert (node.power_state, machine.actions) == (OFF, [])
    machine.wait_for_status('SHUTOFF')
    machine.at_rest()
    machine.assert_off('stop')


@pytest.mark.full
def test_late_power_request_is_dropped_by_a_delete(machine):
    machine.create('power-late', seconds=5)
    machine.power(OFF)
    machine.passthru('DELETE')
    pass_the_time_of_a_late_request()
    assert (machine.status, machine.actions) == ('ACTIVE', [])


@pytest.mark.full
def test_newer_power_request_supersedes_a_late_one(machine):
    machine.create('power-late', seconds=5)
    machine.power(OFF)
    assert machine.power(REBOOT).power_state == ON
    pass_the_time_of_a_late_request()
    assert (machine.status, machine.actions) == ('ACTIVE', ['reboot'])


@pytest.mark.full
def test_late_power_request_outlives_a_restart(permitted, machine):
    machine.create('power-late', seconds=20)
    machine.power(OFF)
    permitted.ironic.stop()
    with progress.Progress('test').stage('Ironic') as stage:
        permitted.ironic.start(stage, api_only=True)
    machine.wait_for_status('SHUTOFF')
    machine.at_rest()
    machine.assert_off('stop')


@pytest.mark.full
def test_power_state_lies(machine):
    machine.create('power-state-lies')
    # Ironic finds the node off and asks for nothing.
    assert machine.power(OFF).power_state == OFF
    assert (machine.status, machine.actions) == ('ACTIVE', [])


@pytest.mark.parametrize('target', [
    REBOOT, pytest.param('soft rebooting', marks=pytest.mark.full)])
def test_reboot_stays_off(machine, target):
    machine.create('reboot-stays-off')
    node = machine.power(target)
    assert (node.power_state, node.last_error) == (ON, None)
    assert (machine.status, machine.actions) == ('SHUTOFF', ['stop'])


@pytest.mark.full
def test_boot_device_is_ignored(machine):
    machine.create('boot-device-ignored')
    machine.boot_from('pxe')
    assert (machine.status, machine.actions) == ('ACTIVE', ['reboot'])
    machine.boot_from('pxe')
    assert machine.status == 'RESCUE'


@pytest.mark.full
def test_boot_device_is_lost_after_one_boot(machine):
    machine.create('boot-device-lost')
    machine.boot_from('pxe', persistent=True)
    assert machine.status == 'RESCUE'
    machine.power(REBOOT)
    assert (machine.status, machine.actions) == (
        'ACTIVE', ['rescue', 'unrescue'])


@pytest.mark.full
def test_virtual_media_are_lost(machine, agent):
    machine.deployment.api.update_node(
        machine.node, boot_interface='quintupleo-virtual-media')
    machine.create('virtual-media-lost')
    # Ironic waits for an agent: the machine has booted its disk.
    machine.provision('provide', 'clean wait')
    assert machine.status == 'ACTIVE'
    assert 'rescue' not in machine.actions
    assert [] == list(machine.deployment.cloud.image.images(
        tag=f'quintupleo-virtual-media-{machine.node}'))
    machine.provision('abort', 'clean failed')


def test_console_is_away(machine):
    machine.create('console-away', times=2)

    def enable():
        machine.ask('PUT', 'states/console', {'enabled': True})
        return machine.at_rest()

    assert 'its console cannot be reached' in machine.deployment.wait_for(
        lambda: enable().last_error, 'the console to fail')
    machine.passthru('DELETE')
    machine.deployment.wait_for(lambda: enable().is_console_enabled,
                                'the console')
    machine.create('console-away')
    with pytest.raises(exceptions.HttpException, match='cannot be reached'):
        machine.ask('GET', 'states/console')
    assert machine.ask('GET', 'states/console')['console_info']


@pytest.mark.full
def test_nmi_is_ignored(machine):
    machine.create('nmi-ignored')
    machine.deployment.api.inject_nmi_to_node(machine.node)
    assert machine.actions == []
    machine.deployment.api.inject_nmi_to_node(machine.node)
    assert 'trigger_crash_dump' in machine.actions


@pytest.mark.full
def test_same_seed_has_the_same_faults(machine):
    def outcomes():
        machine.create('power-fails', probability=0.5, seed=7)
        found = [bool(machine.power(REBOOT).last_error) for _ in range(6)]
        fault, = machine.passthru('GET')
        assert (fault['draws'], fault['injected']) == (6, sum(found))
        machine.passthru('DELETE')
        return found

    first = outcomes()
    assert set(first) == {True, False}
    assert outcomes() == first


def test_faults_are_shown(machine):
    api = machine.deployment.api
    before = api.validate_node(machine.node, required=())
    fault = machine.create('power-ignored', times=2)
    machine.power(REBOOT)
    after = api.validate_node(machine.node, required=())
    assert not after['inspect'].result
    assert fault['id'] in after['inspect'].reason
    # Else no client would deploy to the node.
    assert {name: found.result for name, found in before.items()} == {
        **{name: found.result for name, found in after.items()},
        'inspect': True}
    events = [entry['event'] for entry in machine.ask(
        'GET', 'history', microversion=HISTORY)['history']]
    for what in ('is set', 'happens: a power request is answered and not '
                 'done'):
        assert f'Fault {fault["id"]} {what}' in events


def _command(machine, *words):
    """Run a command for faults; return what it prints."""
    verb, *words = words
    return json.loads(machine.deployment.openstack(
        'quintupleo', 'fault', verb, '--os-baremetal-endpoint',
        machine.deployment.ironic.api_url, machine.node, *words, '-f',
        'json').stdout)


def test_commands(machine):
    created = _command(machine, 'create', 'power-fails', '--times', '3')
    assert machine.passthru('GET') == [created]
    listed, = _command(machine, 'list')
    assert (listed['ID'], listed['Times']) == (created['id'], 3)
    deleted, = _command(machine, 'delete', created['id'])
    assert deleted['ID'] == created['id']
    assert machine.passthru('GET') == []


@pytest.fixture(scope='module')
def image(deployment):
    """The path of an image to deploy."""
    path = deployment.ironic.images / 'faults.raw'
    path.write_bytes(secrets.token_bytes(1024 * 1024))
    path.chmod(0o644)
    yield path
    path.unlink()
    for found in deployment.cloud.image.images(tag='quintupleo-instance'):
        deployment.cloud.image.delete_image(found)


@pytest.mark.parametrize('seed', [
    9, *(pytest.param(seed, marks=pytest.mark.full) for seed in (5, 6))])
def test_deployment_ends_well_or_says_why(machine, image, seed):
    api = machine.deployment.api
    api.update_node(
        machine.node, deploy_interface='quintupleo-rebuild', instance_info={
            'image_type': 'whole-disk', 'image_source': f'file://{image}'})
    machine.provision('provide', 'available')
    for number, kind in enumerate(kinds.KINDS):
        machine.create(kind, probability=0.3, seed=100 * seed + number,
                       **({'seconds': 2} if kind in kinds.TAKE_SECONDS
                          else {}))
    api.set_node_provision_state(machine.node, 'active')

    def ended():
        node = api.get_node(machine.node)
        return node if node.provision_state in (
            'active', 'deploy failed') and not node.reservation else None

    node = machine.deployment.wait_for(ended, 'the end of the deployment')
    if node.provision_state == 'deploy failed':
        assert node.last_error
    machine.passthru('DELETE')
    machine.provision('rebuild' if node.provision_state == 'active'
                      else 'active', 'active')
    assert machine.status == 'ACTIVE'


# These come last, as they give Ironic another configuration.

def test_nothing_of_it_is_reached_without_the_option(machine):
    for kind in kinds.KINDS:
        machine.create(kind, probability=1,
                       **({'seconds': 2} if kind in kinds.TAKE_SECONDS
                          else {}))
    deployment = machine.deployment
    with deployment.options('[quintupleo]', 'fault_injection = false'):
        for method, arguments in (('GET', {}), ('DELETE', {}),
                                  ('POST', {'kind': 'power-fails'})):
            with pytest.raises(exceptions.BadRequestException,
                               match='fault_injection'):
                machine.passthru(method, **arguments)
        machine.boot_from('pxe')
        machine.power(OFF)
        machine.assert_off('rescue', 'unrescue', 'stop')
        found = deployment.api.validate_node(machine.node, required=())
        assert found['inspect'].result


@pytest.mark.full
def test_power_sync_brings_a_machine_where_it_was_to_be(deployment):
    with deployment.options(*OPTIONS,
                            f'sync_power_state_interval = {INTERVAL}'):
        machine = Machine(deployment)
        try:
            machine.create('reboot-stays-off')
            machine.power(REBOOT)
            machine.wait_for_status('ACTIVE')
            machine.at_rest()
            machine.assert_on('stop', 'start')
        finally:
            machine.remove()
