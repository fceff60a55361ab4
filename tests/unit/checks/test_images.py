# SPDX-License-Identifier: Apache-2.0
"""Checks of images that are missing or do not fit."""

from tests.unit.checks import base


class ImagesTestCase(base.WholeCloudTestCase):

    def remove(self, *purposes, mode='bios'):
        for purpose in purposes:
            del self.host.images[self.image(purpose, mode)['id']]

    def test_property_that_is_missing(self):
        image = self.image('rescue')
        del image['hw_rescue_device']
        self.check('rescue image bios', 'fail', 'lacks hw_rescue_device',
                   'openstack image set --property hw_rescue_device=cdrom')
        self.assertIn(image['id'],
                      self.rows['rescue image bios']['What To Do'])
        self.assert_row('rescue image uefi', 'pass')

    def test_image_that_was_never_uploaded(self):
        self.image('rescue')['status'] = 'queued'
        self.image('empty')['status'] = 'queued'
        self.check('rescue image bios', 'fail', "'queued'", '--replace')
        self.assert_row('empty image bios', 'fail', "'queued'", '--replace')

    def test_image_without_content(self):
        self.image('rescue')['size'] = 0
        self.check('rescue image bios', 'fail', 'is empty', '--replace')

    def test_one_boot_mode_may_be_enough(self):
        self.remove('rescue', 'empty', mode='uefi')
        self.check('rescue image uefi', 'warn',
                   'UEFI servers cannot boot from the network',
                   'openstack quintupleo image create')
        self.assert_row('empty image uefi', 'warn', 'wiped')
        self.assert_row('rescue image bios', 'pass')

    def test_no_images(self):
        for mode in ('bios', 'uefi'):
            self.remove('rescue', 'empty', mode=mode)
        self.check('rescue image bios', 'fail', 'No image is named',
                   'build-ipxe-image')
        self.assert_row('empty image uefi', 'fail')

    def test_two_images_of_one_name(self):
        self.host.add_rescue_image('quintupleo-rescue-bios')
        self.check('rescue image bios', 'fail', '2 images are named',
                   'delete all but one')

    def test_images_for_the_other_boot_mode(self):
        self.image('rescue')['hw_firmware_type'] = 'uefi'
        self.image('empty')['hw_firmware_type'] = 'uefi'
        self.check('rescue image bios', 'warn', 'is for uefi',
                   'rescue_image_bios')
        self.assert_row('empty image bios', 'fail', 'boot by uefi')

    def test_image_that_is_not_empty(self):
        self.image('empty')['os_hash_value'] = 'f' * 128
        self.check('empty image bios', 'warn', 'is not the empty image')

    def test_clean_shutdown(self):
        image = self.image('empty')
        del image['os_shutdown_timeout']
        self.check('empty image bios', 'warn', 'up to 60 s',
                   f'os_shutdown_timeout=0 {image["id"]}')
        image['os_shutdown_timeout'] = '300'
        self.check('empty image bios', 'fail', 'gives up after 300 s',
                   'os_shutdown_timeout=0')
