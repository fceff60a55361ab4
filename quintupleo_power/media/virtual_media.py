# SPDX-License-Identifier: Apache-2.0
"""The ISO that is in a node's virtual CD-ROM drive, kept as an image.

The host cloud has the image for as long as the node may boot from it. That
there may be one is written down before it is made, so that whichever
conductor has the node can remove it, and any conductor if there is no such
node any more.
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
from quintupleo_power.node import driver_info
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

KEY = 'quintupleo_virtual_media'


class Purpose(enum.Enum):
    """What an ISO is for, which tells how long it is needed."""

    RAMDISK = 'ramdisk'
    INSTANCE = 'instance'
    USER = 'user'


# By which the identifiers of Ironics are made.
_NAMESPACE = uuid.UUID('8d5c3f0e-9d0f-4a51-9b7c-5a1f0c6d2e47')

# What a node is doing while it runs from the ISO of a purpose; nobody but the
# user tells when one of theirs is not needed any more.
_NEEDED = {
    Purpose.RAMDISK.value: frozenset((
        states.CLEANING, states.CLEANWAIT, states.CLEANHOLD,
        states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYHOLD,
        states.INSPECTING, states.INSPECTWAIT,
        states.RESCUING, states.RESCUEWAIT, states.RESCUE,
        states.SERVICING, states.SERVICEWAIT, states.SERVICEHOLD)),
    Purpose.INSTANCE.value: frozenset((
        states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYDONE,
        states.ACTIVE, states.RESCUING, states.RESCUEWAIT, states.RESCUE,
        states.UNRESCUING, states.SERVICING, states.SERVICEWAIT)),
}


def inserted(node):
    """Tell what is in a node's drive.

    :param node: an Ironic node.
    :returns: UUID of the image, or None.
    """
    return (node.driver_internal_info.get(KEY) or {}).get('image')


def image(node):
    """Tell what a node's server is rescued with to boot from its CD-ROM.

    :param node: an Ironic node.
    :returns: UUID of the image.
    :raises: Refused if there is none.
    """
    found = inserted(node)
    if found is None:
        raise transitions.Refused(
            'There are no virtual media to boot from: attach an ISO first')
    return found


def is_left(node):
    """Tell whether a node that nobody works on has an ISO it does not need.

    :param node: an Ironic node, or as much of it as a periodic task has.
    :returns: True or False.
    """
    kept = (node.driver_internal_info or {}).get(KEY)
    if not kept:
        return False
    # None also for what another release of the driver has an ISO for.
    needed = _NEEDED.get(kept['purpose'])
    # Without an image, it was being made or removed when something failed.
    return kept['image'] is None or (
        needed is not None and node.provision_state not in needed)


def require_free(node):
    """Check that Ironic itself does not need a node's drive.

    :param node: an Ironic node.
    :raises: InvalidParameterValue if it does.
    """
    kept = node.driver_internal_info.get(KEY)
    if kept and not is_left(node) and (
            kept['purpose'] != Purpose.USER.value):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: in its only CD-ROM drive is the ISO that '
            f"Ironic needs in provision state '{node.provision_state}': try "
            'again when that is over')


def insert(node, purpose, boot_mode, path):
    """Put an ISO into a node's drive, in place of any other.

    :param node: an Ironic node, locked; is saved.
    :param purpose: a :class:`Purpose`.
    :param boot_mode: 'bios' or 'uefi'.
    :param path: path of the ISO.
    :raises: InvalidParameterValue or MissingParameterValue if a setting is
        wrong or missing.
    :raises: DriverOperationError if the host cloud does not take it.
    """
    info = driver_info.parse(node)
    with exceptions.translated(info):
        host = cloud.get(info.credentials)
        host.delete_boot_images(node.uuid)
        _keep(node, purpose, None)
        _keep(node, purpose, host.create_boot_image(
            node.uuid, _this_ironic(ironic_context.get_admin_context()),
            boot_mode, path))


def _keep(node, purpose, image_id):
    node.set_driver_internal_info(
        KEY, {'purpose': purpose.value, 'image': image_id})
    node.save()


def eject(node):
    """Take out whatever is in a node's drive, which then boots nothing.

    What cannot be removed now is later, by :func:`is_left`.

    :param node: an Ironic node, locked; is saved.
    :raises: MissingParameterValue if a required setting is missing.
    :raises: InvalidParameterValue if a setting is wrong.
    """
    boot_device.forget(node, transitions.Device.CDROM)
    if not node.driver_internal_info.get(KEY):
        return
    info = driver_info.parse(node)
    try:
        cloud.get(info.credentials).delete_boot_images(node.uuid)
    except errors.HostCloudError as exc:
        cloud.failed(info.credentials, exc)
        LOG.warning('Node %(node)s: its virtual media could not be removed '
                    'from the host cloud, which is tried again later: '
                    '%(reason)s', {'node': node.uuid, 'reason': exc})
        _keep(node, Purpose.RAMDISK, None)
        return
    node.del_driver_internal_info(KEY)
    node.save()


def _this_ironic(admin_context):
    """Tell an Ironic from others that use the same project of a host cloud.

    :returns: an identifier, the same in all of its conductors: Ironic keeps
        a conductor in its database that is gone for good.
    """
    first, = objects.Conductor.list(admin_context, limit=1, sort_key='id')
    return str(uuid.uuid5(_NAMESPACE, f'{first.hostname} {first.created_at}'))


def remove_ownerless(admin_context):
    """Remove the ISOs of nodes that were deleted.

    Each is written down with its node before it is made.

    :param admin_context: the context of a periodic task.
    """
    maker = _this_ironic(admin_context)
    with contextlib.suppress(errors.CloudMisconfigured):
        # Where the last of its nodes was deleted before a restart.
        cloud.get(connection.Credentials())
    for credentials, host in cloud.in_use():
        try:
            for node_uuid in host.boot_image_owners(maker):
                if not _has_drive(admin_context, node_uuid):
                    LOG.info('Removing virtual media of node %s, which is '
                             'gone', node_uuid)
                    host.delete_boot_images(node_uuid)
        except errors.HostCloudError as exc:
            cloud.failed(credentials, exc)
            LOG.warning('Virtual media of nodes that are gone could not be '
                        'looked for in the host cloud, which is tried again '
                        'later: %s', exc)


def _has_drive(admin_context, node_uuid):
    try:
        node = objects.Node.get_by_uuid(admin_context, node_uuid)
    except exception.NodeNotFound:
        return False
    return KEY in node.driver_internal_info
