# SPDX-License-Identifier: Apache-2.0
"""What of a node's network_data no ramdisk could apply.

Ironic's schema (``ironic/api/controllers/v1/network-data-schema.json``) looks
at the form of each entry, and not at what entries say of one another.
"""

from collections import abc
import ipaddress

from ironic.common import exception
from ironic import objects

_VLAN_IDS = range(1, 4095)
_STATIC = ('ipv4', 'ipv6')


def check(node: 'objects.Node') -> None:
    """Raise InvalidParameterValue if network_data cannot be applied."""
    found = node.network_data or {}
    links = found.get('links') or ()
    faults = [*_faults_of_links(links),
              *_faults_of_networks(found.get('networks') or (),
                                   {link.get('id') for link in links})]
    if faults:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: network_data cannot be applied: {faults[0]}')


def _faults_of_links(links: abc.Sequence[dict]) -> abc.Iterator[str]:
    ids = [link.get('id') for link in links]
    for link in links:
        name = f"link '{link.get('id')}'"
        if ids.count(link.get('id')) > 1:
            yield f'there is more than one {name}'
        for key in ('ethernet_mac_address', 'vlan_mac_address'):
            if '-' in (link.get(key) or ''):
                yield f'write {key} of {name} with colons'
        lower = list(link.get('bond_links') or ())
        if link.get('type') == 'vlan':
            lower.append(link.get('vlan_link'))
            if link.get('vlan_id') not in _VLAN_IDS:
                yield (f'{name} has vlan_id {link.get("vlan_id")}: use 1 to '
                       '4094')
        for other in lower:
            if other not in ids or other == link.get('id'):
                yield f"{name} is on '{other}', which is no other link"


def _faults_of_networks(networks: abc.Sequence[dict], links: set
                        ) -> abc.Iterator[str]:
    for network in networks:
        name = f"network '{network.get('id')}'"
        routes = network.get('routes') or ()
        if network.get('link') not in links:
            yield f"{name} is on '{network.get('link')}', which is no link"
        if network.get('type') in _STATIC:
            yield from _faults_of_addresses(name, network, routes)
        elif routes:
            # cloud-init leaves them to DHCP and router advertisements.
            yield (f'{name} gets its routes where it gets its address: leave '
                   'them out')


def _faults_of_addresses(name: str, network: dict, routes: abc.Sequence[dict]
                         ) -> abc.Iterator[str]:
    address, mask = network.get('ip_address') or '', network.get('netmask')
    if not address or not (mask or '/' in address):
        yield f'{name} needs ip_address, and netmask or a length in ip_address'
        return
    for text in (address, *(route.get(key) for route in routes
                            for key in ('network', 'gateway'))):
        if not _is_address(text):
            yield f"'{text}' of {name} is no address"
    for text in (*filter(None, (mask,)),
                 *(route.get('netmask') for route in routes)):
        if not _is_netmask(text):
            yield f"'{text}' of {name} is no netmask"


def _is_address(text: str | None) -> bool:
    try:
        # Scopes are names of cards, which a machine may have others of.
        return not getattr(ipaddress.ip_interface(text or ''), 'scope_id',
                           None)
    except ValueError:
        return False


def _is_netmask(text: str | None) -> bool:
    """Return whether a netmask is ones followed by zeros."""
    try:
        mask = ipaddress.ip_address(text or '')
    except ValueError:
        return False
    zeros = ~int(mask) & (2 ** mask.max_prefixlen - 1)
    return zeros & (zeros + 1) == 0
