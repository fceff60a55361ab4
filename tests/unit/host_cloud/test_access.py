# SPDX-License-Identifier: Apache-2.0
"""Where the conductor goes with which credentials, and where it does not."""

import re
from urllib import parse

import fixtures
import yaml

from quintupleo_power.host_cloud import clouds_yaml
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from tests.unit import host_cloud_fixture
from tests.unit.interfaces import test_validate as validation

AUTH_URL = host_cloud_fixture.AUTH_URL
SECRET = host_cloud_fixture.SECRET
ELSEWHERE = 'http://evil.example.test'

CLOUDS_YAML = f"""
clouds:
  machines:
    auth:
      auth_url: {AUTH_URL}
      username: operator
      password: {SECRET}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
    cacert: /etc/ssl/machines.pem
    api_timeout: 17
    interface: internal
    region_name: RegionOne
    compute_endpoint_override: http://nova.example.test/v2.1
    image_endpoint_override: http://glance.example.test/v2
    network_endpoint_override: http://neutron.example.test/v2.0
"""


class StrayingHostCloud(host_cloud_fixture.FakeHostCloud):
    """A host cloud that sends some requests elsewhere.

    :ivar redirections: (regular expression of the URL, status, location).
    :ivar went: URLs of all requests.
    """

    def __init__(self):
        super().__init__()
        self.redirections = []
        self.went = []

    def _answer(self, request, context):
        self.went.append(request.url)
        for pattern, status, location in self.redirections:
            if re.search(pattern, request.url):
                context.status_code = status
                context.headers['Location'] = location
                return ''
        return super()._answer(request, context)


class AccessTestCase(validation.ValidateTestCase):

    def make_host_cloud(self):
        return StrayingHostCloud()

    def use_own_credential(self, **values):
        self.set_driver_info(
            quintupleo_application_credential_id='abc',
            quintupleo_application_credential_secret=SECRET, **values)

    def assert_stayed(self):
        self.assertEqual([], [url for url in self.host_cloud.went
                              if not url.startswith((
                                  AUTH_URL, 'http://nova.example.test',
                                  'http://glance.example.test'))])


class RedirectionTestCase(AccessTestCase):

    def test_identity_that_redirects_elsewhere_gets_no_credentials_there(
            self):
        self.use_own_credential()
        for status in (301, 302, 303, 305, 307, 308):
            self.host_cloud.redirections = [
                ('/auth/tokens', status, ELSEWHERE + '/v3/auth/tokens')]
            self.invalid(f'{AUTH_URL}/auth/tokens redirects to {ELSEWHERE}',
                         'not followed')
        self.assert_stayed()

    def test_choices_of_the_identity_service_are_not_followed(self):
        self.use_own_credential()
        self.host_cloud.redirections = [
            ('/auth/tokens', 300, ELSEWHERE + '/v3/auth/tokens')]
        self.invalid()
        self.assert_stayed()

    def test_compute_that_redirects_elsewhere_gets_no_token_there(self):
        self.host_cloud.redirections = [
            ('/servers/', 302, ELSEWHERE + '/servers/')]
        self.invalid('redirects to', 'not followed')
        self.assert_stayed()

    def test_redirection_on_the_same_host_is_followed(self):
        self.host_cloud.redirections = [
            ('/v2.1$', 302, 'http://nova.example.test/v2.1/')]
        self.validate()

    def test_tls_is_not_given_up(self):
        self.config(auth_url=AUTH_URL.replace('http:', 'https:'),
                    group='quintupleo')
        self.host_cloud.redirections = [('https://', 302, AUTH_URL)]
        self.invalid('redirects to')
        self.assertTrue(all(url.startswith('https:')
                            for url in self.host_cloud.went))


class DiscoveryTestCase(AccessTestCase):

    def test_links_of_discovery_documents_lead_nowhere_else(self):
        for service in ('KEYSTONE', 'NOVA', 'GLANCE'):
            self._mislead(service)
        self.validate()
        self.use_own_credential()
        self.validate()
        self.assert_stayed()

    def _mislead(self, service):
        answer = getattr(self.host_cloud, f'_{service.lower()}')

        def misleading(request, context):
            body = answer(request, context)
            found = isinstance(body, dict) and (
                body.get('versions') or [body.get('version')])
            for version in filter(None, found or []):
                for link in version['links']:
                    link['href'] = ELSEWHERE + parse.urlsplit(
                        link['href']).path
            return body

        self.useFixture(fixtures.MockPatchObject(
            self.host_cloud, f'_{service.lower()}', misleading))


class CloudOfTheNodeTestCase(AccessTestCase):

    def setUp(self):
        super().setUp()
        self.use_clouds_yaml()

    def test_all_entries_are_allowed_by_default(self):
        self.set_driver_info(quintupleo_cloud='machines')
        self.validate()

    def test_entry_that_is_allowed(self):
        self.config(allowed_clouds=['half', 'machines'], group='quintupleo')
        self.set_driver_info(quintupleo_cloud='machines')
        self.validate()

    def test_entry_that_is_not_allowed(self):
        for allowed in (['half'], []):
            self.config(allowed_clouds=allowed, group='quintupleo')
            self.set_driver_info(quintupleo_cloud='machines')
            self.invalid('quintupleo_cloud', 'not permitted',
                         '[quintupleo]allowed_clouds')
        self.assertEqual([], self.host_cloud.went)

    def test_allowed_entries_do_not_concern_the_configured_one(self):
        self.config(cloud='machines', allowed_clouds=[], group='quintupleo')
        self.validate()

    def test_environment_of_the_conductor_is_no_entry(self):
        for name, value in (('AUTH_URL', AUTH_URL), ('USERNAME', 'operator'),
                            ('PASSWORD', SECRET), ('PROJECT_NAME', 'x')):
            self.useFixture(
                fixtures.EnvironmentVariable(f'OS_{name}', value))
        self.set_driver_info(quintupleo_cloud='envvars')
        self.invalid("'envvars'", 'environment of the conductor')
        self.assertEqual([], self.host_cloud.went)


class OwnCredentialTestCase(AccessTestCase):
    """A node's application credential beside the configured cloud."""

    def use_entry(self):
        path = self.create_tempfiles([('clouds', CLOUDS_YAML)],
                                     ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))
        self.config(auth_type=None, auth_url=None, password=None,
                    cloud='machines', group='quintupleo')

    def connect(self, **values):
        compute, image, *_rest = connection.connect(
            connection.Credentials(application_credential_id='abc',
                                   application_credential_secret=SECRET,
                                   **values))
        return compute._rest, image._rest

    def test_entry_decides_all_but_the_credential(self):
        self.use_entry()
        compute, image = self.connect()
        self.assertEqual('/etc/ssl/machines.pem', compute.session.verify)
        self.assertEqual(17, compute.session.timeout)
        self.assertEqual('internal', compute.interface)
        self.assertEqual('RegionOne', compute.region_name)
        self.assertEqual('http://nova.example.test/v2.1',
                         compute.endpoint_override)
        self.assertEqual('http://glance.example.test/v2',
                         image.endpoint_override)
        *_rest, network = connection.connect(
            connection.Credentials(cloud='machines'))
        self.assertEqual('http://neutron.example.test/v2.0',
                         network._rest.endpoint_override)
        self.use_own_credential()
        self.validate()
        tokens = [body for body in self.host_cloud.bodies if body]
        self.assertIn('application_credential', tokens[0])
        self.assertNotIn('operator', tokens[0])

    def test_entry_is_meant_by_its_address_too(self):
        self.use_entry()
        for url in (AUTH_URL, AUTH_URL + '/'):
            compute, _image = self.connect(auth_url=url)
            self.assertEqual('/etc/ssl/machines.pem', compute.session.verify)

    def test_another_cloud_gets_nothing_of_the_entry(self):
        self.use_entry()
        self.config(cafile='/etc/ssl/other.pem', group='quintupleo')
        compute, image = self.connect(auth_url='http://other.test/v3')
        self.assertEqual('/etc/ssl/other.pem', compute.session.verify)
        self.assertIsNone(compute.endpoint_override)
        self.assertIsNone(image.endpoint_override)
        self.assertIsNone(compute.region_name)

    def test_section_decides_all_but_the_credential(self):
        self.config(endpoint_override='http://nova.example.test/v2.1',
                    cafile='/etc/ssl/own.pem', group='quintupleo')
        compute, _image = self.connect()
        self.assertEqual('/etc/ssl/own.pem', compute.session.verify)
        self.assertEqual('http://nova.example.test/v2.1',
                         compute.endpoint_override)
        compute, _image = self.connect(auth_url='http://other.test/v3')
        self.assertIsNone(compute.endpoint_override)


class ReferenceTestCase(AccessTestCase):
    """Names and UUIDs that try to become another path or query."""

    TRICKS = ('../os-keypairs', '..', '.', '/', '//evil.example.test/',
              'detail', 'detail?all_tenants=1', '?all_tenants=1',
              'machine-0&all_tenants=1', '#', 'x#/action', '%2e%2e%2f',
              '%00', 'a%0d%0aX-Auth-Token: b', '.*', '^', '(', '[', '\\',
              "' OR 1=1 --", '${jndi:ldap://x}', '{0.__class__}', '%s%n')

    def test_server(self):
        for name in self.TRICKS:
            self.set_driver_info(quintupleo_server=name)
            self.invalid('No server is named')
        self.assertEqual(
            {'/v2.1/', '/v2.1/servers/detail', '/v3', '/v3/auth/tokens'},
            {request.split()[1] for request in self.host_cloud.requests})
        self.assertFalse(any('all_tenants=' in url
                             for url in self.host_cloud.went))
        self.assert_stayed()

    def test_rescue_image(self):
        for name in self.TRICKS:
            self.set_driver_info(quintupleo_rescue_image=name)
            self.invalid('No image is named')
        self.assert_stayed()
        self.assertFalse(any('all_tenants=' in url
                             for url in self.host_cloud.went))

    def test_uuid_in_another_form_is_the_same_server(self):
        for form in ('{%s}', 'urn:uuid:%s', '%s-', '-%s'):
            self.set_driver_info(quintupleo_server=form % self.server.id)
            self.validate()
        self.set_driver_info(quintupleo_server=self.server.id.upper())
        self.validate()
        self.assertTrue(any(url.endswith('/servers/' + self.server.id)
                            for url in self.host_cloud.went))
        self.assertFalse(any('urn' in url for url in self.host_cloud.went))


class OlderSdkTestCase(validation.ValidateTestCase):

    def test_clouds_yaml_that_older_openstacksdk_cannot_parse(self):
        # 3.0 lets the parser's error out, which quotes what it read.
        def parse():
            raise yaml.YAMLError(SECRET)

        self.useFixture(fixtures.MockPatchObject(
            clouds_yaml.sdk_config, 'OpenStackConfig', parse))
        error = self.assertRaises(errors.CloudMisconfigured,
                                  connection.connect,
                                  connection.Credentials(cloud='machines'))
        self.assert_says(error, "no usable entry 'machines'")
