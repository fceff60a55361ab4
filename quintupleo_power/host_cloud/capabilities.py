# SPDX-License-Identifier: Apache-2.0
"""What the server of a host cloud is, and what Nova can do with it."""

import contextlib
import dataclasses

from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import flavors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import volumes
from quintupleo_power import transitions

# The first compute API that rescues a server which boots from a volume, and
# the first whose rebuild writes such a volume again.
VOLUME_RESCUE_MICROVERSION = (2, 87)
VOLUME_REBUILD_MICROVERSION = (2, 93)

# Cinder keeps the properties of an image with the volume, however the image
# changes later, until a rebuild. Those of an image hardly ever change.
VOLUME_MAX_AGE = 86400.0
IMAGE_MAX_AGE = 300.0
# Power sync does not ask at each pass for what is not shown or is gone.
NOT_SHOWN_MAX_AGE = 300.0


class Capabilities:
    """Servers of one project, by their images, flavors and volumes."""

    def __init__(self, compute: service.Service, image: service.Service,
                 volume: service.Service):
        """Use the services of a cloud."""
        self._compute = compute
        self._image = image
        self._volume = volume
        # Requests go on while Glance and Cinder are away.
        self._network_first = cache.Cache(VOLUME_MAX_AGE)
        # The properties of images as those show them; see _key().
        self._of_volumes = cache.Cache(VOLUME_MAX_AGE)
        self._of_images = cache.Cache(IMAGE_MAX_AGE)
        self._not_shown = cache.Cache(NOT_SHOWN_MAX_AGE)

    def complete(self, server: servers.Server) -> servers.Server:
        """Return a server with what Nova does not show of it, for a request.

        What was not shown to power sync is asked for again.
        """
        key = _key(server)
        self._not_shown.drop(key)
        if not server.volume_ids:
            # Its disk would be a volume if it were network-first.
            return server
        found = self._network_first.get(key)
        if found is None:
            properties = self._read_properties(server)
            if properties is not None:
                found = images.is_network_first(properties)
                # An ISO without the property may get it yet.
                if found or properties.get('disk_format') != 'iso':
                    self._network_first.put(key, found)
            elif server.image_id:
                # It is gone, and may be shared with this project again.
                found = False
        return dataclasses.replace(server, network_first=found)

    def forget(self, server: servers.Server) -> None:
        """Ask again for what is known of a server that was rebuilt.

        Its image, if it has one, was read for the rebuild.
        """
        self._network_first.drop(_key(server))
        self._of_volumes.drop(_key(server))

    def read_image(self, reference: str) -> dict:
        """Return an image, as it is now, and keep it for its servers."""
        image = images.read(self._image, reference)
        self._of_images.put(image['id'], image)
        return image

    def boot_mode(self, server: servers.Server) -> str | None:
        """Return the boot mode of a server, 'bios' or 'uefi'.

        :returns: None if that is not known: of a server that boots from a
            volume that was not made from an image, or whose image is gone, on
            a compute API before 2.98.
        """
        properties = self._boot_properties(server)
        return None if properties is None else images.firmware(properties)

    def secure_boot(self, server: servers.Server) -> bool | None:
        """Return whether a server's firmware boots only what is signed.

        :returns: None if it boots BIOS, if the host decides, or if that is
            not known, as in :meth:`boot_mode`.
        """
        properties = self._boot_properties(server)
        if properties is None:
            return None
        return images.secure_boot(properties, _extra_specs(server))

    def architecture(self, server: servers.Server,
                     flavor: flavors.Flavor) -> str | None:
        """Return the architecture of a server, such as 'x86_64'."""
        return (images.architecture(self._boot_properties(server) or {})
                or flavor.architecture)

    def flavor(self, server: servers.Server) -> flavors.Flavor:
        """Return the flavor of a server.

        :raises: NotFound if it is gone and only its identifier is left.
        """
        if server.flavor_details:
            return server.flavor_details
        if not server.flavor:
            raise errors.NotFound(
                f'The host cloud shows no flavor of server {server.id}')
        return flavors.read(self._compute, server.flavor)

    def root_disk(self, server: servers.Server,
                  flavor: flavors.Flavor) -> int | None:
        """Return the size in GiB of a server's first disk, None if unknown."""
        if server.network_first is None:
            return None
        if server.image_id and not server.network_first:
            return flavor.disk
        return volumes.first_disk(self._volume, server)

    def image_properties(self, server: servers.Server) -> dict | None:
        """Return properties that make the same machine, None if unknown."""
        # What Nova shows of them with the server is less.
        found = self._read_properties(server) or server.image_properties
        return images.of_the_machine(found) if found else None

    def shutdown_timeout(self, server: servers.Server) -> int | None:
        """Return the seconds that Nova waits for a guest to shut down.

        Nova goes by the image as it was when the server was made, and does
        not show this property of it; Glance shows the image as it is now.

        :returns: None if the host cloud's own ``shutdown_timeout`` applies,
            60 by default.
        """
        image = self.own_image(server)
        try:
            return int(image['os_shutdown_timeout'])
        except (KeyError, TypeError, ValueError):
            return None

    def own_image(self, server: servers.Server) -> dict:
        """Return a server's image; {} of a volume, or if it is gone."""
        return (server.image_id and self._read_properties(server)) or {}

    def own_empty_image(self, server: servers.Server) -> dict | None:
        """Return a server's own image, if that is empty."""
        image_id = server.image_id or (
            self._read_properties(server) or {}).get('image_id')
        if image_id is None:
            return None
        try:
            image = self.read_image(image_id)
        except errors.NotFound:
            return None
        return image if images.is_empty(image) else None

    def rescue_obstacle(self, server: servers.Server) -> str | None:
        """Return why a server cannot be rescued and what to do, as a clause.

        :returns: None if nothing stands in the way, whatever the image is. A
            network-first server is not to be rescued at all.
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
        image = self.own_image(server)
        if server.volume_ids and image.get('disk_format') == 'iso':
            return (
                'it boots from the ISO %s, which nothing says to be the '
                'network-first image: set %s=%s on it if it is' % (
                    image['id'], *images.NETWORK_FIRST))
        return None

    def rebuild_obstacle(self, server: servers.Server) -> str | None:
        """Return why a server cannot be rebuilt from an image, or None."""
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
        return ('it has a virtual TPM, with which Nova rebuilds no server'
                if self._has_tpm(server) else None)

    def switch_obstacle(self, server: servers.Server) -> str | None:
        """Return why a rebuild gives a server no other firmware, or None."""
        obstacle = self.rebuild_obstacle(server)
        if obstacle or server.image_id or (
                CONF.quintupleo.rebuild_replaces_volumes):
            return obstacle
        return ('it boots from a volume, and nothing says that a rebuild '
                'replaces more of it than the size of the image: set '
                '[quintupleo]rebuild_replaces_volumes if it does, as with '
                'Ceph')

    def disk_obstacle(self, server: servers.Server, image: dict
                      ) -> str | None:
        """Return why an image does not fit on the disk of a server.

        :param image: what is known of it, named as in Glance.
        :returns: the reason and what to do, as a clause; None if it fits for
            all that is known.
        """
        needed = images.disk_size(image)
        if not needed:
            return None
        try:
            disk = self.root_disk(server, self.flavor(server))
        except errors.NotFound:
            return None
        # A flavor of 0 GiB takes the size of the image.
        if not disk or needed <= disk:
            return None
        return (f'the image takes a disk of {needed} GiB, and that of the '
                f'server has {disk} GiB: use a smaller image, or a server '
                'with a larger disk')

    def wipe_obstacle(self, server: servers.Server) -> str | None:
        """Return why a rebuild wipes not all disks and what to do, or None."""
        obstacle = self.switch_obstacle(server)
        if not obstacle and len(server.volume_ids) > (server.image_id is None):
            obstacle = (
                f'it has volumes ({", ".join(server.volume_ids)}), and Nova '
                'wipes only what a server boots from: detach the others')
        return obstacle and (
            f"{obstacle}; Ironic's agent can clean the node instead "
            '(deploy.erase_devices_metadata)')

    def _has_tpm(self, server):
        """Return whether a server has a virtual TPM."""
        return bool(_extra_specs(server).get('hw:tpm_version') or (
            self._boot_properties(server) or {}).get('hw_tpm_version'))

    def _boot_properties(self, server):
        """Return the properties of the image that a server boots from."""
        if server.image_properties is not None:
            return server.image_properties
        return self._read_properties(server) or None

    def _read_properties(self, server):
        """Return these as Glance or Cinder shows them, {} if there are none.

        :returns: None if they are not shown, or the image is gone.
        """
        key = _key(server)
        known = self._of_images if server.image_id else self._of_volumes
        found = known.get(key)
        if found is not None or self._not_shown.get(key):
            return found
        if server.image_id is None:
            found = volumes.image_properties(self._volume, server)
        else:
            with contextlib.suppress(errors.NotFound):
                found = self.read_image(server.image_id)
        if found is None:
            self._not_shown.put(key, True)
        else:
            # Nova may spell an image in another way.
            known.put(key, found)
        return found


def _key(server):
    """Return what a server boots from: an image, or volumes."""
    return server.image_id or frozenset(server.volume_ids)


def _extra_specs(server):
    return server.flavor_details.extra_specs if server.flavor_details else {}
