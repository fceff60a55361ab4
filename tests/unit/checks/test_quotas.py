# SPDX-License-Identifier: Apache-2.0
"""Checks of a quota and a flavor that do not suffice."""

from tests.unit.checks import base


class QuotasTestCase(base.WholeCloudTestCase):

    def test_no_quota(self):
        self.host.limits.update(maxTotalInstances=0, totalInstancesUsed=0)
        self.check('quota: servers', 'fail', '0 of 0 in use',
                   'larger quota of servers')
        self.assert_row('quota: vcpus', 'pass')

    def test_full_project_is_no_mistake_by_itself(self):
        self.host.limits['totalInstancesUsed'] = 10
        self.check('quota: servers', 'warn', '10 of 10', 'larger quota')
        self.assertEqual(1, self.run_command('--flavor', 'tiny'))
        self.assert_row('quota: servers', 'fail', '1 more are needed')

    def test_flavor_that_is_too_large_for_the_quota(self):
        self.host.add_flavor('large', vcpus=64)
        self.assertEqual(1, self.run_command('--flavor', 'large'))
        self.assert_row('quota: vcpus', 'fail',
                        '2 of 20 in use, and 64 more are needed')

    def test_quota_of_ports_and_images(self):
        self.host.network_quota = {'port': 1}
        self.host.image_usage['image_count_total']['usage'] = 100
        self.assertEqual(0, self.run_command())
        self.assert_row('quota: ports', 'warn', '1 of 1')
        self.assert_row('quota: images', 'warn', '100 of 100')

    def test_quota_that_is_not_reported(self):
        self.host.network_quota = None
        self.host.image_usage = {}
        self.check('quota: ports', 'warn', 'not reported', 'enough ports')
        self.assert_row('quota: images', 'warn', 'not reported')
        self.assert_row('quota: servers', 'pass')

    def test_flavor(self):
        self.assertEqual(1, self.run_command('--flavor', 'none'))
        self.assert_row('flavor', 'fail', 'No Flavor found for none', '')
        self.assert_row('quota: vcpus', 'skipped', 'needs flavor')
        self.host.add_flavor('small', ram=512)
        self.run_command('--flavor', 'small')
        self.assert_row('flavor', 'warn', 'need 2048 MiB', 'larger flavor')

    def test_image_usage_that_is_malformed(self):
        for usage in ({'image_count_total': 3},
                      {'image_count_total': {'limit': 'x', 'usage': 1}}):
            self.host.image_usage = usage
            self.check('quota: images', 'warn', 'not reported')
        self.host.fail('GET', '/info/usage', (404, 'no such thing'))
        self.check('quota: images', 'warn', 'not reported')
        self.host.image_usage = {
            'image_count_total': {'limit': -1, 'usage': 3}}
        self.check('quota: images', 'pass', 'no limit')
