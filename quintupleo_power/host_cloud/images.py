# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Rescue images, and the boot mode that images decide."""

from oslo_utils import uuidutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers

BIOS = 'bios'
UEFI = 'uefi'

# With both, Nova adds the rescue disk to the server's own instead of
# renaming those (nova/virt/libvirt/blockinfo.py, stable device rescue).
RESCUE_PROPERTIES = ('hw_rescue_device', 'hw_rescue_bus')
# Says of an ISO that it asks the network and then goes on to the disk.
NETWORK_FIRST = ('quintupleo_boot', 'network-first')


def firmware(properties):
    """Tell the boot mode that an image's properties ask for.

    :param properties: dict of image properties, named as in Glance.
    :returns: 'bios' or 'uefi'; without ``hw_firmware_type`` Nova boots BIOS
        on the architectures that have it.
    """
    return UEFI if properties.get('hw_firmware_type') == UEFI else BIOS


def is_network_first(properties):
    """Tell whether an image asks the network and goes on to the disk.

    :param properties: dict of image properties, named as in Glance.
    :returns: True or False.
    """
    name, value = NETWORK_FIRST
    return properties.get(name) == value


def has_tpm(properties):
    """Tell whether an image asks for a virtual TPM, which rules out rescue.

    :param properties: dict of image properties, named as in Glance.
    :returns: True or False.
    """
    return bool(properties.get('hw_tpm_version'))


def read(images, reference):
    """Read one image.

    :param images: the image :class:`service.Service`.
    :param reference: the image's UUID, or its name if it is unique.
    :returns: the image as a dict.
    :raises: NotFound, NotUnique or another HostCloudError.
    """
    if uuidutils.is_uuid_like(reference):
        try:
            return _checked(images.get(f'/images/{reference}'), reference)
        except errors.NotFound:
            raise errors.NotFound(
                f'Image {reference} does not exist in the host cloud, or is '
                'not shared with the project of these credentials')
    # Glance compares names as its database does, often without case.
    found = [_checked(image) for image in images.get(
        '/images', 'images', list, name=reference)
        if image.get('name') == reference]
    if not found:
        raise errors.NotFound(f"No image is named '{reference}'")
    if len(found) > 1:
        raise errors.NotUnique(
            f"{len(found)} images are named '{reference}' ("
            + ', '.join(sorted(image['id'] for image in found))
            + '): use the UUID')
    return found[0]


def _checked(image, image_id=None):
    """Refuse what is no image, or not the one that was asked for."""
    found = image.get('id')
    if not isinstance(found, str) or not servers.same_id(
            found, image_id or found):
        raise errors.ServerError(
            'The host cloud describes an image in a form that Glance does '
            'not have')
    return image


def check_rescue(image):
    """Check that a rescue from an image is a boot from the network.

    :param image: the image as a dict.
    :raises: UnsuitableImage if it is not ready or lacks the properties.
    """
    title = f"Image '{image.get('name')}' ({image['id']})"
    if image.get('status') != 'active':
        raise errors.UnsuitableImage(
            f"{title} is in status '{image.get('status')}' and not 'active'")
    missing = [name for name in RESCUE_PROPERTIES if not image.get(name)]
    if missing:
        raise errors.UnsuitableImage(
            f"{title} lacks {' and '.join(missing)}, without which a rescue "
            'renames the disks of the server: set hw_rescue_device=cdrom and '
            'hw_rescue_bus=sata on it')
