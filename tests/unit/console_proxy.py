# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a host cloud's console proxy, at a real WebSocket.

It answers as websockify does: it accepts the protocol ``binary``, and closes
a connection without a token of the host cloud only after the handshake.
"""

import base64
import contextlib
import datetime
import hashlib
import ipaddress
import queue
import socket
import ssl
import struct
import threading
from urllib import parse

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
import fixtures

# RFC 6455, section 1.3.
_GUID = b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
# Seconds that a test waits for what has to come.
LONGEST = 10


class ConsoleProxy(fixtures.Fixture):
    """Serves consoles.

    :ivar host_cloud: whose tokens it knows.
    :ivar certificate: path of the certificate, if it has TLS.
    :ivar answer: what it answers instead of the handshake, where TOKEN
        stands for the token that it gets.
    :ivar requests: the request lines and headers of handshakes, as dicts;
        the request line is ``''``.
    """

    def __init__(self, host_cloud, tls=False):
        self.host_cloud = host_cloud
        self._has_tls = tls
        self.certificate = None
        self.answer = None
        self.requests = []
        self._sessions = queue.Queue()

    def _setUp(self):
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        self._context = None
        if self._has_tls:
            folder = self.useFixture(fixtures.TempDir()).path
            self.certificate = f'{folder}/proxy.pem'
            with open(self.certificate, 'wb') as file:
                file.write(_certificate())
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(self.certificate)
        self.addCleanup(self.stop)
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, LONGEST)
        self.addCleanup(self.stop)
        scheme = 's' if self._has_tls else ''
        self.host_cloud.consoles = {
            'novnc': f'http{scheme}://127.0.0.1:{self.port}/vnc_lite.html',
            'serial': f'ws{scheme}://127.0.0.1:{self.port}/'}

    def stop(self):
        """Take no connections any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def session(self):
        """Return the next session that is opened."""
        return self._sessions.get(timeout=LONGEST)

    def has_session(self):
        """Return whether one was opened that nobody has asked for yet."""
        return not self._sessions.empty()

    def _run(self):
        with self._listener, contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,),
                                 daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(LONGEST)
        try:
            if self._context:
                connection = self._context.wrap_socket(connection,
                                                       server_side=True)
            request = _head(connection)
        except OSError:
            connection.close()
            return
        self.requests.append(request)
        token = parse.parse_qs(parse.urlsplit(
            request[''].split()[1]).query).get('token', [''])[0]
        if self.answer:
            connection.sendall(self.answer.replace(b'TOKEN', token.encode()))
            connection.close()
            return
        key = base64.b64encode(hashlib.sha1(
            request['sec-websocket-key'].encode() + _GUID,
            usedforsecurity=False).digest())
        connection.sendall(
            b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n'
            b'Connection: Upgrade\r\nSec-WebSocket-Accept: ' + key
            + b'\r\nSec-WebSocket-Protocol: binary\r\n\r\n')
        if token not in self.host_cloud.console_tokens:
            connection.close()
            return
        self._sessions.put(Session(connection, token))


class Session:
    """A connection to a console, from the console's side."""

    def __init__(self, connection, token):
        self.connection = connection
        self.token = token

    def send(self, *contents):
        """Send frames in one piece."""
        self.connection.sendall(b''.join(map(frame, contents)))

    def receive(self, length):
        """Return so many bytes of what the other side has sent."""
        found = b''
        while len(found) < length:
            kind, content = self.receive_frame()
            assert kind == BINARY, (kind, content)
            found += content
        return found

    def receive_frame(self):
        """Return kind and content of a frame; (CLOSE, b'') at the end."""
        try:
            kind, length = struct.unpack('!BB', _exactly(self.connection, 2))
            assert kind & 128 and length & 128, 'not whole, or not masked'
            length &= 127
            if length > 125:
                form = '!H' if length == 126 else '!Q'
                length, = struct.unpack(form, _exactly(
                    self.connection, struct.calcsize(form)))
            mask = _exactly(self.connection, 4)
            content = _exactly(self.connection, length)
        except (EOFError, ConnectionError):
            return CLOSE, b''
        repeated = (mask * (length // 4 + 1))[:length]
        return kind & 15, (int.from_bytes(content, 'big')
                           ^ int.from_bytes(repeated, 'big')
                           ).to_bytes(length, 'big')

    def close(self, *frames):
        """Send frames and close."""
        self.connection.sendall(b''.join(frames))
        self.connection.close()


def frame(content, kind=BINARY, final=True):
    """Return a frame as a server sends it."""
    length = len(content)
    if length < 126:
        size = bytes([length])
    elif length < 65536:
        size = b'\x7e' + struct.pack('!H', length)
    else:
        size = b'\x7f' + struct.pack('!Q', length)
    return bytes([kind | (128 if final else 0)]) + size + content


def _head(connection):
    head = b''
    while not head.endswith(b'\r\n\r\n'):
        head += _exactly(connection, 1)
    first, *lines = head.decode().strip().split('\r\n')
    return {'': first} | {
        name.lower(): value.strip() for name, _, value in (
            line.partition(':') for line in lines)}


def _exactly(connection, length):
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 65536))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def _certificate():
    """Make a key and a certificate for 127.0.0.1, which is its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'proxy')])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(),
        now - datetime.timedelta(days=1), now + datetime.timedelta(days=1)
    ).add_extension(x509.SubjectAlternativeName([
        x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]), critical=False
    ).sign(key, hashes.SHA256())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()) + made.public_bytes(
            serialization.Encoding.PEM)
