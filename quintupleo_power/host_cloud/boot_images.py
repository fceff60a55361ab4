# SPDX-License-Identifier: Apache-2.0
"""Images of one node each, that its server is rescued with as with a CD-ROM.

Glance's API is that of its reference, "Images". An image is found again by
its tag, whatever became of who made it.
"""

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import uploads

_TAG = 'quintupleo-virtual-media'
# A rescue adds it to the server's own disks as a CD-ROM.
_PROPERTIES = {'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata'}


def create(service, owner, maker, boot_mode, path):
    """Upload an ISO.

    :param service: the image :class:`service.Service`.
    :param owner: UUID of the node that it is for.
    :param maker: identifier of the Ironic that has the node.
    :param boot_mode: 'bios' or 'uefi'.
    :param path: path of the ISO.
    :returns: UUID of the image.
    :raises: HostCloudError if it is not there as a whole.
    """
    properties = dict(_PROPERTIES)
    if boot_mode == images.UEFI:
        properties['hw_firmware_type'] = images.UEFI
    image_id = service.ask('/images', {
        'name': _tag(owner), 'visibility': 'private',
        'container_format': 'bare', 'disk_format': 'iso',
        'tags': [_TAG, _tag(owner), _tag(maker)], **properties}, 'id', str)
    uploads.upload(service, image_id, path)
    return image_id


def delete(service, owner):
    """Delete all images that were made for a node.

    :param service: the image :class:`service.Service`.
    :param owner: UUID of the node.
    :raises: HostCloudError if one of them may be left.
    """
    for image in list(images.read_all(service, tag=_tag(owner))):
        try:
            service.delete(f'/images/{image["id"]}')
        except errors.NotFound:
            continue


def owners(service, maker):
    """Tell whom an Ironic has made images for that are still there.

    :param service: the image :class:`service.Service`.
    :param maker: its identifier.
    :returns: set of UUIDs of nodes.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    return {str(image.get('name')).removeprefix(_tag(''))
            for image in images.read_all(service, tag=_tag(maker))}


def _tag(name):
    return f'{_TAG}-{name}'
