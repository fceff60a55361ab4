# SPDX-License-Identifier: Apache-2.0
"""The vendor interface."""

from ironic.common import exception
from ironic.drivers.modules import noop
import requests

from quintupleo_power.interfaces import vendor
from tests.unit import base

LOG = '\n'.join(f'line {number}' for number in range(1, 1501))


class VendorTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.server.console_log = LOG

    def call(self, method='console_log', http_method='GET', **info):
        """Call a method as ``ConductorManager.vendor_passthru`` does."""
        with self.acquire(shared=True) as task:
            route = task.driver.vendor.vendor_routes[method]
            self.assertIn(http_method, route['http_methods'])
            task.driver.vendor.validate(
                task, method=method, http_method=http_method, **info)
            return route['func'](task, http_method=http_method, **info)

    def refused(self, *parts):
        error = self.assertRaises(exception.DriverOperationError, self.call)
        self.assert_says(error, self.node.uuid, *parts)


class InterfaceTestCase(VendorTestCase):

    def test_ironic_picks_this_vendor(self):
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.vendor, vendor.QuintupleoVendor)
            self.assertIn('quintupleo_server',
                          task.driver.vendor.get_properties())

    def test_operator_who_enables_no_vendor_has_none(self):
        self.config(enabled_vendor_interfaces=['no-vendor'])
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.vendor, noop.NoVendor)
        self.validate()

    def test_console_log_is_answered_at_once_and_locks_nothing(self):
        with self.acquire(shared=True) as task:
            route = task.driver.vendor.vendor_routes['console_log']
        self.assertEqual(
            (['GET', 'POST'], False, False, False), tuple(
                route[key] for key in ('http_methods', 'async', 'attach',
                                       'require_exclusive_lock')))
        self.assertIn("'lines'", route['description'])

    def test_validation_of_the_node_asks_no_cloud(self):
        with self.acquire(shared=True) as task:
            task.driver.vendor.validate(task)
        self.assertEqual([], self.host_cloud.requests)

    def test_server_missing(self):
        self.set_driver_info(quintupleo_server=None)
        self.assertRaises(exception.MissingParameterValue, self.call)


class ConsoleLogTestCase(VendorTestCase):

    def test_end_of_the_log(self):
        lines = self.call()['output'].split('\n')
        self.assertEqual(1000, len(lines))
        self.assertEqual(('line 501', 'line 1500'), (lines[0], lines[-1]))

    def test_as_many_lines_as_asked_for(self):
        for lines in (2, '2', '002'):
            for http_method in ('GET', 'POST'):
                self.assertEqual(
                    {'output': 'line 1499\nline 1500'},
                    self.call(http_method=http_method, lines=lines))

    def test_bounds(self):
        self.assertEqual('line 1500', self.call(lines=1)['output'])
        self.assertEqual(LOG, self.call(lines=vendor.MAX_LINES)['output'])

    def test_log_that_is_empty(self):
        self.server.console_log = ''
        self.assertEqual({'output': ''}, self.call())

    def test_server_by_name(self):
        self.set_driver_info(quintupleo_server='machine-0')
        self.assertEqual('line 1500', self.call(lines=1)['output'])

    def test_wrong_numbers(self):
        for wrong in (0, -1, '-1', '', 'all', '1.5', 1.5, None, True, [3],
                      {'a': 1}, '٣', '²', ' 3', '3\n', vendor.MAX_LINES + 1,
                      10 ** 30, '9' * 9999):
            error = self.assertRaises(exception.InvalidParameterValue,
                                      self.call, lines=wrong)
            self.assert_says(error, self.node.uuid,
                             "'lines'", 'from 1 to 100000')
        self.assertEqual([], self.host_cloud.requests)

    def test_argument_that_it_does_not_have(self):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.call, limit=3)
        self.assert_says(error, self.node.uuid, "no argument 'limit'",
                         'only lines')
        self.assertEqual([], self.host_cloud.requests)

    def test_server_without_a_console(self):
        self.server.console_log = None
        self.refused('no console log of server', self.server.id,
                     'does not have a console')

    def test_role_that_may_not(self):
        self.host_cloud.fail('POST', '/action$', (
            403, "Policy doesn't allow os_compute_api:os-console-output to "
                 'be performed.'))
        self.refused('403', 'os-console-output')

    def test_server_in_no_state_for_it(self):
        self.host_cloud.fail('POST', '/action$', (
            409, f'Instance {self.server.id} is not ready'))
        self.refused('409', 'is not ready')

    def test_hypervisor_without_console_logs(self):
        self.host_cloud.fail('POST', '/action$', (
            501, 'Unable to perform the action on this hypervisor'))
        self.refused('501', 'Unable to perform')

    def test_what_may_pass_is_told_so(self):
        for answer in (429, 500, 503,
                       requests.exceptions.ConnectionError('Broken')):
            self.host_cloud.fail('POST', '/action$', answer)
            self.refused('may pass')

    def test_answer_of_another_form(self):
        for answer in ({}, [], 'Welcome', {'output': None}, {'output': [LOG]},
                       {'output': {'text': LOG}}):
            self.host_cloud.fail('POST', '/action$', answer)
            self.refused()

    def test_server_that_was_deleted(self):
        self.server.vm_state = 'deleted'
        self.refused(self.server.id, 'does not exist')
