# SPDX-License-Identifier: Apache-2.0
"""Inspection: what the host cloud tells becomes the node's."""

from unittest import mock

import fixtures
from ironic.common import driver_factory
from ironic.common import exception
from ironic.common import states
from ironic.conductor import inspection
from ironic.drivers.modules import inspect_utils
from ironic.drivers.modules import pxe
from ironic import objects
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import units
from oslo_utils import uuidutils

from quintupleo_power import compat
from quintupleo_power import hardware
from tests.unit import base
from tests.unit import host_cloud_fixture

MAC = '52:54:00:00:00:01'


class InspectTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.config(enabled_inspect_interfaces=['quintupleo', 'no-inspect'])
        self.set_properties()

    def inspect(self):
        """Inspect as the conductor does; what went wrong is raised."""
        self.node.refresh()
        self.node.provision_state = states.INSPECTING
        self.node.target_provision_state = states.MANAGEABLE
        self.node.save()
        with self.acquire() as task:
            inspection.inspect_hardware(task)
        self.node.refresh()
        self.assertEqual(states.MANAGEABLE, self.node.provision_state)

    def fails(self, *parts, by=exception.HardwareInspectionFailure):
        error = self.assertRaises(by, self.inspect)
        self.assert_says(error, *parts)
        self.node.refresh()
        self.assertEqual(states.INSPECTFAIL, self.node.provision_state)
        self.assertIn(parts[0], self.node.last_error)

    def set_image(self, **properties):
        self.forget_clouds()
        self.host_cloud.images[self.server.image].update(properties)

    def set_properties(self, **properties):
        self.node.properties = properties
        self.node.save()

    def ports(self, node=None):
        return {port.address: port for port in objects.Port.list_by_node_id(
            self.context, (node or self.node).id)}

    def told(self):
        """What the node's history has to say of inspections."""
        return [entry.event for entry in objects.NodeHistory.list_by_node_id(
            self.context, self.node.id)
            if entry.event_type == states.INTROSPECTION]

    def make_volume_backed(self, *volumes):
        """Let the server boot from volumes with these device names."""
        self.server.image = None
        self.server.volumes = volumes


class InterfaceTestCase(InspectTestCase):

    def test_it_is_the_default_where_it_is_enabled(self):
        self.assertEqual('quintupleo', driver_factory.default_interface(
            hardware.QuintupleoHardware(), 'inspect'))

    def test_who_enables_another_one_gets_that(self):
        self.config(enabled_inspect_interfaces=['no-inspect', 'agent'])
        self.assertEqual('agent', driver_factory.default_interface(
            hardware.QuintupleoHardware(), 'inspect'))

    def test_validation_asks_the_host_cloud_nothing(self):
        with self.acquire(shared=True) as task:
            task.driver.inspect.validate(task)
        self.assertEqual([], self.host_cloud.requests)

    def test_validation_sees_a_missing_setting(self):
        self.set_driver_info(quintupleo_server=None)
        with self.acquire(shared=True) as task:
            error = self.assertRaises(exception.MissingParameterValue,
                                      task.driver.inspect.validate, task)
        self.assert_says(error, 'driver_info/quintupleo_server')

    def test_properties_are_those_of_the_power_interface(self):
        with self.acquire(shared=True) as task:
            self.assertEqual(task.driver.power.get_properties(),
                             task.driver.inspect.get_properties())

    def test_nothing_is_changed_in_the_host_cloud(self):
        self.host_cloud.add_port(self.server, MAC,
                                 self.host_cloud.add_network())
        self.inspect()
        self.assertEqual([], [
            request for request in self.host_cloud.requests
            if not request.startswith('GET ')
            and request != 'POST /v3/auth/tokens'])

    def test_any_state_of_the_server_will_do(self):
        for vm_state in ('active', 'stopped', 'rescued', 'paused', 'error',
                         'building', 'shelved_offloaded'):
            self.set_server(vm_state)
            self.set_properties()
            self.inspect()
            self.assertEqual(2, self.node.properties['cpus'])


class RequestsTestCase(InspectTestCase):

    def setUp(self):
        super().setUp()
        self.host_cloud.add_port(self.server, MAC,
                                 self.host_cloud.add_network())

    def requests(self):
        """What an inspection asks for in a cloud that is in use."""
        self.inspect()
        for port in self.ports().values():
            port.destroy()
        self.host_cloud.forget_requests()
        self.inspect()
        return self.host_cloud.requests

    def test_first_inspection_takes_three(self):
        server = f'GET /v2.1/servers/{self.server.id}'
        self.assertEqual(
            [server, f'{server}/os-interface', 'GET /v2.0/networks'],
            self.requests())

    def test_another_one_takes_two(self):
        self.requests()
        self.host_cloud.forget_requests()
        self.inspect()
        self.assertEqual(2, len(self.host_cloud.requests))

    def test_each_volume_takes_one_more(self):
        volume = self.host_cloud.add_volume(
            self.host_cloud.add_image('disk', disk_format='raw'))
        self.make_volume_backed(volume)
        requests = self.requests()
        self.assertEqual(4, len(requests))
        self.assertIn(f'GET /v3/volumes/{volume["id"]}', requests)


class PropertiesTestCase(InspectTestCase):

    def test_what_the_flavor_and_the_image_tell(self):
        self.inspect()
        self.assertEqual(
            {'cpus': 2, 'memory_mb': 4096, 'local_gb': 20,
             'cpu_arch': 'x86_64', 'vendor': 'openstack foundation',
             'capabilities': 'boot_mode:bios'}, self.node.properties)

    def test_what_they_do_not_tell_stays(self):
        self.set_properties(root_device={'name': '/dev/vda'}, cpus=64,
                            vendor='acme', cpu_arch='riscv64')
        self.inspect()
        self.assertEqual(
            {'cpus': 2, 'memory_mb': 4096, 'local_gb': 20,
             'cpu_arch': 'riscv64', 'vendor': 'acme',
             'root_device': {'name': '/dev/vda'},
             'capabilities': 'boot_mode:bios'}, self.node.properties)

    def test_architecture_is_that_of_the_image(self):
        self.set_properties(cpu_arch='x86_64')
        for properties, found in (
                ({'architecture': 'ppc64le'}, 'ppc64le'),
                ({'hw_architecture': 'AMD64'}, 'x86_64'),
                ({'hw_architecture': 'aarch64'}, 'aarch64'),
                ({'hw_emulation_architecture': 's390x'}, 's390x')):
            self.set_image(**properties)
            self.inspect()
            self.assertEqual(found, self.node.properties['cpu_arch'])

    def test_architecture_is_that_of_the_hosts_that_the_flavor_requires(self):
        self.server.extra_specs = {'trait:HW_ARCH_AARCH64': 'required'}
        self.inspect()
        self.assertEqual('aarch64', self.node.properties['cpu_arch'])

    def test_architecture_without_bios_boots_uefi(self):
        self.set_image(hw_architecture='aarch64')
        self.inspect()
        self.assertEqual('boot_mode:uefi,secure_boot:false',
                         self.node.properties['capabilities'])

    def test_capabilities_are_merged(self):
        self.set_properties(capabilities='profile:gold,a:b')
        self.set_image(hw_firmware_type='uefi', os_secure_boot='required')
        self.inspect()
        self.assertEqual(
            {'profile:gold', 'boot_mode:uefi', 'a:b', 'secure_boot:true'},
            set(self.node.properties['capabilities'].split(',')))
        self.assertEqual([], self.told())

    def test_capability_that_an_operator_has_set_stays(self):
        own = 'boot_mode:bios,secure_boot:false'
        self.set_properties(capabilities=own)
        self.set_image(hw_firmware_type='uefi', os_secure_boot='disabled')
        self.inspect()
        self.assertEqual(set(own.split(',')), set(
            self.node.properties['capabilities'].split(',')))
        sentence, = self.told()
        for part in ("boot_mode of properties/capabilities is 'bios'",
                     self.server.id, 'has uefi', 'inspect again'):
            self.assertIn(part, sentence)

    def test_malformed_capabilities_are_left_for_whoever_wrote_them(self):
        for wrong, sentence in (
                ('nonsense', 'Malformed capabilities value: nonsense'),
                ({'boot_mode': 'bios'}, "'capabilities' must be string")):
            self.set_properties(capabilities=wrong)
            self.fails(sentence, by=exception.InvalidParameterValue)
            self.assertEqual({'capabilities': wrong}, self.node.properties)

    def test_malformed_flavor_is_an_error(self):
        self.server.ram = '4096'
        self.fails('flavor', 'form')

    def test_flavor_that_is_not_told_is_an_error(self):
        self.host_cloud.fail('GET', '/servers/', {'server': {
            'id': self.server.id, 'status': 'UNKNOWN', 'flavor': {}}})
        self.fails(self.server.id, 'shows no flavor')


class DiskTestCase(InspectTestCase):

    def local_gb(self):
        self.forget_clouds()
        self.inspect()
        return self.node.properties['local_gb']

    def volume(self, device, size, image=None):
        volume = self.host_cloud.add_volume(image, size)
        self.host_cloud.attach_volume(self.server, volume, device)
        return volume

    def test_volume_backed_server_has_that_of_its_boot_volume(self):
        image = self.host_cloud.add_image('disk', disk_format='raw')
        root, data = (self.volume('/dev/vda', 50, image),
                      self.volume('/dev/vdb', 70))
        for volumes in ((root, data), (data, root)):
            self.make_volume_backed(*volumes)
            self.assertEqual(50, self.local_gb())

    def test_data_volumes_do_not_count(self):
        self.server.volumes = (self.volume('/dev/vdb', 70),)
        self.assertEqual(20, self.local_gb())

    def test_many_volumes_are_sorted_as_linux_does(self):
        self.make_volume_backed(self.volume('/dev/vdaa', 1),
                                self.volume('/dev/vdb', 2))
        self.assertEqual(2, self.local_gb())

    def test_volumes_without_a_device_count_as_nova_lists_them(self):
        second, first = self.volume(None, 3), self.volume(None, 4)
        self.make_volume_backed(second, first)
        self.assertEqual(4, self.local_gb())

    def test_cd_of_a_network_first_server_does_not_count(self):
        iso = self.host_cloud.add_image('iso',
                                        quintupleo_boot='network-first')
        self.make_volume_backed(self.volume('/dev/sda', 1, iso),
                                self.volume('/dev/vda', 60))
        self.assertEqual(60, self.local_gb())

    def test_network_first_server_of_an_image_has_its_volume(self):
        self.server.image = self.host_cloud.add_image(
            'iso', quintupleo_boot='network-first')['id']
        self.server.volumes = (self.volume('/dev/vda', 60),)
        self.assertEqual(60, self.local_gb())

    def test_volume_service_that_does_not_tell(self):
        self.make_volume_backed(self.volume('/dev/vda', 50))
        self.host_cloud.has_volume_service = False
        self.fails('the size', 'properties/local_gb')
        self.host_cloud.has_volume_service = True
        self.host_cloud.fail('GET', '/volumes/', 403, times=99)
        self.forget_clouds()
        self.fails('the size', 'properties/local_gb')
        self.set_properties(local_gb=33)
        self.assertEqual(33, self.local_gb())
        self.assertEqual([], inspect_utils.get_inspection_data(
            self.node, self.context)['inventory']['disks'])

    def test_volume_that_is_gone(self):
        self.make_volume_backed(self.volume('/dev/vda', 50))
        self.host_cloud.volumes.clear()
        self.fails('the size')

    def test_malformed_volume_is_an_error(self):
        volume = self.volume('/dev/vda', 50)
        self.make_volume_backed(volume)
        volume['attachments'] = ['/dev/vda']
        self.fails('volume', 'form')
        volume['attachments'] = None
        del volume['size']
        self.fails('volume', 'form')


class PortsTestCase(InspectTestCase):

    def setUp(self):
        super().setUp()
        self.network = self.host_cloud.add_network('provision')

    def add(self, mac=MAC, network=None):
        return self.host_cloud.add_port(self.server, mac,
                                        network or self.network)

    def test_card_becomes_a_port_on_its_network(self):
        self.add()
        self.add('52:54:00:00:00:02', self.host_cloud.add_network('tenant'))
        self.inspect()
        self.assertEqual(
            {MAC: 'provision', '52:54:00:00:00:02': 'tenant'},
            {mac: port.physical_network
             for mac, port in self.ports().items()})

    def test_network_that_nothing_names_has_its_uuid(self):
        def without_service():
            self.host_cloud.has_network_service = False

        def without_name():
            self.host_cloud.has_network_service = True
            self.network['name'] = ''

        def with_too_long_a_name():
            self.network['name'] = 'n' * 65

        def without_permission():
            self.host_cloud.fail('GET', '/networks', 403, times=9)

        def unseen():
            self.host_cloud.stop_failing()
            self.host_cloud.networks.clear()

        self.add()
        for change in (without_service, without_name, with_too_long_a_name,
                       without_permission, unseen):
            change()
            self.forget_clouds()
            self.inspect()
            port = self.ports()[MAC]
            self.assertEqual(self.network['id'], port.physical_network)
            port.destroy()

    def test_longest_name_that_ironic_takes(self):
        self.network['name'] = 'n' * 64
        self.add()
        self.inspect()
        self.assertEqual('n' * 64, self.ports()[MAC].physical_network)

    def test_port_that_is_there_stays_as_it_is(self):
        self.add()
        before = objects_utils.create_test_port(
            self.context, node_id=self.node.id, address=MAC,
            uuid=uuidutils.generate_uuid(), physical_network='physnet1')
        self.inspect()
        after = self.ports()[MAC]
        self.assertEqual((before.uuid, 'physnet1'),
                         (after.uuid, after.physical_network))
        self.assertEqual([], self.told())

    def test_port_of_no_card_stays(self):
        objects_utils.create_test_port(
            self.context, node_id=self.node.id, address='52:54:00:00:00:09',
            uuid=uuidutils.generate_uuid())
        self.add()
        self.inspect()
        self.assertEqual({MAC, '52:54:00:00:00:09'}, set(self.ports()))

    def test_second_inspection_adds_nothing(self):
        self.add('52:54:00:AB:CD:EF')
        for _ in range(2):
            self.inspect()
            self.assertEqual({'52:54:00:ab:cd:ef'}, set(self.ports()))
        self.assertEqual([], self.told())

    def test_port_of_another_node_is_told(self):
        other = objects_utils.create_test_node(
            self.context, driver='quintupleo',
            uuid=uuidutils.generate_uuid())
        taken = objects_utils.create_test_port(
            self.context, node_id=other.id, address=MAC,
            uuid=uuidutils.generate_uuid())
        self.add()
        self.add('52:54:00:00:00:02')
        self.inspect()
        self.assertEqual({'52:54:00:00:00:02'}, set(self.ports()))
        self.assertEqual({MAC}, set(self.ports(other)))
        sentence, = self.told()
        for part in (MAC, self.server.id, taken.uuid, other.uuid,
                     'delete that port'):
            self.assertIn(part, sentence)
        self.assertIsNone(self.node.last_error)

    def test_malformed_port_is_an_error(self):
        for key in ('mac_addr', 'net_id', 'port_id'):
            self.host_cloud.ports.clear()
            self.add()[key] = None
            self.fails('port', 'form')
        self.host_cloud.ports.clear()
        self.add('not a MAC')
        self.fails('port', 'form')
        self.assertEqual({}, self.ports())


class TraitsTestCase(InspectTestCase):

    def traits(self):
        return set(objects.TraitList.get_by_node_id(
            self.context, self.node.id).get_trait_names())

    def test_those_that_the_flavor_requires(self):
        self.server.extra_specs = {
            'trait:HW_CPU_X86_VMX': 'required',
            'trait:CUSTOM_GOLD': 'required',
            'trait2:CUSTOM_NUMBERED': 'required',
            'trait_NIC:CUSTOM_NAMED': 'required',
            'trait:CUSTOM_BAD': 'forbidden',
            'hw:cpu_policy': 'required', 'resources:VGPU': '1'}
        self.inspect()
        self.assertEqual({'HW_CPU_X86_VMX', 'CUSTOM_GOLD', 'CUSTOM_NUMBERED',
                          'CUSTOM_NAMED'}, self.traits())

    def test_those_that_the_node_has_stay(self):
        objects.TraitList.create(self.context, self.node.id,
                                 ['CUSTOM_GOLD', 'CUSTOM_OWN'])
        self.server.extra_specs = {'trait:CUSTOM_GOLD': 'required',
                                   'trait:CUSTOM_NEW': 'required'}
        for _ in range(2):
            self.inspect()
            self.assertEqual({'CUSTOM_GOLD', 'CUSTOM_OWN', 'CUSTOM_NEW'},
                             self.traits())

    def test_those_that_ironic_would_refuse_are_passed_over(self):
        self.server.extra_specs = {
            'trait:custom_small': 'required', 'trait:CUSTOM_': 'required',
            'trait:NO_SUCH_STANDARD': 'required',
            f'trait:CUSTOM_{"X" * 249}': 'required'}
        self.inspect()
        self.assertEqual(set(), self.traits())

    def test_more_than_ironic_takes_are_an_error(self):
        self.server.extra_specs = {
            f'trait:CUSTOM_{number}': 'required' for number in range(51)}
        self.assertRaises(exception.InvalidParameterValue, self.inspect)
        self.node.refresh()
        self.assertEqual(states.INSPECTFAIL, self.node.provision_state)
        self.assertIn('50', self.node.last_error)


class InventoryTestCase(InspectTestCase):

    def inventory(self):
        return inspect_utils.get_inspection_data(
            self.node, self.context)['inventory']

    def test_is_kept_in_the_form_of_the_agent(self):
        port = self.host_cloud.add_port(self.server, MAC,
                                        self.host_cloud.add_network())
        self.inspect()
        self.assertEqual({
            'cpu': {'count': 2, 'architecture': 'x86_64'},
            'memory': {'physical_mb': 4096},
            'disks': [{'size': 20 * units.Gi}],
            'interfaces': [{'name': port['port_id'], 'mac_address': MAC}],
            'boot': {'current_boot_mode': 'bios'},
            'system_vendor': {'manufacturer': 'OpenStack Foundation',
                              'product_name': 'OpenStack Nova',
                              'system_uuid': self.server.id}},
            self.inventory())

    def test_second_inspection_takes_its_place(self):
        self.inspect()
        self.server.vcpus = 8
        self.inspect()
        self.assertEqual(8, self.inventory()['cpu']['count'])


class HooksTestCase(InspectTestCase):
    """What operators add to an inspection."""

    def setUp(self):
        super().setUp()
        if compat.inspection_rules is None:
            self.skipTest('Before Ironic 29.0')
        self.host_cloud.add_port(self.server, MAC,
                                 self.host_cloud.add_network())
        # Ironic loads them once for an interface.
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.inspect_utils._HOOKS_MGR', {}))

    def make_rule(self, *actions, conditions=()):
        rule = objects.InspectionRule(
            self.context, uuid=uuidutils.generate_uuid(), priority=0,
            phase='main', sensitive=False, conditions=list(conditions),
            actions=list(actions))
        rule.create()

    def test_rule_is_applied_to_what_was_found(self):
        self.make_rule(
            {'op': 'set-attribute',
             'args': {'path': '/properties/local_gb', 'value': 19}},
            {'op': 'set-capability',
             'args': {'name': 'profile', 'value': 'small'}},
            # In a list not each Ironic fills in values: 39 does, 38 does not.
            conditions=[{'op': 'matches', 'args': {
                'value': '{inventory[cpu][architecture]}',
                'regex': 'x86_64'}}])
        self.inspect()
        self.assertEqual(19, self.node.properties['local_gb'])
        self.assertIn('profile:small', self.node.properties['capabilities'])

    def test_rule_that_fails_fails_the_inspection(self):
        self.make_rule({'op': 'fail', 'args': {'msg': 'too small'}})
        self.fails('too small')

    def test_hooks_run_before_the_inventory_is_stored(self):
        self.config(group='quintupleo', inspection_hooks=[
            'validate-interfaces', 'ports', 'architecture'])
        self.inspect()
        self.assertEqual([MAC], list(self.ports()))
        data = inspect_utils.get_inspection_data(self.node, self.context)
        self.assertEqual([MAC], data['plugin_data']['macs'])

    def test_none_run_by_default(self):
        self.inspect()
        data = inspect_utils.get_inspection_data(self.node, self.context)
        self.assertEqual({}, data['plugin_data'])

    def test_hook_that_there_is_not(self):
        self.assertRaises(RuntimeError, compat.inspection_hooks,
                          'quintupleo', ['no-such-hook'])

    def test_hooks_of_an_old_ironic(self):
        with mock.patch.object(compat, 'inspection_rules', None):
            error = self.assertRaises(
                exception.ConfigInvalid, compat.inspection_hooks,
                'quintupleo', ['ports'])
            self.assert_says(error, '[quintupleo]inspection_hooks', '29.0')
            self.inspect()


class FailingCloudTestCase(InspectTestCase):

    def setUp(self):
        super().setUp()
        self.host_cloud.add_port(self.server, MAC,
                                 self.host_cloud.add_network())

    def test_deleted_server(self):
        self.set_server('deleted')
        self.fails('does not exist', self.server.id)

    def test_ironic_has_no_ramdisk_to_clean_up_after(self):
        self.set_server('deleted')
        with mock.patch.object(pxe.PXEBoot, 'clean_up_ramdisk',
                               autospec=True) as clean_up:
            self.fails('does not exist')
        clean_up.assert_not_called()

    def test_each_request_that_fails(self):
        for path in (f'/servers/{self.server.id}$', '/os-interface',
                     '/v2.0/networks'):
            for answer in (500, 503, 'no JSON', {}):
                self.forget_clouds()
                self.host_cloud.fail('GET', path, answer, times=99)
                self.fails('try again later')
                self.host_cloud.stop_failing()
        self.assertEqual({}, self.ports())
        self.assertEqual({}, self.node.properties)

    def test_what_is_not_permitted(self):
        for path in (f'/servers/{self.server.id}$', '/os-interface'):
            self.forget_clouds()
            self.host_cloud.fail('GET', path, (403, 'Policy says no'))
            self.fails('Policy says no')

    def test_it_works_when_the_cloud_is_back(self):
        self.host_cloud.fail('GET', '/os-interface', 500, times=3)
        self.fails('500')
        self.inspect()
        self.assertEqual({MAC}, set(self.ports()))


class OldComputeTestCase(InspectTestCase):
    """A compute API that tells only the flavor's identifier (before 2.47)."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.42')

    def setUp(self):
        super().setUp()
        self.server.flavor = 'm1/tiny 1'
        self.server.extra_specs = {'trait:CUSTOM_GOLD': 'required'}

    def test_flavor_is_read_by_itself(self):
        self.inspect()
        self.assertEqual((2, 4096, 20), tuple(
            self.node.properties[name]
            for name in ('cpus', 'memory_mb', 'local_gb')))
        self.assertEqual(['CUSTOM_GOLD'], objects.TraitList.get_by_node_id(
            self.context, self.node.id).get_trait_names())
        self.assertIn('GET /v2.1/flavors/m1%2Ftiny%201',
                      self.host_cloud.requests)

    def test_flavor_that_was_deleted(self):
        self.host_cloud.fail('GET', '/flavors/', 404)
        self.fails('does not exist any more', 'm1/tiny 1')

    def test_malformed_flavor_is_an_error(self):
        self.server.vcpus = None
        self.fails('flavor', 'form')

    def test_extra_specs_that_may_not_be_seen(self):
        self.host_cloud.fail('GET', '/os-extra_specs', 403)
        self.inspect()
        self.assertEqual(2, self.node.properties['cpus'])
        self.assertEqual([], objects.TraitList.get_by_node_id(
            self.context, self.node.id).get_trait_names())
