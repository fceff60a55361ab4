# SPDX-License-Identifier: Apache-2.0
"""An environment as its file describes it: read, checked and immutable.

The shape of the file is :mod:`quintupleo_power.environments.schema`; here is
what a schema cannot tell, such as whether a network that a role names is in
the file. Each error names the line.
"""

import dataclasses
import ipaddress
import pathlib

import yaml

from quintupleo_power.environments import document
from quintupleo_power.environments import schema

BAREMETAL, SERVER = 'baremetal', 'server'


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet to be made.

    :ivar cidr: such as 192.0.2.0/24 or 2001:db8::/64.
    :ivar dhcp: whether the host cloud's Neutron serves DHCP in it.
    :ivar gateway: address of the gateway; None for Neutron's choice, '' for
        none at all.
    :ivar dns: addresses of name servers.
    :ivar allocation_pool: first and last address that Neutron gives out, or
        None for its choice.
    :ivar ipv6_mode: Neutron's word for how addresses are told, or None.
    """

    cidr: str
    dhcp: bool = False
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    allocation_pool: tuple[str, str] | None = None
    ipv6_mode: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, made or there before.

    :ivar name: its name in the file.
    :ivar existing: UUID or name of one that is there; None for one to be
        made, to which all below but the last applies.
    :ivar subnets: tuple of :class:`Subnet`.
    :ivar mtu: in bytes; None for the host cloud's choice.
    :ivar port_security: whether Neutron filters what ports send.
    :ivar provider: Neutron's provider attributes, as a tuple of pairs.
    :ivar physical_network: what Ironic calls it, for enrolment.
    """

    name: str
    existing: str | None = None
    subnets: tuple[Subnet, ...] = ()
    mtu: int | None = None
    port_security: bool = False
    provider: tuple[tuple[str, object], ...] = ()
    physical_network: str | None = None


@dataclasses.dataclass(frozen=True)
class Router:
    """A router to be made.

    :ivar external_network: UUID or name of the network that it leads to, or
        None.
    :ivar networks: names of the file's networks that it joins.
    """

    name: str
    networks: tuple[str, ...]
    external_network: str | None = None


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor by its name, or by the least that it has to have.

    :ivar ram: in MiB.
    :ivar disk: in GiB.
    """

    name: str | None = None
    vcpus: int = 1
    ram: int = 1
    disk: int = 0


@dataclasses.dataclass(frozen=True)
class Disk:
    """A volume of a server.

    :ivar size: in GiB.
    :ivar volume_type: its type, None for the host cloud's choice.
    :ivar image: UUID or name of the image that it is made from, None for an
        empty one.
    """

    size: int
    volume_type: str | None = None
    image: str | None = None


@dataclasses.dataclass(frozen=True)
class Subport:
    """A VLAN of a trunk: a network of the file and the VLAN's number."""

    network: str
    segmentation_id: int


@dataclasses.dataclass(frozen=True)
class Nic:
    """A network interface of each server of a role.

    :ivar network: name of the file's network.
    :ivar mac_prefix: what its MAC address begins with; None for Neutron's
        choice.
    :ivar release_fixed_ip: whether its addresses go back once the server is
        built.
    :ivar port_security: whether Neutron filters what it sends; None as the
        network has it.
    :ivar security_groups: UUIDs or names; none for Neutron's choice.
    :ivar subports: tuple of :class:`Subport`.
    :ivar allowed_address_pairs: other addresses that it may use.
    :ivar floating_ip: UUID or name of the network for a floating IP, or None.
    :ivar pxe: whether Ironic boots from it.
    """

    network: str
    mac_prefix: str | None
    release_fixed_ip: bool = False
    port_security: bool | None = None
    security_groups: tuple[str, ...] = ()
    subports: tuple[Subport, ...] = ()
    allowed_address_pairs: tuple[str, ...] = ()
    floating_ip: str | None = None
    pxe: bool = False


@dataclasses.dataclass(frozen=True)
class Role:
    """Servers that are alike.

    :ivar name: its name in the file.
    :ivar kind: BAREMETAL, which becomes nodes of Ironic, or SERVER.
    :ivar count: how many.
    :ivar flavor: a :class:`Flavor`.
    :ivar nics: tuple of :class:`Nic`.
    :ivar boot_mode: 'bios' or 'uefi'.
    :ivar image: UUID or name of what the root disk is made from; None for the
        empty image of the boot mode.
    :ivar root_volume: a :class:`Disk` to boot from, None for a disk of the
        hypervisor's own.
    :ivar disks: further disks, a tuple of :class:`Disk`.
    :ivar availability_zone: or None.
    :ivar server_group: policy of the group that the servers form, or None.
    :ivar hypervisor_type: what Nova schedules by, or None.
    :ivar key_name: key pair of servers that boot an operating system.
    :ivar user_data: path of the user data of these, or None.
    :ivar config_drive: whether these find their data on a drive, not at an
        address of the network.
    :ivar resource_class: of the nodes, None for Ironic's default.
    :ivar capabilities: further ones of the nodes, as a tuple of pairs.
    """

    name: str
    kind: str
    count: int
    flavor: Flavor
    nics: tuple[Nic, ...]
    boot_mode: str = 'bios'
    image: str | None = None
    root_volume: Disk | None = None
    disks: tuple[Disk, ...] = ()
    availability_zone: str | None = None
    server_group: str | None = None
    hypervisor_type: str | None = None
    key_name: str | None = None
    user_data: str | None = None
    config_drive: bool = False
    resource_class: str | None = None
    capabilities: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class VirtualIp:
    """An address that servers of some roles take from each other.

    :ivar network: name of the file's network.
    :ivar roles: names of the roles whose servers may use it.
    :ivar address: the address, None for Neutron's choice.
    :ivar floating_ip: UUID or name of the network for a floating IP, or None.
    """

    name: str
    network: str
    roles: tuple[str, ...]
    address: str | None = None
    floating_ip: str | None = None


@dataclasses.dataclass(frozen=True)
class Port:
    """A port for a machine of somebody's own, such as the undercloud.

    :ivar network: name of the file's network.
    :ivar address: its address, None for Neutron's choice.
    :ivar port_security: whether Neutron filters what it sends; None as the
        network has it.
    :ivar floating_ip: UUID or name of the network for a floating IP, or None.
    """

    name: str
    network: str
    address: str | None = None
    port_security: bool | None = None
    floating_ip: str | None = None


@dataclasses.dataclass(frozen=True)
class Definition:
    """All of a file.

    :ivar name: the environment's name, None if the file has none.
    :ivar text: the file's content, as YAML without comments.
    :ivar user_data: content by path of the files with user data that it
        names, as a tuple of pairs.
    """

    name: str | None
    networks: tuple[Network, ...]
    routers: tuple[Router, ...]
    roles: tuple[Role, ...]
    virtual_ips: tuple[VirtualIp, ...]
    ports: tuple[Port, ...] = ()
    text: str = dataclasses.field(compare=False, default='')
    user_data: tuple[tuple[str, str], ...] = ()

    def role(self, name):
        """Look for a role.

        :param name: its name.
        :returns: a :class:`Role`, or None if there is none of that name.
        """
        return next((role for role in self.roles if role.name == name), None)

    def scaled(self, role, count):
        """Make the same with another number of servers of a role.

        :param role: its name.
        :param count: how many there are to be.
        :returns: a :class:`Definition`.
        :raises: document.DocumentError if there is no such role.
        """
        content = yaml.safe_load(self.text)
        if role not in content['roles']:
            raise document.DocumentError(
                f'There is no role "{role}"; there are '
                + ', '.join(content['roles']))
        content['roles'][role]['count'] = count
        return parse(yaml.safe_dump(content, sort_keys=False),
                     'the definition', dict(self.user_data))


# Neutron's own begins with fa:, which agents of newer releases pass over.
MAC_PREFIX = '52:54:00'


def load(path):
    """Read and check a file, and those with user data that it names.

    :param path: the file; what it names is looked for beside it.
    :returns: a :class:`Definition`.
    :raises: document.DocumentError.
    """
    return parse(_read(path), path, folder=pathlib.Path(path).parent)


def parse(text, path='environment', user_data=None, folder=None):
    """Check what a file holds.

    :param text: YAML.
    :param path: what errors call it.
    :param user_data: dict of the files with user data by their path, if
        they were read before.
    :param folder: where these files are, if not.
    :returns: a :class:`Definition`.
    :raises: document.DocumentError.
    """
    source = document.Document(text, path)
    source.check_schema(schema.FILE)
    found = _definition(source.content)
    _Checks(source, found).run()
    if user_data is None:
        user_data = _user_data(source, found, folder)
    source.require_no_mistakes()
    return dataclasses.replace(found, user_data=tuple(user_data.items()))


def _read(path):
    try:
        with open(path, encoding='utf-8') as source:
            return source.read()
    except OSError as exc:
        raise document.DocumentError(
            f'{path} cannot be read: {exc.strerror}')
    except UnicodeDecodeError as exc:
        raise document.DocumentError(
            f'{path} is no text in UTF-8: {exc.reason}')


def _user_data(source, found, folder):
    """Read the files with user data."""
    contents = {}
    for role in found.roles:
        if role.user_data and role.user_data not in contents:
            try:
                contents[role.user_data] = _read(
                    pathlib.Path(folder or '.') / role.user_data)
            except document.DocumentError as exc:
                source.mistake(('roles', role.name, 'user_data'), str(exc))
    return contents


def _definition(content):
    """Make the immutable form of what the schema has found good."""
    networks = content.get('networks', {})
    return Definition(
        name=content.get('name'),
        text=yaml.safe_dump(content, sort_keys=False),
        networks=tuple(_network(name, each)
                       for name, each in networks.items()),
        routers=tuple(
            Router(name, tuple(each['networks']),
                   each.get('external_network'))
            for name, each in content.get('routers', {}).items()),
        roles=tuple(_role(name, each, networks)
                    for name, each in content['roles'].items()),
        virtual_ips=tuple(
            VirtualIp(name, each['network'], tuple(each['roles']),
                      each.get('address'), each.get('floating_ip'))
            for name, each in content.get('virtual_ips', {}).items()),
        ports=tuple(Port(name, **each)
                    for name, each in content.get('ports', {}).items()))


def _network(name, content):
    return Network(
        name, content.get('existing'),
        tuple(map(_subnet, content.get('subnets', ()))),
        content.get('mtu'), content.get('port_security', False),
        tuple(content.get('provider', {}).items()),
        content.get('physical_network'))


def _subnet(content):
    gateway = content.get('gateway')
    pool = content.get('allocation_pool')
    return Subnet(
        content['cidr'], content.get('dhcp', False),
        {False: '', True: None}.get(gateway, gateway),
        tuple(content.get('dns', ())), pool and tuple(pool),
        content.get('ipv6_mode'))


def _role(name, content, networks):
    kind = content.get('kind', BAREMETAL)
    flavor = content['flavor']
    nics = content.get('nics', ())
    root = content.get('root_volume')
    return Role(
        name=name, kind=kind, count=content.get('count', 1),
        flavor=(Flavor(flavor) if isinstance(flavor, str)
                else Flavor(**flavor)),
        # Ironic boots from the first one unless the file names others.
        nics=tuple(_nic(each, networks.get(each['network'], {}), each.get(
            'pxe', number == 0 and not any('pxe' in nic for nic in nics)))
            for number, each in enumerate(nics)),
        root_volume=root and Disk(root['size'], root.get('type')),
        disks=tuple(Disk(each['size'], each.get('type'), each.get('image'))
                    for each in content.get('disks', ())),
        capabilities=tuple(content.get('capabilities', {}).items()),
        **{key: content[key] for key in (
            'boot_mode', 'image', 'availability_zone', 'server_group',
            'hypervisor_type', 'key_name', 'user_data', 'config_drive',
            'resource_class')
            if key in content})


def _nic(content, network, pxe):
    # On a network of others a tenant may not choose.
    mac = content.get('mac', 'cloud' if 'existing' in network else MAC_PREFIX)
    return Nic(
        network=content['network'],
        mac_prefix=None if mac == 'cloud' else mac.lower(),
        release_fixed_ip=content.get('fixed_ip') == 'release',
        port_security=content.get('port_security'),
        security_groups=tuple(content.get('security_groups', ())),
        subports=tuple(Subport(**each) for each in content.get('trunk', ())),
        allowed_address_pairs=tuple(content.get('allowed_address_pairs', ())),
        floating_ip=content.get('floating_ip'), pxe=pxe)


class _Checks:
    """What a schema cannot tell."""

    def __init__(self, source, definition):
        self._document = source
        self._definition = definition
        self._networks = {each.name: each for each in definition.networks}

    def run(self):
        """Note all mistakes."""
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
            self._mistake((*where, 'ipv6_mode'), f'{cidr} is no IPv6 network')
        if subnet.ipv6_mode and not subnet.dhcp:
            self._mistake((*where, 'ipv6_mode'),
                          'Neutron tells no addresses with "dhcp: false"')
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
        if role.kind == SERVER:
            if role.image is None:
                self._mistake((*where, 'kind'), 'a role of kind server needs '
                              'an "image" to boot from')
            for key in ('resource_class', 'capabilities'):
                if self._given(where, key):
                    self._mistake((*where, key), 'only roles of kind '
                                  'baremetal become nodes of Ironic')
        else:
            for key in ('user_data', 'key_name', 'config_drive'):
                if self._given(where, key):
                    self._mistake((*where, key), 'a role of kind baremetal '
                                  'boots no operating system of its own')
        for number, nic in enumerate(role.nics):
            self._check_nic(nic, (*where, 'nics', number))

    def _given(self, where, key):
        content = self._document.content
        for part in where:
            content = content[part]
        return key in content

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
        """Check an address of a network; tell whether that is there."""
        on_network = self._require_network(wanted.network,
                                           (*where, 'network'))
        if wanted.address and on_network:
            self._require_inside(
                wanted.address, self._cidrs(self._networks[wanted.network]),
                (*where, 'address'))
        return on_network

    def _cidrs(self, network):
        """The subnets of a network; none if one of them is a mistake."""
        try:
            return [ipaddress.ip_network(subnet.cidr)
                    for subnet in network.subnets]
        except ValueError:
            return []


def _may_filter(nic, network):
    """Tell whether Neutron may filter what a NIC sends."""
    if nic.port_security is not None:
        return nic.port_security
    # Of a network that exists nothing is known yet.
    return network.existing is not None or network.port_security
