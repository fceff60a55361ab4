# SPDX-License-Identifier: Apache-2.0
"""Creates the images that a project of a host cloud needs."""

import collections
import contextlib
import functools
import hashlib
import io

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import resolver
from quintupleo_power.host_cloud import images

BOOT_MODES = (images.BIOS, images.UEFI)
RESCUE = 'rescue'
EMPTY = 'empty'
SECURE_BOOT = 'empty-secure-boot'
NETWORK_FIRST = 'network-first'
CONDUCTOR = 'conductor'

# By purpose: the format, and the properties beside those of a boot mode.
_FORMS = {
    RESCUE: ('iso', {'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata'}),
    EMPTY: ('raw', images.POWER_CUT),
    SECURE_BOOT: ('raw', {'os_secure_boot': 'required', **images.POWER_CUT}),
    NETWORK_FIRST: ('iso', dict([images.NETWORK_FIRST], **images.POWER_CUT)),
    CONDUCTOR: ('qcow2', {})}
_ONE_MODE = {SECURE_BOOT: (images.UEFI,), CONDUCTOR: (images.BIOS,)}
# By format: what the file is, its magic number, where that is, and what makes
# the file.
_FILES = {
    'iso': ('an ISO 9660 image', b'CD001', 32769, 'tools/build-ipxe-image'),
    'qcow2': ('a qcow2 image', b'QFI\xfb', 0, 'tools/build-conductor-image')}
# Bytes of a file that are read at once.
_BLOCK = 1024 * 1024
# The bus of Nova's config drive. On q35 it would be SATA, for which kernels
# that are made for clouds, such as Debian's, have no driver.
_UEFI_CDROM = {'hw_cdrom_bus': 'scsi', 'hw_scsi_model': 'virtio-scsi'}
# In other states an image has no content: an interrupted command left it.
_COMPLETE = ('active', 'deactivated')
# An image of a project; its outcome is 'made', 'unchanged' or 'replaced'.
Made = collections.namedtuple('Made', 'name id boot_mode purpose outcome')
# What an image is made of; the last one returns a stream of its data.
Content = collections.namedtuple('Content', 'disk_format properties open')


def _check_file(path, disk_format):
    what, magic, offset, tool = _FILES[disk_format]
    try:
        with open(path, 'rb') as source:
            source.seek(offset)
            found = source.read(len(magic))
    except OSError as exc:
        raise errors.EnvironmentsError(
            f'{path} cannot be read ({exc.strerror}): make the image with '
            f'{tool} first')
    if found != magic:
        raise errors.EnvironmentsError(
            f'{path} is not {what}: make one with {tool}')


def content(purpose, boot_mode, path=None):
    """Return the :class:`Content` of an image, which may need a file.

    :raises: EnvironmentsError if the file is missing or of another format.
    """
    disk_format, properties = _FORMS[purpose]
    properties = {**images.BOOT_MODE_PROPERTIES[boot_mode], **properties}
    if path:
        _check_file(path, disk_format)
        return Content(disk_format, properties,
                       functools.partial(open, path, 'rb'))
    if boot_mode == images.UEFI:
        properties |= _UEFI_CDROM
    return Content(disk_format, properties,
                   functools.partial(io.BytesIO, bytes(images.EMPTY_SIZE)))


def create_all(connection, options):
    """Yield each image of the command's options as :class:`Made`.

    A hypervisor type ends the names of the images of servers.
    """
    paths = {RESCUE: options.iso, EMPTY: None} if options.iso else {}
    if options.secure_boot:
        paths[SECURE_BOOT] = None
    if options.network_first_iso:
        paths[NETWORK_FIRST] = options.network_first_iso
    if options.conductor_image:
        paths[CONDUCTOR] = options.conductor_image
    # All files are checked before the first image is created.
    wanted = [(purpose, mode, content(purpose, mode, path))
              for purpose, path in paths.items()
              for mode in (_ONE_MODE.get(purpose) or options.boot_modes
                           or BOOT_MODES)]
    for purpose, mode, made in wanted:
        name = f'{options.prefix}-{purpose}' + (
            '' if purpose in _ONE_MODE else f'-{mode}')
        # A rescue image runs where its server is.
        if options.hypervisor_type and purpose != RESCUE:
            name += f'-{options.hypervisor_type}'
            made.properties[resolver.HYPERVISOR_TYPE] = (
                options.hypervisor_type)
        image_id, outcome = create(connection, name, made, options.replace,
                                   keep=purpose == NETWORK_FIRST)
        yield Made(name, image_id, mode, purpose, outcome)


def create(connection, name, wanted, replace=False, keep=False):
    """Create an image of a :class:`Content` unless the project has it.

    :param replace: whether to replace an image of other content.
    :param keep: whether the one that is replaced is renamed, not deleted:
        servers that were created from it are recognised by its properties.
    :returns: (UUID, 'made', 'unchanged' or 'replaced').
    """
    with errors.translated(f"Image '{name}' could not be made"):
        present = _present(connection, name)
        if present is None:
            return upload(connection, name, wanted), 'made'
        if _same(present, wanted):
            return present.id, 'unchanged'
        if present.status in _COMPLETE and not replace:
            raise errors.EnvironmentsError(
                f"Image '{name}' ({present.id}) exists with other content "
                'or properties: use --replace, or another --prefix')
        # First the new one: an error leaves the old one in place.
        made = upload(connection, name, wanted)
        if keep and present.status in _COMPLETE:
            connection.image.update_image(
                present, name=f'{name}-until-{made}')
        else:
            connection.image.delete_image(present)
        return made, 'replaced'


def _present(connection, name):
    # Glance compares names as its database does, often without case.
    found = [image for image in connection.image.images(
        name=name, owner=connection.current_project_id)
        if image.name == name]
    if len(found) > 1:
        raise errors.EnvironmentsError(
            f"{len(found)} images of this project are named '{name}' ("
            + ', '.join(sorted(image.id for image in found))
            + '): delete all but one')
    return found[0] if found else None


def _same(image, wanted):
    known = resolver.image_properties(image)
    return (image.status == 'active'
            and image.disk_format == wanted.disk_format
            and image.hash_value == _sha512(wanted)
            and all(str(known.get(key)) == value
                    for key, value in wanted.properties.items()))


def _sha512(wanted):
    digest = hashlib.sha512()
    with wanted.open() as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def upload(connection, name, wanted):
    """Create an image of a :class:`Content`, and return its UUID."""
    image = connection.image
    # By two plain requests: openstacksdk's create_image would add properties
    # of its own and look for other images of that content. Its retries, before
    # release 4, would begin where the first upload stopped.
    created = image.post('/images', connect_retries=0, json={
        'name': name, 'disk_format': wanted.disk_format,
        'container_format': 'bare', 'visibility': 'private',
        **wanted.properties})
    exceptions.raise_from_response(created)
    image_id = created.json()['id']
    try:
        # keystoneauth would write bytes to its debug log.
        with wanted.open() as stream:
            exceptions.raise_from_response(image.put(
                f'/images/{image_id}/file', connect_retries=0, data=stream,
                headers={'Content-Type': 'application/octet-stream'}))
        return image_id
    except BaseException:
        # An image without content would only be in the way.
        with contextlib.suppress(*errors.CLOUD_ERRORS):
            image.delete_image(image_id)
        raise


def download(connection, image_id):
    """Return the content of an image, which is JSON."""
    response = connection.image.get(f'/images/{image_id}/file')
    exceptions.raise_from_response(response)
    return response.json()
