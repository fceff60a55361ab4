# SPDX-License-Identifier: Apache-2.0
"""What Neutron has of an environment: made, one thing at a time."""

import secrets

from openstack import exceptions

from quintupleo_power.environments import mark
from quintupleo_power.environments import plan

# How often another MAC is thrown when Neutron has the first one already.
_TRIES = 5


class Networking:
    """Makes networks, ports and what belongs to them."""

    def __init__(self, connection, patience, inventory, choices, name):
        """Make things of one environment.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        :param inventory: the :class:`inventory.Inventory`.
        :param choices: the :class:`choices.Choices`.
        :param name: the environment's name.
        """
        self._neutron = connection.network
        self._patience = patience
        self._inventory = inventory
        self._choices = choices
        self._name = name

    def make(self, item, made):
        """Make a thing.

        :param item: its :class:`plan.Item`.
        :param made: dict of what openstacksdk knows of the things that were
            made before, by key.
        :returns: what openstacksdk knows of it.
        """
        return {
            plan.NETWORK: self._network, plan.SUBNET: self._subnet,
            plan.ROUTER: self._router, plan.INTERFACE: self._interface,
            plan.VIRTUAL_IP: self._reserved_port,
            plan.PORT: self._port if item.role else self._reserved_port,
            plan.SUBPORT: self._subport, plan.TRUNK: self._trunk,
            plan.FLOATING_IP: self._floating_ip}[item.kind](item, made)

    def tag(self, thing):
        """Tag a thing, for those who look for tags.

        :param thing: what openstacksdk knows of it.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        wanted = mark.tag(self._name)
        if wanted not in (thing.tags or ()):
            self._patience.call(self._neutron.set_tags, thing,
                                [*(thing.tags or ()), wanted])

    def _create(self, item, function, **attributes):
        thing = self._patience.make(
            lambda: self._inventory.find(self._name, item.kind, item.key),
            function, description=mark.description(self._name, item.key),
            **attributes)
        self.tag(thing)
        return thing

    def _label(self, item):
        return mark.name(self._name, item.key)

    def _network(self, item, made):
        network = item.what
        attributes = {f'provider_{name}': value
                      for name, value in network.provider}
        if network.mtu:
            attributes['mtu'] = network.mtu
        return self._create(
            item, self._neutron.create_network, name=self._label(item),
            is_port_security_enabled=network.port_security, **attributes)

    def _subnet(self, item, made):
        subnet = item.what
        attributes = {}
        if subnet.gateway == '':
            # openstacksdk leaves out what is None.
            attributes['gateway_ip'] = None
        elif subnet.gateway:
            attributes['gateway_ip'] = subnet.gateway
        if subnet.allocation_pool:
            first, last = subnet.allocation_pool
            attributes['allocation_pools'] = [{'start': first, 'end': last}]
        if subnet.ipv6_mode:
            attributes['ipv6_address_mode'] = subnet.ipv6_mode
            attributes['ipv6_ra_mode'] = subnet.ipv6_mode
        return self._create(
            item, self._neutron.create_subnet, name=self._label(item),
            network_id=made[plan.key(plan.NETWORK, item.network.name)].id,
            ip_version=6 if ':' in subnet.cidr else 4, cidr=subnet.cidr,
            is_dhcp_enabled=subnet.dhcp, dns_nameservers=list(subnet.dns),
            **attributes)

    def _router(self, item, made):
        router = item.what
        attributes = {}
        if router.external_network:
            attributes['external_gateway_info'] = {
                'network_id': self._choices.external_network(
                    router.external_network)}
        return self._create(item, self._neutron.create_router,
                            name=self._label(item), **attributes)

    def _interface(self, item, made):
        """Join a network; what is joined already stays."""
        router = made[plan.key(plan.ROUTER, item.what.name)]
        subnets = self._subnet_ids(item.network, made)
        joined = {address['subnet_id']
                  for port in self._inventory.router_ports(router.id)
                  for address in port.fixed_ips or ()}
        for subnet_id in subnets:
            if subnet_id not in joined:
                self._patience.make(
                    lambda wanted=subnet_id: self._joined(router, wanted),
                    change_interface, self._neutron, 'add', router.id,
                    subnet_id)
        return router

    def _joined(self, router, subnet_id):
        return next((port for port in self._inventory.router_ports(router.id)
                     for address in port.fixed_ips or ()
                     if address['subnet_id'] == subnet_id), None)

    def _subnet_ids(self, network, made):
        if network.existing is not None:
            return self._choices.networks[network.name].subnet_ids
        return [made[plan.key(plan.SUBNET, network.name, number)].id
                for number in range(len(network.subnets))]

    def network_id(self, network, made):
        """Give a network of the file.

        :param network: its :class:`definition.Network`.
        :param made: dict of what openstacksdk knows of the things that were
            made before, by key.
        :returns: its UUID.
        """
        if network.existing is not None:
            return self._choices.networks[network.name].id
        return made[plan.key(plan.NETWORK, network.name)].id

    def _reserved_port(self, item, made):
        """A port without a server: a virtual IP, or somebody else's port."""
        attributes = {}
        if item.what.address:
            attributes['fixed_ips'] = [{'ip_address': item.what.address}]
        security = getattr(item.what, 'port_security', None)
        if security is not None:
            attributes['is_port_security_enabled'] = security
        return self._create(
            item, self._neutron.create_port, name=self._label(item),
            network_id=self.network_id(item.network, made), **attributes)

    def _port(self, item, made):
        nic = item.what
        attributes = {}
        if item.network.existing is None and not item.network.subnets:
            # Nova takes a port without an address if that was asked for.
            attributes['fixed_ips'] = []
        if nic.port_security is not None:
            attributes['is_port_security_enabled'] = nic.port_security
        if nic.security_groups:
            attributes['security_group_ids'] = [
                self._choices.security_group(name)
                for name in nic.security_groups]
        if self._choices.filters(nic, item.network):
            pairs = [{'ip_address': address}
                     for address in nic.allowed_address_pairs]
            pairs += [{'ip_address': address['ip_address']}
                      for key in item.after
                      if plan.kind(key) == plan.VIRTUAL_IP
                      for address in made[key].fixed_ips]
            if pairs:
                attributes['allowed_address_pairs'] = pairs
        for tries in range(_TRIES):
            if nic.mac_prefix:
                attributes['mac_address'] = _mac(nic.mac_prefix)
            try:
                return self._create(
                    item, self._neutron.create_port, name=self._label(item),
                    network_id=self.network_id(item.network, made),
                    **attributes)
            except exceptions.ConflictException as exc:
                # Neutron's MacAddressInUse.
                if tries == _TRIES - 1 or 'mac' not in str(exc).lower():
                    raise

    def _subport(self, item, made):
        _, role, number, place, _ = item.key.split('.')
        parent = made[plan.key(plan.PORT, role, number, place)]
        # What the guest sends in the VLAN has the same address as the rest.
        return self._create(
            item, self._neutron.create_port, name=self._label(item),
            network_id=self.network_id(item.network, made),
            mac_address=parent.mac_address)

    def _trunk(self, item, made):
        _, *place = item.key.split('.')
        parent = plan.key(plan.PORT, *place)
        return self._create(
            item, self._neutron.create_trunk, name=self._label(item),
            port_id=made[parent].id,
            sub_ports=[{
                'port_id': made[plan.key(
                    plan.SUBPORT, *place, subport.segmentation_id)].id,
                'segmentation_type': 'vlan',
                'segmentation_id': subport.segmentation_id}
                for subport in item.what.subports])

    def _floating_ip(self, item, made):
        port = made[item.key.partition('.')[2]]
        return self._create(
            item, self._neutron.create_ip, port_id=port.id,
            floating_network_id=self._choices.external_network(
                item.what.floating_ip))

    def release_addresses(self, port):
        """Give the addresses of a port back.

        :param port: what openstacksdk knows of it.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        if port.fixed_ips:
            self._patience.call(self._neutron.update_port, port.id,
                                fixed_ips=[])


def change_interface(neutron, verb, router_id, subnet_id):
    """Let a router join a subnet, or leave it.

    openstacksdk's own functions for it take other words in each release.

    :param neutron: openstacksdk's proxy of it.
    :param verb: 'add' or 'remove'.
    :param router_id: UUID of the router.
    :param subnet_id: UUID of the subnet.
    """
    exceptions.raise_from_response(neutron.put(
        f'/routers/{router_id}/{verb}_router_interface',
        json={'subnet_id': subnet_id}))


def _mac(prefix):
    known = prefix.split(':')
    return ':'.join(known + [f'{secrets.randbelow(256):02x}'
                             for _ in range(6 - len(known))])
