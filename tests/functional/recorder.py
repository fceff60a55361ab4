# SPDX-License-Identifier: Apache-2.0
"""A listener in front of Keystone and Nova that learns which tokens there are.

It passes on what it gets. On request it answers in place of a service, with
the request repeated in the answer, as badly made proxies do.
"""

import dataclasses
from http import client
from http import server
import json
import re
import threading
from urllib import parse

_OWN_HEADERS = ('connection', 'content-length', 'host', 'transfer-encoding')


@dataclasses.dataclass
class Answer:
    """What requests get instead of the service's own answer.

    :ivar method: HTTP method.
    :ivar path: regular expression that the path has to match.
    :ivar status: HTTP status.
    :ivar headers: more headers, as a dict.
    """

    method: str
    path: str
    status: int
    headers: dict = dataclasses.field(default_factory=dict)


class Recorder:
    """Listens on loopback; ``/identity`` is Keystone, ``/compute`` Nova.

    :ivar tokens: the tokens that Keystone issued.
    :ivar requests: '<method> <path>' of each request.
    """

    def __init__(self, identity, compute):
        """Listen.

        :param identity: scheme, host and port of Keystone.
        :param compute: the same of Nova.
        """
        self.tokens = set()
        self.requests = []
        self._answer = None
        self._services = {'identity': identity, 'compute': compute}
        self._server = server.ThreadingHTTPServer(
            ('127.0.0.1', 0), self._handler())
        self._server.daemon_threads = True
        self.url = 'http://127.0.0.1:%d' % self._server.server_port
        threading.Thread(target=self._server.serve_forever,
                         daemon=True).start()

    def answer(self, *args, **kwargs):
        """Answer requests of a kind from now on; nothing ends that."""
        self._answer = Answer(*args, **kwargs) if args else None

    def close(self):
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(recorder):
        class Handler(server.BaseHTTPRequestHandler):

            def do_GET(self):
                recorder._serve(self)

            do_POST = do_GET

            def log_message(self, *args):
                """Write nothing."""

        return Handler

    def _serve(self, handler):
        length = int(handler.headers.get('Content-Length') or 0)
        body = handler.rfile.read(length)
        self.requests.append(f'{handler.command} {handler.path}')
        given = self._answer
        if (given and given.method == handler.command
                and re.search(given.path, handler.path)):
            status, headers, answer = given.status, given.headers, json.dumps(
                {'error': {'code': given.status, 'title': '-', 'message':
                           f'You sent {handler.headers}{body.decode()}'}})
            headers = {'Content-Type': 'application/json', **headers}
            answer = answer.encode()
        else:
            status, headers, answer = self._forward(handler, body)
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header('Content-Length', str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _forward(self, handler, body):
        service, _, path = handler.path[1:].partition('/')
        address = parse.urlsplit(self._services[service])
        connection = client.HTTPConnection(address.netloc, timeout=60)
        try:
            connection.request(handler.command, f'/{path}', body, {
                name: value for name, value in handler.headers.items()
                if name.lower() not in (*_OWN_HEADERS, 'accept-encoding')})
            answer = connection.getresponse()
            token = answer.getheader('X-Subject-Token')
            if token:
                self.tokens.add(token)
            return answer.status, {
                name: value for name, value in answer.getheaders()
                if name.lower() not in _OWN_HEADERS}, answer.read()
        finally:
            connection.close()
