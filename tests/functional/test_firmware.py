# SPDX-License-Identifier: Apache-2.0
"""Boot mode and secure boot switched in Ironic's own flows, with a real Nova.

What the guests make of it is for the end-to-end tests.
"""

from openstack import exceptions
import pytest

from tests.functional import machines
from tests.functional import test_rebuild_deploy

# Of Ironic's API: what it has read of the boot mode, and the request for
# another one.
BOOT_MODE, SET_BOOT_MODE = '1.75', '1.76'
STEP = 'change_boot_mode'


@pytest.fixture
def machine(deployment):
    found = machines.Machine(deployment)
    yield found
    found.remove()


@pytest.fixture
def secure_image(deployment):
    """The empty image for secure boot, which few clouds of tests have."""
    deployment.openstack('quintupleo', 'image', 'create', '--secure-boot')
    found = deployment.cloud.image.find_image('quintupleo-empty-secure-boot',
                                              ignore_missing=False)
    yield found.id
    deployment.cloud.image.delete_image(found)


image = test_rebuild_deploy.image
new_machine = test_rebuild_deploy.new_machine


def _image(deployment, firmware):
    return deployment.cloud.image.find_image(
        f'quintupleo-empty-{firmware}', ignore_missing=False).id


def _image_of(machine):
    return machine.compute.get_server(machine.server).image.id


def _node(machine):
    """What Ironic's API tells of the node, the boot mode among it."""
    answer = machine.deployment.api.get(f'/nodes/{machine.node}',
                                        microversion=BOOT_MODE)
    exceptions.raise_from_response(answer)
    return answer.json()


def test_step_there_and_back(machine):
    for mode in ('uefi', 'bios'):
        machine.clean((STEP, {'boot_mode': mode}))
        assert _image_of(machine) == _image(machine.deployment, mode)
    machine.assert_off('rebuild', 'stop', 'rebuild')
    # It has it by now.
    machine.clean((STEP, {'boot_mode': 'bios'}))
    machine.assert_off('rebuild', 'stop', 'rebuild')


@pytest.mark.full
def test_step_out_of_a_rescue(machine):
    compute = machine.compute
    # By position: its name depends on the release of openstacksdk.
    compute.rescue_server(machine.server, None, machine.deployment.cloud.image
                          .find_image('quintupleo-rescue-bios').id)
    machine.deployment.wait_for(lambda: machine.status == 'RESCUE',
                                'Nova to rescue the server')
    machine.clean((STEP, {'boot_mode': 'uefi'}))
    machine.assert_off('rescue', 'unrescue', 'rebuild', 'stop')
    assert _image_of(machine) == _image(machine.deployment, 'uefi')


def test_wiped_disk_keeps_the_boot_mode(machine):
    machine.clean((STEP, {'boot_mode': 'uefi'}), ('wipe_disk', {}))
    machine.assert_off('rebuild', 'stop', 'rebuild')
    assert _image_of(machine) == _image(machine.deployment, 'uefi')


def test_step_for_secure_boot(machine, secure_image):
    machine.clean((STEP, {'boot_mode': 'uefi', 'secure_boot': True}))
    assert _image_of(machine) == secure_image
    machine.clean((STEP, {'boot_mode': 'bios'}))
    assert _image_of(machine) == _image(machine.deployment, 'bios')


def test_missing_image_is_told_with_the_command_that_makes_it(machine):
    node = machine.clean(
        (STEP, {'boot_mode': 'uefi', 'secure_boot': True}),
        wanted='clean failed')
    assert 'quintupleo image create --secure-boot' in node.last_error
    assert machine.deployment.actions(machine.server) == []


def test_request_that_would_cost_a_disk_is_refused(machine):
    answer = machine.deployment.api.put(
        f'/nodes/{machine.node}/states/boot_mode',
        microversion=SET_BOOT_MODE, json={'target': 'uefi'})
    exceptions.raise_from_response(answer)
    machine.deployment.wait_for(
        lambda: STEP in (_node(machine)['last_error'] or ''),
        'Ironic to say why it is not done')
    assert machine.deployment.actions(machine.server) == []


@pytest.mark.full
def test_deployments_by_rebuild_there_and_back(deployment, new_machine,
                                               image):
    machine, path = new_machine(), image()
    before = len(deployment.actions(machine.server))
    for mode in ('uefi', 'bios'):
        machine.set_image(path)
        deployment.api.patch_node(machine.node, [
            {'op': 'add', 'path': '/instance_info/capabilities',
             'value': {'boot_mode': mode}}])
        machine.provision('active', 'active')
        # openstacksdk does not know all properties.
        deployed = deployment.cloud.image.get(
            f'/images/{_image_of(machine)}').json()
        assert deployed.get('hw_firmware_type', 'bios') == mode
        assert _node(machine)['boot_mode'] == mode
        machine.provision('deleted', 'available')
        # The wiped server goes back to the empty image of what it is.
        assert _image_of(machine) == _image(deployment, mode)
    assert deployment.actions(machine.server)[before:] == [
        'rebuild', 'start', 'stop', 'rebuild'] * 2


def test_deployment_without_an_empty_image_leaves_the_machine_alone(
        deployment, new_machine, image):
    machine = new_machine()
    machine.set_image(image())
    deployment.api.patch_node(machine.node, [
        {'op': 'add', 'path': '/instance_info/capabilities',
         'value': {'secure_boot': 'true'}}])
    before = deployment.actions(machine.server)
    with pytest.raises(exceptions.HttpException) as caught:
        deployment.api.set_node_provision_state(machine.node, 'active')
    assert 'empty_image_secure_boot' in str(caught.value)
    assert deployment.actions(machine.server) == before
