# SPDX-License-Identifier: Apache-2.0
"""All items of an environment, and which of them depend on which."""

import typing

from quintupleo_power.environments import schema

# ACCESS has no item: the image is made with the server that runs Ironic.
TITLES = {
    'network': 'networks', 'subnet': 'subnets', 'router': 'routers',
    'vip': 'virtual IPs', 'port': 'ports', 'subport': 'ports in VLANs',
    'trunk': 'trunks', 'group': 'server groups', 'volume': 'volumes',
    'access': 'access images', 'server': 'servers', 'fip': 'floating IPs'}
(NETWORK, SUBNET, ROUTER, VIRTUAL_IP, PORT, SUBPORT, TRUNK, GROUP, VOLUME,
 ACCESS, SERVER, FLOATING_IP) = KINDS = tuple(TITLES)


class Item(typing.NamedTuple):
    """One resource to create.

    :ivar key: kind and place, such as port.compute.0.1, which identifies the
        resource in the cloud.
    :ivar what: part of the definition that describes it.
    :ivar after: keys of the items that have to exist before.
    :ivar role: the definition of its role; ``network`` of its network.
    """

    key: str
    what: object
    after: tuple[str, ...] = ()
    role: object = None
    network: object = None

    @property
    def kind(self):
        """One of :data:`KINDS`."""
        return kind(self.key)

    def sibling(self, sibling_kind, *parts):
        """Return the key of another kind in the same place."""
        return key(sibling_kind, *self.key.split('.')[1:], *parts)


def kind(key):
    """Return the kind of what has a key, one of :data:`KINDS`."""
    return key.partition('.')[0]


def key(*parts):
    """Return the key of a kind, names and numbers."""
    return '.'.join(map(str, parts))


def items(definition):
    """Return all :class:`Item` by key, each after those it depends on."""
    return {item.key: item for item in _Plan(definition).items()}


class _Plan:
    def __init__(self, definition):
        self._definition = definition
        self._networks = {each.name: each for each in definition.networks}

    def items(self):
        for network in self._definition.networks:
            yield from self._network(network)
        for router in self._definition.routers:
            yield Item(key(ROUTER, router.name), router, tuple(
                each for name in router.networks
                for each in self._on(self._networks[name])))
        for virtual_ip in self._definition.virtual_ips:
            yield from self._reserved(VIRTUAL_IP, virtual_ip)
        for port in self._definition.ports:
            yield from self._reserved(PORT, port)
        for role in self._definition.roles:
            yield from self._role(role)

    def _network(self, network):
        if network.existing is not None:
            return
        yield Item(key(NETWORK, network.name), network)
        for number, subnet in enumerate(network.subnets):
            yield Item(key(SUBNET, network.name, number), subnet,
                       (key(NETWORK, network.name),), network=network)

    def _on(self, network):
        """Return the keys of a network and its subnets, unless they exist."""
        if network.existing is not None:
            return ()
        return (key(NETWORK, network.name),
                *(key(SUBNET, network.name, number)
                  for number in range(len(network.subnets))))

    def _reserved(self, port_kind, wanted):
        """Yield a port without a server, and its floating IP."""
        network = self._networks[wanted.network]
        port_key = key(port_kind, wanted.name)
        yield Item(port_key, wanted, self._on(network), network=network)
        if wanted.floating_ip:
            yield self._floating_ip(port_key, wanted, network)

    def _floating_ip(self, port_key, wanted, network, role=None):
        # Neutron refuses it before there is a route to the port.
        routes = tuple(key(ROUTER, router.name)
                       for router in self._definition.routers
                       if network.name in router.networks)
        return Item(key(FLOATING_IP, port_key), wanted, (port_key, *routes),
                    role, network)

    def _role(self, role):
        group = ()
        if role.server_group and role.count:
            group = (key(GROUP, role.name),)
            yield Item(*group, role, role=role)
        for number in range(role.count):
            yield from self._server(role, number, group)

    def _server(self, role, number, group):
        needed, of_nics = list(group), {PORT, TRUNK}
        if role.kind == schema.IRONIC:
            # Its addresses are in the certificate that it gets.
            of_nics.add(FLOATING_IP)
        for place, nic in enumerate(role.nics):
            for item in self._nic(role, number, place, nic):
                yield item
                if item.kind in of_nics:
                    needed.append(item.key)
        for name, disk in volumes(role):
            volume = Item(key(VOLUME, role.name, number, name), disk,
                          role=role)
            yield volume
            needed.append(volume.key)
        yield Item(key(SERVER, role.name, number), role, tuple(needed), role)

    def _nic(self, role, number, place, nic):
        network = self._networks[nic.network]
        port_key = key(PORT, role.name, number, place)
        shared = tuple(
            key(VIRTUAL_IP, each.name)
            for each in self._definition.virtual_ips
            if each.network == nic.network and role.name in each.roles)
        yield Item(port_key, nic, (*self._on(network), *shared), role,
                   network)
        subports = []
        for subport in nic.trunk:
            inner = self._networks[subport.network]
            subports.append(key(SUBPORT, role.name, number, place,
                                subport.segmentation_id))
            yield Item(subports[-1], subport, (port_key, *self._on(inner)),
                       role, inner)
        if subports:
            yield Item(key(TRUNK, role.name, number, place), nic,
                       (port_key, *subports), role, network)
        if nic.floating_ip:
            yield self._floating_ip(port_key, nic, network, role)


def volumes(role):
    """Return (last part of the key, disk) of a role, the root disk first."""
    root = [('root', role.root_volume)] if role.root_volume else []
    return root + [(str(number), disk)
                   for number, disk in enumerate(role.disks, 1)]
