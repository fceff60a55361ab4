# SPDX-License-Identifier: Apache-2.0
"""Bad input and bad clouds, each told in one sentence."""

import logging
import re
import threading
import time
from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import manager
import requests

from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import server_cache
from tests.unit import base
from tests.unit import host_cloud_fixture

UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000'
WRONG_SECRET = 'battery-horse-staple-correct'

CLOUDS_YAML = f"""
clouds:
  machines:
    auth:
      auth_url: {host_cloud_fixture.AUTH_URL}
      username: operator
      password: {host_cloud_fixture.SECRET}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
  stale:
    auth:
      auth_url: {host_cloud_fixture.AUTH_URL}
      username: operator
      password: {WRONG_SECRET}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
  half:
    auth:
      username: operator
"""


class ValidateTestCase(base.DriverTestCase):
    """What the tests of validation have in common."""

    def invalid(self, *parts):
        """Validate; expect one sentence with these parts and no action."""
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, self.node.uuid, *parts)
        self.assertNotIn(WRONG_SECRET, str(error))
        self.assertEqual([], self.host_cloud.sent)
        return error

    def missing(self, *parts):
        """Validate; expect that a setting is missed."""
        error = self.assertRaises(exception.MissingParameterValue,
                                  self.validate)
        self.assert_says(error, self.node.uuid, *parts)

    def use_clouds_yaml(self):
        path = self.create_tempfiles([('clouds', CLOUDS_YAML)],
                                     ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))


class ServerTestCase(ValidateTestCase):

    def test_good_node_is_valid(self):
        self.validate()
        self.assertEqual([], self.host_cloud.sent)

    def test_server_by_unique_name_is_valid(self):
        self.host_cloud.add_server(name='machine-01')
        self.set_driver_info(quintupleo_server='machine-0')
        self.validate()
        self.assertTrue(any('/servers/detail' in request
                            for request in self.host_cloud.requests))

    def test_server_is_required(self):
        self.set_driver_info(quintupleo_server=None)
        self.missing('lacks driver_info/quintupleo_server', 'UUID')
        self.assertEqual([], self.host_cloud.requests)

    def test_unknown_server_by_uuid(self):
        self.set_driver_info(quintupleo_server=UNKNOWN_UUID)
        self.invalid(UNKNOWN_UUID, 'does not exist', 'project')

    def test_unknown_server_by_name(self):
        self.set_driver_info(quintupleo_server='ghost')
        self.invalid("No server is named 'ghost'")

    def test_name_is_no_pattern(self):
        self.set_driver_info(quintupleo_server='machine.*')
        self.invalid("No server is named 'machine.*'")

    def test_name_is_matched_in_its_case(self):
        self.set_driver_info(quintupleo_server='MACHINE-0')
        self.invalid("No server is named 'MACHINE-0'")

    def test_two_servers_of_one_name(self):
        other = self.host_cloud.add_server()
        self.set_driver_info(quintupleo_server='machine-0')
        self.invalid("2 servers are named 'machine-0'", self.server.id,
                     other.id, 'use the UUID')

    def test_server_in_a_state_that_no_action_leads_out_of(self):
        self.set_server('shelved_offloaded')
        self.invalid(self.server.id, 'shelve')

    def test_deleted_server(self):
        self.set_server('deleted')
        self.invalid(self.server.id, 'does not exist')


class TimeLimitTestCase(ValidateTestCase):
    """A host cloud that takes a request and does not answer it."""

    LIMIT, HANG = 0.5, 8.0

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            exceptions, 'VALIDATION_TIME', self.LIMIT))
        self.config(group='conductor', deploy_kernel='file:///k',
                    deploy_ramdisk='file:///r')
        self.config(group='quintupleo', provisioning_network='provision')
        self.host_cloud.add_network('provision')
        self.node.boot_interface = 'quintupleo-virtual-media'
        self.node.deploy_interface = 'quintupleo-rebuild'
        self.node.network_interface = 'quintupleo'
        self.node.driver_internal_info = {'is_whole_disk_image': True}
        self.node.instance_info = {
            'image_source': 'http://images.test/a', 'image_type': 'whole-disk',
            'image_checksum': 'a' * 64}
        self.node.save()
        # What is not answered, and until when.
        self.path, self.answers = None, threading.Event()
        self.addCleanup(self.let_go)
        serve = self.host_cloud._serve

        def wait_and_serve(request, context):
            if self.path and re.search(self.path, request.url):
                self.answers.wait(self.HANG)
            return serve(request, context)

        self.useFixture(fixtures.MockPatchObject(
            self.host_cloud, '_serve', wait_and_serve))

    def hang(self, path):
        """Answer no request whose address matches."""
        self.answers.clear()
        self.path = path

    def let_go(self):
        """Answer all requests, and wait for what has made them."""
        self.path = None
        self.answers.set()
        for thread in threading.enumerate():
            if thread.name.startswith('quintupleo-limited'):
                thread.join(self.HANG)

    def validate_all(self):
        """Validate as Ironic's API does; return its answer and the time."""
        conductor = manager.ConductorManager('test-host', 'test-topic')
        begun = time.monotonic()
        found = conductor.validate_driver_interfaces(self.context,
                                                     self.node.uuid)
        return found, time.monotonic() - begun

    def test_all_interfaces_have_it_together(self):
        for path in ('/auth/tokens', '/servers', '/v2.1'):
            with self.subTest(path):
                self.forget_clouds()
                self.hang(path)
                found, seconds = self.validate_all()
                self.let_go()
                self.assertLess(seconds, self.HANG)
                for name in ('deploy', 'power'):
                    self.assertFalse(found[name]['result'])
                    self.assertIn('has not answered within 0.5 s',
                                  found[name]['reason'])

    def test_list_that_many_wait_for(self):
        self.set_driver_info(quintupleo_server='machine-0')
        self.hang('/servers/detail')
        self.useFixture(fixtures.MockPatchObject(
            server_cache, 'SHARED_FROM', 1))
        found, seconds = self.validate_all()
        self.assertLess(seconds, self.HANG)
        self.assertIn('has not answered within', found['power']['reason'])

    def test_next_validation_has_its_own_time(self):
        self.hang('/servers')
        self.validate_all()
        self.let_go()
        self.useFixture(fixtures.MockPatchObject(
            exceptions, 'VALIDATION_TIME', 60.0))
        found, _ = self.validate_all()
        for name in ('boot', 'deploy', 'network', 'power'):
            self.assertEqual({'result': True}, found[name], name)

    def test_what_is_no_validation_waits_on(self):
        self.hang('/servers')
        threading.Timer(2 * self.LIMIT, self.answers.set).start()
        with self.acquire() as task:
            self.validate_all()
            self.assertEqual(states.POWER_ON,
                             task.driver.power.get_power_state(task))


class RescueImageTestCase(ValidateTestCase):

    def test_missing_image_names_the_option(self):
        self.host_cloud.images.pop(self.rescue_image['id'])
        self.invalid('[quintupleo]rescue_image_bios',
                     "No image is named 'quintupleo-rescue-bios'")

    def test_missing_image_of_a_uefi_server_names_the_other_option(self):
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = 'uefi'
        self.invalid('[quintupleo]rescue_image_uefi',
                     "No image is named 'quintupleo-rescue-uefi'")

    def test_missing_image_by_uuid(self):
        self.config(rescue_image_bios=UNKNOWN_UUID, group='quintupleo')
        self.invalid(UNKNOWN_UUID, 'does not exist')

    def test_missing_image_of_the_node_names_its_key(self):
        self.set_driver_info(quintupleo_rescue_image='my-own')
        self.invalid('driver_info/quintupleo_rescue_image',
                     "No image is named 'my-own'")

    def test_image_without_the_properties_says_which_to_set(self):
        del self.rescue_image['hw_rescue_bus']
        self.invalid(self.rescue_image['id'], 'lacks hw_rescue_bus,',
                     'hw_rescue_bus=sata')

    def test_image_with_neither_property_names_both(self):
        del self.rescue_image['hw_rescue_bus']
        del self.rescue_image['hw_rescue_device']
        self.invalid('lacks hw_rescue_device and hw_rescue_bus')

    def test_image_that_is_not_there_yet(self):
        self.rescue_image['status'] = 'queued'
        self.invalid("'queued' and not 'active'")

    def test_two_images_of_one_name(self):
        other = self.host_cloud.add_rescue_image()
        self.invalid('2 images are named', self.rescue_image['id'],
                     other['id'], 'use the UUID')

    def test_image_of_another_case_is_another_image(self):
        # Glance compares names as its database does, often without case.
        self.host_cloud.add_rescue_image('QUINTUPLEO-RESCUE-BIOS')
        self.validate()
        self.assertEqual([], self.host_cloud.sent)

    def test_image_that_is_good_is_not_read_each_time(self):
        self.validate()
        self.host_cloud.forget_requests()
        self.validate()
        self.assertEqual(1, len(self.host_cloud.requests))

    def test_image_that_the_server_was_made_from_is_checked_too(self):
        # It is read for what it says of the server, and kept, before.
        self.set_driver_info(quintupleo_rescue_image=self.server.image)
        self.invalid('lacks hw_rescue_device and hw_rescue_bus')

    def test_image_that_was_put_right_is_seen_at_once(self):
        bus = self.rescue_image.pop('hw_rescue_bus')
        self.invalid('hw_rescue_bus')
        self.rescue_image['hw_rescue_bus'] = bus
        self.validate()


class SectionTestCase(ValidateTestCase):
    """The host cloud named by the [quintupleo] section."""

    def test_wrong_password(self):
        self.config(password=WRONG_SECRET, group='quintupleo')
        self.invalid(host_cloud_fixture.AUTH_URL,
                     'does not accept the credentials',
                     'requires authentication')

    def test_corrected_credentials_are_used_without_a_restart(self):
        self.config(password=WRONG_SECRET, group='quintupleo')
        self.invalid('does not accept the credentials')
        self.config(password=host_cloud_fixture.SECRET, group='quintupleo')
        self.validate()

    def test_wrong_credentials_in_a_power_request(self):
        self.config(password=WRONG_SECRET, group='quintupleo')
        with self.acquire() as task:
            error = self.assertRaises(exception.DriverOperationError,
                                      task.driver.power.reboot, task)
        self.assert_says(error, 'does not accept the credentials')
        self.assertNotIn(WRONG_SECRET, str(error))

    def test_unreachable_cloud(self):
        self.config(auth_url='http://nowhere.example.test/v3',
                    group='quintupleo')
        self.invalid('http://nowhere.example.test/v3', 'cannot be reached')

    def test_cloud_that_does_not_answer_in_time(self):
        self.host_cloud.fail('GET', '/servers/',
                             requests.exceptions.ReadTimeout('too slow'),
                             times=99)
        self.invalid('cannot be reached', 'timed out')

    def test_unknown_credential_is_not_a_missing_identity_service(self):
        self.host_cloud.fail(
            'POST', '/auth/tokens$',
            (404, 'Could not find Application Credential: 42.'))
        self.invalid('does not accept the credentials',
                     'Could not find Application Credential: 42.')

    def test_identity_endpoint_that_is_none_is_not_a_missing_server(self):
        self.config(auth_url='http://keystone.example.test/identity/v3',
                    group='quintupleo')
        error = self.invalid('keystone.example.test/identity')
        self.assertNotIn('Server', str(error))

    def test_no_settings_at_all(self):
        self.config(auth_type=None, group='quintupleo')
        self.invalid('No host cloud is named', '[quintupleo]cloud',
                     '[quintupleo]auth_type')

    def test_unknown_auth_type(self):
        self.config(auth_type='handshake', group='quintupleo')
        self.invalid('[quintupleo]', 'handshake')

    def test_missing_auth_url(self):
        self.config(auth_url=None, group='quintupleo')
        self.invalid('[quintupleo]', 'auth_url')

    def test_missing_password(self):
        self.config(password=None, group='quintupleo')
        error = self.invalid('Host cloud http')
        # keystoneauth of before 2025 leaves it to Keystone.
        self.assertRegex(str(error), 'password is a required attribute|'
                         'does not accept the credentials')

    def test_region_that_does_not_exist(self):
        self.set_driver_info(quintupleo_region_name='Atlantis')
        self.invalid('Atlantis')

    def test_region_that_exists(self):
        self.set_driver_info(quintupleo_region_name='RegionOne')
        self.validate()

    def test_failing_nova(self):
        self.host_cloud.fail('GET', '/servers/', (500, 'Out of rabbits'),
                             times=99)
        self.invalid('500', 'Out of rabbits')

    def test_forbidden(self):
        self.host_cloud.fail('GET', '/servers/', (403, 'Not for you'))
        self.invalid('403', 'Not for you')


class SecrecyTestCase(ValidateTestCase):

    def test_logs_hold_neither_secrets_nor_tokens(self):
        logged = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        self.listen('quintupleo_power', 'keystoneauth')
        # A reboot takes longer than the second that Nova's times are exact to.
        self.host_cloud.reads_per_task = 4
        self.validate()
        with self.acquire() as task:
            task.driver.power.reboot(task)
        self.host_cloud.fail('POST', '/action$', 500, times=99)
        with self.acquire() as task:
            self.assertRaises(exception.DriverOperationError,
                              task.driver.power.reboot, task)
        self.config(password=WRONG_SECRET, group='quintupleo')
        self.forget_clouds()
        self.host_cloud.forget_requests()
        self.invalid('does not accept the credentials')
        # It has been listened to where it matters.
        self.assertIn('/action', logged.output)
        self.assertIn('The reboot of node', logged.output)
        for secret in (host_cloud_fixture.SECRET, host_cloud_fixture.TOKEN,
                       WRONG_SECRET):
            self.assertNotIn(secret, logged.output)


    def listen(self, *packages):
        """Undo that Ironic's database setup switches loggers off."""
        for name in list(logging.root.manager.loggerDict):
            if name.split('.')[0] in packages:
                logger = logging.getLogger(name)
                self.useFixture(
                    fixtures.MockPatchObject(logger, 'disabled', False))
                self.addCleanup(logger.setLevel, logger.level)
                logger.setLevel(logging.DEBUG)


class CloudsYamlTestCase(ValidateTestCase):

    def setUp(self):
        super().setUp()
        self.config(auth_type=None, auth_url=None, password=None,
                    group='quintupleo')
        self.use_clouds_yaml()

    def test_entry_named_by_the_node(self):
        self.set_driver_info(quintupleo_cloud='machines')
        self.validate()

    def test_entry_named_by_the_configuration(self):
        self.config(cloud='machines', group='quintupleo')
        self.validate()

    def test_node_wins_over_the_configuration(self):
        self.config(cloud='machines', group='quintupleo')
        self.set_driver_info(quintupleo_cloud='stale')
        self.invalid("Host cloud 'stale' does not accept the credentials")

    def test_unknown_entry(self):
        self.set_driver_info(quintupleo_cloud='nimbus')
        self.invalid('clouds.yaml', "no usable entry 'nimbus'")

    def test_incomplete_entry(self):
        self.set_driver_info(quintupleo_cloud='half')
        self.invalid("'half'", 'auth_url')

    def test_region_of_the_node(self):
        self.set_driver_info(quintupleo_cloud='machines',
                             quintupleo_region_name='Atlantis')
        self.invalid('Atlantis')

    def test_requests_time_out(self):
        self.set_driver_info(quintupleo_cloud='machines')
        compute, *_rest = connection.connect(
            connection.Credentials(cloud='machines'))
        adapter = compute._rest.session.adapters['https://']
        with mock.patch.object(adapter._adapter, 'send', autospec=True,
                               side_effect=ZeroDivisionError) as send:
            self.assertRaises(ZeroDivisionError, adapter.send,
                              requests.Request('GET', 'https://a').prepare())
        self.assertEqual((10, 60), send.call_args.kwargs['timeout'])

    def test_application_credential_at_the_clouds_own_identity(self):
        self.config(cloud='machines', group='quintupleo')
        self.set_driver_info(
            quintupleo_application_credential_id='abc',
            quintupleo_application_credential_secret=(
                host_cloud_fixture.SECRET))
        self.validate()
        self.assertIn('application_credential',
                      self.host_cloud.bodies[0])


class ApplicationCredentialTestCase(ValidateTestCase):

    def setUp(self):
        super().setUp()
        self.set_driver_info(
            quintupleo_application_credential_id='abc',
            quintupleo_application_credential_secret=(
                host_cloud_fixture.SECRET))

    def test_at_the_configured_identity_endpoint(self):
        self.validate()
        self.assertIn('application_credential', self.host_cloud.bodies[0])

    def test_wrong_secret(self):
        self.set_driver_info(
            quintupleo_application_credential_secret=WRONG_SECRET)
        self.invalid('does not accept the credentials')

    def test_nodes_of_different_credentials_share_nothing(self):
        self.validate()
        self.set_driver_info(
            quintupleo_application_credential_secret=WRONG_SECRET)
        self.invalid('does not accept the credentials')
        self.assertEqual(1, len(cloud.in_use()))

    def test_without_any_identity_endpoint(self):
        self.config(auth_type=None, auth_url=None, group='quintupleo')
        self.invalid('quintupleo_auth_url')

    def test_at_an_allowed_identity_endpoint(self):
        self.config(auth_type=None, auth_url=None,
                    allowed_auth_urls=['http://keystone.example.test'],
                    group='quintupleo')
        self.set_driver_info(
            quintupleo_auth_url=host_cloud_fixture.AUTH_URL)
        self.validate()

    def test_unknown_credential_is_not_a_missing_identity_service(self):
        self.host_cloud.fail(
            'POST', '/auth/tokens$',
            (404, 'Could not find Application Credential: 42.'))
        self.invalid('does not accept the credentials',
                     'Could not find Application Credential: 42.')

    def test_identity_endpoint_that_is_none_is_not_a_missing_server(self):
        wrong = 'http://keystone.example.test/identity/v3'
        self.config(allowed_auth_urls=[wrong], group='quintupleo')
        self.set_driver_info(quintupleo_auth_url=wrong)
        error = self.invalid(wrong, '404', 'auth_url')
        self.assertNotIn('Server', str(error))

    def test_at_an_identity_endpoint_that_is_not_allowed(self):
        self.set_driver_info(
            quintupleo_auth_url='http://evil.example.test/v3')
        self.invalid('quintupleo_auth_url', 'not permitted',
                     'allowed_auth_urls')
        self.assertEqual([], self.host_cloud.requests)


class SectionApplicationCredentialTestCase(ValidateTestCase):

    def configure_auth(self, auth_type, **options):
        super().configure_auth(
            'v3applicationcredential', application_credential_id='abc',
            application_credential_secret=host_cloud_fixture.SECRET)

    def test_application_credential_of_the_section(self):
        self.validate()
        self.assertIn('application_credential', self.host_cloud.bodies[0])

    def test_wrong_secret(self):
        self.config(application_credential_secret=WRONG_SECRET,
                    group='quintupleo')
        self.invalid('does not accept the credentials')
