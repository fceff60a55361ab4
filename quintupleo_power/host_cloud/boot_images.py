# SPDX-License-Identifier: Apache-2.0
"""ISOs that servers are rescued with, each for one node.

An image is found again by its tag, even if the conductor that made it died.
"""

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import uploads

_TAG = 'quintupleo-virtual-media'
# A rescue adds it to the server's own disks as a CD-ROM.
_PROPERTIES = {'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata'}


class BootImages:
    """The ISOs of one project."""

    def __init__(self, image: service.Service):
        """Use the image service of a cloud."""
        self._image = image

    def create(self, node_id: str, ironic_id: str, boot_mode: str,
               path: str) -> str:
        """Upload an ISO and return the UUID of its image.

        :param node_id: UUID of the node that it is for.
        :param ironic_id: identifier of the Ironic that has the node.
        :param boot_mode: 'bios' or 'uefi'.
        :param path: path of the ISO.
        :raises: HostCloudError if it is not there as a whole.
        """
        properties = dict(_PROPERTIES)
        if boot_mode == images.UEFI:
            properties['hw_firmware_type'] = images.UEFI
        image_id = self._image.ask('/images', {
            'name': _tag(node_id), 'visibility': 'private',
            'container_format': 'bare', 'disk_format': 'iso',
            'tags': [_TAG, _tag(node_id), _tag(ironic_id)],
            **properties}, 'id', str)
        uploads.upload(self._image, image_id, path)
        return image_id

    def delete(self, node_id: str) -> None:
        """Delete all ISOs that were uploaded for a node.

        :raises: HostCloudError if one of them may be left.
        """
        for image in list(images.read_all(self._image, tag=_tag(node_id))):
            try:
                self._image.delete(f'/images/{image["id"]}')
            except errors.NotFound:
                continue

    def nodes(self, ironic_id: str) -> set[str]:
        """Return the UUIDs of the nodes that an Ironic has ISOs for.

        :param ironic_id: identifier of the Ironic.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        return {str(image.get('name')).removeprefix(_tag(''))
                for image in images.read_all(self._image,
                                             tag=_tag(ironic_id))}


def _tag(name):
    return f'{_TAG}-{name}'
