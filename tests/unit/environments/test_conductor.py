# SPDX-License-Identifier: Apache-2.0
"""An environment with an Ironic of its own: a role of kind ironic."""

import base64
import contextlib
import itertools
import json
import logging
import ssl
import tempfile
from unittest import mock

from keystoneauth1 import session
from openstack.config import cloud_region
from openstack import exceptions
import yaml

from quintupleo_power.environments import conductor
from quintupleo_power.environments import definition
from quintupleo_power.environments import environment
from quintupleo_power.environments import errors
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import plan
from quintupleo_power.environments import retry
from tests.unit.environments import fake_connection
from tests.unit.environments import test_environment
from tests.unit.environments import test_images
from tests.unit import host_cloud_fixture

FILE = '''
networks:
  control: {port_security: true, subnets: [{cidr: 198.51.100.0/24}]}
  provision:
    subnets:
    - {cidr: 192.0.2.0/24, gateway: 192.0.2.254, dns: [203.0.113.53]}
  public: {existing: public}
routers:
  edge: {networks: [control, provision], external_network: public}
roles:
  undercloud:
    kind: ironic
    flavor: small
    nics:
    - {network: control, floating_ip: public, address: 198.51.100.5}
    - {network: provision, address: 192.0.2.10}
  node:
    count: 2
    flavor: small
    nics: [{network: provision}]
'''
KEYS = ('quintupleo_ironic', 'quintupleo_ironic_nodes',
        'quintupleo_ironic_seen')


def debug_log(case):
    """Return a context that has what keystoneauth logs of requests."""
    # Alembic switches all loggers off that are there when it is set up.
    logging.getLogger('keystoneauth.session').disabled = False
    return case.assertLogs('keystoneauth.session', 'DEBUG')


class LabTestCase(test_environment.EnvironmentTestCase):

    def setUp(self):
        super().setUp()
        self.before.add(self.cloud.add(
            'image', name='quintupleo-conductor', properties={}).id)
        self.reports = [('ready', 'available 2', '2')]
        get_server = self.cloud.compute.get_server

        def report(server_id):
            """Report as the server with Ironic does, a step each time."""
            server = get_server(server_id)
            if {'quintupleo_access', 'quintupleo_made'} <= set(
                    server.metadata):
                values = (self.reports.pop(0) if len(self.reports) > 1
                          else self.reports[0])
                server.metadata.update(
                    (name, value) for name, value in zip(KEYS, values,
                                                         strict=True)
                    if value is not None)
            return server

        self.cloud.compute.get_server = report

    def create(self, text=FILE, name='env', **options):
        return super().create(text, name, **options)

    def undercloud(self):
        return self.server('env-undercloud-0')

    def user_data(self):
        text = base64.b64decode(self.undercloud().user_data).decode()
        self.assertTrue(text.startswith('#cloud-config\n'))
        return yaml.safe_load(text)

    def access(self):
        """Return what it takes to use the environment's Ironic."""
        environments = self.environments()
        return environments.access(environments.get('env'))

    def content(self):
        return json.loads(self.user_data()['write_files'][0]['content'])

    def access_images(self):
        return [image for image in self.cloud.all('record')
                if image.name == 'quintupleo-access-env']

    def assert_consistent(self):
        """One server, its access image and its application credential."""
        image, = self.access_images()
        credential, = self.cloud.all('credential')
        server, = [server for server in self.cloud.all('server')
                   if server.name == 'env-undercloud-0']
        self.assertEqual(image.id, server.metadata['quintupleo_access'])
        content = self.content()
        self.assertEqual(
            (credential.id, credential.secret),
            tuple(content['cloud']['auth'][f'application_credential_{key}']
                  for key in ('id', 'secret')))
        kept = json.loads(image.data)
        self.assertEqual(kept, {key: content['api'][key] for key in kept})

    def secrets(self):
        """All that has to be in no output."""
        content = self.content()
        return [content['api']['password'], content['api']['key'],
                content['cloud']['auth']['application_credential_secret'],
                self.undercloud().user_data]


class CreateTestCase(LabTestCase):

    def test_user_data(self):
        self.create()
        file, = self.user_data()['write_files']
        self.assertEqual(('/etc/quintupleo/environment.json', '0600'),
                         (file['path'], file['permissions']))
        found = json.loads(file['content'])
        credential, = self.cloud.all('credential')
        api = found['api']
        self.assertEqual({
            'environment': 'env',
            'cloud': {
                'auth_type': 'v3applicationcredential',
                'auth': {
                    'auth_url': fake_connection.AUTH_URL,
                    'application_credential_id': credential.id,
                    'application_credential_secret': credential.secret},
                'region_name': 'here', 'interface': 'public',
                'verify': True, 'identity_api_version': '3'},
            'cacert': None,
            'api': {'url': 'https://203.0.113.9:6385', 'username': 'admin',
                    'password': api['password'],
                    'certificate': api['certificate'], 'key': api['key']},
            'provision': {
                'address': '192.0.2.10/24',
                'mac': self.port('env-undercloud-0-1').mac_address,
                'gateway': '192.0.2.254', 'dns': ['203.0.113.53'],
                'default_route': False},
            'redfish': False}, found)
        self.assertGreaterEqual(len(api['password']), 20)
        self.assertTrue(self.undercloud().has_config_drive)
        self.assertEqual(self.cloud.find('image', 'quintupleo-conductor',
                                         True).id, self.undercloud().image_id)
        self.assertNotIn(fake_connection.PASSWORD, str(found))

    def test_alone_on_its_network(self):
        self.create('''
            networks: {one: {subnets: [{cidr: 192.0.2.0/25}]}}
            roles:
              undercloud: {kind: ironic, flavor: small, redfish: true,
                           nics: [{network: one, address: 192.0.2.9}]}
            ''', wait=False)
        found = self.content()
        self.assertEqual(
            {'address': '192.0.2.9/25', 'gateway': None, 'dns': [],
             'default_route': True,
             'mac': self.port('env-undercloud-0-0').mac_address},
            found['provision'])
        self.assertEqual(('https://192.0.2.9:6385', True),
                         (found['api']['url'], found['redfish']))

    def test_certificate(self):
        self.create()
        api = self.content()['api']
        for name in ('203.0.113.9', '198.51.100.5', '192.0.2.10'):
            _handshake(api, name)
        with self.assertRaises(ssl.SSLCertVerificationError):
            _handshake(api, '192.0.2.11')

    def test_application_credential(self):
        self.create()
        self.assert_consistent()
        credential, = self.cloud.all('credential')
        self.assertEqual(
            (fake_connection.USER, False, None),
            (credential.user, credential.unrestricted, credential.roles))
        self.assertTrue(credential.name.startswith(
            f'quintupleo-environment-env-{fake_connection.PROJECT}-'))
        self.assertEqual([False], self.cloud.identity.logged)

    def test_access_is_kept(self):
        self.create()
        image, = self.access_images()
        self.assertEqual(
            ('raw', 'private', 'yes', 'env'),
            tuple(image.body[name] for name in (
                'disk_format', 'visibility', 'quintupleo_access',
                'quintupleo_environment')))
        self.assertIn('quintupleo=env', image.body['tags'])
        access = self.access()
        self.assertEqual({'url', 'username', 'password', 'certificate'},
                         set(access))
        self.assertEqual(self.content()['api']['password'],
                         access['password'])

    def test_access_of_an_environment_without_ironic(self):
        self.create('roles: {}')
        with self.assert_failure('"env" has no server of kind ironic'):
            self.access()

    def test_ca_of_the_host_cloud(self):
        with mock.patch.object(self.cloud.config, 'get_requests_verify_args',
                               autospec=True, return_value=(__file__, None)):
            self.create()
        with open(__file__) as source:
            self.assertEqual(source.read(), self.content()['cacert'])
        self.assertTrue(self.content()['cloud']['verify'])

    def test_ca_that_cannot_be_used(self):
        path = '/nowhere/ca.pem'
        with mock.patch.object(self.cloud.config, 'get_requests_verify_args',
                               autospec=True, return_value=(path, None)), \
                self.assert_failure('host cloud cannot be read', path):
            self.create()
        self.assertEqual([], self.cloud.all('credential'))
        with mock.patch('pathlib.Path.read_text', autospec=True,
                        return_value='x' * 50000), \
                mock.patch.object(
                    self.cloud.config, 'get_requests_verify_args',
                    autospec=True, return_value=(path, None)), \
                self.assert_failure('Role "undercloud": its user data has',
                                    'takes 65535', 'CA file'):
            self.create()
        self.create()
        self.assert_consistent()

    def test_other_credentials(self):
        other = cloud_region.CloudRegion('other', 'there', {
            'auth_type': 'v3oidcpassword', 'region_name': 'there',
            'verify': False, 'auth': {'auth_url': 'x', 'password': 'y'}})
        self.create(ironic_cloud=other)
        self.assertEqual(
            {'auth_type': 'v3oidcpassword', 'region_name': 'there',
             'auth': {'auth_url': 'x', 'password': 'y'}, 'verify': False,
             'identity_api_version': '3'}, self.content()['cloud'])
        self.assertEqual([], self.cloud.all('credential'))
        self.environments().delete('env')
        self.assertEqual([], self.added())
        self.assertNotIn('pplication credential', self.shown.getvalue())

    def test_keystone_refuses(self):
        self.cloud.identity.refuses = True
        with self.assert_failure(
                'Keystone refuses the application credential',
                'not authorized', '--ironic-os-cloud'):
            self.create()
        self.environments().delete('env')
        self.assertEqual([], self.added())

    def test_image_that_is_missing(self):
        self.cloud.find('image', 'quintupleo-conductor', True).name = 'other'
        with self.assert_failure(
                'no image "quintupleo-conductor"', 'make it with "'
                'tools/build-conductor-image" and "openstack quintupleo '
                'image create --conductor-image <file>"'):
            self.create()

    def test_preview(self):
        names, costs = self.environments().preview(
            test_environment.parse(FILE), 'env')
        self.assertNotIn('access images', names)
        self.assertNotIn('access images', {each.what for each
                                           in costs})

    def test_floating_ip_is_before_the_server(self):
        items = plan.items(test_environment.parse(FILE))
        keys = list(items)
        floating_ip = 'fip.port.undercloud.0.0'
        server = 'server.undercloud.0'
        self.assertIn(floating_ip, items[server].after)
        self.assertLess(keys.index(floating_ip), keys.index(server))
        self.assertEqual(1, keys.count(floating_ip))
        self.assertNotIn(server, items[floating_ip].after)

    def test_definition_holds_no_secret(self):
        self.create()
        stored = self.environments()._store.require('env')
        for secret in self.secrets():
            self.assertNotIn(secret, stored.definition.text)
            self.assertNotIn(secret, str(stored.definition.user_data))


class AgainTestCase(LabTestCase):

    def test_again_changes_nothing(self):
        self.create()
        changes = self.cloud.changes
        self.create()
        self.assertEqual(changes, self.cloud.changes)
        self.assert_consistent()

    def test_server_that_is_lost(self):
        self.create()
        old = self.secrets()
        self.cloud.compute.delete_server(self.undercloud().id, True)
        self.assertEqual(environment.INCOMPLETE,
                         self.environments().get('env').status)
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assert_consistent()
        self.assertFalse(set(old) & set(self.secrets()))

    def test_server_that_nova_cannot_build(self):
        self.cloud.build_errors = 3
        with self.assert_failure('Nova did not build server'):
            self.create()
        self.cloud.build_errors = 0
        self.create()
        self.assert_consistent()

    def test_access_image_that_is_lost(self):
        self.create()
        server = self.undercloud().id
        image, = self.access_images()
        del self.cloud.things[image.id]
        self.assertEqual(environment.INCOMPLETE,
                         self.environments().get('env').status)
        self.cloud.all('credential')[0].name = 'left'
        self.create()
        self.assertNotEqual(server, self.undercloud().id)

    def test_lost_responses(self):
        self.create()
        for number, code in itertools.product(
                range(1, self.cloud.changes + 1), (500, 503)):
            with self.subTest(number=number, code=code):
                self.setUp()
                self.cloud.faults = {number: (False, exceptions.HttpException(
                    'busy', http_status=code))}
                made = self.create()
                self.assertEqual(environment.COMPLETE, made.status)
                self.assertEqual(len(made.resources), len(
                    {each.key for each in made.resources}))
                self.assert_consistent()

    def test_killed_anywhere(self):
        self.create()
        for number, before, then in itertools.product(
                range(1, self.cloud.changes + 1), (True, False),
                ('create', 'delete')):
            with self.subTest(number=number, before=before, then=then):
                self.setUp()
                self.cloud.faults = {
                    number: (before, fake_connection.Killed())}
                with contextlib.suppress(fake_connection.Killed):
                    self.create()
                self.cloud.deaf = False
                if then == 'create':
                    made = self.create()
                    self.assertEqual(environment.COMPLETE, made.status)
                    self.assertEqual(len(made.resources), len(
                        {each.key for each in made.resources}))
                    self.assert_consistent()
                self.environments().delete('env')
                self.assertEqual([], self.added())

    def test_delete_killed_anywhere(self):
        self.kill_deletion_anywhere()

    def test_two_commands_at_once(self):
        # The other one makes the server while this one makes its secrets.
        other = self.environments()
        create_server = self.cloud.compute.create_server

        def create_late(**attributes):
            if attributes['name'] == 'env-undercloud-0':
                self.cloud.compute.create_server = create_server
                other.create(test_environment.parse(FILE), 'env')
            return create_server(**attributes)

        self.cloud.compute.create_server = create_late
        with self.assert_failure('Another command made server '
                                 'env-undercloud-0', 'create again'):
            self.create()
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assert_consistent()
        self.environments().delete('env')
        self.assertEqual([], self.added())

    def test_two_commands_that_make_all_twice(self):
        self.create()
        first = self.environments().get('env')
        with mock.patch.object(self.environments()._inventory.__class__,
                               'read', autospec=True,
                               return_value={'env': []}), \
                contextlib.suppress(errors.EnvironmentsError):
            self.create(wait=False)
        self.assertGreater(len(self.environments().get('env').resources),
                           len(first.resources))
        self.create()
        self.assertEqual(1, len(self.cloud.all('credential')))
        self.assert_consistent()


class DeleteTestCase(LabTestCase):

    def test_nothing_stays(self):
        self.create()
        self.environments().delete('env')
        self.assertEqual([], self.added())
        self.assertNotIn('pplication credential', self.shown.getvalue())

    def test_half_made(self):
        with mock.patch.object(self.cloud.compute, 'create_server',
                               autospec=True,
                               side_effect=exceptions.ForbiddenException(
                                   'no', http_status=403)), \
                self.assert_failure('no'):
            self.create(FILE.replace('count: 2', 'count: 0'))
        self.assertEqual(1, len(self.cloud.all('credential')))
        self.environments().delete('env')
        self.assertEqual([], self.added())

    def test_of_another_user(self):
        self.create()
        credential, = self.cloud.all('credential')
        self.cloud.user_id = 'another'
        self.environments().delete('env')
        self.assertEqual([credential], self.added())
        self.assertIn(
            f'Application credential "{credential.name}" of user '
            f'{fake_connection.USER} cannot be removed', self.shown.getvalue())
        self.assertIn('"openstack application credential delete '
                      f'{credential.name}"', self.shown.getvalue())

    def test_by_a_restricted_application_credential(self):
        self.create()
        self.cloud.identity.refuses = True
        self.environments().delete('env')
        self.assertEqual(['credential'],
                         [thing.kind for thing in self.added()])
        self.assertIn('openstack application credential delete',
                      self.shown.getvalue())

    def test_image_of_another_project(self):
        self.create()
        image, = self.access_images()
        shared = self.cloud.add(
            'record', fake_connection.OTHER_PROJECT, name=image.name,
            body=dict(image.body))
        with mock.patch.object(
                self.cloud.image, 'images', autospec=True,
                side_effect=lambda owner, limit, tag=None: [
                    fake_connection.Thing(
                        id=each.id, owner_id=each.project_id,
                        created_at=each.created_at, properties=each.body)
                    for each in (image, shared)]):
            found, = self.environments().get('env').all(plan.ACCESS)
        self.assertEqual(image.id, found.id)


class WaitTestCase(LabTestCase):

    def test_progress_is_shown(self):
        self.reports = [
            (None, None, None), ('starting', None, None),
            ('enrolling', 'available 1, clean wait 1', '2'),
            ('ready', 'available 2', '2')]
        self.create()
        lines = [line for line in self.shown.getvalue().splitlines()
                 if line.startswith('env-undercloud-0: ')]
        self.assertEqual([
            'env-undercloud-0: booting', 'env-undercloud-0: starting',
            'env-undercloud-0: enrolling: available 1, clean wait 1',
            'env-undercloud-0: ready: available 2'], lines)

    def test_ready_without_having_seen_all_is_not_ready(self):
        self.reports = [('ready', 'available 1', '1'),
                        ('ready', 'available 2', '2')]
        self.create()
        self.assertEqual(
            '2', self.undercloud().metadata['quintupleo_ironic_seen'])

    def test_failed(self):
        for report in (('failed', 'no DHCP', None), ('failed', 'no', '2')):
            with self.subTest(report), self.assert_failure(
                    'The Ironic on server env-undercloud-0 (',
                    f'is not ready, but "failed: {report[1]}": "openstack '
                    'quintupleo environment logs env"'):
                self.setUp()
                self.reports = [report]
                self.create()

    def test_failed_before_all_were_there(self):
        self.reports = [('failed', 'no', '1'), ('enrolling', '', '2'),
                        ('ready', '', '2')]
        self.create()

    def test_nothing_changes(self):
        self.reports = [('enrolling', 'clean wait 2', '2')]
        with self.assert_failure(
                'is not ready, but "enrolling: clean wait 2" since 1 s: '
                '"openstack quintupleo environment logs env"'):
            self.create_within(1)

    def create_within(self, timeout):
        return self.environments(timeout=timeout).create(
            test_environment.parse(FILE), 'env')

    def test_without_waiting(self):
        self.reports = [('starting', None, None)]
        made = self.create(wait=False)
        self.assertEqual('booting', conductor.status(made.ironic.body))

    def test_scale(self):
        self.create()
        self.reports = [('ready', 'available 2', '2'),
                        ('enrolling', 'clean wait 1', '3'),
                        ('ready', 'available 3', '3')]
        found = self.environments().scale('env', 'node', 3)
        self.assertEqual('ready: available 3',
                         conductor.status(found.ironic.body))
        self.assertIn('clean wait 1', self.shown.getvalue())
        with self.assert_failure('roles.undercloud.count: an environment has '
                                 'one server with Ironic'):
            self.environments().scale('env', 'undercloud', 2)

    def test_node_is_not_stopped(self):
        self.create(wait=False)
        node = self.server('env-node-1')
        node.metadata['quintupleo_node'] = 'the UUID of a node'
        self.create()
        self.assertEqual('ACTIVE', node.status)
        self.assertEqual('SHUTOFF', self.server('env-node-0').status)


class ExistingNodesTestCase(LabTestCase):

    def test_all(self):
        self.create()
        found = self.environments().describe('env', 'host')
        self.assertEqual(self.environments().describe_nodes('env', 'host'),
                         found.nodes)
        ports = [self.port(f'env-node-{number}-0') for number in (0, 1)]
        self.assertEqual(
            {port.mac_address: port.fixed_ips[0]['ip_address']
             for port in ports}, found.addresses)

    def test_some(self):
        self.create(wait=False)
        self.server('env-node-0').status = 'ACTIVE'
        self.assert_nodes('env-node-0')
        self.server('env-node-1').status = 'ACTIVE'
        self.assert_nodes('env-node-0', 'env-node-1')
        del self.cloud.things[self.port('env-node-0-0').id]
        self.assert_nodes('env-node-1')
        del self.cloud.things[self.server('env-node-1').id]
        self.assert_nodes()

    def assert_nodes(self, *names):
        self.assertEqual([*names], [
            node['name'] for node in self.environments().describe('env').nodes
        ])

    def test_what_others_have_is_not_needed(self):
        self.create()
        self.cloud.find('image', 'quintupleo-conductor', True).name = 'gone'
        found = self.environments().describe('env')
        self.assertEqual(2, len(found.nodes))

    def test_unknown(self):
        with self.assert_failure('"other" does not exist'):
            self.environments().describe('other')


class SecretsTestCase(LabTestCase):

    def test_none_is_shown(self):
        self.create()
        for secret in self.secrets():
            self.assertNotIn(secret, self.shown.getvalue())
            for each in self.environments().get('env').resources:
                self.assertNotIn(secret, repr(each))

    def test_user_data_is_not_logged(self):
        self.environments()
        logger = self.cloud.compute.logger
        with debug_log(self) as logs:
            session.Session()._http_log_request(
                'http://nova', 'POST', logger=logger,
                json={'server': {'user_data': 'c2VjcmV0', 'name': 'a'}})
            logger.debug('{"OS-EXT-SRV-ATTR:user_data": "c2VjcmV0"}')
        self.assertEqual(2, len(logs.output))
        self.assertNotIn('c2VjcmV0', ''.join(logs.output))

    def test_user_data_that_nova_refuses_is_not_shown(self):
        def refuse(**attributes):
            raise exceptions.BadRequestException(
                'Invalid input for field user_data. Value: '
                + attributes['user_data'], http_status=400)

        with mock.patch.object(self.cloud.compute, 'create_server',
                               autospec=True, side_effect=refuse):
            try:
                self.create(FILE.replace('count: 2', 'count: 0'))
            except errors.EnvironmentsError as exc:
                text = str(exc)
        self.assertIn('Invalid input', text)
        self.assertLess(len(text), 200)


class OpenstacksdkTestCase(test_images.ImagesTestCase):
    """What is sent by openstacksdk, and what of it is in a debug log."""

    def setUp(self):
        super().setUp()
        catalog = self.glance._catalog
        self.glance._catalog = lambda: [*catalog(), {
            'type': 'identity', 'name': 'keystone', 'id': '1', 'endpoints': [{
                'interface': 'public', 'region': 'RegionOne', 'id': '2',
                'region_id': 'RegionOne',
                'url': host_cloud_fixture.AUTH_URL}]}]
        connection = self.connect()
        environment.Environments(connection, None)
        self.inventory = owned_resources.Inventory(connection,
                                                   retry.Retrier())

    def test_application_credential(self):
        self.glance.fail('POST', '/users/b{32}/application_credentials$', {
            'application_credential': {'id': '1', 'secret': 'swordfish'}})
        with debug_log(self) as logs:
            logging.getLogger('keystoneauth.session').debug('At least one.')
            made = conductor.create_credential(
                self.inventory, 'env', '12345678-9')
        self.assertEqual({'application_credential_id': '1',
                          'application_credential_secret': 'swordfish'}, made)
        self.assertNotIn('swordfish', '\n'.join(logs.output))
        body, = [body for body in self.glance.bodies if 'unrestricted' in body]
        self.assertEqual(
            {'name', 'description', 'unrestricted'},
            set(json.loads(body)['application_credential']))

    def test_user_data(self):
        self.glance.fail('POST', '/servers$', {'server': {'id': '1'}})
        with debug_log(self) as logs:
            server = self.inventory.connection.compute.create_server(
                name='a', flavor_id='1', image_id='2', networks='none',
                user_data='c3dvcmRmaXNo', metadata={'b': 'c'})
        self.assertEqual({'b': 'c'}, server.metadata)
        self.assertIn('c3dvcmRmaXNo', str(self.glance.bodies))
        self.assertNotIn('c3dvcmRmaXNo', '\n'.join(logs.output))

    def test_access_image(self):
        stored = mock.Mock(definition=None)
        stored.name = 'env'
        item = plan.Item('server.a.0', None)
        with debug_log(self) as logs:
            made = conductor.Conductor(self.inventory, stored)._create_image(
                item, {'password': 'swordfish'})
            found = self.inventory.find('env', 'access.a.0')
        self.assertEqual(made, found.id)
        self.assertEqual(
            ('yes', 'b' * 32), tuple(found.properties[name] for name in (
                'quintupleo_access', 'quintupleo_user')))
        self.assertNotIn('swordfish', '\n'.join(logs.output))


class DefinitionTestCase(LabTestCase):

    def assert_mistake(self, old, new, *parts):
        text = FILE.replace(old, new)
        self.assertNotEqual(FILE, text)
        with self.assertRaises(errors.EnvironmentsError) as caught:
            definition.parse(text)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_of_yesterday(self):
        role, = definition.parse('roles: {a: {flavor: b}}').roles
        self.assertFalse(role.redfish)

    def test_without_machines(self):
        definition.parse(FILE.replace('count: 2', 'count: 0'))
        definition.parse(FILE[:FILE.index('  node:')])

    def test_keys_of_other_kinds(self):
        for key in ('user_data: x', 'resource_class: x',
                    'capabilities: {a: b}'):
            with mock.patch.object(definition, '_read', autospec=True,
                                   return_value=''):
                self.assert_mistake('kind: ironic', f'kind: ironic\n    {key}',
                                    'roles.undercloud.' + key.split(':')[0])
        for key in ('hypervisor_type: x', 'key_name: x', 'redfish: true',
                    'config_drive: true'):
            definition.parse(FILE.replace('kind: ironic',
                                          f'kind: ironic\n    {key}'))
        self.assert_mistake('count: 2', 'redfish: true', 'roles.node.redfish: '
                            'only a role of kind ironic')

    def test_more_than_one(self):
        for count in (0, 2):
            self.assert_mistake('kind: ironic',
                                f'kind: ironic\n    count: {count}',
                                'roles.undercloud.count: an environment has '
                                'one server with Ironic')
        self.assert_mistake(
            '  node:\n    count: 2', '  more:\n    kind: ironic',
            'roles.more.count', 'that of role "undercloud"')

    def test_machines_on_several_networks(self):
        self.assert_mistake(
            '    nics: [{network: provision}]\n',
            '    nics: [{network: provision}]\n'
            '  other: {flavor: small, nics: [{network: control}]}\n'
            '  third: {flavor: small, nics: [{network: control}, '
            '{network: provision, pxe: true}]}\n',
            'is on network "provision"', 'boot from others: other')

    def test_network_that_it_is_not_on(self):
        self.assert_mistake(
            '    - {network: provision, address: 192.0.2.10}\n', '',
            'roles.undercloud.nics: it needs a NIC on the network',
            '"provision"')
        with self.assertRaisesRegex(errors.EnvironmentsError, 'needs a NIC'):
            definition.parse('roles: {a: {kind: ironic, flavor: b}}')

    def test_network_that_exists(self):
        self.assert_mistake(
            'provision:\n    subnets:\n    - {cidr: 192.0.2.0/24, gateway: '
            '192.0.2.254, dns: [203.0.113.53]}', 'provision: {existing: mine}',
            'networks.provision: the DHCP server', 'made here')

    def test_subnets(self):
        self.assert_mistake('gateway: 192.0.2.254', 'dhcp: true',
                            'networks.provision: ', '"dhcp: false"')
        self.assert_mistake('    - {cidr: 192.0.2.0/24',
                            '    - {cidr: 203.0.113.0/24}\n'
                            '    - {cidr: 192.0.2.0/24', 'one IPv4 subnet')
        definition.parse(FILE.replace(
            '    - {cidr: 192.0.2.0/24', "    - {cidr: '2001:db8::/64'}\n"
            '    - {cidr: 192.0.2.0/24'))

    def test_port_security(self):
        self.assert_mistake(
            'address: 192.0.2.10', 'port_security: true',
            'roles.undercloud.nics[1].port_security: Neutron lets no DHCP')
        self.assert_mistake('  provision:\n', '  provision:\n    '
                            'port_security: true\n', 'roles.undercloud')
        definition.parse(FILE.replace(
            '  provision:\n', '  provision:\n    port_security: true\n'
            ).replace('address: 192.0.2.10', 'port_security: false'))

    def test_addresses_are_kept(self):
        self.assert_mistake('nics: [{network: provision}]',
                            'nics: [{network: provision, fixed_ip: release}]',
                            'roles.node.nics[0].fixed_ip: ')
        self.assert_mistake('address: 192.0.2.10', 'fixed_ip: release',
                            'roles.undercloud.nics[1].fixed_ip: ')


def _handshake(api, name):
    """Connect a client to a server in memory, as strictly as may be."""
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=api['certificate'])
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile('w') as file:
        file.write(api['certificate'] + api['key'])
        file.flush()
        server.load_cert_chain(file.name)
    ends = (client.wrap_bio(*wires, server_hostname=name),
            server.wrap_bio(*reversed(wires), server_side=True))
    for _ in range(3):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    if not ends[0].getpeercert():
        raise AssertionError('no certificate')
