# SPDX-License-Identifier: Apache-2.0
"""The step wipe_disk in Ironic's own cleaning, against a real Nova."""

from openstack import exceptions
from openstack import utils
import pytest

from onebox import progress
from tests.functional import machines

WIPE = ('wipe_disk', {})
RUNBOOK = 'CUSTOM_WIPE_DISK'
# Of Ironic's API: runbooks, and the first release of those tested whose
# automated cleaning takes one.
RUNBOOKS, BY_RUNBOOK = '1.92', '1.101'


@pytest.fixture
def machine(deployment):
    found = machines.Machine(deployment)
    yield found
    found.remove()


def test_manual_cleaning(machine):
    machine.clean(WIPE)
    machine.assert_off('rebuild', 'stop')
    machine.clean(WIPE)
    machine.assert_off('rebuild', 'stop', 'rebuild')


def test_automated_cleaning_never_boots_the_agent(machine):
    deployment = machine.deployment
    if not utils.supports_microversion(deployment.api, BY_RUNBOOK):
        pytest.skip('Automated cleaning of this Ironic takes no runbook')
    answer = deployment.api.post('/runbooks', microversion=RUNBOOKS, json={
        'name': RUNBOOK, 'disable_ramdisk': True,
        'steps': [{'interface': 'management', 'step': 'wipe_disk',
                   'args': {}, 'order': 1}]})
    exceptions.raise_from_response(answer)
    try:
        with deployment.options(
                '[conductor]', 'automated_cleaning_step_source = runbook',
                f'automated_cleaning_runbook = {RUNBOOK}',
                'automated_cleaning_runbook_validate_traits = false'):
            with progress.Progress('test').stage('provide') as stage:
                deployment.nodes.provision(
                    machine.node, 'provide', 'available', stage, 120)
            machine.assert_off('rebuild', 'stop')
    finally:
        deployment.api.delete(f'/runbooks/{RUNBOOK}', microversion=RUNBOOKS)


def test_deployed_server_goes_back_to_the_empty_image(machine):
    images = machine.deployment.cloud.image
    empty = machine.compute.get_server(machine.server).image.id
    other = images.create_image(
        name='wipe-other', disk_format='raw', container_format='bare',
        data=b'deployed' * 1024, validate_checksum=False)
    try:
        machine.compute.rebuild_server(machine.server, image=other.id)
        machine.deployment.wait_for(
            lambda: machine.compute.get_server(machine.server).status
            == 'ACTIVE', 'Nova to rebuild the server')
        assert machine.compute.get_server(machine.server).image.id == other.id
        machine.clean(WIPE)
        machine.assert_off('rebuild', 'rebuild', 'stop')
        assert machine.compute.get_server(machine.server).image.id == empty
    finally:
        images.delete_image(other)


def test_locked_server(machine):
    machine.compute.lock_server(machine.server)
    node = machine.clean(WIPE, wanted='clean failed')
    assert 'it is locked' in node.last_error
    assert machine.deployment.actions(machine.server) == ['lock']
    machine.compute.unlock_server(machine.server)
