# SPDX-License-Identifier: Apache-2.0
"""Consoles of servers, and what the guests wrote to them."""

import os
import ssl
from urllib import parse

import requests
import websocket

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import transport
from quintupleo_power.host_cloud import typed_json

# The types of Nova's API reference, "Create Console", with their protocols;
# those whose hypervisors Nova has given up are left out.
PROTOCOLS = {
    'novnc': 'vnc',
    'serial': 'serial',
    'spice-html5': 'spice',
    'webmks': 'mks',
}
DEFAULT = 'novnc'

# The first compute API with ``POST /servers/{id}/remote-consoles``.
MICROVERSION = (2, 6)


def url(compute: service.Service, server: servers.Server,
        console_type: str) -> str:
    """Return the URL of a console.

    Its token opens the console to anybody for as long as Nova's
    ``[consoleauth]token_ttl`` says, and is kept out of the log.

    :param console_type: a key of :data:`PROTOCOLS`.
    :raises: NotOffered if the host cloud has no console of that type for
        the server, NotFound if it has none now.
    """
    if compute.microversion < MICROVERSION:
        raise errors.NotOffered(
            'The compute API of the host cloud is %d.%d, and it takes 2.6 '
            'to ask for the console of a server: use the console_log of '
            'the vendor passthru' % compute.microversion)
    try:
        console = compute.ask(
            f'/servers/{server.id}/remote-consoles',
            {'remote_console': {'protocol': PROTOCOLS[console_type],
                                'type': console_type}},
            'remote_console', logged=False)
    except (errors.BadRequest, errors.NotOffered) as exc:
        raise errors.NotOffered(
            f"The host cloud gives no '{console_type}' console of server "
            f'{server.id} ({exc}): use console_interface quintupleo, and set '
            'driver_info/quintupleo_console_type to a type that it has, of '
            f'{", ".join(PROTOCOLS)}')
    except errors.NotFound as exc:
        raise errors.NotFound(
            f'Server {server.id} has no console as things stand ({exc}): '
            'power it on and try again')
    found = typed_json.Body(console, f'the console of server {server.id}',
                        'Nova')
    if not found.get('url', str):
        raise found.wrong('url is empty')
    return found.get('url', str)


def connect(compute: service.Service, server: servers.Server,
            console_type: str) -> websocket.WebSocket:
    """Return a connection to a console, by a new token.

    :param console_type: 'novnc', where a VNC server speaks that asks for no
        password, as Nova's proxy has answered the hypervisor; or 'serial'.
    :raises: NotPossible if the proxy cannot be used, or what :func:`url`
        raises.
    """
    page = url(compute, server, console_type)
    try:
        address = _websocket_url(page)
        console = websocket.WebSocket(
            sslopt=_tls_options(address, compute.verify),
            fire_cont_frame=True, skip_utf8_validation=True)
        # Nova compares the Origin of those who have one, which are browsers.
        console.connect(address, timeout=transport.CONNECT_TIMEOUT,
                        subprotocols=['binary'], suppress_origin=True,
                        redirect_limit=0)
        if console.getstatus() == 101:
            return console
        console.shutdown()
        reason = f'HTTP status {console.getstatus()}'
    except (OSError, websocket.WebSocketException,
            *errors.UNEXPECTED_FORM) as exc:
        # What follows are an answer's headers and body: they may repeat the
        # token.
        reason = str(exc).partition(' -+-+- ')[0]
    raise errors.NotPossible(
        f'{page.partition("?")[0]} of the host cloud gives no connection to '
        f'the console of server {server.id} ({reason}): the conductor has to '
        'reach it, and to trust its certificate by the CAs of the credentials')


def _websocket_url(page: str) -> str:
    """Return where the page of a console finds its WebSocket."""
    parts = parse.urlsplit(page)
    if parts.scheme in ('ws', 'wss'):
        return page
    # Nova before 19.0 (Stein) has the token in the query itself.
    path = parse.parse_qs(parts.query).get('path', [f'?{parts.query}'])[0]
    scheme = 'wss' if parts.scheme == 'https' else 'ws'
    return f'{scheme}://{parts.netloc}/{path.lstrip("/")}'


def _tls_options(address, verify):
    """Return what makes websocket-client trust whom requests trusts."""
    verify = requests.Session().merge_environment_settings(
        address, {}, None, verify, None)['verify']
    if not verify:
        return {'cert_reqs': ssl.CERT_NONE, 'check_hostname': False}
    path = requests.certs.where() if verify is True else verify
    return {'ca_cert_path' if os.path.isdir(path) else 'ca_certs': path}


def log(compute: service.Service, server: servers.Server,
        lines: int | None = None) -> str:
    """Return what the guest has written to its serial console.

    With libvirt that is what it wrote since it was started last, 100 KiB
    at most (``MAX_CONSOLE_BYTES`` in ``nova/virt/libvirt/driver.py``).

    :param lines: how many lines of its end; None for all.
    :raises: NotFound if it has no console log.
    """
    # Nova takes -1, its word for all, for "all but the first line".
    options = {} if lines is None else {'length': lines}
    try:
        return compute.ask(
            f'/servers/{server.id}/action',
            {'os-getConsoleOutput': options}, 'output', str,
            logged=False)
    except errors.NotFound as exc:
        raise errors.NotFound(
            f'The host cloud has no console log of server {server.id} '
            f'({exc})')
