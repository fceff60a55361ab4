# SPDX-License-Identifier: Apache-2.0
"""Creates the images that a project of a host cloud needs."""

import contextlib
import dataclasses
import hashlib
import io
import os

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import resolver
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

# In other states an image has no content: an interrupted command left it.
_COMPLETE = ('active', 'deactivated')


@dataclasses.dataclass(frozen=True)
class Options:
    """Which images to create.

    :ivar iso: path of the ISO of the rescue images.
    :ivar network_first_iso: path of the ISO of the images for network-first
        servers, None for no such images.
    :ivar prefix: what the names begin with.
    :ivar replace: whether to replace an image of other content.
    :ivar hypervisor_type: what Nova's scheduler chooses the hypervisor of
        servers by; it ends the names of the images of servers.
    """

    iso: str
    network_first_iso: str | None = None
    boot_modes: tuple[str, ...] = BOOT_MODES
    prefix: str = 'quintupleo'
    replace: bool = False
    hypervisor_type: str | None = None


@dataclasses.dataclass(frozen=True)
class Made:
    """An image, whose outcome is 'made', 'unchanged' or 'replaced'."""

    name: str
    id: str
    boot_mode: str
    purpose: str
    outcome: str


class Content:
    """The content of an image, with its SHA-512 in hexadecimal digits."""

    def __init__(self, disk_format, properties, path=None):
        """Read a file for its checksum; without a path, an empty disk."""
        self.disk_format = disk_format
        self.properties = properties
        self._path = path
        digest = hashlib.sha512()
        with self.open() as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
        self.sha512 = digest.hexdigest()

    def open(self):
        """Return the content as a binary file."""
        if self._path is None:
            return io.BytesIO(bytes(images.EMPTY_SIZE))
        return open(self._path, 'rb')


def _require_iso(path):
    try:
        with open(path, 'rb') as source:
            source.seek(_ISO_MAGIC_OFFSET)
            magic = source.read(len(_ISO_MAGIC))
    except OSError as exc:
        raise errors.ImageError(
            f'{path} cannot be read ({exc.strerror}): make the image with '
            'tools/build-ipxe-image first')
    if magic != _ISO_MAGIC:
        raise errors.ImageError(
            f'{path} is not an ISO 9660 image: make one with '
            'tools/build-ipxe-image')


def content(purpose, boot_mode, path=None):
    """Return the :class:`Content` of an image.

    :param purpose: RESCUE, EMPTY or NETWORK_FIRST.
    :param path: the ISO, which an empty image does not need.
    :raises: ImageError if the file is missing or not an ISO.
    """
    properties = dict(images.BOOT_MODE_PROPERTIES[boot_mode])
    if purpose == EMPTY:
        return Content('raw', {**images.POWER_CUT, **properties,
                               **_CDROM_PROPERTIES[boot_mode]})
    _require_iso(path)
    if purpose == RESCUE:
        properties |= {'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata'}
    else:
        properties |= {**dict([images.NETWORK_FIRST]), **images.POWER_CUT}
    return Content('iso', properties, path)


def create_all(connection, options):
    """Yield each image as :class:`Made` once it exists.

    :raises: ImageError.
    """
    paths = {RESCUE: options.iso, EMPTY: None}
    if options.network_first_iso:
        paths[NETWORK_FIRST] = options.network_first_iso
    # All files are read before the first image is created.
    wanted = [(purpose, mode, content(purpose, mode, path))
              for purpose, path in paths.items()
              for mode in options.boot_modes]
    for purpose, mode, made in wanted:
        name = f'{options.prefix}-{purpose}-{mode}'
        # A rescue image runs where its server is.
        if options.hypervisor_type and purpose != RESCUE:
            name += f'-{options.hypervisor_type}'
            made.properties[resolver.HYPERVISOR_TYPE] = (
                options.hypervisor_type)
        image_id, outcome = create(connection, name, made, options.replace,
                                   keep=purpose == NETWORK_FIRST)
        yield Made(name, image_id, mode, purpose, outcome)


def create(connection, name, wanted, replace=False, keep=False):
    """Create an image unless the project has it.

    :param wanted: its :class:`Content`.
    :param replace: whether to replace an image of other content.
    :param keep: whether the one that is replaced is renamed, not deleted:
        servers that were created from it are recognised by its properties.
    :returns: (UUID, 'made', 'unchanged' or 'replaced').
    :raises: ImageError.
    """
    try:
        present = _present(connection, name)
        if present is None:
            return _upload(connection, name, wanted), 'made'
        if _same(present, wanted):
            return present.id, 'unchanged'
        if present.status in _COMPLETE and not replace:
            raise errors.ImageError(
                f"Image '{name}' ({present.id}) exists with other content "
                'or properties: use --replace, or another --prefix')
        # First the new one: an error leaves the old one in place.
        made = _upload(connection, name, wanted)
        if keep and present.status in _COMPLETE:
            connection.image.update_image(
                present, name=f'{name}-until-{made}')
        else:
            connection.image.delete_image(present)
        return made, 'replaced'
    except errors.CLOUD_ERRORS as exc:
        raise errors.ImageError(f"Image '{name}' could not be made: "
                                f'{errors.explain(exc)}')


def _present(connection, name):
    # Glance compares names as its database does, often without case.
    found = [image for image in connection.image.images(
        name=name, owner=connection.current_project_id)
        if image.name == name]
    if len(found) > 1:
        raise errors.ImageError(
            f"{len(found)} images of this project are named '{name}' ("
            + ', '.join(sorted(image.id for image in found))
            + '): delete all but one')
    return found[0] if found else None


def _same(image, wanted):
    properties = image.to_dict()
    extra = properties.get('properties') or {}
    return (image.status == 'active'
            and image.disk_format == wanted.disk_format
            and image.hash_value == wanted.sha512
            and all(str(extra.get(key, properties.get(key))) == value
                    for key, value in wanted.properties.items()))


def _upload(connection, name, wanted):
    image = connection.image
    # By two plain requests: openstacksdk's create_image would add
    # properties of its own and look for other images of that content.
    # No retries, which openstacksdk makes before release 4: a second upload
    # would begin where the first one stopped.
    created = image.post('/images', connect_retries=0, json={
        'name': name, 'disk_format': wanted.disk_format,
        'container_format': 'bare', 'visibility': 'private',
        **wanted.properties})
    exceptions.raise_from_response(created)
    image_id = created.json()['id']
    try:
        with wanted.open() as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(0)
            exceptions.raise_from_response(image.put(
                f'/images/{image_id}/file', data=source, connect_retries=0,
                headers={'Content-Type': 'application/octet-stream',
                         'Content-Length': str(size)}))
        return image_id
    except BaseException:
        # An image without content would only be in the way.
        with contextlib.suppress(*errors.CLOUD_ERRORS):
            image.delete_image(image_id)
        raise
