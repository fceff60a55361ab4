# SPDX-License-Identifier: Apache-2.0
"""Consoles of servers, and what the guests wrote to them."""

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
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
            f'{server.id} ({exc}): set driver_info/quintupleo_console_type'
            f' to a type that it has, of {", ".join(PROTOCOLS)}')
    except errors.NotFound as exc:
        raise errors.NotFound(
            f'Server {server.id} has no console as things stand ({exc}): '
            'power it on and try again')
    found = typed_json.Body(console, f'the console of server {server.id}',
                        'Nova')
    if not found.get('url', str):
        raise found.wrong('url is empty')
    return found.get('url', str)


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
