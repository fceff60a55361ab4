# SPDX-License-Identifier: Apache-2.0
"""The ISO in a node's virtual CD-ROM drive, kept as an image of the cloud.

That there may be an image is saved with the node before the image is made. So
any conductor that has the node can remove it, and any conductor at all when
the node is gone.

What asks the host cloud raises InvalidParameterValue or MissingParameterValue
if a setting is wrong or missing.
"""

import contextlib
import enum
import uuid

from ironic.common import context as ironic_context
from ironic.common import exception
from ironic.common import states
from ironic import objects
from oslo_log import log

from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.node import boot_device
from quintupleo_power.node import internal_info
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

KEY = internal_info.VIRTUAL_MEDIA


class Purpose(enum.Enum):
    """What an ISO is for, which decides how long it is needed."""

    RAMDISK = 'ramdisk'
    INSTANCE = 'instance'
    USER = 'user'


# By which the identifiers of Ironics are made.
_NAMESPACE = uuid.UUID('8d5c3f0e-9d0f-4a51-9b7c-5a1f0c6d2e47')

# Where a node may run from the ISO of a purpose; only the user knows when one
# of theirs is not needed any more.
_NEEDED = {
    Purpose.RAMDISK.value: frozenset((
        *states.UNSTABLE_STATES, states.CLEANHOLD, states.DEPLOYHOLD,
        states.RESCUE, states.SERVICEHOLD)),
    Purpose.INSTANCE.value: frozenset((
        *states.UNSTABLE_STATES, states.ACTIVE, states.DEPLOYDONE,
        states.RESCUE)),
}


def inserted(node: 'objects.Node') -> str | None:
    """Return the UUID of the image in a node's drive."""
    return (node.driver_internal_info.get(KEY) or {}).get('image')


def is_stale(node: 'objects.Node') -> bool:
    """Return whether an unlocked node has an ISO that it does not need.

    :param node: a node, or as much of it as a periodic task has.
    """
    media = (node.driver_internal_info or {}).get(KEY)
    if not media:
        return False
    # None also for what another release of the driver has an ISO for.
    needed = _NEEDED.get(media['purpose'])
    # Without an image, it was being made or removed when something failed.
    return media['image'] is None or (
        needed is not None and node.provision_state not in needed)


def require_free(node: 'objects.Node') -> None:
    """Raise InvalidParameterValue if Ironic itself needs a node's drive."""
    media = node.driver_internal_info.get(KEY)
    if media and not is_stale(node) and (
            media['purpose'] != Purpose.USER.value):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: in its only CD-ROM drive is the ISO that '
            f"Ironic needs in provision state '{node.provision_state}': try "
            'again when that is over')


def holds(node: 'objects.Node', purpose: Purpose) -> bool:
    """Return whether an ISO for a purpose is in a node's drive already.

    :raises: DriverOperationError if the host cloud cannot be asked.
    """
    media = node.driver_internal_info.get(KEY)
    if not media or not media['image'] or purpose.value != media['purpose']:
        return False
    with exceptions.host_cloud(node) as host:
        return host.boot_images.is_active(media['image'])


def insert(node: 'objects.Node', purpose: Purpose, boot_mode: str,
           path: str) -> None:
    """Put an ISO into a node's drive, in place of any other, and save it.

    :param node: a node, locked.
    :param boot_mode: 'bios' or 'uefi'.
    :raises: DriverOperationError if the host cloud does not take it.
    """
    with exceptions.host_cloud(node) as host:
        host.boot_images.delete(node.uuid)
        _save(node, purpose, None)
        _save(node, purpose, host.boot_images.create(
            node.uuid, _this_ironic(ironic_context.get_admin_context()),
            boot_mode, path))


def _save(node, purpose, image_id):
    node.set_driver_internal_info(
        KEY, {'purpose': purpose.value, 'image': image_id})
    node.save()


def eject(node: 'objects.Node') -> None:
    """Remove what is in a node's drive, which then boots nothing; save it.

    If the image cannot be removed now, :func:`is_stale` has it removed later.

    :param node: a node, locked.
    """
    boot_device.forget(node, transitions.Device.CDROM)
    if not node.driver_internal_info.get(KEY):
        return
    try:
        with exceptions.host_cloud(node) as host:
            host.boot_images.delete(node.uuid)
    except exception.DriverOperationError as exc:
        LOG.warning('Virtual media could not be removed from the host cloud, '
                    'which is tried again later: %s', exc)
        _save(node, Purpose.RAMDISK, None)
        return
    node.del_driver_internal_info(KEY)
    node.save()


def _this_ironic(admin_context):
    """Return what identifies an Ironic in a project that it shares.

    It is the same in all conductors: a conductor that is gone for good stays
    in Ironic's database.
    """
    first, = objects.Conductor.list(admin_context, limit=1, sort_key='id')
    return str(uuid.uuid5(_NAMESPACE, f'{first.hostname} {first.created_at}'))


def remove_ownerless(admin_context: ironic_context.RequestContext) -> None:
    """Remove the ISOs of nodes that were deleted."""
    maker = _this_ironic(admin_context)
    with contextlib.suppress(errors.CloudMisconfigured):
        # Where the last of its nodes was deleted before a restart.
        cloud.get(connection.Credentials())
    for credentials, host in cloud.in_use():
        try:
            found = host.boot_images.nodes(maker)
            needed = {node.uuid for node in objects.Node.list(
                admin_context, filters={'uuid_in': list(found)})
                if KEY in node.driver_internal_info}
            for node_uuid in found - needed:
                LOG.info('Removing virtual media of node %s, which is gone',
                         node_uuid)
                host.boot_images.delete(node_uuid)
        except errors.HostCloudError as exc:
            cloud.failed(credentials, exc)
            LOG.warning('Virtual media of nodes that are gone could not be '
                        'looked for in the host cloud, which is tried again '
                        'later: %s', exc)
