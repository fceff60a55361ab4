# SPDX-License-Identifier: Apache-2.0
"""Inspection, and what else Ironic reads of a real server, and its NMI."""

import time
import uuid

from onebox import progress
from openstack import exceptions
import pytest

MAC = '52:54:00:00:17:01'
IGNORED_MAC = 'fa:16:3e:00:17:02'
# One that Nova's fake hypervisor has.
TRAIT = 'COMPUTE_NET_ATTACH_INTERFACE'
# Seconds, with Ironic's own checks before it and a look each second.
SOON = 5


@pytest.fixture(scope='module')
def network(deployment):
    """A network of the tenant's own."""
    neutron = deployment.cloud.network
    found = neutron.create_network(name=f'inspect-{uuid.uuid4()}')
    neutron.create_subnet(network_id=found.id, ip_version=4,
                          cidr='192.0.2.0/24', is_dhcp_enabled=False)
    yield found
    for port in neutron.ports(network_id=found.id):
        neutron.delete_port(port)
    neutron.delete_network(found)


@pytest.fixture(scope='module')
def flavor(deployment):
    """A flavor that requires a trait."""
    compute = deployment.admin.compute
    found = compute.create_flavor(name=f'inspect-{uuid.uuid4()}', vcpus=2,
                                  ram=96, disk=1)
    compute.create_flavor_extra_specs(found, {f'trait:{TRAIT}': 'required'})
    yield found
    compute.delete_flavor(found)


@pytest.fixture
def machine(deployment, network, flavor):
    """A managed node without properties or ports, and its server."""
    cloud = deployment.cloud
    ports = [cloud.network.create_port(network_id=network.id, mac_address=mac)
             for mac in (MAC, IGNORED_MAC)]
    server = deployment.host_cloud.wait_for_server(
        cloud.compute.create_server(
            name=f'inspect-{uuid.uuid4()}', flavor_id=flavor.id,
            image_id=cloud.image.find_image('quintupleo-empty-uefi').id,
            networks=[{'port': port.id} for port in ports]))
    node = deployment.node(server.id)
    deployment.manage(node)
    yield deployment, node.id, server.id
    deployment.api.delete_node(node.id)
    cloud.compute.delete_server(server.id)
    cloud.compute.wait_for_delete(server, wait=60)
    for port in ports:
        cloud.network.delete_port(port)


def _inspect(deployment, node):
    with progress.Progress('test').stage('inspect') as stage:
        deployment.nodes.provision(node, 'inspect', 'manageable', stage, 60)
    return deployment.api.get_node(node)


def _history(deployment, node):
    answer = deployment.api.get(f'/nodes/{node}/history?detail=true',
                                microversion='1.78')
    exceptions.raise_from_response(answer)
    return [entry['event'] for entry in answer.json()['history']]


def test_server_that_is_off_is_inspected(machine, network):
    deployment, node, server = machine
    deployment.nodes.set_power_state(node, 'power off', 'power off')
    begun = time.monotonic()
    found = _inspect(deployment, node)
    assert time.monotonic() - begun < SOON
    assert (found.power_state, found.inspect_interface) == (
        'power off', 'quintupleo')
    assert deployment.actions(server) == ['stop']
    assert found.properties == {
        'cpus': 2, 'memory_mb': 96, 'local_gb': 1, 'cpu_arch': 'x86_64',
        'vendor': 'openstack foundation',
        'capabilities': 'boot_mode:uefi,secure_boot:false'}
    assert {port.address: port.physical_network for port
            in deployment.api.ports(node=node, details=True)} == {
        MAC: network.name, IGNORED_MAC: network.name}
    assert found.traits == [TRAIT]
    inventory = deployment.api.get_node_inventory(node)['inventory']
    assert {each['mac_address'] for each in inventory['interfaces']} == {
        MAC, IGNORED_MAC}
    assert inventory['system_vendor']['system_uuid'] == server


@pytest.mark.full
def test_second_inspection_keeps_what_there_is(machine):
    deployment, node, server = machine
    _inspect(deployment, node)
    for port in deployment.api.ports(node=node, details=True):
        deployment.api.update_port(port, physical_network='physnet1')
    deployment.api.update_node(node, properties={
        'cpus': 64, 'root_device': {'name': '/dev/vda'},
        'capabilities': 'profile:gold'})
    found = _inspect(deployment, node)
    assert found.properties['cpus'] == 2
    assert found.properties['root_device'] == {'name': '/dev/vda'}
    assert set(found.properties['capabilities'].split(',')) == {
        'profile:gold', 'boot_mode:uefi', 'secure_boot:false'}
    assert {port.physical_network for port
            in deployment.api.ports(node=node, details=True)} == {'physnet1'}
    assert deployment.actions(server) == []


@pytest.mark.full
def test_port_of_another_node_is_told(machine):
    deployment, node, _server = machine
    other = deployment.node(str(uuid.uuid4()))
    taken = deployment.api.create_port(node_id=other.id, address=MAC)
    try:
        _inspect(deployment, node)
        assert {port.address for port in deployment.api.ports(node=node)} == {
            IGNORED_MAC}
        assert any(taken.id in event and other.id in event for event
                   in _history(deployment, node))
    finally:
        deployment.api.delete_node(other.id)


def test_power_sync_sees_secure_boot_and_vendor(machine):
    deployment, node, _server = machine
    deployment.wait_for(
        lambda: deployment.api.get_node(node).boot_mode == 'uefi',
        'power sync to see the boot mode')
    found = deployment.api.get_node(node)
    assert found.is_secure_boot is False
    assert found.properties['vendor'] == 'openstack foundation'


@pytest.mark.full
def test_boot_devices_of_a_server_that_can_be_rescued(machine):
    deployment, node, _server = machine
    assert deployment.boot_device(node, '/supported') == {
        'supported_boot_devices': ['pxe', 'disk', 'cdrom']}


@pytest.mark.parametrize('device', [
    'disk', pytest.param('pxe', marks=pytest.mark.full)])
def test_nmi_reaches_a_guest_that_runs(machine, device):
    deployment, node, server = machine
    deployment.nodes.set_boot_device(node, device)
    deployment.nodes.set_power_state(node, 'rebooting', 'power on')
    deployment.api.inject_nmi_to_node(node)
    # The tests' hypervisor lets an NMI switch the guest off, and Nova may
    # have stopped the server since.
    sent = next(row for row in deployment.cloud.compute.server_actions(server)
                if row.action != 'stop')
    assert sent.action == 'trigger_crash_dump'
    event, = deployment.cloud.compute.get_server_action(
        sent.request_id, server).events
    assert event['result'] == 'Success'
    deployment.wait_for(
        lambda: deployment.cloud.compute.get_server(server).power_state == 4,
        'the guest to act on the NMI')


@pytest.mark.full
def test_nmi_of_a_guest_that_is_off_is_refused(machine):
    deployment, node, server = machine
    deployment.nodes.set_power_state(node, 'power off', 'power off')
    with pytest.raises(exceptions.HttpException) as refused:
        deployment.api.inject_nmi_to_node(node)
    assert 'SHUTOFF' in str(refused.value)
    assert 'power the node on first' in str(refused.value)
    assert 'trigger_crash_dump' not in deployment.actions(server)
