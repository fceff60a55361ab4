# SPDX-License-Identifier: Apache-2.0
"""The stand-in for a host cloud behind real sockets."""

import contextlib
import datetime
from http import server as http_server
import io
import threading

import requests
import requests_mock

from tests.unit import host_cloud_fixture


_ENTRY = '''
  {name}:
    auth:
      auth_url: {url}
      username: operator
      password: {secret}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
'''


def clouds_yaml(clouds):
    """Return a clouds.yaml with an entry for each host cloud of a dict."""
    return 'clouds:' + ''.join(
        _ENTRY.format(name=name, url=host.auth_url,
                      secret=host_cloud_fixture.SECRET)
        for name, host in clouds.items())


class SocketHostCloud(host_cloud_fixture.FakeHostCloud):
    """A host cloud whose services listen on this machine.

    :ivar has_request_ids: whether answers keep their request IDs.
    """

    has_request_ids = True

    def _listen(self):
        answers = requests_mock.Adapter(case_sensitive=True)
        answers.register_uri(requests_mock.ANY, requests_mock.ANY,
                             text=self._answer)
        self._inside = requests.Session()
        self._inside.mount('http://', answers)
        self._urls = {}
        for url in (host_cloud_fixture.AUTH_URL,
                    host_cloud_fixture.COMPUTE_URL,
                    host_cloud_fixture.IMAGE_URL,
                    host_cloud_fixture.VOLUME_URL,
                    host_cloud_fixture.NETWORK_URL):
            self._serve_at('/'.join(url.split('/')[:3]))
        self.image_url = self._urls[host_cloud_fixture.IMAGE_URL]
        self.auth_url = self._outside(host_cloud_fixture.AUTH_URL.encode()
                                      ).decode()

    def _serve_at(self, inside):
        listener = http_server.ThreadingHTTPServer(
            ('127.0.0.1', 0), _handler(self, inside))
        listener.daemon_threads = True
        self._urls[inside] = f'http://127.0.0.1:{listener.server_port}'
        thread = threading.Thread(target=listener.serve_forever,
                                  kwargs={'poll_interval': 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(listener.server_close)
        self.addCleanup(listener.shutdown)

    def _outside(self, body):
        """Put the addresses of the sockets into a body."""
        for inside, outside in self._urls.items():
            body = body.replace(inside.encode(), outside.encode())
        return body

    def exchange(self, method, url, headers, body):
        """Return status, headers and body of an answer."""
        if headers.get('Content-Type') == 'application/octet-stream':
            body = io.BytesIO(body)
        answer = self._inside.request(method, url, data=body, headers=headers,
                                      allow_redirects=False)
        if not self.has_request_ids:
            answer.headers.pop('x-openstack-request-id', None)
        return (answer.status_code, answer.headers,
                self._outside(answer.content))

    def write(self, wfile, content):
        """Write the body of an answer."""
        wfile.write(content)


def _handler(cloud, inside):
    class Handler(http_server.BaseHTTPRequestHandler):

        def _exchange(self):
            body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
            status, headers, content = cloud.exchange(
                self.command, inside + self.path, dict(self.headers), body)
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            # Nobody may wait for it any more.
            with contextlib.suppress(ConnectionError):
                cloud.write(self.wfile, content)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _exchange

        def log_message(self, *args):
            """Write nothing."""

    return Handler


class _Clock(host_cloud_fixture.Clock):
    """The time of this machine."""

    def moment(self):
        """Return the moment as the host cloud's clock shows it."""
        return datetime.datetime.now(datetime.timezone.utc)


class SilentHostCloud(SocketHostCloud):
    """A host cloud on this machine's time that may stop to answer.

    It goes on to accept connections.

    :ivar answers: an event that is set while it answers.
    :ivar trickles: whether bodies come by one byte in a tenth of a second
        while it does not, and not nothing.
    :ivar asked: how many requests came.
    """

    trickles = False

    def _setUp(self):
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0
        self._listen()
        # Before the listeners end, which wait for those that they serve.
        self.addCleanup(self.answers.set)
        self.clock = _Clock()

    def exchange(self, *args):
        """Return an answer, once there are any."""
        self.asked += 1
        if not self.trickles:
            self.answers.wait()
        return super().exchange(*args)

    def write(self, wfile, content):
        """Write the body of an answer, byte by byte while it trickles."""
        while content and not self.answers.wait(0.1):
            super().write(wfile, content[:1])
            content = content[1:]
        super().write(wfile, content)
