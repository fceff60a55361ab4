# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the file of an environment that a JSON schema does not find.

One of them is a role that names a network which is not in the file.
"""

import ipaddress

from quintupleo_power.environments import model


class Validation:
    """The validation of one file."""

    def __init__(self, document, definition):
        self._document = document
        self._definition = definition
        self._networks = {each.name: each for each in definition.networks}

    def run(self):
        """Add all mistakes to the document."""
        for network in self._definition.networks:
            self._check_network(network, ('networks', network.name))
        for router in self._definition.routers:
            for number, name in enumerate(router.networks):
                self._require_network(
                    name, ('routers', router.name, 'networks', number))
        for role in self._definition.roles:
            self._check_role(role, ('roles', role.name))
        for virtual_ip in self._definition.virtual_ips:
            self._check_virtual_ip(virtual_ip,
                                   ('virtual_ips', virtual_ip.name))
        for port in self._definition.ports:
            self._check_address(port, ('ports', port.name))

    def _mistake(self, where, sentence):
        self._document.mistake(where, sentence)

    def _require_network(self, name, where):
        if name in self._networks:
            return True
        known = ', '.join(self._networks) or 'none'
        self._mistake(where, f'network "{name}" is not among those of the '
                             f'file ({known})')
        return False

    def _check_network(self, network, where):
        if network.existing is not None:
            given = self._document.content['networks'][network.name]
            for key in given:
                if key not in ('existing', 'physical_network'):
                    self._mistake((*where, key), 'a network that exists is '
                                  'taken as it is: remove this or "existing"')
            return
        for number, subnet in enumerate(network.subnets):
            self._check_subnet(subnet, (*where, 'subnets', number))

    def _check_subnet(self, subnet, where):
        try:
            cidr = ipaddress.ip_network(subnet.cidr)
        except ValueError as exc:
            self._mistake((*where, 'cidr'), f'{exc}')
            return
        if subnet.ipv6_mode and cidr.version == 4:
            self._mistake((*where, 'ipv6_mode'),
                          f'{cidr} is not an IPv6 network')
        if subnet.ipv6_mode and not subnet.dhcp:
            self._mistake((*where, 'ipv6_mode'),
                          'Neutron serves no addresses with "dhcp: false"')
        for key, addresses in (
                ('gateway', filter(None, [subnet.gateway])),
                ('allocation_pool', subnet.allocation_pool or ())):
            for address in addresses:
                self._require_inside(address, [cidr], (*where, key))
        for address in subnet.dns:
            self._require_address(address, (*where, 'dns'))

    def _require_address(self, text, where):
        try:
            return ipaddress.ip_address(text)
        except ValueError as exc:
            self._mistake(where, f'{exc}')

    def _require_inside(self, text, subnets, where):
        address = self._require_address(text, where)
        if address and subnets and not any(address in subnet
                                           for subnet in subnets):
            self._mistake(where, f'{address} is not in '
                          + ' or '.join(map(str, subnets)))

    def _check_role(self, role, where):
        if role.kind == model.SERVER:
            forbidden = ('resource_class', 'capabilities')
            why = 'only roles of kind baremetal become nodes of Ironic'
            if role.image is None:
                self._mistake((*where, 'kind'), 'a role of kind server needs '
                              'an "image" to boot from')
        else:
            forbidden = ('user_data', 'key_name', 'config_drive')
            why = ('a role of kind baremetal boots no operating system of its '
                   'own')
        for key in self._document.content['roles'][role.name]:
            if key in forbidden:
                self._mistake((*where, key), why)
        for number, nic in enumerate(role.nics):
            self._check_nic(nic, (*where, 'nics', number))

    def _check_nic(self, nic, where):
        network = (self._networks.get(nic.network)
                   if self._require_network(nic.network, (*where, 'network'))
                   else None)
        if nic.mac_prefix and int(nic.mac_prefix[:2], 16) & 1:
            self._mistake((*where, 'mac'), f'{nic.mac_prefix} begins a '
                          'multicast address: the second digit has to be even')
        if network and nic.allowed_address_pairs and not _may_filter(
                nic, network):
            self._mistake((*where, 'allowed_address_pairs'), 'without port '
                          'security any address may be used: remove them')
        if network and nic.security_groups and not _may_filter(nic, network):
            self._mistake((*where, 'security_groups'), 'without port '
                          'security they do nothing: remove them')
        for pair in nic.allowed_address_pairs:
            try:
                ipaddress.ip_network(pair, strict=False)
            except ValueError as exc:
                self._mistake((*where, 'allowed_address_pairs'), f'{exc}')
        seen = set()
        for number, subport in enumerate(nic.subports):
            inside = (*where, 'trunk', number)
            self._require_network(subport.network, (*inside, 'network'))
            if subport.segmentation_id in seen:
                self._mistake((*inside, 'segmentation_id'),
                              f'VLAN {subport.segmentation_id} is there twice')
            seen.add(subport.segmentation_id)

    def _check_virtual_ip(self, virtual_ip, where):
        known = {role.name: role for role in self._definition.roles}
        on_network = self._check_address(virtual_ip, where)
        for number, name in enumerate(virtual_ip.roles):
            if name not in known:
                self._mistake((*where, 'roles', number), f'role "{name}" is '
                              'not among those of the file ('
                              + ', '.join(known) + ')')
            elif on_network and virtual_ip.network not in {
                    nic.network for nic in known[name].nics}:
                self._mistake((*where, 'roles', number), f'role "{name}" has '
                              f'no NIC on network "{virtual_ip.network}"')

    def _check_address(self, wanted, where):
        """Check an address, and return whether its network is in the file."""
        on_network = self._require_network(wanted.network,
                                           (*where, 'network'))
        if wanted.address and on_network:
            self._require_inside(
                wanted.address, self._cidrs(self._networks[wanted.network]),
                (*where, 'address'))
        return on_network

    def _cidrs(self, network):
        """Return the subnets of a network; none if one has a mistake."""
        try:
            return [ipaddress.ip_network(subnet.cidr)
                    for subnet in network.subnets]
        except ValueError:
            return []


def _may_filter(nic, network):
    """Return whether Neutron may filter what a NIC sends."""
    if nic.port_security is not None:
        return nic.port_security
    # A network that exists was not read yet.
    return network.existing is not None or network.port_security
