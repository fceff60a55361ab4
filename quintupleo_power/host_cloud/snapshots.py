# SPDX-License-Identifier: Apache-2.0
"""Snapshots of servers that are off: an image of the disk, and of volumes.

All parts have the title for a name. Properties alone do not identify them:
Nova copies those of an image to the next image of a server restored from it.
"""

import contextlib
import dataclasses
import re
import time

import tenacity

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json
from quintupleo_power.host_cloud import volumes

# Properties of the image.
NAME = 'quintupleo_snapshot'
SERVER = 'quintupleo_snapshot_server'
VOLUMES = 'quintupleo_snapshot_volumes'

# Metadata: position of the volume, from 0: created_at has whole seconds.
POSITION = 'quintupleo_snapshot_position'

NAMES = re.compile('[A-Za-z0-9][A-Za-z0-9._-]{0,39}')

# The first volume API that brings a volume back to a snapshot.
REVERT_MICROVERSION = '3.40'


def title(name: str, server_id: str) -> str:
    """Return what all of a snapshot is named in the host cloud."""
    return f'quintupleo-snapshot-{name}-{server_id}'


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A snapshot, as its image describes it.

    :ivar id: UUID of the image; ``server`` is that of the server.
    :ivar title: what all of it is named in the host cloud.
    :ivar created_at: when it was begun, as Glance writes it.
    :ivar volumes: how many volumes it holds beside the disk.
    """

    id: str
    title: str
    name: str
    server: str
    created_at: str
    is_image_ready: bool
    volumes: int
    properties: dict = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of_image(cls, image: dict) -> 'Snapshot | None':
        """Return the snapshot that an image is, or None."""
        name, server = image.get(NAME), image.get(SERVER)
        if not name or not server or image.get('name') != title(name, server):
            return None
        volumes = str(image.get(VOLUMES, ''))
        return cls(image['id'], image['name'], name, server,
                   image.get('created_at') or '',
                   image.get('status') == 'active',
                   int(volumes) if volumes.isdecimal() else 0, image)


class Snapshots:
    """The snapshots of a project; a deadline is a ``time.monotonic`` value."""

    # Glance has the content when Nova clears the task, or very soon.
    IMAGE_LAG = 10.0
    # Seconds between two readings of a volume.
    PAUSE = 0.5
    # Seconds for what only has to go away.
    REMOVAL = 60.0

    def __init__(self, compute: service.Service, image: service.Service,
                 volume: service.Service):
        """Use the services of a cloud."""
        self._compute = compute
        self._image = image
        self._volume = volume

    def find(self, server_id: str, name: str) -> Snapshot | None:
        """Return a snapshot, complete or not."""
        try:
            return Snapshot.of_image(images.read(
                self._image, title(name, server_id)))
        except errors.NotFound:
            return None

    def all(self, **properties: str) -> list[Snapshot]:
        """Return snapshots whose images have some properties, oldest first."""
        found = map(Snapshot.of_image,
                    images.read_all(self._image, **properties))
        return sorted(filter(None, found),
                      key=lambda each: (each.created_at, each.id))

    def is_complete(self, snapshot: Snapshot) -> bool:
        """Return whether a server can be brought back to a snapshot."""
        return snapshot.is_image_ready and snapshot.volumes == sum(
            each.get('status') == 'available'
            for each in self._of_volumes(snapshot))

    def require(self, server: servers.Server, name: str) -> Snapshot:
        """Return a snapshot that a server can be brought back to.

        Whatever could stand in the way is checked before anything is changed.

        :raises: NotFound if it does not exist, NotPossible if it
            cannot be used.
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

    def check(self, server: servers.Server, snapshot: Snapshot) -> None:
        """Raise NotPossible if its volumes cannot be brought back."""
        for each in self._of_volumes(snapshot):
            self._require_own(each['volume_id'], server)
            self._require_latest(each)

    def prepare(self, server: servers.Server, name: str) -> None:
        """Raise NotPossible if a server cannot have a snapshot of that name.

        What an interrupted one has left is removed.
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
        """Return why a server cannot be brought back to a snapshot."""
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

    def body(self, server: servers.Server, name: str, **properties: str
             ) -> dict:
        """Return ``createImage`` of a snapshot, with further properties."""
        return {'name': title(name, server.id), 'metadata': {
            **properties, NAME: name, SERVER: server.id,
            VOLUMES: str(len(server.volume_ids))}}

    def finish(self, server: servers.Server, name: str,
               deadline: float) -> Snapshot:
        """Complete a snapshot whose image Nova has just made, and return it.

        The server has to be off still.

        :raises: ActionFailed or another HostCloudError; then nothing is left
            of it if the host cloud permits.
        """
        try:
            snapshot = self._wait_image(server, name)
            for position, volume_id in enumerate(
                    volumes.ordered_ids(self._volume, server)):
                self._snapshot_volume(snapshot, volume_id, position, deadline)
            return snapshot
        except errors.HostCloudError:
            with contextlib.suppress(errors.HostCloudError):
                left = self.find(server.id, name)
                if left:
                    self.delete(left)
            raise

    def _wait_image(self, server, name):
        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_result(
                    lambda found: not (found and found.is_image_ready)),
                wait=tenacity.wait_fixed(self.PAUSE),
                stop=tenacity.stop_after_delay(self.IMAGE_LAG))(
                    self.find, server.id, name)
        except tenacity.RetryError:
            raise errors.ActionFailed(
                f'Nova made no image of server {server.id} ({server.name}), '
                'whose disk may be too large for the image service: see '
                f'"openstack server event list {server.id}"')

    def _snapshot_volume(self, snapshot, volume_id, position, deadline):
        # A volume that a server has is "in use", which takes force before
        # volume API 3.66.
        made = self._volume.ask('/snapshots', {'snapshot': {
            'volume_id': volume_id, 'name': snapshot.title, 'force': True,
            'metadata': {POSITION: str(position)}}}, 'snapshot')
        self._wait(f'/snapshots/{made.get("id")}', 'snapshot', 'available',
                   deadline)

    def restore_volumes(self, snapshot: Snapshot, deadline: float) -> None:
        """Bring the volumes of a server back to a snapshot.

        The server has to be off. What an interrupted attempt has taken off
        the server is given back to it.

        :raises: ActionFailed, ActionTimeout or another HostCloudError.
        """
        found = self._of_volumes(snapshot)
        path = f'/servers/{snapshot.server}/os-volume_attachments'
        volume_ids = [each['volume_id'] for each in found]
        # All of them before the first comes back, for the order of devices.
        for volume_id in volume_ids:
            self._compute.delete(f'{path}/{volume_id}')
        for volume_id in volume_ids:
            self._wait_volume(volume_id, 'available', deadline)
        for each in found:
            self._volume.post(f'/volumes/{each["volume_id"]}/action', {
                'revert': {'snapshot_id': each['id']}},
                microversion=REVERT_MICROVERSION)
            self._wait_volume(each['volume_id'], 'available', deadline)
        for volume_id in volume_ids:
            self._compute.post(path, {
                'volumeAttachment': {'volumeId': volume_id}})
            self._wait_volume(volume_id, 'in-use', deadline)

    def delete(self, snapshot: Snapshot) -> None:
        """Delete a snapshot, complete or not; raise if something stays."""
        deadline = time.monotonic() + self.REMOVAL
        for each in self._of_volumes(snapshot):
            path = f'/snapshots/{each["id"]}'
            self._volume.delete(path)
            with contextlib.suppress(errors.NotFound):
                self._wait(path, 'snapshot', None, deadline)
        self._image.delete(f'/images/{snapshot.id}')

    def _of_volumes(self, snapshot):
        """Return the snapshots of volumes, in the order of the volumes."""
        if not snapshot.volumes:
            return []
        found = [each for each in self._volume_snapshots(name=snapshot.title)
                 if each.get('name') == snapshot.title]
        return sorted(found, key=_position)

    def _volume_snapshots(self, **filters):
        found = self._volume.get('/snapshots/detail', 'snapshots', list,
                                 **filters)
        for each in found:
            body = typed_json.Body(each, 'a snapshot', 'the volume service')
            for key in 'id', 'volume_id', 'created_at':
                body.get(key, str)
            body.find('metadata', dict)
        return sorted(found, key=lambda each: (each['created_at'],
                                               each['id']))

    def _require_own(self, volume_id, server):
        """Refuse a volume that another server has by now."""
        volume = typed_json.Body(
            self._volume.get(f'/volumes/{volume_id}', 'volume'),
            'a volume', 'the volume service')
        owners = {each.find('server_id', str)
                  for each in volume.parts('attachments')} - {server.id}
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

    def _wait(self, path: str, key: str, status: str | None,
              deadline: float) -> None:
        """Wait until a volume or its snapshot is in a state; None for gone."""
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


def _position(volume_snapshot: dict) -> int:
    """Return the position of its volume; 0 for old ones, sorted by time."""
    position = str((volume_snapshot.get('metadata') or {}).get(POSITION))
    return int(position) if position.isdecimal() else 0
