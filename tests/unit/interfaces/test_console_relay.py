# SPDX-License-Identifier: Apache-2.0
"""The console interfaces at a port of the conductor, up to the proxy."""

import contextlib
import os
import socket
import threading
import time
import types

import fixtures
from ironic.common import exception
from ironic import objects
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils
import pytest

from quintupleo_power import compat
from quintupleo_power import hardware
from quintupleo_power.host_cloud import console_relay
from quintupleo_power.interfaces import console
from tests.unit import base
from tests.unit import console_proxy
from tests.unit import test_secrets as secrets

KEY = 'quintupleo_console'
NOVNC = 'http://proxy.example.test:6090/vnc_auto.html'
HAS_PROXY = pytest.mark.skipif(
    compat.vnc is None, reason='this Ironic has no graphical consoles')


class RelayTestCase(base.DriverTestCase):
    """A node whose console is at a port of the conductor."""

    interface = 'quintupleo-serial'
    has_tls = False

    def setUp(self):
        super().setUp()
        self.config(enabled_console_interfaces=[
            'quintupleo', 'quintupleo-serial', 'no-console',
            *(['quintupleo-graphical'] if compat.vnc else [])])
        self.node.console_interface = self.interface
        self.node.save()
        self.logger = self.useFixture(secrets.Watch()).logger
        self.proxy = self.useFixture(console_proxy.ConsoleProxy(
            self.host_cloud, self.has_tls))
        self.addCleanup(self.close_all)

    def close_all(self):
        """End what runs, and check that it does."""
        with console._lock:
            for relay in console._relays.values():
                relay.close()
            console._relays.clear()
        self.wait_for(lambda: not self.served())

    @staticmethod
    def served():
        """Return the threads of connections."""
        return [thread for thread in threading.enumerate()
                if '(_serve)' in thread.name]

    @staticmethod
    def wait_for(condition):
        """Wait until something is so."""
        until = time.monotonic() + console_proxy.LONGEST
        while not condition():
            assert time.monotonic() < until, 'it does not come about'
            time.sleep(0.02)

    def call(self, method):
        with self.acquire() as task:
            found = getattr(task.driver.console, method)(task)
        self.node.refresh()
        return found

    def start(self):
        self.call('start_console')

    def stop(self):
        """Disable the console, as the conductor does."""
        self.call('stop_console')
        self.node.console_enabled = False
        self.node.save()

    @property
    def address(self):
        found = self.node.driver_internal_info[KEY]
        return found['host'], found['port']

    def connect(self, address=None):
        """Return a client's socket."""
        client = socket.create_connection(address or self.address,
                                          console_proxy.LONGEST)
        self.addCleanup(client.close)
        return client

    def open(self):
        """Return a client's socket, and the other end of its console."""
        self.enable()
        return self.connect(), self.proxy.session()

    def enable(self):
        """Start the console, if that has not been done."""
        if not self.node.console_enabled:
            self.start()
            # That which shows whether there is one.
            self.assert_ended(self.proxy.session())

    def assert_ended(self, session):
        self.assertEqual(console_proxy.CLOSE, session.receive_frame()[0])

    def assert_closed(self, client):
        """Check that nothing came, and nothing will."""
        with contextlib.suppress(ConnectionError):
            self.assertEqual(b'', client.recv(1))

    def assert_refused(self, address):
        self.assertRaises(ConnectionRefusedError, self.connect, address)

    def assert_no_token(self):
        for token in self.host_cloud.console_tokens:
            self.assertNotIn(token, self.logger.output)


def receive(client, length):
    """Return so many bytes of what a client gets."""
    return console_proxy._exactly(client, length)


class SerialTestCase(RelayTestCase):

    def test_both_directions(self):
        client, session = self.open()
        client.sendall(b'root\n')
        self.assertEqual(b'root\n', session.receive(5))
        session.send(b'\0\xff', b'', b'Password: ')
        self.assertEqual(b'\0\xffPassword: ', receive(client, 12))

    def test_proxy_is_asked_as_by_a_client_that_is_no_browser(self):
        self.open()
        request = self.proxy.requests[-1]
        self.assertEqual('binary', request['sec-websocket-protocol'])
        self.assertEqual(f'127.0.0.1:{self.proxy.port}', request['host'])
        self.assertNotIn('origin', request)

    def test_each_connection_has_a_token_of_its_own(self):
        _, first = self.open()
        _, second = self.open()
        tokens = self.host_cloud.console_tokens
        self.assertEqual(3, len(set(tokens)))
        self.assertEqual(tokens[1:], [first.token, second.token])
        self.assert_no_token()

    def test_has_the_form_that_nova_takes(self):
        self.enable()
        host, port = self.address
        self.assertEqual({'type': 'socat', 'url': f'tcp://{host}:{port}'},
                         self.call('get_console'))
        self.assertEqual('127.0.0.1', host)
        self.assertIn(port, range(20000, 30000))

    def test_port_stays_the_same(self):
        # Nova disables and enables it before it lets a user connect.
        self.enable()
        before = self.address
        self.stop()
        self.assert_refused(before)
        self.enable()
        self.assertEqual(before, self.address)
        self.open()

    def test_ipv6(self):
        self.config(console_address='::1', group='quintupleo')
        self.enable()
        self.assertEqual(f'tcp://[::1]:{self.address[1]}',
                         self.call('get_console')['url'])
        self.connect()
        self.proxy.session()

    def test_much(self):
        client, session = self.open()
        content = os.urandom(3 * 1024 * 1024)
        sender = threading.Thread(target=client.sendall, args=(content,))
        sender.start()
        self.assertEqual(content, session.receive(len(content)))
        sender.join()
        sender = threading.Thread(target=session.send, args=(content,))
        sender.start()
        self.assertEqual(content, receive(client, len(content)))
        sender.join()

    def test_frame_that_is_late_holds_nothing_up(self):
        client, session = self.open()
        late = console_proxy.frame(b'late' * 50)
        for position, part in enumerate(
                (late[:1], late[1:3], late[3:100], late[100:])):
            session.connection.sendall(part)
            client.sendall(b'%d' % position)
            self.assertEqual(b'%d' % position, session.receive(1))
        self.assertEqual(b'late' * 50, receive(client, 200))

    def test_parts_of_a_message(self):
        client, session = self.open()
        session.connection.sendall(
            console_proxy.frame(b'ab', final=False)
            + console_proxy.frame(b'', console_proxy.PING)
            + console_proxy.frame(b'c', kind=0, final=False)
            + console_proxy.frame(b'd', kind=0))
        self.assertEqual(b'abcd', receive(client, 4))
        self.assertEqual(console_proxy.PONG, session.receive_frame()[0])

    def test_client_ends(self):
        client, session = self.open()
        client.close()
        self.assert_ended(session)
        self.open()

    def test_proxy_ends(self):
        client, session = self.open()
        session.close(console_proxy.frame(b'end'),
                      console_proxy.frame(b'\x03\xe8bye', console_proxy.CLOSE))
        self.assertEqual(b'end', receive(client, 3))
        self.assert_closed(client)
        client, session = self.open()
        session.close()
        self.assert_closed(client)
        self.open()

    def test_many_connections_of_a_node(self):
        clients = [self.open() for _ in range(console_relay.MOST)]
        self.assert_closed(self.connect())
        self.assertIn('too many connections', self.logger.output)
        clients[0][0].close()
        self.wait_for(lambda: len(self.served()) < len(clients))
        self.open()


class StartTestCase(RelayTestCase):

    def refused(self, *parts):
        error = self.assertRaises(exception.DriverOperationError, self.start)
        self.assert_says(error, self.node.uuid, *parts)
        self.assertFalse(self.node.console_enabled)
        self.assertEqual({}, console._relays)
        for token in self.host_cloud.console_tokens:
            self.assertNotIn(token, str(error))
        self.assert_no_token()

    def test_type_that_the_host_cloud_does_not_offer(self):
        del self.host_cloud.consoles['serial']
        self.refused("no 'serial' console", 'console_interface quintupleo')

    def test_proxy_that_is_away(self):
        self.proxy.stop()
        self.refused(f'127.0.0.1:{self.proxy.port}', self.server.id,
                     '[Errno 111]', 'has to reach it')

    def test_proxy_that_is_away_does_not_speak_for_its_cloud(self):
        self.proxy.stop()
        self.useFixture(fixtures.MockPatch(
            'quintupleo_power.host_cloud.cloud.LONG', 0.0))
        self.assertRaises(exception.DriverOperationError, self.start)
        self.validate()

    def test_proxy_that_refuses(self):
        self.proxy.answer = (
            b'HTTP/1.1 403 Forbidden\r\nX-Path: /?token=TOKEN\r\n'
            b'Content-Length: 36\r\n\r\nTOKEN')
        self.refused('403 Forbidden')

    def test_proxy_that_leads_elsewhere(self):
        # The token is not for others.
        other = self.useFixture(console_proxy.ConsoleProxy(self.host_cloud))
        address = self.host_cloud.consoles['serial']
        self.host_cloud.consoles['serial'] = (
            f'ws://127.0.0.1:{self.proxy.port}/')
        self.proxy.answer = (b'HTTP/1.1 302 Found\r\nLocation: '
                             + address.encode() + b'\r\n\r\n')
        self.refused(f'127.0.0.1:{self.proxy.port}')
        self.assertEqual([], other.requests)

    def test_proxy_that_is_none(self):
        for answer in (b'SSH-2.0-OpenSSH_9.2\r\n', b'HTTP/1.1 200 OK\r\n\r\n',
                       b'HTTP/1.1 101 OK\r\n\r\n', b'\0' * 10):
            self.proxy.answer = answer
            self.refused('gives no connection')

    def test_address_that_is_none(self):
        for address in ('ws://127.0.0.1:99999/', 'ws://[::1/', 'ws://'):
            self.host_cloud.consoles['serial'] = address
            self.refused('gives no connection')

    def test_asks_nothing_when_a_conductor_takes_consoles_over(self):
        self.node.console_enabled = True
        self.node.save()
        self.host_cloud.fail('GET', '.', 503, times=99)
        self.start()
        self.assertEqual([], self.host_cloud.requests)
        self.connect()

    def test_second_start_keeps_connections(self):
        # Ironic starts it at the end of a deployment.
        client, session = self.open()
        before = self.address
        self.start()
        self.assertEqual(before, self.address)
        client.sendall(b'still')
        self.assertEqual(b'still', session.receive(5))

    def test_port_that_is_in_use(self):
        self.enable()
        used = self.address[1]
        self.stop()
        with socket.create_server(('127.0.0.1', used)):
            self.enable()
            self.assertNotEqual(used, self.address[1])
            self.open()

    def test_ports_that_are_all_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as listener:
            port = listener.getsockname()[1]
            self.config(console_ports=f'{port}-{port}', group='quintupleo')
            error = self.assertRaises(exception.ConsoleError, self.start)
        self.assert_says(error, self.node.uuid, '127.0.0.1', 'console_ports',
                         'all of them are in use')

    def test_address_of_another_machine(self):
        self.config(console_address='192.0.2.77', group='quintupleo')
        self.assert_says(
            self.assertRaises(exception.ConsoleError, self.start),
            self.node.uuid, '[quintupleo]console_address 192.0.2.77')

    def test_nodes_have_ports_of_their_own(self):
        self.config(console_ports='27000-27001', group='quintupleo')
        self.enable()
        other = objects_utils.create_test_node(
            self.context, uuid=uuidutils.generate_uuid(), name='other',
            driver='quintupleo', console_interface=self.interface,
            driver_internal_info={}, driver_info={
                'quintupleo_server': self.host_cloud.add_server(
                    name='machine-1').id})
        mine, self.node = self.address, other
        self.enable()
        self.assertEqual({27000, 27001}, {mine[1], self.address[1]})


class StopTestCase(RelayTestCase):

    def test_ends_all(self):
        client, session = self.open()
        address = self.address
        self.stop()
        self.assert_closed(client)
        self.assert_ended(session)
        self.assert_refused(address)
        self.assertNotIn(KEY, self.node.driver_internal_info)
        self.assertEqual({}, console._relays)

    def test_removed_instance_takes_its_console_along(self):
        # Ironic leaves it enabled, for the next instance.
        self.enable()
        self.call('stop_console')
        self.assertRaises(exception.NodeConsoleNotEnabled, self.call,
                          'get_console')
        before = self.host_cloud.requests[:]
        self.start()
        self.assertEqual(before, self.host_cloud.requests)
        self.open()

    def test_twice(self):
        self.enable()
        self.stop()
        self.stop()

    def test_client_that_waits_for_the_host_cloud(self):
        self.enable()
        begun, goes_on = threading.Event(), threading.Event()
        connect = console._connect

        def slow(*arguments):
            begun.set()
            goes_on.wait(console_proxy.LONGEST)
            return connect(*arguments)

        self.useFixture(fixtures.MockPatchObject(console, '_connect', slow))
        client = self.connect()
        begun.wait(console_proxy.LONGEST)
        self.stop()
        goes_on.set()
        self.assert_closed(client)


class TakeOverTestCase(RelayTestCase):
    """Ironic does not call a conductor that has lost a node."""

    def lose(self):
        """Let another conductor take the node over, at the same address."""
        found = self.node.driver_internal_info[KEY]
        self.node.set_driver_internal_info(
            KEY, {**found, 'conductor': 'another'})
        self.node.save()

    def lose_and_check(self, lose):
        self.enable()
        address = self.address
        lose()
        self.assert_closed(self.connect(address))
        self.assertFalse(self.proxy.has_session())
        self.wait_for(lambda: not list(console._relays.values())[0].is_open)
        self.assert_refused(address)

    def test_next_connection_ends_it(self):
        self.lose_and_check(self.lose)

    def test_console_that_another_conductor_disables(self):
        def disable():
            self.node.console_enabled = False
            self.node.save()
        self.lose_and_check(disable)

    def test_console_of_another_type(self):
        def change():
            self.node.set_driver_internal_info(KEY, {
                **self.node.driver_internal_info[KEY], 'type': 'novnc'})
            self.node.save()
        self.lose_and_check(change)

    def test_node_that_was_removed(self):
        self.lose_and_check(self.node.destroy)

    def test_connection_ends(self):
        client, session = self.open()
        self.useFixture(fixtures.MockPatchObject(
            console_relay, 'CHECK_INTERVAL', 0.1))
        client.sendall(b'before')
        self.assertEqual(b'before', session.receive(6))
        self.lose()
        self.assert_closed(client)
        self.assert_ended(session)

    def test_conductor_that_gets_it_back(self):
        self.lose_and_check(self.lose)
        self.start()
        self.open()


class TroubleTestCase(RelayTestCase):

    def test_host_cloud_that_is_away_closes_one_connection(self):
        client, session = self.open()
        self.host_cloud.fail('POST', '/remote-consoles$', 503, times=9)
        self.assert_closed(self.connect())
        self.assertIn('A connection to a console was closed: Node '
                      f'{self.node.uuid}', self.logger.output)
        client.sendall(b'on')
        self.assertEqual(b'on', session.receive(2))
        self.host_cloud.stop_failing()
        self.open()
        self.assert_no_token()

    def test_proxy_that_is_away(self):
        self.enable()
        self.proxy.stop()
        self.assert_closed(self.connect())
        self.assertIn('has to reach it', self.logger.output)
        self.assert_no_token()

    def test_token_that_the_proxy_does_not_know(self):
        self.enable()
        self.proxy.host_cloud = types.SimpleNamespace(console_tokens=[])
        self.assert_closed(self.connect())

    def test_server_that_is_another_nodes_by_now(self):
        self.enable()
        self.config(require_server_metadata=True, group='quintupleo')
        self.assert_closed(self.connect())
        self.assertIn('may not be used', self.logger.output)
        self.assertFalse(self.proxy.has_session())


class TlsTestCase(RelayTestCase):

    has_tls = True

    def refused(self, *parts):
        error = self.assertRaises(exception.DriverOperationError, self.start)
        self.assert_says(error, self.node.uuid, *parts)

    def test_certificate_that_nobody_knows(self):
        self.refused(f'127.0.0.1:{self.proxy.port}',
                     'certificate verify failed', 'to trust its certificate')

    def test_certificate_for_another_host(self):
        self.config(cafile=self.proxy.certificate, group='quintupleo')
        self.host_cloud.consoles['serial'] = (
            f'wss://localhost:{self.proxy.port}/')
        self.refused(f'localhost:{self.proxy.port}', 'certificate')

    def test_certificates_that_are_missing(self):
        self.config(cafile='/nowhere/ca.pem', group='quintupleo')
        self.refused('gives no connection')

    def test_ca_of_the_credentials(self):
        self.config(cafile=self.proxy.certificate, group='quintupleo')
        client, session = self.open()
        client.sendall(b'in')
        self.assertEqual(b'in', session.receive(2))
        # Both are in one record of TLS, and shorter than what is read.
        session.send(b'one', b'two')
        self.assertEqual(b'onetwo', receive(client, 6))

    def test_much(self):
        self.config(cafile=self.proxy.certificate, group='quintupleo')
        client, session = self.open()
        content = os.urandom(1024 * 1024)
        sender = threading.Thread(target=session.send,
                                  args=[content[:500000], content[500000:]])
        sender.start()
        self.assertEqual(content, receive(client, len(content)))
        sender.join()

    def test_folder_of_cas(self):
        # OpenSSL looks for names that "openssl rehash" makes: none is there.
        self.config(cafile=os.path.dirname(self.proxy.certificate),
                    group='quintupleo')
        self.refused('certificate verify failed')

    def test_bundle_of_the_environment(self):
        # requests takes it for the other services, too.
        self.useFixture(fixtures.EnvironmentVariable(
            'REQUESTS_CA_BUNDLE', self.proxy.certificate))
        self.open()

    def test_verification_that_is_switched_off(self):
        self.config(insecure=True, group='quintupleo')
        self.open()


@HAS_PROXY
class GraphicalTestCase(RelayTestCase):

    interface = 'quintupleo-graphical'

    def setUp(self):
        super().setUp()
        self.config(public_url=NOVNC, group='vnc')

    def token(self):
        return self.node.driver_internal_info['novnc_secret_token']

    def test_is_where_ironic_and_nova_look_for_it(self):
        self.enable()
        internal = self.node.driver_internal_info
        self.assertEqual(self.address,
                         (internal['vnc_host'], internal['vnc_port']))
        self.assertTrue(self.node.console_enabled)
        self.assertEqual({'type': 'vnc', 'url': (
            f'{NOVNC}?path=websockify%3Fnode%3D{self.node.uuid}'
            f'%26token%3D{self.token()}')}, self.call('get_console'))
        compat.vnc.novnc_validate(self.node, self.token())

    def test_is_enabled_only_once_it_can_be_found(self):
        # Nova asks again and again while Ironic enables it.
        seen = []

        def save(node, *args, **kwargs):
            original(node, *args, **kwargs)
            if node.console_enabled:
                seen.append({'vnc_host', 'vnc_port', 'novnc_secret_token'}
                            <= node.driver_internal_info.keys())

        original = objects.Node.save
        self.useFixture(fixtures.MonkeyPatch(
            'ironic.objects.Node.save', save))
        self.enable()
        self.assertEqual({True}, set(seen))

    def test_handshake_of_rfb(self):
        # What Nova's proxy and its client say (RFC 6143).
        client, session = self.open()
        session.send(b'RFB 003.008\n')
        self.assertEqual(b'RFB 003.008\n', receive(client, 12))
        client.sendall(b'RFB 003.008\n')
        self.assertEqual(b'RFB 003.008\n', session.receive(12))
        session.send(b'\1\1')
        self.assertEqual(b'\1\1', receive(client, 2))
        client.sendall(b'\1')
        self.assertEqual(b'\1', session.receive(1))
        session.send(b'', b'\0\0\0\0')
        self.assertEqual(b'\0\0\0\0', receive(client, 4))

    def test_token_that_is_good_stays(self):
        self.enable()
        before = self.token()
        with self.acquire(shared=True) as task:
            task.driver.console.get_console(task)
            self.assertTrue(task.shared)
        self.node.refresh()
        self.assertEqual(before, self.token())

    def test_token_that_has_expired_is_renewed(self):
        client, session = self.open()
        before = self.token()
        created = '2020-01-01T00:00:00.000000'
        self.node.set_driver_internal_info('novnc_secret_token_created',
                                           created)
        self.node.save()
        with self.acquire(shared=True) as task:
            found = task.driver.console.get_console(task)
            self.assertFalse(task.shared)
        self.node.refresh()
        self.assertNotEqual(before, self.token())
        self.assertIn(self.token(), found['url'])
        compat.vnc.novnc_validate(self.node, self.token())
        client.sendall(b'on')
        self.assertEqual(b'on', session.receive(2))

    def test_stop_leaves_nothing(self):
        before = self.node.driver_internal_info
        client, _ = self.open()
        self.stop()
        self.assert_closed(client)
        self.assertEqual(before, self.node.driver_internal_info)
        self.assertRaises(exception.NodeConsoleNotEnabled, self.call,
                          'get_console')

    def paths(self, address):
        self.host_cloud.consoles['novnc'] = address
        self.open()
        return {request[''].split()[1].replace(token, 'TOKEN')
                for request, token in zip(
                    self.proxy.requests, self.host_cloud.console_tokens,
                    strict=True)}

    def test_page_of_nova(self):
        self.assertEqual({'/?token=TOKEN'}, self.paths(
            f'http://127.0.0.1:{self.proxy.port}/vnc_lite.html'))

    def test_page_of_an_old_nova(self):
        self.useFixture(fixtures.MockPatchObject(
            self.host_cloud, '_console', self.old_console))
        self.assertEqual({'/?token=TOKEN'}, self.paths(
            f'http://127.0.0.1:{self.proxy.port}/vnc_auto.html'))

    def old_console(self, server, request, context):
        token = uuidutils.generate_uuid()
        self.host_cloud.console_tokens.append(token)
        return {'remote_console': {
            'url': f'{self.host_cloud.consoles["novnc"]}?token={token}'}}


class HardwareTypeTestCase(RelayTestCase):

    interface = None

    def test_cloud_console_stays_the_default(self):
        with self.acquire(shared=True) as task:
            self.assertIs(console.QuintupleoConsole,
                          type(task.driver.console))

    def test_graphical_console_needs_what_ironic_has_of_it(self):
        self.assertEqual(
            compat.vnc is not None, console.QuintupleoGraphicalConsole
            in hardware.QuintupleoHardware().supported_console_interfaces)
