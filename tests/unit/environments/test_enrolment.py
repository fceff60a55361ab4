# SPDX-License-Identifier: Apache-2.0
"""Servers of an environment become nodes of an Ironic."""

import unittest

from openstack import exceptions

from quintupleo_power.environments import definition
from quintupleo_power.environments import enrolment
from quintupleo_power.environments import retry
from tests.unit.environments import fake_connection
from tests.unit.environments import test_environment

FILE = '''
networks:
  provision: {physical_network: physnet1}
  tenant: {}
roles:
  control: {kind: server, image: debian, flavor: small}
  compute:
    flavor: medium
    boot_mode: uefi
    resource_class: quick
    capabilities: {profile: compute}
    root_volume: {size: 30}
    nics: [{network: provision}, {network: tenant}]
  storage: {flavor: small}
'''


class FakeIronic:
    """A stand-in for openstacksdk's proxy of Ironic.

    :ivar faults: exceptions by the number of the request that makes
        something; None for one that is made nevertheless.
    """

    def __init__(self):
        self.known, self.known_ports = [], []
        self.faults = {}
        self._requests = 0

    def get_endpoint(self):
        return 'http://192.0.2.1:6385'

    def nodes(self, **filters):
        return list(self.known)

    def ports(self, details=True, address=None):
        return [port for port in self.known_ports
                if address in (None, port.address)]

    def find_node(self, name, ignore_missing):
        return next((node for node in self.known if node.name == name), None)

    def create_node(self, **attributes):
        node = fake_connection.Thing(
            id=f'node-{len(self.known)}', **attributes)
        return self._make(self.known, node)

    def create_port(self, **attributes):
        return self._make(self.known_ports,
                          fake_connection.Thing(**attributes))

    def _make(self, known, thing):
        self._requests += 1
        exc, made = self.faults.get(self._requests, (None, True))
        if made:
            known.append(thing)
        if exc:
            raise exc
        return thing


class EnrolmentTestCase(test_environment.EnvironmentTestCase):

    def setUp(self):
        super().setUp()
        self.ironic = FakeIronic()
        self.create(FILE)

    def enroll(self, **options):
        environments = self.environments()
        return environments.enroll(environments.describe_nodes('env'),
                                   self.ironic, **options)

    def outcomes(self):
        return {each.name: each.outcome for each in self.enroll()}

    def test_nodes(self):
        compute, storage = self.environments().describe_nodes(
            'env', 'public')
        server = self.server('env-compute-0')
        self.assertEqual({
            'quintupleo_server': server.id, 'quintupleo_cloud': 'public'},
            compute['driver_info'])
        root, = self.cloud.all('volume')
        self.assertEqual({
            'cpus': 2, 'memory_mb': 4096, 'local_gb': 30,
            'cpu_arch': 'x86_64',
            'capabilities': 'boot_mode:uefi,profile:compute',
            'root_device': {'serial': root.id[:20]}}, compute['properties'])
        self.assertEqual(('env-compute-0', 'quintupleo', 'quick'), (
            compute['name'], compute['driver'], compute['resource_class']))
        self.assertEqual([
            {'address': self.port('env-compute-0-0').mac_address,
             'pxe_enabled': True, 'physical_network': 'physnet1'},
            {'address': self.port('env-compute-0-1').mac_address,
             'pxe_enabled': False}], compute['ports'])
        self.assertEqual({'name': '/dev/vda'},
                         storage['properties']['root_device'])
        self.assertNotIn('resource_class', storage)
        compute, storage = self.environments().describe_nodes('env')
        self.assertNotIn('quintupleo_cloud', compute['driver_info'])

    def test_disk_of_another_bus(self):
        image = self.cloud.find('image', 'quintupleo-empty-bios', True)
        image.properties['hw_disk_bus'] = 'scsi'
        storage = self.environments().describe_nodes('env')[1]
        self.assertEqual({'name': '/dev/sda'},
                         storage['properties']['root_device'])

    def test_architecture_by_any_of_its_names(self):
        image = self.cloud.find('image', 'quintupleo-empty-bios', True)
        for name, value, expected in (
                ('architecture', 'amd64', 'x86_64'),
                ('hw_architecture', 'AArch64', 'aarch64'),
                ('hw_emulation_architecture', 'ppc64le', 'ppc64le')):
            image.properties[name] = value
            if expected == 'aarch64':
                # Which boots UEFI unless its image says otherwise.
                image.properties['hw_firmware_type'] = 'bios'
            storage = self.environments().describe_nodes('env')[1]
            self.assertEqual(expected, storage['properties']['cpu_arch'])

    def test_once(self):
        self.assertEqual({'env-compute-0': 'enrolled',
                          'env-storage-0': 'enrolled'}, self.outcomes())
        self.assertEqual({'env-compute-0': 'already enrolled',
                          'env-storage-0': 'already enrolled'},
                         self.outcomes())
        self.assertEqual((2, 2), (len(self.ironic.known),
                                  len(self.ironic.known_ports)))
        port = self.ironic.known_ports[0]
        self.assertEqual((True, 'physnet1'), (port.is_pxe_enabled,
                                              port.physical_network))

    def test_goes_on_after_an_interruption(self):
        self.ironic.faults = {3: (fake_connection.Killed(), False)}
        with self.assertRaises(fake_connection.Killed):
            self.enroll()
        self.assertEqual({'env-compute-0': 'completed',
                          'env-storage-0': 'enrolled'}, self.outcomes())
        self.assertEqual((2, 2), (len(self.ironic.known),
                                  len(self.ironic.known_ports)))

    def test_servers_are_tagged_with_their_nodes(self):
        self.enroll()
        self.assertNotIn('quintupleo_node',
                         self.server('env-compute-0').metadata)
        # Again, as after an interruption, and for nodes that are there.
        for _ in range(2):
            self.enroll(tag_servers=True)
        self.assertEqual({'env-compute-0': 'node-0',
                          'env-storage-0': 'node-1'}, {
            name: self.server(name).metadata['quintupleo_node']
            for name in ('env-compute-0', 'env-storage-0')})
        self.assertEqual(2, len(self.ironic.known))

    def test_answer_that_was_lost(self):
        lost = exceptions.HttpException('gone', http_status=502)
        self.ironic.faults = {1: (lost, True), 2: (lost, True)}
        self.enroll()
        self.assertEqual((2, 2), (len(self.ironic.known),
                                  len(self.ironic.known_ports)))

    def test_name_is_taken(self):
        self.ironic.create_node(name='env-compute-0', driver_info={})
        with self.assert_failure('has another node "env-compute-0" (node-0)'):
            self.enroll()
        self.assertEqual(1, len(self.ironic.known))

    def test_mac_address_of_another_node(self):
        mac = self.port('env-compute-0-0').mac_address
        self.ironic.create_port(address=mac, node_id='node-9')
        with self.assert_failure(f'MAC address {mac} is that of a port of '
                                 'node node-9'):
            self.enroll()
        self.assertEqual([], self.ironic.known)

    def test_not_complete(self):
        del self.cloud.things[self.server('env-storage-0').id]
        with self.assert_failure('Environment "env" is not complete'):
            self.enroll()

    def test_ironic_is_away(self):
        self.ironic.faults = {1: (exceptions.ForbiddenException(
            'no', http_status=403), False)}
        with self.assert_failure('Ironic: no'):
            self.enroll()


class DirectTestCase(unittest.TestCase):

    def test_no_nodes(self):
        wanted = definition.parse('roles: {}')
        self.assertEqual([], enrolment.describe(wanted, [], None).nodes)
        self.assertEqual([], enrolment.enroll([], FakeIronic(),
                                              retry.Retrier()))
