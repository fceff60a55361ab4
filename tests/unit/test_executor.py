# SPDX-License-Identifier: Apache-2.0
"""Faults of the host cloud, each at the place where it once did harm.

Which faults a real Nova's clients meet at which step is tried out by
tests/functional/test_faults.py; what that found is kept here by name.
"""

import dataclasses
import datetime
from email import utils as email_utils
import logging
from unittest import mock

import fixtures
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
import requests

from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import service
from tests.unit.interfaces import test_power
from tests.unit import nova_model

HTML = '<html><body>Back soon</body></html>'
LOST = (500, 502, 504, requests.exceptions.ReadTimeout('too slow'),
        requests.exceptions.ConnectionError(
            'Connection aborted.', ConnectionResetError(104, 'Reset')))
GONE = requests.exceptions.ConnectionError('gone')


class FaultTestCase(test_power.PowerTestCase):
    """A server that has run for a while."""

    def setUp(self):
        super().setUp()
        self.get_power()
        self.clock.now += 60
        self.host_cloud.forget_requests()
        self.read = f'/servers/{self.server.id}$'

    def lose(self, answer=504, carried_out=True, times=1):
        """Let the next action be done, and its answer be lost."""
        self.host_cloud.fail('POST', '/action$', answer, times=times,
                             carried_out=carried_out)

    def count(self, path, method='GET'):
        return sum(request.startswith(method) and path in request
                   for request in self.host_cloud.requests)

    def host(self):
        return cloud.get(connection.Credentials())


class LostRebootTestCase(FaultTestCase):

    def soft_reboot(self):
        self.set_power(states.SOFT_REBOOT)

    def test_reboot_whose_answer_was_lost_is_not_sent_twice(self):
        for call, word in ((self.reboot, 'hard reboot'),
                           (self.soft_reboot, 'soft reboot')):
            for answer in LOST:
                self.clock.now += 60
                self.host_cloud.forget_requests()
                self.lose(answer)
                call()
                self.assert_sent(word)

    def test_failure_of_a_reboot_whose_answer_was_lost_is_told(self):
        self.host_cloud.fail_action('hard reboot', 'Out of rabbits')
        self.lose()
        self.assert_says(self.refused(self.reboot), 'Out of rabbits')
        self.assert_sent('hard reboot')

    def test_reboot_that_never_arrived_is_sent(self):
        # Each takes longer than the second that Nova's times are exact to.
        self.host_cloud.reads_per_task = 4
        # One of an hour ago is no proof.
        self.reboot()
        for answer in LOST:
            self.clock.now += 3600
            self.host_cloud.forget_requests()
            self.lose(answer, carried_out=False)
            self.reboot()
            self.assert_sent('hard reboot')
            self.assertEqual(2, self.count('/action', 'POST'))

    def test_maintenance_page_is_no_reboot(self):
        self.lose(HTML, carried_out=False)
        self.reboot()
        self.assert_sent('hard reboot')

    def test_reboot_that_was_too_much_is_sent_again_without_a_look(self):
        self.lose(429, carried_out=False)
        self.reboot()
        self.assert_sent('hard reboot')
        self.assertEqual(1, self.count('/os-instance-actions'))

    def test_reboot_that_cannot_be_looked_up_is_not_sent_again(self):
        for status in (403, 404, 503):
            self.clock.now += 60
            self.host_cloud.forget_requests()
            self.host_cloud.fail('GET', '/os-instance-actions', status,
                                 times=10 ** 6)
            self.lose()
            self.assert_says(self.refused(self.reboot), self.server.id,
                             'got the hard reboot is not known',
                             'openstack server event list')
            self.assert_sent('hard reboot')
            self.host_cloud.stop_failing()

    def test_reboot_of_the_second_of_the_last_change_is_not_known(self):
        self.server.updated = self.host_cloud._now()
        self.host().servers.get(self.server.id)
        self.lose()
        self.assert_says(self.refused(self.reboot), 'is not known')
        self.assert_sent('hard reboot')

    def test_server_without_its_last_change_is_not_known(self):
        serve = self.host_cloud._server_body

        def without(server):
            body = serve(server)
            del body['updated']
            return body

        self.host_cloud._server_body = without
        self.lose()
        self.assert_says(self.refused(self.reboot), 'is not known')
        self.assert_sent('hard reboot')

    def test_reboot_whose_end_cannot_be_read_is_not_called_done(self):
        self.host_cloud.fail('GET', '/os-instance-actions/', 503,
                             times=10 ** 6)
        self.assert_says(self.refused(self.reboot), 'is not known')
        self.assert_sent('hard reboot')

    def test_other_action_whose_end_cannot_be_read_is_known_by_the_state(
            self):
        self.host_cloud.fail('GET', '/os-instance-actions/', 503,
                             times=10 ** 6)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_action_that_failed_and_whose_end_cannot_be_read_has_failed(self):
        self.host_cloud.fail_action('stop', 'libvirt is away')
        self.host_cloud.fail('GET', '/os-instance-actions/', 503,
                             times=10 ** 6)
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         'was ACTIVE with power state 1 after stop')
        self.assert_sent('stop')

    def test_conflict_of_a_read_does_not_reboot_again(self):
        self.host_cloud.fail('GET', self.read, 409, skip=1, times=5)
        self.reboot()
        self.assert_sent('hard reboot')

    def test_old_compute_api_tells_too(self):
        self.host_cloud.microversion = '2.53'
        self.forget_clouds()
        self.lose()
        self.reboot()
        self.assert_sent('hard reboot')


class RebootProofTestCase(FaultTestCase):
    """A reboot ends where it began: only Nova's record shows a failure."""

    RECORD = '/os-instance-actions/'
    ANY_RECORD = '/os-instance-actions'

    def hide(self, answer, path=RECORD, **kwargs):
        self.host_cloud.forget_requests()
        self.host_cloud.stop_failing()
        self.host_cloud.fail('GET', path, answer, **kwargs)

    def hide_request_ids(self):
        serve = self.host_cloud._serve

        def without(request, context):
            answer = serve(request, context)
            if request.path.endswith('/action'):
                del context.headers['x-openstack-request-id']
            return answer

        self.host_cloud._serve = without

    def fail_reboot(self, *parts):
        self.clock.now += 60
        self.host_cloud.fail_action('hard reboot', 'Out of rabbits')
        self.assert_says(self.refused(self.reboot), self.server.id, *parts)
        self.assert_sent('hard reboot')
        # No plan was made for the next one.
        self.host_cloud._action_errors.clear()

    def fail_unknown(self):
        self.fail_reboot('got the hard reboot is not known',
                         'openstack server event list')

    def test_failure_whose_record_is_not_there_at_once(self):
        for status in (403, 404):
            for times in (1, 4):
                self.hide(status, self.ANY_RECORD, times=times)
                self.fail_reboot('Out of rabbits')

    def test_refusal_after_long_failures_is_believed_no_sooner(self):
        self.hide(503, self.ANY_RECORD, times=30)
        self.host_cloud.fail('GET', self.ANY_RECORD, 403)
        self.fail_reboot('Out of rabbits')

    def test_failure_that_only_the_list_shows(self):
        for status in (403, 404):
            self.hide(status, times=10 ** 6)
            self.fail_reboot('its instance action says "Error"')

    def test_failure_on_a_compute_api_that_shows_no_events(self):
        self.host_cloud.microversion = '2.50'
        self.forget_clouds()
        self.hide(404, self.ANY_RECORD)
        self.fail_reboot('its instance action says "Error"')

    def test_failure_whose_request_has_no_identifier(self):
        self.hide_request_ids()
        self.fail_reboot('could not hard reboot')

    def test_record_that_never_comes(self):
        self.hide(404, self.ANY_RECORD, times=10 ** 6)
        self.fail_unknown()

    def test_record_that_shows_no_events(self):
        for record in ({}, {'events': 'none'}, {'events': [None]},
                       {'events': []}):
            self.hide({'instanceAction': record}, times=10 ** 6)
            self.fail_unknown()

    def test_record_that_never_ends(self):
        self.hide({'instanceAction': {'events': [{'finish_time': None}]}},
                  times=10 ** 6)
        self.fail_unknown()

    def test_success_whose_record_is_not_there_at_once(self):
        for status in (403, 404, 503):
            self.hide(status, self.ANY_RECORD, times=4)
            self.reboot()
            self.assert_sent('hard reboot')

    def test_success_on_a_compute_api_that_shows_no_events(self):
        self.host_cloud.microversion = '2.50'
        self.forget_clouds()
        self.reboot()
        self.assert_sent('hard reboot')

    def test_success_whose_request_has_no_identifier(self):
        self.hide_request_ids()
        self.reboot()
        self.assert_sent('hard reboot')

    def test_policy_that_shows_no_records_is_told_of(self):
        logger = self.useFixture(fixtures.FakeLogger(
            'quintupleo_power.host_cloud.actions', level=logging.WARNING))
        self.useFixture(fixtures.MockPatchObject(
            logging.getLogger('quintupleo_power.host_cloud.actions'),
            'disabled', False))
        self.hide(403, self.ANY_RECORD, times=10 ** 6)
        self.reboot()
        self.assert_sent('hard reboot')
        self.assertIn('os_compute_api:os-instance-actions:show',
                      logger.output)


class LogTestCase(FaultTestCase):

    def test_one_line_for_each_action(self):
        logger = self.useFixture(fixtures.FakeLogger(
            'quintupleo_power.executor', level=logging.INFO))
        self.useFixture(fixtures.MockPatchObject(
            logging.getLogger('quintupleo_power.executor'), 'disabled',
            False))
        self.set_server('rescued', nova_model.RUNNING)
        self.wish(boot_devices.PXE)
        self.reboot()
        unrescue, rescue = logger.output.splitlines()
        requests = [each['request_id']
                    for each in self.host_cloud.events.values()]
        for line, action, request in zip(
                (unrescue, rescue), ('unrescue', 'rescue'), requests[-2:],
                strict=True):
            self.assertEqual(
                f'Node {self.node.uuid}: {action} of server {self.server.id}, '
                f'request {request} of the compute service', line)


class LostActionTestCase(FaultTestCase):

    def test_unrescue_that_never_arrived_is_no_reboot_to_pxe(self):
        self.set_server('rescued', nova_model.RUNNING)
        for answer in LOST:
            self.wish(boot_devices.PXE)
            self.host_cloud.forget_requests()
            self.lose(answer, carried_out=False)
            self.reboot()
            self.assert_sent('unrescue', 'rescue')

    def test_unpause_whose_answer_was_lost_leads_to_no_reboot(self):
        self.set_server('paused', 3)
        self.lose()
        self.set_power(states.POWER_ON)
        self.assert_sent('unpause')

    def test_maintenance_page_is_no_action(self):
        self.lose(HTML, carried_out=False)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_rescue_is_answered_with_200(self):
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertEqual(1, self.count('/action', 'POST'))

    def test_no_read_of_images_or_volumes_can_fail_a_reboot_that_is_done(
            self):
        host = self.host()
        server = host.servers.get(self.server.id)
        with mock.patch.object(capabilities.Capabilities, 'complete',
                               autospec=True, side_effect=AssertionError):
            seen = host.actions.run(
                dataclasses.replace(server, network_first=True),
                connection_action('hard reboot'), self.clock.now + 60)
        self.assertTrue(seen.network_first)


def connection_action(word):
    return cloud.actions.transitions.Action(word)


class RetryAfterTestCase(FaultTestCase):

    def busy(self, value, method='POST', path='/action$', **kwargs):
        self.host_cloud.fail(method, path, 429,
                             headers={'Retry-After': value}, **kwargs)

    def test_seconds_are_kept_to(self):
        self.busy('45')
        self.reboot()
        self.assertIn(45, self.clock.slept)

    def test_date_is_kept_to(self):
        until = datetime.datetime.now(
            datetime.timezone.utc) + datetime.timedelta(seconds=60)
        self.busy(email_utils.format_datetime(until, usegmt=True))
        self.reboot()
        self.assertTrue(any(50 < slept <= 60 for slept in self.clock.slept))

    def test_absurd_values_are_passed_over(self):
        for value in ('', '-7', 'tomorrow', '9' * 40, '1e3',
                      'Fri, 31 Dec 1999 23:59:59 GMT',
                      'Fri, 31 Dec 99999 23:59:59 GMT'):
            self.clock.slept.clear()
            self.busy(value)
            self.reboot()
            self.assertGreater(5, max(self.clock.slept), value)

    def test_more_than_there_is_time_for_is_said_at_once(self):
        begun = self.clock.now
        self.busy('31536000')
        self.assert_says(self.refused(self.reboot),
                         'left alone for 31536000 seconds')
        self.assertGreater(5, self.clock.now - begun)

    def test_watch_waits_but_not_for_ever(self):
        self.busy('86400', 'GET', self.read, skip=1)
        begun = self.clock.now
        self.set_power(states.POWER_OFF)
        self.assertLess(59, self.clock.now - begun)
        self.assertGreater(80, self.clock.now - begun)
        self.assert_sent('stop')

    def test_read_that_is_to_wait_long_is_given_up(self):
        self.busy('60', 'GET', self.read)
        self.assert_says(self.refused(self.get_power), 'for 60 seconds')
        self.assertEqual(1, self.count(self.server.id))

    def test_read_that_is_to_wait_a_little_waits(self):
        self.busy('3', 'GET', self.read)
        self.get_power()
        self.assertIn(3, self.clock.slept)


class DeadlineTestCase(FaultTestCase):

    def test_first_poll_comes_within_the_time(self):
        # Known to be slow, so that the first look would come late.
        for _ in range(8):
            self.host().actions._schedule.learn('stop', 100.0, 2)
        begun = self.clock.now
        self.host_cloud.reads_per_task = 10 ** 6
        self.refused(self.set_power, states.POWER_OFF, timeout=2)
        self.assertAlmostEqual(2, self.clock.now - begun)

    def test_failure_of_the_last_look_is_told(self):
        self.host_cloud.fail('GET', self.read, GONE, skip=1, times=10 ** 6)
        self.assert_says(
            self.refused(self.set_power, states.POWER_OFF, timeout=20),
            '"stop" of server', 'cannot be reached')
        self.assert_sent('stop')


class ReadAgainTestCase(FaultTestCase):

    def test_read_that_fails_twice_is_not_noticed(self):
        for answer in (*LOST, 503, 429, 408, 409, HTML, '', [], {},
                       {'server': []}):
            self.host_cloud.fail('GET', self.read, answer, times=2)
            self.clock.now += 60
            self.assertEqual(states.POWER_ON, self.get_power(), answer)

    def test_slow_read_is_not_made_again(self):
        self.useFixture(fixtures.MockPatchObject(
            service.Service, 'SLOW', -1))
        self.host_cloud.fail('GET', self.read, GONE)
        self.refused(self.get_power)

    def test_cloud_that_is_away_is_tried_once_for_each_node(self):
        self.forget_clouds()
        self.host_cloud.fail('GET', self.read, GONE, times=4)
        self.refused(self.get_power)
        self.assertEqual(3, self.count(self.server.id))
        self.refused(self.get_power)
        self.assertEqual(4, self.count(self.server.id))

    def test_advice_is_given_with_what_may_pass(self):
        self.host_cloud.fail('GET', self.read, GONE, times=99)
        self.assert_says(self.refused(self.get_power), 'try again later')


class WrongFormTestCase(FaultTestCase):

    def refused_then_well(self, *parts):
        """Expect one refusal, and that nothing of it is kept."""
        self.forget_clouds()
        self.assert_says(self.refused(self.get_power), *parts)
        self.host_cloud.stop_failing()
        self.assertEqual(states.POWER_ON, self.get_power())

    def test_token_without_its_header(self):
        serve = self.host_cloud._keystone

        def keystone(request, context):
            body = serve(request, context)
            context.headers.pop('X-Subject-Token', None)
            return body

        self.host_cloud._keystone = keystone
        self.forget_clouds()
        self.assert_says(self.refused(self.get_power), 'KeyError')
        self.host_cloud._keystone = serve
        self.get_power()

    def test_token_without_anything(self):
        serve = self.host_cloud._keystone

        def keystone(request, context):
            body = serve(request, context)
            return {'token': {}} if 'token' in body else body

        self.host_cloud._keystone = keystone
        self.forget_clouds()
        self.refused(self.get_power)
        self.host_cloud._keystone = serve
        self.get_power()

    def test_version_document_that_cannot_be_had(self):
        for answer in (503, HTML, {}, {'versions': []}, [],
                       {'version': {'id': ['v2.1']}}):
            self.host_cloud.fail('GET', r'nova[^/]*/(v2.1/?)?$', answer,
                                 times=99)
            self.refused_then_well()
            self.assertEqual((2, 98), self.host().compute.microversion)

    def test_server_of_a_wrong_form(self):
        right = self.host_cloud._server_body(self.server)
        for wrong in ({'id': 7}, {'status': None}, {'image': 'x'},
                      {'OS-EXT-STS:vm_state': ['active']},
                      {'OS-EXT-STS:power_state': 'running'},
                      {'OS-EXT-STS:task_state': {}}, {'fault': 'bad'}):
            self.host_cloud.fail('GET', self.read,
                                 {'server': {**right, **wrong}}, times=99)
            self.refused_then_well('in a form that Nova does not have')

    def test_another_server(self):
        other = self.host_cloud.add_server()
        self.host_cloud.fail('GET', self.read, {
            'server': self.host_cloud._server_body(other)}, times=99)
        self.refused_then_well('describes', other.id)

    def test_image_of_a_wrong_form(self):
        for wrong in ({'name': self.rescue_image['name'], 'id': 7},
                      {'name': self.rescue_image['name']}):
            self.forget_clouds()
            self.host_cloud.fail('GET', '/images.name=', {'images': [wrong]},
                                 times=99)
            self.assert_says(self.assertRaises(
                exception.InvalidParameterValue, self.validate),
                'in a form that Glance does not have')
            self.host_cloud.stop_failing()

    def test_another_image(self):
        self.set_driver_info(
            quintupleo_rescue_image=self.rescue_image['id'])
        self.host_cloud.fail(
            'GET', f"/images/{self.rescue_image['id']}$",
            self.host_cloud.add_rescue_image(), times=99)
        self.assert_says(self.assertRaises(
            exception.InvalidParameterValue, self.validate), 'Glance')

    def test_wrong_version_document_is_dropped_within_a_request(self):
        self.forget_clouds()
        self.host_cloud.fail('GET', r'nova[^/]*/(v2.1/?)?$',
                             {'versions': []}, times=4)
        self.reboot()
        self.assert_sent('hard reboot')


class UnauthorizedTestCase(FaultTestCase):

    def test_identity_service_that_shows_its_versions_to_nobody(self):
        # keystoneauth then waits for a lock that it holds itself.
        self.forget_clouds()
        self.host_cloud.fail('GET', 'keystone[^/]*/(v3/?)?$', 401, times=99)
        self.assertEqual(states.POWER_ON, self.get_power())

    def test_token_that_expires_in_the_middle_of_an_action(self):
        self.host_cloud.fail('GET', self.read, 401, skip=1)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_token_that_expires_at_a_reboot(self):
        self.host_cloud.fail('POST', '/action$', 401)
        self.reboot()
        self.assert_sent('hard reboot')


class KeptCloudTestCase(FaultTestCase):

    def test_cloud_that_nobody_names_is_dropped(self):
        first = self.host()
        self.clock.now += 3601
        other = connection.Credentials(region_name='RegionOne')
        cloud.get(other)
        self.assertIsNot(first, self.host())
        self.assertEqual(2, len(cloud.in_use()))

    def test_cloud_in_use_is_kept(self):
        first = self.host()
        for number in range(4):
            self.clock.now += 1000
            self.assertIs(first, self.host())
            cloud.get(connection.Credentials(region_name=f'R{number}'))

    def test_endpoint_that_moved_is_found_in_a_new_catalog(self):
        first = self.host()
        self.host_cloud.fail('GET', self.read, GONE, times=99)
        self.refused(self.get_power)
        self.assertIsNot(first, self.host())

    def test_cloud_that_is_away_is_not_asked_for_tokens_all_the_time(self):
        self.forget_clouds()
        first = self.host()
        self.host_cloud.fail('GET', self.read, GONE, times=99)
        self.refused(self.get_power)
        self.assertIs(first, self.host())

    def test_failure_of_a_cloud_that_was_dropped_already(self):
        credentials = connection.Credentials()
        self.forget_clouds()
        cloud.failed(credentials, cloud.errors.AuthenticationFailed('no'))
        self.assertEqual([], cloud.in_use())


class ReasonTestCase(FaultTestCase):

    def test_no_object_of_python_is_shown(self):
        for text, said in (
                ("x: ('Connection aborted.', RemoteDisconnected('Remote end "
                 "closed connection without response'))",
                 'x (Remote end closed connection without response)'),
                ("x: HTTPSConnectionPool(host='h', port=1): Max retries "
                 'exceeded with url: / (Caused by NewConnectionError('
                 "'<urllib3.connection.HTTPSConnection object at 0x7f>: "
                 "Failed: [Errno 111] Connection refused'))",
                 'x (Connection refused)'),
                ("x: HTTPSConnectionPool(host='h', port=1): Max retries "
                 'exceeded with url: / (Caused by SSLError('
                 "SSLCertVerificationError(1, '[SSL: FAILED] certificate "
                 "verify failed')))",
                 'x ([SSL: FAILED] certificate verify failed)'),
                ('x: IncompleteRead(5 bytes read)', 'x'),
                ('Request to http://h timed out',
                 'Request to http://h timed out')):
            self.assertEqual(said, service._short(Exception(text)))
