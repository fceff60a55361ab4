# SPDX-License-Identifier: Apache-2.0
"""The images that the host cloud needs, made once by its tenant."""

import contextlib
import dataclasses
import hashlib
import io
import os

from openstack import exceptions

from quintupleo_power.environments import choices
from quintupleo_power.environments import failures
from quintupleo_power.host_cloud import images

BOOT_MODES = ('bios', 'uefi')
RESCUE = 'rescue'
EMPTY = 'empty'
NETWORK_FIRST = 'network-first'

_ISO_MAGIC = b'CD001'
_ISO_MAGIC_OFFSET = 32769
_CHUNK = 1024 * 1024

# The bus of Nova's config drive. On q35 it would be SATA, for which kernels
# that are made for clouds, such as Debian's, have no driver.
_CDROM_PROPERTIES = {
    images.BIOS: {},
    images.UEFI: {'hw_cdrom_bus': 'scsi', 'hw_scsi_model': 'virtio-scsi'},
}

# In other states an image has no content: a killed run left it.
_COMPLETE = ('active', 'deactivated')


class ImageError(Exception):
    """An image cannot be made; the text says why and what helps."""


@dataclasses.dataclass(frozen=True)
class Made:
    """An image after :func:`create`.

    :ivar outcome: 'made', 'unchanged' or 'replaced'.
    """

    name: str
    id: str
    boot_mode: str
    purpose: str
    outcome: str


class Content:
    """What goes into an image.

    :ivar disk_format: Glance's name of the format.
    :ivar properties: dict of image properties.
    :ivar sha512: the content's checksum, in hexadecimal digits.
    """

    def __init__(self, disk_format, properties, path=None):
        """Describe it, and read it for its checksum.

        :param disk_format: Glance's name of the format.
        :param properties: dict of image properties.
        :param path: the file, or None for an empty disk.
        :raises: OSError if the file cannot be read.
        """
        self.disk_format = disk_format
        self.properties = properties
        self._path = path
        digest = hashlib.sha512()
        with self.open() as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
        self.sha512 = digest.hexdigest()

    def open(self):
        """Open the content for reading.

        :returns: a binary file.
        :raises: OSError if it cannot be opened.
        """
        if self._path is None:
            return io.BytesIO(bytes(images.EMPTY_SIZE))
        return open(self._path, 'rb')


def rescue_content(path, boot_mode):
    """Describe a rescue image.

    :param path: an ISO that boots from the network.
    :param boot_mode: 'bios' or 'uefi'.
    :returns: a :class:`Content`.
    :raises: ImageError if the file is missing or no ISO.
    """
    _require_iso(path)
    return Content('iso', {
        'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata',
        **images.BOOT_MODE_PROPERTIES[boot_mode]}, path)


def network_first_content(path, boot_mode):
    """Describe the image that network-first servers boot from.

    :param path: an ISO that asks the network and goes on to the disk.
    :param boot_mode: 'bios' or 'uefi'.
    :returns: a :class:`Content`, whose properties servers are recognised by.
    :raises: ImageError if the file is missing or no ISO.
    """
    _require_iso(path)
    name, value = images.NETWORK_FIRST
    return Content('iso', {name: value, **images.POWER_CUT,
                           **images.BOOT_MODE_PROPERTIES[boot_mode]}, path)


def _require_iso(path):
    try:
        with open(path, 'rb') as source:
            source.seek(_ISO_MAGIC_OFFSET)
            magic = source.read(len(_ISO_MAGIC))
    except OSError as exc:
        raise ImageError(f'{path} cannot be read ({exc.strerror}): make the '
                         'image with tools/build-ipxe-image first')
    if magic != _ISO_MAGIC:
        raise ImageError(f'{path} is no ISO 9660 image: make one with '
                         'tools/build-ipxe-image')


def empty_content(boot_mode):
    """Describe the image that servers are made from.

    :param boot_mode: 'bios' or 'uefi'.
    :returns: a :class:`Content`.
    """
    return Content('raw', {**images.POWER_CUT,
                           **images.BOOT_MODE_PROPERTIES[boot_mode],
                           **_CDROM_PROPERTIES[boot_mode]})


def create_all(connection, path, boot_modes=BOOT_MODES, prefix='quintupleo',
               replace=False, network_first_path=None, hypervisor_type=None):
    """Make rescue and empty images, each unless it is there already.

    :param connection: an openstacksdk ``Connection``.
    :param path: the ISO of the rescue images.
    :param boot_modes: for which boot modes.
    :param prefix: what the names begin with.
    :param replace: whether an image of other content is replaced.
    :param network_first_path: the ISO of the images for network-first
        servers, which are made if it is given.
    :param hypervisor_type: what Nova's scheduler chooses the hypervisor of
        servers by; it ends the names of the images that these are made from.
    :returns: an iterator of :class:`Made`, each when it is done.
    :raises: ImageError.
    """
    wanted = [(RESCUE, mode, rescue_content(path, mode))
              for mode in boot_modes]
    wanted += [(EMPTY, mode, empty_content(mode)) for mode in boot_modes]
    if network_first_path:
        wanted += [(NETWORK_FIRST, mode,
                    network_first_content(network_first_path, mode))
                   for mode in boot_modes]
    for purpose, mode, content in wanted:
        name = f'{prefix}-{purpose}-{mode}'
        # A rescue image is taken where its server is.
        if hypervisor_type and purpose != RESCUE:
            name += f'-{hypervisor_type}'
            content.properties[choices.HYPERVISOR_TYPE] = hypervisor_type
        image_id, outcome = create(connection, name, content, replace,
                                   keep=purpose == NETWORK_FIRST)
        yield Made(name, image_id, mode, purpose, outcome)


def create(connection, name, content, replace=False, keep=False):
    """Make an image unless the project has it.

    :param connection: an openstacksdk ``Connection``.
    :param name: name of the image.
    :param content: its :class:`Content`.
    :param replace: whether an image of other content is replaced.
    :param keep: whether the one that is replaced is renamed, not deleted:
        what was made from it is recognised by its properties.
    :returns: (UUID, 'made', 'unchanged' or 'replaced').
    :raises: ImageError.
    """
    try:
        present = _present(connection, name)
        if present is None:
            return _upload(connection, name, content), 'made'
        if _same(present, content):
            return present.id, 'unchanged'
        if present.status in _COMPLETE and not replace:
            raise ImageError(
                f"Image '{name}' ({present.id}) exists with other content "
                'or properties: use --replace, or another --prefix')
        # First the new one: what fails leaves the old one in place.
        made = _upload(connection, name, content)
        if keep and present.status in _COMPLETE:
            connection.image.update_image(
                present, name=f'{name}-until-{made}')
        else:
            connection.image.delete_image(present)
        return made, 'replaced'
    except failures.CLOUD_ERRORS as exc:
        raise ImageError(f"Image '{name}' could not be made: "
                         f'{failures.explain(exc)}')


def _present(connection, name):
    # Glance compares names as its database does, often without case.
    found = [image for image in connection.image.images(
        name=name, owner=connection.current_project_id)
        if image.name == name]
    if len(found) > 1:
        raise ImageError(
            f"{len(found)} images of this project are named '{name}' ("
            + ', '.join(sorted(image.id for image in found))
            + '): delete all but one')
    return found[0] if found else None


def _same(image, content):
    properties = image.to_dict()
    extra = properties.get('properties') or {}
    return (image.status == 'active'
            and image.disk_format == content.disk_format
            and image.hash_value == content.sha512
            and all(str(extra.get(key, properties.get(key))) == value
                    for key, value in content.properties.items()))


def _upload(connection, name, content):
    image = connection.image
    # By two plain requests: openstacksdk's create_image would add
    # properties of its own and look for other images of that content.
    # No retries, which it makes itself before release 4: a second upload
    # would begin where the first one stopped.
    created = image.post('/images', connect_retries=0, json={
        'name': name, 'disk_format': content.disk_format,
        'container_format': 'bare', 'visibility': 'private',
        **content.properties})
    exceptions.raise_from_response(created)
    image_id = created.json()['id']
    try:
        with content.open() as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(0)
            exceptions.raise_from_response(image.put(
                f'/images/{image_id}/file', data=source, connect_retries=0,
                headers={'Content-Type': 'application/octet-stream',
                         'Content-Length': str(size)}))
        return image_id
    except BaseException:
        # An image without content would only be in the way.
        with contextlib.suppress(*failures.CLOUD_ERRORS):
            image.delete_image(image_id)
        raise
