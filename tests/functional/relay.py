# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that can hold a request, or the answer to it.

It knows no protocol: a request is what a client sent since it was last
answered, and it is told by words in it. That does for HTTP and for the SQL
of a MariaDB client alike.
"""

import contextlib
import enum
import socket
import threading

CHUNK = 65536


class Held(enum.Enum):
    """What of an exchange is held."""

    REQUEST = 'before it reaches the service'
    ANSWER = 'after the service has answered'


class Point:
    """Where one exchange is stopped.

    :ivar held: the :class:`Held`.
    """

    def __init__(self, held, *words):
        """Stop the next exchange whose request has all these words.

        :param held: the :class:`Held`.
        :param words: texts.
        """
        self.held = held
        self._words = [word.encode() for word in words]
        self._taken = False
        self._reached = threading.Event()
        self._over = threading.Event()

    def take(self, request):
        """Tell whether this is the request that is stopped."""
        if self._taken or not all(word in request for word in self._words):
            return False
        self._taken = True
        return True

    def wait_reached(self, timeout=60):
        """Wait until an exchange is stopped here.

        :param timeout: seconds.
        :raises: AssertionError when none came.
        """
        assert self._reached.wait(timeout), (
            f'no request with {self._words} came')

    def end(self):
        """Cut what is held, and hold nothing any more."""
        self._over.set()

    def outlast(self):
        """Tell that the exchange is stopped, and wait for the end."""
        self._reached.set()
        self._over.wait()


class Relay:
    """Passes connections on to one service.

    :ivar port: where it listens, on loopback.
    """

    def __init__(self, target):
        """Listen.

        :param target: (address, port), or the path of a Unix socket.
        """
        self._target = target
        self._points = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        _in_thread(self._accept)

    @contextlib.contextmanager
    def hold(self, *points):
        """Stop exchanges while the block runs; then cut them.

        :param points: :class:`Point`, each for one exchange.
        """
        with self._lock:
            self._points = list(points)
        try:
            yield
        finally:
            with self._lock:
                self._points = []
            for point in points:
                point.end()

    def close(self):
        """Listen no more."""
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            _in_thread(_Exchange(self, client).run)

    def connect(self):
        """Connect to the service."""
        if isinstance(self._target, tuple):
            return socket.create_connection(self._target)
        service = socket.socket(socket.AF_UNIX)
        service.connect(str(self._target))
        return service

    def point_for(self, request):
        """The point at which a request is stopped, or None."""
        with self._lock:
            for point in self._points:
                if point.take(request):
                    return point
        return None


class _Exchange:
    """One connection."""

    def __init__(self, relay, client):
        self._relay = relay
        self._client = client
        self._service = None
        self._request = b''
        self._point = None

    def run(self):
        """Pass on both ways until either side ends."""
        try:
            self._service = self._relay.connect()
        except OSError:
            self._client.close()
            return
        _in_thread(self._pass, self._service, self._client, self._answer)
        self._pass(self._client, self._service, self._ask)

    def _pass(self, source, sink, function):
        try:
            while chunk := source.recv(CHUNK):
                function(chunk)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                # Wakes the thread of the other way.
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _ask(self, chunk):
        self._request += chunk
        if self._point is None:
            self._point = self._relay.point_for(self._request)
            self._cut_if(Held.REQUEST)
        self._service.sendall(chunk)

    def _answer(self, chunk):
        self._cut_if(Held.ANSWER)
        self._request = b''
        self._client.sendall(chunk)

    def _cut_if(self, held):
        if self._point and self._point.held is held:
            self._point.outlast()
            raise ConnectionAbortedError


def _in_thread(function, *args):
    threading.Thread(target=function, args=args, daemon=True).start()
