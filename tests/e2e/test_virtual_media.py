# SPDX-License-Identifier: Apache-2.0
"""Deployment from virtual media, on a network as public clouds have them.

The host cloud's own DHCP and port security are on, and nothing but HTTP is
served by Ironic.
"""

import json

import pytest

from onebox.minicloud import network as minicloud_network
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment

NETWORK = 'ordinary'
CIDR = '172.31.252.0/24'
HERE = '172.31.252.1'
MACHINES = (machine_lives.machine('vmedia-bios', 'bios'),
            machine_lives.machine('vmedia-uefi', 'uefi'))


def _ordinary_network(lab):
    """Make a network of the tenant's, with this machine on it."""
    cloud = lab.host_cloud.connection.network
    network = cloud.create_network(name=NETWORK)
    cloud.create_subnet(
        network_id=network.id, name=NETWORK, ip_version=4, cidr=CIDR,
        # The way to Ironic.
        gateway_ip=HERE,
        allocation_pools=[{'start': '172.31.252.10',
                           'end': '172.31.252.99'}])
    # The conductor talks to the agent.
    cloud.create_security_group_rule(
        security_group_id=cloud.find_security_group('default').id,
        direction='ingress', protocol='tcp', port_range_min=9999,
        port_range_max=9999, remote_ip_prefix=f'{HERE}/32')
    minicloud_network.plug_network(lab.cloud, NETWORK, f'{HERE}/24')
    assert network.is_port_security_enabled
    return network.id


def prepare(lab, names):
    """Make the servers."""
    machine_lives.make_servers(lab, MACHINES, names, _ordinary_network(lab),
                               boot_interface='quintupleo-virtual-media')


def _media(lab):
    return [image.name for image in lab.host_cloud.connection.image.images(
        tag='quintupleo-virtual-media')]


def it_is_cleaned_by_an_agent_from_an_iso(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    lab.nodes.provision(name, 'provide', 'available', stage, 900)


def nothing_is_left_in_the_cloud(lab, stage, name):
    node = lab.nodes.node(name)
    assert [media for media in _media(lab) if node.id in media] == []
    assert 'quintupleo_virtual_media' not in json.dumps(
        node.driver_internal_info)


def nothing_was_asked_of_ironics_dhcp_and_tftp(lab, stage, name):
    mac = next(machine.mac for machine in MACHINES if machine.name == name)
    assert mac not in (lab.ironic.logs / 'dnsmasq.log').read_text()


DEPLOYED = (test_deployment.deployment_makes_it_active,
            nothing_is_left_in_the_cloud,
            test_deployment.pxe_reaches_the_network_and_disk_comes_back,
            test_deployment.undeployed_node_is_cleaned_and_available,
            nothing_was_asked_of_ironics_dhcp_and_tftp)
LIVES = {
    'vmedia-bios': (it_is_cleaned_by_an_agent_from_an_iso, *DEPLOYED),
    'vmedia-uefi': (test_deployment.enrolled_node_becomes_manageable,
                    test_deployment.node_is_available_without_cleaning,
                    *DEPLOYED)}


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=['vmedia-bios']))
def test_life(lives, name, step):
    lives.went_well(name, step)
