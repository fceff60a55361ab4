# SPDX-License-Identifier: Apache-2.0
"""How the agent of tools/build-agent-ramdisk gets addresses without DHCP."""

from importlib import machinery
from importlib import util
import pathlib
import sys

import pytest

SCRIPT = (pathlib.Path(__file__).parents[2] / 'tools/images/agent/root'
          / 'usr/local/sbin/agent-network-data')
MAC = '20:57:f8:00:00:01'
PUBLISHER = '7d35b9a6-0c0e-4c6c-9d68-0d8e9e3f2a11'


@pytest.fixture
def script(monkeypatch):
    # It has no suffix, and nothing is to be left beside it.
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    loader = machinery.SourceFileLoader('agent_network_data', str(SCRIPT))
    module = util.module_from_spec(
        util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def _card(*networks, **data):
    return {'links': [{'id': 'card', 'ethernet_mac_address': MAC,
                       'mtu': 1450}],
            'networks': [{'link': 'card', **network}
                         for network in networks], **data}


def test_addresses_of_both_versions(script):
    unit, = script.units(_card(
        {'type': 'ipv4', 'ip_address': '192.0.2.7',
         'netmask': '255.255.255.0', 'routes': [
             {'network': '0.0.0.0', 'netmask': '0.0.0.0',
              'gateway': '192.0.2.1'}]},
        {'type': 'ipv6', 'ip_address': '2001:db8::7',
         'netmask': 'ffff:ffff:ffff:ffff::', 'routes': []},
        services=[{'type': 'dns', 'address': '192.0.2.2'}])).values()
    assert unit.splitlines() == [
        '[Match]', f'MACAddress={MAC}', '[Link]', 'MTUBytes=1450',
        '[Network]', 'LLDP=no', 'Address=192.0.2.7/24',
        'Address=2001:db8::7/64', 'DNS=192.0.2.2',
        '[Route]', 'Gateway=192.0.2.1', 'Destination=0.0.0.0/0']


def test_address_with_its_prefix(script):
    unit, = script.units(_card(
        {'type': 'ipv4', 'ip_address': '192.0.2.7/25'})).values()
    assert 'Address=192.0.2.7/25' in unit


def test_card_that_asks_for_dhcp_nevertheless(script):
    unit, = script.units(_card({'type': 'ipv4_dhcp'})).values()
    assert 'DHCP=yes' in unit


def test_card_without_a_network_is_left_to_dhcp(script):
    assert script.units(_card()) == {}
    assert script.units({}) == {}


def test_medium_is_known_by_its_publisher(script, tmp_path):
    iso = tmp_path / 'sr0'
    iso.write_bytes(bytes(16 * 2048 + 318)
                    + PUBLISHER.upper().encode().ljust(128))
    assert script.is_medium(iso, PUBLISHER)
    assert not script.is_medium(iso, PUBLISHER.replace('7', '8'))
    assert not script.is_medium(tmp_path / 'sr1', PUBLISHER)
