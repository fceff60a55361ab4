# SPDX-License-Identifier: Apache-2.0
"""Which Neutron port a network card of a server is.

A card is known by its MAC address. It changes networks by another port with
that address taking the place of the first, which Nova permits for servers
that are ACTIVE, PAUSED or SHUTOFF (``attach_interface`` and
``detach_interface`` of ``nova/compute/api.py``).
"""

import ipaddress
import time

from oslo_utils import uuidutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import interfaces

# Seconds for Nova to take a port away, which it does after its answer.
_TIMEOUT = 60.0
_PAUSE = 0.3

# What tells a port that was made here from those of the user.
_DESCRIPTION = 'Made by quintupleo for the time that a node is on this network'


def find_network(service, reference):
    """Find a network.

    :param service: the network :class:`service.Service`.
    :param reference: its UUID, or its name if it is unique.
    :returns: its UUID.
    :raises: NotFound, NotUnique or another HostCloudError.
    """
    key = 'id' if uuidutils.is_uuid_like(reference) else 'name'
    found = service.get('/networks', 'networks', list, **{key: reference})
    if not found:
        raise errors.NotFound(
            f"There is no network '{reference}' in the host cloud, or none "
            'that the project of these credentials sees')
    if len(found) > 1:
        raise errors.NotUnique(
            f"{len(found)} networks are named '{reference}' ("
            + ', '.join(sorted(map(_id, found))) + '): use the UUID')
    return _id(found[0])


def _id(body):
    """UUID of a network or port.

    :raises: ServerError if it has none.
    """
    if not isinstance(body.get('id'), str):
        raise errors.ServerError(
            'The host cloud describes a network or a port in a form that '
            'Neutron does not have')
    return body['id']


def find_or_create(service, network_id, mac, name):
    """Give the port of a network that has a MAC address.

    Neutron has no two of them. It may be the one that the server was made
    with, or what a conductor that died has made.

    :param service: the network :class:`service.Service`.
    :param network_id: UUID of the network.
    :param mac: the MAC address.
    :param name: name of a port that is made.
    :returns: its UUID.
    :raises: HostCloudError if there is none and it cannot be made.
    """
    for port in service.get('/ports', 'ports', list, network_id=network_id,
                            mac_address=mac):
        return _id(port)
    return _id(service.ask('/ports', {'port': {
        'network_id': network_id, 'mac_address': mac, 'name': name,
        'description': _DESCRIPTION}}, 'port'))


def delete(service, port_id):
    """Delete a port, unless it is gone already or is the user's.

    :param service: the network :class:`service.Service`.
    :param port_id: its UUID.
    :raises: HostCloudError if it may be left.
    """
    try:
        port = service.get(f'/ports/{port_id}', 'port')
        if port.get('description') == _DESCRIPTION:
            service.delete(f'/ports/{port_id}')
    except errors.NotFound:
        return


def set_mac(service, port_id, mac):
    """Give a port that nothing has yet a MAC address.

    By Neutron's default policy a member may choose it when the port is made,
    and only a manager may change it (``update_port:mac_address``).

    :param service: the network :class:`service.Service`.
    :param port_id: its UUID.
    :param mac: the MAC address.
    :raises: NotFound if there is no such port, Forbidden if it has another
        one that may not be changed, or another HostCloudError.
    """
    port = service.get(f'/ports/{port_id}', 'port')
    if port.get('mac_address') == mac:
        return
    try:
        service.put(f'/ports/{port_id}', {'port': {'mac_address': mac}})
    except errors.Forbidden as exc:
        raise errors.Forbidden(
            f'Port {port_id} has MAC address {port.get("mac_address")}, and '
            f'the card that it is to be {mac}: make a port with that one, as '
            f'these credentials may not change it ({exc})')


def plug(compute, server_id, mac, port_id):
    """Have a server's card be a port, or none.

    :param compute: the compute :class:`service.Service`.
    :param server_id: UUID of the server.
    :param mac: MAC address of the card.
    :param port_id: UUID of the port; None to take the card away.
    :raises: Conflict if the server is in no state for it, or another
        HostCloudError.
    """
    present = _attached(compute, server_id, mac)
    if present == port_id:
        return
    path = f'/servers/{server_id}/os-interface'
    if present:
        compute.delete(f'{path}/{present}')
        deadline = time.monotonic() + _TIMEOUT
        while _attached(compute, server_id, mac):
            if time.monotonic() > deadline:
                raise errors.ActionTimeout(
                    f'Nova has not taken port {present} from server '
                    f'{server_id} within {_TIMEOUT:.0f} s')
            time.sleep(_PAUSE)
    if port_id:
        compute.ask(path, {'interfaceAttachment': {'port_id': port_id}},
                    'interfaceAttachment')


def _attached(compute, server_id, mac):
    """UUID of the port with this MAC address that a server has, or None."""
    return next((each.port_id for each in interfaces.read(compute, server_id)
                 if each.mac == mac), None)


def network_data(service, port_ids):
    """Tell how a guest configures its cards without DHCP.

    :param service: the network :class:`service.Service`.
    :param port_ids: UUIDs of the ports.
    :returns: a dict in the form of Nova's ``network_data.json``.
    :raises: HostCloudError if something cannot be read.
    :raises: AttributeError, LookupError, TypeError or ValueError if it is not
        of the form that Neutron's API reference says.
    """
    found = {'links': [], 'networks': [], 'services': []}
    for port_id in port_ids:
        port = service.get(f'/ports/{port_id}', 'port')
        network = service.get(f'/networks/{port["network_id"]}', 'network')
        found['links'].append({
            'id': port_id, 'vif_id': port_id, 'type': 'phy',
            'ethernet_mac_address': port['mac_address'],
            'mtu': network.get('mtu')})
        for fixed in port['fixed_ips']:
            subnet = service.get(f'/subnets/{fixed["subnet_id"]}', 'subnet')
            found['networks'].append({
                'id': f'network{len(found["networks"])}', 'link': port_id,
                **_addressing(fixed['ip_address'], subnet)})
            found['services'] += _name_servers(subnet)
    return found


def _addressing(address, subnet):
    """An entry of ``networks``, but for what it is of."""
    network = ipaddress.ip_network(subnet['cidr'])
    routes = [(route['destination'], route['nexthop'])
              for route in subnet.get('host_routes') or ()]
    if subnet.get('gateway_ip'):
        routes.insert(0, ('::/0' if network.version == 6 else '0.0.0.0/0',
                          subnet['gateway_ip']))
    return {
        'network_id': subnet['network_id'], 'type': f'ipv{network.version}',
        'ip_address': address, 'netmask': str(network.netmask),
        'routes': [_route(*each) for each in routes],
        'services': _name_servers(subnet)}


def _route(destination, next_hop):
    network = ipaddress.ip_network(destination)
    return {'network': str(network.network_address),
            'netmask': str(network.netmask), 'gateway': next_hop}


def _name_servers(subnet):
    return [{'type': 'dns', 'address': address}
            for address in subnet.get('dns_nameservers') or ()]
