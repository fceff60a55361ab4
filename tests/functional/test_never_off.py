# SPDX-License-Identifier: Apache-2.0
"""A node that must never be off (disable_power_off), with a real Nova."""

import pytest

from tests.functional import machines

WIPE = ('wipe_disk', {})
SNAPSHOT = ('snapshot', {'name': 'never-off'})
RESTORE = ('restore', {'name': 'never-off'})
DELETE = ('delete_snapshot', {'name': 'never-off'})


@pytest.fixture
def machine(deployment):
    found = machines.Machine(deployment)
    yield found
    found.remove()


@pytest.mark.full
def test_wiped_disk(machine):
    machine.forbid_power_off()
    machine.clean(WIPE)
    machine.assert_on('rebuild')
    # Somebody else may switch it off.
    machine.compute.stop_server(machine.server)
    machine.deployment.wait_for(lambda: machine.status == 'SHUTOFF',
                                'Nova to stop the server')
    machine.clean(WIPE)
    machine.assert_on('rebuild', 'stop', 'rebuild', 'start')


@pytest.mark.full
def test_snapshot_is_refused_and_its_restore_is_not(machine):
    machine.clean(SNAPSHOT)
    before = machine.deployment.actions(machine.server)
    machine.forbid_power_off()
    machine.clean(RESTORE)
    machine.assert_on(*before, 'rebuild')
    machine.clean(DELETE)
    node = machine.clean(SNAPSHOT, wanted='clean failed')
    assert 'a snapshot takes a machine that is off' in node.last_error
    assert machine.status == 'ACTIVE'
    assert machine.deployment.actions(machine.server) == [*before, 'rebuild']


def test_rescue_and_back(machine, agent):
    machine.deployment.api.update_node(
        machine.node, boot_interface='quintupleo-virtual-media',
        rescue_interface='agent')
    machine.forbid_power_off()
    machine.adopt()
    machine.provision('rescue', 'rescue wait', rescue_password='secret')
    assert machine.status == 'RESCUE'
    machine.provision('abort', 'rescue failed')
    machine.provision('unrescue', 'active')
    assert machine.status == 'ACTIVE'
    assert machine.deployment.actions(machine.server) == [
        'rescue', 'unrescue']


def test_network_interface_says_so(machine):
    machine.deployment.api.update_node(
        machine.node, network_interface='quintupleo')
    machine.forbid_power_off()
    found = machine.deployment.api.validate_node(machine.node, required=())
    assert not found['network'].result
    assert 'disable_power_off' in found['network'].reason
