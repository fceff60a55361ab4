# SPDX-License-Identifier: Apache-2.0
"""Answers that have no end, over real sockets."""

import contextlib
import gzip
from http import server
import threading
import time
import tracemalloc
import zlib

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import session as ks_session
from oslo_utils import units
import requests

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import transport
from tests.unit import base
from tests.unit import socket_cloud


class TransportTestCase(base.DriverTestCase):

    def make_host_cloud(self):
        # With it requests are sent.
        return socket_cloud.SocketHostCloud()

    def setUp(self):
        super().setUp()
        self.answer = None
        self.sent = 0
        self.over = threading.Event()
        case = self

        class Handler(server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                with contextlib.suppress(ConnectionError):
                    case.answer(self)

            do_PUT = do_GET

            def log_message(self, *_):
                """Print nothing."""

        served = server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        served.daemon_threads = True
        self.addCleanup(served.server_close)
        threading.Thread(target=served.serve_forever, args=(0.01,),
                         daemon=True).start()
        self.addCleanup(served.shutdown)
        self.addCleanup(self.over.set)
        self.url = f'http://127.0.0.1:{served.server_port}/'
        self.checked = []
        self.session = ks_session.Session(timeout=0.5)
        transport.mount(self.session, self.checked.append)

    @staticmethod
    def send(request, *parts, **headers):
        """Send an answer; without a length it ends with the connection."""
        request.send_response(200)
        for name, value in headers.items() or [('Connection', 'close')]:
            request.send_header(name.replace('_', '-'), value)
        request.end_headers()
        for part in parts:
            request.wfile.write(part)

    def get(self, **kwargs):
        return self.session.get(self.url, authenticated=False, **kwargs)

    def trickle(self, request, *parts):
        """Send something each tenth of a second, for a minute."""
        for number in range(600):
            request.wfile.write(parts[number] if number < len(parts) else b'x')
            if self.over.wait(0.1):
                break

    def assert_ends(self, **kwargs):
        """Assert that a request ends with its time."""
        begun = time.monotonic()
        error = self.assertRaises(ks_exceptions.ConnectTimeout, self.get,
                                  **kwargs)
        self.assertLess(time.monotonic() - begun, 5)
        return error

    def test_whole_answers_come_through(self):
        self.answer = lambda request: self.send(request, b'{}',
                                                Content_Length='2')
        for _ in range(3):
            self.assertEqual({}, self.get().json())
        self.assertEqual([200] * 3,
                         [found.status_code for found in self.checked])

    def test_connection_is_used_again(self):
        clients = set()

        def answer(request):
            clients.add(request.client_address)
            self.send(request, b'{}', Content_Length='2')

        self.answer = answer
        for _ in range(3):
            self.get()
        self.assertEqual(1, len(clients))

    def test_compressed_answer_is_decompressed_once(self):
        content = gzip.compress(b'{"a": 1}')

        self.answer = lambda request: self.send(
            request, content, Content_Encoding='gzip',
            Content_Length=str(len(content)))
        self.assertEqual({'a': 1}, self.get().json())

    def test_body_that_trickles(self):
        def answer(request):
            self.send(request, Content_Length='100000')
            self.trickle(request)

        self.answer = answer
        self.assertIn('timed out', str(self.assert_ends()))

    def test_chunks_that_trickle(self):
        def answer(request):
            self.send(request, Transfer_Encoding='chunked')
            self.trickle(request, *[b'1\r\nx\r\n'] * 600)

        self.answer = answer
        self.assert_ends()

    def test_headers_that_trickle(self):
        self.answer = lambda request: self.trickle(
            request, b'HTTP/1.1 200 OK\r\n', b'X-A: ')
        self.assert_ends()

    def test_service_that_says_nothing(self):
        self.answer = lambda request: self.over.wait(60)
        self.assert_ends()

    def test_image_has_the_time_of_an_image(self):
        def answer(request):
            self.over.wait(1)
            request.send_response(204)
            request.end_headers()

        self.answer = answer
        with open(__file__, 'rb') as source:
            found = self.session.put(
                self.url, authenticated=False, data=source, timeout=5)
        self.assertEqual(204, found.status_code)

    def test_bomb(self):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        content = b''.join(packer.compress(bytes(units.Mi))
                           for _ in range(620)) + packer.flush()

        self.answer = lambda request: self.send(
            request, content, Content_Encoding='gzip',
            Content_Length=str(len(content)))
        self.session.timeout = 60
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        error = self.assertRaises(ks_exceptions.ClientException, self.get)
        self.assertIn('more than 33554432 bytes', str(error))
        # By this Service knows it.
        self.assertIsInstance(error.original, transport.TooLarge)
        self.assertLess(tracemalloc.get_traced_memory()[1], 100 * units.Mi)

    def test_answer_without_an_end(self):
        def answer(request):
            self.send(request)
            while not self.over.is_set():
                request.wfile.write(bytes(units.Mi))
                self.sent += units.Mi

        self.answer = answer
        self.session.timeout = 60
        error = self.assertRaises(ks_exceptions.ClientException, self.get)
        self.assertIn('more than 33554432 bytes', str(error))
        self.assertLess(self.sent, 64 * units.Mi)

    def test_what_is_streamed_is_not_read_before(self):
        self.answer = lambda request: self.send(
            request, *[bytes(units.Mi)] * 40)
        self.session.timeout = 60
        found = self.get(stream=True)
        self.assertIsInstance(found, requests.Response)
        self.assertEqual(40 * units.Mi, sum(
            len(chunk) for chunk in found.iter_content(units.Mi)))


def test_lock_that_eventlet_does_not_exchange():
    # Eventlet 0.37, that of Ironic 26.1, exchanges a reentrant one when it
    # patches for a second time; the condition then has a lock and checks
    # another.
    assert not hasattr(cloud._reading_ended._lock, '_is_owned')
