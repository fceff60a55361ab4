# SPDX-License-Identifier: Apache-2.0
"""Agents without DHCP: a VLAN with IPv4, and IPv6 on the card itself.

They get network_data of the node on their ISO, and reach Ironic by the VLAN,
as nothing of IPv4 is on the card.
"""

from openstack import exceptions
import pytest

from onebox.minicloud import network as minicloud_network
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment

VLAN = 100
TAGGED, UNTAGGED = 'tagged', 'untagged'
CIDRS = {TAGGED: '172.31.249.0/24', UNTAGGED: 'fd00:31:249::/64'}
HERE = '172.31.249.1'
MACHINES = (machine_lives.machine('vlan-bios', 'bios'),
            machine_lives.machine('vlan-uefi', 'uefi'))
# The network data of the machines, by name.
_described = {}


def _network(neutron, name):
    made = neutron.create_network(name=name, is_port_security_enabled=False)
    cidr = CIDRS[name]
    neutron.create_subnet(
        network_id=made.id, name=name, ip_version=6 if ':' in cidr else 4,
        cidr=cidr, is_dhcp_enabled=False,
        gateway_ip=HERE if name == TAGGED else None)
    return made.id


def _port(neutron, machine, network_id):
    return neutron.create_port(network_id=network_id, name=machine.name,
                               mac_address=machine.mac)


def _network_data(machine, tagged, untagged):
    """Return network_data with the addresses that Neutron has given."""
    return {
        'links': [
            {'id': 'card', 'type': 'phy',
             'ethernet_mac_address': machine.mac},
            {'id': 'vlan', 'type': 'vlan', 'vlan_link': 'card',
             'vlan_id': VLAN, 'vlan_mac_address': machine.mac}],
        'networks': [
            {'id': 'untagged', 'link': 'card', 'type': 'ipv6', 'routes': [],
             'network_id': untagged.network_id,
             'ip_address': untagged.fixed_ips[0]['ip_address'],
             'netmask': 'ffff:ffff:ffff:ffff::'},
            {'id': 'tagged', 'link': 'vlan', 'type': 'ipv4',
             'network_id': tagged.network_id,
             'ip_address': tagged.fixed_ips[0]['ip_address'],
             'netmask': '255.255.255.0', 'routes': [
                 {'network': '0.0.0.0', 'netmask': '0.0.0.0',
                  'gateway': HERE}]}],
        'services': []}


def prepare(lab, names):
    """Make the servers, each with a trunk."""
    neutron = lab.host_cloud.connection.network
    networks = {name: _network(neutron, name) for name in CIDRS}
    for machine in MACHINES:
        if machine.name not in names:
            continue
        ports = {name: _port(neutron, machine, networks[name])
                 for name in networks}
        neutron.create_trunk(
            name=machine.name, port_id=ports[UNTAGGED].id, sub_ports=[{
                'port_id': ports[TAGGED].id, 'segmentation_type': 'vlan',
                'segmentation_id': VLAN}])
        _described[machine.name] = _network_data(machine, **ports)
    minicloud_network.plug_network(lab.cloud, TAGGED, f'{HERE}/24')
    machine_lives.make_servers(
        lab, MACHINES, names, networks[UNTAGGED], inspect_interface='agent',
        boot_interface='quintupleo-virtual-media')
    for name in names:
        # openstacksdk's nodes have none.
        exceptions.raise_from_response(lab.nodes.connection.baremetal.patch(
            f'/nodes/{name}', microversion='1.66', json=[{
                'op': 'add', 'path': '/network_data',
                'value': _described[name]}]))


def inspection_finds_the_addresses(lab, stage, name):
    lab.nodes.provision(name, 'inspect', 'manageable', stage, 900)
    found = lab.nodes.connection.baremetal.get_node_inventory(name)
    addresses = {card[key] for card in found['inventory']['interfaces']
                 for key in ('ipv4_address', 'ipv6_address')}
    assert {network['ip_address'] for network
            in _described[name]['networks']} <= addresses


LIFE = (test_deployment.enrolled_node_becomes_manageable,
        inspection_finds_the_addresses,
        test_deployment.node_is_available_without_cleaning,
        test_deployment.deployment_makes_it_active,
        test_deployment.undeployed_node_is_available_without_cleaning)
LIVES = {machine.name: LIFE for machine in MACHINES}


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
