# SPDX-License-Identifier: Apache-2.0
"""TCP ports whose connections are passed on to consoles of servers."""

from collections import abc
import contextlib
import errno
import selectors
import socket
import threading
import time

from oslo_log import log
import websocket

LOG = log.getLogger(__name__)

# Connections of one relay at once, each of which has a thread.
MOST = 4
# Seconds between two questions of a connection whether its relay is wanted.
CHECK_INTERVAL = 30.0
# Seconds for one side to take what the other has sent.
SEND_TIMEOUT = 60.0
# Seconds for the rest of a frame whose first bytes have come. websocket-client
# keeps them and goes on from there later: the other direction does not wait.
_FRAME_TIMEOUT = 0.05
_CHUNK = 65536


class Relay:
    """Listens on a port, and opens a console for each connection.

    :ivar address: where it listens, with ``port``.
    :ivar is_open: whether it does.
    """

    def __init__(self, address: str, ports: abc.Iterable[int],
                 is_wanted: abc.Callable[['Relay'], bool],
                 connect: abc.Callable[[], websocket.WebSocket | None]):
        """Listen on the first port that is free.

        :param is_wanted: function of the relay, which ends if it is not.
        :param connect: function that returns a new console, or None if it
            has logged why there is none.
        :raises: OSError if it cannot listen.
        """
        self._listener = _listen(address, ports)
        self.address, self.port = self._listener.getsockname()[:2]
        self.is_open = True
        self._is_wanted = is_wanted
        self._connect = connect
        self._places = threading.BoundedSemaphore(MOST)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening; connections end within a second."""
        self.is_open = False
        # It ends accept() in the other thread, also with eventlet, which
        # closing does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with self._listener:
            while self.is_open:
                try:
                    client, _address = self._listener.accept()
                except OSError:
                    if self.is_open:
                        # The process has no file descriptor left.
                        time.sleep(1)
                else:
                    self._start(client)

    def _start(self, client):
        if self._places.acquire(blocking=False):
            threading.Thread(target=self._serve, args=(client,),
                             daemon=True).start()
        else:
            LOG.warning('Port %d of a console has too many connections: one '
                        'was closed', self.port)
            client.close()

    def _serve(self, client):
        console = None
        try:
            if self._check():
                console = self._connect()
            if console:
                self._copy(client, console)
        except (OSError, websocket.WebSocketException) as exc:
            LOG.debug('A connection to port %(port)d of a console ended: '
                      '%(error)s', {'port': self.port, 'error': exc})
        finally:
            client.close()
            if console:
                console.shutdown()
            self._places.release()

    def _check(self):
        if not self._is_wanted(self):
            self.close()
        return self.is_open

    def _copy(self, client, console):
        """Pass bytes on until one side or the relay ends.

        One thread does so: two may not use a TLS connection at once.
        """
        client.settimeout(SEND_TIMEOUT)
        # A client whose host has died does not keep its place.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        # A selector does not see what TLS has decrypted already.
        pending = getattr(console.sock, 'pending', lambda: 0)
        checked = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(console.sock, selectors.EVENT_READ)
            while self.is_open:
                ready = [key.fileobj for key, _events in selector.select(
                    0 if pending() else 1)]
                if client in ready:
                    data = client.recv(_CHUNK)
                    if not data:
                        return
                    console.settimeout(SEND_TIMEOUT)
                    console.send_binary(data)
                if (console.sock in ready or pending()) and not _receive(
                        client, console):
                    return
                if time.monotonic() >= checked + CHECK_INTERVAL:
                    checked = time.monotonic()
                    self._check()


def _receive(client, console):
    """Pass on what comes from a console, and return whether it goes on."""
    console.settimeout(_FRAME_TIMEOUT)
    try:
        opcode, data = console.recv_data()
    except websocket.WebSocketTimeoutException:
        return True
    if opcode == websocket.ABNF.OPCODE_CLOSE:
        return False
    client.sendall(data)
    return True


def _listen(address, ports):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server((address, port), family=family)
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise
    raise OSError('all of them are in use')
