# SPDX-License-Identifier: Apache-2.0
"""Finds the flavors, images, networks and others that a definition names."""

import functools
import typing

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import plan
from quintupleo_power.environments import schema
from quintupleo_power.host_cloud import images

# Nova's image property that its scheduler compares with a host's hypervisor.
HYPERVISOR_TYPE = 'img_hv_type'


class Resolved(typing.NamedTuple):
    """What the names in a definition stand for, as openstacksdk's resources.

    Flavors and images are by role.

    :ivar networks: networks that exist, by their name in the file.
    :ivar ids: UUIDs of all else, by (what it is, such as 'security group',
        name).
    """

    flavors: dict
    images: dict
    networks: dict
    ids: dict


def default_image(role):
    """Return the name of the image of a role whose file names none."""
    image = ('quintupleo-conductor' if role.kind == schema.IRONIC
             else f'quintupleo-empty-{role.boot_mode}')
    return '-'.join(filter(None, (image, role.hypervisor_type)))


def image_properties(image):
    """Return the properties of openstacksdk's image, named as in Glance."""
    known = image.to_dict()
    return {HYPERVISOR_TYPE: known.get('hypervisor_type'), **known,
            **(known.get('properties') or {})}


def resolve(inventory, definition):
    """Return the :class:`Resolved` of a definition.

    :raises: EnvironmentsError with a line for each thing that does not fit.
    """
    return _Resolver(inventory, definition).run()


# By what it is, as commands call it: service and function.
_FINDERS = {
    'flavor': ('compute', 'find_flavor'), 'image': ('image', 'find_image'),
    'network': ('network', 'find_network'),
    'security group': ('network', 'find_security_group'),
    'keypair': ('compute', 'find_keypair'),
    'volume type': ('block_storage', 'find_type')}


class _Resolver:
    def __init__(self, inventory, definition):
        self._problems = []
        self._resolved = Resolved({}, {}, {}, {})
        self._connection = inventory.connection
        self._call = inventory.retrier.call
        self._read_all = inventory.retrier.read_all
        self._definition = definition

    def run(self):
        for network in self._definition.networks:
            if network.existing is not None:
                self._resolved.networks[network.name] = self._find(
                    'network', network.existing, f'network "{network.name}"')
        for role in self._definition.roles:
            self._role(role, f'role "{role.name}"')
        self._check_addresses()
        for what, name, where in self._names():
            # Many roles may name the same.
            if name is not None and (what, name) not in self._resolved.ids:
                found = self._find(what, name, where)
                self._resolved.ids[what, name] = found and found.id
        if self._problems:
            raise errors.EnvironmentsError(
                '\n'.join(dict.fromkeys(self._problems)))
        return self._resolved

    def _check_addresses(self):
        """Refuse ports without an address where Nova does not take them."""
        wanted = {nic.network for role in self._definition.roles
                  for nic in role.nics}
        bare = [each.name for each in self._definition.networks
                if each.name in wanted and each.existing is None
                and not each.subnets]
        if bare and 'ip_allocation' not in {each.alias for each in (
                self._read_all(self._connection.network.extensions))}:
            self._problems += [
                f'network "{name}" has no subnets, and in this cloud Nova '
                'takes only ports with an address: add a subnet; "fixed_ip: '
                'release" gives its addresses back once the servers are built'
                for name in bare]

    def _names(self):
        """Yield what the file names besides: what it is, its name, and where.

        The name may be None.
        """
        for router in self._definition.routers:
            yield 'network', router.external_network, f'router "{router.name}"'
        for each in (*self._definition.virtual_ips, *self._definition.ports):
            yield 'network', each.floating_ip, f'"{each.name}"'
        for role in self._definition.roles:
            where = f'role "{role.name}"'
            yield 'keypair', role.key_name, where
            for nic in role.nics:
                yield 'network', nic.floating_ip, where
                for name in nic.security_groups:
                    yield 'security group', name, where
            if self._can_have_volumes(role):
                for _, disk in plan.volumes(role):
                    yield 'volume type', disk.type, where
                for disk in role.disks:
                    yield 'image', disk.image, where

    def _can_have_volumes(self, role):
        return plan.volumes(role) and owned_resources.has_volumes(
            self._connection)

    def _role(self, role, where):
        flavor = self._flavor(role, where)
        image = self._image(role, where)
        self._resolved.flavors[role.name] = flavor
        self._resolved.images[role.name] = image
        if flavor and image:
            self._check_size(role, where, flavor, image)
        if (role.availability_zone
                and role.availability_zone not in self._zones):
            self._problems.append(
                f'{where}: availability zone "{role.availability_zone}" does '
                'not exist; there are '
                + (', '.join(sorted(self._zones)) or 'none'))
        if plan.volumes(role) and not self._can_have_volumes(role):
            self._problems.append(
                f'{where} has volumes, and this cloud has no block storage '
                'service: remove "root_volume" and "disks"')

    def _find(self, what, name, where):
        """Return what has a name or UUID; add a problem if nothing has."""
        service, function = _FINDERS[what]
        try:
            found = self._call(
                getattr(getattr(self._connection, service), function), name,
                ignore_missing=True)
        except exceptions.DuplicateResource:
            self._problems.append(
                f'{where}: more than one {what} is named "{name}": write its '
                f'UUID instead, which "openstack {what} list" shows')
            return None
        if found is None:
            self._problems.append(
                f'{where}: the host cloud has no {what} "{name}" for this '
                f'project; "openstack {what} list" shows those that it has')
        return found

    def _image(self, role, where):
        image = self._find('image', role.image or default_image(role),
                           where)
        if image is not None:
            self._check_image(role, where, image)
        elif role.image is None:
            command = 'openstack quintupleo image create --iso <file>'
            if role.kind == schema.IRONIC:
                command = ('tools/build-conductor-image" and "'
                           + command.replace('iso', 'conductor-image'))
            if role.hypervisor_type:
                command += f' --hypervisor-type {role.hypervisor_type}'
            self._problems[-1] += f'; make it with "{command}"'
        return image

    def _check_image(self, role, where, image):
        properties = image_properties(image)
        has = properties.get(HYPERVISOR_TYPE)
        if role.hypervisor_type and has != role.hypervisor_type:
            self._problems.append(
                f'{where}: image "{image.name}" has {HYPERVISOR_TYPE}='
                f'{has}, by which Nova chooses the hypervisor, and not '
                f'{role.hypervisor_type}: use another image, or set it with '
                f'"openstack image set --property {HYPERVISOR_TYPE}='
                f'{role.hypervisor_type} {image.name}"')
        firmware = images.firmware(properties)
        if role.kind == schema.BAREMETAL and firmware != role.boot_mode:
            self._problems.append(
                f'{where}: image "{image.name}" makes servers that boot by '
                f'{firmware} (hw_firmware_type), and not by {role.boot_mode}: '
                'change "boot_mode" or "image"')

    @functools.cached_property
    def _flavors(self):
        return self._read_all(self._connection.compute.flavors)

    def _flavor(self, role, where):
        wanted = role.flavor
        if isinstance(wanted, str):
            return self._find('flavor', wanted, where)
        disk = 0 if role.root_volume else wanted.disk
        suitable = [
            flavor for flavor in self._flavors
            if flavor.vcpus >= wanted.vcpus and flavor.ram >= wanted.ram
            and flavor.disk >= disk]
        if suitable:
            return min(suitable, key=lambda each: (
                each.ram, each.vcpus, each.disk, each.id))
        self._problems.append(
            f'{where}: no flavor has {wanted.vcpus} vcpus, {wanted.ram} MiB '
            f'of ram and {disk} GiB of disk: see "openstack flavor list"; '
            'with "root_volume" it needs no disk')
        return None

    def _check_size(self, role, where, flavor, image):
        size = role.root_volume.size if role.root_volume else flavor.disk
        holder = ('"root_volume"' if role.root_volume
                  else f'flavor "{flavor.name}"')
        if (image.min_disk or 0) > size and (size or role.root_volume):
            self._problems.append(
                f'{where}: image "{image.name}" needs a disk of '
                f'{image.min_disk} GiB, and {holder} has {size} GiB')
        if (image.min_ram or 0) > flavor.ram:
            self._problems.append(
                f'{where}: image "{image.name}" needs {image.min_ram} MiB of '
                f'memory, and flavor "{flavor.name}" has {flavor.ram} MiB')

    @functools.cached_property
    def _zones(self):
        return {zone.name for zone in self._read_all(
            self._connection.compute.availability_zones)
            if (zone.state or {}).get('available', True)}
