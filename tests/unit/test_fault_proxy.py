# SPDX-License-Identifier: Apache-2.0
"""What the proxy of the functional tests does to a service."""

import gzip
from http import server
import threading
import time

import pytest
import requests

from tests.functional import fault_proxy

PATIENCE = 0.5
BODY = b'{"server": {"id": "a"}}'


class Upstream(server.BaseHTTPRequestHandler):
    """A service that has one answer."""

    def do_GET(self):
        """Answer."""
        self.send_response(200)
        self.send_header('Content-Length', str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def proxy(monkeypatch):
    monkeypatch.setattr(fault_proxy, 'ENDLESS', 2 ** 22)
    listener = server.ThreadingHTTPServer(('127.0.0.1', 0), Upstream)
    threading.Thread(target=listener.serve_forever, args=(0.01,),
                     daemon=True).start()
    made = fault_proxy.FaultProxy({
        'compute': f'http://127.0.0.1:{listener.server_port}'}, PATIENCE)
    yield made
    made.close()
    listener.shutdown()
    listener.server_close()


def get(proxy, fault, **kwargs):
    """Ask once with a fault, and once without."""
    proxy.inject(fault, 'server')
    url = f'{proxy.urls["compute"]}/v2.1/servers/a'
    try:
        return requests.get(url, timeout=5, **kwargs)
    finally:
        assert proxy.injected
        assert requests.get(url, timeout=5).content == BODY


@pytest.mark.parametrize('status', [300, 400, 403, 404, 405, 406, 413])
def test_status_of_the_service_and_of_a_proxy(proxy, status):
    found = get(proxy, str(status))
    assert found.status_code == status
    assert found.headers['x-openstack-request-id'].startswith('req-')
    assert found.json()['fault']['code'] == status
    proxy.clear()
    found = get(proxy, f'{status} of a proxy')
    assert found.status_code == status
    assert 'x-openstack-request-id' not in found.headers
    assert found.content == fault_proxy.HTML


def test_trickling_answer_outlasts_every_single_read(proxy):
    found = get(proxy, 'trickling', stream=True)
    begun = time.monotonic()
    content = iter(found.iter_content(1))
    while time.monotonic() - begun < 3 * PATIENCE:
        before = time.monotonic()
        next(content)
        assert time.monotonic() - before < PATIENCE
    found.close()


def test_endless_answer(proxy):
    with get(proxy, 'endless', stream=True) as found:
        assert 'Content-Length' not in found.headers
        assert len(found.raw.read()) == fault_proxy.ENDLESS


def test_compressed_answer_is_the_service_s(proxy):
    found = get(proxy, 'compressed')
    assert found.headers['Content-Encoding'] == 'gzip'
    assert found.content == BODY


def test_bomb_is_small_until_it_is_unpacked(proxy):
    with get(proxy, 'bomb', stream=True) as found:
        packed = found.raw.read(decode_content=False)
    assert len(packed) < fault_proxy.ENDLESS / 500
    assert gzip.decompress(packed) == bytes(fault_proxy.ENDLESS)
    assert get(proxy, 'bomb').content == bytes(fault_proxy.ENDLESS)


def test_each_fault_is_one_that_can_be_injected():
    assert all(callable(fault) for fault in fault_proxy.FAULTS.values())
