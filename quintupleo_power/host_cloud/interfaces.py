# SPDX-License-Identifier: Apache-2.0
"""The network cards of servers, and the networks that they are on."""

import dataclasses

from oslo_utils import netutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers

# ironic-python-agent passes over a network card whose MAC address begins so;
# Neutron's own do (base_mac of its configuration).
IGNORED_MAC = 'fa'
_FORM = ('The host cloud describes a port of a server in a form that Nova '
         'does not have')


@dataclasses.dataclass(frozen=True)
class Interface:
    """A port of a server.

    :ivar mac: MAC address in lower case.
    :ivar network_id: UUID of its network.
    :ivar port_id: UUID of the port.
    :ivar addresses: its fixed IP addresses.
    """

    mac: str
    network_id: str
    port_id: str
    addresses: tuple[str, ...] = ()

    @classmethod
    def from_body(cls, body):
        """Read one of ``interfaceAttachments`` of Nova's API.

        :param body: the decoded object.
        :returns: an :class:`Interface`.
        :raises: ServerError if it is not what Nova's API reference says.
        """
        texts = [body.get(key) for key in ('mac_addr', 'net_id', 'port_id')]
        if not all(isinstance(text, str) for text in texts) or (
                not netutils.is_valid_mac(texts[0])):
            raise errors.ServerError(_FORM)
        fixed = body.get('fixed_ips') or []
        if not isinstance(fixed, list) or not all(
                isinstance(each, dict) for each in fixed):
            raise errors.ServerError(_FORM)
        return cls(texts[0].lower(), *texts[1:], addresses=tuple(
            each.get('ip_address') for each in fixed))


def is_ignored(mac):
    """Tell whether agents pass over a card.

    :param mac: its MAC address in lower case.
    :returns: True or False.
    """
    return mac.startswith(IGNORED_MAC)


def read(compute, server_id):
    """Read the ports of a server, in whatever state it is.

    :param compute: the compute :class:`service.Service`.
    :param server_id: the server's UUID.
    :returns: list of :class:`Interface`.
    :raises: NotFound or another HostCloudError.
    """
    try:
        bodies = compute.get(f'/servers/{server_id}/os-interface',
                             'interfaceAttachments', list)
    except errors.NotFound:
        raise servers.not_found(server_id)
    return [Interface.from_body(body) for body in bodies]


def network_names(network, network_ids):
    """Tell the names of networks.

    Nova knows them only for ports that have an address.

    :param network: the network :class:`service.Service`.
    :param network_ids: UUIDs of the networks.
    :returns: dict of name by UUID, without those that are not shown to this
        project.
    :raises: HostCloudError
    """
    bodies = network.get('/networks', 'networks', list,
                         id=sorted(network_ids), fields=['id', 'name'])
    return {body.get('id'): body.get('name') for body in bodies}
