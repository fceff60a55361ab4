# SPDX-License-Identifier: Apache-2.0
"""The command that creates images, from the command line on."""

import json
import logging
import os
import tempfile
from unittest import mock

from openstackclient import shell

from tests.unit.environments import test_images
from tests.unit import host_cloud_fixture


class CommandTestCase(test_images.ImagesTestCase):
    """The whole way from the command line."""

    def setUp(self):
        super().setUp()
        # The client shows errors by its logger, and the set-up of Ironic's
        # database for another test may have switched that off.
        for logger in logging.root.manager.loggerDict.values():
            logger.disabled = False

    def run_command(self, *words):
        environment = {
            'OS_AUTH_URL': host_cloud_fixture.AUTH_URL,
            'OS_USERNAME': 'operator', 'OS_PROJECT_NAME': 'machines',
            'OS_PASSWORD': host_cloud_fixture.SECRET,
            'OS_USER_DOMAIN_NAME': 'Default', 'HOME': '/nowhere',
            'OS_PROJECT_DOMAIN_NAME': 'Default',
            'PATH': os.environ['PATH']}
        out, err = tempfile.TemporaryFile('w+'), tempfile.TemporaryFile('w+')
        # The client adds handlers to the root logger, and leaves them there.
        with mock.patch.dict(os.environ, environment, clear=True), \
                mock.patch.object(logging.root, 'handlers', []), \
                mock.patch('sys.stdout', out), mock.patch('sys.stderr', err):
            code = shell.main(['quintupleo', 'image', 'create', *words])
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        return code, *texts

    def test_json(self):
        code, out, err = self.run_command('--iso', self.iso, '-f', 'json')
        self.assertEqual(0, code, err)
        self.assertEqual(
            [{'Name': 'quintupleo-rescue-bios', 'Boot Mode': 'bios',
              'Purpose': 'rescue', 'Outcome': 'made',
              'ID': self.by_name('quintupleo-rescue-bios')['id']}],
            json.loads(out)[:1])

    def test_options(self):
        code, out, err = self.run_command(
            '--iso', self.iso, '--boot-mode', 'uefi', '--prefix', 'lab',
            '--network-first-iso', self.other_iso)
        self.assertEqual(0, code, err)
        self.assertEqual({'lab-rescue-uefi', 'lab-empty-uefi',
                          'lab-network-first-uefi'},
                         {image['name']
                          for image in self.glance.images.values()})

    def test_replace(self):
        self.run_command('--iso', self.iso)
        code, out, err = self.run_command('--iso', self.other_iso,
                                          '--replace')
        self.assertEqual(0, code, err)
        self.assertIn('replaced', out)

    def test_error_is_one_sentence_and_no_success(self):
        code, _out, err = self.run_command('--iso', '/nowhere.iso')
        self.assertNotEqual(0, code)
        self.assertIn('/nowhere.iso cannot be read', err)
        self.assertNotIn('Traceback', err)

    def test_conductor_image_alone(self):
        code, out, err = self.run_command('--conductor-image', self.qcow2,
                                          '-f', 'json')
        self.assertEqual(0, code, err)
        self.assertEqual(
            [('quintupleo-conductor', 'bios', 'conductor')],
            [(each['Name'], each['Boot Mode'], each['Purpose'])
             for each in json.loads(out)])

    def test_empty_image_for_secure_boot_alone(self):
        code, _out, err = self.run_command('--secure-boot')
        self.assertEqual(0, code, err)
        image, = self.glance.images.values()
        self.assertEqual('quintupleo-empty-secure-boot', image['name'])

    def test_a_file_is_required(self):
        code, _out, err = self.run_command()
        self.assertNotEqual(0, code)
        self.assertIn('give --iso, --conductor-image or --secure-boot', err)
        self.assertEqual({}, self.glance.images)
