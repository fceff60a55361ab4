# SPDX-License-Identifier: Apache-2.0
"""No secret in what the driver says, whatever the host cloud answers.

Each way to say which cloud meets each fault in each kind of request; then
everything that was logged at any level, and every exception with what a
debugger would show of its frames, is searched. tests/functional does the same
with a real Ironic, Keystone and Nova, which answer less badly.
"""

import dataclasses
import logging
import pathlib
import re
import traceback

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic import objects
import pytest
import requests

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import redaction
from quintupleo_power.interfaces import inspect
from tests.unit import base
from tests.unit import host_cloud_fixture

SECRET = host_cloud_fixture.SECRET
TOKEN = host_cloud_fixture.TOKEN
WRONG = 'swordfish-of-the-unit-tests'
MARKED = (SECRET, TOKEN, WRONG)
# Stands for the whole request in an answer.
ECHO = 'the request'
AUTH_URL = host_cloud_fixture.AUTH_URL

CLOUDS_YAML = """
clouds:
  machines: &machines
    auth: &auth
      auth_url: {auth_url}
      username: operator
      password: {password}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
"""

# What a cloud may do, as calls of FakeHostCloud.fail.
ANSWERS = {
    'none': [],
    'Keystone repeats the request': [
        ('POST', '/auth/tokens', (status, ECHO))
        for status in (400, 401, 403, 404, 500)],
    'Keystone gives no token': [
        # Its body would be logged by keystoneauth as the token's.
        ('POST', '/auth/tokens', (201, 'Fine'))],
    'Nova repeats the request': [
        ('GET', '/servers/', (status, ECHO))
        for status in (400, 401, 403, 404, 409, 429, 500, 503)],
    'Nova refuses the action': [
        ('POST', '/action', (status, ECHO))
        for status in (400, 401, 403, 404, 409, 500)],
    'Nova gives no console': [
        ('POST', '/remote-consoles', (status, ECHO))
        for status in (400, 403, 404, 409, 500, 501)],
    'Glance repeats the request': [
        ('GET', 'glance.example.test/v2/images', (status, ECHO))
        for status in (401, 403, 404, 500)],
    'a connection breaks': [
        ('GET', '/servers/', requests.exceptions.ConnectionError('Broken')),
        ('POST', '/auth/tokens', requests.exceptions.ReadTimeout('Slow')),
        ('POST', '/auth/tokens', requests.exceptions.SSLError('Expired'))],
    'Keystone sends elsewhere': [
        ('POST', '/auth/tokens', (307, 'Go away'))],
}


class EchoingHostCloud(host_cloud_fixture.FakeHostCloud):
    """A host cloud whose errors repeat what it was sent."""

    def _answer(self, request, context):
        self._request = request
        return super()._answer(request, context)

    def _faulty(self, fault, context):
        if isinstance(fault.answer, tuple) and fault.answer[1] is ECHO:
            headers = '\n'.join(
                f'{name}: {value}'
                for name, value in self._request.headers.items())
            fault = dataclasses.replace(fault, answer=(
                fault.answer[0], f'You sent {headers}\n{self._request.text}'))
        return super()._faulty(fault, context)


class Watch(fixtures.Fixture):
    """Keeps all that is logged and the exceptions that it is given."""

    def __init__(self):
        self.exceptions = []

    def _setUp(self):
        self.logger = self.useFixture(
            fixtures.FakeLogger(level=logging.DEBUG))
        # Ironic's database setup switches loggers off.
        for name in list(logging.root.manager.loggerDict):
            if name.startswith('sqlalchemy'):
                # At debug level it shows the rows of the database.
                continue
            logger = logging.getLogger(name)
            self.useFixture(
                fixtures.MockPatchObject(logger, 'disabled', False))
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(logging.DEBUG)

    @property
    def text(self):
        """Everything, as one text."""
        return '\n'.join([self.logger.output,
                          *map(_shown, self.exceptions)])


def _shown(error):
    """What the tools of a debugger show of an exception."""
    parts = [str(error), repr(error), repr(error.args),
             *traceback.format_exception(error)]
    for frame, _line in traceback.walk_tb(error.__traceback__):
        parts += [repr(value) for value in frame.f_locals.values()
                  if _is_of_the_driver(frame)
                  # Ironic's own values have all of driver_info in them.
                  and not isinstance(value, (objects.node.Node,
                                             task_manager.TaskManager))]
    chained = error.__cause__ or (
        None if error.__suppress_context__ else error.__context__)
    if chained is not None:
        parts.append(_shown(chained))
    return '\n'.join(parts)


def _is_of_the_driver(frame):
    return frame.f_globals['__name__'].startswith('quintupleo_power')


def _requests(task):
    """Every call by which Ironic makes the driver use its credentials."""
    power, management = task.driver.power, task.driver.management
    yield lambda: power.validate(task)
    yield lambda: management.validate(task)
    yield lambda: power.get_power_state(task)
    for state in power.get_supported_power_states(task):
        yield lambda state=state: power.set_power_state(task, state)
    for device in ('pxe', 'disk'):
        yield lambda device=device: management.set_boot_device(task, device)
        yield lambda: power.reboot(task)
    yield lambda: management.get_boot_device(task)
    yield lambda: management.get_boot_mode(task)
    yield lambda: management.set_boot_mode(task, 'uefi')
    yield lambda: management.get_supported_boot_devices(task)
    yield lambda: management.get_supported_boot_modes(task)
    yield lambda: management.set_secure_boot_state(task, True)
    yield lambda: management.get_mac_addresses(task)
    yield lambda: management.inject_nmi(task)
    yield lambda: inspect.QuintupleoInspect().inspect_hardware(task)
    if hasattr(management, 'get_node_health'):
        yield lambda: management.get_node_health(task)
    yield lambda: task.driver.console.start_console(task)
    yield lambda: task.driver.console.get_console(task)
    yield lambda: task.driver.vendor.console_log(task)


class SecrecyTestCase(base.DriverTestCase):
    """The credentials of section [quintupleo]."""

    def setUp(self):
        super().setUp()
        self.watch = self.useFixture(Watch())

    def make_host_cloud(self):
        return EchoingHostCloud()

    def give(self, secret):
        """Use a secret from now on."""
        self.config(password=secret, group='quintupleo')

    def call(self, function):
        """Call; what is raised is one of Ironic's own, and kept."""
        try:
            function()
        except exception.IronicException as error:
            self.watch.exceptions.append(error)
            return error
        return None

    def call_all(self):
        self.forget_clouds()
        with self.acquire() as task:
            for function in _requests(task):
                self.call(function)

    def fail(self, answer):
        """Let all requests of a kind fail from now on."""
        self.host_cloud._faults.clear()
        if answer:
            self.host_cloud.fail(*answer, times=10000)

    def assert_no_secret(self):
        text = self.watch.text
        self.assertIn('curl -g -i -X', text)
        # A console is open to whoever has its token.
        for secret in (*MARKED, *self.host_cloud.console_tokens):
            found = text.find(secret)
            self.assertEqual(-1, found, text[max(0, found - 400):found + 99])

    def test_each_kind_of_fault_in_every_request(self):
        self._meet([answers[:1] for answers in ANSWERS.values()], 60, 5)

    @pytest.mark.full
    def test_every_fault_in_every_request(self):
        self._meet(ANSWERS.values(), 100, 10)

    def _meet(self, faults, exceptions, console_tokens):
        """Check that no secret is shown by requests that meet faults.

        :param exceptions: more than so many exceptions are looked through.
        :param console_tokens: the same of consoles' tokens.
        """
        for answers in faults:
            for answer in answers or [None]:
                self.fail(answer)
                self.call_all()
        self.fail(None)
        self.give(WRONG)
        self.call_all()
        self.assertGreater(len(self.watch.exceptions), exceptions)
        self.assertGreater(len(self.host_cloud.console_tokens),
                           console_tokens)
        self.assert_no_secret()

    def test_failure_of_an_action_is_told_without_what_was_sent(self):
        self.host_cloud.fail('GET', '/servers/', (500, ECHO), times=10000)
        with self.acquire() as task:
            error = self.call(lambda: task.driver.power.validate(task))
        self.assert_says(error, 'answered 500 to GET', 'You sent',
                         'X-Auth-Token: ***')

    def test_what_a_guest_writes_is_not_logged(self):
        self.server.console_log = 'Password of root: trustno1'
        with self.acquire() as task:
            self.assertIn('trustno1',
                          task.driver.vendor.console_log(task)['output'])
        self.assertIn('curl -g -i -X', self.watch.text)
        self.assertNotIn('trustno1', self.watch.text)

    def test_token_is_renewed_without_being_shown(self):
        self.call_all()
        self.host_cloud.fail('GET', '/servers/', (401, 'Expired'), times=1)
        with self.acquire() as task:
            self.clock.sleep(100)
            self.assertEqual(states.POWER_ON,
                             task.driver.power.get_power_state(task))
        self.assert_no_secret()


class OwnCredentialSecrecyTestCase(SecrecyTestCase):
    """The application credential of a node."""

    def setUp(self):
        super().setUp()
        self.give(SECRET)

    def give(self, secret):
        self.set_driver_info(
            quintupleo_application_credential_id='abc',
            quintupleo_application_credential_secret=secret)

    def test_mistakes_beside_a_secret(self):
        for wrong in ({'quintupleo_server': 7},
                      {'quintupleo_server': None},
                      {'quintupleo_auth_url': 'http://evil.test/'},
                      {'quintupleo_region_name': '{auth}'},
                      {'quintupleo_rescue_image': 'x\n'},
                      {'quintupleo_cloud': 'machines'},
                      {'quintupleo_application_credential_id': None},
                      {'quintupleo_application_credential_secret': [SECRET]},
                      {'quintupleo_application_credential_secret':
                       SECRET + '\n'},
                      {'quintupleo_application_credential_secret':
                       SECRET * 20}):
            before = self.node.driver_info
            self.set_driver_info(**wrong)
            with self.acquire() as task:
                self.assertIsNotNone(self.call(
                    lambda task=task: task.driver.power.validate(task)))
            self.node.driver_info = before
            self.node.save()
        self.call_all()
        self.assert_no_secret()


class CloudsYamlSecrecyTestCase(SecrecyTestCase):
    """An entry of clouds.yaml."""

    def setUp(self):
        super().setUp()
        self.config(auth_type=None, auth_url=None, password=None,
                    cloud='machines', group='quintupleo')
        self.path = pathlib.Path(
            self.create_tempfiles([('clouds', '')], ext='.yaml')[0])
        self.useFixture(host_cloud_fixture.CloudsYaml(str(self.path)))
        self.give(SECRET)

    def give(self, secret):
        self.write(password=secret)

    def write(self, password, auth_url=AUTH_URL):
        self.path.write_text(CLOUDS_YAML.format(
            auth_url=auth_url, password=password))

    def refused(self, *parts):
        self.forget_clouds()
        with self.acquire() as task:
            error = self.call(lambda: task.driver.power.validate(task))
        self.assertIsInstance(error, exception.InvalidParameterValue)
        self.assert_says(error, *parts)

    def test_passwords_that_are_no_yaml(self):
        self.call_all()
        for mark in '*!@%`[{':
            self.write(password=mark + SECRET)
            self.refused('clouds.yaml')
            self.write(password=f'{SECRET}\n\t- {mark}{SECRET}')
            self.refused('clouds.yaml')
        self.refused(f'{self.path} is not YAML from line 8')
        self.assert_no_secret()

    def test_entries_of_another_form(self):
        self.call_all()
        for text in (f'- {SECRET}', SECRET, f'clouds: {SECRET}',
                     f'clouds: [{SECRET}]', f'clouds: {{machines: {SECRET}}}',
                     f'clouds: {{machines: {{auth: {SECRET}}}}}',
                     f'clouds: {{machines: {{auth: [{SECRET}]}}}}',
                     f'clouds: {{machines: {{x: "{{auth}}", auth: '
                     f'{{password: {SECRET}}}}}}}',
                     f'clouds: {{machines: {{x: "{{", auth: '
                     f'{{auth_url: "{AUTH_URL}", password: {SECRET}}}}}}}'):
            self.path.write_text(text)
            self.refused('clouds.yaml')
        self.assert_no_secret()

    def test_password_that_is_no_text(self):
        self.call_all()
        for password in ('[swordfish]', '{a: swordfish}', '12345678'):
            self.write(password=password)
            self.fail(('POST', '/auth/tokens', (400, ECHO)))
            self.refused('answered 400 to POST')
        for secret in ('swordfish', '12345678'):
            self.assertNotIn(secret, self.watch.text)
        self.assert_no_secret()

    def test_region_of_a_node_is_no_template(self):
        self.call_all()
        for region in ('{auth[password]}', '{auth}', '{password}', '{'):
            self.set_driver_info(quintupleo_region_name=region)
            self.refused('quintupleo_region_name', 'without braces')
        self.assert_no_secret()

    def test_auth_url_with_a_password_is_not_used(self):
        self.call_all()
        self.write(password=SECRET, auth_url=AUTH_URL.replace(
            '//', f'//operator:{WRONG}@'))
        self.refused('auth_url must not hold a user name or password')
        self.assert_no_secret()


class SectionSecrecyTestCase(SecrecyTestCase):
    """The application credential of section [quintupleo]."""

    def configure_auth(self, auth_type, **options):
        super().configure_auth(
            'v3applicationcredential', application_credential_id='abc',
            application_credential_secret=SECRET)

    def give(self, secret):
        self.config(application_credential_secret=secret, group='quintupleo')

    def test_auth_url_with_a_password_is_not_used(self):
        self.call_all()
        self.config(group='quintupleo', auth_url=AUTH_URL.replace(
            '//', f'//operator:{WRONG}@'))
        self.forget_clouds()
        with self.acquire() as task:
            error = self.call(lambda: task.driver.power.validate(task))
        self.assert_says(error, 'auth_url must not hold', 'http://***@key')
        self.assert_no_secret()


class RepresentationTestCase(base.DriverTestCase):

    def test_objects_that_hold_credentials(self):
        credentials = connection.Credentials(
            application_credential_id='abc',
            application_credential_secret=SECRET)
        host = cloud.get(credentials)
        shown = repr((credentials, host, vars(host), host.compute.__dict__))
        self.assertNotIn(SECRET, shown)


class RedactionTestCase(base.DriverTestCase):

    def test_texts(self):
        for text, cleaned in (
                ('to http://user:pass@host/v3 ', 'to http://***@host/v3'),
                ('http://a:b@h http://c@h', 'http://***@h http://***@h'),
                ('mail me@home http://host/@x', 'mail me@home http://host/@x'),
                ('one\ntwo\x00three', 'one two?three')):
            self.assertEqual(cleaned, redaction.clean(text))

    def test_length(self):
        self.assertLess(len(redaction.clean('x' * 100000)), 1000)

    def test_short_secrets_do_not_spoil_sentences(self):
        self.assertEqual('a server', redaction.clean(
            'a server', type('Auth', (), {'__init__': lambda self: setattr(
                self, 'password', 'e')})()))


class MaskingTestCase(base.DriverTestCase):

    def test_ironic_masks_the_keys_that_hold_secrets(self):
        secrets = [
            field.name for field in dataclasses.fields(connection.Credentials)
            if re.search('secret|password|token', field.name)]
        self.assertEqual(['application_credential_secret'], secrets)
        self.set_driver_info(**{f'quintupleo_{name}': SECRET
                                for name in secrets})
        self.assertNotIn(SECRET, str(self.node.as_dict(secure=True)))
