# SPDX-License-Identifier: Apache-2.0
"""Virtual media through a real Ironic, Nova and Glance.

No guest runs here, so that no agent ever calls: what is looked at is what the
server is rescued with, and what is left in Glance.
"""

import hashlib

from openstack import exceptions
import pytest

from tests.functional import machines
from tests.functional import web

BOOT_INTERFACE = 'quintupleo-virtual-media'
# Of Ironic's API: attach and detach.
VMEDIA = '1.89'


@pytest.fixture(scope='module')
def url(deployment):
    """URL of an ISO, on a web server."""
    with web.serve(deployment.iso.parent) as found:
        yield f'{found}/{deployment.iso.name}'


@pytest.fixture(scope='module')
def published(deployment):
    """Lines of configuration, for where Ironic publishes what it fetched."""
    with web.serve(deployment.ironic.images.parent) as found:
        yield '[deploy]', f'http_url = {found}'


@pytest.fixture(scope='module')
def publishing(deployment, published):
    """Have Ironic publish."""
    with deployment.options(*published):
        yield


class Machine(machines.Machine):
    """A node with its virtual media."""

    def boot_from_media(self, **changes):
        """Let Ironic boot its agent from virtual media."""
        self.deployment.api.update_node(
            self.node, boot_interface=BOOT_INTERFACE, **changes)

    def media(self):
        """The node's images in Glance."""
        return list(self.deployment.cloud.image.images(
            tag=f'{BOOT_INTERFACE}-{self.node}'))

    def attach(self, url, device_type='cdrom'):
        """Attach an ISO as a user does, and wait until it is or is not."""
        self._ask('POST', json={'device_type': device_type, 'image_url': url,
                                'image_download_source': 'http'})
        return self.deployment.wait_for(
            self._at_rest, 'the end of attaching')

    def detach(self):
        """Detach whatever is attached."""
        self._ask('DELETE')
        return self.deployment.wait_for(
            self._at_rest, 'the end of detaching')

    def _ask(self, method, **arguments):
        answer = self.deployment.api.request(
            f'/nodes/{self.node}/vmedia', method, microversion=VMEDIA,
            **arguments)
        exceptions.raise_from_response(answer)

    def _at_rest(self):
        node = self.deployment.api.get_node(self.node)
        return None if node.reservation else node

    def reboot_from(self, device):
        """Reboot it from a boot device, once."""
        nodes = self.deployment.nodes
        nodes.set_boot_device(self.node, device, False)
        nodes.set_power_state(self.node, 'rebooting', 'power on')


@pytest.fixture
def machine(deployment, request):
    found = Machine(deployment, getattr(request, 'param', 'bios'))
    yield found
    found.remove()


def _runs_from_an_iso(machine):
    assert machine.status == 'RESCUE'
    image, = machine.media()
    assert (image.status, image.disk_format, image.visibility) == (
        'active', 'iso', 'private')
    properties = {**image.to_dict(), **(image.to_dict()['properties'] or {})}
    assert properties['hw_rescue_device'] == 'cdrom'
    return image


@pytest.mark.parametrize('machine', [
    'bios', pytest.param('uefi', marks=pytest.mark.full)], indirect=True)
def test_cleaning(machine, agent):
    machine.boot_from_media()
    machine.provision('provide', 'clean wait')
    assert _runs_from_an_iso(machine).size > 2 * 17 * 1024
    machine.provision('abort', 'clean failed')
    assert machine.media() == []
    assert machine.status == 'SHUTOFF'


def test_inspection(machine, agent):
    machine.boot_from_media(inspect_interface='agent')
    machine.provision('inspect', 'inspect wait')
    _runs_from_an_iso(machine)
    machine.provision('abort', 'inspect failed')
    # At once, or as what a dead conductor leaves.
    machine.deployment.wait_for(lambda: not machine.media(),
                                'the ISO to be removed')


def test_deployment(machine, agent, url):
    content = machine.deployment.iso.read_bytes()
    machine.boot_from_media(
        is_automated_clean_enabled=False, instance_info={
            'image_source': url, 'image_type': 'whole-disk',
            'image_os_hash_algo': 'sha256',
            'image_os_hash_value': hashlib.sha256(content).hexdigest()})
    machine.provision('provide', 'available')
    machine.provision('active', 'wait call-back')
    _runs_from_an_iso(machine)
    machine.provision('deleted', 'available')
    assert machine.media() == []
    assert machine.status == 'SHUTOFF'


def test_rescue(machine, agent):
    machine.boot_from_media(rescue_interface='agent')
    machine.adopt()
    machine.provision('rescue', 'rescue wait', rescue_password='secret')
    _runs_from_an_iso(machine)
    machine.provision('abort', 'rescue failed')
    assert machine.media() == []
    machine.provision('unrescue', 'active')
    assert machine.status == 'ACTIVE'


@pytest.mark.full
def test_iso_of_a_user(publishing, machine, url):
    assert machine.attach(url).last_error is None
    # Nothing has happened to the machine.
    assert machine.deployment.actions(machine.server) == []
    machine.reboot_from('cdrom')
    _runs_from_an_iso(machine)
    machine.reboot_from('cdrom')
    assert machine.deployment.actions(machine.server) == [
        'rescue', 'unrescue', 'rescue']
    machine.deployment.api.set_node_boot_device(machine.node, 'cdrom', True)
    assert machine.detach().last_error is None
    assert machine.media() == []
    machine.deployment.nodes.set_power_state(machine.node, 'rebooting',
                                             'power on')
    assert machine.status == 'ACTIVE'


def test_machine_without_a_floppy_drive(machine, url):
    assert 'only cdrom' in machine.attach(url, 'floppy').last_error
    assert machine.media() == []


@pytest.mark.full
def test_what_is_no_iso(publishing, machine, url):
    iso = machine.deployment.iso
    iso.with_name('other').write_bytes(b'other' * 1024)
    node = machine.attach(url.replace(iso.name, 'other'))
    assert '415' in node.last_error


@pytest.mark.full
def test_node_that_is_deleted_leaves_no_iso(deployment, published, url):
    with deployment.options(
            *published, '[conductor]', 'check_provision_state_interval = 1'):
        machine = Machine(deployment)
        machine.attach(url)
        assert len(machine.media()) == 1
        machine.remove()
        deployment.wait_for(lambda: not machine.media(),
                            'the ISO to be removed')
