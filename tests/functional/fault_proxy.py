# SPDX-License-Identifier: Apache-2.0
"""A proxy between the driver and a real host cloud that does harm on request.

It listens in front of Keystone, Nova, Glance, Neutron and, where the cloud has
it, Cinder, passes on what it gets and puts its own addresses into the catalog
and the version documents on their way back, so that a client stays with it. A
fault is injected at the n-th request of a kind. Nothing of the driver is
replaced or patched.
"""

import dataclasses
import email.utils
import gzip
import http.client
from http import server as http_server
import json
import re
import socket
import threading
import time
from urllib import parse
import uuid

# Requests by what they are for, as (service, method, path).
STEPS = {
    'identity versions': ('identity', 'GET', r'/v3/?$'),
    'token': ('identity', 'POST', r'/auth/tokens$'),
    'compute versions': ('compute', 'GET', r'^/v2\.1/?$'),
    'server': ('compute', 'GET', r'/servers/[^/]+$'),
    'action': ('compute', 'POST', r'/servers/[^/]+/action$'),
    'records': ('compute', 'GET', r'/os-instance-actions$'),
    'record': ('compute', 'GET', r'/os-instance-actions/.+$'),
    'image versions': ('image', 'GET', r'^/(v2/?)?$'),
    'image': ('image', 'GET', r'/images(/.+)?$'),
    'new image': ('image', 'POST', r'/images$'),
    'upload': ('image', 'PUT', r'/images/.+/file$'),
    'removal': ('image', 'DELETE', r'/images/.+$'),
    'network versions': ('network', 'GET', r'^/(v2\.0/?)?$'),
    'networks': ('network', 'GET', r'/networks(/.+)?$'),
    'ports': ('network', 'GET', r'/ports(/.+)?$'),
    'new port': ('network', 'POST', r'/ports$'),
    'removal of a port': ('network', 'DELETE', r'/ports/.+$'),
    'interfaces': ('compute', 'GET', r'/os-interface$'),
    'attachment': ('compute', 'POST', r'/os-interface$'),
    'detachment': ('compute', 'DELETE', r'/os-interface/.+$'),
    'volume versions': ('block-storage', 'GET', r'^/(v3/?)?$'),
    'volume': ('block-storage', 'GET', r'/volumes/[^/]+$'),
}

_HOP_BY_HOP = {'connection', 'keep-alive', 'proxy-authenticate',
               'proxy-authorization', 'te', 'trailer', 'transfer-encoding',
               'upgrade', 'content-length'}

# Bytes that an answer without an end has at the most, and a bomb unpacked.
ENDLESS = 256 * 2 ** 20
_CHUNK = bytes(2 ** 16)

HTML = (b'<html><head><title>Maintenance</title></head>'
        b'<body><h1>Back soon</h1></body></html>')


def step_of(service, method, path):
    """Tell what a request is for, None for what no step has."""
    for name, (its_service, its_method, pattern) in STEPS.items():
        if (service, method) == (its_service, its_method) and re.search(
                pattern, path):
            return name
    return None


@dataclasses.dataclass
class Answer:
    """An answer of a service, or what stands for one."""

    status: int
    headers: list
    body: bytes

    @classmethod
    def of(cls, status, body, content_type='application/json', **headers):
        """Make an answer that no service gave."""
        return cls(status, [('Content-Type', content_type),
                            *((name.replace('_', '-'), value)
                              for name, value in headers.items())], body)


class Exchange:
    """One request on its way through the proxy."""

    def __init__(self, proxy, handler, service, body):
        self.proxy = proxy
        self.handler = handler
        self.service = service
        self.body = body

    def forward(self):
        """Ask the service; its answer names the proxy instead of it."""
        upstream = parse.urlsplit(self.proxy.upstreams[self.service])
        connection = http.client.HTTPConnection(
            upstream.hostname, upstream.port, timeout=60)
        try:
            headers = {name: value for name, value
                       in self.handler.headers.items()
                       if name.lower() not in _HOP_BY_HOP | {
                           'host', 'accept-encoding'}}
            connection.request(self.handler.command, self.handler.path,
                               body=self.body or None, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            for service, url in self.proxy.upstreams.items():
                body = body.replace(url.encode(),
                                    self.proxy.urls[service].encode())
            return Answer(answer.status, [
                (name, value) for name, value in answer.getheaders()
                if name.lower() not in _HOP_BY_HOP], body)
        finally:
            connection.close()

    def send(self, answer, of_body=1.0):
        """Answer; with less than the whole body, break off in it."""
        handler = self.handler
        handler.send_response_only(answer.status)
        for name, value in answer.headers:
            handler.send_header(name, value)
        # A 204 has no body to break off in.
        length = len(answer.body) or (0 if of_body == 1.0 else 64)
        handler.send_header('Content-Length', str(length))
        handler.end_headers()
        handler.wfile.write(answer.body[:int(len(answer.body) * of_body)])
        handler.wfile.flush()
        if of_body < 1.0:
            self.cut()

    def cut(self):
        """Close the connection without a word."""
        self.handler.close_connection = True
        try:
            self.handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The other side was quicker.
            pass

    def stream(self, chunks, seconds=0.0, **headers):
        """Answer with chunks, so many seconds apart, while they are read."""
        self.handler.send_response_only(200)
        for name, value in headers.items():
            self.handler.send_header(name.replace('_', '-'), value)
        self.handler.end_headers()
        for chunk in chunks:
            self.handler.wfile.write(chunk)
            self.proxy.pause(seconds)
        self.cut()

    def status(self, status, **headers):
        """Answer with an error as Nova does."""
        self.send(Answer.of(status, json.dumps({'fault': {
            'code': status, 'message': f'Injected {status}'}}).encode(),
            x_openstack_request_id=f'req-{uuid.uuid4()}', **headers))


def _status(status, **headers):
    return lambda exchange: exchange.status(status, **headers)


def _page(status):
    """Answer with a page, as what stands before a service does."""
    return lambda exchange: exchange.send(
        Answer.of(status, HTML, 'text/html'))


def _after(status):
    def fault(exchange):
        exchange.forward()
        exchange.status(status)
    return fault


def _in_form(body, content_type):
    return lambda exchange: exchange.send(
        Answer.of(200, body, content_type))


def _retry_at_date(exchange):
    exchange.status(429, Retry_After=email.utils.formatdate(
        time.time() + 2, usegmt=True))


def _cut_after(exchange):
    exchange.forward()
    exchange.cut()


def _timeout(exchange):
    exchange.proxy.pause(exchange.proxy.patience * 1.25)
    exchange.cut()


def _timeout_after(exchange):
    exchange.forward()
    _timeout(exchange)


def _late(exchange):
    """Pass a request on after whoever sent it has given up waiting."""
    exchange.proxy.pause(exchange.proxy.patience * 1.25)
    exchange.forward()
    exchange.cut()


def _slow(exchange):
    exchange.proxy.pause(exchange.proxy.patience / 2)
    exchange.send(exchange.forward())


def _truncated(exchange):
    exchange.send(exchange.forward(), of_body=0.5)


def _trickling(exchange):
    """Answer so slowly that no single read takes too long."""
    seconds = exchange.proxy.patience / 10
    exchange.stream([b'{', *[b' '] * 100], seconds, Content_Length='101')


def _endless(exchange):
    exchange.stream(_CHUNK for _ in range(ENDLESS // len(_CHUNK)))


def _compressed(exchange):
    answer = exchange.forward()
    exchange.send(Answer(
        answer.status, [*answer.headers, ('Content-Encoding', 'gzip')],
        gzip.compress(answer.body)) if answer.body else answer)


def bomb():
    """Return ENDLESS bytes as gzip packs them, about a thousandth."""
    part = bytes(2 ** 20)
    return gzip.compress(part) * (ENDLESS // len(part))


def _bomb(exchange):
    exchange.send(Answer.of(200, bomb(), Content_Encoding='gzip'))


def _wrong_types(exchange):
    answer = (exchange.forward() if exchange.handler.command == 'GET'
              else Answer.of(200, b'{}'))
    exchange.send(Answer(answer.status, answer.headers, json.dumps(
        _twisted(json.loads(answer.body or b'null'))).encode()))


def _twisted(value):
    """Replace each value by one of another type, keeping all keys."""
    if isinstance(value, dict):
        return {key: _twisted(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return {'list': [_twisted(inner) for inner in value]}
    return [value] if isinstance(value, str) else str(value)


def _revoked(exchange):
    """Revoke the token really, and refuse it from now on as Nova would.

    Nova itself takes it until its cache of tokens has forgotten it.
    """
    token = exchange.handler.headers.get('X-Auth-Token')
    if token:
        exchange.proxy.revoke(token)
    exchange.status(401)


def _revoked_and_keystone_busy(exchange):
    exchange.proxy.inject('503', 'token')
    _revoked(exchange)


def _away(exchange):
    exchange.proxy.go_away(3.0)
    exchange.cut()


def _away_for_good(exchange):
    exchange.proxy.go_away(3600.0)
    exchange.cut()


FAULTS = {
    '300': _status(300),
    '300 of a proxy': _page(300),
    '400': _status(400),
    '400 of a proxy': _page(400),
    '401': _status(401),
    '403': _status(403),
    '403 of a proxy': _page(403),
    '404': _status(404),
    '404 of a proxy': _page(404),
    '405': _status(405),
    '405 of a proxy': _page(405),
    '406': _status(406),
    '406 of a proxy': _page(406),
    '409': _status(409),
    '413': _status(413),
    '413 of a proxy': _page(413),
    '429': _status(429),
    '429, come back in seconds': _status(429, Retry_After='1'),
    '429, come back at a date': _retry_at_date,
    '429, come back next year': _status(429, Retry_After='31536000'),
    '429, come back yesterday': _status(
        429, Retry_After='Fri, 31 Dec 1999 23:59:59 GMT'),
    '429, come back whenever': _status(429, Retry_After='-7 whenever'),
    '500': _status(500),
    '500 after it was done': _after(500),
    '502': _status(502),
    '502 after it was done': _after(502),
    '503': _status(503),
    '503, come back in seconds': _status(503, Retry_After='1'),
    '504': _status(504),
    '504 after it was done': _after(504),
    'cut before': Exchange.cut,
    'cut after': _cut_after,
    'timeout before': _timeout,
    'timeout after': _timeout_after,
    'late': _late,
    'slow': _slow,
    'token revoked': _revoked,
    'token revoked, Keystone busy': _revoked_and_keystone_busy,
    'HTML': _in_form(HTML, 'text/html'),
    'nothing': _in_form(b'', 'application/json'),
    'a list': _in_form(b'["a"]', 'application/json'),
    'missing keys': _in_form(b'{}', 'application/json'),
    'wrong types': _wrong_types,
    'truncated': _truncated,
    'trickling': _trickling,
    'endless': _endless,
    'compressed': _compressed,
    'bomb': _bomb,
    'away': _away,
    'away for good': _away_for_good,
}


@dataclasses.dataclass
class _Injection:
    fault: str
    step: str
    skip: int
    times: int


class FaultProxy:
    """Listeners in front of the services of a cloud, one for each.

    :ivar urls: the address of each service, as a user of the proxy sees it.
    :ivar seen: step and status of each request since :meth:`clear`.
    :ivar injected: how many faults took effect since :meth:`clear`.
    """

    def __init__(self, upstreams, patience):
        """Listen.

        :param upstreams: dict from 'identity', 'compute', 'image', 'network'
            and 'block-storage' to the scheme, host and port that the catalog
            has for the service.
        :param patience: seconds after which the driver gives a request up.
        """
        self.upstreams = upstreams
        self.patience = patience
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._under_way = 0
        self.clear()
        self._servers = {}
        self.urls = {}
        for service in upstreams:
            listener = http_server.ThreadingHTTPServer(
                ('127.0.0.1', 0), _handler(self, service))
            listener.daemon_threads = True
            self._servers[service] = listener
            self.urls[service] = (
                f'http://127.0.0.1:{listener.server_address[1]}')
            threading.Thread(target=listener.serve_forever,
                             kwargs={'poll_interval': 0.05},
                             daemon=True).start()

    def close(self):
        """Stop listening, and let delayed requests go."""
        self._closed.set()
        for listener in self._servers.values():
            listener.shutdown()
            listener.server_close()

    def clear(self):
        """Be an honest proxy again."""
        with self._lock:
            self._injections = []
            self._revoked = set()
            self._away_until = 0.0
            self.seen = []
            self.injected = 0

    def inject(self, fault, step, skip=0, times=1):
        """Let requests fail.

        :param fault: a key of ``FAULTS``.
        :param step: a key of ``STEPS``.
        :param skip: how many requests of the step are served before.
        :param times: how many of them fail.
        """
        with self._lock:
            self._injections.append(_Injection(fault, step, skip, times))

    def pause(self, seconds):
        """Sleep, but not beyond the end of the proxy."""
        self._closed.wait(seconds)

    def go_away(self, seconds):
        """Cut every connection for a while."""
        with self._lock:
            self._away_until = time.monotonic() + seconds

    def revoke(self, token):
        """Revoke a token at Keystone itself."""
        with self._lock:
            self._revoked.add(token)
        upstream = parse.urlsplit(self.upstreams['identity'])
        connection = http.client.HTTPConnection(
            upstream.hostname, upstream.port, timeout=60)
        connection.request('DELETE', '/v3/auth/tokens', headers={
            'X-Auth-Token': token, 'X-Subject-Token': token})
        assert connection.getresponse().status == 204
        connection.close()

    def serve(self, exchange):
        """Serve a request, or harm it."""
        handler = exchange.handler
        step = step_of(exchange.service, handler.command,
                       parse.urlsplit(handler.path).path)
        fault = self._fault(step, handler.headers.get('X-Auth-Token'))
        with self._lock:
            self.seen.append((step, fault))
            self._under_way += 1
        try:
            if fault is None:
                exchange.send(exchange.forward())
            else:
                FAULTS[fault](exchange)
        finally:
            with self._lock:
                self._under_way -= 1

    def drain(self):
        """Wait until all that was received is dealt with."""
        while self._under_way:
            time.sleep(0.05)

    def _fault(self, step, token):
        with self._lock:
            if time.monotonic() < self._away_until:
                return 'cut before'
            if token in self._revoked:
                return '401'
            for injection in self._injections:
                if injection.step != step or not injection.times:
                    continue
                if injection.skip:
                    injection.skip -= 1
                    continue
                injection.times -= 1
                self.injected += 1
                return injection.fault
        return None


def _handler(proxy, service):
    class Handler(http_server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        # Waits for a next request on a connection kept alive.
        timeout = 30

        def handle_one_request(self):
            try:
                super().handle_one_request()
            except ConnectionError:
                # Whoever was given up on has hung up.
                self.close_connection = True

        def _serve(self):
            length = int(self.headers.get('Content-Length') or 0)
            body = self.rfile.read(length)
            proxy.serve(Exchange(proxy, self, service, body))

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _serve

        def log_message(self, *args):
            """Keep quiet; what matters is in ``seen``."""

    return Handler
