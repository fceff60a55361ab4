# SPDX-License-Identifier: Apache-2.0
"""An ISO that a user puts into a node's virtual CD-ROM drive."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.conductor import task_manager

from quintupleo_power import exceptions
from quintupleo_power.media import boot_iso
from quintupleo_power.media import rescue_image
from quintupleo_power.media import virtual_media
from quintupleo_power.node import server_access
from quintupleo_power import transitions


def attach(task: task_manager.TaskManager, device_type: str,
           image_url: str) -> None:
    """Put an ISO into the drive, in place of one that a user put there.

    The server boots from it when it next boots with boot device cdrom.

    :param device_type: 'cdrom'.
    :raises: InvalidParameterValue or MissingParameterValue if it cannot be
        booted, Ironic needs the drive, or a setting is wrong or missing.
    :raises: what Ironic raises if the ISO cannot be fetched.
    :raises: DriverOperationError if the host cloud does not take it.
    """
    node = task.node
    _check(node, [device_type])
    with exceptions.host_cloud(node) as (info, host):
        server = server_access.get(node, info, host)
        obstacle = (transitions.NO_CDROM if server.network_first
                    else host.capabilities.rescue_obstacle(server))
        if obstacle:
            raise transitions.Refused(
                f'Server {server.id} ({server.name}) cannot be booted from '
                f'an ISO: {obstacle}')
        boot_mode = rescue_image.boot_mode(node, host, server)
    with boot_iso.fetched(task, image_url) as path:
        virtual_media.insert(node, virtual_media.Purpose.USER, boot_mode,
                             path)


def detach(task: task_manager.TaskManager,
           device_types: list[str] | None) -> None:
    """Remove what is in the drive, if anything.

    :param device_types: list of 'cdrom', or None for all that there are.
    :raises: InvalidParameterValue or MissingParameterValue if there is no such
        drive, Ironic needs what is in it, or a setting is wrong or missing.
    """
    _check(task.node, device_types or ())
    virtual_media.eject(task.node)


def _check(node, device_types):
    for device_type in device_types:
        if device_type != boot_devices.CDROM:
            raise exception.InvalidParameterValue(
                f"Node {node.uuid} has no virtual media of type "
                f"'{device_type}', only {boot_devices.CDROM}, which is what "
                'a rescue of Nova adds to a server')
    virtual_media.require_free(node)
