# SPDX-License-Identifier: Apache-2.0
"""Definitions of other tools, read as environments."""

import copy
from importlib import metadata
import json
import types
import unittest

import yaml

from quintupleo_power.environments import conversion
from quintupleo_power import hardware

SERVERS = [types.SimpleNamespace(id=f'3f0f7d0c-0000-4000-8000-00000000000{n}',
                                 name=f'baremetal_{n}') for n in range(3)]
MACS = {f'fa:16:3e:00:00:0{n}': server for n, server in enumerate(SERVERS)}
PASSWORD = 'swordfish'

# As build-nodes-json of OVB writes it.
OVB = {
    'nodes': [{
        'pm_type': 'ipmi', 'mac': [mac], 'cpu': 2, 'memory': 8192,
        'disk': 50, 'arch': 'x86_64', 'pm_user': 'admin',
        'pm_password': PASSWORD, 'pm_addr': f'10.0.1.{number}',
        'capabilities': 'boot_option:local,boot_mode:uefi,profile:compute',
        'name': f'baremetal-{number}'} for number, mac in enumerate(MACS)],
    'network_details': {'baremetal_0': {'id': SERVERS[0].id, 'ips': {}}}}

# As scenarios of HotStack write it.
HOTSTACK = '''
nodes:
- name: ironic0
  driver: redfish
  bios_interface: no-bios
  boot_interface: redfish-virtual-media
  driver_info:
    redfish_address: http://sushy-emulator.example.com
    redfish_system_id: /redfish/v1/Systems/%s
    redfish_username: admin
    redfish_password: swordfish
  ports:
  - address: fa:16:3e:00:00:00
    physical_network: ironic
''' % SERVERS[0].id


def find_server(identifier, macs):
    if identifier is not None:
        return next((server for server in SERVERS
                     if identifier in (server.id, server.name)), None)
    found = {MACS[mac].id: MACS[mac] for mac in macs if mac in MACS}
    if len(found) > 1:
        raise conversion.ConversionError(
            'its MAC addresses are those of two servers: correct "ports"')
    return next(iter(found.values()), None)


def tripleo(**fields):
    node = {'name': 'one', 'pm_type': 'ipmi', 'pm_addr': '10.0.1.1',
            'pm_user': 'admin', 'pm_password': PASSWORD,
            'mac': ['fa:16:3e:00:00:00'], **fields}
    return {key: value for key, value in node.items() if value is not None}


def ironic(**fields):
    node = {'name': 'one', 'driver': 'ipmi',
            'driver_info': {'ipmi_address': '10.0.1.1',
                            'ipmi_username': 'admin',
                            'ipmi_password': PASSWORD},
            'ports': [{'address': 'fa:16:3e:00:00:00'}], **fields}
    return {key: value for key, value in node.items() if value is not None}


def redfish(system_id=f'/redfish/v1/Systems/{SERVERS[0].id}', **fields):
    return ironic(driver='redfish', driver_info={
        'redfish_address': 'https://10.0.1.1', 'redfish_username': 'admin',
        'redfish_password': PASSWORD, 'redfish_system_id': system_id},
        **fields)


class ConversionTestCase(unittest.TestCase):

    maxDiff = None

    def convert(self, *nodes, **kwargs):
        found = conversion.convert({'nodes': list(nodes)}, find_server,
                                   **kwargs)
        self.assertNotIn(PASSWORD, json.dumps(found.content))
        self.assertNotIn(PASSWORD, ''.join(found.notes))
        return found

    def node(self, node, **kwargs):
        found, = self.convert(node, **kwargs).content['nodes']
        return found

    def notes(self, node):
        return self.convert(node).notes

    def mistakes_of(self, content):
        with self.assertRaises(conversion.ConversionError) as caught:
            conversion.convert(content, find_server)
        self.assertNotIn(PASSWORD, str(caught.exception))
        return str(caught.exception).splitlines()

    def mistakes(self, *nodes):
        return self.mistakes_of({'nodes': list(nodes)})

    def assert_mistake(self, node, *parts):
        line, = self.mistakes(node)
        for part in parts:
            self.assertIn(part, line)

    def test_ovb(self):
        before = copy.deepcopy(OVB)
        found = conversion.convert(OVB, find_server)
        self.assertEqual(before, OVB)
        self.assertEqual({'nodes': [{
            'name': f'baremetal-{number}',
            'driver': 'quintupleo',
            'driver_info': {'quintupleo_server': server.id},
            'resource_class': 'baremetal',
            'properties': {
                'cpus': 2, 'memory_mb': 8192, 'local_gb': 50,
                'cpu_arch': 'x86_64', 'capabilities':
                    'boot_option:local,boot_mode:uefi,profile:compute'},
            'ports': [{'address': mac}],
        } for number, (mac, server) in enumerate(MACS.items())]},
            found.content)
        self.assertEqual(('The file: "network_details" is left out.',),
                         found.notes)

    def test_hotstack(self):
        found = conversion.convert(yaml.safe_load(HOTSTACK), find_server,
                                   cloud='mycloud')
        self.assertEqual({'nodes': [{
            'name': 'ironic0',
            'driver': 'quintupleo',
            'driver_info': {'quintupleo_server': SERVERS[0].id,
                            'quintupleo_cloud': 'mycloud'},
            'bios_interface': 'no-bios',
            'ports': [{'address': 'fa:16:3e:00:00:00',
                       'physical_network': 'ironic'}],
        }]}, found.content)
        note, = found.notes
        for part in ('"ironic0"', 'boot_interface: redfish-virtual-media'):
            self.assertIn(part, note)

    def test_order_of_keys_is_for_readers(self):
        self.assertEqual(
            ['name', 'driver', 'driver_info'],
            list(self.node(ironic(resource_class='small')))[:3])

    def test_ports_of_tripleo(self):
        link = {'switch_id': 'a6:18:66:33:cb:49', 'port_id': 'gi1/0/11'}
        found = self.node(tripleo(
            mac=['FA-16-3E-00-00-00', '52:54:00:00:00:09'],
            ports=[{'address': 'FA:16:3E:00:00:00', 'pxe_enabled': False,
                    'physical_network': 'provision',
                    'local_link_connection': link}]))
        self.assertEqual(
            [{'address': 'fa:16:3e:00:00:00', 'pxe_enabled': False,
              'physical_network': 'provision', 'local_link_connection': link},
             {'address': '52:54:00:00:00:09'}], found['ports'])

    def test_one_mac_that_is_no_list(self):
        found = self.node(tripleo(mac='fa:16:3e:00:00:01'))
        self.assertEqual([{'address': 'fa:16:3e:00:00:01'}], found['ports'])

    def test_fields_of_tripleo(self):
        found = self.node(tripleo(
            kernel_id='kernel', ramdisk_id='ramdisk', platform='SNB',
            profile='control', capabilities={'boot_mode': 'uefi',
                                             'secure_boot': True, 'no': None},
            root_device={'serial': '61'}, resource_class='big', uuid='u-1',
            conductor_group='left', deploy_interface='direct', arch=None,
            cpu='', _comment='mine', extra={'rack': 4}, traits=['CUSTOM_A'],
            description='a node'))
        self.assertEqual({
            'name': 'one', 'driver': 'quintupleo',
            'driver_info': {
                'quintupleo_server': SERVERS[0].id,
                'deploy_kernel': 'kernel', 'rescue_kernel': 'kernel',
                'deploy_ramdisk': 'ramdisk', 'rescue_ramdisk': 'ramdisk'},
            'properties': {
                'root_device': {'serial': '61'}, 'capabilities':
                    'boot_mode:uefi,secure_boot:true,profile:control'},
            'extra': {'rack': 4, 'tripleo_platform': 'SNB'},
            'resource_class': 'big', 'uuid': 'u-1', 'conductor_group': 'left',
            'deploy_interface': 'direct', 'traits': ['CUSTOM_A'],
            'description': 'a node',
            'ports': [{'address': 'fa:16:3e:00:00:00'}],
        }, found)

    def test_driver_info_and_properties_in_a_node_of_tripleo(self):
        found = self.node(tripleo(
            driver_info={'deploy_kernel': 'k', 'ipmi_port': 1},
            properties={'vendor': 'v'}, memory=1))
        self.assertEqual({'quintupleo_server': SERVERS[0].id,
                          'deploy_kernel': 'k'}, found['driver_info'])
        self.assertEqual({'vendor': 'v', 'memory_mb': 1},
                         found['properties'])

    def test_unknown_fields_of_tripleo_are_noted(self):
        self.assertEqual(
            ('Node "one": "host_ip" is left out.',),
            self.notes(tripleo(host_ip='10.0.0.1', pm_port=6230,
                               ipmi_terminal_port=9)))

    def test_the_rest_of_the_file_of_tripleo(self):
        found = conversion.convert(
            {'nodes': [tripleo()], 'ssh-key': PASSWORD, 'extra_nodes': []},
            find_server)
        self.assertEqual(['nodes'], list(found.content))
        self.assertEqual(('The file: "ssh-key" is left out.',
                          'The file: "extra_nodes" is left out.'),
                         found.notes)

    def test_the_rest_of_a_node_of_ironic_is_kept(self):
        rest = {
            'uuid': 'u-1', 'resource_class': 'big', 'extra': {'rack': [4]},
            'traits': ['CUSTOM_A'], 'description': 'a node', 'owner': 'me',
            'network_interface': 'neutron', 'storage_interface': 'cinder',
            'automated_clean': False, 'network_data': {'links': []},
            'deploy_interface': 'ansible', 'raid_interface': 'agent',
            'of_a_later_ironic': None,
            'properties': {'cpus': 4, 'capabilities': 'a:b',
                           'root_device': {'size': 5}},
            'ports': [{'address': 'fa:16:3e:00:00:00', 'pxe_enabled': True,
                       'physical_network': 'x', 'extra': {}}]}
        found = self.convert(ironic(**rest) | {'of_a_later_ironic': None})
        self.assertEqual(
            {'name': 'one', 'driver': 'quintupleo',
             'driver_info': {'quintupleo_server': SERVERS[0].id}, **rest},
            found.content['nodes'][0])
        self.assertEqual((), found.notes)

    def test_driver_info_without_bmc(self):
        node = ironic(driver='acme', driver_info={
            'acme_port': 1, 'ipmi_address': 1, 'ipmi_password': PASSWORD,
            'redfish_verify_ca': False, 'ilo_address': 1, 'bmc_address': 1,
            'deploy_kernel': 'k', 'deploy_ramdisk': 'r', 'rescue_kernel': 'k',
            'kernel_append_params': 'quiet', 'agent_verify_ca': True})
        self.assertEqual(
            {'quintupleo_server': SERVERS[0].id, 'deploy_kernel': 'k',
             'deploy_ramdisk': 'r', 'rescue_kernel': 'k',
             'kernel_append_params': 'quiet', 'agent_verify_ca': True},
            self.node(node)['driver_info'])

    def test_a_node_without_driver_info(self):
        self.assertEqual({'quintupleo_server': SERVERS[0].id},
                         self.node(ironic(driver_info=None))['driver_info'])

    def test_secrets_elsewhere(self):
        found = self.convert(ironic(
            driver_info={'console_Password': PASSWORD, 'deploy_kernel': 'k'},
            extra={'logins': [{'user': 'u', 'passwd': PASSWORD}],
                   'api_token': PASSWORD}))
        self.assertEqual({'logins': [{'user': 'u'}]},
                         found.content['nodes'][0]['extra'])
        self.assertEqual(
            ['driver_info/console_Password', 'extra/logins/passwd',
             'extra/api_token'],
            [note.split('"')[3] for note in found.notes])

    def test_capabilities_as_a_mapping(self):
        found = self.node(ironic(properties={'capabilities': {
            'boot_mode': 'uefi', 'secure_boot': False, 'disks': 1}}))
        self.assertEqual('boot_mode:uefi,secure_boot:false,disks:1',
                         found['properties']['capabilities'])

    def test_interfaces_of_other_drivers(self):
        names = {
            'power_interface': 'ipmitool', 'management_interface': 'redfish',
            'vendor_interface': 'ipmitool', 'bios_interface': 'redfish',
            'raid_interface': 'redfish', 'firmware_interface': 'redfish',
            'boot_interface': 'redfish-https', 'inspect_interface': 'redfish',
            'console_interface': 'ipmitool-socat',
            'deploy_interface': 'iscsi', 'rescue_interface': 'fake'}
        self.assertEqual(set(conversion.INTERFACES), set(names))
        found = self.convert(ironic(**names))
        self.assertFalse(set(names) & set(found.content['nodes'][0]))
        self.assertEqual(len(names), len(found.notes))
        for field, name in names.items():
            self.assertTrue(any(f'"{field}: {name}"' in note
                                for note in found.notes))

    def test_an_interface_that_is_not_named(self):
        node = ironic() | {'boot_interface': None}
        found = self.convert(node)
        self.assertNotIn('boot_interface', found.content['nodes'][0])
        self.assertEqual((), found.notes)

    def test_an_interface_that_is_no_text(self):
        note, = self.notes(ironic(boot_interface={'a': PASSWORD}))
        self.assertIn('"boot_interface" is left out', note)

    def test_interfaces_are_those_of_the_hardware_type(self):
        hardware_type = hardware.QuintupleoHardware()
        for field, known in conversion.INTERFACES.items():
            kind = field.removesuffix('_interface')
            supported = getattr(hardware_type, f'supported_{field}s', [])
            names = {
                point.name for point in metadata.entry_points(
                    group=f'ironic.hardware.interfaces.{kind}')
                if any(point.value == f'{each.__module__}:{each.__name__}'
                       for each in supported)}
            self.assertLessEqual(names, set(known), field)

    def test_server_by_uuid(self):
        for system_id in (
                SERVERS[1].id, f'/redfish/v1/Systems/{SERVERS[1].id}',
                f'http://u:{PASSWORD}@bmc/redfish/v1/Systems/{SERVERS[1].id}/',
                f'/redfish/v1/Systems/{SERVERS[1].name}'):
            found = self.node(redfish(system_id, ports=None))
            self.assertEqual(SERVERS[1].id,
                             found['driver_info']['quintupleo_server'])
            self.assertNotIn('ports', found)

    def test_server_by_name_in_a_url(self):
        asked = []
        with self.assertRaises(conversion.ConversionError):
            conversion.convert(
                {'nodes': [redfish('/redfish/v1/Systems/my%20server')]},
                lambda *args: asked.append(args))
        self.assertEqual([('my server', ())], asked)

    def test_system_id_of_tripleo(self):
        found = self.node(tripleo(
            pm_type='redfish', mac=None,
            pm_system_id=f'/redfish/v1/Systems/{SERVERS[2].id}'))
        self.assertEqual(
            {'name': 'one', 'driver': 'quintupleo',
             'driver_info': {'quintupleo_server': SERVERS[2].id},
             'resource_class': 'baremetal', 'properties': {}}, found)

    def test_uuid_and_macs_agree(self):
        found = self.node(redfish())
        self.assertEqual(SERVERS[0].id,
                         found['driver_info']['quintupleo_server'])

    def test_uuid_and_macs_disagree(self):
        self.assert_mistake(
            redfish(ports=[{'address': 'fa:16:3e:00:00:01'}]),
            'Node "one": ', SERVERS[0].id, SERVERS[1].id, 'baremetal_1',
            'fa:16:3e:00:00:01')

    def test_uuid_and_macs_of_nobody(self):
        self.assert_mistake(
            redfish(ports=[{'address': '52:54:00:00:00:09'}]),
            'no server has the MAC address 52:54:00:00:00:09')

    def test_no_server_of_that_uuid(self):
        missing = '3f0f7d0c-0000-4000-8000-0000000000ff'
        self.assert_mistake(redfish(missing), 'Node "one": ', missing)

    def test_no_server_of_what_may_be_a_password(self):
        self.assert_mistake(redfish(PASSWORD), 'there is no server such')

    def test_system_ids_that_name_nothing(self):
        for system_id in ('/', '', 'http://bmc', 'http://[', 5, ['a']):
            node = redfish(system_id, ports=None)
            self.assert_mistake(node, 'Node "one": ')

    def test_redfish_without_system_id(self):
        found = self.node(ironic(driver='redfish', driver_info={
            'redfish_address': 'https://10.0.1.1'}))
        self.assertEqual(SERVERS[0].id,
                         found['driver_info']['quintupleo_server'])

    def test_a_node_without_server(self):
        self.assert_mistake(
            tripleo(mac=['52:54:00:00:00:08', '52:54:00:00:00:09']),
            'Node "one": ', '52:54:00:00:00:08, 52:54:00:00:00:09')

    def test_a_node_without_mac(self):
        for node in (tripleo(mac=None), tripleo(mac=[]), ironic(ports=None)):
            self.assert_mistake(node, 'Node "one": ', 'no MAC address')

    def test_mistakes_of_the_search(self):
        self.assert_mistake(
            tripleo(mac=['fa:16:3e:00:00:00', 'fa:16:3e:00:00:01']),
            'Node "one": its MAC addresses are those of two servers')

    def test_macs_that_are_none(self):
        for address in (None, 190023, PASSWORD, 'fa:16:3e:00:00', ''):
            self.assert_mistake(ironic(ports=[{'address': address}]),
                                'Node "one": the address of a port')
            self.assert_mistake(tripleo(mac=None, ports=[{}]),
                                'Node "one": the address of a port')

    def test_a_mac_twice(self):
        self.assert_mistake(
            ironic(ports=[{'address': 'fa:16:3e:00:00:00'},
                          {'address': 'FA:16:3E:00:00:00'}]), 'twice')

    def test_a_mac_of_two_nodes(self):
        line, = self.mistakes(tripleo(), tripleo(name='two'))
        self.assertTrue(line.startswith('Node "two": node 1 has the MAC'))

    def test_two_nodes_for_one_server(self):
        line, = self.mistakes(redfish(), redfish(name='two', ports=None))
        self.assertTrue(line.startswith(
            f'Node "two": server {SERVERS[0].id} (baremetal_0) plays node 1'))

    def test_duplicates(self):
        other = [{'address': 'fa:16:3e:00:00:01'}]
        lines = self.mistakes(ironic(uuid='u'),
                              ironic(uuid='u', ports=other))
        self.assertEqual(
            [f'Node "one": number 2 in the file has the same {key} as '
             'number 1: change one of them' for key in ('name', 'uuid')],
            lines)

    def test_nodes_without_a_name(self):
        found = self.node(tripleo(name=None))
        self.assertNotIn('name', found)
        line, = self.mistakes(tripleo(name=None, mac=None))
        self.assertTrue(line.startswith('Node 1: '))
        line, = self.mistakes(ironic(name=None, uuid='u-1', ports=None))
        self.assertTrue(line.startswith('Node "u-1": '))

    def test_a_name_that_is_a_number(self):
        self.assertEqual('7', self.node(tripleo(name=7))['name'])

    def test_portgroups(self):
        groups = [{'name': 'bond', 'address': '52:54:00:00:00:01', 'ports': [
            {'address': 'FA:16:3E:00:00:02'}]}]
        found = self.node(ironic(ports=None, portgroups=groups))
        self.assertEqual(SERVERS[2].id,
                         found['driver_info']['quintupleo_server'])
        self.assertEqual('fa:16:3e:00:00:02',
                         found['portgroups'][0]['ports'][0]['address'])

    def test_chassis(self):
        found = conversion.convert({
            'chassis': [{'description': 'rack', 'nodes': [ironic()]}, {}],
            'nodes': [ironic(name='two', ports=[
                {'address': 'fa:16:3e:00:00:01'}])]}, find_server).content
        self.assertEqual('rack', found['chassis'][0]['description'])
        self.assertEqual(
            [SERVERS[0].id, SERVERS[1].id],
            [nodes[0]['driver_info']['quintupleo_server'] for nodes in (
                found['chassis'][0]['nodes'], found['nodes'])])

    def test_nothing_is_shared_with_the_input(self):
        node = ironic(extra={'rack': [4]}, properties={'cpus': 1})
        before = copy.deepcopy(node)
        found = self.node(node)
        found['extra']['rack'].append(5)
        found['properties']['cpus'] = 2
        found['ports'][0]['address'] = None
        self.assertEqual(before, node)

    def test_files_of_another_shape(self):
        for content in (None, [], 'nodes', {}, {'servers': []}, {'nodes': 1},
                        {'nodes': None}, {'nodes': []}, {'chassis': [{}]},
                        {'chassis': 5}, {'chassis': [{'nodes': {}}]}):
            line, = self.mistakes_of(content)
            self.assertTrue(line.startswith('The file: '), line)

    def test_nodes_of_another_shape(self):
        for node in (5, [], None, 'one'):
            line, = self.mistakes(node)
            self.assertTrue(line.startswith('Node 1: '), line)
        for node in (
                {'name': 'one'}, ironic(pm_type='ipmi'),
                ironic(mac=['fa:16:3e:00:00:00']),
                ironic(driver='quintupleo'), ironic(driver_info=[PASSWORD]),
                ironic(ports={}), ironic(ports=['fa:16:3e:00:00:00']),
                ironic(portgroups=[5]), ironic(properties=[]),
                tripleo(ports=5), tripleo(properties=5),
                tripleo(extra=5, platform='SNB'), tripleo(driver_info=5),
                tripleo(capabilities='profile'), tripleo(capabilities=[1])):
            self.assert_mistake(node, 'Node "one": ', ': ')

    def test_all_mistakes_are_told(self):
        lines = self.mistakes_of({'nodes': [
            tripleo(), tripleo(name='two', mac=None), 5,
            ironic(name='four', ports=[])], 'chassis': [{'nodes': None}]})
        self.assertEqual(
            ['The file: "nodes" has to be a list'], lines)
        lines = self.mistakes(
            tripleo(), tripleo(name='two', mac=None), 5,
            ironic(name='four', ports=[]))
        self.assertEqual(['Node "two"', 'Node 3', 'Node "four"'],
                         [line.partition(':')[0] for line in lines])
