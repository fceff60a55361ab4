# SPDX-License-Identifier: Apache-2.0
"""Images that are uploaded for nodes: boot ISOs, and what is deployed.

Glance's API is that of its reference, "Images". An image is active only when
its content came to an end, so what broke off looks usable to nobody.
"""

from collections import abc
import contextlib
import datetime
import hashlib
import json
import os
import threading
import time

from oslo_log import log
from oslo_utils import timeutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import service

LOG = log.getLogger(__name__)

_BOOT_TAG = 'quintupleo-virtual-media'
# A rescue adds it to the server's own disks as a CD-ROM.
_BOOT_PROPERTIES = {'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'sata'}

_INSTANCE_TAG = 'quintupleo-instance'
# What it was made of, for people, and the size by which it is known as whole.
_CHECKSUM = 'quintupleo_checksum'
_SIZE = 'quintupleo_size'
# A server that is rebuilt from it gets a config drive, whether it was made
# with one or not (required_by in nova/virt/configdrive.py).
_CONFIG_DRIVE = {'img_config_drive': 'mandatory'}


class BootImages:
    """ISOs that servers are rescued with, each for one node.

    An image is found again by its tag, even if the conductor that made it
    died. Each method raises a HostCloudError if its work may be undone.
    """

    def __init__(self, image: service.Service):
        """Use the image service of a cloud."""
        self._image = image

    def create(self, node_id: str, ironic_id: str, boot_mode: str,
               path: str) -> str:
        """Upload a node's ISO for a boot mode; return the UUID of its image.

        :param ironic_id: identifier of the Ironic that has the node.
        """
        properties = dict(_BOOT_PROPERTIES)
        if boot_mode == images.UEFI:
            properties['hw_firmware_type'] = images.UEFI
        return _create(
            self._image, path, name=_boot_tag(node_id), disk_format='iso',
            tags=[_BOOT_TAG, _boot_tag(node_id), _boot_tag(ironic_id)],
            **properties)['id']

    def is_active(self, image_id: str) -> bool:
        """Return whether an ISO is there, as a whole."""
        try:
            return self._image.get(
                f'/images/{image_id}').get('status') == 'active'
        except errors.NotFound:
            return False

    def delete(self, node_id: str) -> None:
        """Delete all ISOs that were uploaded for a node."""
        for image in list(images.read_all(self._image,
                                          tag=_boot_tag(node_id))):
            self._image.delete(f'/images/{image["id"]}')

    def nodes(self, ironic_id: str) -> set[str]:
        """Return the UUIDs of the nodes that an Ironic has ISOs for."""
        return {str(image.get('name')).removeprefix(_boot_tag(''))
                for image in images.read_all(self._image,
                                             tag=_boot_tag(ironic_id))}


def _boot_tag(name):
    return f'{_BOOT_TAG}-{name}'


class InstanceImages:
    """Images of the systems that servers are rebuilt from.

    An image is found by its name, which is made of the checksum of its
    content and of the properties of the machine: two machines of different
    firmware need two. Only private images of the project count, which nobody
    else can put there.

    A conductor uploads each once. Several that begin at once upload it each:
    the images are alike, and what no server is made from is removed later.
    """

    # What has no content for so long belongs to nobody any more.
    LEFT = datetime.timedelta(days=1)

    def __init__(self, compute: service.Service, image: service.Service):
        """Use the services of a cloud."""
        self._compute = compute
        self._image = image
        self._lock = threading.Lock()
        # Set when the upload of an image of a name has ended.
        self._uploads: dict[str, threading.Event] = {}

    def provide(self, checksum: str, machine: dict,
                fetch: abc.Callable[[], tuple[str, str]], deadline: float,
                kept: int) -> str:
        """Return the UUID of some content's image, made if it is missing.

        :param checksum: with its algorithm.
        :param fetch: returns the path of the content and its format in
            Glance's words; it may take long.
        :param deadline: a ``time.monotonic`` value.
        :param kept: how many images that no server is made from may be left
            when one has been made.
        :raises: ActionTimeout if the upload for another node does not end, or
            another HostCloudError.
        """
        properties = {**machine, **_CONFIG_DRIVE, _CHECKSUM: checksum}
        digest = hashlib.sha256(
            json.dumps(properties, sort_keys=True).encode()).hexdigest()
        name = f'{_INSTANCE_TAG}-{digest}'
        while True:
            own = threading.Event()
            with self._lock:
                ended = self._uploads.setdefault(name, own)
            if ended is own:
                break
            if not ended.wait(deadline - time.monotonic()):
                raise errors.ActionTimeout(
                    f'Image {name} is being uploaded for another node, and '
                    'that has not ended within [quintupleo]image_timeout: '
                    'set that to more seconds')
        try:
            found = self._find(name)
            if not found:
                found = self._make(name, properties, fetch)
                self._remove_unused(found, kept)
            return found['id']
        finally:
            with self._lock:
                del self._uploads[name]
            own.set()

    def _find(self, name):
        """Return the oldest image of a name that is whole, or None."""
        return next((each for each in sorted(self._own(name=name), key=_age)
                     if each.get('name') == name and _is_whole(each)), None)

    def _own(self, **filters):
        """Read private images of the project; administrators see others'."""
        return images.read_all(self._image, visibility='private',
                               owner=self._image.project_id, **filters)

    def _make(self, name, properties, fetch):
        path, disk_format = fetch()
        return _create(
            self._image, path, name=name, tags=[_INSTANCE_TAG],
            disk_format=disk_format, **properties,
            **{_SIZE: str(os.path.getsize(path))})

    def _remove_unused(self, newest, kept):
        """Remove what no server is made from, but for the newest ones.

        Of a server's image Nova itself reads the properties again when it
        rescues the server, and releases before 2024.1 fail without it.
        """
        try:
            unused = 0
            for image in sorted(self._own(tag=_INSTANCE_TAG), key=_age,
                                reverse=True):
                if not _is_whole(image):
                    newest_at, made_at = (timeutils.parse_isotime(
                        each['created_at']) for each in (newest, image))
                    if newest_at - made_at > self.LEFT:
                        self._remove(image)
                # Another conductor may be about to use the same content's.
                elif image.get('name') != newest.get('name') and (
                        not self._compute.get('/servers', 'servers', list,
                                              image=image['id'], limit=1)):
                    unused += 1
                    if unused > kept:
                        self._remove(image)
        except (errors.HostCloudError, *errors.UNEXPECTED_FORM) as exc:
            LOG.warning('Which images of systems no server is made from '
                        'could not be found out, and is tried after the next '
                        'upload: %s', exc)

    def _remove(self, image):
        try:
            self._image.delete(f'/images/{image["id"]}')
            LOG.info('Removed image %(image)s (%(name)s), which no server is '
                     'made from',
                     {'image': image['id'], 'name': image.get('name')})
        except errors.HostCloudError as exc:
            # Where disks are clones of images, Glance keeps those in use.
            LOG.warning('Image %(image)s (%(name)s) could not be removed, '
                        'which is tried again after the next upload: '
                        '%(reason)s',
                        {'image': image['id'], 'name': image.get('name'),
                         'reason': exc})


def _is_whole(image):
    return (image.get('status') == 'active'
            and str(image.get('size')) == image.get(_SIZE))


def _age(image):
    return image.get('created_at') or '', image['id']


def _create(glance, path, **values):
    """Make a private image of a file, and return it.

    :raises: HostCloudError if it is not there as a whole; then nothing is
        left of it if the host cloud permits.
    """
    size = os.path.getsize(path)
    image_id = glance.ask('/images', {
        'visibility': 'private', 'container_format': 'bare', **values},
        'id', str)
    LOG.info('Uploading %(size)s bytes as image %(image)s (%(name)s)',
             {'size': size, 'image': image_id, 'name': values['name']})
    try:
        with open(path, 'rb') as source:
            glance.upload(f'/images/{image_id}/file', source)
        # keystoneauth sends a request again when a token has run out, and
        # then nothing is left of the file.
        image = glance.get(f'/images/{image_id}')
        if image.get('status') != 'active' or image.get('size') != size:
            raise errors.ServerError(
                f'Image {image_id} is {image.get("status")} with '
                f'{image.get("size")} bytes after {size} were uploaded')
        return image
    except BaseException:
        # It may have content, and not the right one.
        with contextlib.suppress(errors.HostCloudError):
            glance.delete(f'/images/{image_id}')
        raise
