# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the file of an environment that a JSON schema does not find."""

import ipaddress

from quintupleo_power.environments import schema


# For which kinds of roles a key is, and why it is not for others.
_ONLY = {
    **dict.fromkeys(('resource_class', 'capabilities'), (
        (schema.BAREMETAL,),
        'only roles of kind baremetal become nodes of Ironic')),
    **dict.fromkeys(('key_name', 'config_drive'), (
        (schema.SERVER, schema.IRONIC),
        'a role of kind baremetal boots no operating system of its own')),
    'user_data': ((schema.SERVER,),
                  'only a role of kind server has user data of yours'),
    'redfish': ((schema.IRONIC,),
                'only a role of kind ironic has a Redfish service'),
}


class Validation:
    """The validation of one file."""

    def __init__(self, document, definition):
        self._document = document
        self._mistake = document.mistake
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

    def _require_network(self, name, where):
        """Return the network of a name; None if the file has none."""
        if name not in self._networks:
            known = ', '.join(self._networks) or 'none'
            self._mistake(where, f'network "{name}" is not among those of '
                                 f'the file ({known})')
        return self._networks.get(name)

    def _check_network(self, network, where):
        if network.existing is not None:
            given = self._document.content['networks'][network.name]
            for key in given.keys() - {'existing', 'physical_network'}:
                self._mistake((*where, key), 'a network that exists is taken '
                              'as it is: remove this or "existing"')
            return
        for number, subnet in enumerate(network.subnets):
            inside = (*where, 'subnets', number)
            if isinstance(subnet.gateway, str):
                self._require_inside(subnet.gateway, [subnet],
                                     (*inside, 'gateway'))
            for address in subnet.allocation_pool:
                self._require_inside(address, [subnet],
                                     (*inside, 'allocation_pool'))

    def _require_inside(self, text, subnets, where):
        address = ipaddress.ip_address(text)
        cidrs = [ipaddress.ip_network(subnet.cidr) for subnet in subnets]
        if cidrs and not any(address in cidr for cidr in cidrs):
            self._mistake(where, f'{address} is not in '
                          + ' or '.join(map(str, cidrs)))

    def _check_role(self, role, where):
        if role.kind == schema.SERVER and role.image is None:
            self._mistake((*where, 'kind'), 'a role of kind server needs '
                          'an "image" to boot from')
        for key in self._document.content['roles'][role.name]:
            kinds, why = _ONLY.get(key, (schema.KINDS, None))
            if role.kind not in kinds:
                self._mistake((*where, key), why)
        for number, nic in enumerate(role.nics):
            self._check_nic(nic, role.count, (*where, 'nics', number))
        if role.kind == schema.IRONIC:
            self._check_ironic(role, where)

    def _check_ironic(self, ironic, where):
        roles = self._definition.roles
        first = next(role for role in roles if role.kind == schema.IRONIC)
        if first is not ironic or ironic.count != 1:
            self._mistake((*where, 'count'), 'an environment has one server '
                          f'with Ironic: that of role "{first.name}"')
        name = provisioning_network(self._definition, ironic)
        others = [role.name for role in roles if role.kind == schema.BAREMETAL
                  for nic in role.nics if nic.pxe and nic.network != name]
        if others:
            self._mistake(where, f'its DHCP server is on network "{name}", '
                          'and these roles boot from others: '
                          + ', '.join(dict.fromkeys(others)))
        if name not in [nic.network for nic in ironic.nics]:
            self._mistake((*where, 'nics'), 'it needs a NIC on the network '
                          'that the machines boot from'
                          + (f', "{name}"' if name else ''))
        elif name in self._networks:
            self._check_provisioning(self._networks[name])

    def _check_provisioning(self, network):
        """Check the network that the DHCP server of an Ironic serves."""
        subnets = [each for each in network.subnets if ':' not in each.cidr]
        if len(subnets) != 1 or subnets[0].dhcp:
            self._mistake(('networks', network.name), 'the DHCP server of the '
                          'role of kind ironic needs a network that is made '
                          'here, with one IPv4 subnet that has "dhcp: false"')
        for role in self._definition.roles:
            for number, nic in enumerate(role.nics):
                where = ('roles', role.name, 'nics', number)
                if nic.network != network.name or role.kind == schema.SERVER:
                    continue
                if nic.fixed_ip == 'release':
                    self._mistake((*where, 'fixed_ip'), 'the DHCP server of '
                                  'the role of kind ironic gives the address '
                                  'that Neutron has for the NIC: keep it')
                if role.kind == schema.IRONIC and may_filter(nic, network):
                    self._mistake((*where, 'port_security'), 'Neutron lets '
                                  'no DHCP server through: it has to be false')

    def _check_nic(self, nic, count, where):
        network = self._check_address(nic, where, count)
        if nic.address and nic.fixed_ip == 'release':
            self._mistake((*where, 'address'),
                          'with "fixed_ip: release" no NIC keeps it')
        if nic.mac and int(nic.mac[:2], 16) & 1:
            self._mistake((*where, 'mac'), f'{nic.mac} begins a '
                          'multicast address: the second digit has to be even')
        if network and not may_filter(nic, network):
            for key, effect in (
                    ('allowed_address_pairs', 'any address may be used'),
                    ('security_groups', 'they do nothing')):
                if getattr(nic, key):
                    self._mistake((*where, key), 'without port security '
                                  f'{effect}: remove them')
        seen = set()
        for number, subport in enumerate(nic.trunk):
            inside = (*where, 'trunk', number)
            self._require_network(subport.network, (*inside, 'network'))
            if subport.segmentation_id in seen:
                self._mistake((*inside, 'segmentation_id'),
                              f'VLAN {subport.segmentation_id} is there twice')
            seen.add(subport.segmentation_id)

    def _check_virtual_ip(self, virtual_ip, where):
        known = {role.name: role for role in self._definition.roles}
        network = self._check_address(virtual_ip, where)
        for number, name in enumerate(virtual_ip.roles):
            if name not in known:
                self._mistake((*where, 'roles', number), f'role "{name}" is '
                              'not among those of the file ('
                              + ', '.join(known) + ')')
            elif network and network.name not in {
                    nic.network for nic in known[name].nics}:
                self._mistake((*where, 'roles', number), f'role "{name}" has '
                              f'no NIC on network "{network.name}"')

    def _check_address(self, wanted, where, count=1):
        """Check so many addresses; return the network, if the file has it."""
        network = self._require_network(wanted.network, (*where, 'network'))
        if wanted.address and network:
            if network.existing is None and not network.subnets:
                self._mistake((*where, 'address'),
                              f'network "{network.name}" has no subnets')
            first = ipaddress.ip_address(wanted.address)
            for address in dict.fromkeys((first, first + max(0, count - 1))):
                self._require_inside(address, network.subnets,
                                     (*where, 'address'))
        return network


def provisioning_network(definition, ironic):
    """Return the name of the network that an Ironic provisions on, or None."""
    names = [nic.network for role in definition.roles
             if role.kind == schema.BAREMETAL for nic in role.nics if nic.pxe]
    return next(iter(names or [nic.network for nic in ironic.nics[-1:]]), None)


def may_filter(nic, network, existing=None):
    """Return whether Neutron may filter what a NIC sends.

    :param existing: openstacksdk's network; None if it was not read yet.
    """
    if nic.port_security is not None:
        return nic.port_security
    if network.existing is None:
        return network.port_security
    return getattr(existing, 'is_port_security_enabled', None) is not False
