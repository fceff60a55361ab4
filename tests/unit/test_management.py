# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

from ironic.common import boot_devices
from ironic.common import boot_modes
from ironic.common import exception
from ironic.conductor import utils as conductor_utils

from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit import nova_model


class ManagementTestCase(base.DriverTestCase):

    def call(self, method, *args, shared=False, **kwargs):
        with self.acquire(shared=shared) as task:
            return getattr(task.driver.management, method)(
                task, *args, **kwargs)


class InterfaceTestCase(ManagementTestCase):

    def test_boot_devices_are_pxe_and_disk(self):
        self.assertEqual(['pxe', 'disk'],
                         self.call('get_supported_boot_devices'))

    def test_boot_modes_are_bios_and_uefi(self):
        self.assertEqual([boot_modes.LEGACY_BIOS, boot_modes.UEFI],
                         self.call('get_supported_boot_modes'))

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

    def test_vendor_detection_asks_the_host_cloud_nothing(self):
        self.assertRaises(exception.UnsupportedDriverExtension,
                          self.call, 'detect_vendor')
        self.assertEqual([], self.host_cloud.requests)

    def test_power_sync_and_boot_mode_share_one_reading(self):
        with self.acquire(shared=True) as task:
            task.driver.power.get_power_state(task)
            self.host_cloud.forget_requests()
            task.driver.management.get_boot_mode(task)
        self.assertEqual([], self.host_cloud.requests)


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
            boot_devices.CDROM)
        self.assert_says(error, self.node.uuid, "'cdrom'", 'pxe and disk')
        self.assertEqual('pxe', self.call('get_boot_device')['boot_device'])

    def test_setting_it_needs_the_lock(self):
        self.assertRaises(exception.ExclusiveLockRequired, self.call,
                          'set_boot_device', boot_devices.PXE, shared=True)

    def test_without_a_wish_it_is_what_the_server_runs_from(self):
        for vm_state, device in (('active', 'disk'), ('stopped', 'disk'),
                                 ('rescued', 'pxe')):
            self.forget_clouds()
            self.set_server(vm_state)
            self.assertEqual({'boot_device': device, 'persistent': None},
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

    def test_another_mode_is_refused_with_what_helps(self):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.call, 'set_boot_mode', 'uefi')
        self.assert_says(error, self.node.uuid, 'bios and not uefi',
                         'hw_firmware_type', 'boot_mode:bios')

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

    def test_is_not_pretended(self):
        self.assertRaises(exception.UnsupportedDriverExtension, self.call,
                          'get_secure_boot_state')
        self.assertEqual(nova_model.RUNNING, self.server.power_state)
