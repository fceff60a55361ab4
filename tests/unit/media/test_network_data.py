# SPDX-License-Identifier: Apache-2.0
"""Virtual media: network_data is applied, or refused in a sentence."""

import copy

from ironic.api.controllers.v1 import node as ironic_api
from ironic.common import exception

from tests.unit.media import test_virtual_media

CARD = {'id': 'eth0', 'type': 'phy',
        'ethernet_mac_address': '52:54:00:00:00:01', 'mtu': 1500}
OTHER_CARD = {'id': 'eth1', 'type': 'phy',
              'ethernet_mac_address': '52:54:00:00:00:02', 'mtu': None}
BOND = {'id': 'bond', 'type': 'bond', 'bond_mode': '802.3ad',
        'ethernet_mac_address': '52:54:00:00:00:01',
        'bond_links': ['eth0', 'eth1']}
VLAN = {'id': 'vlan', 'type': 'vlan', 'vlan_link': 'bond', 'vlan_id': 101,
        'vlan_mac_address': '52:54:00:00:00:03'}
ROUTE = {'network': '0.0.0.0', 'netmask': '0.0.0.0', 'gateway': '192.0.2.1'}
FOUR = {'id': 'four', 'type': 'ipv4', 'link': 'vlan', 'network_id': 'n',
        'ip_address': '192.0.2.5', 'netmask': '255.255.255.0',
        'routes': [ROUTE]}
SIX = {'id': 'six', 'type': 'ipv6', 'link': 'vlan', 'network_id': 'n',
       'ip_address': '2001:db8::5/64', 'routes': [
           {'network': '::', 'netmask': '::', 'gateway': 'fe80::1'}]}
LONG = {**SIX, 'id': 'long', 'ip_address': '2001:db8:1::5',
        'netmask': 'ffff:ffff:ffff:ffff::'}
ASKED = ({'id': 'dhcp', 'type': 'ipv4_dhcp', 'link': 'eth0',
          'network_id': 'n'},
         {'id': 'slaac', 'type': 'ipv6_slaac', 'link': 'eth0',
          'network_id': 'n'})


class NetworkDataTestCase(test_virtual_media.VirtualMediaTestCase):

    def validate_with(self, links=(CARD, OTHER_CARD, BOND, VLAN),
                      networks=(FOUR, SIX, LONG, *ASKED)):
        found = copy.deepcopy({
            'links': list(links), 'networks': list(networks),
            'services': [{'type': 'dns', 'address': '192.0.2.2'}]})
        # What Ironic's API refuses does not reach the driver.
        ironic_api.validate_network_data(found)
        self.node.network_data = found
        self.node.save()
        self.call('validate')

    def assert_refused(self, *parts, **data):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate_with, **data)
        self.assert_says(error, self.node.uuid, 'network_data', *parts)
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.call, 'validate_rescue')
        self.assert_says(error, *parts)

    def test_cards_bonds_vlans_and_both_versions_are_taken(self):
        self.validate_with()
        self.validate_with(links=[], networks=[])

    def test_link_on_another_that_is_not_there(self):
        self.assert_refused("link 'vlan'", "'bond'", links=[CARD, VLAN])
        self.assert_refused("link 'bond'", "'eth1'", links=[CARD, BOND, VLAN])
        self.assert_refused("link 'vlan'", links=[
            CARD, {**VLAN, 'vlan_link': 'vlan'}])

    def test_network_on_a_link_that_is_not_there(self):
        self.assert_refused("network 'four'", "'vlan'", links=[CARD])

    def test_two_links_of_one_name(self):
        self.assert_refused("more than one link 'eth0'", links=[
            CARD, {**OTHER_CARD, 'id': 'eth0'}, VLAN])

    def test_vlan_that_no_frame_can_have(self):
        for number in (0, 4095, -1):
            self.assert_refused("link 'vlan'", str(number), '4094', links=[
                CARD, OTHER_CARD, BOND, {**VLAN, 'vlan_id': number}])

    def test_mac_address_with_dashes(self):
        self.assert_refused('colons', links=[
            {**CARD, 'ethernet_mac_address': '52-54-00-00-00-01'}],
            networks=())

    def test_address_that_is_left_out_or_has_no_length(self):
        for key in ('ip_address', 'netmask'):
            self.assert_refused("network 'four'", 'ip_address', networks=[
                {name: value for name, value in FOUR.items() if name != key}])

    def test_netmask_with_a_gap(self):
        for mask in ('ffff::ffff', 'ffff:0:ffff::'):
            self.assert_refused(mask, networks=[{**LONG, 'netmask': mask}])
        # Ironic's pattern ends with the first alternative.
        self.assert_refused('255.254.0.0x', networks=[
            {**FOUR, 'routes': [{**ROUTE, 'netmask': '255.254.0.0x'}]}])

    def test_gateway_with_the_name_of_a_card(self):
        self.assert_refused('fe80::1%eth0', networks=[
            {**SIX, 'routes': [{**SIX['routes'][0],
                                'gateway': 'fe80::1%eth0'}]}])

    def test_routes_of_a_network_with_dhcp(self):
        for network in ASKED[:1]:
            self.assert_refused("network 'dhcp'", 'routes', networks=[
                {**network, 'routes': [ROUTE]}])
