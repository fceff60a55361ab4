# SPDX-License-Identifier: Apache-2.0
"""The command against a good cloud, and the order of its checks."""

import unittest
from unittest import mock

from quintupleo_power.checks import results
from quintupleo_power.checks import runner
from quintupleo_power.environments import errors
from quintupleo_power.host_cloud import cloud_facts
from tests.unit.checks import base
from tests.unit import host_cloud_fixture


class GoodCloudTestCase(base.WholeCloudTestCase):

    def test_all_is_well(self):
        self.assertEqual(0, self.run_command('--flavor', 'tiny'))
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assert_row('credentials', 'pass',
                        'user operator, project machines, roles member')
        self.assert_row('compute API', 'pass', '2.98')
        self.assert_row('quota: servers', 'pass', '2 of 10 in use')
        self.assert_row('quota: ram (MiB)', 'pass', 'no limit')
        self.assert_changed_nothing()

    def test_secrets_are_not_shown(self):
        self.run_command('--server', self.server.id)
        self.assertNotIn(host_cloud_fixture.SECRET, self.out + self.err)
        for token in self.host.console_tokens:
            self.assertNotIn(token, self.out + self.err)

    def test_warning_is_no_failure(self):
        self.host.roles = ['admin', 'member']
        self.check('credentials', 'warn', "administrator's",
                   'application credential')

    def test_interrupt(self):
        with mock.patch.object(cloud_facts.CloudInfo, 'extensions',
                               autospec=True, side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_command())
        self.assertIn('Nothing was changed', self.err)

    def test_trial_needs_a_flavor(self):
        self.assertEqual(1, self.run_command('--try'))
        self.assertIn('--try needs the flavor', self.err)
        self.assertEqual([], self.host.requests)

    def test_environment(self):
        self.server.tag = 'quintupleo=lab'
        self.host.add_neutron_port('52:54:00:00:00:02',
                                   device_id=self.server.id)
        self.assertEqual(0, self.run_command('--environment', 'lab'))
        self.assert_row('environment lab', 'pass', '1 servers')
        self.assert_row('server machine-0: MAC addresses', 'pass')
        self.assertEqual(1, self.run_command('--environment', 'other'))
        self.assert_row('environment other', 'fail', 'no server of it',
                        'environment list')


class OrderTestCase(unittest.TestCase):

    def test_what_is_skipped_skips_what_needs_it(self):
        def fails(facts):
            raise errors.EnvironmentsError('one\ntwo')

        judge = results.passed
        found = list(runner.run_checks([
            results.Check('a', fails, judge),
            results.Check('b', lambda facts: 'x', judge, ('a',)),
            results.Check('c', lambda facts: 'x', judge, ('b',)),
            results.Check('d', lambda facts: 'x', judge)], {}))
        self.assertEqual(
            [('a', 'fail', 'one; two'), ('b', 'skipped', 'needs a'),
             ('c', 'skipped', 'needs b'), ('d', 'pass', 'x')],
            [(name, verdict.result, verdict.found)
             for name, verdict in found])

    def test_mistakes_of_our_own_are_not_results(self):
        with self.assertRaises(ZeroDivisionError):
            list(runner.run_checks([results.Check(
                'a', lambda facts: 1 / 0, results.passed)], {}))
