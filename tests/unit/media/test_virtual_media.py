# SPDX-License-Identifier: Apache-2.0
"""Virtual media: what is uploaded, what is booted, and what is removed."""

import itertools
import os
import pathlib
import re
from unittest import mock

from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic import objects

from quintupleo_power import compat
from quintupleo_power.media import virtual_media
from tests.unit import base

KERNEL = 'file:///images/agent.kernel'
RAMDISK = 'file:///images/agent.ramdisk'


class VirtualMediaTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.config(group='conductor', deploy_kernel=KERNEL,
                    deploy_ramdisk=RAMDISK, rescue_kernel=KERNEL,
                    rescue_ramdisk=RAMDISK)
        self.node.boot_interface = 'quintupleo-virtual-media'
        self.node.provision_state = states.DEPLOYING
        self.node.save()
        objects.Conductor.register(self.context, 'first', [], '')
        self.made = []
        self.config(isolinux_bin=os.devnull, ldlinux_c32=os.devnull)
        self.replace('ironic.common.images.fetch', self.fetch)
        self.replace('ironic.common.utils.execute', self.execute)

    def replace(self, name, function):
        """Replace a function for the time of this test."""
        patcher = mock.patch(name, autospec=True, side_effect=function)
        patcher.start()
        self.addCleanup(patcher.stop)

    @staticmethod
    def fetch(_context, href, path, *args, **kwargs):
        """What Ironic fetches: a file that has its own address in it."""
        pathlib.Path(path).write_text(href)

    def execute(self, program, *args, **kwargs):
        """Run what Ironic runs to make an ISO; keep what is on it."""
        self.assertEqual('mkisofs', program)
        root = pathlib.Path(args[-1])
        content = {str(path.relative_to(root)): path.read_bytes().decode()
                   for path in root.rglob('*') if path.is_file()}
        options = dict(itertools.pairwise(args))
        menu = content.pop(next(
            name for name in content if name.endswith('.cfg')))
        self.made.append({
            'kernel': content.pop('vmlinuz'),
            'ramdisk': content.pop('initrd'),
            'parameters': re.search(
                '(?:append initrd=/initrd text|linux(?:efi)? /vmlinuz) (.*)'
                ' --$', menu, re.MULTILINE)[1].split(),
            'boot_mode': 'uefi' if '-e' in options else 'bios',
            'loader': content.pop('boot/grub/efiboot.img', None),
            'files': {name: text for name, text in content.items()
                      if not name.startswith('isolinux/')},
            'publisher': options['-publisher']})
        pathlib.Path(options['-o']).write_text(
            f'ISO number {len(self.made)}')
        return '', ''

    def call(self, method, *args):
        with self.acquire() as task:
            return getattr(task.driver.boot, method)(task, *args)

    def prepare_ramdisk(self):
        self.call('prepare_ramdisk', {'ipa-api-url': 'http://ironic'})
        self.node.refresh()

    def media(self):
        """Images of nodes in the host cloud."""
        return [image for image in self.host_cloud.images.values()
                if 'quintupleo-virtual-media' in image.get('tags', ())]

    def power(self, target):
        with self.acquire() as task:
            if target == states.REBOOT:
                task.driver.power.reboot(task)
            else:
                task.driver.power.set_power_state(task, target)
            # As Ironic does when a request is done.
            task.node.save()

    def rescued_from(self):
        """Images of the rescues that Nova was asked for."""
        return [body.split('"rescue_image_ref": "')[1][:36]
                for body in self.host_cloud.bodies
                if 'rescue_image_ref' in (body or '')]


class RamdiskTestCase(VirtualMediaTestCase):

    def test_iso_is_uploaded_as_what_a_rescue_takes_for_a_cdrom(self):
        self.prepare_ramdisk()
        image, = self.media()
        self.assertEqual(
            ('iso', 'bare', 'private', 'active', 'cdrom', 'sata'),
            tuple(image[key] for key in (
                'disk_format', 'container_format', 'visibility', 'status',
                'hw_rescue_device', 'hw_rescue_bus')))
        self.assertEqual(len(b'ISO number 1'), image['size'])
        self.assertNotIn('hw_firmware_type', image)

    def test_agent_gets_its_parameters_on_the_command_line(self):
        self.config(group='pxe', kernel_append_params='console=ttyS0')
        self.prepare_ramdisk()
        made, = self.made
        self.assertEqual((KERNEL, RAMDISK, 'bios'),
                         (made['kernel'], made['ramdisk'],
                          made['boot_mode']))
        token = self.node.driver_internal_info['agent_secret_token']
        for parameter in ('console=ttyS0', 'ipa-api-url=http://ironic',
                          'boot_method=vmedia', f'ipa-agent-token={token}',
                          f'ir_pub_id={made["publisher"]}'):
            self.assertIn(parameter, made['parameters'])

    def test_next_boot_is_a_rescue_from_it(self):
        self.prepare_ramdisk()
        self.power(states.REBOOT)
        self.assertEqual([self.media()[0]['id']], self.rescued_from())
        self.assertEqual('rescued', self.server.vm_state)

    def test_one_boot_is_all_that_is_wished(self):
        self.prepare_ramdisk()
        self.power(states.REBOOT)
        self.power(states.REBOOT)
        self.assertEqual('active', self.server.vm_state)

    def test_second_iso_takes_the_place_of_the_first(self):
        self.prepare_ramdisk()
        first, = self.media()
        self.prepare_ramdisk()
        second, = self.media()
        self.assertNotEqual(first['id'], second['id'])

    def test_image_of_another_node_stays(self):
        other = self.host_cloud.add_image(
            'quintupleo-virtual-media-other', tags=[
                'quintupleo-virtual-media', 'quintupleo-virtual-media-other'])
        self.prepare_ramdisk()
        self.call('clean_up_ramdisk')
        self.assertEqual([other], self.media())

    def test_clean_up_removes_it(self):
        self.prepare_ramdisk()
        self.call('clean_up_ramdisk')
        self.assertEqual([], self.media())
        self.node.refresh()
        self.assertNotIn(virtual_media.KEY, self.node.driver_internal_info)

    def test_clean_up_of_nothing_asks_the_host_cloud_nothing(self):
        self.call('clean_up_ramdisk')
        self.assertEqual([], self.host_cloud.requests)

    def have_uefi(self):
        self.server.image = self.host_cloud.add_image(
            'quintupleo-empty-uefi', disk_format='raw',
            hw_firmware_type='uefi')['id']

    def test_uefi_takes_the_boot_loader(self):
        self.config(esp_image=__file__)
        self.have_uefi()
        self.prepare_ramdisk()
        made, = self.made
        self.assertEqual('uefi', made['boot_mode'])
        self.assertEqual(pathlib.Path(__file__).read_text(), made['loader'])
        self.assertIn('ipa-api-url=http://ironic', made['parameters'])
        self.assertEqual('uefi', self.media()[0]['hw_firmware_type'])

    def test_uefi_without_a_boot_loader_is_told_by_validation(self):
        self.have_uefi()
        error = self.assertRaises(exception.MissingParameterValue,
                                  self.call, 'validate')
        self.assert_says(error, self.node.uuid, '[conductor]bootloader')

    def test_firmware_that_the_server_cannot_get_is_told(self):
        for capabilities, words in (
                ({'boot_mode': 'uefi'}, '[quintupleo]empty_image_uefi'),
                ({'secure_boot': 'true'},
                 '[quintupleo]empty_image_secure_boot'),
                ({'boot_mode': 'legacy'}, "'legacy'")):
            self.node.instance_info = {'capabilities': capabilities}
            self.node.save()
            error = self.assertRaises(exception.InvalidParameterValue,
                                      self.call, 'validate')
            self.assert_says(error, words)

    def test_firmware_that_the_server_can_get_takes_the_boot_loader(self):
        self.host_cloud.add_empty_image('quintupleo-empty-uefi',
                                        hw_firmware_type='uefi')
        self.node.properties = {'capabilities': 'boot_mode:uefi'}
        self.node.save()
        error = self.assertRaises(exception.MissingParameterValue,
                                  self.call, 'validate')
        self.assert_says(error, '[conductor]bootloader')
        self.config(esp_image=__file__)
        self.call('validate')

    def test_missing_ramdisk_is_told_by_validation(self):
        self.config(group='conductor', deploy_ramdisk=None)
        self.assertRaises(exception.MissingParameterValue,
                          self.call, 'validate')
        self.assertRaises(exception.MissingParameterValue,
                          self.call, 'validate_inspection')
        self.call('validate_rescue')

    def test_no_rescue_image_with_ipxe_is_needed(self):
        self.host_cloud.images.pop(self.rescue_image['id'])
        self.validate()

    def test_agent_is_told_of_another_way_to_the_api(self):
        self.config(group='deploy', external_callback_url='https://other/')
        self.prepare_ramdisk()
        self.assertIn('ipa-api-url=https://other', self.made[0]['parameters'])

    def test_agent_that_inspects_by_dhcp_gets_no_network_data(self):
        self.node.network_data = {'links': [{'id': 'eth0'}]}
        self.node.provision_state = states.INSPECTING
        self.node.save()
        with mock.patch.object(compat, 'inspects_by_dhcp', autospec=True,
                               return_value=True):
            self.prepare_ramdisk()
        self.assertEqual({}, self.made[0]['files'])

    def test_each_of_ironics_tasks_boots_the_agent(self):
        for state in (states.CLEANING, states.INSPECTING, states.RESCUING,
                      states.SERVICING):
            self.node.provision_state = state
            self.node.save()
            self.prepare_ramdisk()
            self.assertEqual(1, len(self.media()), state)
            self.assertFalse(virtual_media.is_stale(self.node), state)

    def test_certificate_of_the_api_and_network_data_are_on_it(self):
        self.config(group='agent', api_ca_file=__file__)
        self.node.network_data = {'links': [{'id': 'eth0'}]}
        self.node.save()
        self.prepare_ramdisk()
        self.assertEqual(
            {'etc/ironic-python-agent/ironic.crt',
             'etc/ironic-python-agent.d/ironic-tls.conf',
             'openstack/latest/network_data.json'},
            set(self.made[0]['files']))


class FaultTestCase(VirtualMediaTestCase):

    def test_upload_that_fails_is_an_error_and_leaves_a_trace(self):
        self.host_cloud.fail('PUT', '/file$', 500)
        error = self.assertRaises(exception.DriverOperationError,
                                  self.prepare_ramdisk)
        self.assert_says(error, self.node.uuid, '500')
        self.node.refresh()
        self.assertEqual({'purpose': 'ramdisk', 'image': None},
                         self.node.driver_internal_info[virtual_media.KEY])
        self.call('clean_up_ramdisk')
        self.assertEqual([], self.media())

    def test_upload_of_half_a_file_is_an_error(self):
        self.host_cloud.fail('GET', '/v2/images/[0-9a-f-]{36}$', {
            'id': 'x', 'status': 'active', 'size': 5})
        error = self.assertRaises(exception.DriverOperationError,
                                  self.prepare_ramdisk)
        self.assert_says(error, '5 bytes')

    def test_quota_that_is_used_up_is_told(self):
        self.host_cloud.fail('POST', '/v2/images', (
            413, 'Denying attempt to upload image'))
        error = self.assertRaises(exception.DriverOperationError,
                                  self.prepare_ramdisk)
        self.assert_says(error, self.node.uuid, '413')

    def test_image_that_cannot_be_removed_stops_nothing(self):
        self.prepare_ramdisk()
        self.host_cloud.fail('DELETE', '/v2/images', 409)
        self.call('clean_up_ramdisk')
        self.node.refresh()
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.assertTrue(virtual_media.is_stale(self.node))
        virtual_media.eject(self.node)
        self.assertEqual([], self.media())
        self.assertFalse(virtual_media.is_stale(self.node))

    def test_reboot_from_an_empty_drive_is_refused(self):
        with self.acquire() as task:
            task.driver.management.set_boot_device(
                task, boot_devices.CDROM, False)
        error = self.assertRaises(exception.DriverOperationError,
                                  self.power, states.REBOOT)
        self.assert_says(error, self.node.uuid, 'attach an ISO first')
        self.assertEqual('active', self.server.vm_state)

    def test_ramdisk_that_is_gone_is_not_booted(self):
        self.prepare_ramdisk()
        # A cleaning has failed before its first boot.
        self.call('clean_up_ramdisk')
        self.power(states.REBOOT)
        self.assertEqual('active', self.server.vm_state)

    def test_conductor_that_died_while_it_made_one_leaves_none(self):
        self.prepare_ramdisk()
        self.node.set_driver_internal_info(
            virtual_media.KEY, {'purpose': 'user', 'image': None})
        self.node.save()
        self.assertTrue(virtual_media.is_stale(self.node))
        virtual_media.eject(self.node)
        self.assertEqual([], self.media())

    def test_conductor_that_died_leaves_it_only_for_a_while(self):
        self.prepare_ramdisk()
        self.assertFalse(virtual_media.is_stale(self.node))
        for state in (states.DEPLOYFAIL, states.CLEANFAIL, states.AVAILABLE,
                      states.MANAGEABLE, states.ACTIVE, states.INSPECTFAIL):
            self.node.provision_state = state
            self.assertTrue(virtual_media.is_stale(self.node), state)

    def test_purpose_of_a_newer_release_is_left_alone(self):
        self.node.set_driver_internal_info(
            virtual_media.KEY, {'purpose': 'another', 'image': self.server.id})
        self.node.provision_state = states.AVAILABLE
        self.assertFalse(virtual_media.is_stale(self.node))


class InstanceTestCase(VirtualMediaTestCase):

    def boot_device(self):
        with self.acquire() as task:
            return task.driver.management.get_boot_device(task)

    def test_deployed_node_boots_from_its_disk(self):
        self.prepare_ramdisk()
        self.call('prepare_instance')
        self.assertEqual([], self.media())
        self.assertEqual({'boot_device': 'disk', 'persistent': True},
                         self.boot_device())

    def deploy_a_ramdisk(self, **instance_info):
        self.config(enabled_deploy_interfaces=['direct', 'ramdisk'])
        self.node.deploy_interface = 'ramdisk'
        self.node.instance_info = instance_info
        self.node.save()

    def test_ramdisk_deployment_has_to_say_what_runs(self):
        self.deploy_a_ramdisk()
        self.assertRaises(exception.MissingParameterValue,
                          self.call, 'validate')
        self.deploy_a_ramdisk(boot_iso='http://web/boot.iso')
        self.call('validate')

    def test_ramdisk_deployment_needs_no_agent_where_nothing_is_cleaned(self):
        self.config(group='conductor', deploy_ramdisk=None,
                    automated_clean=False)
        self.deploy_a_ramdisk(boot_iso='http://web/boot.iso')
        self.call('validate')

    def test_ramdisk_deployment_of_an_image_of_glance(self):
        self.deploy_a_ramdisk(image_source='an image')
        with mock.patch('ironic.common.images.get_image_properties',
                        autospec=True, return_value={
                            'kernel_id': 'k', 'ramdisk_id': 'r'}):
            self.call('prepare_instance')
        self.assertEqual(('k', 'r'), (self.made[0]['kernel'],
                                      self.made[0]['ramdisk']))

    def run_from_an_iso(self, **instance_info):
        """Deploy an ISO, and let the node be active."""
        self.deploy_a_ramdisk(kernel='k', ramdisk='r', **instance_info)
        self.call('prepare_instance')
        self.node.refresh()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        return self.media()[0]['id']

    def take_over(self):
        """Do what a conductor does with a node that it takes over."""
        with self.acquire() as task:
            task.driver.deploy.prepare(task)
            task.driver.deploy.take_over(task)
        self.node.refresh()
        image, = self.media()
        self.assertEqual(
            image['id'],
            self.node.driver_internal_info[virtual_media.KEY]['image'])
        self.assertEqual({'boot_device': 'cdrom', 'persistent': True},
                         self.boot_device())
        return image['id']

    def test_take_over_uses_the_iso_that_is_there(self):
        first = self.run_from_an_iso()
        self.assertEqual(first, self.take_over())
        self.assertEqual(1, len(self.made))

    def test_take_over_makes_an_iso_that_is_not_right_any_more(self):
        first = self.run_from_an_iso()
        self.host_cloud.images.pop(first)
        second = self.take_over()
        self.host_cloud.images[second]['status'] = 'deactivated'
        third = self.take_over()
        self.assertEqual(3, len({first, second, third}))
        # A release that kept more of it.
        self.node.set_driver_internal_info(virtual_media.KEY, {
            'purpose': 'instance', 'image': third, 'source': 'x'})
        self.node.save()
        self.assertEqual(third, self.take_over())

    def test_deployment_makes_its_own(self):
        first = self.run_from_an_iso()
        self.node.provision_state = states.DEPLOYING
        self.node.save()
        self.assertNotEqual(first, self.run_from_an_iso())

    def test_config_drive_of_a_ramdisk_is_refused(self):
        self.deploy_a_ramdisk(kernel='k', ramdisk='r', configdrive='H4sI')
        for method in ('validate', 'prepare_instance'):
            error = self.assertRaises(exception.InvalidParameterValue,
                                      self.call, method)
            self.assert_says(error, self.node.uuid, 'config drive',
                             'remove instance_info/configdrive')
        self.assertEqual([], self.made)
        # That of an instance which runs is left alone.
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.take_over()

    def test_config_drive_of_a_disk_is_the_agents(self):
        self.node.instance_info = {'configdrive': 'H4sI'}
        self.node.save()
        self.call('validate')
        self.call('prepare_instance')

    def test_ramdisk_deployment_runs_from_an_iso(self):
        self.deploy_a_ramdisk(boot_iso='http://web/boot.iso')
        self.call('prepare_instance')
        image, = self.media()
        self.assertEqual(len('http://web/boot.iso'), image['size'])
        self.assertEqual({'boot_device': 'cdrom', 'persistent': True},
                         self.boot_device())
        self.node.refresh()
        self.node.provision_state = states.ACTIVE
        self.assertFalse(virtual_media.is_stale(self.node))
        self.call('clean_up_instance')
        self.assertEqual([], self.media())
