# SPDX-License-Identifier: Apache-2.0
"""The console interface and the console log."""

from ironic.common import exception
from ironic.drivers.modules import noop
import requests

from quintupleo_power.host_cloud import consoles
from quintupleo_power.interfaces import console
from tests.unit import base
from tests.unit import nova_model

POST = '/remote-consoles$'


class ConsoleTestCase(base.DriverTestCase):
    """What the tests of consoles have in common."""

    def get(self):
        with self.acquire(shared=True) as task:
            return task.driver.console.get_console(task)

    def start(self):
        with self.acquire() as task:
            task.driver.console.start_console(task)

    def asked(self):
        """How often the host cloud was asked for a console."""
        return len([each for each in self.host_cloud.requests
                    if each.endswith('/remote-consoles')])

    def refused(self, *parts):
        """Check that neither way gives a console, and what is said."""
        for call in (self.get, self.start):
            error = self.assertRaises(exception.DriverOperationError, call)
            self.assert_says(error, self.node.uuid, *parts)


class InterfaceTestCase(ConsoleTestCase):

    def test_ironic_picks_this_console(self):
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.console,
                                  console.QuintupleoConsole)

    def test_operator_who_enables_no_console_has_none(self):
        self.config(enabled_console_interfaces=['no-console'])
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.console, noop.NoConsole)
        self.validate()

    def test_node_may_have_no_console(self):
        self.node.console_interface = 'no-console'
        self.node.save()
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.console, noop.NoConsole)

    def test_properties_name_the_types_and_the_default(self):
        with self.acquire(shared=True) as task:
            properties = task.driver.console.get_properties()
        self.assertIn('quintupleo_server', properties)
        sentence = properties['quintupleo_console_type']
        for name in consoles.PROTOCOLS:
            self.assertIn(name, sentence)
        self.assertIn('Default: novnc', sentence)

    def test_types_are_those_that_nova_takes(self):
        self.assertEqual(nova_model.CONSOLE_TYPES, {
            protocol: tuple(
                name for name, its in consoles.PROTOCOLS.items()
                if its == protocol)
            for protocol in consoles.PROTOCOLS.values()})


class UrlTestCase(ConsoleTestCase):

    def test_novnc_has_the_type_of_ironics_own_consoles(self):
        found = self.get()
        token, = self.host_cloud.console_tokens
        self.assertEqual({
            'type': 'vnc',
            'url': 'http://novnc.example.test/vnc_lite.html'
                   f'?path=%3Ftoken%3D{token}'}, found)

    def test_each_type_is_asked_for_by_its_protocol(self):
        for name in consoles.PROTOCOLS:
            self.host_cloud.consoles = {name: f'ws://{name}.example.test/'}
            self.set_driver_info(quintupleo_console_type=name)
            found = self.get()
            self.assertEqual('vnc' if name == 'novnc' else name,
                             found['type'])
            self.assertTrue(found['url'].startswith(f'ws://{name}.'))

    def test_each_user_gets_access_of_their_own(self):
        self.assertNotEqual(self.get(), self.get())

    def test_server_by_name(self):
        self.set_driver_info(quintupleo_server='machine-0')
        self.assertEqual('vnc', self.get()['type'])

    def test_nothing_of_it_is_kept_with_the_node(self):
        self.start()
        self.get()
        self.node.refresh()
        self.assertEqual({}, self.node.driver_internal_info)
        self.assertIsNone(self.node.last_error)


class StartTestCase(ConsoleTestCase):

    def test_asks_the_host_cloud_whether_it_gives_one(self):
        self.start()
        self.assertEqual(1, self.asked())

    def test_asks_nothing_when_a_conductor_takes_consoles_over(self):
        self.node.console_enabled = True
        self.node.save()
        self.host_cloud.fail('GET', '.', 503, times=99)
        self.start()
        self.assertEqual([], self.host_cloud.requests)

    def test_stop_asks_nothing(self):
        with self.acquire() as task:
            task.driver.console.stop_console(task)
        self.assertEqual([], self.host_cloud.requests)


class SettingTestCase(ConsoleTestCase):

    def validate_console(self):
        with self.acquire(shared=True) as task:
            task.driver.console.validate(task)

    def test_validation_asks_no_cloud(self):
        self.set_driver_info(quintupleo_console_type=' serial ')
        self.validate_console()
        self.assertEqual([], self.host_cloud.requests)

    def test_type_that_nova_does_not_have(self):
        for wrong in ('vnc', 'NOVNC', 'xvpvnc', 7, '', ['novnc'], 'x' * 300,
                      'novnc\n'):
            self.set_driver_info(quintupleo_console_type=wrong)
            for call in (self.validate_console, self.get, self.start):
                error = self.assertRaises(
                    exception.InvalidParameterValue, call)
                self.assert_says(error, self.node.uuid,
                                 'driver_info/quintupleo_console_type')
        self.assertEqual([], self.host_cloud.requests)

    def test_sentence_names_the_types(self):
        self.set_driver_info(quintupleo_console_type='vnc')
        self.assert_says(
            self.assertRaises(exception.InvalidParameterValue, self.get),
            'must be one of novnc, serial, spice-html5, webmks')

    def test_wrong_type_does_not_stop_the_machine(self):
        self.set_driver_info(quintupleo_console_type='vnc')
        self.validate()
        with self.acquire() as task:
            task.driver.power.reboot(task)
        self.assertEqual(['hard reboot'], self.host_cloud.sent)

    def test_server_missing(self):
        self.set_driver_info(quintupleo_server=None)
        for call in (self.validate_console, self.get, self.start):
            self.assertRaises(exception.MissingParameterValue, call)


class TroubleTestCase(ConsoleTestCase):

    def test_type_that_the_host_cloud_does_not_offer(self):
        self.set_driver_info(quintupleo_console_type='serial')
        self.refused("no 'serial' console", self.server.id,
                     'Unavailable console type serial',
                     'set driver_info/quintupleo_console_type',
                     'novnc, serial, spice-html5, webmks')

    def test_hypervisor_without_consoles(self):
        self.host_cloud.fail('POST', POST, (
            501, 'Unable to perform the action on this hypervisor'), times=9)
        self.refused("no 'novnc' console", 'Unable to perform')

    def test_compute_api_without_such_a_call(self):
        self.host_cloud.microversion = '2.5'
        self.refused('2.5', 'it takes 2.6', 'console_log')
        self.assertEqual(0, self.asked())

    def test_oldest_compute_api_with_such_a_call(self):
        self.host_cloud.microversion = '2.6'
        self.assertEqual('vnc', self.get()['type'])

    def test_role_that_may_not(self):
        self.host_cloud.fail('POST', POST, (
            403, "Policy doesn't allow os_compute_api:os-remote-consoles to "
                 'be performed.'), times=9)
        self.refused('403', 'os-remote-consoles')

    def test_guest_that_the_hypervisor_does_not_know(self):
        self.host_cloud.fail('POST', POST, (
            404, f'Instance {self.server.id} could not be found.'), times=9)
        self.refused('has no console as things stand', 'could not be found',
                     'power it on')

    def test_server_that_was_deleted(self):
        self.server.vm_state = 'deleted'
        self.refused(self.server.id, 'does not exist')

    def test_what_may_pass_is_told_so(self):
        for answer in ((409, 'Instance is not ready'), 429, 500, 503,
                       requests.exceptions.ConnectionError('Broken')):
            self.host_cloud.stop_failing()
            self.host_cloud.fail('POST', POST, answer, times=9)
            self.refused('may pass')

    def test_answer_of_another_form(self):
        for answer in ({}, [], 'Welcome', {'remote_console': None},
                       {'remote_console': 'http://novnc'},
                       {'remote_console': {}},
                       {'remote_console': {'url': ''}},
                       {'remote_console': {'url': {'a': 1}}}):
            self.host_cloud.stop_failing()
            self.host_cloud.fail('POST', POST, answer, times=9)
            self.refused()

    def test_credentials_are_wrong(self):
        self.config(password='wrong-password', group='quintupleo')
        self.refused('does not accept the credentials')

    def test_token_that_has_expired_is_renewed(self):
        self.get()
        self.host_cloud.fail('POST', POST, (401, 'Expired'))
        self.assertEqual('vnc', self.get()['type'])
