# SPDX-License-Identifier: Apache-2.0
"""Addresses of identity services: which of them permits which.

Who may edit a node chooses text that the conductor takes for an address.
Programs read unusual addresses each in a way of its own, so only usual ones
are looked at: what is compared here is what is connected to.
"""

from collections import abc
import ipaddress
import re
from urllib import parse as urlparse

_PLAIN = re.compile(
    r'(?P<scheme>https?)://'
    r'(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])'
    r'(?::(?P<port>[0-9]{1,5}))?'
    r'(?P<path>(?:/[a-z0-9_.~-]+)*)/?',
    re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS = {'http': 80, 'https': 443}


def parse(url: str) -> tuple[tuple[str, str, int], tuple[str, ...]] | None:
    """Return an address, or None unless it is a plain http or https one.

    User information, queries, fragments, encoded characters, '.' and '..' are
    not plain.

    :returns: (what decides who answers: scheme, host in lower case and port,
        the segments of the path).
    """
    match = _PLAIN.fullmatch(url)
    if match is None:
        return None
    scheme = match['scheme'].lower()
    host = match['host'].lower()
    if host.startswith('['):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return None
    port = int(match['port'] or _DEFAULT_PORTS[scheme])
    path = tuple(match['path'].split('/')[1:])
    if not 0 < port < 65536 or '..' in host or {'.', '..'} & set(path):
        return None
    return (scheme, host, port), path


def permitted(url: str, allowed: abc.Iterable[str]) -> bool:
    """Return whether a URL is one of some plain ones, or below its path."""
    wanted = parse(url)
    return wanted is not None and any(
        address and address[0] == wanted[0]
        and address[1] == wanted[1][:len(address[1])]
        for address in map(parse, allowed))


def same_service(url: str | None, other: str | None) -> bool:
    """Return whether URLs stand for one service, with or without version."""
    if not url or not other:
        return False
    return permitted(url, [other]) or permitted(other, [url])


def redirects_away(url: str, location: str) -> bool:
    """Return whether a redirection leads to another host or gives up TLS.

    :param url: the URL that was asked.
    :param location: where its answer points to; what cannot be read does.
    """
    old = urlparse.urlsplit(url)
    try:
        new = urlparse.urlsplit(urlparse.urljoin(url, location))
        if (old.scheme, new.scheme) == ('http', 'https'):
            return old.hostname != new.hostname
        return (old.scheme, old.hostname, old.port) != (
            new.scheme, new.hostname, new.port)
    except ValueError:
        return True
