# SPDX-License-Identifier: Apache-2.0
"""Answers that no service gave are not believed, over real sockets."""

import io
import json
import types
from unittest import mock

from ironic.common import exception
from ironic.common import states
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.identity import v3
from keystoneauth1 import session
from openstack import connection as sdk_connection

from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import plan
from quintupleo_power.environments import retry
from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.media import virtual_media
from quintupleo_power.osc import common
from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit.interfaces import test_network
from tests.unit.media import test_virtual_media
from tests.unit import socket_cloud

Page = host_cloud_fixture.Page
# An ingress, a proxy that knows no such method, and those that say yes.
PAGES = (Page(404), Page(403, 'Access denied'), Page(405, 'Not allowed'),
         Page(200, 'Back soon'), Page(204, ''))


class SocketTestCase(base.DriverTestCase):

    def make_host_cloud(self):
        return socket_cloud.SocketHostCloud()


class NetworkTestCase(SocketTestCase, test_network.NetworkTestCase):

    def assert_ports_are_kept_until_they_are_gone(self, method, path, answer,
                                                  times=99):
        self.call('add_provisioning_network')
        kept = self.internal_info()
        self.forget_clouds()
        self.host_cloud.fail(method, path, answer, times)
        self.assertRaises(exception.NetworkError, self.call,
                          'remove_provisioning_network')
        self.assertEqual(kept, self.internal_info())
        self.host_cloud.stop_failing()
        self.call('remove_provisioning_network')
        self.assertEqual({}, self.internal_info())
        self.assertEqual([], self.networks())
        self.assertEqual({}, self.host_cloud.neutron_ports)

    def test_ports_are_kept_until_they_are_gone(self):
        for method, path in (('GET', '/servers'), ('DELETE', '/os-interface'),
                             ('GET', '/ports/'), ('DELETE', '/ports/')):
            for page in PAGES:
                with self.subTest(method=method, path=path, page=page):
                    self.assert_ports_are_kept_until_they_are_gone(
                        method, path, page)

    def test_neutron_does_not_tell_its_versions(self):
        for answer in (503, *PAGES):
            with self.subTest(answer=answer):
                self.assert_ports_are_kept_until_they_are_gone(
                    'GET', 'neutron.example.test/?$', answer)

    def test_neutron_tells_its_versions_a_moment_later(self):
        for times in (1, 2):
            self.call('add_provisioning_network')
            self.forget_clouds()
            self.host_cloud.fail('GET', 'neutron.example.test/?$', 503, times)
            self.call('remove_provisioning_network')
            self.assertEqual({}, self.host_cloud.neutron_ports)


class VirtualMediaTestCase(SocketTestCase,
                           test_virtual_media.VirtualMediaTestCase):

    def test_iso_is_kept_in_mind_until_it_is_gone(self):
        for page in PAGES:
            with self.subTest(page=page):
                self.prepare_ramdisk()
                self.host_cloud.fail('DELETE', '/v2/images/', page, times=99)
                self.call('clean_up_ramdisk')
                self.node.refresh()
                self.assertIn(virtual_media.KEY,
                              self.node.driver_internal_info)
                self.assertEqual(1, len(self.media()))
                self.host_cloud.stop_failing()
                self.call('clean_up_ramdisk')
                self.assertEqual([], self.media())


class NodeTestCase(SocketTestCase):

    def power_state(self):
        with self.acquire(shared=True) as task:
            return task.driver.power.get_power_state(task)

    def test_server_is_there(self):
        for page in PAGES:
            with self.subTest(page=page):
                self.forget_clouds()
                self.host_cloud.fail('GET', '/servers', page, times=99)
                error = self.assertRaises(exception.IronicException,
                                          self.power_state)
                self.assert_says(error, '(may pass: try again later)')
                self.host_cloud.stop_failing()
                self.assertEqual(states.POWER_ON, self.power_state())

    def test_one_page_is_asked_past(self):
        for path in ('/servers', '/auth/tokens'):
            for page in PAGES[:3]:
                with self.subTest(path=path, page=page):
                    self.forget_clouds()
                    self.host_cloud.fail(
                        'POST' if 'auth' in path else 'GET', path, page)
                    self.assertEqual(states.POWER_ON, self.power_state())

    def test_boot_mode_is_that_of_the_image(self):
        # A compute API that shows no properties of it with the server.
        self.host_cloud.microversion = '2.90'
        for page in PAGES[:3]:
            with self.subTest(page=page):
                self.forget_clouds()
                self.host_cloud.fail('GET', '/v2/images/', page)
                with self.acquire(shared=True) as task:
                    self.assertEqual(
                        'bios', task.driver.management.get_boot_mode(task))

    def test_application_credential_that_keystone_does_not_know(self):
        self.host_cloud.has_request_ids = False
        self.host_cloud.fail(
            'POST', '/auth/tokens', Page(404, json.dumps({'error': {
                'code': 404, 'title': 'Not Found',
                'message': 'Could not find Application Credential: 42.'}})))
        error = self.assertRaises(exception.IronicException, self.validate)
        self.assert_says(error, 'does not accept the credentials')


class ServiceTestCase(SocketTestCase):
    """Each service, and each thing that is asked of it."""

    def setUp(self):
        super().setUp()
        self.image = self.host_cloud.add_image('an image')
        self.volume = self.host_cloud.add_volume()
        self.network = self.host_cloud.add_network()
        self.port = self.host_cloud.add_neutron_port(
            network_id=self.network['id'])

    def calls(self):
        """Functions that ask something, with method and path."""
        compute, image, volume, network = connection.connect(
            connection.Credentials())
        for service in compute, image, volume, network:
            service.ATTEMPTS = 1
        server = f'/servers/{self.server.id}'
        port = f'/ports/{self.port["id"]}'
        image_path = f'/images/{self.image["id"]}'
        volume_path = f'/volumes/{self.volume["id"]}'
        # Whether an answer has a request ID is known of each service.
        compute.get(server, 'server')
        image.get(image_path)
        volume.get(volume_path, 'volume')
        network.get(port, 'port')
        return [
            ('GET', server, lambda: compute.get(server, 'server')),
            ('POST', f'{server}/action', lambda: compute.post(
                f'{server}/action', {'os-stop': None})),
            ('POST', f'{server}/os-interface', lambda: compute.ask(
                f'{server}/os-interface', {}, 'interfaceAttachment')),
            ('DELETE', f'{server}/os-interface',
             lambda: compute.delete(f'{server}/os-interface/{port[7:]}')),
            ('GET', image_path, lambda: image.get(image_path)),
            ('POST', '/images', lambda: image.ask('/images', {}, 'id', str)),
            ('PUT', f'{image_path}/file', lambda: image.upload(
                f'{image_path}/file', io.BytesIO(b'content'))),
            ('DELETE', image_path, lambda: image.delete(image_path)),
            ('GET', volume_path, lambda: volume.get(volume_path, 'volume')),
            ('POST', f'{volume_path}/action', lambda: volume.post(
                f'{volume_path}/action', {'revert': {}})),
            ('GET', port, lambda: network.get(port, 'port')),
            ('POST', '/ports', lambda: network.ask('/ports', {}, 'port')),
            ('PUT', port, lambda: network.put(port, {'port': {}})),
            ('DELETE', port, lambda: network.delete(port))]

    def test_pages_pass(self):
        gateway = json.dumps({'message': 'no Route matched'})
        another_api = json.dumps({'error': {
            'code': 404, 'message': 'Not found', 'status': 'NOT_FOUND'}})
        for page in (*PAGES, Page(400), Page(409), Page(501), Page(302),
                     Page(404, gateway), Page(404, another_api),
                     Page(404, '[]'), Page(404, '{}'), Page(404, '{"a": 1}'),
                     Page(200, '{}'), Page(201, '{"id": "x"}')):
            for method, path, call in self.calls():
                with self.subTest(page=page, method=method, path=path):
                    self.host_cloud.fail(method, path, page)
                    self.assertRaises(errors.ServerError, call)

    def test_address_without_a_version_does_nothing(self):
        # Glance answers so to whatever it is asked for there.
        for method, path, call in self.calls():
            if method != 'GET':
                self.host_cloud.fail(method, path,
                                     Page(300, '{"versions": []}'))
                self.assertRaises(errors.ServerError, call)

    def test_errors_of_a_service_count_without_a_request_id(self):
        fault = {'code': 404, 'message': 'It is not here'}
        for body in ({'itemNotFound': fault},
                     {'NeutronError': {**fault, 'type': 'PortNotFound'}},
                     {'error': {**fault, 'title': 'Not Found'}}):
            for method, path, call in self.calls():
                self.host_cloud.fail(method, path,
                                     Page(404, json.dumps(body)))
                if method == 'DELETE':
                    # What the service does not have is deleted.
                    self.assertIsNone(call())
                    continue
                error = self.assertRaises(errors.NotFound, call)
                self.assertIn('It is not here', str(error))

    def test_version_that_neutron_lacks(self):
        self.host_cloud.fail('GET', 'neutron.example.test/?$',
                             {'versions': []}, times=9)
        *_, network = connection.connect(connection.Credentials())
        self.assertRaises(errors.CloudMisconfigured, network.get, '/ports')

    def test_what_anybody_may_refuse(self):
        for status, kind in ((401, errors.AuthenticationFailed),
                             (413, errors.BadRequest),
                             (429, errors.TooManyRequests)):
            for method, path, call in self.calls():
                self.host_cloud.fail(method, path, Page(status), times=2)
                self.assertRaises(kind, call)
                self.host_cloud.stop_failing()


class StrippedTestCase(SocketTestCase, test_network.NetworkTestCase):
    """A cloud whose proxies keep request IDs to themselves."""

    def setUp(self):
        super().setUp()
        self.host_cloud.has_request_ids = False

    def test_ports_come_and_go(self):
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())
        self.host_cloud.neutron_ports.clear()
        self.call('remove_provisioning_network')
        self.assertEqual([], self.networks())
        self.assertEqual({}, self.internal_info())

    def test_pages_pass(self):
        host = cloud.get(connection.Credentials())
        for page in (Page(200), Page(404), Page(302)):
            port = self.host_cloud.add_neutron_port(
                description='Made by quintupleo for the time that a node is '
                'on this network')
            self.host_cloud.fail('DELETE', '/ports/', page)
            self.assertRaises(errors.ServerError, host.ports.delete,
                              port['id'])


class Remove(common.EnvironmentsCommand):

    def act(self, parsed_args, environments):
        environments._remover.remove(parsed_args, mock.Mock())


class CommandsTestCase(SocketTestCase):
    """The commands, which ask by openstacksdk."""

    def setUp(self):
        super().setUp()
        patcher = mock.patch.object(retry, '_BACKOFF', lambda retry_state: 0)
        patcher.start()
        self.addCleanup(patcher.stop)
        self.sdk = sdk_connection.Connection(session=session.Session(
            auth=v3.Password(
                self.host_cloud.auth_url, username='operator',
                password=host_cloud_fixture.SECRET, project_name='machines',
                user_domain_name='Default', project_domain_name='Default')))
        self.app = types.SimpleNamespace(
            client_manager=types.SimpleNamespace(sdk_connection=self.sdk))

    def remove(self, found):
        Remove(self.app, None).take_action([found])

    def test_what_is_removed_is_gone(self):
        for page in PAGES[:3]:
            with self.subTest(page=page):
                port = self.host_cloud.add_neutron_port()
                self.host_cloud.fail('DELETE', '/ports/', page)
                self.remove(owned_resources.Resource(plan.key(
                    plan.PORT, 'compute', 0, 0), port['id'], None))
                self.assertNotIn(port['id'], self.host_cloud.neutron_ports)

    def test_what_is_gone_is_removed(self):
        self.remove(owned_resources.Resource(
            plan.key(plan.PORT, 'compute', 0, 0), 'x', None))

    def test_volumes_of_a_cloud_that_is_away_are_not_none(self):
        self.host_cloud.fail('POST', '/auth/tokens', 503, times=99)
        self.assertRaises(ks_exceptions.ServiceUnavailable,
                          owned_resources.has_volumes, self.sdk)
        self.host_cloud.stop_failing()
        self.assertTrue(owned_resources.has_volumes(self.sdk))

    def test_cloud_without_volumes(self):
        self.host_cloud.has_volume_service = False
        self.assertFalse(owned_resources.has_volumes(self.sdk))

    def test_ironic_names_its_requests_otherwise(self):
        answers.check(self.sdk.session)
        self.host_cloud.has_request_ids = False
        self.host_cloud.fail(
            'GET', '/v2/', Page(404, '{"error_message": "no"}'),
            headers={'Openstack-Request-Id': 'req-1'})
        answer = self.sdk.session.get(
            f'{self.host_cloud.image_url}/v2/nodes/x', raise_exc=False)
        self.assertEqual(404, answer.status_code)
