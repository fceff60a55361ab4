# SPDX-License-Identifier: Apache-2.0
"""Deployment by Nova's rebuild, run by Ironic's own conductor code."""

import base64
import hashlib
import json
import logging
import os
import shutil
import tempfile
from unittest import mock

import fixtures
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import cleaning
from ironic.conductor import deployments
from ironic.tests.unit.objects import utils as objects_utils

from quintupleo_power import compat
from quintupleo_power import hardware
from quintupleo_power.interfaces import deploy
from quintupleo_power.node import pending_request
from quintupleo_power.rebuild import server_fields
from tests.unit.interfaces import test_power
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
INTERFACE = 'quintupleo-rebuild'
HREF = 'http://images.example.test/debian.raw'
GLANCE = 'c6d0a2f0-9f3b-4a43-bb9c-1f4b7d2f9a11'
CONTENT = b'a whole disk' * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KEY = 'ssh-ed25519 AAAA mine'
MAC = '20:57:f8:00:00:01'


class DeployTestCase(test_power.PowerTestCase):
    """A node that is about to be deployed, powered off."""

    def setUp(self):
        super().setUp()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.config(group='pxe', instance_master_path='', tftp_root=folder,
                    images_path=folder)
        self.config(group='dhcp', dhcp_provider='none')
        # One is kept for the life of a process.
        self.useFixture(fixtures.MockPatch(
            'ironic.common.dhcp_factory.DHCPFactory._dhcp_provider', None))
        self.path = os.path.join(folder, 'disk')
        self.content = CONTENT
        self.cached = []
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.deploy_utils.cache_instance_image',
            self.cache_instance_image))
        self.set_server('stopped', SHUTDOWN)
        self.host_cloud.images[self.server.image].update(
            os_shutdown_timeout='0', hw_disk_bus='virtio')
        self.node.deploy_interface = INTERFACE
        self.node.power_state = states.POWER_OFF
        self.node.driver_internal_info = {'is_whole_disk_image': True}
        self.set_instance()
        self.host_cloud.forget_requests()

    def cache_instance_image(self, context, node, force_raw, **expected):
        """What Ironic does with its own cache."""
        self.cached.append((node.instance_info['image_source'], force_raw,
                            expected))
        with open(self.path, 'wb') as target:
            target.write(self.content)
        return node.instance_info['image_source'], self.path, None

    def set_instance(self, **values):
        self.node.instance_info = {
            'image_source': HREF, 'image_os_hash_algo': 'sha256',
            'image_os_hash_value': SHA256, **values}
        self.node.save()

    def check(self):
        with self.acquire(shared=True) as task:
            task.driver.deploy.validate(task)

    def deploy(self, drive=None):
        """Let Ironic deploy the node; give the node afterwards."""
        self.node.refresh()
        self.node.provision_state = states.DEPLOYING
        self.node.target_provision_state = states.ACTIVE
        self.node.save()
        try:
            with self.acquire() as task:
                deployments.do_node_deploy(task, None, configdrive=drive)
        except exception.IronicException:
            # It is with the node, too.
            pass
        self.node.refresh()
        return self.node

    def assert_deployed(self, drive=None):
        node = self.deploy(drive)
        self.assertEqual(
            (states.ACTIVE, states.POWER_ON, None),
            (node.provision_state, node.power_state, node.last_error))
        self.assert_server_is('active', RUNNING)
        self.assertNotIn(pending_request.KEY, node.driver_internal_info)

    def assert_failed(self, *parts, drive=None):
        node = self.deploy(drive)
        self.assertEqual(states.DEPLOYFAIL, node.provision_state)
        self.assert_says(node.last_error, *parts)
        self.assertNotIn(pending_request.KEY, node.driver_internal_info)

    def rebuilds(self):
        """What rebuilds were asked for with."""
        return [json.loads(body)['rebuild']
                for body in self.host_cloud.bodies
                if body.startswith('{"rebuild"')]

    def uploaded(self):
        return [each for each in self.host_cloud.images.values()
                if 'quintupleo-instance' in each.get('tags', ())]


class InterfaceTestCase(DeployTestCase):

    def test_ironics_own_come_first(self):
        found = hardware.QuintupleoHardware().supported_deploy_interfaces
        first = found.index(deploy.QuintupleoRebuildDeploy)
        self.assertGreater(first, 0)
        self.assertEqual(list(compat.NO_DEPLOY), found[first + 1:])
        node = objects_utils.create_test_node(
            self.context, uuid='5a8f4c7e-1b53-4f5c-8a3e-0d1a53e1c5b0',
            driver='quintupleo', driver_info={})
        self.assertNotEqual(INTERFACE, node.deploy_interface)

    def test_name_and_properties(self):
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.deploy,
                                  deploy.QuintupleoRebuildDeploy)
            self.assertIn('quintupleo_server',
                          task.driver.deploy.get_properties())

    def test_one_step_of_the_usual_priority(self):
        with self.acquire(shared=True) as task:
            step, = task.driver.deploy.get_deploy_steps(task)
            self.assertEqual(('deploy', 100),
                             (step['step'], step['priority']))
            self.assertEqual([], task.driver.deploy.get_clean_steps(task))

    def test_needs_the_lock(self):
        with self.acquire(shared=True) as task:
            for method in ('deploy', 'prepare', 'tear_down'):
                self.assertRaises(
                    exception.ExclusiveLockRequired,
                    getattr(task.driver.deploy, method), task)

    def test_other_conductor_has_nothing_to_do_for_an_instance(self):
        self.node.provision_state = states.ACTIVE
        self.node.save()
        with self.acquire() as task:
            task.driver.deploy.prepare(task)
            task.driver.deploy.take_over(task)
        self.assertEqual([], self.host_cloud.requests)


class ValidateTestCase(DeployTestCase):

    def refuse(self, *parts, error=exception.InvalidParameterValue):
        found = self.assertRaises(error, self.check)
        self.assert_says(found, self.node.uuid, *parts)

    def test_fit_node(self):
        self.check()
        self.assert_sent()

    def test_sources(self):
        for href, more in ((GLANCE, {}), (f'glance://{GLANCE}', {}),
                           ('file:///srv/debian.raw', {}),
                           ('https://x.test/y', {'image_checksum': 'a' * 64})):
            self.node.instance_info = {'image_source': href, **more}
            self.node.save()
            with mock.patch('ironic.common.images.image_show', autospec=True,
                            return_value={'disk_format': 'qcow2'}):
                self.check()

    def test_no_image(self):
        self.set_instance(image_source=None)
        self.refuse('set instance_info/image_source')

    def test_sources_that_are_none(self):
        for href in ('nfs://x/y', 'oci://x/y', 'debian', '/srv/debian.raw'):
            self.set_instance(image_source=href)
            self.refuse(href, 'the UUID of an image in Glance or')

    def test_checksum_is_needed(self):
        for values in ({'image_os_hash_algo': None},
                       {'image_os_hash_value': None},
                       {'image_os_hash_value': None,
                        'image_os_hash_algo': None}):
            self.set_instance(**values)
            self.refuse('checksum', error=exception.MissingParameterValue)

    def test_image_of_a_partition(self):
        self.node.driver_internal_info = {'is_whole_disk_image': False}
        self.node.save()
        self.refuse(HREF, 'partition', 'deploy_interface direct')

    def test_image_that_ironic_cannot_see(self):
        self.node.driver_internal_info = {}
        self.node.save()
        self.refuse(HREF, 'cannot be read by Ironic')

    def test_node_that_boots_from_a_volume_of_its_own(self):
        with mock.patch('ironic.drivers.modules.storage.noop.NoopStorage.'
                        'should_write_image', autospec=True,
                        return_value=False):
            self.refuse('volume')

    def test_servers_that_nova_cannot_rebuild(self):
        image = self.host_cloud.images[self.server.image]
        volume = self.host_cloud.add_volume(image)
        for values, parts in (
                ({'extra_specs': {'hw:tpm_version': '2.0'}}, ('TPM',)),
                ({'image': None, 'volumes': (volume,)}, ('2.92', '2.93')),
                ({'image': self.host_cloud.add_image(
                    'first', quintupleo_boot='network-first')['id'],
                  'volumes': (volume,)}, ('beside the CD',))):
            self.host_cloud.microversion = '2.92'
            self.forget_clouds()
            server = self.host_cloud.add_server(name=str(parts), **values)
            self.set_driver_info(quintupleo_server=server.id)
            self.refuse(server.id, 'deploy_interface direct', *parts)

    def test_volume_that_nova_can_rebuild(self):
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.images[self.server.image]),)
        self.server.image = None
        self.check()

    def test_firmware_that_the_server_cannot_get(self):
        empty = self.host_cloud.images[self.server.image]
        empty['name'] = 'another'
        for firmware, capabilities, words in (
                ('bios', {'boot_mode': 'uefi'}, 'empty_image_uefi'),
                ('uefi', {'boot_mode': 'bios'}, 'empty_image_bios'),
                ('bios', {'secure_boot': 'true'}, 'empty_image_secure_boot'),
                ('uefi', {'secure_boot': 'true'}, 'empty_image_secure_boot')):
            with self.subTest(words):
                empty['hw_firmware_type'] = firmware
                self.forget_clouds()
                self.set_instance(capabilities=capabilities)
                self.refuse(words, 'quintupleo image create')
                # Before anything is done, should it come to that.
                self.assert_failed(words)
                self.assert_sent()

    def test_firmware_of_the_nodes_own_capabilities(self):
        self.node.properties = {'capabilities': 'boot_mode:uefi'}
        self.node.save()
        self.refuse('empty_image_uefi')
        self.host_cloud.images[self.server.image].update(
            hw_firmware_type='uefi', os_secure_boot='required')
        self.forget_clouds()
        self.set_instance(capabilities={'secure_boot': 'true'})
        self.check()

    def test_config_drive_that_is_there_already(self):
        self.set_instance(configdrive={'vendor_data': {'a': 1}})
        self.refuse('vendor_data')

    def test_host_cloud_that_is_away(self):
        self.host_cloud.fail('GET', '/servers/', 503, times=99)
        self.refuse('503')

    def test_cloud_without_a_rescue_image(self):
        del self.host_cloud.images[self.rescue_image['id']]
        self.validate()
        self.assert_deployed()
        self.node.deploy_interface = 'direct'
        self.node.save()
        self.assertRaises(exception.InvalidParameterValue, self.validate)

    def test_nothing_of_an_agent_is_asked_for(self):
        with mock.patch('ironic.drivers.modules.pxe.PXEBoot.validate',
                        autospec=True,
                        side_effect=exception.MissingParameterValue('x')):
            self.check()


class FirmwareTestCase(DeployTestCase):
    """An instance that asks for other firmware than its server has."""

    def setUp(self):
        super().setUp()
        self.host_cloud.images[self.server.image]['hw_disk_bus'] = 'ide'
        machine = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
                   'os_shutdown_timeout': '0'}
        self.host_cloud.add_empty_image('quintupleo-empty-uefi', **machine)
        self.host_cloud.add_empty_image('quintupleo-empty-secure-boot',
                                        os_secure_boot='required', **machine)
        self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')

    def machine(self):
        """What the properties of the server's image make of it."""
        return {name: value for name, value in
                self.host_cloud.images[self.server.image].items()
                if name.startswith(('hw_', 'os_s'))}

    def test_is_that_of_its_image_without_another_rebuild(self):
        for capabilities, machine, told in (
                ({'boot_mode': 'uefi'}, {
                    'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
                    'os_shutdown_timeout': '0'}, ('uefi', False)),
                ({'secure_boot': 'true'}, {
                    'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
                    'os_secure_boot': 'required',
                    'os_shutdown_timeout': '0'}, ('uefi', True)),
                ({'boot_mode': 'bios'}, {
                    'hw_disk_bus': 'ide', 'os_shutdown_timeout': '0'},
                 ('bios', None))):
            self.host_cloud.forget_requests()
            self.set_instance(capabilities=capabilities)
            self.check()
            self.assert_deployed()
            self.assertEqual(1, self.host_cloud.sent.count('rebuild'))
            self.assertEqual((machine, told), (
                self.machine(), (self.node.boot_mode, self.node.secure_boot)))

    def test_of_a_bios_server_with_secure_boot(self):
        self.set_instance(capabilities={'secure_boot': 'true'})
        self.assert_deployed()
        self.assert_sent('rebuild', 'start')
        self.assertEqual('required', self.machine()['os_secure_boot'])

    def test_machine_that_has_it_stays_what_it_was(self):
        self.set_instance(capabilities={'boot_mode': 'bios'})
        self.assert_deployed()
        self.assertEqual('ide', self.machine()['hw_disk_bus'])

    def test_another_deployment_of_it_needs_no_upload(self):
        for _ in range(2):
            self.set_instance(capabilities={'boot_mode': 'uefi'})
            self.assert_deployed()
        self.assertEqual(1, len(self.uploaded()))

    def test_image_that_is_gone_when_it_comes_to_that(self):
        self.set_instance(capabilities={'boot_mode': 'uefi'})
        self.check()
        self.config(empty_image_uefi='nowhere', group='quintupleo')
        self.assert_failed('[quintupleo]empty_image_uefi', "'nowhere'")
        self.assert_sent()


class DeploymentTestCase(DeployTestCase):

    def test_server_is_rebuilt_and_powered_on(self):
        self.assert_deployed()
        self.assert_sent('rebuild', 'start')
        image, = self.uploaded()
        self.assertEqual((image['id'], len(CONTENT)),
                         (self.server.image, image['size']))

    def test_machine_stays_what_it_was(self):
        self.assert_deployed()
        image, = self.uploaded()
        self.assertEqual(('0', 'virtio', 'raw'), (
            image['os_shutdown_timeout'], image['hw_disk_bus'],
            image['disk_format']))
        self.assertTrue(self.server.has_config_drive)

    def test_machine_of_which_nothing_is_told(self):
        del self.host_cloud.images[self.server.image]
        self.host_cloud.microversion = '2.93'
        self.node.set_driver_internal_info('is_whole_disk_image', True)
        self.node.properties = {'capabilities': 'boot_mode:uefi'}
        self.node.save()
        self.assert_deployed()
        image, = self.uploaded()
        self.assertEqual(('uefi', 'q35', '0'), tuple(image[name] for name in (
            'hw_firmware_type', 'hw_machine_type', 'os_shutdown_timeout')))

    def test_ironic_fetches_the_image_in_its_own_format_and_checks_it(self):
        self.set_instance(image_disk_format='raw')
        self.assert_deployed()
        self.assertEqual([(HREF, False, {
            'expected_format': 'raw', 'expected_checksum': SHA256,
            'expected_checksum_algo': 'sha256'})], self.cached)
        # Only a link that Ironic's cache keeps apart from its own.
        self.assertFalse(os.path.exists(os.path.join(
            os.path.dirname(self.path), self.node.uuid)))

    def test_second_node_needs_no_upload(self):
        self.assert_deployed()
        second = self.host_cloud.add_server(
            'stopped', name='machine-1', image=self.server.image)
        self.set_driver_info(quintupleo_server=second.id)
        self.server = second
        self.node.set_driver_internal_info('is_whole_disk_image', True)
        self.node.power_state = states.POWER_OFF
        self.node.save()
        self.assert_deployed()
        self.assertEqual((1, 1), (len(self.uploaded()), len(self.cached)))

    def test_next_boots_are_from_the_disk(self):
        self.wish(boot_devices.PXE, persistent=True)
        self.assert_deployed()
        self.assertEqual({'boot_device': 'disk', 'persistent': True},
                         self.next_device())

    def test_server_that_runs_is_powered_off_before(self):
        self.set_server('active', RUNNING)
        self.assert_deployed()
        self.assert_sent('stop', 'rebuild', 'start')

    def test_rescued_server(self):
        self.set_server('rescued', RUNNING)
        self.assert_deployed()
        self.assert_sent('unrescue', 'stop', 'rebuild', 'start')

    def test_networks_of_the_instance_are_there_before_the_rebuild(self):
        seen = []
        with mock.patch(
                'ironic.drivers.modules.network.noop.NoopNetwork.'
                'configure_tenant_networks', autospec=True,
                side_effect=lambda network, task: seen.extend(
                    [*self.host_cloud.sent, 'networks'])):
            self.assert_deployed()
        self.assertEqual(['networks'], seen)

    def test_image_of_glance(self):
        self.set_instance(image_source=GLANCE, image_os_hash_value=None,
                          image_os_hash_algo=None)
        with mock.patch('ironic.common.images.image_show', autospec=True,
                        return_value={'os_hash_algo': 'sha256',
                                      'os_hash_value': SHA256}):
            self.assert_deployed()
        self.assertEqual(f'sha256:{SHA256}',
                         self.uploaded()[0]['quintupleo_checksum'])

    def test_image_of_glance_without_content(self):
        self.set_instance(image_source=GLANCE)
        with mock.patch('ironic.common.images.image_show', autospec=True,
                        return_value={}):
            self.assert_failed(GLANCE, 'no checksum')
        self.assert_sent()

    def test_checksum_that_names_its_algorithm(self):
        self.node.instance_info = {'image_source': HREF,
                                   'image_checksum': SHA256.upper()}
        self.node.save()
        self.assert_deployed()
        self.assertEqual(f'sha256:{SHA256}',
                         self.uploaded()[0]['quintupleo_checksum'])

    def test_file_outside_of_what_ironic_permits_is_not_read(self):
        self.config(group='conductor', file_url_allowed_paths=['/nowhere'])
        self.node.instance_info = {'image_source': f'file://{__file__}'}
        self.node.save()
        self.assert_failed('not allowed')
        self.assertEqual([], self.cached)

    def test_what_the_cache_has_under_another_checksum_is_not_uploaded(self):
        self.content = b'something else'
        self.assert_failed('checksum')
        self.assertEqual(([], []), (self.uploaded(), self.host_cloud.sent))

    def test_image_of_a_format_that_no_server_is_made_from(self):
        self.content = bytes(32768) + b'\x01CD001\x01' + bytes(4096)
        self.set_instance(image_os_hash_value=hashlib.sha256(
            self.content).hexdigest())
        with mock.patch('ironic.common.images.get_source_format',
                        autospec=True, return_value='iso'):
            self.assert_failed('is iso', 'convert')
        self.assert_sent()


class FailuresTestCase(DeployTestCase):

    def test_failed_rebuild_is_told_with_novas_fault(self):
        self.host_cloud.fail_action('rebuild', 'Out of rabbits',
                                    'No space left on device', 'error', 0)
        self.assert_failed(self.server.id, 'could not rebuild',
                           'No space left on device')
        # The node can be deployed again.
        self.node.set_driver_internal_info('is_whole_disk_image', True)
        self.node.save()
        self.assert_deployed()

    def test_failed_rebuild_without_a_record_is_no_deployment(self):
        for answer in (403, 404):
            self.host_cloud.stop_failing()
            self.host_cloud.fail('GET', '/os-instance-actions', answer,
                                 times=10 ** 6)
            self.host_cloud.fail_action('rebuild', 'Out of rabbits')
            self.assert_failed(self.server.id, 'rebuild is not known')
            self.assertEqual('what the machine wrote', self.server.content)
            self.node.set_driver_internal_info('is_whole_disk_image', True)
            self.node.save()
        # Nova's time of the launch is proof enough.
        self.assert_deployed()

    def test_refused_rebuild(self):
        self.host_cloud.fail('POST', '/action$', (
            400, "Flavor's disk is too small for requested image."))
        self.assert_failed('too small')

    def test_image_that_was_removed_in_the_last_moment(self):
        real = self.host_cloud._rebuild_fault
        removed = []

        def remove(server, details):
            if not removed:
                removed.append(details['imageRef'])
                del self.host_cloud.images[details['imageRef']]
            return real(server, details)
        self.host_cloud._rebuild_fault = remove
        self.assert_deployed()
        self.assertEqual(2, len(self.cached))
        self.assertNotIn(self.server.image, removed)

    def test_glance_that_fails(self):
        self.host_cloud.fail('POST', '/images$', 503)
        self.assert_failed('503', 'may pass')
        self.assert_sent()

    def test_locked_server(self):
        self.server.locked = True
        self.host_cloud.fail('POST', '/action$',
                             (409, 'Instance is locked'), times=9)
        self.assert_failed('it is locked')

    def test_conductor_that_died_leaves_what_was_under_way(self):
        with mock.patch('quintupleo_power.host_cloud.actions.Actions.wait',
                        autospec=True, side_effect=KeyboardInterrupt):
            with mock.patch.object(self.node.__class__, autospec=True,
                                   attribute='del_driver_internal_info'):
                self.assertRaises(KeyboardInterrupt, self.deploy)
        self.node.refresh()
        self.assertEqual('deploy', self.node.driver_internal_info[
            pending_request.KEY]['power_state'])


class ConfigDriveTestCase(DeployTestCase):
    DRIVE = {'user_data': '#!/bin/sh\necho hello\n', 'meta_data': {
        'hostname': 'web', 'public_keys': {'a': KEY}, 'meta': {'a': 'b'},
        'admin_pass': 'hunter2'}}

    def test_nova_is_handed_all_of_it(self):
        self.server.metadata = {'quintupleo_environment': 'lab'}
        self.assert_deployed(self.DRIVE)
        self.assertEqual(
            ('web', KEY, {'quintupleo_environment': 'lab', 'a': 'b'},
             'hunter2'),
            (self.server.hostname, self.server.key, self.server.metadata,
             self.server.admin_pass))
        self.assertEqual(b'#!/bin/sh\necho hello\n',
                         base64.b64decode(self.server.user_data))
        # Only for the moment.
        self.assertEqual({}, self.host_cloud.keypairs)

    def test_secrets_of_it_are_in_no_log_and_in_no_fault(self):
        # Who configures logging disables those that were there.
        self.useFixture(fixtures.MockPatchObject(
            logging.getLogger('keystoneauth.session'), 'disabled', False))
        for fault in (None, 'No space left on device'):
            logger = self.useFixture(fixtures.FakeLogger(
                'keystoneauth.session', level=logging.DEBUG))
            if fault:
                self.host_cloud.fail_action('rebuild', 'x', fault, 'error', 0)
            self.node.set_driver_internal_info('is_whole_disk_image', True)
            self.node.save()
            self.deploy({'user_data': 'password="hunter2"', 'meta_data': {
                'admin_pass': 'hunter"gatherer'}})
            secret = base64.b64encode(b'password="hunter2"').decode()
            self.assertIn('"user_data": "***"', logger.output)
            for text in (logger.output, str(self.node.last_error)):
                for part in (secret, 'hunter', 'gatherer'):
                    self.assertNotIn(part, text)

    def test_nothing_of_one_instance_is_met_by_the_next(self):
        self.server.metadata = {'quintupleo_environment': 'lab'}
        self.assert_deployed(self.DRIVE)
        self.node.set_driver_internal_info('is_whole_disk_image', True)
        self.node.name = 'node-7'
        self.set_instance()
        self.assert_deployed()
        self.assertEqual(
            (None, None, 'node-7', {'quintupleo_environment': 'lab'}),
            (self.server.user_data, self.server.key, self.server.hostname,
             self.server.metadata))

    def test_wiped_disk_takes_it_along(self):
        self.assert_deployed(self.DRIVE)
        with self.acquire() as task:
            task.driver.management.wipe_disk(task)
        self.assertEqual(
            (None, None, {}, ''),
            (self.server.user_data, self.server.key, self.server.metadata,
             self.server.content))
        self.node.refresh()
        self.assertNotIn(server_fields.KEY, self.node.driver_internal_info)

    def test_wipe_of_a_server_that_had_no_instance_names_the_image_only(self):
        with self.acquire() as task:
            task.driver.management.wipe_disk(task)
        self.assertEqual([{'imageRef': self.server.image}], self.rebuilds())

    def test_old_compute_api_gets_what_it_knows(self):
        for version, names in (
                ('2.53', {'imageRef'}),
                ('2.56', {'imageRef', 'key_name'}),
                ('2.89', {'imageRef', 'key_name', 'user_data'}),
                ('2.90', {'imageRef', 'key_name', 'user_data', 'hostname'})):
            self.host_cloud.microversion = version
            self.forget_clouds()
            self.host_cloud.bodies.clear()
            self.node.set_driver_internal_info('is_whole_disk_image', True)
            self.node.save()
            self.assert_deployed()
            self.assertEqual(names, set(self.rebuilds()[-1]), version)

    def test_what_an_old_compute_api_does_not_take_is_refused(self):
        for version, drive, part in (
                ('2.89', {'meta_data': {'hostname': 'web'}}, '2.90'),
                ('2.56', {'user_data': 'x'}, '2.57'),
                ('2.53', {'meta_data': {'public_keys': [KEY]}}, '2.54')):
            self.host_cloud.microversion = version
            self.forget_clouds()
            self.assert_failed(version, part, drive=drive)
        self.assert_sent()

    def test_limits_of_nova(self):
        self.assert_failed('49150 bytes', '49149',
                           drive={'user_data': 'x' * 49150})
        self.assert_failed("'a b'", drive={'meta_data': {'hostname': 'a b'}})
        self.server.metadata = {'owner': 'me'}
        self.assert_failed('owner', drive={'meta_data': {
            'meta': {'owner': 'x'}}})
        self.assert_sent()

    def test_longest_user_data(self):
        self.assert_deployed({'user_data': 'x' * 49149})

    def test_name_that_is_no_host_name_is_passed_over(self):
        self.host_cloud.microversion = '2.93'
        self.assert_deployed({'meta_data': {'name': 'rack 7'}})
        self.assertEqual(f'host-{self.server.id}', self.server.hostname)

    def test_full_names_from_where_nova_takes_them(self):
        self.assert_deployed({'meta_data': {'hostname': 'web.lab.test'}})
        self.assertEqual('web.lab.test', self.server.hostname)

    def test_key_that_nova_does_not_take(self):
        self.assert_failed(
            'Keypair data is invalid', '(see meta_data/public_keys)',
            drive={'meta_data': {'public_keys': ['rubbish']}})
        self.assert_sent()

    def test_key_that_a_dead_conductor_has_left(self):
        self.host_cloud.keypairs[f'quintupleo-{self.server.id}'] = 'ssh-old'
        self.assert_deployed({'meta_data': {'public_keys': [KEY]}})
        self.assertEqual((KEY, {}),
                         (self.server.key, self.host_cloud.keypairs))

    def test_key_that_cannot_be_removed_fails_nothing(self):
        self.host_cloud.fail('DELETE', '/os-keypairs/', 503, skip=1)
        self.assert_deployed({'meta_data': {'public_keys': [KEY]}})

    def test_network_data_that_nova_has_as_well(self):
        network = self.host_cloud.add_network()
        self.host_cloud.add_port(self.server, MAC, network, '192.0.2.7')
        self.assert_deployed(self.network_data('192.0.2.7'))

    @staticmethod
    def network_data(address, mac=MAC):
        return {'network_data': {
            'links': [{'id': 'l', 'type': 'phy', 'mtu': 1500,
                       'ethernet_mac_address': mac.upper()}],
            'networks': [{'id': 'n', 'link': 'l', 'type': 'ipv4',
                          'ip_address': address, 'netmask': '255.0.0.0'}],
            'services': []}}

    def test_network_data_in_other_words(self):
        network = self.host_cloud.add_network()
        self.host_cloud.add_port(self.server, MAC, network, '2001:db8::5')
        for address in ('2001:DB8:0::5', '2001:db8::5/64'):
            self.assert_deployed(self.network_data(
                address, MAC.replace(':', '-')))

    def test_network_data_of_a_vlan_is_refused(self):
        network = self.host_cloud.add_network()
        self.host_cloud.add_port(self.server, MAC, network, '192.0.2.7')
        drive = self.network_data('192.0.2.7')
        drive['network_data']['links'].append({
            'id': 'vlan101', 'type': 'vlan', 'vlan_link': 'l', 'vlan_id': 101,
            'vlan_mac_address': MAC})
        self.assert_failed("link 'vlan101' (no card)",
                           'let user_data make it', drive=drive)
        self.assert_sent()

    def test_ports_in_a_form_that_nova_does_not_have(self):
        self.host_cloud.fail('GET', '/os-interface$', {
            'interfaceAttachments': [{
                'mac_addr': MAC, 'net_id': 'n', 'port_id': 'p',
                'fixed_ips': ['192.0.2.7']}]}, times=9)
        self.assert_failed('in a form', 'Nova',
                           drive=self.network_data('192.0.2.7'))

    def test_network_data_that_nova_has_not_is_refused(self):
        network = self.host_cloud.add_network()
        self.host_cloud.add_port(self.server, MAC, network, '192.0.2.7')
        self.assert_failed('192.0.2.8', MAC,
                           drive=self.network_data('192.0.2.8'))
        self.assert_failed('20:57:f8:00:00:09', drive=self.network_data(
            '192.0.2.7', '20:57:f8:00:00:09'))
        self.assert_failed('network_data', drive={
            'network_data': {'links': ['eth0'], 'networks': [{
                'id': 'n'}]}})
        self.assert_sent()


class TearDownTestCase(DeployTestCase):

    def test_node_is_powered_off_and_its_disk_left_to_cleaning(self):
        self.assert_deployed()
        self.host_cloud.forget_requests()
        with self.acquire() as task, mock.patch(
                'ironic.drivers.modules.network.noop.NoopNetwork.'
                'unconfigure_tenant_networks',
                autospec=True) as unconfigure:
            self.assertEqual(states.DELETED,
                             task.driver.deploy.tear_down(task))
            unconfigure.assert_called_once_with(task.driver.network, task)
        self.assert_sent('stop')

    def test_clean_up_may_be_repeated(self):
        with self.acquire() as task:
            task.driver.deploy.clean_up(task)
            task.driver.deploy.clean_up(task)
        self.assert_sent()


class CleaningTestCase(DeployTestCase):

    def clean(self):
        self.node.refresh()
        self.node.provision_state = states.CLEANING
        self.node.target_provision_state = states.AVAILABLE
        self.node.save()
        with self.acquire() as task:
            cleaning.do_node_clean(task)
        self.node.refresh()
        self.assertEqual((states.AVAILABLE, states.POWER_OFF, None), (
            self.node.provision_state, self.node.power_state,
            self.node.last_error))

    def test_automated_cleaning_wipes_without_an_agent(self):
        self.assert_deployed()
        self.host_cloud.forget_requests()
        self.clean()
        self.assert_sent('rebuild', 'stop')
        self.assertEqual('', self.server.content)

    def test_operators_decide_otherwise(self):
        self.config(group='conductor', clean_step_priority_override=[
            {'management.wipe_disk': '0'}])
        self.clean()
        self.assert_sent()

    def test_other_deploy_interfaces_leave_the_step_to_operators(self):
        self.node.deploy_interface = 'direct'
        self.node.save()
        with self.acquire(shared=True) as task:
            step = next(each for each
                        in task.driver.management.get_clean_steps(task)
                        if each['step'] == 'wipe_disk')
        self.assertEqual(0, step['priority'])
