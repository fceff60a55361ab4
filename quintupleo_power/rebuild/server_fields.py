# SPDX-License-Identifier: Apache-2.0
"""The fields of a server that a rebuild takes from a config drive.

Nova keeps what a rebuild does not name (``nova/compute/api.py``). So each
rebuild names all fields, and an instance gets nothing of the one before. The
node keeps the names of the metadata that come from a config drive: the others
are those of the server's owner.
"""

import base64
import re

from ironic.common import exception
from ironic import objects

from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import ports
from quintupleo_power.host_cloud import servers
from quintupleo_power.node import internal_info
from quintupleo_power.rebuild import config_drive

KEY = internal_info.INSTANCE_METADATA

# The first compute APIs whose rebuild takes these.
_KEY_NAME = (2, 54)
_USER_DATA = (2, 57)
_HOSTNAME = (2, 90)
_FQDN = (2, 94)

# Characters of user data as base64 (nova/api/openstack/compute/schemas).
LONGEST_USER_DATA = 65535

_SHORT_NAMES = re.compile('[a-zA-Z0-9][a-zA-Z0-9-]{0,61}[a-zA-Z0-9]')
_FULL_NAMES = re.compile('[a-zA-Z0-9._-]{1,255}')


def check(node: 'objects.Node', version: tuple[int, int],
          server: servers.Server, drive: config_drive.ConfigDrive) -> None:
    """Raise InvalidParameterValue if Nova does not take a config drive.

    :param version: the compute API's.
    """
    if drive.user_data and len(_encoded(drive)) > LONGEST_USER_DATA:
        raise _refused(node, (
            f'user_data of its config drive has {len(drive.user_data)} '
            f'bytes, and Nova takes {LONGEST_USER_DATA // 4 * 3}: shorten it, '
            'or let it fetch what it needs'))
    for what, first in ((drive.user_data and 'user_data', _USER_DATA),
                        (drive.public_key and 'public_keys', _KEY_NAME),
                        (drive.hostname and 'hostname', _HOSTNAME)):
        if what and version < first:
            raise _refused(node, (
                f'its config drive has {what}, and the compute API of the '
                'host cloud (%d.%d) takes it from %d.%d on: leave it out, or '
                'use another deploy interface' % (*version, *first)))
    if drive.hostname and not _fits(drive.hostname, version):
        raise _refused(node, (
            f"hostname '{drive.hostname}' of its config drive is not one that "
            'Nova takes: use up to 63 letters, digits and dashes'))
    taken = {servers.NODE, *_of_the_owner(node, server)} & (
        drive.metadata.keys())
    if taken:
        raise _refused(node, (
            f'meta of its config drive has {", ".join(sorted(taken))}, which '
            f'is for the owner of server {server.id} to put into its '
            'metadata: use another name'))


def check_network(node: 'objects.Node', drive: config_drive.ConfigDrive,
                  cards: list[ports.Interface]) -> None:
    """Raise InvalidParameterValue if Nova's own network data differs."""
    addresses = {card.mac: {*map(identifiers.address, card.addresses)}
                 for card in cards}
    try:
        # None for what has no MAC address of a card.
        macs = {link['id']: None if link.get('type') in ('bond', 'vlan')
                else identifiers.mac(link['ethernet_mac_address'])
                for link in drive.network_data.get('links') or ()}
        networks = [(macs[network['link']],
                     identifiers.address(network['ip_address']))
                    for network in drive.network_data.get('networks') or ()
                    if network.get('ip_address')]
    except (AttributeError, KeyError, TypeError):
        raise _refused(node, 'network_data of its config drive is not as '
                             "OpenStack's metadata has it")
    for name, mac in macs.items():
        if mac not in addresses:
            raise _refused(node, (
                f"network_data of its config drive describes link '{name}' "
                f'({mac or "no card"}), and its server has no such network '
                'card: leave it out, as Nova describes the cards only, and '
                'let user_data make it'))
    for mac, address in networks:
        if address not in addresses[mac]:
            raise _refused(node, (
                f'network_data of its config drive gives address {address} '
                f'to card {mac}, and the port in the host cloud has another: '
                'leave it out, or give the port that address'))


def members(node: 'objects.Node', version: tuple[int, int],
            server: servers.Server, drive: config_drive.ConfigDrive,
            key_name: str | None) -> dict:
    """Return the fields of a rebuild, as its request has them.

    :param version: the compute API's.
    :param drive: an empty one to reset what the last one has set.
    :param key_name: name of the key pair of its SSH key.
    """
    found: dict = {}
    if version >= _KEY_NAME:
        found['key_name'] = key_name
    if version >= _USER_DATA:
        found['user_data'] = _encoded(drive) if drive.user_data else None
    if version >= _HOSTNAME:
        found['hostname'] = next(
            name for name in (drive.hostname, drive.name, node.name,
                              f'host-{server.id}')
            if name and _fits(name, version))
    if drive.admin_pass:
        found['adminPass'] = drive.admin_pass
    metadata = {**_of_the_owner(node, server), **drive.metadata}
    if metadata != server.metadata:
        found['metadata'] = metadata
    return found


def mark(node: 'objects.Node', server: servers.Server,
         drive: config_drive.ConfigDrive) -> None:
    """Save with a node that its server is to get an instance's data."""
    before = server.metadata.keys() - _of_the_owner(node, server).keys()
    node.set_driver_internal_info(KEY, sorted({*before, *drive.metadata}))
    node.save()


def may_be_left(node: 'objects.Node') -> bool:
    """Return whether a node's server may have an instance's data."""
    return KEY in node.driver_internal_info


def _of_the_owner(node, server):
    names = node.driver_internal_info.get(KEY) or ()
    return {name: value for name, value in server.metadata.items()
            if name not in names}


def _fits(name, version):
    return (_FULL_NAMES if version >= _FQDN else _SHORT_NAMES).fullmatch(name)


def _encoded(drive):
    return base64.b64encode(drive.user_data).decode()


def _refused(node, reason):
    return exception.InvalidParameterValue(f'Node {node.uuid}: {reason}')
