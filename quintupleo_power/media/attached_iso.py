# SPDX-License-Identifier: Apache-2.0
"""The virtual CD-ROM drive, as the management interface gives it to users."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.conductor import periodics
from ironic.conductor import task_manager
from ironic.conf import CONF

from quintupleo_power.interfaces import server_interface
from quintupleo_power.media import boot_iso
from quintupleo_power.media import rescue_image
from quintupleo_power.media import virtual_media
from quintupleo_power.node import server_access
from quintupleo_power import transitions

# Seconds between two looks for what a dead conductor has left, as Ironic's.
_INTERVAL = CONF.conductor.check_provision_state_interval or 60


class VirtualMedia(server_interface.ServerInterface):
    """Methods of the management interface for an ISO that a user attaches.

    They raise InvalidParameterValue or MissingParameterValue if there is no
    such drive, Ironic needs it, or a setting is wrong or missing.
    """

    def get_virtual_media(self, task):
        """Return what is in the virtual CD-ROM drive; Ironic asks since 26.1.

        :returns: a list of one dict; ``image`` is the UUID of the ISO in the
            host cloud.
        """
        image = virtual_media.inserted(task.node)
        return [{'media_types': ['CD', 'DVD'], 'inserted': image is not None,
                 'image': image}]

    @task_manager.require_exclusive_lock
    def attach_virtual_media(self, task, device_type, image_url):
        """Put an ISO into the drive, in place of one that a user put there.

        The server boots from it when it next boots with boot device cdrom.

        :param device_type: 'cdrom'.
        :raises: what Ironic raises if the ISO cannot be fetched.
        :raises: DriverOperationError if the host cloud does not take it, or
            the server cannot be booted from it.
        """
        node = task.node
        _check(node, [device_type])
        with server_access.use(node) as (host, server):
            server.require('booted from an ISO', transitions.NO_CDROM
                           if server.network_first else
                           host.capabilities.rescue_obstacle(server))
            boot_mode = rescue_image.boot_mode(node, host, server)
        with boot_iso.fetched(task, image_url) as path:
            virtual_media.insert(node, virtual_media.Purpose.USER, boot_mode,
                                 path)

    @task_manager.require_exclusive_lock
    def detach_virtual_media(self, task, device_types=None):
        """Remove what is in the drive, if anything.

        :param device_types: list of 'cdrom', or None for all that there are.
        """
        _check(task.node, device_types or ())
        virtual_media.eject(task.node)

    @periodics.node_periodic(
        purpose='removing virtual media that are not needed any more',
        spacing=_INTERVAL,
        filters={'reserved': False},
        predicate=virtual_media.is_stale,
        predicate_extra_fields=('driver_internal_info', 'provision_state'),
        shared_task=False)
    def _remove_left(self, task, manager, context):
        """Remove the ISO of a conductor that died, or of a cloud away."""
        virtual_media.eject(task.node)

    # Ironic tells no driver when it deletes a node.
    @periodics.periodic(spacing=10 * _INTERVAL)
    def _remove_ownerless(self, manager, context):
        """Remove the ISOs of nodes that were deleted."""
        virtual_media.remove_ownerless(context)


def _check(node, device_types):
    for device_type in device_types:
        if device_type != boot_devices.CDROM:
            raise exception.InvalidParameterValue(
                f"Node {node.uuid} has no virtual media of type "
                f"'{device_type}', only {boot_devices.CDROM}, which is what "
                'a rescue of Nova adds to a server')
    virtual_media.require_free(node)
