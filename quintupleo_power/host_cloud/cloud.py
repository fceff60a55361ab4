# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A host cloud as the driver uses it."""

import contextlib
import dataclasses
import threading
import time

from oslo_config import cfg
from oslo_log import log

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import pace
from quintupleo_power.host_cloud import records
from quintupleo_power.host_cloud import view
from quintupleo_power.host_cloud import volumes

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
LOG = log.getLogger(__name__)

# An image's properties hardly ever change; what a rescue does with a stale
# one is an error of Nova, which makes the driver read it again.
IMAGE_MAX_AGE = 300.0

# The first compute API that rescues a server which boots from a volume.
VOLUME_RESCUE_MICROVERSION = (2, 87)

# A cloud that no node has named for so long is dropped: the credentials of
# its nodes were replaced or the nodes are gone.
UNUSED_AGE = 3600.0
# An endpoint that moved is found in a new token's catalog, but a cloud that is
# away for a while must not be asked for a token by each look at each node.
UNREACHABLE_AGE = 60.0

_clouds = {}
_clouds_lock = threading.Lock()


def get(credentials):
    """Give the host cloud of some credentials, one object for all nodes.

    :param credentials: a :class:`connection.Credentials`.
    :returns: a :class:`HostCloud`.
    :raises: CloudMisconfigured if the settings do not name a cloud.
    """
    now = time.monotonic()
    with _clouds_lock:
        if credentials not in _clouds:
            _drop_unused(now)
            _clouds[credentials] = HostCloud(*connection.connect(credentials))
        _clouds[credentials].used_at = now
        return _clouds[credentials]


def _drop_unused(now):
    for credentials, host in list(_clouds.items()):
        if now - host.used_at > UNUSED_AGE:
            del _clouds[credentials]


def failed(credentials, error):
    """Drop what is kept of a cloud if an error may come from there.

    Settings, token, catalog and version documents are read anew then.

    :param credentials: a :class:`connection.Credentials`.
    :param error: the :class:`errors.HostCloudError`.
    """
    with _clouds_lock:
        host = _clouds.get(credentials)
        if host is None:
            return
        if isinstance(error, _OF_WHAT_IS_KEPT) or (
                isinstance(error, errors.CloudUnreachable)
                and time.monotonic() - host.made_at > UNREACHABLE_AGE):
            del _clouds[credentials]


_OF_WHAT_IS_KEPT = (errors.AuthenticationFailed, errors.CloudMisconfigured,
                    errors.MalformedAnswer)


class _Recent:
    """Values by key, each with the time at which it was read."""

    def __init__(self):
        self._values = {}
        self._lock = threading.Lock()

    def put(self, key, value):
        with self._lock:
            self._values[key] = (time.monotonic(), value)

    def get(self, key, max_age):
        with self._lock:
            read_at, value = self._values.get(key, (None, None))
        if read_at is None or time.monotonic() - read_at >= max_age:
            return None
        return value

    def drop(self, key):
        with self._lock:
            self._values.pop(key, None)


class HostCloud:
    """Servers and images of one project of a host cloud."""

    def __init__(self, title, compute, image, volume):
        """Use the services of a cloud.

        :param title: the cloud's name in messages.
        :param compute: the compute :class:`service.Service`.
        :param image: the image :class:`service.Service`.
        :param volume: the block storage :class:`service.Service`.
        """
        self.title = title
        self.made_at = self.used_at = time.monotonic()
        self._compute = compute
        self._image = image
        self._volume = volume
        self._actions = actions.Actions(compute, CONF[GROUP].poll_interval)
        self._view = view.View(compute)
        self._images = _Recent()
        # What never changes while a server has these volumes.
        self._network_first = {}
        self._volume_images = {}

    def server(self, reference, max_age=0.0):
        """Read a server.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that an earlier reading may be old.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return self._complete(self._view.server(reference, max_age))

    def watch(self, reference):
        """Read a server that is only looked at, with others that are.

        :param reference: UUID, or name if it is unique.
        :returns: a :class:`servers.Server`, at most
            ``[quintupleo]server_list_max_age`` old.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return self._complete(self._view.watch(
            reference, CONF[GROUP].server_list_max_age))

    def settle(self, server, deadline):
        """Wait until nothing is under way on a server.

        See :meth:`actions.Actions.settle`.
        """
        return self._complete(self._actions.settle(server, deadline))

    def send(self, server, action, deadline, rescue_image=None):
        """Send one action; what was read of the server counts no more.

        See :meth:`actions.Actions.send`.
        """
        with self._acting(server):
            return self._actions.send(server, action, deadline, rescue_image)

    def follow(self, earlier, action, deadline, rescue_image=None):
        """Send an action as soon as an earlier one is over.

        See :meth:`actions.Actions.follow`.
        """
        with self._acting(earlier.server):
            return self._actions.follow(earlier, action, deadline,
                                        rescue_image)

    def see_end(self, under_way, deadline, place=pace.Place.ALONE):
        """See an action end.

        See :meth:`actions.Actions.see_end`.
        """
        with self._acting(under_way.server):
            # No request may fail any more once the action is done.
            return dataclasses.replace(
                self._actions.see_end(under_way, deadline, place),
                network_first=under_way.server.network_first)

    def run(self, server, action, deadline, rescue_image=None):
        """Send one action and see it end."""
        return self.see_end(
            self.send(server, action, deadline, rescue_image), deadline)

    @contextlib.contextmanager
    def _acting(self, server):
        """Let no reading from before or meanwhile count afterwards."""
        self._view.acted(server.id)
        try:
            yield
        finally:
            self._view.acted(server.id)

    def actions_since(self, server, updated):
        """Read what was done with a server after a reading of it.

        See :func:`records.since`.
        """
        return records.since(self._compute, server, updated)

    def rescue_image(self, reference):
        """Find a rescue image and check that it is one.

        :param reference: UUID, or name if it is unique.
        :returns: the image's UUID.
        :raises: NotFound, NotUnique, UnsuitableImage or another
            HostCloudError.
        """
        image = self._images.get(reference, IMAGE_MAX_AGE)
        if image is None:
            image = images.read(self._image, reference)
            images.check_rescue(image)
            self._images.put(reference, image)
        return image['id']

    def forget_image(self, reference):
        """Read an image anew the next time."""
        self._images.drop(reference)

    def boot_mode(self, server):
        """Tell the boot mode of a server.

        :param server: a :class:`servers.Server`.
        :returns: 'bios' or 'uefi', or None if nothing tells: a server that
            boots from a volume that was not made from an image, or whose
            image is gone, on a compute API before 2.98.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        properties = self._boot_properties(server)
        return None if properties is None else images.firmware(properties)

    def rescue_obstacle(self, server):
        """Tell why a server cannot be rescued, whatever the image is.

        :param server: a :class:`servers.Server`.
        :returns: what stands in the way and what to do, as a clause, or None;
            a network-first server is not to be rescued at all.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        if server.network_first:
            return None
        if server.image_id is None and (
                self._compute.microversion < VOLUME_RESCUE_MICROVERSION):
            return (
                'it boots from a volume, which the compute API of the host '
                'cloud cannot rescue (%d.%d, and it takes 2.87): make it a '
                'network-first server' % self._compute.microversion)
        if server.has_tpm or images.has_tpm(
                self._boot_properties(server) or {}):
            return ('it has a virtual TPM, with which Nova rescues no server: '
                    'make it one without, or a network-first server')
        image = self._image_of(server) or {}
        if server.volume_ids and image.get('disk_format') == 'iso':
            return (
                'it boots from the ISO %s, which nothing says to be the '
                'network-first image: set %s=%s on it if it is' % (
                    image['id'], *images.NETWORK_FIRST))
        return None

    def _boot_properties(self, server):
        """Tell the properties of the image that a server boots from.

        :returns: dict, or None if nothing tells.
        """
        if server.image_properties is not None:
            return server.image_properties
        if server.image_id is None:
            return self._volume_image(server) or None
        return self._image_of(server)

    def _complete(self, server):
        """Add to a server what Nova does not tell of it."""
        if not server.volume_ids:
            # Its disk would be a volume if it were network-first.
            return server
        key = (server.image_id, server.volume_ids)
        found = self._network_first.get(key)
        if found is None:
            properties = (self._volume_image(server)
                          if server.image_id is None
                          else self._image_of(server) or {})
            found = images.is_network_first(properties)
            # An ISO without the property may get it yet.
            if found or properties.get('disk_format') != 'iso':
                self._network_first[key] = found
        return dataclasses.replace(server, network_first=found)

    def _volume_image(self, server):
        """Tell the properties of the image that its volumes come from."""
        if server.volume_ids not in self._volume_images:
            try:
                self._volume_images[server.volume_ids] = (
                    volumes.image_properties(self._volume, server.volume_ids))
            except (errors.CloudMisconfigured, errors.Forbidden) as exc:
                LOG.debug('The volumes of server %(server)s cannot be looked '
                          'at: %(reason)s',
                          {'server': server.id, 'reason': exc})
                return {}
        return self._volume_images[server.volume_ids]

    def shutdown_timeout(self, server):
        """Tell how long Nova waits for a server's guest to shut down.

        Nova goes by the image as it was when the server was made, and does
        not show this property of it; Glance shows the image as it is now.

        :param server: a :class:`servers.Server`.
        :returns: seconds, or None if nothing tells: then it is the
            ``shutdown_timeout`` of the host cloud, 60 by default.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        image = self._image_of(server) or {}
        try:
            return int(image['os_shutdown_timeout'])
        except (KeyError, TypeError, ValueError):
            return None

    def _image_of(self, server):
        """Read the image that a server was made from.

        :returns: the image, or None if it boots from a volume or its image
            is gone.
        """
        if server.image_id is None:
            return None
        image = self._images.get(server.image_id, IMAGE_MAX_AGE)
        if image is None:
            try:
                image = images.read(self._image, server.image_id)
            except errors.NotFound:
                return None
            self._images.put(server.image_id, image)
        return image
