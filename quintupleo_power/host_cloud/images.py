# SPDX-License-Identifier: Apache-2.0
"""Rescue images and empty ones, and the machines that images make.

Properties are dicts, with names as in Glance.
"""

from collections import abc
import hashlib
import typing

from oslo_utils import units
from oslo_utils import uuidutils

from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

BIOS = 'bios'
UEFI = 'uefi'

# With both, Nova adds the rescue disk to the server's own instead of
# renaming those (nova/virt/libvirt/blockinfo.py, stable device rescue).
RESCUE_PROPERTIES = ('hw_rescue_device', 'hw_rescue_bus')
# Says of an ISO that it asks the network and then goes on to the disk.
NETWORK_FIRST = ('quintupleo_boot', 'network-first')

_AARCH64 = 'aarch64'
# Other names that Nova takes (nova/objects/fields.py, Architecture).
_SAME_ARCHITECTURE = {'amd64': 'x86_64'}

# What a machine without an operating system is made from. Nova grows it to
# the flavor's disk. Raw zeros are what every hypervisor's backend takes.
EMPTY_SIZE = 1024 * 1024
_EMPTY_SHA512 = hashlib.sha512(bytes(EMPTY_SIZE)).hexdigest()

BOOT_MODE_PROPERTIES: dict[str, dict[str, str]] = {
    BIOS: {},
    UEFI: {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'},
}
# 0 makes os-stop a power cut, which is what Ironic means by it.
POWER_CUT = {'os_shutdown_timeout': '0'}

# Properties that make a machine what it is begin so, but for Glance's own
# and for the architecture (nova/objects/image_meta.py).
_OF_THE_MACHINE = ('hw_', 'os_')
_OF_GLANCE = ('os_hash_algo', 'os_hash_value', 'os_hidden')


def firmware(properties: dict) -> str:
    """Return the boot mode that an image's properties ask for.

    Without ``hw_firmware_type`` Nova boots BIOS where there is one.
    """
    wanted = properties.get('hw_firmware_type')
    if not wanted and architecture(properties) == _AARCH64:
        return UEFI
    return UEFI if wanted == UEFI else BIOS


def architecture(properties: dict) -> str | None:
    """Return the architecture of an image, by Nova's and libvirt's name."""
    # The last one is the older name of hw_architecture, which Nova knows.
    for name in ('hw_emulation_architecture', 'hw_architecture',
                 'architecture'):
        value = (properties.get(name) or '').lower()
        if value:
            return _SAME_ARCHITECTURE.get(value, value)
    return None


def secure_boot(properties: dict, extra_specs: dict) -> bool | None:
    """Return whether an image and a flavor boot only what is signed.

    Nova refuses a server whose flavor and image contradict each other.

    :returns: None for BIOS, and where Nova leaves it to the host.
    """
    if firmware(properties) == BIOS:
        return None
    return {None: False, 'disabled': False, 'required': True}.get(
        extra_specs.get('os:secure_boot') or properties.get('os_secure_boot'))


def is_network_first(properties: dict) -> bool:
    """Return whether an image asks the network and goes on to the disk."""
    return NETWORK_FIRST in properties.items()


def of_the_machine(properties: dict) -> dict:
    """Return the properties that make a machine, not what is on its disk."""
    return {name: value for name, value in properties.items()
            if value is not None and name not in _OF_GLANCE
            and (name.startswith(_OF_THE_MACHINE) or name == 'architecture')}


def disk_size(image: dict) -> int:
    """Return the size in GiB of the smallest disk that an image fits on.

    :returns: 0 if nothing is known of it.
    """
    content = max(image.get('size') or 0, image.get('virtual_size') or 0)
    return max(-(-content // units.Gi), image.get('min_disk') or 0)


def is_empty(image: dict) -> bool:
    """Return whether an image is an empty one, whatever its name is."""
    return (image.get('status') == 'active'
            and image.get('os_hash_value') == _EMPTY_SHA512)


def read(glance: service.Service, reference: str) -> dict:
    """Return one image by its UUID, or its name if it is unique.

    :raises: NotFound, NotUnique or another HostCloudError.
    """
    if uuidutils.is_uuid_like(reference):
        reference = identifiers.reference(reference)
        try:
            return _checked(glance.get(f'/images/{reference}'), reference)
        except errors.NotFound:
            raise errors.NotFound(
                f'Image {reference} does not exist in the host cloud, or is '
                'not shared with the project of these credentials')
    # Glance compares names as its database does, often without case.
    found = [_checked(image) for image in glance.get(
        '/images', 'images', list, name=reference)
        if image.get('name') == reference]
    errors.require_one([image['id'] for image in found], 'image', reference)
    return found[0]


def read_all(glance: service.Service, **filters: typing.Any
             ) -> abc.Iterator[dict]:
    """Return all images with some properties."""
    while True:
        answer = glance.get('/images', **filters)
        page = [_checked(image) for image in typed_json.Body(
            answer, 'its images', 'Glance').get('images', list)]
        yield from page
        if not page or not answer.get('next'):
            return
        filters['marker'] = page[-1]['id']


def _checked(image, image_id=None):
    """Return an image, if it is one and the one that was asked for."""
    body = typed_json.Body(image, 'an image', 'Glance')
    found = body.get('id', str)
    if image_id and identifiers.reference(found) != image_id:
        raise body.wrong(f'it is image {found} and not {image_id}')
    return image


def find_rescue(glance: service.Service, reference: str,
                known: cache.Cache) -> str:
    """Return the UUID of a rescue image, which is checked to be one.

    :raises: UnsuitableImage if it does not serve, or what :func:`read` raises.
    """
    image = known.get(reference)
    if image is None:
        image = read(glance, reference)
        check_rescue(image)
        known.put(reference, image)
    return image['id']


def check_rescue(image: dict) -> None:
    """Check that a rescue from an image is a boot from the network.

    :raises: UnsuitableImage if it is not ready or lacks the properties.
    """
    title = _check_active(image)
    missing = [name for name in RESCUE_PROPERTIES if not image.get(name)]
    if missing:
        raise errors.UnsuitableImage(
            f"{title} lacks {' and '.join(missing)}, without which a rescue "
            'renames the disks of the server: set hw_rescue_device=cdrom and '
            'hw_rescue_bus=sata on it')


def check_rebuild(image: dict, boot_mode: str | None) -> None:
    """Check that a server of a boot mode can be rebuilt from an image.

    :raises: UnsuitableImage if it is not ready, or makes a machine of the
        other boot mode.
    """
    title = _check_active(image)
    if boot_mode and firmware(image) != boot_mode:
        raise errors.UnsuitableImage(
            f'{title} makes machines that boot by {firmware(image)} '
            f'(hw_firmware_type), and the server boots by {boot_mode}')


def _check_active(image):
    title = f"Image '{image.get('name')}' ({image['id']})"
    if image.get('status') != 'active':
        raise errors.UnsuitableImage(
            f"{title} is in status '{image.get('status')}' and not 'active'")
    return title
