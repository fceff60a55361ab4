# SPDX-License-Identifier: Apache-2.0
"""The clients of consoles that the end-to-end tests have."""

import socket
import struct
import threading
import types

import pytest

from tests.e2e import console_clients
from tests.e2e import pictures
from tests.unit import console_proxy

RED, BLUE = b'\0\0\xff\0', b'\xff\0\0\0'


def update(*rectangles):
    """Make a message with some rectangles: x, y, width, height, pixels."""
    return struct.pack('!BxH', 0, len(rectangles)) + b''.join(
        struct.pack('!HHHHi', *place, 0) + pixels
        for *place, pixels in rectangles)


# How a VNC server begins, and what it then says of a screen of 2 x 2.
GREETING = ((b'RFB 003.008\n', 12), (b'\1\1', 1), (b'\0\0\0\0', 1),
            (struct.pack('!HH16sI', 2, 2, bytes(16), 4) + b'name',
             20 + 8 + 10))
PICTURE = (b'\2' + struct.pack('!B3xI', 3, 2) + b'ab'
           + update((0, 0, 2, 1, RED + BLUE))
           + update((0, 1, 1, 1, BLUE), (1, 1, 1, 1, RED)))


@pytest.fixture
def server():
    """A function that serves one client with answers, and returns where."""
    listeners = []

    def serve(steps):
        listener = socket.create_server(('127.0.0.1', 0))
        listeners.append(listener)

        def run():
            client, _ = listener.accept()
            with client:
                for answer, length in steps:
                    client.sendall(answer)
                    console_proxy._exactly(client, length)
        threading.Thread(target=run, daemon=True).start()
        return listener.getsockname()

    yield serve
    for listener in listeners:
        listener.close()


def test_screenshot(server):
    found = console_clients.screenshot(*server(
        (*GREETING, (PICTURE, 0))))
    assert found == pictures.Picture.of(
        2, [b'\xff\0\0\0\0\xff', b'\0\0\xff\xff\0\0'])


@pytest.mark.parametrize('steps', [
    (), ((b'RFB 003.003\n', 0),), (GREETING[0], (b'\1\2', 0)),
    (*GREETING[:2], (b'\0\0\0\1', 0)), (*GREETING, (PICTURE[:-1], 0)),
    (*GREETING, (b'\1', 0))])
def test_screen_that_is_not_shown(server, steps):
    with pytest.raises(AssertionError):
        console_clients.screenshot(*server(steps))


def test_serial_session(server):
    host, port = server([(b'\r\nlogin: ', 7), (b'nobody\r\nPassword: ', 1)])
    with console_clients.serial(f'tcp://{host}:{port}') as session:
        session.expect('login: ')
        session.type('nobody\r')
        session.expect('Password: ')
        session.type('\r')
        with pytest.raises(AssertionError, match='Password'):
            session.expect('login: ')


def test_serial_session_of_a_web_socket():
    cloud = types.SimpleNamespace(console_tokens=['token'])
    with (console_proxy.ConsoleProxy(cloud) as proxy,
          console_clients.serial(
              f'{cloud.consoles["serial"]}?token=token') as session):
        other_side = proxy.session()
        other_side.send(b'log', b'in: ')
        session.expect('login: ')
        session.type('nobody\r')
        assert other_side.receive(7) == b'nobody\r'
        other_side.close(console_proxy.frame(
            b'\x03\xe8', console_proxy.CLOSE))
        with pytest.raises(AssertionError, match='login'):
            session.expect('Password: ')
