# SPDX-License-Identifier: Apache-2.0
"""The file of an environment: what it may say, and each mistake in it."""

import pathlib
import tempfile
import textwrap
import unittest
from unittest import mock

from quintupleo_power.environments import definition
from quintupleo_power.environments import errors
from quintupleo_power.environments import schema

ROLE = '''
networks:
  provision: {}
roles:
  compute:
    flavor: tiny
'''


def parse(text):
    return definition.parse(textwrap.dedent(text), 'env.yaml')


class DefinitionTestCase(unittest.TestCase):

    def mistakes(self, text):
        with self.assertRaises(errors.EnvironmentsError) as caught:
            parse(text)
        return str(caught.exception).splitlines()

    def assert_mistake(self, text, *parts):
        line, = self.mistakes(text)
        for part in parts:
            self.assertIn(part, line)

    def test_least(self):
        found = parse('roles: {compute: {flavor: tiny}}')
        role, = found.roles
        self.assertEqual(
            (None, [], [], []),
            (found.name, found.networks, found.routers, found.virtual_ips))
        self.assertEqual(
            ('compute', schema.BAREMETAL, 1, 'tiny', [], 'bios', None),
            (role.name, role.kind, role.count, role.flavor, role.nics,
             role.boot_mode, role.image))

    def test_nics(self):
        found = parse('''
            networks:
              provision: {}
              public: {existing: shared}
            roles:
              compute:
                flavor: {vcpus: 2, ram: 4096, disk: 40}
                nics:
                - network: provision
                - {network: public, fixed_ip: release}
                - {network: provision, mac: 0A:00:27}
                - {network: provision, mac: cloud}
            ''').roles[0]
        self.assertEqual((2, 4096, 40), (found.flavor.vcpus, found.flavor.ram,
                                         found.flavor.disk))
        self.assertEqual(['52:54:00', None, '0a:00:27', None],
                         [nic.mac for nic in found.nics])
        self.assertEqual([True, False, False, False],
                         [nic.pxe for nic in found.nics])
        self.assertEqual([False, True, False, False],
                         [nic.fixed_ip == 'release' for nic in found.nics])

    def test_nic_for_pxe_is_chosen(self):
        nics = parse('''
            networks: {one: {}, two: {}}
            roles:
              compute:
                flavor: tiny
                nics: [{network: one}, {network: two, pxe: true}]
            ''').roles[0].nics
        self.assertEqual([False, True], [nic.pxe for nic in nics])

    def test_gateway(self):
        subnets = parse('''
            networks:
              provision:
                subnets:
                - {cidr: 192.0.2.0/24}
                - {cidr: 192.0.2.0/24, gateway: false}
                - {cidr: 192.0.2.0/24, gateway: 192.0.2.9}
            roles: {}
            ''').networks[0].subnets
        self.assertEqual([True, False, '192.0.2.9'],
                         [subnet.gateway for subnet in subnets])

    def test_parts_can_be_shared_in_the_file(self):
        one, two = parse('''
            roles:
              one: &role {flavor: tiny, count: 2}
              two: {<<: *role, count: 3}
            ''').roles
        self.assertEqual((2, 3, 'tiny'),
                         (one.count, two.count, two.flavor))

    def test_a_number_is_no_mac(self):
        found = parse('''
            networks: {provision: {}}
            roles:
              2026-11-21:
                flavor: '1'
                nics: [{network: provision, mac: 52:54:01}]
            ''').roles[0]
        self.assertEqual(('2026-11-21', '52:54:01'),
                         (found.name, found.nics[0].mac))

    def test_unknown_key(self):
        self.assert_mistake(
            '''\
            roles:
              compute:
                flavor: tiny
                cuont: 3
            ''', 'env.yaml, line 4: roles.compute.cuont: unknown key; '
            'there are kind, count')
        self.assert_mistake('roles: {}\nzzz: 1', 'line 2: zzz:',
                            'there are name, networks, routers')

    def test_missing_key(self):
        self.assert_mistake('roles:\n  compute: {}',
                            "line 2: roles.compute: 'flavor' is a required")

    def test_wrong_type(self):
        self.assert_mistake('roles:\n  compute: 3',
                            'line 2: roles.compute: 3 is not of type')

    def test_empty_file(self):
        self.assert_mistake('', 'line 1: the file: None is not of type')

    def test_all_mistakes_are_told(self):
        found = self.mistakes('''\
            roles:
              one: {flavor: tiny, count: -1}
              two: {flavor: tiny, boot_mode: efi}
            ''')
        self.assertEqual(2, len(found))
        self.assertIn('line 2: roles.one.count: -1 is less than the minimum '
                      'of 0', found[0])
        self.assertIn("line 3: roles.two.boot_mode: 'efi' is not one of "
                      "['bios', 'uefi']", found[1])

    def test_no_yaml(self):
        self.assert_mistake('roles: {\n', 'env.yaml, line 2: not YAML')

    def test_key_twice(self):
        self.assert_mistake(
            'roles:\n  compute: {flavor: a}\n  compute: {flavor: b}',
            'line 3: roles.compute: it is there twice')

    def test_key_that_is_a_list(self):
        self.assert_mistake('roles: {}\n? [a]\n: 1', 'line 2')

    def test_file_that_contains_itself(self):
        self.assert_mistake('roles: &a\n  compute: *a', 'nested too deep')

    def test_aliases_that_stand_for_too_much(self):
        levels = ''.join(
            f'l{level}: &l{level} [{", ".join([f"*l{level - 1}"] * 9)}]\n'
            for level in range(1, 10))
        self.assert_mistake('l0: &l0 [a]\n' + levels, 'more than 200000 parts')
        merges = ''.join(
            f'm{level}: &m{level}\n  <<: [{", ".join([f"*m{level - 1}"] * 9)}]'
            '\n' for level in range(1, 10))
        self.assert_mistake('m0: &m0 {a: 1}\n' + merges,
                            'more than 200000 parts')

    def test_depth_without_an_end(self):
        self.assert_mistake('roles: ' + '[' * 100000, 'nested too deep')
        self.assert_mistake('roles: ' + '[' * 3000 + ']' * 3000,
                            'nested too deep')

    def test_json_with_tabs(self):
        found = definition.parse(
            '{\n\t"name": "lab",\n\t"roles": {\n\t\t"node": {\n\t\t\t"flavor":'
            '\t"m1.large",\n\t\t\t"count": 2\n\t\t}\n\t}\n}\n')
        role, = found.roles
        self.assertEqual(('lab', 'node', 'm1.large', 2),
                         (found.name, role.name, role.flavor, role.count))
        self.assert_mistake(
            '{\n\t"roles": {\n\t\t"node": {"flavor": "a", "cuont": 1}}}',
            'line 3', 'unknown key')

    def test_unknown_network(self):
        self.assert_mistake(
            ROLE + '    nics: [{network: provsion}]',
            'line 7: roles.compute.nics[0].network: network "provsion" is '
            'not among those of the file (provision)')

    def test_network_that_exists_is_taken_as_it_is(self):
        self.assert_mistake(
            'networks:\n  one: {existing: a, mtu: 1400}\nroles: {}',
            'line 2: networks.one.mtu')

    def test_gateway_outside(self):
        self.assert_mistake(
            'networks:\n  one: {subnets: [{cidr: 192.0.2.0/24, gateway: '
            '198.51.100.1}]}\nroles: {}', '198.51.100.1 is not in '
            '192.0.2.0/24')

    def test_cidr_of_a_host(self):
        self.assert_mistake(
            'networks: {one: {subnets: [{cidr: 192.0.2.1/24}]}}\nroles: {}',
            'networks.one.subnets[0].cidr', 'host bits')

    def test_address_that_is_none(self):
        self.assert_mistake(
            'networks: {one: {subnets: [{cidr: 192.0.2.0/24, dns: [x]}]}}\n'
            'roles: {}', "networks.one.subnets[0].dns[0]: 'x' does not "
            'appear to be an IPv4 or IPv6 address')

    def test_ipv6_mode(self):
        self.assert_mistake(
            'networks: {one: {subnets: [{cidr: 192.0.2.0/24, dhcp: true, '
            'ipv6_mode: slaac}]}}\nroles: {}', 'is not an IPv6 network')
        self.assert_mistake(
            "networks: {one: {subnets: [{cidr: '2001:db8::/64', "
            'ipv6_mode: slaac}]}}\nroles: {}', 'dhcp: false')

    def test_addresses_of_nics(self):
        text = (
            'networks: {{one: {{subnets: [{{cidr: 192.0.2.0/24}}]}}, two: {{}}'
            '}}\nroles: {{a: {{flavor: b, count: {}, nics: [{{network: {}, '
            'address: {}{}}}]}}}}').format
        parse(text(2, 'one', '192.0.2.254', ''))
        self.assert_mistake(text(1, 'one', '198.51.100.1', ''),
                            'nics[0].address', 'is not in 192.0.2.0/24')
        self.assert_mistake(text(4, 'one', '192.0.2.254', ''),
                            '192.0.3.1 is not in 192.0.2.0/24')
        self.assert_mistake(text(1, 'two', '192.0.2.1', ''), 'no subnets')
        self.assert_mistake(
            text(1, 'one', '192.0.2.1', ', fixed_ip: release'), 'release')

    def test_multicast_mac(self):
        self.assert_mistake(
            ROLE + '    nics: [{network: provision, mac: "53:54:00"}]',
            'multicast')

    def test_address_pairs_need_port_security(self):
        self.assert_mistake(
            ROLE + '    nics: [{network: provision, allowed_address_pairs: '
            '[192.0.2.1]}]', 'without port security')
        parse(ROLE + '    nics: [{network: provision, port_security: true, '
              'allowed_address_pairs: [192.0.2.1]}]')

    def test_vlan_twice(self):
        self.assert_mistake(
            ROLE + '    nics: [{network: provision, trunk: ['
            '{network: provision, segmentation_id: 5}, '
            '{network: provision, segmentation_id: 5}]}]',
            'trunk[1].segmentation_id: VLAN 5 is there twice')

    def test_server_without_image(self):
        self.assert_mistake(ROLE + '    kind: server', 'needs an "image"')

    def test_baremetal_boots_nothing_of_its_own(self):
        self.assert_mistake(ROLE + '    key_name: mine',
                            'roles.compute.key_name')

    def test_server_is_no_node(self):
        self.assert_mistake(ROLE + '    {kind: server}'.replace('{', '').
                            replace('}', '') + '\n    image: debian\n'
                            '    resource_class: x', 'become nodes of Ironic')

    def test_virtual_ip(self):
        text = '''
            networks:
              one: {subnets: [{cidr: 192.0.2.0/24}]}
              two: {subnets: [{cidr: 192.0.2.0/24}]}
            roles:
              control: {flavor: tiny, nics: [{network: one}]}
            virtual_ips:
              api: {network: %s, roles: [%s], address: %s}
            '''
        parse(text % ('one', 'control', '192.0.2.9'))
        self.assert_mistake(text % ('one', 'ctl', '192.0.2.9'),
                            'virtual_ips.api.roles[0]: role "ctl" is not')
        self.assert_mistake(text % ('two', 'control', '192.0.2.9'),
                            'has no NIC on network "two"')
        self.assert_mistake(text % ('one', 'control', '198.51.100.9'),
                            '198.51.100.9 is not in 192.0.2.0/24')

    def test_addresses_need_a_subnet(self):
        self.assert_mistake("""\
            networks: {one: {}}
            roles: {a: {flavor: b, nics: [{network: one}]}}
            virtual_ips: {api: {network: one, roles: [a], address: 192.0.2.9}}
            """, 'line 3: virtual_ips.api.address: network "one" has no '
            'subnets')
        self.assert_mistake("""\
            networks: {one: {}}
            roles: {}
            ports: {mine: {network: one, address: 192.0.2.9}}
            """, 'line 3: ports.mine.address: network "one" has no subnets')

    def test_file_that_is_not_there(self):
        with self.assertRaisesRegex(errors.EnvironmentsError,
                                    'cannot be read: .*No such file'):
            definition.load('/nonexistent')

    def test_sample_has_each_key(self):
        path = pathlib.Path(__file__).parents[3] / (
            'etc/quintupleo/environment.yaml.sample')
        text = path.read_text()
        with mock.patch.object(definition, '_read', autospec=True,
                               side_effect=[text, '#!/bin/sh']):
            definition.load(path)
        for key in _keys(schema.FILE):
            with self.subTest(key):
                self.assertRegex(text, rf'\b{key}:')

    def test_user_data_is_beside_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'env.yaml'
            path.write_text('roles: {a: {kind: server, image: x, flavor: y, '
                            'user_data: boot.sh}}')
            with self.assertRaisesRegex(
                    errors.EnvironmentsError, 'line 1: roles.a.user_data: .*'
                    'boot.sh cannot be read: .*No such file'):
                definition.load(path)
            (path.parent / 'boot.sh').write_text('#!/bin/sh')
            self.assertEqual({'boot.sh': '#!/bin/sh'},
                             definition.load(path).user_data)

    def test_security_groups_need_port_security(self):
        self.assert_mistake(
            ROLE + '    nics: [{network: provision, security_groups: [a]}]',
            'security_groups: without port security they do nothing')

    def test_port(self):
        port, = parse("""
            networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
            roles: {}
            ports: {mine: {network: one, address: 192.0.2.9}}
            """).ports
        self.assertEqual(('mine', 'one', '192.0.2.9', None), (
            port.name, port.network, port.address, port.port_security))
        self.assert_mistake('roles: {}\nports: {mine: {network: one}}',
                            'ports.mine.network: network "one" is not among')


def _keys(part):
    """All keys that a schema has."""
    for name, inner in part.get('properties', {}).items():
        yield name
        yield from _keys(inner)
    for inner in (part.get('items'), part.get('additionalProperties')):
        if isinstance(inner, dict):
            yield from _keys(inner)
