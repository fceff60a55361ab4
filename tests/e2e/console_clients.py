# SPDX-License-Identifier: Apache-2.0
"""Clients of consoles at a TCP port: of a VNC server, and of a serial port."""

import contextlib
import socket
import struct
import time
from urllib import parse

import websocket

from tests.e2e import pictures

# Seconds for one answer of a guest's console.
PATIENCE = 60
# RFC 6143: what a client sends, and the security type "None".
VERSION = b'RFB 003.008\n'
NO_SECURITY = 1
SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST = 0, 2, 3
# 32 bits a pixel, little-endian: blue, green, red, and one that is not used.
PIXEL_FORMAT = struct.pack('!BBBBHHHBBB3x', 32, 24, 0, 1, 255, 255, 255,
                           16, 8, 0)
RAW = 0
# Of a server's messages: those without pixels, by their length.
UPDATE, BELL, CUT_TEXT = 0, 2, 3


def screenshot(host, port):
    """Take a picture of what a VNC server shows.

    It must ask for no password.

    :returns: a :class:`pictures.Picture`.
    """
    with (socket.create_connection((host, port), PATIENCE) as client,
          client.makefile('rb') as answers):
        def read(form):
            return struct.unpack(form, _exactly(answers,
                                                struct.calcsize(form)))
        assert _exactly(answers, len(VERSION)) == VERSION
        client.sendall(VERSION)
        number, = read('!B')
        assert NO_SECURITY in _exactly(answers, number)
        client.sendall(bytes([NO_SECURITY]))
        assert read('!I') == (0,), 'the security handshake failed'
        # Others may look at the same time.
        client.sendall(b'\1')
        width, height, _, length = read('!HH16sI')
        _exactly(answers, length)
        client.sendall(
            struct.pack('!B3x', SET_PIXEL_FORMAT) + PIXEL_FORMAT
            + struct.pack('!BxHi', SET_ENCODINGS, 1, RAW)
            + struct.pack('!BBHHHH', UPDATE_REQUEST, 0, 0, 0, width, height))
        return pictures.Picture.of(width, _rows(answers, read, width, height))


def _rows(answers, read, width, height):
    """Return the rows of the first whole picture, as RGB."""
    rows = [bytearray(3 * width) for _ in range(height)]
    missing = width * height
    while missing > 0:
        kind, = read('!B')
        if kind == UPDATE:
            number, = read('!xH')
            for _ in range(number):
                x, y, columns, lines, encoding = read('!HHHHi')
                assert encoding == RAW, encoding
                for row in rows[y:y + lines]:
                    pixels = _exactly(answers, 4 * columns)
                    for colour in range(3):
                        row[3 * x + colour:3 * (x + columns):3] = (
                            pixels[2 - colour::4])
                missing -= columns * lines
        elif kind == CUT_TEXT:
            _exactly(answers, read('!3xI')[0])
        else:
            assert kind == BELL, kind
    return rows


def _exactly(answers, length):
    content = answers.read(length)
    assert len(content) == length, 'the connection has ended'
    return content


class Serial:
    """A session on a serial console.

    :ivar seen: all that was read so far.
    """

    def __init__(self, url):
        """Connect; the URL is ``tcp://HOST:PORT``, or one of a WebSocket."""
        parts = parse.urlsplit(url)
        assert parts.scheme in ('tcp', 'ws'), url
        self.seen = ''
        if parts.scheme == 'ws':
            self._socket = websocket.create_connection(
                url, PATIENCE, subprotocols=['binary'], suppress_origin=True)
            self._send, self._read = self._socket.send_binary, self._frame
        else:
            self._socket = socket.create_connection(
                (parts.hostname, parts.port), PATIENCE)
            self._send, self._read = self._socket.sendall, self._chunk

    def _chunk(self):
        return self._socket.recv(4096)

    def _frame(self):
        opcode, content = self._socket.recv_data()
        return b'' if opcode == websocket.ABNF.OPCODE_CLOSE else content

    def type(self, text):
        """Type a text; a carriage return is the key Enter."""
        self._send(text.encode())

    def expect(self, text, patience=PATIENCE):
        """Read until a text has come since the last one that did."""
        until = time.monotonic() + patience
        found = ''
        while text not in found:
            self._socket.settimeout(max(0.1, until - time.monotonic()))
            try:
                part = self._read()
            except (TimeoutError, websocket.WebSocketTimeoutException):
                part = b''
            assert part, f'no {text!r} in {self.seen!r}'
            found += part.decode(errors='replace')
            self.seen += part.decode(errors='replace')

    def close(self):
        """Hang up."""
        self._socket.close()


@contextlib.contextmanager
def serial(url):
    """Have a session on a serial console; see :class:`Serial`."""
    session = Serial(url)
    try:
        yield session
    finally:
        session.close()
