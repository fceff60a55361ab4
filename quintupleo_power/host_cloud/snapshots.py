# SPDX-License-Identifier: Apache-2.0
"""Snapshots of servers that are off: an image of the disk, and of volumes.

Nova makes the image, and the volume service a snapshot of each volume beside
the disk. All of one snapshot has its title for a name. Properties alone do not
tell it: Nova hands those of the image that a server was restored from on to
whatever image somebody makes of that server.
"""

import contextlib
import dataclasses
import re
import time

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images

# Properties of the image.
NAME = 'quintupleo_snapshot'
SERVER = 'quintupleo_snapshot_server'
VOLUMES = 'quintupleo_snapshot_volumes'

# Metadata of a volume's snapshot: which of the server's volumes it is of,
# from 0. Its time does not tell, for the volume service keeps whole seconds.
POSITION = 'quintupleo_snapshot_position'

NAMES = re.compile('[A-Za-z0-9][A-Za-z0-9._-]{0,39}')

# The first volume API that brings a volume back to a snapshot.
REVERT_MICROVERSION = '3.40'

_FORM = ('The host cloud describes {} in a form that the volume service does '
         'not have')


def title(name, server_id):
    """Tell what all of a snapshot is named in the host cloud.

    :param name: the snapshot's name.
    :param server_id: UUID of the server.
    :returns: the name there.
    """
    return f'quintupleo-snapshot-{name}-{server_id}'


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A snapshot, as its image describes it.

    :ivar id: UUID of the image.
    :ivar name: its name.
    :ivar server: UUID of the server.
    :ivar created_at: when it was begun, as Glance writes it.
    :ivar is_image_ready: whether the image has its content.
    :ivar volumes: how many volumes it holds beside the disk.
    :ivar properties: the image as a dict.
    """

    id: str
    name: str
    server: str
    created_at: str
    is_image_ready: bool
    volumes: int
    properties: dict = dataclasses.field(repr=False, compare=False)

    @property
    def title(self):
        """What all of it is named in the host cloud."""
        return title(self.name, self.server)

    @classmethod
    def of_image(cls, image):
        """Read an image.

        :param image: the image as a dict.
        :returns: a :class:`Snapshot`, or None if the image is not one.
        """
        name, server = image.get(NAME), image.get(SERVER)
        if not name or image.get('name') != title(name, server):
            return None
        volumes = str(image.get(VOLUMES, ''))
        return cls(image['id'], name, server, image.get('created_at') or '',
                   image.get('status') == 'active',
                   int(volumes) if volumes.isdecimal() else 0, image)


class Snapshots:
    """The snapshots of one project of a host cloud."""

    # Glance has the content when Nova clears the task, or very soon.
    IMAGE_LAG = 10.0
    # Seconds between two looks at a volume.
    PAUSE = 0.5
    # Seconds for what only has to go away.
    REMOVAL = 60.0

    def __init__(self, compute, image, volume):
        """Use the services of a cloud.

        :param compute: the compute :class:`service.Service`.
        :param image: the image :class:`service.Service`.
        :param volume: the block storage :class:`service.Service`.
        """
        self._compute = compute
        self._image = image
        self._volume = volume

    def find(self, server_id, name):
        """Look for a snapshot.

        :param server_id: UUID of the server.
        :param name: the snapshot's name.
        :returns: a :class:`Snapshot`, complete or not, or None.
        :raises: HostCloudError
        """
        try:
            return Snapshot.of_image(images.read(
                self._image, title(name, server_id)))
        except errors.NotFound:
            return None

    def all(self, **properties):
        """Read snapshots, complete or not, the oldest first.

        :param properties: values that their images have.
        :returns: list of :class:`Snapshot`.
        :raises: HostCloudError
        """
        found = map(Snapshot.of_image,
                    images.read_all(self._image, **properties))
        return sorted(filter(None, found),
                      key=lambda each: (each.created_at, each.id))

    def restored_from(self, server):
        """Return the name of the snapshot that a server was restored from.

        :param server: a :class:`servers.Server`.
        :returns: None if its disk was made otherwise.
        :raises: NotFound if its image is gone, or another HostCloudError if
            the host cloud cannot be asked.
        """
        if server.image_id is None:
            return None
        found = Snapshot.of_image(images.read(self._image, server.image_id))
        return found and found.name

    def is_complete(self, snapshot):
        """Tell whether a server can be brought back to a snapshot.

        :param snapshot: the :class:`Snapshot`.
        :returns: True or False.
        :raises: HostCloudError
        """
        return snapshot.is_image_ready and snapshot.volumes == sum(
            each.get('status') == 'available'
            for each in self._of_volumes(snapshot))

    def require(self, server, name):
        """Find a snapshot that a server can be brought back to.

        Looks at all that could stand in the way before anything is changed.

        :param server: a :class:`servers.Server`.
        :param name: the snapshot's name.
        :returns: the :class:`Snapshot`.
        :raises: NotFound if there is no such snapshot, NotPossible if it
            cannot be used, or another HostCloudError.
        """
        snapshot = self.find(server.id, name)
        if snapshot is None:
            names = [each.name for each in self.all(**{SERVER: server.id})]
            raise errors.NotFound(
                f'Server {server.id} ({server.name}) has no snapshot '
                f'"{name}"; it has {", ".join(names) or "none"}')
        if not self.is_complete(snapshot):
            raise errors.NotPossible(
                f'Snapshot "{name}" of server {server.id} ({server.name}) is '
                'not complete, as when it was interrupted: make it again')
        self.check(server, snapshot)
        return snapshot

    def check(self, server, snapshot):
        """Look at what could stand in the way of volumes coming back.

        :param server: a :class:`servers.Server`.
        :param snapshot: a :class:`Snapshot` of it.
        :raises: NotPossible if something does, or another HostCloudError.
        """
        for each in self._of_volumes(snapshot):
            self._require_own(each['volume_id'], server)
            self._require_latest(each)

    def prepare(self, server, name):
        """Check that a server can have a snapshot of that name.

        What an interrupted one has left is removed.

        :param server: a :class:`servers.Server`.
        :param name: the snapshot's name.
        :raises: NotPossible if it cannot, or another HostCloudError.
        """
        reason = self._obstacle(server)
        if reason:
            raise errors.NotPossible(
                f'Server {server.id} ({server.name}) can have no snapshot: '
                f'{reason}')
        there = self.find(server.id, name)
        if there and self.is_complete(there):
            raise errors.NotPossible(
                f'Server {server.id} ({server.name}) has a snapshot "{name}" '
                f'of {there.created_at} already: delete it first, or use '
                'another name')
        if there:
            self.delete(there)

    def _obstacle(self, server):
        """Tell why a server cannot be brought back to a snapshot.

        :returns: a clause, or None.
        """
        if server.image_id is None:
            return ('it boots from a volume, which the host cloud brings '
                    'back to no snapshot while a server has it')
        if not server.volume_ids:
            return None
        try:
            image = images.read(self._image, server.image_id)
        except errors.NotFound:
            return None
        if images.is_network_first(image):
            return ('its disk is a volume beside the CD that it boots from, '
                    'which would lose its place in the order of boot devices '
                    'when it is brought back')
        return None

    def body(self, server, name, **properties):
        """Make what Nova is asked for a snapshot's image with.

        :param server: a :class:`servers.Server`.
        :param name: the snapshot's name.
        :param properties: further properties of the image.
        :returns: the members of ``createImage``.
        """
        return {'name': title(name, server.id), 'metadata': {
            **properties, NAME: name, SERVER: server.id,
            VOLUMES: str(len(server.volume_ids))}}

    def finish(self, server, name, deadline):
        """Complete a snapshot whose image Nova has just made.

        The server has to be off still.

        :param server: a :class:`servers.Server`.
        :param name: the snapshot's name.
        :param deadline: a ``time.monotonic`` value.
        :returns: the :class:`Snapshot`.
        :raises: ActionFailed or another HostCloudError; then nothing is left
            of it if the host cloud permits.
        """
        try:
            snapshot = self._wait_image(server, name)
            for position, volume_id in enumerate(server.volume_ids):
                self._snapshot_volume(snapshot, volume_id, position, deadline)
            return snapshot
        except errors.HostCloudError:
            with contextlib.suppress(errors.HostCloudError):
                left = self.find(server.id, name)
                if left:
                    self.delete(left)
            raise

    def _wait_image(self, server, name):
        deadline = time.monotonic() + self.IMAGE_LAG
        while True:
            snapshot = self.find(server.id, name)
            if snapshot and snapshot.is_image_ready:
                return snapshot
            if time.monotonic() >= deadline:
                raise errors.ActionFailed(
                    f'Nova made no image of server {server.id} '
                    f'({server.name}), whose disk may be too large for the '
                    'image service: see "openstack server event list '
                    f'{server.id}"')
            time.sleep(self.PAUSE)

    def _snapshot_volume(self, snapshot, volume_id, position, deadline):
        # A volume that a server has is "in use", which takes force before
        # volume API 3.66.
        made = self._volume.ask('/snapshots', {'snapshot': {
            'volume_id': volume_id, 'name': snapshot.title, 'force': True,
            'metadata': {POSITION: str(position)}}}, 'snapshot')
        self._wait(f'/snapshots/{made.get("id")}', 'snapshot', 'available',
                   deadline)

    def restore_volumes(self, snapshot, deadline):
        """Bring the volumes of a server back to a snapshot.

        The server has to be off. What an interrupted attempt has taken off
        the server is given back to it.

        :param snapshot: the :class:`Snapshot`, as :meth:`require` gave it.
        :param deadline: a ``time.monotonic`` value.
        :raises: ActionFailed, ActionTimeout or another HostCloudError.
        """
        found = self._of_volumes(snapshot)
        path = f'/servers/{snapshot.server}/os-volume_attachments'
        volumes = [each['volume_id'] for each in found]
        # All of them before the first comes back, for the order of devices.
        for volume_id in volumes:
            with contextlib.suppress(errors.NotFound):
                self._compute.delete(f'{path}/{volume_id}')
        for volume_id in volumes:
            self._wait_volume(volume_id, 'available', deadline)
        for each in found:
            self._volume.post(f'/volumes/{each["volume_id"]}/action', {
                'revert': {'snapshot_id': each['id']}},
                microversion=REVERT_MICROVERSION)
            self._wait_volume(each['volume_id'], 'available', deadline)
        for volume_id in volumes:
            self._compute.post(path, {
                'volumeAttachment': {'volumeId': volume_id}})
            self._wait_volume(volume_id, 'in-use', deadline)

    def delete(self, snapshot):
        """Remove a snapshot, complete or not.

        :param snapshot: the :class:`Snapshot`.
        :raises: HostCloudError if something of it stays.
        """
        deadline = time.monotonic() + self.REMOVAL
        for each in self._of_volumes(snapshot):
            path = f'/snapshots/{each["id"]}'
            with contextlib.suppress(errors.NotFound):
                self._volume.delete(path)
                self._wait(path, 'snapshot', None, deadline)
        with contextlib.suppress(errors.NotFound):
            self._image.delete(f'/images/{snapshot.id}')

    def _of_volumes(self, snapshot):
        """Read what the volume service has of a snapshot.

        :returns: list of dicts, in the order of the server's volumes.
        """
        if not snapshot.volumes:
            return []
        found = [each for each in self._volume_snapshots(name=snapshot.title)
                 if each.get('name') == snapshot.title]
        return sorted(found, key=_position)

    def _volume_snapshots(self, **filters):
        found = self._volume.get('/snapshots/detail', 'snapshots', list,
                                 **filters)
        for each in found:
            if not all(isinstance(each.get(key), str) for key in (
                    'id', 'volume_id', 'created_at')):
                raise errors.ServerError(_FORM.format('a snapshot'))
        return sorted(found, key=lambda each: (each['created_at'],
                                               each['id']))

    def _require_own(self, volume_id, server):
        """Refuse a volume that another server has by now."""
        volume = self._volume.get(f'/volumes/{volume_id}', 'volume')
        owners = {each.get('server_id')
                  for each in volume.get('attachments') or ()} - {server.id}
        if owners:
            raise errors.NotPossible(
                f'Volume {volume_id} was one of server {server.id} '
                f'({server.name}) and server {owners.pop()} has it now: '
                'detach it there first')

    def _require_latest(self, wanted):
        """Refuse what the volume service would refuse half-way."""
        later = [each for each in self._volume_snapshots(
            volume_id=wanted['volume_id'])
            if each['created_at'] > wanted['created_at']]
        if later:
            names = ', '.join(each.get('name') or each['id']
                              for each in later)
            raise errors.NotPossible(
                f'Volume {wanted["volume_id"]} has the later snapshots '
                f'{names}, and the volume service brings a volume back to '
                'its latest one only: delete these first')

    def _wait_volume(self, volume_id, status, deadline):
        self._wait(f'/volumes/{volume_id}', 'volume', status, deadline)

    def _wait(self, path, key, status, deadline):
        """Wait until a volume or a snapshot of one is in a state.

        :param status: the state, None to wait until it is gone.
        """
        while True:
            found = self._volume.get(path, key).get('status')
            if status is not None and found == status:
                return
            if str(found).startswith('error'):
                raise errors.ActionFailed(
                    f'The volume service has {path[1:]} in state {found}: '
                    "the host cloud's operator knows more")
            if time.monotonic() >= deadline:
                raise errors.ActionTimeout(
                    f'The volume service has {path[1:]} in state {found} '
                    'still')
            time.sleep(self.PAUSE)


def _position(volume_snapshot):
    """Tell which of its server's volumes a snapshot is of.

    :returns: the number; 0 if it does not say, as older ones do not: then the
        time is all there is.
    """
    metadata = volume_snapshot.get('metadata')
    position = metadata.get(POSITION) if isinstance(metadata, dict) else None
    return int(position) if str(position).isdecimal() else 0
