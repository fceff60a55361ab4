# SPDX-License-Identifier: Apache-2.0
"""A host cloud as the driver uses it."""

import dataclasses
import threading
import time

from oslo_config import cfg
from oslo_log import log

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import boot_images
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import flavors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import instance_images
from quintupleo_power.host_cloud import interfaces
from quintupleo_power.host_cloud import keys
from quintupleo_power.host_cloud import ports
from quintupleo_power.host_cloud import records
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import snapshots
from quintupleo_power.host_cloud import volumes
from quintupleo_power import transitions

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
LOG = log.getLogger(__name__)

# An image's properties hardly ever change; what a rescue does with a stale
# one is an error of Nova, which makes the driver read it again.
IMAGE_MAX_AGE = 300.0
# Nor do those that Cinder keeps with a volume, and what follows from them.
VOLUME_MAX_AGE = 86400.0

# The first compute API that rescues a server which boots from a volume, and
# the first whose rebuild writes such a volume anew.
VOLUME_RESCUE_MICROVERSION = (2, 87)
VOLUME_REBUILD_MICROVERSION = (2, 93)

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


def in_use():
    """Tell which clouds nodes have named lately, which this does not.

    :returns: list of (:class:`connection.Credentials`, :class:`HostCloud`).
    """
    with _clouds_lock:
        return list(_clouds.items())


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


# A service that the cloud lacks, or that this project may not use.
_NOT_SHOWN = (errors.CloudMisconfigured, errors.Forbidden)

_LET_THE_AGENT = ("let Ironic's agent clean the node "
                  '(deploy.erase_devices_metadata)')


class HostCloud:
    """Servers and images of one project of a host cloud.

    :ivar snapshots: the :class:`snapshots.Snapshots` of its servers.
    :ivar instance_images: the :class:`instance_images.InstanceImages` that
        its servers are rebuilt from.
    """

    def __init__(self, title, compute, image, volume, network):
        """Use the services of a cloud.

        :param title: the cloud's name in messages.
        :param compute: the compute :class:`service.Service`.
        :param image: the image :class:`service.Service`.
        :param volume: the block storage :class:`service.Service`.
        :param network: the network :class:`service.Service`.
        """
        self.title = title
        self.made_at = self.used_at = self._catalog_at = time.monotonic()
        self._compute = compute
        self._image = image
        self._volume = volume
        self._network = network
        self._servers = server_cache.ServerCache(compute)
        self._actions = actions.Actions(compute, self._servers,
                                        CONF[GROUP].poll_interval)
        self.snapshots = snapshots.Snapshots(compute, image, volume)
        self.instance_images = instance_images.InstanceImages(compute, image)
        self._images = cache.Cache(IMAGE_MAX_AGE)
        # Images that are gone and volumes that are not shown: power sync does
        # not ask for them at each pass, but every request does.
        self._not_shown = cache.Cache(IMAGE_MAX_AGE)
        # By the volumes of a server, and its image if it has one.
        self._network_first = cache.Cache(VOLUME_MAX_AGE)
        self._volume_images = cache.Cache(VOLUME_MAX_AGE)

    def server(self, reference):
        """Return a server as a reading shows it that begins now.

        :param reference: UUID, or name if it is unique.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return self._complete(self._servers.get(reference))

    def cached_server(self, reference):
        """Return a server as power sync and the like may see it.

        :param reference: UUID, or name if it is unique.
        :returns: a :class:`servers.Server`, at most
            ``[quintupleo]server_list_max_age`` old.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return self._complete(self._servers.get_cached(
            reference, CONF[GROUP].server_list_max_age), watching=True)

    def settle(self, server, deadline):
        """Wait until nothing is under way on a server.

        See :meth:`actions.Actions.settle`.

        :param server: a :class:`servers.Server`.
        :param deadline: a ``time.monotonic`` value.
        :returns: the :class:`servers.Server` without a task.
        :raises: ActionTimeout, or another HostCloudError.
        """
        return self._complete(self._actions.settle(server, deadline))

    def send(self, server, action, deadline, body=None):
        """Send one action.

        See :meth:`actions.Actions.send`.
        """
        return self._actions.send(server, action, deadline, body)

    def wait(self, under_way, deadline):
        """Wait for the end of an action.

        See :meth:`actions.Actions.wait`.
        """
        # No request may fail any more once the action is done.
        return dataclasses.replace(
            self._actions.wait(under_way, deadline),
            network_first=under_way.server.network_first)

    def run(self, server, action, deadline, body=None):
        """Send one action and wait for its end.

        :returns: the :class:`servers.Server` after the action.
        :raises: what :meth:`send` and :meth:`wait` raise.
        """
        return self.wait(self.send(server, action, deadline, body), deadline)

    def inject_nmi(self, server):
        """Send a server's guest a non-maskable interrupt.

        See :meth:`actions.Actions.inject_nmi`.

        :param server: a :class:`servers.Server`.
        :raises: Conflict if the server is in no state for it, ActionFailed if
            Nova took it and did not do it, OutcomeUnknown if it is not known
            whether it was sent, or another HostCloudError.
        """
        self._actions.inject_nmi(server)

    def actions_since(self, server, updated):
        """Read what was done with a server after a reading of it.

        See :func:`records.since`.

        :param server: the :class:`servers.Server` as it is now.
        :param updated: ``updated`` of the server in that reading.
        :returns: rows of ``os-instance-actions``, oldest first.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        return records.since(self._compute, server, updated)

    def actions_after(self, server, request_id, updated):
        """Read what was done with a server after an action.

        See :func:`records.after`.

        :param server: the :class:`servers.Server`.
        :param request_id: identifier of the request for that action, None if
            it is not known.
        :param updated: ``updated`` of the server when that action had ended.
        :returns: rows of ``os-instance-actions``, oldest first.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        return records.after(self._compute, server, request_id, updated)

    def console_url(self, server, console_type):
        """Ask for the URL of a server's console.

        See :func:`consoles.url`.

        :param server: the :class:`servers.Server`.
        :param console_type: a key of :data:`consoles.PROTOCOLS`.
        :returns: the URL.
        :raises: NotOffered if the host cloud has no console of that type for
            the server, NotFound if it has none now, or another
            HostCloudError.
        """
        return consoles.url(self._compute, server, console_type)

    def console_log(self, server, lines=None):
        """Read what a server's guest has written to its console.

        See :func:`consoles.log`.

        :param server: the :class:`servers.Server`.
        :param lines: how many lines of its end; None for all.
        :returns: the text.
        :raises: NotFound if there is no console log, or another
            HostCloudError.
        """
        return consoles.log(self._compute, server, lines)

    def rescue_image(self, reference):
        """Find a rescue image and check that it is one.

        :param reference: UUID, or name if it is unique.
        :returns: the image's UUID.
        :raises: NotFound, NotUnique, UnsuitableImage or another
            HostCloudError.
        """
        image = self._images.get(reference)
        if image is None:
            image = images.read(self._image, reference)
            images.check_rescue(image)
            self._images.put(reference, image)
        return image['id']

    def create_boot_image(self, owner, maker, boot_mode, path):
        """Upload an ISO that a node's server is to be rescued with.

        See :func:`boot_images.create`.

        :param owner: UUID of the node.
        :param maker: identifier of the Ironic that has the node.
        :param boot_mode: 'bios' or 'uefi'.
        :param path: path of the ISO.
        :returns: UUID of the image.
        :raises: HostCloudError if it is not there as a whole.
        """
        return boot_images.create(self._image, owner, maker, boot_mode, path)

    def boot_image_owners(self, maker):
        """Tell whom an Ironic has uploaded ISOs for that are still there.

        See :func:`boot_images.owners`.

        :param maker: identifier of the Ironic.
        :returns: set of UUIDs of nodes.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        return boot_images.owners(self._image, maker)

    def delete_boot_images(self, owner):
        """Delete all ISOs that were uploaded for a node.

        See :func:`boot_images.delete`.

        :param owner: UUID of the node.
        :raises: HostCloudError if one of them may be left.
        """
        boot_images.delete(self._image, owner)

    @property
    def compute_version(self):
        """The version of the compute API in use, as (major, minor).

        :raises: MalformedAnswer if Nova does not tell its versions, or
            another HostCloudError.
        """
        return self._compute.microversion

    def lent_key(self, server, public_key):
        """Have a key pair for a rebuild.

        See :func:`keys.lent`.

        :param server: the :class:`servers.Server` that is rebuilt.
        :param public_key: the public key as OpenSSH writes it; None for none.
        :returns: the key pair's name or None, as a context.
        :raises: BadRequest if it is no such key, Forbidden if the user has
            too many, or another HostCloudError.
        """
        return keys.lent(self._compute, server.id, public_key)

    def find_network(self, reference):
        """Find a network.

        See :func:`ports.find_network`.

        :param reference: its UUID, or its name if it is unique.
        :returns: its UUID.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return ports.find_network(self._network, reference)

    def find_or_create_port(self, network_id, mac, name):
        """Give the port of a network that has a MAC address.

        See :func:`ports.find_or_create`.

        :param network_id: UUID of the network.
        :param mac: the MAC address.
        :param name: name of a port that is made.
        :returns: its UUID.
        :raises: HostCloudError if there is none and it cannot be made.
        """
        return ports.find_or_create(self._network, network_id, mac, name)

    def delete_port(self, port_id):
        """Delete a port that was made here.

        See :func:`ports.delete`.

        :param port_id: its UUID.
        :raises: HostCloudError if it may be left.
        """
        ports.delete(self._network, port_id)

    def set_mac(self, port_id, mac):
        """Give a port a MAC address.

        See :func:`ports.set_mac`.

        :param port_id: its UUID.
        :param mac: the MAC address.
        :raises: NotFound if there is no such port, Forbidden if it has
            another one that may not be changed, or another HostCloudError.
        """
        ports.set_mac(self._network, port_id, mac)

    def network_data(self, port_ids):
        """Tell how a guest configures its cards without DHCP.

        See :func:`ports.network_data`.

        :param port_ids: UUIDs of the ports.
        :returns: a dict in the form of Nova's ``network_data.json``.
        :raises: HostCloudError if something cannot be read.
        """
        try:
            return ports.network_data(self._network, port_ids)
        except errors.UNEXPECTED_FORM as exc:
            raise errors.ServerError(
                f'{self.title} describes a port in a form that Neutron does '
                f'not have ({type(exc).__name__})')

    def plug(self, server, mac, port_id):
        """Have a server's card be a port, or none.

        See :func:`ports.plug`.

        :param server: the :class:`servers.Server`.
        :param mac: MAC address of the card.
        :param port_id: UUID of the port; None to take the card away.
        :raises: Conflict if the server is in no state for it, or another
            HostCloudError.
        """
        try:
            ports.plug(self._compute, server.id, mac, port_id)
        finally:
            self._servers.invalidate(server.id)

    def forget_image(self, reference):
        """Read an image anew the next time.

        :param reference: UUID or name that it was read by.
        """
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

    def secure_boot(self, server):
        """Tell whether a server's firmware boots only what is signed.

        :param server: a :class:`servers.Server`.
        :returns: True or False; None if it boots BIOS, if the host decides,
            or if nothing tells, as for :meth:`boot_mode`.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        properties = self._boot_properties(server)
        if properties is None:
            return None
        flavor = server.flavor_details
        return images.secure_boot(properties,
                                  flavor.extra_specs if flavor else {})

    def architecture(self, server, flavor):
        """Tell the architecture of a server.

        :param server: a :class:`servers.Server`.
        :param flavor: its :class:`flavors.Flavor`.
        :returns: a name such as 'x86_64', or None if nothing tells.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        return (images.architecture(self._boot_properties(server) or {})
                or flavor.architecture)

    def flavor(self, server):
        """Tell the flavor of a server.

        :param server: a :class:`servers.Server`.
        :returns: a :class:`flavors.Flavor`.
        :raises: NotFound if it is gone and only an identifier is left of it,
            or another HostCloudError.
        """
        if server.flavor_details:
            return server.flavor_details
        if not server.flavor:
            raise errors.NotFound(
                f'The host cloud tells no flavor of server {server.id}')
        return flavors.read(self._compute, server.flavor)

    def root_disk(self, server, flavor):
        """Tell the size of the disk that a server's system is on.

        :param server: a :class:`servers.Server`.
        :param flavor: its :class:`flavors.Flavor`.
        :returns: GiB, or None if it is a volume of which nothing tells.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        if server.network_first is None:
            return None
        if server.image_id and not server.network_first:
            return flavor.disk
        try:
            return volumes.first_disk(self._volume, server.volume_ids,
                                      server.id)
        except _NOT_SHOWN as exc:
            LOG.debug('The volumes of server %(server)s cannot be looked at: '
                      '%(reason)s', {'server': server.id, 'reason': exc})
            return None

    def interfaces(self, server):
        """Tell the network cards of a server.

        :param server: a :class:`servers.Server`.
        :returns: list of :class:`interfaces.Interface`.
        :raises: NotFound or another HostCloudError.
        """
        return interfaces.read(self._compute, server.id)

    def network_names(self, network_ids):
        """Tell the names of networks.

        :param network_ids: UUIDs of the networks.
        :returns: dict of name by UUID, of those that the host cloud shows.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        try:
            return interfaces.network_names(self._network, network_ids)
        except _NOT_SHOWN as exc:
            LOG.debug('Networks cannot be looked at: %s', exc)
            return {}

    def rescue_obstacle(self, server):
        """Tell why a server cannot be rescued, whatever the image is.

        :param server: a :class:`servers.Server`.
        :returns: what stands in the way and what to do, as a clause, or None;
            a network-first server is not to be rescued at all.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        if server.network_first:
            return None
        if server.network_first is None:
            return transitions.BOOT_NOT_KNOWN
        if server.image_id is None and (
                self._compute.microversion < VOLUME_RESCUE_MICROVERSION):
            return (
                'it boots from a volume, which the compute API of the host '
                'cloud cannot rescue (%d.%d, and it takes 2.87): make it a '
                'network-first server' % self._compute.microversion)
        if self._has_tpm(server):
            return ('it has a virtual TPM, with which Nova rescues no server: '
                    'make it one without, or a network-first server')
        image = self._image_of(server) or {}
        if server.volume_ids and image.get('disk_format') == 'iso':
            return (
                'it boots from the ISO %s, which nothing says to be the '
                'network-first image: set %s=%s on it if it is' % (
                    image['id'], *images.NETWORK_FIRST))
        return None

    def rebuild_obstacle(self, server):
        """Tell why a server cannot be rebuilt from another image.

        :param server: a :class:`servers.Server`.
        :returns: what stands in the way, as a clause, or None.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        if server.network_first:
            return ('its disk is a volume beside the CD that it boots from, '
                    'and Nova rebuilds only what a server boots from')
        if server.network_first is None:
            return transitions.BOOT_NOT_KNOWN
        if server.image_id is None and (
                self._compute.microversion < VOLUME_REBUILD_MICROVERSION):
            return ('it boots from a volume, which the compute API of the '
                    'host cloud cannot rebuild (%d.%d, and it takes 2.93)'
                    % self._compute.microversion)
        if self._has_tpm(server):
            return ('it has a virtual TPM, with which Nova rebuilds no '
                    'server')
        return None

    def _has_tpm(self, server):
        return server.has_tpm or images.has_tpm(
            self._boot_properties(server) or {})

    def wipe_obstacle(self, server):
        """Tell why a rebuild does not wipe all that a server has of disks.

        :param server: a :class:`servers.Server`.
        :returns: what stands in the way and what to do, as a clause, or None.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        if server.network_first:
            return ('its disk is a volume beside the CD that it boots from, '
                    'and Nova wipes only what a server boots from: '
                    + _LET_THE_AGENT)
        if server.image_id is None:
            if self._compute.microversion < VOLUME_REBUILD_MICROVERSION:
                return (
                    'it boots from a volume, which the compute API of the '
                    'host cloud cannot wipe (%d.%d, and it takes 2.93): '
                    % self._compute.microversion + _LET_THE_AGENT)
            if not CONF[GROUP].rebuild_replaces_volumes:
                return (
                    'it boots from a volume, and nothing says that the host '
                    'cloud wipes more of it than the size of the image: set '
                    f'[{GROUP}]rebuild_replaces_volumes if it does, as with '
                    'Ceph, or ' + _LET_THE_AGENT)
            if len(server.volume_ids) < 2:
                return None
        elif not server.volume_ids:
            return None
        return (f'it has volumes ({", ".join(server.volume_ids)}), and Nova '
                'wipes only what a server boots from: detach the others, or '
                + _LET_THE_AGENT)

    def own_empty_image(self, server):
        """Tell the image that a server was made from, if that is empty.

        :param server: a :class:`servers.Server`.
        :returns: the image's UUID, or None.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        image_id = server.image_id or (
            self._volume_image(server) or {}).get('image_id')
        if image_id is None:
            return None
        try:
            image = images.read(self._image, image_id)
        except errors.NotFound:
            return None
        return image['id'] if images.is_empty(image) else None

    def snapshot_of(self, server):
        """Tell which snapshot a server was restored from.

        :param server: a :class:`servers.Server`.
        :returns: the snapshot's name, or None if it was made otherwise.
        :raises: NotFound if its image is gone, or another HostCloudError if
            the host cloud cannot be asked.
        """
        image = self._image_of(server)
        if image is None and server.image_id:
            raise errors.NotFound(f'Image {server.image_id} is gone')
        snapshot = snapshots.Snapshot.of_image(image or {})
        return snapshot and snapshot.name

    def machine_properties(self, server):
        """Tell the properties of an image that would make the same machine.

        :param server: a :class:`servers.Server`.
        :returns: dict, or None if nothing tells, as for :meth:`boot_mode`.
        :raises: HostCloudError if the host cloud cannot be asked.
        """
        # What Nova shows of them with the server is less.
        found = (self._image_of(server) if server.image_id
                 else self._volume_image(server)) or server.image_properties
        return images.of_the_machine(found) if found else None

    def rebuild_image(self, server, reference):
        """Find an image to rebuild a server from, and check that it fits.

        :param server: a :class:`servers.Server`.
        :param reference: the image's UUID, or name if it is unique.
        :returns: the image's UUID.
        :raises: NotFound, NotUnique, UnsuitableImage or another
            HostCloudError.
        """
        image = images.read(self._image, reference)
        images.check_rebuild(image, self.boot_mode(server))
        return image['id']

    def _boot_properties(self, server):
        """Tell the properties of the image that a server boots from.

        :returns: dict, or None if nothing tells.
        """
        if server.image_properties is not None:
            return server.image_properties
        if server.image_id is None:
            return self._volume_image(server) or None
        return self._image_of(server)

    def _complete(self, server, watching=False):
        """Add to a server what Nova does not tell of it."""
        if not watching:
            self._not_shown.drop(server.image_id)
            self._not_shown.drop(server.volume_ids)
        if not server.volume_ids:
            # Its disk would be a volume if it were network-first.
            return server
        key = (server.image_id, server.volume_ids)
        found = self._network_first.get(key)
        if found is None:
            properties = (self._volume_image(server)
                          if server.image_id is None
                          else self._image_of(server))
            if properties is not None:
                found = images.is_network_first(properties)
                # An ISO without the property may get it yet.
                if found or properties.get('disk_format') != 'iso':
                    self._network_first.put(key, found)
            elif server.image_id:
                # It is gone, and may be shared with this project again.
                found = False
        return dataclasses.replace(server, network_first=found)

    def _volume_image(self, server):
        """Return the properties of the image that its volumes come from.

        :returns: dict, empty if they come from none; None if the host cloud
            does not show the volumes.
        """
        if self._not_shown.get(server.volume_ids):
            return None
        found = self._volume_images.get(server.volume_ids)
        if found is None:
            try:
                found = self._in_catalog(
                    volumes.image_properties, self._volume, server.volume_ids)
            except (*_NOT_SHOWN, errors.NotFound) as exc:
                LOG.debug('The volumes of server %(server)s cannot be looked '
                          'at: %(reason)s',
                          {'server': server.id, 'reason': exc})
                self._not_shown.put(server.volume_ids, True)
                return None
            self._volume_images.put(server.volume_ids, found)
        return found

    def _in_catalog(self, read, service, *args):
        """Read from a service, by a new catalog if the known one lacks it.

        A catalog comes with a token and is kept as long, which may be hours.
        """
        try:
            return read(service, *args)
        except errors.CloudMisconfigured:
            now = time.monotonic()
            if now - self._catalog_at <= UNREACHABLE_AGE:
                raise
            self._catalog_at = now
            service.sign_in()
            return read(service, *args)

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
        if server.image_id is None or self._not_shown.get(server.image_id):
            return None
        image = self._images.get(server.image_id)
        if image is None:
            try:
                image = images.read(self._image, server.image_id)
            except errors.NotFound:
                self._not_shown.put(server.image_id, True)
                return None
            self._images.put(server.image_id, image)
        return image
