# SPDX-License-Identifier: Apache-2.0
"""All that an environment consists of, and what has to be there before what.

Made of the definition alone; nothing here asks a cloud.
"""

import dataclasses

from quintupleo_power.environments import definition

(NETWORK, SUBNET, ROUTER, INTERFACE, VIRTUAL_IP, PORT, SUBPORT, TRUNK, GROUP,
 VOLUME, SERVER, FLOATING_IP) = KINDS = (
     'network', 'subnet', 'router', 'interface', 'vip', 'port', 'subport',
     'trunk', 'group', 'volume', 'server', 'fip')

TITLES = {
    NETWORK: 'networks', SUBNET: 'subnets', ROUTER: 'routers',
    INTERFACE: 'router interfaces', VIRTUAL_IP: 'virtual IPs', PORT: 'ports',
    SUBPORT: 'ports in VLANs', TRUNK: 'trunks', GROUP: 'server groups',
    VOLUME: 'volumes', SERVER: 'servers', FLOATING_IP: 'floating IPs'}


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing to be made.

    :ivar key: its kind and its place, such as port.compute.0.1; by it the
        thing is found again.
    :ivar what: the part of the definition that describes it.
    :ivar after: keys of what has to be there before.
    :ivar role: the :class:`definition.Role` that it belongs to, or None.
    :ivar network: the :class:`definition.Network` that it is on, or None.
    """

    key: str
    what: object
    after: tuple[str, ...] = ()
    role: definition.Role | None = None
    network: definition.Network | None = None

    @property
    def kind(self):
        """One of :data:`KINDS`."""
        return kind(self.key)


def kind(key):
    """Tell the kind of what has a key.

    :param key: the key.
    :returns: one of :data:`KINDS`.
    """
    return key.partition('.')[0]


def key(*parts):
    """Join a kind and what follows.

    :param parts: the kind, names and numbers.
    :returns: the key.
    """
    return '.'.join(map(str, parts))


def items(wanted):
    """List everything of an environment.

    :param wanted: the :class:`definition.Definition`.
    :returns: dict of :class:`Item` by key; what is needed comes before what
        needs it.
    """
    return {item.key: item for item in _Plan(wanted).items()}


class _Plan:
    def __init__(self, wanted):
        self._wanted = wanted
        self._networks = {each.name: each for each in wanted.networks}

    def items(self):
        for network in self._wanted.networks:
            yield from self._network(network)
        for router in self._wanted.routers:
            yield from self._router(router)
        for virtual_ip in self._wanted.virtual_ips:
            yield from self._reserved(VIRTUAL_IP, virtual_ip)
        for port in self._wanted.ports:
            yield from self._reserved(PORT, port)
        for role in self._wanted.roles:
            yield from self._role(role)

    def _network(self, network):
        if network.existing is not None:
            return
        yield Item(key(NETWORK, network.name), network)
        for number, subnet in enumerate(network.subnets):
            yield Item(key(SUBNET, network.name, number), subnet,
                       (key(NETWORK, network.name),), network=network)

    def _on(self, network):
        """The keys of a network and its subnets, if they are made."""
        if network.existing is not None:
            return ()
        return (key(NETWORK, network.name),
                *(key(SUBNET, network.name, number)
                  for number in range(len(network.subnets))))

    def _router(self, router):
        name = key(ROUTER, router.name)
        yield Item(name, router)
        for each in router.networks:
            network = self._networks[each]
            yield Item(key(INTERFACE, router.name, each), router,
                       (name, *self._on(network)), network=network)

    def _reserved(self, its_kind, wanted):
        """A port without a server, and its floating IP."""
        network = self._networks[wanted.network]
        name = key(its_kind, wanted.name)
        yield Item(name, wanted, self._on(network), network=network)
        if wanted.floating_ip:
            yield self._floating_ip(name, wanted, network)

    def _floating_ip(self, port, wanted, network, role=None):
        # Neutron wants the way to it to be there.
        routes = tuple(key(INTERFACE, router.name, network.name)
                       for router in self._wanted.routers
                       if network.name in router.networks)
        return Item(key(FLOATING_IP, port), wanted, (port, *routes), role,
                    network)

    def _role(self, role):
        group = ()
        if role.server_group and role.count:
            group = (key(GROUP, role.name),)
            yield Item(*group, role, role=role)
        for number in range(role.count):
            needed = list(group)
            for place, nic in enumerate(role.nics):
                made = list(self._nic(role, number, place, nic))
                yield from made
                needed += [item.key for item in made
                           if item.kind in (PORT, TRUNK)]
            for name, disk in volumes(role):
                volume = Item(key(VOLUME, role.name, number, name), disk,
                              role=role)
                yield volume
                needed.append(volume.key)
            server = key(SERVER, role.name, number)
            yield Item(server, role, tuple(needed), role)
            for place, nic in enumerate(role.nics):
                if nic.floating_ip:
                    port = key(PORT, role.name, number, place)
                    item = self._floating_ip(
                        port, nic, self._networks[nic.network], role)
                    yield dataclasses.replace(
                        item, after=(*item.after, server))

    def _nic(self, role, number, place, nic):
        network = self._networks[nic.network]
        port = key(PORT, role.name, number, place)
        shared = tuple(
            key(VIRTUAL_IP, each.name) for each in self._wanted.virtual_ips
            if each.network == nic.network and role.name in each.roles)
        yield Item(port, nic, (*self._on(network), *shared), role, network)
        subports = []
        for subport in nic.subports:
            inner = self._networks[subport.network]
            subports.append(key(SUBPORT, role.name, number, place,
                                subport.segmentation_id))
            yield Item(subports[-1], subport, (port, *self._on(inner)), role,
                       inner)
        if subports:
            yield Item(key(TRUNK, role.name, number, place), nic,
                       (port, *subports), role, network)


def volumes(role):
    """List the volumes of each server of a role.

    :param role: the :class:`definition.Role`.
    :returns: list of (last part of the key, :class:`definition.Disk`), the
        one to boot from first.
    """
    found = []
    if role.root_volume:
        found.append(('root', role.root_volume))
    return found + [(str(number), disk)
                    for number, disk in enumerate(role.disks, 1)]
