# SPDX-License-Identifier: Apache-2.0
"""The images of a project: uploaded, kept, replaced."""

import argparse
import os
import tempfile
import tracemalloc
import unittest

import openstack
import requests

from quintupleo_power.environments import errors
from quintupleo_power.environments import images
from quintupleo_power.host_cloud import images as host_cloud_images
from tests.unit import host_cloud_fixture

FORBIDDEN = (403, 'You are not authorized to complete this action.')


class ImagesTestCase(unittest.TestCase):
    """Images made through openstacksdk from a stand-in for Glance."""

    def setUp(self):
        self.glance = host_cloud_fixture.FakeHostCloud()
        self.glance.setUp()
        self.addCleanup(self.glance.cleanUp)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.iso = self.write_iso(os.path.join(folder.name, 'ipxe.iso'))
        self.other_iso = self.write_iso(
            os.path.join(folder.name, 'other.iso'), b'of another build')
        self.qcow2 = os.path.join(folder.name, 'conductor.qcow2')
        with open(self.qcow2, 'wb') as target:
            target.write(b'QFI\xfb' + bytes(3 * 1024 * 1024))
        self.no_iso = os.path.join(folder.name, 'disk.img')
        with open(self.no_iso, 'wb') as target:
            target.write(bytes(40000))

    @staticmethod
    def write_iso(path, content=b''):
        with open(path, 'wb') as target:
            target.write(bytes(32769) + b'CD001' + bytes(2048) + content)
        return path

    def connect(self):
        return openstack.connect(
            load_yaml_config=False, load_envvars=False,
            auth={'auth_url': host_cloud_fixture.AUTH_URL,
                  'username': 'operator', 'project_name': 'machines',
                  'password': host_cloud_fixture.SECRET,
                  'user_domain_name': 'Default',
                  'project_domain_name': 'Default'})

    def create(self, path=None, **kwargs):
        options = {'network_first_iso': None, 'boot_modes': None,
                   'prefix': 'quintupleo', 'replace': False,
                   'hypervisor_type': None, 'conductor_image': None,
                   'secure_boot': False,
                   'iso': path or self.iso, **kwargs}
        return list(images.create_all(self.connect(), argparse.Namespace(
            **options)))

    def outcomes(self, made):
        return {image.name: image.outcome for image in made}

    def error(self, *parts, **kwargs):
        with self.assertRaises(errors.EnvironmentsError) as caught:
            self.create(**kwargs)
        text = str(caught.exception)
        for part in parts:
            self.assertIn(part, text)
        self.assertNotIn('\n', text)
        self.assertNotIn('<', text)
        return text

    def by_name(self, name):
        found = [image for image in self.glance.images.values()
                 if image['name'] == name]
        self.assertEqual(1, len(found), name)
        return found[0]


class CreateTestCase(ImagesTestCase):

    def test_makes_four_images(self):
        self.assertEqual(
            {'quintupleo-rescue-bios': 'made',
             'quintupleo-rescue-uefi': 'made',
             'quintupleo-empty-bios': 'made',
             'quintupleo-empty-uefi': 'made'},
            self.outcomes(self.create()))
        self.assertEqual(4, len(self.glance.images))

    def test_empty_image_for_secure_boot_is_made_on_request(self):
        made = self.create(secure_boot=True)
        self.assertEqual(5, len(made))
        self.assertEqual(
            ('quintupleo-empty-secure-boot', 'uefi', 'empty-secure-boot'),
            next((image.name, image.boot_mode, image.purpose)
                 for image in made if 'secure' in image.name))
        image = self.by_name('quintupleo-empty-secure-boot')
        self.assertTrue(host_cloud_images.secure_boot(image, {}))
        uefi = self.by_name('quintupleo-empty-uefi')
        self.assertEqual({'os_secure_boot': 'required'}, {
            name: value for name, value in image.items()
            if name not in ('id', 'name', 'created_at')
            and uefi.get(name) != value})

    def test_network_first_images_are_made_on_request(self):
        made = self.create(network_first_iso=self.other_iso)
        self.assertEqual(6, len(made))
        for mode in ('bios', 'uefi'):
            image = self.by_name(f'quintupleo-network-first-{mode}')
            self.assertEqual(
                ('iso', 'network-first', '0'),
                (image['disk_format'], image['quintupleo_boot'],
                 image['os_shutdown_timeout']))
            self.assertEqual(mode, host_cloud_images.firmware(image))
            self.assertTrue(host_cloud_images.is_network_first(image))

    def test_images_of_a_hypervisor_type(self):
        for outcome in ('made', 'unchanged'):
            made = self.create(network_first_iso=self.other_iso,
                               hypervisor_type='lxc')
            self.assertEqual(
                ['quintupleo-empty-bios-lxc', 'quintupleo-empty-uefi-lxc',
                 'quintupleo-network-first-bios-lxc',
                 'quintupleo-network-first-uefi-lxc',
                 'quintupleo-rescue-bios', 'quintupleo-rescue-uefi'],
                sorted(image.name for image in made))
            self.assertEqual({outcome}, {image.outcome for image in made})
        self.assertEqual(
            'lxc', self.by_name('quintupleo-empty-bios-lxc')['img_hv_type'])
        self.assertNotIn('img_hv_type',
                         self.by_name('quintupleo-rescue-bios'))

    def test_replaced_network_first_image_is_kept(self):
        self.create(network_first_iso=self.iso)
        old = self.by_name('quintupleo-network-first-bios')['id']
        self.create(network_first_iso=self.other_iso, replace=True)
        new = self.by_name('quintupleo-network-first-bios')['id']
        self.assertNotEqual(old, new)
        self.assertEqual(f'quintupleo-network-first-bios-until-{new}',
                         self.glance.images[old]['name'])

    def test_conductor_image(self):
        made = self.create(conductor_image=self.qcow2, iso=None)
        self.assertEqual([('quintupleo-conductor', 'made')],
                         [(image.name, image.outcome) for image in made])
        image = self.by_name('quintupleo-conductor')
        self.assertEqual(
            ('qcow2', 'active', os.path.getsize(self.qcow2)),
            (image['disk_format'], image['status'], image['size']))
        self.assertNotIn('hw_firmware_type', image)
        self.assertEqual({'quintupleo-conductor': 'unchanged'}, self.outcomes(
            self.create(conductor_image=self.qcow2, iso=None)))
        with open(self.qcow2, 'ab') as target:
            target.write(b'x')
        self.error('other content', conductor_image=self.qcow2, iso=None)
        made = self.create(conductor_image=self.qcow2, prefix='lab',
                           hypervisor_type='qemu')
        self.assertEqual('lab-conductor-qemu', made[-1].name)
        self.assertEqual(5, len(made))

    def test_conductor_image_is_streamed(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        wanted = images.content(images.CONDUCTOR, 'bios', self.qcow2)
        images._sha512(wanted)
        with wanted.open() as stream:
            self.assertTrue(hasattr(stream, 'fileno'))
        self.assertLess(tracemalloc.get_traced_memory()[1], 2.5 * 1024 * 1024)

    def test_conductor_image_of_another_format(self):
        self.error('disk.img is not a qcow2 image: make one with '
                   'tools/build-conductor-image', conductor_image=self.no_iso)
        self.error('cannot be read', 'tools/build-conductor-image',
                   conductor_image='/nowhere.qcow2')
        self.assertEqual({}, self.glance.images)

    def test_network_first_iso_that_is_none(self):
        self.error('disk.img is not an ISO 9660 image',
                   network_first_iso=self.no_iso)

    def test_result_tells_what_each_is_for(self):
        for image in self.create(prefix='lab'):
            self.assertEqual(f'lab-{image.purpose}-{image.boot_mode}',
                             image.name)
            self.assertEqual(image.id, self.by_name(image.name)['id'])

    def test_rescue_images_have_what_stable_device_rescue_needs(self):
        self.create()
        bios = self.by_name('quintupleo-rescue-bios')
        uefi = self.by_name('quintupleo-rescue-uefi')
        for image in (bios, uefi):
            self.assertEqual(
                ('iso', 'bare', 'private', 'cdrom', 'sata', 'active'),
                (image['disk_format'], image['container_format'],
                 image['visibility'], image['hw_rescue_device'],
                 image['hw_rescue_bus'], image['status']))
            self.assertEqual(os.path.getsize(self.iso), image['size'])
        self.assertEqual(('uefi', 'q35'), (uefi['hw_firmware_type'],
                                           uefi['hw_machine_type']))
        self.assertNotIn('hw_firmware_type', bios)
        self.assertNotIn('hw_machine_type', bios)

    def test_empty_images_make_stop_a_power_cut(self):
        self.create()
        bios = self.by_name('quintupleo-empty-bios')
        uefi = self.by_name('quintupleo-empty-uefi')
        for image in (bios, uefi):
            self.assertEqual(('raw', '0', 1024 * 1024), (
                image['disk_format'], image['os_shutdown_timeout'],
                image['size']))
            self.assertNotIn('hw_rescue_device', image)
        self.assertEqual('uefi', uefi['hw_firmware_type'])
        self.assertNotIn('hw_firmware_type', bios)
        # The config drive, for kernels without AHCI.
        self.assertEqual(('scsi', 'virtio-scsi'), (uefi['hw_cdrom_bus'],
                                                   uefi['hw_scsi_model']))
        self.assertNotIn('hw_cdrom_bus', bios)

    def test_no_image_is_bound_to_an_architecture(self):
        self.create()
        for image in self.glance.images.values():
            self.assertNotIn('architecture', image)
            self.assertNotIn('hw_architecture', image)

    def test_one_boot_mode_only(self):
        self.create(boot_modes=['uefi'])
        self.assertEqual(
            {'quintupleo-rescue-uefi', 'quintupleo-empty-uefi'},
            {image['name'] for image in self.glance.images.values()})

    def test_second_time_changes_nothing(self):
        first = self.create()
        self.glance.forget_requests()
        second = self.create()
        self.assertEqual({'unchanged'}, set(self.outcomes(second).values()))
        self.assertEqual([image.id for image in first],
                         [image.id for image in second])
        self.assertFalse([request for request in self.glance.requests
                          if 'images' in request
                          and not request.startswith('GET')])

    def test_other_content_is_an_error(self):
        self.create()
        before = dict(self.glance.images)
        self.error("Image 'quintupleo-rescue-bios'", 'other content',
                   '--replace', path=self.other_iso)
        self.assertEqual(before, self.glance.images)

    def test_other_properties_are_an_error(self):
        self.create()
        self.by_name('quintupleo-empty-uefi')['os_shutdown_timeout'] = '60'
        self.error("Image 'quintupleo-empty-uefi'", 'properties')

    def test_other_content_is_replaced_when_asked_for(self):
        old = self.create()
        new = self.create(self.other_iso, replace=True)
        self.assertEqual(['replaced', 'replaced', 'unchanged', 'unchanged'],
                         [image.outcome for image in new])
        self.assertNotIn(old[0].id, self.glance.images)
        self.assertEqual(4, len(self.glance.images))

    def test_old_image_stays_until_the_new_one_is_complete(self):
        old = self.create(boot_modes=['bios'])
        self.glance.fail('PUT', '/file$', (413, 'Quota exceeded'))
        self.error('Quota exceeded', path=self.other_iso, replace=True)
        self.assertEqual({image.id for image in old},
                         set(self.glance.images))

    def test_image_that_a_killed_run_left_without_content_is_replaced(self):
        self.glance.add_image('quintupleo-rescue-bios', status='queued')
        made = self.create(boot_modes=['bios'])
        self.assertEqual('replaced', made[0].outcome)
        self.assertEqual('active',
                         self.by_name('quintupleo-rescue-bios')['status'])

    def test_images_of_other_projects_do_not_count(self):
        self.glance.add_rescue_image(owner='e' * 32, visibility='public')
        self.assertEqual('made', self.create()[0].outcome)

    def test_names_are_matched_in_their_case(self):
        self.glance.add_rescue_image('QUINTUPLEO-rescue-bios')
        self.assertEqual('made', self.create()[0].outcome)


class ErrorTestCase(ImagesTestCase):

    def test_two_images_of_one_name(self):
        ids = [self.glance.add_rescue_image()['id'] for _ in range(2)]
        self.error('2 images of this project', 'delete all but one', *ids)

    def test_missing_file(self):
        self.error('/nowhere.iso cannot be read', 'No such file',
                   'tools/build-ipxe-image', path='/nowhere.iso')
        self.assertEqual({}, self.glance.images)

    def test_file_that_is_no_iso(self):
        self.error('is not an ISO 9660 image', path=self.no_iso)
        self.assertEqual({}, self.glance.images)

    def test_forbidden(self):
        self.glance.fail('POST', '/images$', FORBIDDEN)
        self.error("Image 'quintupleo-rescue-bios' could not be made",
                   'not authorized')

    def test_format_that_the_cloud_refuses_leaves_no_image_behind(self):
        self.glance.fail('PUT', '/file$', (
            415, 'Image content does not match declared disk_format iso'))
        self.error("'quintupleo-rescue-bios'", 'does not match')
        self.assertEqual({}, self.glance.images)

    def test_cloud_that_drops_the_connection(self):
        self.glance.fail('PUT', '/file$',
                         requests.exceptions.ConnectionError('gone'))
        self.error("'quintupleo-rescue-bios' could not be made",
                   'Unable to establish connection')
        self.assertEqual({}, self.glance.images)
