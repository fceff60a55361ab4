# SPDX-License-Identifier: Apache-2.0
"""The transport of a session: each answer has a limit in time and in size.

The timeouts of requests are those of a single read: an answer that trickles
would take for ever, and a compressed one may be a thousand times its size.
"""

from collections import abc
import contextlib
import io
import socket
import threading
import typing

from keystoneauth1 import session as ks_session
from oslo_utils import units
import requests
import urllib3
from urllib3 import connection
from urllib3 import exceptions

from quintupleo_power.conf import CONF

# Seconds for a connection: a host that is there takes one at once.
CONNECT_TIMEOUT = 10.0
# Bytes of an answer, before and after decompression. A page of 1,000 servers
# has 6 MiB.
LARGEST_ANSWER = 32 * units.Mi
_CHUNK = 16 * units.Ki

# A function of an answer, which raises what it is refused with.
Check = abc.Callable[[requests.Response], None]

_here = threading.local()


class TooLarge(requests.exceptions.RequestException):
    """An answer has more than LARGEST_ANSWER bytes."""


class Transport(requests.adapters.BaseAdapter):
    """Sends by an adapter of requests, and reads the answer within limits."""

    def __init__(self, adapter: requests.adapters.BaseAdapter,
                 checks: abc.Iterable[Check]):
        """Send by another adapter; see :func:`mount`."""
        super().__init__()
        self._adapter = adapter
        self._checks = checks
        _limit_connections(getattr(adapter, 'poolmanager', None))

    def send(self, request: requests.PreparedRequest,
             *args: typing.Any, **kwargs: typing.Any) -> requests.Response:
        """Send a request and return its answer.

        All of it was read, unless it is to be streamed.

        :raises: requests.exceptions.ReadTimeout if that took too long,
            TooLarge if there is too much of it.
        """
        seconds = kwargs.get('timeout') or CONF.quintupleo.timeout
        is_streamed = kwargs.get('stream')
        kwargs.update(timeout=(min(seconds, CONNECT_TIMEOUT), seconds),
                      stream=True)
        proxy = requests.utils.select_proxy(request.url,
                                            kwargs.get('proxies'))
        if proxy:
            _limit_connections(self._adapter.proxy_manager_for(proxy))
        # An image takes its time to be sent.
        is_upload = not isinstance(request.body, bytes | str | None)
        with _limit(CONF.quintupleo.image_timeout if is_upload else seconds,
                    request):
            answer = self._adapter.send(request, *args, **kwargs)
            if not is_streamed:
                _read(answer)
        for check in self._checks:
            check(answer)
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._adapter.close()


def mount(session: ks_session.Session, *checks: Check) -> None:
    """Have a session read its answers within limits and check them, once."""
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, Transport):
            session.mount(prefix, Transport(adapter, checks))


def _read(answer):
    """Read the body of an answer, and have it stand ready."""
    content = bytearray()
    try:
        for chunk in answer.raw.stream(_CHUNK, decode_content=True):
            content += chunk
            if len(content) > LARGEST_ANSWER:
                raise TooLarge(f'its answer has more than {LARGEST_ANSWER} '
                               'bytes', response=answer)
    except exceptions.HTTPError as exc:
        raise requests.exceptions.ChunkedEncodingError(exc, response=answer)
    finally:
        # Where something is left to read, its connection serves no other.
        answer.raw.close()
    answer.raw = urllib3.HTTPResponse(
        io.BytesIO(content), status=answer.status_code, preload_content=False)


@contextlib.contextmanager
def _limit(seconds, request):
    """End what is sent and read meanwhile after so many seconds."""
    limit = _here.limit = _Limit()
    timer = threading.Timer(seconds, limit.end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (requests.exceptions.RequestException, OSError):
        if not limit.is_over:
            raise
    finally:
        timer.cancel()
        limit.release()
        _here.limit = None
    if limit.is_over:
        raise requests.exceptions.ReadTimeout(
            f'no whole answer within {seconds:g} s', request=request)


class _Limit:
    """Shuts a connection down when its time is over.

    :ivar is_over: whether it has done so.
    """

    def __init__(self):
        self.is_over = False
        self._connection = None
        self._lock = threading.Lock()

    def use(self, connection: typing.Any) -> None:
        """Limit this connection from now on."""
        self._connection = connection
        if self.is_over:
            raise exceptions.ConnectTimeoutError(connection, 'too late')

    def release(self) -> None:
        """Leave the connection alone, which serves others later."""
        with self._lock:
            self._connection = None

    def end(self) -> None:
        """End what is read from the connection."""
        self.is_over = True
        with self._lock:
            opened = getattr(self._connection, 'sock', None)
            if opened:
                # Who reads from it sees its end.
                with contextlib.suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)


class _HTTPConnection(connection.HTTPConnection):

    def connect(self) -> None:
        """Connect, within the time of the request."""
        self._use_limit()
        super().connect()

    def request(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Send a request, within its time."""
        self._use_limit()
        super().request(*args, **kwargs)

    def _use_limit(self):
        limit = getattr(_here, 'limit', None)
        if limit:
            limit.use(self)


class _HTTPSConnection(_HTTPConnection, connection.HTTPSConnection):
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


def _limit_connections(manager):
    if isinstance(manager, urllib3.PoolManager):
        manager.pool_classes_by_scheme = {'http': _HTTPPool,
                                          'https': _HTTPSPool}
