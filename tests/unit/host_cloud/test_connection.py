# SPDX-License-Identifier: Apache-2.0
"""The host cloud: connections, readings, actions and their failures."""

import threading
import unittest
from unittest import mock

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
from openstack import connection as sdk_connection

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import service_urls
from tests.unit import base


class SharedCloudTestCase(base.DriverTestCase):

    def test_nodes_of_one_cloud_share_it(self):
        self.assertIs(cloud.get(connection.Credentials()),
                      cloud.get(connection.Credentials()))

    def test_other_credentials_are_another_cloud(self):
        self.assertIsNot(
            cloud.get(connection.Credentials()),
            cloud.get(connection.Credentials(region_name='RegionOne')))

    def test_clouds_have_a_bound(self):
        self.useFixture(fixtures.MockPatchObject(cache.Cache, 'MAX_SIZE',
                                                 2))
        hosts = []
        for region in 'abac':
            self.clock.now += 1
            hosts.append(cloud.get(connection.Credentials(
                region_name=region)))
        self.assertEqual([hosts[0], hosts[3]],
                         [host for _credentials, host in cloud.in_use()])

    def test_threads_that_come_at_once_get_one_cloud(self):
        got, barrier = [], threading.Barrier(8)

        def come():
            barrier.wait()
            got.append(cloud.get(connection.Credentials()))

        threads = [threading.Thread(target=come) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(8, len(got))
        self.assertEqual(1, len({id(one) for one in got}))

    def test_clock_of_a_cloud_is_that_of_its_tokens(self):
        for skew in (-7200, 300, 0):
            self.host_cloud.clock_skew = skew
            host = cloud.get(connection.Credentials())
            host.compute.sign_in()
            self.assertEqual(skew, host.compute.clock_ahead)
            # Issued long ago, it says the same.
            self.clock.now += 600
            host.servers.get(self.server.id)
            self.assertEqual(skew, host.compute.clock_ahead)

    def test_microversion_is_the_newest_that_both_know(self):
        for theirs, used in (('2.1', (2, 1)), ('2.87', (2, 87)),
                             ('2.98', (2, 98)), ('2.120', (2, 98))):
            self.host_cloud.microversion = theirs
            compute, *_rest = connection.connect(
                connection.Credentials())
            self.assertEqual(used, compute.microversion)

    def test_openstacksdk_enters_a_cloud_as_the_driver_does(self):
        _title, region = connection.access(connection.Credentials())
        other = 'http://other.example.test/v2.1'
        region.config['compute_endpoint_override'] = other
        entered = sdk_connection.Connection(config=region)
        self.assertEqual(self.rescue_image['id'], next(iter(
            entered.image.images(name='quintupleo-rescue-bios'))).id)
        self.assertEqual(
            other,
            openstacksdk.services(entered).compute._rest.endpoint_override)

    def test_error_that_says_nothing_is_told_by_its_status(self):
        for body in ({'computeFault': {}}, {'error': 'none'}, {}):
            self.forget_clouds()
            self.host_cloud.fail('GET', '/servers/', 500, times=3)
            with mock.patch.object(self.host_cloud, '_faulty',
                                   autospec=True,
                                   side_effect=self._answer(body)):
                error = self.assertRaises(
                    errors.ServerError,
                    cloud.get(connection.Credentials()).servers.get,
                    self.server.id)
            self.assert_says(error, '500')

    def test_what_nobody_has_is_no_passing_failure(self):
        self.host_cloud.fail('GET', '/servers/', 501)
        error = self.assertRaises(
            errors.NotOffered, cloud.get(connection.Credentials()).servers.get,
            self.server.id)
        self.assert_says(error, '501')

    def _answer(self, body):
        def faulty(fault, context):
            context.status_code = fault.answer
            return self.host_cloud._encode(body, context)
        return faulty

    def test_volume_without_an_image_tells_nothing(self):
        first, second = (self.host_cloud.add_volume() for _ in range(2))
        first['bootable'] = 'true'
        server = self.host_cloud.add_server(
            name='blank', image=None, volumes=(first, second))
        host = cloud.get(connection.Credentials())
        self.assertFalse(host.servers.get(server.id).network_first)

    def test_records_are_those_since_a_reading(self):
        host = cloud.get(connection.Credentials())
        before = host.servers.get(self.server.id)
        self.clock.now += 60
        host.actions.run(before, actions.transitions.Action.HARD_REBOOT,
                 self.clock.now + 60)
        self.assertEqual(['reboot'], [row['action'] for row in (
            instance_actions.since(
                host.compute, self.server.id, before.updated))])

    def test_configured_cloud_that_does_not_exist_has_no_address(self):
        self.config(cloud='nowhere', group='quintupleo')
        self.assertIsNone(connection.configured_auth_url())


class ServiceTestCase(unittest.TestCase):

    def test_plugin_that_gives_no_headers(self):
        rest = mock.Mock(spec=adapter.Adapter, endpoint_override=None,
                         session=mock.Mock(auth=None))
        rest.request.side_effect = ks_exceptions.AuthorizationFailure('None')
        with self.assertRaisesRegex(errors.AuthenticationFailed, 'None'):
            service.Service('Cloud', rest).get('/servers')


class SmallPartsTestCase(unittest.TestCase):

    def test_address_that_only_looks_like_ipv6(self):
        self.assertIsNone(service_urls.parse('http://[1:2:3]/v3'))

    def test_secrets_are_not_looked_for_without_end(self):
        first, second = mock.Mock(spec=[]), mock.Mock(spec=[])
        first.__dict__ = {'inner': [second]}
        second.__dict__ = {'password': 'correct-horse'}
        self.assertNotIn('correct-horse', redaction._secrets(first, depth=0))
