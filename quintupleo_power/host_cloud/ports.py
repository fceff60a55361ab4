# SPDX-License-Identifier: Apache-2.0
"""Which Neutron port a network card of a server is.

A card is known by its MAC address. It changes networks by another port with
that address taking the place of the first, which Nova permits for servers
that are ACTIVE, PAUSED or SHUTOFF (``attach_interface`` and
``detach_interface`` of ``nova/compute/api.py``).
"""

import dataclasses
import ipaddress

from oslo_log import log
from oslo_utils import netutils
from oslo_utils import uuidutils
import tenacity

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

LOG = log.getLogger(__name__)

# Seconds for Nova to take a port away, which it does after its answer.
_TIMEOUT = 60.0
_PAUSE = 0.3

# What tells a port that was made here from those of the user.
_DESCRIPTION = 'Made by quintupleo for the time that a node is on this network'

# ironic-python-agent passes over a network card whose MAC address begins so;
# Neutron's own do (base_mac of its configuration).
IGNORED_MAC = 'fa'


@dataclasses.dataclass(frozen=True)
class Interface:
    """A port of a server: MAC in lower case, UUIDs, fixed IP addresses."""

    mac: str
    network_id: str
    port_id: str
    addresses: tuple[str, ...] = ()

    @classmethod
    def from_body(cls, body: dict) -> 'Interface':
        """Return one of ``interfaceAttachments`` of Nova's API."""
        found = typed_json.Body(body, 'a port of a server', 'Nova')
        mac = identifiers.mac(found.get('mac_addr', str))
        if not netutils.is_valid_mac(mac):
            raise found.wrong(f'mac_addr is {mac!r}')
        return cls(mac, found.get('net_id', str),
                   found.get('port_id', str), tuple(
                       each.get('ip_address', str)
                       for each in found.parts('fixed_ips')))


def is_ignored(mac: str) -> bool:
    """Return whether agents pass over a card with a MAC in lower case."""
    return mac.startswith(IGNORED_MAC)


class Ports:
    """The cards of one project's servers, by MAC in lower case."""

    def __init__(self, network: service.Service, compute: service.Service,
                 cached: server_cache.ServerCache):
        """Use the services of a cloud."""
        self._network = network
        self._compute = compute
        self._cached = cached

    def find(self, network_id: str, mac: str) -> str | None:
        """Return the UUID of the port of a network with a MAC address.

        Neutron has no two of them. It may be the one that the server was made
        with, or one of which no conductor knows.
        """
        found = self._network.get('/ports', 'ports', list,
                                  network_id=network_id, mac_address=mac)
        return _id(found[0]) if found else None

    def find_or_create(self, network_id: str, mac: str, name: str) -> str:
        """Return the UUID of that port, which is made if it is not there."""
        return self.find(network_id, mac) or _id(self._network.ask(
            '/ports', {'port': {
                'network_id': network_id, 'mac_address': mac, 'name': name,
                'description': _DESCRIPTION}}, 'port'))

    def delete(self, port_id: str) -> None:
        """Delete a port, unless it is gone already or is the user's."""
        try:
            port = self._network.get(f'/ports/{port_id}', 'port')
            if port.get('description') == _DESCRIPTION:
                self._network.delete(f'/ports/{port_id}')
        except errors.NotFound:
            return

    def set_mac(self, server: servers.Server, port_id: str,
                mac: str) -> None:
        """Set the MAC address of a port that nothing but a server has.

        By Neutron's default policy a member may choose it when the port is
        made, and only a manager may change it (``update_port:mac_address``).

        :raises: NotFound if the port is gone, NotPossible if it is not the
            project's or something else has it, Forbidden if it has
            another MAC address that may not be changed.
        """
        port = self._network.get(f'/ports/{port_id}', 'port')
        self._require_free(port_id, port, server)
        if identifiers.mac(port.get('mac_address') or '') == mac:
            return
        try:
            self._network.put(f'/ports/{port_id}',
                              {'port': {'mac_address': mac}})
        except errors.Forbidden as exc:
            raise errors.Forbidden(
                f'Port {port_id} has MAC address {port.get("mac_address")}, '
                f'and the card that it is to be {mac}: make a port with that '
                f'one, as these credentials may not change it ({exc})')

    def _require_free(self, port_id, port, server):
        """Require that a server may have a port, as Nova does later."""
        owner = port.get('device_id')
        if owner and identifiers.reference(owner) != server.id:
            raise errors.NotPossible(
                f'Port {port_id} is in use ({port.get("device_owner")} of '
                f'{owner}): name one that nothing has')
        # Who has a network sees the ports of other projects on it.
        project = port.get('project_id')
        if project and project != (self._network.project_id or project):
            raise errors.NotPossible(
                f'Port {port_id} is not of the project of these credentials: '
                'name one that is')

    def plug(self, server: servers.Server, mac: str,
             port_id: str | None) -> None:
        """Attach a port as a server's card, in the place of another one.

        :param port_id: UUID of the port; None to take the card away.
        :raises: Conflict if the server is in no state for it.
        """
        present = self._attached(server, mac)
        # Users spell the UUIDs of their ports.
        port_id = port_id and identifiers.reference(port_id)
        if present == port_id:
            return
        path = f'/servers/{server.id}/os-interface'
        try:
            if present:
                self._compute.delete(f'{path}/{present}')
                self._wait_detached(server, mac, present)
            if port_id:
                self._compute.ask(
                    path, {'interfaceAttachment': {'port_id': port_id}},
                    'interfaceAttachment')
        finally:
            self._cached.invalidate(server.id)

    def _wait_detached(self, server, mac, port_id):
        try:
            tenacity.Retrying(
                retry=tenacity.retry_if_result(bool),
                wait=tenacity.wait_fixed(_PAUSE),
                stop=tenacity.stop_after_delay(_TIMEOUT))(
                    self._attached, server, mac)
        except tenacity.RetryError:
            raise errors.ActionTimeout(
                f'Nova has not taken port {port_id} from server {server.id} '
                f'within {_TIMEOUT:.0f} s')

    def _attached(self, server, mac):
        """Return the UUID of a server's port with a MAC address, or None."""
        return next((each.port_id for each in self.of_server(server)
                     if each.mac == mac), None)

    def of_server(self, server: servers.Server) -> list[Interface]:
        """Return the ports of a server, in whatever state it is."""
        try:
            found = self._compute.get(f'/servers/{server.id}/os-interface',
                                      'interfaceAttachments', list)
        except errors.NotFound:
            raise servers.not_found(server.id)
        return [Interface.from_body(body) for body in found]

    def network_names(self, network_ids: set[str]) -> dict[str, str]:
        """Return the names of networks by UUID, of those that are shown.

        Nova knows them only for ports that have an address.
        """
        try:
            found = self._network.get('/networks', 'networks', list,
                                      id=sorted(network_ids),
                                      fields=['id', 'name'])
        except (errors.CloudMisconfigured, errors.Forbidden) as exc:
            LOG.debug('The networks are not shown: %s', exc)
            return {}
        return {body.get('id'): body.get('name') for body in found}

    def network_data(self, port_ids: list[str]) -> dict:
        """Return Nova's ``network_data.json`` for a guest without DHCP."""
        found: dict = {'links': [], 'networks': [], 'services': []}
        for port_id in port_ids:
            port = self._read(f'/ports/{port_id}', 'port')
            network = self._read(f'/networks/{port.get("network_id", str)}',
                                 'network')
            found['links'].append({
                'id': port_id, 'vif_id': port_id, 'type': 'phy',
                'ethernet_mac_address': port.get('mac_address', str),
                'mtu': network.find('mtu', int)})
            for fixed in port.parts('fixed_ips'):
                subnet = self._read(f'/subnets/{fixed.get("subnet_id", str)}',
                                    'subnet')
                found['networks'].append({
                    'id': f'network{len(found["networks"])}',
                    'link': port_id,
                    **_addressing(fixed.get('ip_address', str), subnet)})
                found['services'] += _name_servers(subnet)
        return found

    def _read(self, path, key):
        return typed_json.Body(self._network.get(path, key), path[1:],
                           'Neutron')


def find_network(network: service.Service, reference: str) -> str:
    """Return the UUID of a network by that, or by its name if it is unique.

    :raises: NotFound, NotUnique or another HostCloudError.
    """
    key = 'id' if uuidutils.is_uuid_like(reference) else 'name'
    found = network.get('/networks', 'networks', list,
                        **{key: identifiers.reference(reference)})
    ids = [_id(body) for body in found]
    errors.require_one(ids, 'network', reference)
    return ids[0]


def _id(body):
    """Return the UUID of a network or port."""
    return typed_json.Body(
        body, 'a network or a port', 'Neutron').get('id', str)


def _addressing(address, subnet):
    """Return an entry of ``networks``, but for what it is of."""
    network = _network(subnet, subnet.get('cidr', str))
    routes = [(route.get('destination', str), route.get('nexthop', str))
              for route in subnet.parts('host_routes')]
    gateway = subnet.find('gateway_ip', str)
    if gateway:
        routes.insert(0, ('::/0' if network.version == 6 else '0.0.0.0/0',
                          gateway))
    return {
        'network_id': subnet.get('network_id', str),
        'type': f'ipv{network.version}',
        'ip_address': address, 'netmask': str(network.netmask),
        'routes': [_route(subnet, *each) for each in routes],
        'services': _name_servers(subnet)}


def _route(subnet, destination, next_hop):
    network = _network(subnet, destination)
    return {'network': str(network.network_address),
            'netmask': str(network.netmask), 'gateway': next_hop}


def _network(subnet, cidr):
    try:
        return ipaddress.ip_network(cidr)
    except ValueError:
        raise subnet.wrong(f'{cidr!r} is not a CIDR')


def _name_servers(subnet):
    return [{'type': 'dns', 'address': address}
            for address in subnet.find('dns_nameservers', list) or ()]
