# SPDX-License-Identifier: Apache-2.0
"""Checks of a cloud of which one service after the other does not serve."""

from unittest import mock

import requests
import tenacity

from quintupleo_power.environments import retry
from quintupleo_power.host_cloud import cloud_facts
from tests.unit.checks import base


class AccessTestCase(base.WholeCloudTestCase):

    def test_wrong_password(self):
        self.auth['password'] = 'wrong'
        self.check('credentials', 'fail', 'does not accept the credentials',
                   'correct the credentials')
        others = {row['Result'] for name, row in self.rows.items()
                  if name != 'credentials'}
        self.assertEqual({'skipped'}, others)
        self.assert_row('image API', 'skipped', 'needs credentials')
        self.assert_row('rescue image bios', 'skipped', 'needs image API')

    def test_cloud_that_is_away(self):
        self.host.fail('GET', 'keystone', requests.exceptions.ConnectionError(
            'no route'), times=9)
        self.host.fail('POST', 'keystone',
                       requests.exceptions.ConnectionError('no route'),
                       times=9)
        self.check('credentials', 'fail', 'cannot be reached',
                   'check the address')

    def test_settings_that_cannot_be_used(self):
        self.options.cloud = 'other'
        self.check('credentials', 'fail', 'No usable cloud is named',
                   '--os-cloud')
        self.assertEqual([], self.host.requests)

    def test_application_credential(self):
        self.host.application_credential = {'id': 'e' * 32, 'name': 'ours',
                                            'restricted': True}
        self.check('credentials', 'pass', 'project machines')

    def test_no_project(self):
        del self.auth['project_name']
        token = cloud_facts.Token('operator', None, None, ())
        with mock.patch.object(cloud_facts.CloudInfo, 'sign_in', autospec=True,
                               return_value=token):
            self.check('credentials', 'fail', 'signed in to no project',
                       'project_name')

    def test_reader(self):
        self.host.roles = ['reader']
        self.check('credentials', 'fail', 'a reader starts and rescues no',
                   'the role member')

    def test_old_compute_api(self):
        self.host.microversion = '2.79'
        self.check('compute API', 'warn',
                   '2.79 is used, which is without network boot of servers '
                   'that boot from a volume', 'newer Nova')
        self.assertNotIn('consoles', self.rows['compute API']['Found'])

    def test_no_volumes(self):
        self.host.has_volume_service = False
        self.check('volume API', 'pass', 'none')

    def test_no_network_service(self):
        self.host.has_network_service = False
        self.check('network API', 'fail', 'cannot be used', 'clouds.yaml')
        self.assert_row('port security', 'skipped', 'needs network API')
        self.assert_row('rescue image bios', 'pass')

    def test_image_service_that_fails(self):
        self.host.fail('GET', 'glance.*/images', 503, times=9)
        self.check('image API', 'fail', '503', 'try again later')
        self.assert_row('rescue image uefi', 'skipped')
        self.assert_row('port security', 'pass')

    def test_policy_that_forbids(self):
        self.host.fail('GET', '/servers/detail', (403, 'Policy says no'),
                       times=9)
        self.check('rescue', 'fail', 'Policy says no', 'operator')

    def test_region_without_services(self):
        self.region = 'Nowhere'
        for words in ((), ('--flavor', 'tiny', '--server', 'x', '--network',
                           'y', '--environment', 'z')):
            self.assertEqual(1, self.run_command(*words))
            found = self.results()
            for name in ('compute API', 'image API', 'network API'):
                self.assert_row(name, 'fail', 'Nowhere region not found',
                                'clouds.yaml')
                del found[name]
            self.assertEqual('pass', found.pop('credentials'))
            self.assertEqual({'skipped'}, set(found.values()), found)

    def test_too_many_requests(self):
        self.host.fail('GET', '/servers', (429, 'Slow down'), times=99,
                       headers={'Retry-After': '30'})
        self.check('rescue', 'fail', 'Slow down', 'less often')

    def test_quota_of_a_busy_cloud(self):
        self.host.fail('GET', '/limits', (429, 'Slow down'), times=9,
                       headers={'Retry-After': '30'})
        clock = self.host.clock
        with (mock.patch.object(tenacity, 'time', clock),
              mock.patch.object(retry.Retrier, 'sleep',
                                lambda _, seconds: clock.sleep(seconds))):
            self.check('quota: servers', 'warn', 'not reported')
        # The request was tried again for as long as is worth it.
        self.assertGreaterEqual(sum(clock.slept), 30)


class RescueTestCase(base.WholeCloudTestCase):

    def test_no_proof_of_a_rescue(self):
        self.host.events.clear()
        self.check('rescue', 'warn', 'nothing shows', '--try')
        self.server.vm_state = 'rescued'
        self.check('rescue', 'pass')

    def test_rescue_that_failed_proves_nothing(self):
        for event in self.host.events.values():
            event['message'] = 'Error'
        self.check('rescue', 'warn', 'nothing shows', '--try')
