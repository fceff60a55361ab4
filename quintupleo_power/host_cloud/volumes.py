# SPDX-License-Identifier: Apache-2.0
"""Volumes that servers boot from: their images and sizes."""

from quintupleo_power.host_cloud import errors


def image_properties(volumes, volume_ids):
    """Tell the properties of the image that a server's volumes come from.

    Cinder keeps them with the volume, however the image changes later.

    :param volumes: the block storage :class:`service.Service`.
    :param volume_ids: UUIDs of the server's volumes, as Nova lists them.
    :returns: dict of image properties, named as in Glance; empty if no
        volume that can be booted from was made from an image.
    :raises: NotFound if no volume shows it and one is not shown, or another
        HostCloudError if the host cloud cannot be asked.
    """
    not_shown = None
    for volume_id in volume_ids:
        try:
            volume = volumes.get(f'/volumes/{volume_id}', 'volume')
        except errors.NotFound as exc:
            # Nova may attach volumes that the tenant does not see.
            not_shown = exc
            continue
        # "true" and "false" in Cinder's API.
        if str(volume.get('bootable')).lower() == 'true':
            properties = volume.get('volume_image_metadata')
            if properties:
                return properties
    if not_shown:
        raise not_shown
    return {}


def first_disk(volumes, volume_ids, server_id):
    """Tell the size of the disk that comes first among a server's volumes.

    :param volumes: the block storage :class:`service.Service`.
    :param volume_ids: UUIDs of the server's volumes, as Nova lists them.
    :param server_id: the server's UUID.
    :returns: GiB, or None if no volume is a disk that this project sees.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    found = []
    for volume_id in volume_ids:
        try:
            found.append(volumes.get(f'/volumes/{volume_id}', 'volume'))
        except errors.NotFound:
            continue
    try:
        disks = [(_device(volume, server_id), number, volume['size'])
                 for number, volume in enumerate(found)
                 if not _is_cd(volume)]
        return min(disks)[2] if disks else None
    except (AttributeError, KeyError, TypeError) as exc:
        raise errors.ServerError(
            'The host cloud describes a volume in a form that Cinder does not '
            f'have ({type(exc).__name__}: {exc})')


def _is_cd(volume):
    image = volume.get('volume_image_metadata') or {}
    return image.get('disk_format') == 'iso'


def _device(volume, server_id):
    """Make a key that sorts volumes by device name, the unknown ones last."""
    for attachment in volume.get('attachments') or ():
        device = attachment.get('device')
        if attachment.get('server_id') == server_id and device:
            return False, len(device), device
    return True, 0, ''
