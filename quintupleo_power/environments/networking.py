# SPDX-License-Identifier: Apache-2.0
"""Creates the resources of an environment in Neutron, one at a time."""

import functools
import secrets

from openstack import exceptions

from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan

# Attempts with another MAC address after one that Neutron has already.
_ATTEMPTS = 5


class Networking:
    """Creates networks, ports and what belongs to them."""

    def __init__(self, inventory, resolved, name):
        """Use a project, and what :mod:`resolver` found in it."""
        self._neutron = inventory.connection.network
        self._retrier = inventory.retrier
        self._inventory = inventory
        self._resolved = resolved
        self._name = name

    def create(self, item, created):
        """Create a resource.

        :param item: its :class:`plan.Item`.
        :param created: dict of openstacksdk's resources by key.
        :returns: openstacksdk's resource.
        :raises: one of errors.CLOUD_ERRORS, or Cancelled.
        """
        return {
            plan.NETWORK: self._network, plan.SUBNET: self._subnet,
            plan.ROUTER: self._router, plan.INTERFACE: self._interface,
            plan.VIRTUAL_IP: self._reserved_port,
            plan.PORT: self._port if item.role else self._reserved_port,
            plan.SUBPORT: self._subport, plan.TRUNK: self._trunk,
            plan.FLOATING_IP: self._floating_ip}[item.kind](item, created)

    def tag(self, resource):
        """Tag openstacksdk's resource, for searches."""
        wanted = ownership.tag(self._name)
        if wanted not in (resource.tags or ()):
            self._retrier.call(self._neutron.set_tags, resource,
                               [*(resource.tags or ()), wanted])

    def _create(self, item, function, **attributes):
        if item.kind != plan.FLOATING_IP:
            attributes['name'] = ownership.name(self._name, item.key)
        resource = self._retrier.create(
            lambda: self._inventory.find(self._name, item.kind, item.key),
            function, description=ownership.description(self._name, item.key),
            **attributes)
        self.tag(resource)
        return resource

    def _create_port(self, item, created, **attributes):
        if item.network.existing is not None:
            network = self._resolved.networks[item.network.name]
        else:
            network = created[plan.key(plan.NETWORK, item.network.name)]
        return self._create(item, self._neutron.create_port,
                            network_id=network.id, **attributes)

    def _network(self, item, created):
        network = item.what
        attributes = {f'provider_{name}': value
                      for name, value in network.provider}
        if network.mtu:
            attributes['mtu'] = network.mtu
        return self._create(
            item, self._neutron.create_network,
            is_port_security_enabled=network.port_security, **attributes)

    def _subnet(self, item, created):
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
            item, self._neutron.create_subnet,
            network_id=created[plan.key(plan.NETWORK, item.network.name)].id,
            ip_version=6 if ':' in subnet.cidr else 4, cidr=subnet.cidr,
            is_dhcp_enabled=subnet.dhcp, dns_nameservers=list(subnet.dns),
            **attributes)

    def _router(self, item, created):
        router = item.what
        attributes = {}
        if router.external_network:
            attributes['external_gateway_info'] = {
                'network_id': self._resolved.ids[
                    'network', router.external_network]}
        return self._create(item, self._neutron.create_router, **attributes)

    def _interface(self, item, created):
        """Add a router to a network, where it is not part of it yet."""
        router = created[plan.key(plan.ROUTER, item.what.name)]
        for subnet_id in self._subnet_ids(item.network, created):
            find = functools.partial(self._find_interface, router.id,
                                     subnet_id)
            if find() is None:
                self._retrier.create(find, change_interface, self._neutron,
                                     'add', router.id, subnet_id)
        return router

    def _find_interface(self, router_id, subnet_id):
        return next((port for port in self._inventory.router_ports(router_id)
                     for address in port.fixed_ips or ()
                     if address['subnet_id'] == subnet_id), None)

    def _subnet_ids(self, network, created):
        if network.existing is not None:
            return self._resolved.networks[network.name].subnet_ids
        return [created[plan.key(plan.SUBNET, network.name, number)].id
                for number in range(len(network.subnets))]

    def _reserved_port(self, item, created):
        """Create a port without a server, such as a virtual IP."""
        attributes = {}
        if item.what.address:
            attributes['fixed_ips'] = [{'ip_address': item.what.address}]
        security = getattr(item.what, 'port_security', None)
        if security is not None:
            attributes['is_port_security_enabled'] = security
        return self._create_port(item, created, **attributes)

    def _port(self, item, created):
        prefix = item.what.mac_prefix
        attributes = self._port_attributes(item, created)
        for attempt in range(1, _ATTEMPTS + 1):
            if prefix:
                attributes['mac_address'] = _random_mac(prefix)
            try:
                return self._create_port(item, created, **attributes)
            except exceptions.ConflictException as exc:
                # Neutron's MacAddressInUse.
                if attempt == _ATTEMPTS or 'mac' not in str(exc).lower():
                    raise

    def _port_attributes(self, item, created):
        nic = item.what
        attributes = {}
        if item.network.existing is None and not item.network.subnets:
            # Nova takes a port without an address if none was requested.
            attributes['fixed_ips'] = []
        if nic.port_security is not None:
            attributes['is_port_security_enabled'] = nic.port_security
        if nic.security_groups:
            attributes['security_group_ids'] = [
                self._resolved.ids['security group', name]
                for name in nic.security_groups]
        if self._resolved.has_port_security(nic, item.network):
            addresses = [*nic.allowed_address_pairs, *(
                address['ip_address'] for key in item.after
                if plan.kind(key) == plan.VIRTUAL_IP
                for address in created[key].fixed_ips)]
            if addresses:
                attributes['allowed_address_pairs'] = [
                    {'ip_address': address} for address in addresses]
        return attributes

    def _subport(self, item, created):
        _, role, number, place, _ = item.key.split('.')
        parent = created[plan.key(plan.PORT, role, number, place)]
        # A guest sends from the same address in all VLANs.
        return self._create_port(item, created,
                                 mac_address=parent.mac_address)

    def _trunk(self, item, created):
        _, *place = item.key.split('.')
        parent = plan.key(plan.PORT, *place)
        return self._create(
            item, self._neutron.create_trunk,
            port_id=created[parent].id,
            sub_ports=[{
                'port_id': created[plan.key(
                    plan.SUBPORT, *place, subport.segmentation_id)].id,
                'segmentation_type': 'vlan',
                'segmentation_id': subport.segmentation_id}
                for subport in item.what.subports])

    def _floating_ip(self, item, created):
        port = created[item.key.partition('.')[2]]
        return self._create(
            item, self._neutron.create_ip, port_id=port.id,
            floating_network_id=self._resolved.ids[
                'network', item.what.floating_ip])

    def release_addresses(self, port):
        """Release the fixed IP addresses of openstacksdk's port."""
        if port.fixed_ips:
            self._retrier.call(self._neutron.update_port, port.id,
                                fixed_ips=[])


def change_interface(neutron, verb, router_id, subnet_id):
    """Add an interface to a router, or remove one.

    The parameters of openstacksdk's functions differ between releases.

    :param neutron: openstacksdk's network proxy.
    :param verb: 'add' or 'remove'.
    """
    exceptions.raise_from_response(neutron.put(
        f'/routers/{router_id}/{verb}_router_interface',
        json={'subnet_id': subnet_id}))


def _random_mac(prefix):
    known = prefix.split(':')
    return ':'.join(known + [f'{secrets.randbelow(256):02x}'
                             for _ in range(6 - len(known))])
