# SPDX-License-Identifier: Apache-2.0
"""A cloud that does not answer, and what the nodes of others notice of it."""

import concurrent.futures
import threading
from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic.tests.unit.objects import utils as objects_utils
from openstack import config
from oslo_utils import uuidutils
import requests

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import clouds_yaml
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power.host_cloud import transport
from tests.unit import base
from tests.unit import host_cloud_fixture

TIMEOUT = 60


class HangingHostCloud(host_cloud_fixture.FakeHostCloud):
    """A host cloud that lets requests wait until they time out.

    :ivar hangs: regular expression of the URLs, None for none.
    :ivar bombs: whether what Nova shows of servers is too large to be read.
    :ivar asked: how many requests came.
    :ivar bombed: how many of them were answered with too much.
    """

    hangs = None
    bombs = False
    asked = bombed = 0

    def _answer(self, request, context):
        self.asked += 1
        if self.bombs and 'servers' in request.url:
            self.bombed += 1
            raise transport.TooLarge('its answer has too many bytes')
        if self.hangs and self.hangs in request.url:
            self.clock.now += TIMEOUT
            raise requests.exceptions.ReadTimeout('too slow')
        return super()._answer(request, context)


class DeadCloudTestCase(base.DriverTestCase):

    def make_host_cloud(self):
        return HangingHostCloud()

    def make_nodes(self, count):
        """Return the UUIDs of nodes, each with a server."""
        return [objects_utils.create_test_node(
            self.context, uuid=uuidutils.generate_uuid(),
            driver='quintupleo', driver_internal_info={},
            driver_info={'quintupleo_server':
                         self.host_cloud.add_server(name=f'm{number}').id}
        ).uuid for number in range(count)]

    def read(self, node_id):
        """Return the power state of a node, or why there is none."""
        with task_manager.acquire(self.context, node_id, shared=True) as task:
            try:
                return task.driver.power.get_power_state(task)
            except exception.DriverOperationError as exc:
                return str(exc)

    def test_one_failure_speaks_for_all(self):
        nodes = self.make_nodes(40)
        self.host_cloud.hangs = 'servers'
        begun = self.clock.now
        said = [self.read(node) for node in nodes]
        self.assertIn('cannot be reached', said[0])
        self.assertIn(nodes[0], said[0])
        for node, text in zip(nodes[1:], said[1:], strict=True):
            self.assertIn(node, text)
            self.assertIn('cannot be reached', text)
            self.assertIn('(asked again in 30 s)', text)
        # The first one alone has waited.
        self.assertLessEqual(self.clock.now - begun, TIMEOUT + 1)

    def test_one_asks_again_for_all(self):
        nodes = self.make_nodes(3)
        self.host_cloud.hangs = 'servers'
        self.read(nodes[0])
        self.clock.now += cloud.FAILURE_AGE
        asked = self.host_cloud.asked
        self.read(nodes[0])
        self.assertGreater(self.host_cloud.asked, asked)
        asked = self.host_cloud.asked
        self.read(nodes[1])
        self.assertEqual(asked, self.host_cloud.asked)
        self.host_cloud.hangs = None
        self.clock.now += cloud.FAILURE_AGE
        self.assertEqual([states.POWER_ON] * 3,
                         [self.read(node) for node in nodes])

    def test_request_of_a_user_asks_all_the_same(self):
        self.host_cloud.hangs = 'servers'
        self.read(self.node.uuid)
        self.host_cloud.hangs = None
        with self.acquire() as task:
            task.driver.power.set_power_state(task, states.POWER_OFF)
            task.node.save()
        self.assertEqual(states.POWER_OFF, self.read(self.node.uuid))

    def test_quick_failure_speaks_for_itself(self):
        self.host_cloud.fail('GET', '/servers', 503, times=99)
        self.read(self.node.uuid)
        self.host_cloud.stop_failing()
        self.assertEqual(states.POWER_ON, self.read(self.node.uuid))

    def test_answer_that_is_too_large_speaks_for_all(self):
        nodes = self.make_nodes(40)
        self.host_cloud.bombs = True
        for node in nodes:
            self.assertIn('too many bytes', self.read(node))
        self.assertEqual(1, self.host_cloud.bombed)

    def test_other_credentials_are_asked(self):
        self.host_cloud.hangs = 'servers'
        self.read(self.node.uuid)
        self.host_cloud.hangs = None
        self.set_driver_info(quintupleo_region_name='RegionOne')
        self.assertEqual(states.POWER_ON, self.read(self.node.uuid))

    def test_refused_credentials_are_tried_once(self):
        nodes = self.make_nodes(50)
        self.config(password='changed', group='quintupleo')
        self.host_cloud.forget_requests()
        said = [self.read(node) for node in nodes]
        self.assertIn('does not accept the credentials', said[0])
        self.assertIn('does not accept the credentials', said[-1])
        self.assertLessEqual(self.host_cloud.asked, 3)
        self.config(password=host_cloud_fixture.SECRET, group='quintupleo')
        self.clock.now += cloud.FAILURE_AGE
        self.assertEqual(states.POWER_ON, self.read(nodes[0]))


class ProfileTestCase(base.DriverTestCase):

    def test_profile_that_hangs_holds_nobody_up(self):
        begun, go = threading.Event(), threading.Event()

        def hang(name, region_name=None):
            begun.set()
            go.wait(60)
            raise errors.CloudUnreachable('it was away')

        self.useFixture(fixtures.MockPatchObject(clouds_yaml, 'entry', hang))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(cloud.get, connection.Credentials(cloud='far'))
            self.assertTrue(begun.wait(60))
            self.assertIs(cloud.get(connection.Credentials()),
                          cloud.get(connection.Credentials()))
            go.set()
            self.assertRaises(errors.CloudUnreachable, other.result)

    def test_profile_that_cannot_be_fetched(self):
        path = self.create_tempfiles([('clouds', (
            'clouds:\n  far:\n    profile: https://far.example.test\n'
            '    auth: {application_credential_id: a}\n'))], ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))
        self.set_driver_info(quintupleo_cloud='far')
        with mock.patch('requests.get', autospec=True,
                        side_effect=requests.exceptions.ConnectionError('no')):
            error = self.assertRaises(exception.InvalidParameterValue,
                                      self.validate)
        self.assert_says(error, self.node.uuid, "'far'", 'profile',
                         'cannot be fetched')

    def test_certificate_that_is_not_there(self):
        # What requests raises before it sends anything.
        self.host_cloud.fail('POST', '/auth/tokens$', OSError(
            'Could not find a suitable TLS CA certificate bundle, invalid '
            'path: /nowhere/ca.pem'), times=99)
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, self.node.uuid, 'cannot be used',
                         '/nowhere/ca.pem')

    def test_region_beside_the_one_of_the_entry(self):
        path = self.create_tempfiles([('clouds', (
            'clouds:\n  mine:\n    auth_type: v3applicationcredential\n'
            '    auth: {auth_url: "https://example.test/v3", '
            'application_credential_id: a, application_credential_secret: b}\n'
            '    region_name: "CHI@UC"\n'))], ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))
        for region in (None, 'CHI@UC', 'CHI@TACC'):
            _title, found = connection.access(connection.Credentials(
                cloud='mine', region_name=region))
            self.assertEqual(region or 'CHI@UC',
                             found.get_region_name('compute'))


    def test_microversions_of_the_user_are_for_other_commands(self):
        path = self.create_tempfiles([('clouds', (
            'clouds:\n  mine:\n    auth_type: none\n'
            '    compute_default_microversion: "2.47"\n'
            '    image_api_version: "2"\n    volume_api_version: "3.50"\n'
            ))], ext='.yaml')[0]
        region = config.OpenStackConfig(
            config_files=[path], load_envvars=False).get_one('mine')
        self.assertEqual('2.47', region.get_default_microversion('compute'))
        openstacksdk.drop_microversions(mock.Mock(config=region))
        self.assertIsNone(region.get_default_microversion('compute'))
        self.assertEqual('2', region.get_api_version('image'))
        self.assertNotIn('volume_api_version', region.config)
