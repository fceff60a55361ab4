# SPDX-License-Identifier: Apache-2.0
"""An environment as its file describes it, as immutable values."""

import dataclasses

BAREMETAL, SERVER = 'baremetal', 'server'

# In the classes below, ``network``, ``networks`` and ``roles`` hold names of
# the file; ``existing``, ``external_network``, ``floating_ip``, ``image`` and
# ``security_groups`` hold UUIDs or names in the host cloud. None leaves the
# choice to the host cloud.


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet to create.

    :ivar gateway: address; None for Neutron's choice, '' for no gateway.
    :ivar allocation_pool: first and last address.
    :ivar ipv6_mode: Neutron's ``ipv6_address_mode`` and ``ipv6_ra_mode``.
    """

    cidr: str
    dhcp: bool = False
    gateway: str | None = None
    dns: tuple[str, ...] = ()
    allocation_pool: tuple[str, str] | None = None
    ipv6_mode: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to create, or one that exists.

    :ivar existing: None for one to create, to which all below but the last
        applies.
    :ivar mtu: in bytes.
    :ivar provider: Neutron's provider attributes, as pairs.
    :ivar physical_network: Ironic's name of it, for enrolment.
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
    """A router to create, which joins networks."""

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
    :ivar image: None for an empty volume.
    """

    size: int
    volume_type: str | None = None
    image: str | None = None


@dataclasses.dataclass(frozen=True)
class Subport:
    """A VLAN of a trunk, on a network of the file."""

    network: str
    segmentation_id: int


@dataclasses.dataclass(frozen=True)
class Nic:
    """A network interface of each server of a role.

    :ivar mac_prefix: what its MAC address begins with.
    :ivar release_fixed_ip: whether its addresses are released once the
        server is built.
    :ivar port_security: None for what the network has.
    :ivar allowed_address_pairs: further addresses that it may use.
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

    :ivar kind: BAREMETAL, which becomes nodes of Ironic, or SERVER.
    :ivar boot_mode: 'bios' or 'uefi'.
    :ivar image: of the root disk; None for the empty one of the boot mode.
    :ivar root_volume: volume to boot from, None for a disk of the hypervisor.
    :ivar user_data: path of the user data of servers.
    :ivar capabilities: of the nodes, beside the boot mode, as pairs.
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
    """An address that servers of some roles take from each other."""

    name: str
    network: str
    roles: tuple[str, ...]
    address: str | None = None
    floating_ip: str | None = None


@dataclasses.dataclass(frozen=True)
class Port:
    """A port for a server that is not part of it, such as an undercloud.

    :ivar port_security: None for what the network has.
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
    :ivar user_data: the files with user data that it names, as pairs of path
        and content.
    """

    name: str | None
    networks: tuple[Network, ...]
    routers: tuple[Router, ...]
    roles: tuple[Role, ...]
    virtual_ips: tuple[VirtualIp, ...]
    ports: tuple[Port, ...] = ()
    text: str = dataclasses.field(compare=False, default='')
    user_data: tuple[tuple[str, str], ...] = ()
