# SPDX-License-Identifier: Apache-2.0
"""A node's driver_info: what is read of it, and each mistake in it."""

from ironic.common import exception
from ironic.tests.unit.objects import utils as objects_utils

from quintupleo_power.node import driver_info
from tests.unit import base
from tests.unit import host_cloud_fixture

SECRET = host_cloud_fixture.SECRET
URL = host_cloud_fixture.AUTH_URL


class ParsingTestCase(base.DriverTestCase):
    """What the tests of parsing have in common."""

    def parse(self, **values):
        node = objects_utils.get_test_node(self.context, driver_info={
            f'quintupleo_{key}': value for key, value in values.items()})
        return driver_info.parse(node)

    def invalid(self, *parts, **values):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.parse, **{'server': 'm', **values})
        self.assert_says(error, *parts)

    def missing(self, *parts, **values):
        error = self.assertRaises(exception.MissingParameterValue,
                                  self.parse, **values)
        self.assert_says(error, *parts)

    def tearDown(self):
        # Parsing must never cost a request.
        self.assertEqual([], self.host_cloud.requests)
        super().tearDown()


class DriverInfoTestCase(ParsingTestCase):

    def test_only_the_server_is_required(self):
        info = self.parse(server='machine-0')
        self.assertEqual('machine-0', info.server)
        self.assertIsNone(info.rescue_image)
        self.assertIsNone(info.credentials.cloud)

    def test_every_key_is_read(self):
        info = self.parse(
            server='machine-0', auth_url=URL, region_name='RegionOne',
            application_credential_id='abc',
            application_credential_secret=SECRET, rescue_image='mine',
            empty_image='blank')
        self.assertEqual(('mine', 'blank'),
                         (info.rescue_image, info.empty_image))
        self.assertEqual(
            (None, URL, 'abc', SECRET, 'RegionOne'),
            (info.credentials.cloud, info.credentials.auth_url,
             info.credentials.application_credential_id,
             info.credentials.application_credential_secret,
             info.credentials.region_name))

    def test_cloud_is_read(self):
        self.assertEqual('east', self.parse(
            server='m', cloud='east').credentials.cloud)

    def test_keys_of_others_are_left_alone(self):
        node = objects_utils.get_test_node(self.context, driver_info={
            'quintupleo_server': 'm', 'deploy_kernel': 7})
        self.assertEqual('m', driver_info.parse(node).server)

    def test_space_around_a_value_does_not_count(self):
        self.assertEqual('machine-0', self.parse(server=' machine-0 ').server)

    def test_parsed_value_cannot_be_changed(self):
        info = self.parse(server='m')
        self.assertRaises(AttributeError, setattr, info, 'server', 'n')
        self.assertRaises(AttributeError, setattr, info.credentials,
                          'cloud', 'n')

    def test_secret_is_not_in_the_representation(self):
        info = self.parse(server='m', application_credential_id='abc',
                          application_credential_secret=SECRET)
        self.assertNotIn(SECRET, repr(info))
        self.assertIn('abc', repr(info))

    def test_server_is_missed(self):
        self.missing('quintupleo_server', cloud='east')
        self.missing('quintupleo_server', server=None)

    def test_empty_values_are_refused(self):
        for value in ('', '  ', 0, 7, True, ['m'], {'m': 1}):
            self.invalid('driver_info/quintupleo_server',
                         'must be a string that is not empty', server=value)

    def test_wrong_secret_is_refused_without_showing_it(self):
        self.invalid('quintupleo_application_credential_secret',
                     application_credential_id='abc',
                     application_credential_secret=[SECRET])

    def test_very_long_value_is_refused(self):
        self.invalid('at most 255', server='m' * 256)

    def test_control_characters_are_refused(self):
        self.invalid('printable', server='machine\n0')

    def test_cloud_and_application_credential_contradict_each_other(self):
        self.invalid('both quintupleo_cloud and '
                     'quintupleo_application_credential_id', 'remove one',
                     cloud='east', application_credential_id='abc',
                     application_credential_secret=SECRET)

    def test_cloud_and_auth_url_contradict_each_other(self):
        self.invalid('both quintupleo_cloud and quintupleo_auth_url',
                     cloud='east', auth_url=URL)

    def test_application_credential_needs_its_secret(self):
        self.missing('lacks driver_info/'
                     'quintupleo_application_credential_secret',
                     server='m', application_credential_id='abc')

    def test_application_credential_needs_its_id(self):
        self.missing('lacks driver_info/quintupleo_application_credential_id',
                     server='m', application_credential_secret=SECRET)

    def test_auth_url_alone_needs_an_application_credential(self):
        self.missing('lacks driver_info/quintupleo_application_credential_id',
                     server='m', auth_url=URL)


class AuthUrlTestCase(ParsingTestCase):

    def setUp(self):
        super().setUp()
        self.config(auth_type=None, auth_url=None, group='quintupleo',
                    allowed_auth_urls=['https://a.example.test/identity/',
                                       'https://b.example.test:5000'])

    def parse_url(self, url):
        return self.parse(server='m', auth_url=url,
                          application_credential_id='abc',
                          application_credential_secret=SECRET)

    def test_allowed_urls_allow_themselves_and_what_is_below(self):
        for url in ('https://a.example.test/identity',
                    'https://a.example.test/identity/',
                    'https://a.example.test/identity/v3',
                    'https://b.example.test:5000/v3'):
            self.assertEqual(url, self.parse_url(url).credentials.auth_url)

    def test_other_urls_are_refused(self):
        for url in ('https://evil.example.test/identity',
                    'https://a.example.test/',
                    'https://a.example.test/identityevil',
                    'http://a.example.test/identity',
                    'https://b.example.test:5000.evil.example.test/v3',
                    'https://b.example.test:5000@evil.example.test/v3',
                    'https://b.example.test:50001/v3',
                    'https://a.example.test/identity/../evil',
                    'https://a.example.test/identity/%2e%2e/evil'):
            error = self.assertRaises(exception.InvalidParameterValue,
                                      self.parse_url, url)
            self.assert_says(error, 'quintupleo_auth_url is not permitted',
                             '[quintupleo]allowed_auth_urls')

    def test_nothing_is_allowed_by_default(self):
        self.config(allowed_auth_urls=[], group='quintupleo')
        self.assertRaises(exception.InvalidParameterValue, self.parse_url,
                          'https://a.example.test/identity')

    def test_the_configured_clouds_own_url_is_allowed(self):
        self.config(auth_type='password', auth_url=URL + '/',
                    allowed_auth_urls=[], group='quintupleo')
        self.assertEqual(URL, self.parse_url(URL).credentials.auth_url)
