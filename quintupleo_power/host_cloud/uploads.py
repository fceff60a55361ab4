# SPDX-License-Identifier: Apache-2.0
"""Files that become the content of images.

Glance's API is that of its reference, "Images". An image is active only when
its content came to an end, so what broke off looks usable to nobody.
"""

import os

from quintupleo_power.host_cloud import errors


def upload(service, image_id, path):
    """Send the content of an image, as a stream.

    :param service: the image :class:`service.Service`.
    :param image_id: UUID of the image, which has none yet.
    :param path: path of the file.
    :raises: HostCloudError if it is not there as a whole.
    """
    with open(path, 'rb') as source:
        service.upload(f'/images/{image_id}/file', source)
    size = os.path.getsize(path)
    # keystoneauth sends a request again when a token has run out, and then
    # nothing is left of the file.
    image = service.get(f'/images/{image_id}')
    if image.get('status') != 'active' or image.get('size') != size:
        raise errors.ServerError(
            f'Image {image_id} is {image.get("status")} with '
            f'{image.get("size")} bytes after {size} were uploaded')
