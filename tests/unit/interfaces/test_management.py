# SPDX-License-Identifier: Apache-2.0
"""The management interface."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.conductor import utils as conductor_utils
from ironic.drivers.modules import boot_mode_utils
import requests

from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit import nova_model


class ManagementTestCase(base.DriverTestCase):

    def call(self, method, *args, shared=False, **kwargs):
        with self.acquire(shared=shared) as task:
            return getattr(task.driver.management, method)(
                task, *args, **kwargs)


class InterfaceTestCase(ManagementTestCase):

    def test_boot_devices_are_pxe_disk_and_cdrom(self):
        self.assertEqual(['pxe', 'disk', 'cdrom'],
                         self.call('get_supported_boot_devices'))

    def test_properties_are_those_of_the_power_interface(self):
        with self.acquire(shared=True) as task:
            self.assertEqual(task.driver.power.get_properties(),
                             task.driver.management.get_properties())

    def test_there_are_no_sensors(self):
        self.assertEqual({}, self.call('get_sensors_data'))

    def test_validation_asks_the_host_cloud_nothing(self):
        self.call('validate', shared=True)
        self.assertEqual([], self.host_cloud.requests)

    def test_validation_sees_a_missing_setting(self):
        self.set_driver_info(quintupleo_server=None)
        error = self.assertRaises(exception.MissingParameterValue,
                                  self.call, 'validate')
        self.assert_says(error, 'driver_info/quintupleo_server')

    def test_vendor_is_that_of_a_guests_dmi(self):
        self.assertEqual('openstack foundation', self.call('detect_vendor'))
        self.assertEqual([], self.host_cloud.requests)

    def test_ironic_keeps_the_vendor(self):
        with self.acquire(shared=True) as task:
            conductor_utils.node_cache_vendor(task)
        self.node.refresh()
        self.assertEqual('openstack foundation',
                         self.node.properties['vendor'])


class PowerSyncTestCase(ManagementTestCase):
    """What Ironic asks for at each power sync, beside the power state."""

    def requests_after_the_power_state(self):
        with self.acquire(shared=True) as task:
            task.driver.power.get_power_state(task)
            self.host_cloud.forget_requests()
            conductor_utils.node_cache_vendor(task)
            conductor_utils.node_cache_boot_mode(task)
            if hasattr(conductor_utils, 'node_cache_health'):
                conductor_utils.node_cache_health(task)
        return self.host_cloud.requests

    def test_it_costs_no_request(self):
        self.assertEqual([], self.requests_after_the_power_state())

    def test_what_it_learns_is_kept(self):
        self.host_cloud.images[self.server.image].update(
            hw_firmware_type='uefi', os_secure_boot='required')
        self.requests_after_the_power_state()
        self.node.refresh()
        self.assertEqual(('uefi', True),
                         (self.node.boot_mode, self.node.secure_boot))


class VolumePowerSyncTestCase(PowerSyncTestCase):
    """The same of a server that boots from a volume."""

    def setUp(self):
        super().setUp()
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.images[self.server.image]),)
        self.server.image = None
        # A pass reads each volume once a day.
        self.call('get_boot_mode')

    def test_what_it_learns_is_kept(self):
        self.forget_clouds()
        volume, = self.server.volumes
        volume['volume_image_metadata'].update(
            hw_firmware_type='uefi', os_secure_boot='required')
        self.requests_after_the_power_state()
        self.node.refresh()
        self.assertEqual(('uefi', True),
                         (self.node.boot_mode, self.node.secure_boot))

    def test_volumes_that_may_not_be_seen_are_asked_for_once(self):
        self.forget_clouds()
        self.host_cloud.fail('GET', '/volumes/', 403, times=99)
        self.call('get_boot_mode')
        self.assertEqual([], self.requests_after_the_power_state())


class OldComputePowerSyncTestCase(PowerSyncTestCase):
    """The same on a compute API without image properties (before 2.98)."""

    def setUp(self):
        super().setUp()
        # A pass reads each image once in a while.
        self.call('get_boot_mode')

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.79')

    def test_what_it_learns_is_kept(self):
        self.forget_clouds()
        super().test_what_it_learns_is_kept()

    def test_image_that_is_gone_is_asked_for_once(self):
        self.forget_clouds()
        del self.host_cloud.images[self.server.image]
        self.call('get_boot_mode')
        self.assertEqual([], self.requests_after_the_power_state())


class SupportedBootDevicesTestCase(ManagementTestCase):

    def supported(self):
        self.forget_clouds()
        return self.call('get_supported_boot_devices', shared=True)

    def test_server_with_a_virtual_tpm_is_not_rescued(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.assertEqual(['disk'], self.supported())

    def test_volume_is_rescued_where_the_compute_api_can(self):
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(),)
        for version, devices in (('2.98', ['pxe', 'disk', 'cdrom']),
                                 ('2.87', ['pxe', 'disk', 'cdrom']),
                                 ('2.86', ['disk'])):
            self.host_cloud.microversion = version
            self.assertEqual(devices, self.supported())

    def test_network_first_server_needs_no_rescue(self):
        self.host_cloud.microversion = '2.79'
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.add_image('iso', quintupleo_boot='network-first')),
            self.host_cloud.add_volume())
        self.assertEqual(['pxe', 'disk'], self.supported())

    def test_they_are_those_of_a_server_in_any_state(self):
        for vm_state in ('stopped', 'rescued', 'error', 'shelved'):
            self.set_server(vm_state)
            self.assertEqual(['pxe', 'disk', 'cdrom'], self.supported())

    def test_the_server_is_read_again(self):
        with self.acquire(shared=True) as task:
            task.driver.power.get_power_state(task)
            self.host_cloud.forget_requests()
            task.driver.management.get_supported_boot_devices(task)
        self.assertIn(f'GET /v2.1/servers/{self.server.id}',
                      self.host_cloud.requests)

    def test_without_the_host_cloud_there_is_no_answer(self):
        self.host_cloud.fail('GET', '/servers/', 503, times=99)
        error = self.assertRaises(exception.DriverOperationError,
                                  self.supported)
        self.assert_says(error, '503', 'try again later')


class BootDeviceTestCase(ManagementTestCase):

    def test_setting_it_only_records_it(self):
        for device in (boot_devices.PXE, boot_devices.DISK):
            for persistent in (True, False):
                self.call('set_boot_device', device, persistent)
                self.assertEqual(
                    {'boot_device': device, 'persistent': persistent},
                    self.call('get_boot_device'))
        self.assertEqual([], self.host_cloud.requests)

    def test_it_is_kept_in_the_database(self):
        self.call('set_boot_device', boot_devices.PXE, True)
        self.node.refresh()
        self.assertEqual({'quintupleo_boot_device': 'pxe'},
                         self.node.driver_internal_info)

    def test_it_is_for_one_boot_unless_said_otherwise(self):
        self.call('set_boot_device', boot_devices.PXE)
        self.assertIs(False, self.call('get_boot_device')['persistent'])

    def test_a_persistent_device_ends_a_one_time_one(self):
        self.call('set_boot_device', boot_devices.PXE)
        self.call('set_boot_device', boot_devices.DISK, True)
        self.assertEqual({'boot_device': 'disk', 'persistent': True},
                         self.call('get_boot_device'))

    def test_unknown_device_is_refused_and_changes_nothing(self):
        self.call('set_boot_device', boot_devices.PXE, True)
        error = self.assertRaises(
            exception.InvalidParameterValue, self.call, 'set_boot_device',
            boot_devices.WANBOOT)
        self.assert_says(error, self.node.uuid, "'wanboot'",
                         'pxe and disk and cdrom')
        self.assertEqual('pxe', self.call('get_boot_device')['boot_device'])

    def test_setting_it_needs_the_lock(self):
        self.assertRaises(exception.ExclusiveLockRequired, self.call,
                          'set_boot_device', boot_devices.PXE, shared=True)

    def test_without_a_wish_it_is_what_a_reboot_leads_to(self):
        for vm_state in ('active', 'stopped', 'rescued'):
            self.forget_clouds()
            self.set_server(vm_state)
            self.assertEqual({'boot_device': 'disk', 'persistent': None},
                             self.call('get_boot_device'))
        with self.acquire() as task:
            task.driver.power.reboot(task)
        self.assertEqual(['unrescue'], self.host_cloud.sent)

    def test_without_a_wish_a_network_first_server_asks_the_network(self):
        self.server.image = self.host_cloud.add_image(
            'iso', quintupleo_boot='network-first')['id']
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.assertEqual({'boot_device': 'pxe', 'persistent': None},
                         self.call('get_boot_device'))

    def test_without_a_wish_and_a_server_it_is_an_error(self):
        self.set_server('deleted')
        error = self.assertRaises(exception.DriverOperationError,
                                  self.call, 'get_boot_device')
        self.assert_says(error, self.server.id, 'does not exist')

    def test_ironics_own_path_sets_it(self):
        with self.acquire() as task:
            conductor_utils.node_set_boot_device(
                task, boot_devices.PXE, persistent=True)
        self.assertEqual({'boot_device': 'pxe', 'persistent': True},
                         self.call('get_boot_device'))


class BootModeTestCase(ManagementTestCase):

    def set_firmware(self, firmware):
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = (
            firmware)

    def test_server_without_the_property_boots_bios(self):
        self.assertEqual('bios', self.call('get_boot_mode'))

    def test_server_with_the_property_boots_as_it_says(self):
        for firmware in ('uefi', 'bios'):
            self.forget_clouds()
            self.set_firmware(firmware)
            self.assertEqual(firmware, self.call('get_boot_mode'))

    def test_server_that_boots_from_a_volume_does_not_tell(self):
        self.server.image = None
        self.assertIsNone(self.call('get_boot_mode'))

    def test_the_mode_that_it_has_is_accepted(self):
        self.set_firmware('uefi')
        self.call('set_boot_mode', 'uefi')
        self.assertEqual([], self.host_cloud.sent)

    def test_any_mode_is_accepted_when_the_cloud_does_not_tell(self):
        self.server.image = None
        for mode in ('bios', 'uefi'):
            self.call('set_boot_mode', mode)
        self.assertEqual([], self.host_cloud.sent)

    def test_both_modes_are_supported_without_a_request(self):
        self.assertEqual(['bios', 'uefi'],
                         self.call('get_supported_boot_modes'))
        self.assertEqual([], self.host_cloud.requests)

    def test_failing_cloud_is_an_error(self):
        self.host_cloud.fail('GET', '/servers/', 500, times=99)
        error = self.assertRaises(exception.DriverOperationError,
                                  self.call, 'get_boot_mode')
        self.assert_says(error, '500')


class OldComputeTestCase(BootModeTestCase):
    """The same on a compute API without image properties (before 2.98)."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.79')

    def test_image_that_is_gone_does_not_tell(self):
        del self.host_cloud.images[self.server.image]
        self.assertIsNone(self.call('get_boot_mode'))

    def test_image_is_read_once_for_many_servers(self):
        self.call('get_boot_mode')
        other = self.host_cloud.add_server(image=self.server.image)
        self.host_cloud.forget_requests()
        self.set_driver_info(quintupleo_server=other.id)
        self.call('get_boot_mode')
        self.assertEqual(['GET /v2.1/servers/detail'],
                         self.host_cloud.requests)


class SecureBootTestCase(ManagementTestCase):

    def set_properties(self, **properties):
        self.forget_clouds()
        self.host_cloud.images[self.server.image].update(properties)

    def test_is_what_the_image_says(self):
        for value, state in (('required', True), ('disabled', False)):
            self.set_properties(hw_firmware_type='uefi', os_secure_boot=value)
            self.assertIs(state, self.call('get_secure_boot_state'))

    def test_is_off_for_uefi_unless_asked_for(self):
        self.set_properties(hw_firmware_type='uefi')
        self.assertIs(False, self.call('get_secure_boot_state'))

    def test_is_what_the_flavor_says(self):
        self.set_properties(hw_firmware_type='uefi')
        self.server.extra_specs = {'os:secure_boot': 'required'}
        self.assertIs(True, self.call('get_secure_boot_state'))

    def test_bios_has_none(self):
        self.set_properties(os_secure_boot='required')
        self.untold()

    def untold(self):
        error = self.assertRaises(exception.UnsupportedDriverExtension,
                                  self.call, 'get_secure_boot_state')
        self.assert_says(error, 'get_secure_boot_state')

    def test_what_the_host_decides_is_not_told(self):
        self.set_properties(hw_firmware_type='uefi',
                            os_secure_boot='optional')
        self.untold()

    def test_volume_of_no_image_does_not_tell(self):
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.untold()

    def test_failing_cloud_is_an_error(self):
        self.host_cloud.fail('GET', '/servers/', 500, times=9)
        error = self.assertRaises(exception.DriverOperationError, self.call,
                                  'get_secure_boot_state')
        self.assert_says(error, '500')

    def test_the_state_that_it_has_is_accepted(self):
        for value, state in (('required', True), ('disabled', False)):
            self.set_properties(hw_firmware_type='uefi', os_secure_boot=value)
            self.call('set_secure_boot_state', state)
        self.assertEqual([], self.host_cloud.sent)

    def test_setting_it_needs_the_lock(self):
        self.assertRaises(exception.ExclusiveLockRequired, self.call,
                          'set_secure_boot_state', True, shared=True)

    def test_deployment_that_wants_it_fails_where_it_is_not(self):
        for properties in ({'os_secure_boot': 'required'},
                           {'hw_firmware_type': 'uefi',
                            'os_secure_boot': 'optional'},
                           {'hw_firmware_type': 'uefi',
                            'os_secure_boot': 'disabled'}):
            self.set_properties(**properties)
            with self.acquire() as task:
                task.node.instance_info = {
                    'capabilities': {'secure_boot': 'true'}}
                error = self.assertRaises(
                    exception.InvalidParameterValue,
                    boot_mode_utils.configure_secure_boot_if_needed, task)
            self.assert_says(error, self.node.uuid, self.server.id,
                             'and not UEFI with secure boot',
                             'management.change_boot_mode')

    def test_tear_down_leaves_it_on(self):
        self.set_properties(hw_firmware_type='uefi',
                            os_secure_boot='required')
        with self.acquire() as task:
            task.node.instance_info = {
                'capabilities': {'secure_boot': 'true'}}
            boot_mode_utils.deconfigure_secure_boot_if_needed(task)
        error = self.assertRaises(exception.UnsupportedDriverExtension,
                                  self.call, 'set_secure_boot_state', False)
        self.assert_says(error, self.node.uuid, self.server.id,
                         'cannot be turned off', 'change_boot_mode')
        self.assertEqual([], self.host_cloud.sent)


class MacAddressesTestCase(ManagementTestCase):

    def test_are_those_of_the_servers_ports(self):
        network = self.host_cloud.add_network()
        for mac in ('52:54:00:00:00:01', '52:54:00:00:00:02'):
            self.host_cloud.add_port(self.server, mac, network)
        self.host_cloud.add_port(self.host_cloud.add_server(name='other'),
                                 '52:54:00:00:00:03', network)
        self.assertEqual(['52:54:00:00:00:01', '52:54:00:00:00:02'],
                         self.call('get_mac_addresses'))

    def test_server_without_a_port_has_none(self):
        self.assertEqual([], self.call('get_mac_addresses'))

    def test_what_the_host_cloud_does_not_permit_is_an_error(self):
        self.host_cloud.fail('GET', '/os-interface', (
            403, 'Policy does not allow os-attach-interfaces:list'))
        error = self.assertRaises(exception.DriverOperationError, self.call,
                                  'get_mac_addresses')
        self.assert_says(error, self.node.uuid, '403', 'Policy')


class NmiTestCase(ManagementTestCase):

    def refused(self, *parts):
        error = self.assertRaises(exception.DriverOperationError, self.call,
                                  'inject_nmi')
        self.assert_says(error, self.node.uuid, *parts)

    def test_reaches_a_guest_that_runs(self):
        for vm_state in ('active', 'rescued'):
            self.set_server(vm_state)
            self.host_cloud.forget_requests()
            self.call('inject_nmi')
            self.assertEqual(['trigger_crash_dump'], self.host_cloud.sent)
            self.assertEqual(vm_state, self.server.vm_state)

    def test_needs_the_lock(self):
        self.assertRaises(exception.ExclusiveLockRequired, self.call,
                          'inject_nmi', shared=True)

    def test_guest_that_is_off_gets_none(self):
        for vm_state in ('stopped', 'suspended', 'shelved'):
            self.set_server(vm_state, nova_model.SHUTDOWN)
            self.refused(self.server.id, nova_model.STATUS[vm_state],
                         'unshelve' if vm_state == 'shelved'
                         else 'power the node on')
        self.assertEqual([], self.host_cloud.sent)

    def test_guest_that_has_powered_itself_off_gets_none(self):
        for vm_state in ('active', 'rescued'):
            self.set_server(vm_state, nova_model.SHUTDOWN)
            self.refused('power the node on')
        self.assertEqual([], self.host_cloud.sent)

    def test_server_in_error_may_run_a_guest(self):
        self.set_server('error')
        self.call('inject_nmi')
        self.assertEqual(['trigger_crash_dump'], self.host_cloud.sent)

    def test_nova_tells_of_a_task_in_progress(self):
        self.host_cloud.begin_task(self.server, 'rebooting', 9, 'active', 1)
        self.refused('task_state rebooting')

    def test_hypervisor_that_knows_no_nmi(self):
        self.host_cloud.fail_action('trigger_crash_dump',
                                    'Triggering crash dump is not supported')
        self.refused(self.server.id, 'could not inject an NMI',
                     'Triggering crash dump is not supported')

    def test_policy_that_does_not_permit_it(self):
        self.host_cloud.fail('POST', '/action', (
            403, "Policy doesn't allow servers:trigger_crash_dump"))
        self.refused('403', "Policy doesn't allow")

    def test_compute_api_that_has_none(self):
        self.host_cloud.microversion = '2.16'
        self.refused('no such action')

    def test_server_that_is_gone_meanwhile(self):
        self.host_cloud.fail('POST', '/action', 404)
        self.refused(self.server.id, 'does not exist')

    def test_is_not_sent_again_when_its_answer_is_lost(self):
        for answer in (requests.exceptions.ConnectionError('Reset'), 502):
            self.host_cloud.forget_requests()
            self.host_cloud.fail('POST', '/action', answer,
                                 carried_out=True)
            self.refused('the NMI is not known', 'server event list')
            self.assertEqual(['trigger_crash_dump'], self.host_cloud.sent)

    def test_is_not_sent_where_nova_has_not_looked_at_it(self):
        self.host_cloud.fail('POST', '/action', 429)
        self.refused('429', 'try again later')
        self.assertEqual([], self.host_cloud.sent)

    def test_record_that_is_not_there_at_once(self):
        for status in (403, 404, 503):
            self.host_cloud.fail('GET', '/os-instance-actions', status,
                                 times=4)
            self.call('inject_nmi')
            self.host_cloud.fail('GET', '/os-instance-actions', status,
                                 times=4)
            self.host_cloud.fail_action('trigger_crash_dump', 'No such thing')
            self.refused('could not inject an NMI', 'No such thing')

    def test_policy_that_shows_no_records(self):
        self.host_cloud.fail('GET', '/os-instance-actions', 403, times=999)
        self.call('inject_nmi')

    def test_compute_api_that_shows_no_events(self):
        self.host_cloud.microversion = '2.50'
        self.call('inject_nmi')
        self.host_cloud.fail_action('trigger_crash_dump', 'No such thing')
        self.refused('could not inject an NMI',
                     'its instance action says "Error"')

    def test_record_that_never_comes_or_ends_keeps_nobody_waiting(self):
        for answer in (404, 503, {
                'instanceAction': {'events': [{'finish_time': None}]}}):
            self.host_cloud.fail('GET', '/os-instance-actions', answer,
                                 times=999)
            begun = self.clock.now
            self.refused('the NMI is not known', 'server event list')
            self.assertLess(self.clock.now - begun, 20)
            self.host_cloud.stop_failing()
