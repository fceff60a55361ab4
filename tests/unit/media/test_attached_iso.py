# SPDX-License-Identifier: Apache-2.0
"""ISOs that users attach, and what is left of nodes that are gone."""

from unittest import mock

from ironic.common import boot_devices
from ironic.common import context
from ironic.common import exception
from ironic.common import images
from ironic.common import states
from ironic.drivers.modules import image_utils
from ironic import objects

from quintupleo_power.media import virtual_media
from tests.unit.media import test_virtual_media

URL = 'http://web.example.test/installer.iso'


class UserMediaTestCase(test_virtual_media.VirtualMediaTestCase):

    def setUp(self):
        super().setUp()
        # Whatever else boots the machine.
        self.node.boot_interface = 'pxe'
        self.node.provision_state = states.MANAGEABLE
        self.node.save()

    def management(self, method, *args):
        with self.acquire() as task:
            found = getattr(task.driver.management, method)(task, *args)
        self.node.refresh()
        return found

    def attach(self, url=URL, device_type=boot_devices.CDROM):
        self.management('attach_virtual_media', device_type, url)

    def detach(self, *device_types):
        self.management('detach_virtual_media', list(device_types) or None)

    def boot_from_cdrom(self, persistent=False):
        self.management('set_boot_device', boot_devices.CDROM, persistent)


class AttachTestCase(UserMediaTestCase):

    def test_iso_is_uploaded_and_nothing_else_happens(self):
        self.boot_from_cdrom()
        for vm_state in ('active', 'rescued'):
            self.set_server(vm_state)
            self.attach()
            image, = self.media()
            self.assertEqual(len(URL), image['size'])
            self.assertEqual([], self.host_cloud.sent)
            self.assertEqual(
                {'boot_device': 'cdrom', 'persistent': False},
                self.management('get_boot_device'))

    def test_machine_with_another_boot_device_does_not_boot_it(self):
        self.attach()
        self.power(states.REBOOT)
        self.assertEqual('active', self.server.vm_state)
        self.assertEqual([], self.rescued_from())

    def test_machine_boots_it_as_often_as_wished(self):
        self.attach()
        self.boot_from_cdrom(persistent=True)
        self.power(states.REBOOT)
        self.power(states.REBOOT)
        image, = self.media()
        self.assertEqual({image['id']}, set(self.rescued_from()))
        self.assertEqual(['rescue', 'unrescue', 'rescue'],
                         self.host_cloud.sent)

    def test_machine_in_pxe_boots_it_next(self):
        self.set_server('rescued')
        self.attach()
        self.boot_from_cdrom()
        self.power(states.REBOOT)
        self.assertEqual(['unrescue', 'rescue'], self.host_cloud.sent)
        self.assertEqual({self.media()[0]['id']}, set(self.rescued_from()))

    def test_second_iso_takes_the_place_of_the_first(self):
        self.attach()
        self.attach(URL + '2')
        image, = self.media()
        self.assertEqual(len(URL) + 1, image['size'])

    def test_machine_has_no_other_drives(self):
        for device_type in (boot_devices.FLOPPY, boot_devices.DISK):
            for ask in (self.attach, self.detach):
                arguments = ((URL, device_type) if ask == self.attach
                             else (device_type,))
                error = self.assertRaises(exception.InvalidParameterValue,
                                          ask, *arguments)
                self.assert_says(error, self.node.uuid, f"'{device_type}'",
                                 'only cdrom')
        self.assertEqual([], self.media())

    def test_iso_of_ironics_own_stays_while_it_is_needed(self):
        self.node.boot_interface = 'quintupleo-virtual-media'
        self.node.provision_state = states.CLEANING
        self.node.save()
        self.prepare_ramdisk()
        for ask in (self.attach, self.detach):
            error = self.assertRaises(exception.InvalidParameterValue, ask)
            self.assert_says(error, self.node.uuid, "'cleaning'")
        image, = self.media()
        self.assertEqual(len(b'ISO number 1'), image['size'])
        self.node.provision_state = states.CLEANFAIL
        self.node.save()
        self.attach()
        image, = self.media()
        self.assertEqual(len(URL), image['size'])

    def test_server_that_cannot_be_rescued_is_told_of(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.server.image = None
        self.host_cloud.microversion = '2.80'
        error = self.assertRaises(exception.DriverOperationError,
                                  self.attach)
        self.assert_says(error, self.node.uuid, self.server.id)
        self.assertEqual([], self.media())

    def test_iso_that_cannot_be_fetched_is_told(self):
        failure = exception.ImageDownloadFailed(image_href=URL,
                                                reason='gone')
        images.fetch.side_effect = failure
        self.assertRaises(exception.ImageDownloadFailed, self.attach)
        self.assertEqual([], self.media())
        self.assertNotIn(virtual_media.KEY, self.node.driver_internal_info)

    def test_iso_that_glance_does_not_take_leaves_nothing(self):
        self.host_cloud.fail('PUT', '/file$', (
            415, 'Image content did not match disk_format'))
        error = self.assertRaises(exception.DriverOperationError,
                                  self.attach)
        self.assert_says(error, self.node.uuid, '415', 'disk_format')
        self.node.refresh()
        self.assertTrue(virtual_media.is_stale(self.node))
        virtual_media.eject(self.node)
        self.assertEqual([], self.media())

    def test_drive_tells_what_is_in_it(self):
        empty, = self.management('get_virtual_media')
        self.assertEqual((False, None), (empty['inserted'], empty['image']))
        self.attach()
        found, = self.management('get_virtual_media')
        self.assertEqual((True, self.media()[0]['id']),
                         (found['inserted'], found['image']))


class DetachTestCase(UserMediaTestCase):

    def test_image_and_wish_go(self):
        for device_types in ((), (boot_devices.CDROM,)):
            for persistent in (False, True):
                self.attach()
                self.boot_from_cdrom(persistent)
                self.detach(*device_types)
                self.assertEqual([], self.media())
                self.power(states.REBOOT)
                self.assertEqual('active', self.server.vm_state)

    def test_wish_for_another_device_stays(self):
        self.attach()
        self.management('set_boot_device', boot_devices.PXE, True)
        self.boot_from_cdrom()
        self.detach()
        self.assertEqual({'boot_device': 'pxe', 'persistent': True},
                         self.management('get_boot_device'))

    def test_empty_drive_is_no_mistake(self):
        self.detach()
        self.assertEqual([], self.host_cloud.requests)

    def test_image_that_stays_is_removed_later(self):
        self.attach()
        self.host_cloud.fail('DELETE', '/v2/images', 500)
        self.detach()
        self.assertEqual(1, len(self.media()))
        self.assertTrue(virtual_media.is_stale(self.node))
        virtual_media.eject(self.node)
        self.assertEqual([], self.media())

    def test_iso_of_a_user_stays_in_all_states(self):
        self.attach()
        for state in (states.ACTIVE, states.AVAILABLE, states.MANAGEABLE,
                      states.CLEANFAIL):
            self.node.provision_state = state
            self.assertFalse(virtual_media.is_stale(self.node), state)


class OwnerlessTestCase(UserMediaTestCase):

    def setUp(self):
        super().setUp()
        with self.acquire(shared=True) as task:
            self._management = task.driver.management

    def remove_ownerless(self):
        """What each conductor does now and then."""
        self._management._remove_ownerless(mock.Mock(),
                                           context.get_admin_context())

    def test_iso_goes_with_its_node(self):
        self.attach()
        self.remove_ownerless()
        self.assertEqual(1, len(self.media()))
        self.node.destroy()
        self.remove_ownerless()
        self.assertEqual([], self.media())

    def test_iso_of_the_last_node_goes_after_a_restart(self):
        self.attach()
        self.node.destroy()
        self.forget_clouds()
        self.remove_ownerless()
        self.assertEqual([], self.media())

    def test_conductor_without_a_cloud_of_its_own_looks_for_nothing(self):
        self.config(group='quintupleo', auth_type=None)
        self.forget_clouds()
        self.remove_ownerless()
        self.assertEqual([], self.host_cloud.requests)

    def test_iso_that_nobody_has_written_down_goes(self):
        self.attach()
        self.node.del_driver_internal_info(virtual_media.KEY)
        self.node.save()
        self.remove_ownerless()
        self.assertEqual([], self.media())

    def test_iso_of_another_ironic_stays(self):
        self.attach()
        self.node.del_driver_internal_info(virtual_media.KEY)
        self.node.save()
        with mock.patch.object(
                objects.Conductor, 'list', autospec=True,
                return_value=[mock.Mock(
                    hostname='first', created_at='2020-01-01 00:00:00')]):
            self.remove_ownerless()
        self.assertEqual(1, len(self.media()))

    def test_more_than_a_page_of_them(self):
        self.attach()
        tags = self.media()[0]['tags']
        self.host_cloud.images_per_page = 2
        for number in range(5):
            self.host_cloud.add_image(
                f'quintupleo-virtual-media-gone-{number}', tags=[
                    tags[0], f'quintupleo-virtual-media-gone-{number}',
                    tags[2]])
        self.remove_ownerless()
        self.assertEqual(
            [f'quintupleo-virtual-media-{self.node.uuid}'],
            [image['name'] for image in self.media()])

    def test_cloud_that_is_away_is_asked_again(self):
        self.attach()
        self.node.del_driver_internal_info(virtual_media.KEY)
        self.node.save()
        self.host_cloud.fail('GET', '/v2/images', 503, times=3)
        self.remove_ownerless()
        self.assertEqual(1, len(self.media()))
        self.remove_ownerless()
        self.assertEqual([], self.media())


class IronicsFilesTestCase(UserMediaTestCase):

    def test_ironic_serves_to_machines_of_this_type(self):
        # The default of all but the oldest release.
        self.config(group='redfish', use_swift=False)
        with self.acquire(shared=True) as task:
            image_utils.cleanup_remote_image(task, 'no-such.iso')
            self.assertEqual(URL, image_utils.prepare_remote_image(
                task, URL, file_name='any.iso', download_source='http'))

    def test_ironic_serves_to_no_other_that_it_does_not_know(self):
        self.assertRaises(exception.UnsupportedDriverExtension,
                          image_utils.ImageHandler, 'no-such-type')
