# SPDX-License-Identifier: Apache-2.0
"""The command that enrolls existing servers."""

import io
import json
import os
import tempfile
import unittest
from unittest import mock

import openstack
from openstackclient import shell
from osc_lib import exceptions

from quintupleo_power.environments import retry
from quintupleo_power.osc import server
from tests.unit.environments import test_enrolment
from tests.unit import host_cloud_fixture

ENDPOINT = ('--os-baremetal-endpoint', 'http://192.0.2.1:6385')


class EnrollServersTestCase(unittest.TestCase):
    """Runs the command against the stand-in for a cloud."""

    def setUp(self):
        super().setUp()
        self.host = host_cloud_fixture.FakeHostCloud()
        self.host.setUp()
        self.addCleanup(self.host.cleanUp)
        self.network = self.host.add_network()
        self.server = self.add_server('machine-0', '52:54:00:00:00:01')
        self.connection = openstack.connect(
            load_yaml_config=False, load_envvars=False,
            auth={'auth_url': host_cloud_fixture.AUTH_URL,
                  'username': 'operator', 'project_name': 'machines',
                  'password': host_cloud_fixture.SECRET,
                  'user_domain_name': 'Default',
                  'project_domain_name': 'Default'})
        self.ironic = test_enrolment.FakeIronic()
        for patch in (
                mock.patch('openstack.connect', autospec=True,
                           return_value=mock.Mock(baremetal=self.ironic)),
                mock.patch.object(retry, '_BACKOFF', lambda retry_state: 0)):
            patch.start()
            self.addCleanup(patch.stop)

    def add_server(self, name, *macs, **attributes):
        server = self.host.add_server(name=name, **attributes)
        for mac in macs:
            self.host.add_port(server, mac, self.network)
        return server

    def run_command(self, *words):
        """Run the command; return its exit code."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch('sys.stderr', err), mock.patch('sys.stdout', out):
            client = shell.OpenStackShell()
            client.stdout, client.stderr = out, err
            client.client_manager = mock.Mock(sdk_connection=self.connection)
            command = server.EnrollServers(client, mock.Mock())
            parser = command.get_parser('openstack')
            try:
                code = command.run(parser.parse_args(list(words))) or 0
            except exceptions.CommandError as exc:
                code = 1
                print(exc, file=err)
            except KeyboardInterrupt:
                code = 130
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def enroll(self, *words):
        """Run the command; return its rows."""
        self.assertEqual(0, self.run_command(
            *words, *ENDPOINT, '-f', 'json'), getattr(self, 'err', ''))
        return json.loads(self.out)

    def describe(self, *words):
        """Run the command for a file; return the nodes in it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'nodes.json')
            self.assertEqual(0, self.run_command(*words, '-o', path))
            with open(path) as source:
                return json.load(source)['nodes']

    def assert_refused(self, *words, says):
        """Run the command, which has to change nothing."""
        before = len(self.ironic.known), len(self.ironic.known_ports)
        self.assertEqual(1, self.run_command(*words, *ENDPOINT))
        for sentence in says:
            self.assertIn(sentence, self.err)
        self.assertEqual(before, (len(self.ironic.known),
                                  len(self.ironic.known_ports)))


class DescribeTestCase(EnrollServersTestCase):

    def test_what_the_cloud_knows(self):
        node, = self.describe('machine-0')
        self.assertEqual({
            'name': 'machine-0', 'driver': 'quintupleo',
            'driver_info': {'quintupleo_server': self.server.id},
            'properties': {
                'cpus': 2, 'memory_mb': 4096, 'local_gb': 20,
                'cpu_arch': 'x86_64', 'capabilities': 'boot_mode:bios',
                'root_device': {'name': '/dev/vda'}},
            'ports': [{'address': '52:54:00:00:00:01'}]}, node)
        self.assertEqual([{'Name': 'machine-0', 'Server': self.server.id}],
                         self._rows())

    def _rows(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_command(self.server.id, '-f', 'json', '-o',
                             os.path.join(folder, 'nodes.json'))
        return json.loads(self.out)

    def test_options(self):
        node, = self.describe(
            self.server.id, '--host-cloud', 'public', '--resource-class',
            'quick', '--capability', 'profile=compute',
            '--physical-network', 'provision=physnet1')
        self.assertEqual('public', node['driver_info']['quintupleo_cloud'])
        self.assertEqual('quick', node['resource_class'])
        self.assertEqual('boot_mode:bios,profile:compute',
                         node['properties']['capabilities'])
        self.assertEqual('physnet1', node['ports'][0]['physical_network'])

    def test_network_by_its_uuid(self):
        node, = self.describe('machine-0', '--physical-network',
                              f'{self.network["id"]}=physnet1')
        self.assertEqual('physnet1', node['ports'][0]['physical_network'])
        node, = self.describe('machine-0', '--physical-network',
                              f'{self.network["id"].upper()}=physnet1')
        self.assertEqual('physnet1', node['ports'][0]['physical_network'])

    def test_server_that_boots_from_a_volume(self):
        image = self.host.add_empty_image(
            'uefi', hw_firmware_type='uefi')
        volume = self.host.add_volume(image, size=30)
        server = self.add_server('volume', '52:54:00:00:00:02', image=None,
                                 volumes=(volume,))
        self.host.attach_volume(server, volume, '/dev/vda')
        node, = self.describe('volume')
        self.assertEqual(30, node['properties']['local_gb'])
        self.assertEqual('boot_mode:uefi', node['properties']['capabilities'])
        self.assertEqual({'serial': volume['id'][:20]},
                         node['properties']['root_device'])

    def test_root_disk_that_is_not_known(self):
        volumes = [self.host.add_volume(), self.host.add_volume()]
        self.add_server('volumes', '52:54:00:00:00:02', image=None,
                        volumes=tuple(volumes))
        node, = self.describe('volumes')
        self.assertNotIn('root_device', node['properties'])

    def test_once_by_two_names(self):
        self.assertEqual(1, len(self.describe('machine-0', self.server.id)))

    def test_mac_address_that_agents_pass_over(self):
        self.add_server('neutron', 'fa:16:3e:00:00:01')
        self.describe('neutron')
        self.assertIn('MAC address fa:16:3e:00:00:01 begins with fa',
                      self.err)


class EnrollTestCase(EnrollServersTestCase):

    def test_nodes_and_ports(self):
        self.add_server('machine-1', '52:54:00:00:00:02',
                        '52:54:00:00:00:03')
        rows = self.enroll('machine-0', 'machine-1')
        self.assertEqual(
            [('machine-0', 'enrolled'), ('machine-1', 'enrolled')],
            [(row['Name'], row['Outcome']) for row in rows])
        self.assertEqual(
            {'52:54:00:00:00:01': 'node-0', '52:54:00:00:00:02': 'node-1',
             '52:54:00:00:00:03': 'node-1'},
            {port.address: port.node_id for port in self.ironic.known_ports})
        self.assertEqual([], self.host.sent)

    def test_all_that_is_wrong(self):
        self.add_server('twin', '52:54:00:00:00:02')
        self.add_server('twin', '52:54:00:00:00:03')
        lonely = self.add_server('lonely')
        absent = 'f4f5ce12-0000-4000-8000-000000000000'
        self.assert_refused(
            'machine-0', 'twin', 'lonely', absent, 'nobody', says=(
                "2 servers are named 'twin'", 'use the UUID',
                f'Server {lonely.id} (lonely) has no port',
                f'Server {absent} does not exist',
                "No server is named 'nobody'"))

    def test_names_of_nodes(self):
        twins = [self.add_server('twin', '52:54:00:00:00:02').id,
                 self.add_server('twin', '52:54:00:00:00:03').id]
        self.add_server('a b', '52:54:00:00:00:04')
        self.assert_refused(*twins, 'a b', says=(
            '2 of the servers are named "twin"',
            'Server name "a b" cannot be the name of a node'))

    def test_network_that_no_server_is_on(self):
        self.assert_refused(
            'machine-0', '--physical-network', 'other=physnet1',
            says=('--physical-network other: no port of the servers',))

    def test_node_already(self):
        self.enroll('machine-0')
        self.add_server('machine-1', '52:54:00:00:00:02')
        self.assertEqual(
            ['enrolled', 'already enrolled'],
            [row['Outcome'] for row in self.enroll('machine-1', 'machine-0')])

    def test_node_already_by_another_spelling(self):
        self.enroll('machine-0')
        node, = self.ironic.known
        node.name = 'renamed'
        node.driver_info['quintupleo_server'] = self.server.id.upper()
        row, = self.enroll('machine-0')
        self.assertEqual(('node-0', 'already enrolled'),
                         (row['UUID'], row['Outcome']))

    def test_node_of_another_driver(self):
        self.ironic.create_node(name='machine-0', driver='redfish',
                                driver_info={})
        self.ironic.create_port(address='52:54:00:00:00:01',
                                node_id='node-0')
        self.assert_refused('machine-0', says=(
            'Ironic has another node "machine-0" (node-0)',
            'MAC address 52:54:00:00:00:01 is that of a port of node node-0'))

    def test_tags_take_nodes(self):
        self.assertEqual(1, self.run_command('machine-0', '--tag-servers',
                                             '-o', '/nowhere/nodes.json'))
        self.assertIn('--tag-servers takes the UUIDs that Ironic gives',
                      self.err)

    def test_goes_on_after_an_interruption(self):
        self.ironic.faults = {2: (KeyboardInterrupt(), False)}
        self.assertEqual(130, self.run_command('machine-0', *ENDPOINT))
        self.assertEqual('completed', self.enroll('machine-0')[0]['Outcome'])

    def test_cloud_that_is_away(self):
        self.host.fail('GET', '/servers', 503, times=99)
        self.assert_refused('machine-0', says=('The host cloud',))
