# SPDX-License-Identifier: Apache-2.0
"""What the host cloud tells of servers that boot from volumes."""

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils

from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from tests.unit import base

NETWORK_FIRST = {'quintupleo_boot': 'network-first'}


class VolumesTestCase(base.DriverTestCase):

    def add_network_first(self, **properties):
        """Make a server with the ISO as a cdrom of its own and a disk."""
        image = self.host_cloud.add_image(
            'quintupleo-network-first', **NETWORK_FIRST, **properties)
        return self.host_cloud.add_server(
            name='network-first', image=image['id'],
            volumes=(self.host_cloud.add_volume(),))

    def add_volume_backed(self, **properties):
        """Make a server that boots from a volume, made from an image."""
        image = self.host_cloud.add_image('some-image', **properties)
        return self.host_cloud.add_server(
            name='volume-backed', image=None,
            volumes=(self.host_cloud.add_volume(image),
                     self.host_cloud.add_volume()))

    def read(self, server):
        """Read a server as each request of Ironic does."""
        return self.host().servers.get(server.id)

    @staticmethod
    def host():
        return cloud.get(connection.Credentials())

    def use(self, server, **kwargs):
        """Point the node at a server."""
        self.set_driver_info(quintupleo_server=server.id, **kwargs)


class NetworkFirstTestCase(VolumesTestCase):

    def test_iso_of_that_property_beside_a_volume(self):
        self.assertTrue(self.read(self.add_network_first()).network_first)

    def test_volume_made_from_such_an_iso(self):
        self.assertTrue(self.read(
            self.add_volume_backed(**NETWORK_FIRST)).network_first)

    def test_such_a_volume_need_not_be_the_first(self):
        server = self.add_volume_backed(**NETWORK_FIRST)
        server.volumes = server.volumes[::-1]
        self.assertTrue(self.read(server).network_first)

    def test_ordinary_server_costs_no_question(self):
        self.host_cloud.forget_requests()
        self.assertFalse(self.read(self.server).network_first)
        self.assertEqual([f'GET /v2.1/servers/{self.server.id}'],
                         [each for each in self.host_cloud.requests
                          if 'servers' in each or 'images' in each
                          or 'volumes' in each])

    def test_iso_without_a_disk(self):
        server = self.add_network_first()
        server.volumes = ()
        self.assertFalse(self.read(server).network_first)

    def test_server_with_a_data_volume(self):
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.assertFalse(self.read(self.server).network_first)

    def test_another_value_of_the_property(self):
        self.assertFalse(self.read(self.add_volume_backed(
            quintupleo_boot='disk-first')).network_first)

    def test_server_that_was_seen_before_costs_no_question(self):
        for server in (self.add_network_first(), self.add_volume_backed(),
                       self.add_volume_backed(**NETWORK_FIRST)):
            before = self.read(server).network_first
            self.clock.sleep(10 * capabilities.IMAGE_MAX_AGE)
            self.host_cloud.forget_requests()
            self.assertEqual(before, self.read(server).network_first)
            self.assertEqual([f'GET /v2.1/servers/{server.id}'],
                             self.host_cloud.requests)

    def test_nova_may_list_volumes_in_another_order(self):
        server = self.add_volume_backed()
        first, second = server.volumes
        for number, volume in enumerate(server.volumes):
            self.host_cloud.attach_volume(server, volume, f'/dev/vd{number}')
        self.read(server)
        self.host_cloud.forget_requests()
        server.volumes = second, first
        self.read(server)
        self.assertEqual([f'GET /v2.1/servers/{server.id}'],
                         self.host_cloud.requests)

    def test_property_that_an_iso_gets_later_is_seen(self):
        server = self.add_network_first()
        image = self.host_cloud.images[server.image]
        del image['quintupleo_boot']
        self.assertFalse(self.read(server).network_first)
        image.update(NETWORK_FIRST)
        self.clock.sleep(capabilities.IMAGE_MAX_AGE)
        self.assertTrue(self.read(server).network_first)

    def test_known_after_waiting_and_after_an_action(self):
        server = self.add_network_first()
        self.use(server)
        self.host_cloud.begin_task(server, 'powering-on', 3, 'active', 1)
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, 'pxe')
            task.driver.power.reboot(task)
        self.assertEqual(['hard reboot'], self.host_cloud.sent)

    def test_volume_that_is_gone(self):
        server = self.add_volume_backed(**NETWORK_FIRST)
        del self.host_cloud.volumes[server.volumes[1]['id']]
        server.volumes = server.volumes[::-1]
        self.assertTrue(self.read(server).network_first)

    def test_image_that_is_gone(self):
        server = self.add_network_first()
        del self.host_cloud.images[server.image]
        self.assertIs(False, self.read(server).network_first)

    def test_it_needs_no_rescue_image(self):
        self.use(self.add_network_first())
        self.host_cloud.images.pop(self.rescue_image['id'])
        self.validate()


class NotShownTestCase(VolumesTestCase):
    """What the host cloud does not show is not known, and is asked again."""

    def setUp(self):
        super().setUp()
        self.on_volumes = self.add_volume_backed(**NETWORK_FIRST)
        self.on_image = self.add_network_first()
        # A rescue would find what it takes.
        self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')

    def watch(self, server):
        """Ask for the boot mode of a server as power sync does."""
        host = self.host()
        return host.capabilities.boot_mode(
            host.servers.get_cached(server.id, 30.0))

    def reboot_to_pxe(self, server):
        self.use(server)
        self.host_cloud.forget_requests()
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, 'pxe')
            conductor_utils.node_power_action(task, states.REBOOT)

    def assert_boots(self, server):
        """Check that the server is booted, and not rescued."""
        self.reboot_to_pxe(server)
        self.assertEqual(['hard reboot'], self.host_cloud.sent)

    def assert_refused(self, server):
        """Check that no rescue is sent, and what is."""
        error = self.assertRaises(exception.DriverOperationError,
                                  self.reboot_to_pxe, server)
        self.assert_says(error, self.node.uuid, server.id,
                         'whether it is a network-first server',
                         'not known', 'try again later')
        self.assertEqual([], self.host_cloud.sent)
        exc = self.assertRaises(exception.InvalidParameterValue,
                                self.validate)
        self.assert_says(exc, 'cannot be booted from the network',
                         'not known')
        # What takes no rescue goes on.
        with self.acquire() as task:
            for state in (states.POWER_OFF, states.POWER_ON):
                task.driver.management.set_boot_device(task, 'disk')
                conductor_utils.node_power_action(task, state)
        self.assertEqual(['stop', 'start'], self.host_cloud.sent)

    def hide_volumes(self, times=10 ** 6):
        for status in (403, 404):
            self.host_cloud.stop_failing()
            self.host_cloud.fail('GET', '/volumes/', status, times=times)
            yield status

    def test_one_refusal_is_not_remembered(self):
        for _ in self.hide_volumes(times=2):
            self.forget_clouds()
            self.assertIsNone(self.watch(self.on_volumes))
            self.host_cloud.stop_failing()
            self.assertIs(True, self.read(self.on_volumes).network_first)
            self.assert_boots(self.on_volumes)

    def test_another_volume_does_not_speak_for_one_that_is_refused(self):
        first, second = (
            self.host_cloud.add_volume(self.host_cloud.add_image(name, **more))
            for name, more in (('network-first', NETWORK_FIRST),
                               ('data', {})))
        server = self.host_cloud.add_server(
            name='two', image=None, volumes=(first, second))
        self.host_cloud.fail('GET', f'/volumes/{first["id"]}', 403)
        self.assertIsNone(self.watch(server))
        self.assertIs(True, self.read(server).network_first)

    def test_answer_of_a_wrong_form_is_not_believed(self):
        first, second = self.on_volumes.volumes
        for answer in ({**first, 'bootable': ['true']},
                       {**first, 'id': [first['id']]}, second,
                       {'id': first['id']}):
            with self.subTest(answer=answer):
                self.forget_clouds()
                self.host_cloud.fail('GET', f'/volumes/{first["id"]}',
                                     {'volume': answer}, times=9)
                self.assertRaises(errors.ServerError, self.read,
                                  self.on_volumes)
                self.host_cloud.stop_failing()
                self.assert_boots(self.on_volumes)

    def test_image_that_was_not_shared_for_a_moment(self):
        self.host_cloud.microversion = '2.97'
        self.host_cloud.fail('GET', '/images/', 404)
        self.assertIsNone(self.watch(self.on_image))
        self.assert_boots(self.on_image)

    def test_rescue_is_not_sent(self):
        for _ in self.hide_volumes():
            self.forget_clouds()
            self.assert_refused(self.on_volumes)
            self.host_cloud.stop_failing()
            self.assert_boots(self.on_volumes)

    def test_power_sync_does_not_ask_for_an_image_that_is_gone(self):
        self.host_cloud.microversion = '2.97'
        del self.host_cloud.images[self.on_image.image]
        self.watch(self.on_image)
        self.host_cloud.forget_requests()
        for _ in range(3):
            self.clock.now += 60
            self.assertIsNone(self.watch(self.on_image))
        self.assertEqual([], [each for each in self.host_cloud.requests
                              if 'images' in each])

    def test_nothing_is_rebuilt_or_wiped(self):
        self.config(rebuild_replaces_volumes=True, group='quintupleo')
        for _ in self.hide_volumes():
            server = self.read(self.on_volumes)
            capabilities = self.host().capabilities
            self.assertIn('not known', capabilities.rebuild_obstacle(server))
            self.assertIn('not known', capabilities.wipe_obstacle(server))
            self.assertIsNone(capabilities.root_disk(server, None))

    def test_what_was_read_is_kept_for_a_day(self):
        self.read(self.on_volumes)
        for _ in self.hide_volumes():
            self.assertIs(True, self.read(self.on_volumes).network_first)
        self.clock.now += capabilities.VOLUME_MAX_AGE
        for _ in self.hide_volumes():
            self.assertIsNone(self.read(self.on_volumes).network_first)

    def test_as_many_as_there_is_room_for_are_kept(self):
        self.useFixture(fixtures.MockPatchObject(
            cache.Cache, 'MAX_SIZE', 2))
        kept = cache.Cache(10)
        for number in (1, 2, 1, 3):
            kept.put(number, number)
        self.assertEqual([1, None, 3], [kept.get(number)
                                        for number in (1, 2, 3)])
        self.clock.now += 10
        self.assertIsNone(kept.get(3))


class BootModeTestCase(VolumesTestCase):

    def test_of_the_image_that_the_volume_was_made_from(self):
        for properties, mode in (({}, 'bios'),
                                 ({'hw_firmware_type': 'uefi'}, 'uefi')):
            server = self.read(self.add_volume_backed(**properties))
            self.assertEqual(mode, self.host().capabilities.boot_mode(server))

    def test_of_the_volume_that_it_boots_from(self):
        server = self.add_volume_backed(hw_firmware_type='uefi')
        data = self.host_cloud.add_volume(self.host_cloud.add_image('data'))
        server.volumes += (data,)
        self.assertEqual('uefi', self.host().capabilities.boot_mode(
            self.read(server)))

    def test_of_the_boot_volume_beside_a_cd(self):
        server = self.add_volume_backed(hw_firmware_type='uefi',
                                        disk_format='raw')
        root, cd = server.volumes[0], self.host_cloud.add_volume(
            self.host_cloud.add_image('cd', disk_format='iso'))
        server.volumes = root, cd
        self.host_cloud.attach_volume(server, root, '/dev/vda')
        self.host_cloud.attach_volume(server, cd, '/dev/sda')
        self.assertEqual('uefi', self.host().capabilities.boot_mode(
            self.read(server)))

    def test_nothing_tells_of_blank_volumes(self):
        server = self.add_volume_backed()
        server.volumes = server.volumes[1:]
        self.assertIsNone(self.host().capabilities.boot_mode(self.read(server)))

    def test_decides_the_rescue_image(self):
        uefi = self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')
        self.use(self.add_volume_backed(hw_firmware_type='uefi'))
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, 'pxe')
            task.driver.power.reboot(task)
        self.assertTrue(any(uefi['id'] in body
                            for body in self.host_cloud.bodies))


class ObstacleTestCase(VolumesTestCase):

    def refused(self, *parts):
        exc = self.assertRaises(exception.InvalidParameterValue,
                                self.validate)
        self.assert_says(exc, *parts)

    def test_volume_backed_on_a_compute_api_that_cannot_rescue_it(self):
        self.host_cloud.microversion = '2.79'
        server = self.add_volume_backed()
        self.use(server)
        self.refused(server.id, 'boots from a volume', '2.79', '2.87',
                     'network-first')

    def test_volume_backed_on_one_that_can(self):
        self.host_cloud.microversion = '2.87'
        self.use(self.add_volume_backed())
        self.validate()

    def test_network_first_needs_no_such_compute_api(self):
        self.host_cloud.microversion = '2.79'
        self.use(self.add_volume_backed(**NETWORK_FIRST))
        self.validate()

    def test_tpm_by_the_flavor(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.refused(self.server.id, 'virtual TPM', 'network-first')

    def test_tpm_by_the_image(self):
        self.host_cloud.images[self.server.image]['hw_tpm_version'] = '2.0'
        self.refused(self.server.id, 'virtual TPM')

    def test_tpm_by_the_volumes_image(self):
        self.use(self.add_volume_backed(hw_tpm_version='2.0'))
        self.refused('virtual TPM')

    def test_network_first_server_may_have_a_tpm(self):
        server = self.add_network_first(hw_tpm_version='2.0')
        self.use(server)
        self.validate()

    def test_network_first_server_is_not_to_be_rescued(self):
        self.host_cloud.microversion = '2.79'
        for server in (self.add_network_first(hw_tpm_version='2.0'),
                       self.add_volume_backed(**NETWORK_FIRST)):
            self.assertIsNone(
                self.host().capabilities.rescue_obstacle(self.read(server)))

    def test_iso_without_the_property(self):
        server = self.add_network_first()
        del self.host_cloud.images[server.image]['quintupleo_boot']
        self.use(server)
        self.refused(server.image, 'quintupleo_boot=network-first')
