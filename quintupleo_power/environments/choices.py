# SPDX-License-Identifier: Apache-2.0
"""What the names in a definition stand for in one host cloud.

All of them are looked up, and all that is wrong with them is told, before
anything is made.
"""

import dataclasses

from openstack import exceptions

from quintupleo_power.environments import definition
from quintupleo_power.environments import failures
from quintupleo_power.environments import inventory

# Nova's image property that its scheduler compares with a host's hypervisor.
HYPERVISOR_TYPE = 'img_hv_type'
_FIRMWARE = 'hw_firmware_type'
# Neutron's extension by which Nova knows that a port was to have no address.
_WITHOUT_ADDRESS = 'ip_allocation'


@dataclasses.dataclass
class Choices:
    """What names stand for.

    :ivar flavors: openstacksdk's flavors by role.
    :ivar images: images by role.
    :ivar networks: networks that exist, by their name in the file.
    :ivar others: UUIDs of images of disks, external networks and security
        groups by (what, name).
    """

    flavors: dict = dataclasses.field(default_factory=dict)
    images: dict = dataclasses.field(default_factory=dict)
    networks: dict = dataclasses.field(default_factory=dict)
    others: dict = dataclasses.field(default_factory=dict)

    def image(self, name):
        """Give the image of a disk.

        :param name: its name or UUID in the definition.
        :returns: its UUID.
        """
        return self.others['image', name]

    def external_network(self, name):
        """Give a network that floating IPs and routers use.

        :param name: its name or UUID in the definition.
        :returns: its UUID.
        """
        return self.others['network', name]

    def security_group(self, name):
        """Give a security group.

        :param name: its name or UUID in the definition.
        :returns: its UUID.
        """
        return self.others['security group', name]

    def filters(self, nic, network):
        """Tell whether Neutron filters what a NIC sends.

        :param nic: the :class:`definition.Nic` or :class:`definition.Port`.
        :param network: its :class:`definition.Network`.
        :returns: True or False.
        """
        if nic.port_security is not None:
            return nic.port_security
        if network.existing is None:
            return network.port_security
        return self.networks[network.name].is_port_security_enabled is not (
            False)


def empty_image(role):
    """Name the image of a machine without an operating system.

    :param role: the :class:`definition.Role` of the machine.
    :returns: the image's name.
    """
    parts = ['quintupleo-empty', role.boot_mode]
    if role.hypervisor_type:
        parts.append(role.hypervisor_type)
    return '-'.join(parts)


def choose(connection, patience, wanted):
    """Look up what a definition names.

    :param connection: an openstacksdk ``Connection``.
    :param patience: the :class:`patience.Patience`.
    :param wanted: the :class:`definition.Definition`.
    :returns: the :class:`Choices`.
    :raises: failures.Failure with a line for each thing that the
        cloud does not have, or that does not fit.
    """
    chooser = _Chooser(connection, patience)
    found = chooser.run(wanted)
    if chooser.problems:
        raise failures.Failure(
            '\n'.join(dict.fromkeys(chooser.problems)))
    return found


class _Chooser:
    def __init__(self, connection, patience):
        self.problems = []
        self._connection = connection
        self._call = patience.call
        self._flavors = None
        self._known = {}

    def run(self, wanted):
        found = Choices()
        for network in wanted.networks:
            if network.existing is not None:
                found.networks[network.name] = self._find(
                    'network', network.existing, f'network "{network.name}"')
        external = {}
        for router in wanted.routers:
            external[router.external_network] = f'router "{router.name}"'
        for each in (*wanted.virtual_ips, *wanted.ports):
            external[each.floating_ip] = f'"{each.name}"'
        for role in wanted.roles:
            where = f'role "{role.name}"'
            self._role(role, where, found)
            for nic in role.nics:
                external[nic.floating_ip] = where
                self._check_addresses(nic, wanted, where)
                for name in nic.security_groups:
                    found.others['security group', name] = self._id(
                        'security group', name, where)
        for name, where in external.items():
            if name is not None:
                found.others['network', name] = self._id(
                    'network', name, where)
        return found

    def _role(self, role, where, found):
        flavor = found.flavors[role.name] = self._flavor(role, where)
        image = found.images[role.name] = self._image(role, where)
        if flavor and image:
            self._check_size(role, where, flavor, image)
        if role.key_name:
            self._find('key pair', role.key_name, where)
        if role.availability_zone:
            self._check_availability_zone(role.availability_zone, where)
        self._check_volumes(role, where, found)

    def _check_addresses(self, nic, wanted, where):
        """Refuse a port without an address where Nova does not take it."""
        network = next(each for each in wanted.networks
                       if each.name == nic.network)
        if network.existing is not None or network.subnets:
            return
        if 'extensions' not in self._known:
            self._known['extensions'] = {
                each.alias for each in self._call(lambda: list(
                    self._connection.network.extensions()))}
        if _WITHOUT_ADDRESS not in self._known['extensions']:
            self.problems.append(
                f'{where}: network "{network.name}" has no subnets, and in '
                'this cloud Nova takes only ports with an address: add a '
                'subnet; "fixed_ip: release" gives its addresses back once '
                'the servers are built')

    def _check_volumes(self, role, where, found):
        disks = [*filter(None, [role.root_volume]), *role.disks]
        if disks and not inventory.has_volumes(self._connection):
            self.problems.append(
                f'{where} has volumes, and this cloud has no block storage '
                'service: remove "root_volume" and "disks"')
            return
        for disk in disks:
            if disk.volume_type:
                self._find('volume type', disk.volume_type, where)
            if disk.image:
                found.others['image', disk.image] = self._id(
                    'image', disk.image, where)

    def _id(self, what, name, where):
        found = self._find(what, name, where)
        return found and found.id

    def _find(self, what, name, where):
        """Look a name or UUID up, once."""
        if (what, name) not in self._known:
            self._known[what, name] = self._look_up(what, name)
        found, problem = self._known[what, name]
        if problem:
            self.problems.append(f'{where}: {problem}')
        return found

    def _look_up(self, what, name):
        cloud = self._connection
        find, known = {
            'image': lambda: (cloud.image.find_image,
                              'openstack image list'),
            'network': lambda: (cloud.network.find_network,
                                'openstack network list'),
            'security group': lambda: (cloud.network.find_security_group,
                                       'openstack security group list'),
            'key pair': lambda: (cloud.compute.find_keypair,
                                 'openstack keypair list'),
            'volume type': lambda: (cloud.block_storage.find_type,
                                    'openstack volume type list'),
        }[what]()
        try:
            found = self._call(find, name, ignore_missing=True)
        except exceptions.DuplicateResource:
            return None, (f'more than one {what} is named "{name}": write '
                          f'its UUID instead, which "{known}" shows')
        if found is None:
            return None, (f'the host cloud has no {what} "{name}" for this '
                          f'project; "{known}" shows those that it has')
        return found, None

    def _image(self, role, where):
        if role.image is not None:
            image = self._find('image', role.image, where)
            command = (f'openstack image set --property {HYPERVISOR_TYPE}='
                       f'{role.hypervisor_type} {role.image}')
        else:
            name = empty_image(role)
            image = self._find('image', name, where)
            command = 'openstack quintupleo image create --iso <file>'
            if role.hypervisor_type:
                command += f' --hypervisor-type {role.hypervisor_type}'
            if image is None:
                self.problems[-1] += f'; make it with "{command}"'
        if image is None:
            return None
        has = _property(image, HYPERVISOR_TYPE)
        if role.hypervisor_type and has != role.hypervisor_type:
            self.problems.append(
                f'{where}: image "{image.name}" has {HYPERVISOR_TYPE}='
                f'{has}, by which Nova chooses the hypervisor, and not '
                f'{role.hypervisor_type}: use another image, or set it with '
                f'"{command}"')
        firmware = _property(image, _FIRMWARE) or 'bios'
        if role.kind == definition.BAREMETAL and firmware != role.boot_mode:
            self.problems.append(
                f'{where}: image "{image.name}" makes machines that boot by '
                f'{firmware} ({_FIRMWARE}), and not by {role.boot_mode}: '
                'change "boot_mode" or "image"')
        return image

    def _flavor(self, role, where):
        if self._flavors is None:
            self._flavors = self._call(
                lambda: list(self._connection.compute.flavors()))
        wanted = role.flavor
        if wanted.name is not None:
            for flavor in self._flavors:
                if wanted.name in (flavor.id, flavor.name):
                    return flavor
            self.problems.append(
                f'{where}: the host cloud has no flavor "{wanted.name}" for '
                'this project; "openstack flavor list" shows those that it '
                'has')
            return None
        disk = 0 if role.root_volume else wanted.disk
        large = [flavor for flavor in self._flavors
                 if flavor.vcpus >= wanted.vcpus and flavor.ram >= wanted.ram
                 and flavor.disk >= disk]
        if large:
            return min(large, key=lambda each: (
                each.ram, each.vcpus, each.disk, each.id))
        self.problems.append(
            f'{where}: no flavor has {wanted.vcpus} vcpus, {wanted.ram} MiB '
            f'of ram and {disk} GiB of disk; "openstack flavor list" shows '
            'those that there are')
        return None

    def _check_size(self, role, where, flavor, image):
        size = role.root_volume.size if role.root_volume else flavor.disk
        holder = ('"root_volume"' if role.root_volume
                  else f'flavor "{flavor.name}"')
        if (image.min_disk or 0) > size and (size or role.root_volume):
            self.problems.append(
                f'{where}: image "{image.name}" needs a disk of '
                f'{image.min_disk} GiB, and {holder} has {size} GiB')
        if (image.min_ram or 0) > flavor.ram:
            self.problems.append(
                f'{where}: image "{image.name}" needs {image.min_ram} MiB of '
                f'memory, and flavor "{flavor.name}" has {flavor.ram} MiB')

    def _check_availability_zone(self, name, where):
        if 'zones' not in self._known:
            self._known['zones'] = {
                zone.name for zone in self._call(lambda: list(
                    self._connection.compute.availability_zones()))
                if (zone.state or {}).get('available', True)}
        zones = self._known['zones']
        if name not in zones:
            self.problems.append(
                f'{where}: there is no availability zone "{name}"; there are '
                + (', '.join(sorted(zones)) or 'none'))


def _property(image, name):
    """A property of an image, whatever openstacksdk calls it."""
    known = image.to_dict()
    value = (known.get('properties') or {}).get(name, known.get(name))
    if value is None and name == HYPERVISOR_TYPE:
        value = known.get('hypervisor_type')
    return value
