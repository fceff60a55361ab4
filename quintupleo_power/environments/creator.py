# SPDX-License-Identifier: Apache-2.0
"""Creates the resources of an environment, one at a time."""

import base64
import functools
import ipaddress
import secrets

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import schema
from quintupleo_power.environments import validation

# Attempts with another MAC address after one that Neutron has already.
_ATTEMPTS = 5


class Creator:
    """Creates what belongs to one environment."""

    def __init__(self, inventory, resolved, stored, conductor):
        """Use a project, and what :mod:`resolver` found in it."""
        self._neutron = inventory.connection.network
        self._retrier = inventory.retrier
        self._inventory = inventory
        self._resolved = resolved
        self._name = stored.name
        self._user_data = stored.definition.user_data
        self._conductor = conductor

    def create(self, item, created):
        """Create the resource of a :class:`plan.Item`, and return it.

        :param created: dict of openstacksdk's resources by key, with the
            networks that are not the environment's own.
        """
        return {
            plan.NETWORK: self._network, plan.SUBNET: self._subnet,
            plan.ROUTER: self._router, plan.VIRTUAL_IP: self._reserved_port,
            plan.PORT: self._port if item.role else self._reserved_port,
            plan.SUBPORT: self._subport, plan.TRUNK: self._trunk,
            plan.FLOATING_IP: self._floating_ip, plan.GROUP: self._group,
            plan.VOLUME: self._volume, plan.SERVER: self._server,
        }[item.kind](item, created)

    def _create(self, item, function=None, **attributes):
        """Create a resource in Neutron."""
        if item.kind != plan.FLOATING_IP:
            attributes['name'] = ownership.name(self._name, item.key)
        return self._inventory.create(
            self._name, item, function,
            description=ownership.description(self._name, item.key),
            **attributes)

    def _create_port(self, item, created, **attributes):
        network = created[plan.key(plan.NETWORK, item.network.name)]
        return self._create(item, network_id=network.id, **attributes)

    def _network(self, item, created):
        network = item.what
        return self._create(
            item, mtu=network.mtu,
            is_port_security_enabled=network.port_security,
            **{f'provider_{name}': value
               for name, value in vars(network.provider).items()})

    def _subnet(self, item, created):
        subnet, create = item.what, None
        if subnet.gateway is not True:
            # None is sent for a subnet without a gateway.
            create = functools.partial(self._neutron.create_subnet,
                                       gateway_ip=subnet.gateway or None)
        return self._create(
            item, create,
            network_id=created[plan.key(plan.NETWORK, item.network.name)].id,
            ip_version=6 if ':' in subnet.cidr else 4, cidr=subnet.cidr,
            is_dhcp_enabled=subnet.dhcp, dns_nameservers=subnet.dns,
            allocation_pools=[{
                'start': subnet.allocation_pool[0],
                'end': subnet.allocation_pool[1]}]
            if subnet.allocation_pool else None,
            ipv6_address_mode=subnet.ipv6_mode, ipv6_ra_mode=subnet.ipv6_mode)

    def _router(self, item, created):
        external = item.what.external_network
        router = self._create(
            item, external_gateway_info=external and {
                'network_id': self._resolved.ids['network', external]})
        self.join_networks(router, item, created)
        return router

    def join_networks(self, router, item, created):
        """Add a router to its networks, where it is not part of them yet."""
        subnet_ids = [created[key].id for key in item.after
                      if plan.kind(key) == plan.SUBNET]
        for name in self._resolved.networks.keys() & item.what.networks:
            subnet_ids += self._resolved.networks[name].subnet_ids
        for subnet_id in subnet_ids:
            find = functools.partial(self._find_interface, router.id,
                                     subnet_id)
            if find() is None:
                self._retrier.create(
                    find, self._neutron.add_interface_to_router, router.id,
                    subnet_id)

    def _find_interface(self, router_id, subnet_id):
        return next((
            port for port in self._retrier.read_all(
                self._neutron.ports, device_id=router_id)
            for address in port.fixed_ips or ()
            if address['subnet_id'] == subnet_id), None)

    def _reserved_port(self, item, created):
        """Create a port without a server, such as a virtual IP."""
        address = item.what.address
        return self._create_port(
            item, created, fixed_ips=address and [{'ip_address': address}],
            is_port_security_enabled=getattr(item.what, 'port_security',
                                             None))

    def _port(self, item, created):
        nic = item.what
        fixed_ips = None
        if nic.address:
            _, _, number, _ = item.key.split('.')
            address = ipaddress.ip_address(nic.address) + int(number)
            fixed_ips = [{'ip_address': str(address)}]
        elif item.network.existing is None and not item.network.subnets:
            # Nova takes a port without an address if none was requested.
            fixed_ips = []
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._create_port(
                    item, created, mac_address=_random_mac(nic.mac),
                    fixed_ips=fixed_ips, extra_dhcp_opts=[
                        {'opt_name': name, 'opt_value': value}
                        for name, value in nic.dhcp_options.items()] or None,
                    is_port_security_enabled=nic.port_security,
                    security_group_ids=[
                        self._resolved.ids['security group', name]
                        for name in nic.security_groups] or None,
                    allowed_address_pairs=self._address_pairs(item, created))
            except exceptions.ConflictException as exc:
                # Neutron's MacAddressInUse.
                if attempt == _ATTEMPTS or 'mac' not in str(exc).lower():
                    raise

    def _address_pairs(self, item, created):
        """Return further addresses of a NIC, or None."""
        if not validation.may_filter(
                item.what, item.network,
                self._resolved.networks.get(item.network.name)):
            return None
        addresses = [*item.what.allowed_address_pairs, *(
            address for key in item.after if plan.kind(key) == plan.VIRTUAL_IP
            for address in owned_resources.fixed_ips(created[key]))]
        return [{'ip_address': address} for address in addresses] or None

    def _subport(self, item, created):
        parent = created[plan.key(plan.PORT, *item.key.split('.')[1:-1])]
        # A guest sends from the same address in all VLANs.
        return self._create_port(item, created,
                                 mac_address=parent.mac_address)

    def _trunk(self, item, created):
        return self._create(
            item, port_id=created[item.sibling(plan.PORT)].id,
            sub_ports=[{
                'port_id': created[item.sibling(
                    plan.SUBPORT, each.segmentation_id)].id,
                'segmentation_type': 'vlan',
                'segmentation_id': each.segmentation_id}
                for each in item.what.trunk])

    def _floating_ip(self, item, created):
        port = created[item.key.partition('.')[2]]
        return self._create(
            item, port_id=port.id,
            floating_network_id=self._resolved.ids[
                'network', item.what.floating_ip])

    def _group(self, item, created):
        return self._inventory.create(
            self._name, item, policies=[item.what.server_group],
            name=ownership.description(self._name, item.key))

    def _volume(self, item, created):
        disk, role = item.what, item.role
        image_id = (self._resolved.images[role.name].id
                    if disk is role.root_volume
                    else self._resolved.ids.get(('image', disk.image)))
        return self._inventory.create(
            self._name, item, name=ownership.name(self._name, item.key),
            size=disk.size, image_id=image_id, volume_type=disk.type,
            metadata=ownership.metadata(self._name, item.key))

    def _server(self, item, created):
        role = item.role
        ports = [{'port': created[item.sibling(plan.PORT, place)].id}
                 for place in range(len(role.nics))]
        access = (self._conductor.create(item, created)
                  if role.kind == schema.IRONIC else {})
        user_data = access.get('user_data') or (
            role.user_data and base64.b64encode(
                self._user_data[role.user_data].encode()).decode())
        metadata = {**ownership.metadata(self._name, item.key),
                    **access.get('metadata', {})}
        server = self._inventory.create(
            self._name, item, name=ownership.name(self._name, item.key),
            flavor_id=self._resolved.flavors[role.name].id,
            networks=ports or 'none',
            metadata=metadata, tags=[ownership.tag(self._name)],
            scheduler_hints=role.server_group and {
                'group': created[plan.key(plan.GROUP, role.name)].id},
            availability_zone=role.availability_zone, key_name=role.key_name,
            user_data=user_data,
            has_config_drive=role.config_drive or bool(access) or None,
            **self._block_devices(item, created))
        if ownership.access_id(server) != metadata.get(ownership.ACCESS):
            raise errors.EnvironmentsError(
                f'Another command made server {server.name} ({server.id}) at '
                'the same time, with other credentials: create again')
        return server

    def _block_devices(self, item, created):
        """Return the attributes of a server that describe its disks."""
        image_id = self._resolved.images[item.role.name].id
        mapping = [
            {'boot_index': 0 if name == 'root' else -1,
             'uuid': created[item.sibling(plan.VOLUME, name)].id,
             'source_type': 'volume', 'destination_type': 'volume',
             'delete_on_termination': False}
            for name, _ in plan.volumes(item.role)]
        if item.role.root_volume:
            return {'block_device_mapping': mapping}
        if not mapping:
            return {'image_id': image_id}
        return {'image_id': image_id, 'block_device_mapping': [
            {'boot_index': 0, 'uuid': image_id, 'source_type': 'image',
             'destination_type': 'local', 'delete_on_termination': True},
            *mapping]}


def _random_mac(prefix):
    if prefix is None:
        return None
    known = prefix.split(':')
    return ':'.join(known + [f'{secrets.randbelow(256):02x}'
                             for _ in range(6 - len(known))])
