# SPDX-License-Identifier: Apache-2.0
"""The wished boot device, kept with the node in Ironic.

Like the override of a Redfish system it has two parts: a device for all
boots and, when set, another for the next boot only. The device in use is
read from the host cloud and never kept.
"""

from ironic.common import exception
from ironic import objects

from quintupleo_power.node import internal_info
from quintupleo_power import transitions

PERSISTENT_KEY = internal_info.BOOT_DEVICE
ONCE_KEY = internal_info.BOOT_DEVICE_ONCE


def set_wished(node: 'objects.Node', device: transitions.Device,
               persistent: bool) -> None:
    """Save what the next boot, or each if persistent, is to be from."""
    if persistent:
        node.set_driver_internal_info(PERSISTENT_KEY, device.value)
        node.del_driver_internal_info(ONCE_KEY)
    else:
        node.set_driver_internal_info(ONCE_KEY, device.value)
    node.save()


def wished(node: 'objects.Node'
           ) -> tuple[transitions.Device, bool] | tuple[None, None]:
    """Return what the next boot is to be from, and whether each boot is.

    :raises: InvalidParameterValue if a newer release of the driver saved
        a device that this one does not know.
    """
    info = node.driver_internal_info
    for key, persistent in ((ONCE_KEY, False), (PERSISTENT_KEY, True)):
        saved = info.get(key)
        if saved:
            try:
                return transitions.Device(saved), persistent
            except ValueError:
                raise exception.InvalidParameterValue(
                    f'Node {node.uuid}: its boot device "{saved}" was saved '
                    'by another release of the driver, and this one does not '
                    'know it; set the boot device again')
    return None, None


def of_next_boot(node: 'objects.Node') -> transitions.Device:
    """Return what the next boot is to be from: the disk without a wish.

    :raises: InvalidParameterValue, see :func:`wished`.
    """
    return wished(node)[0] or transitions.Device.DISK


def forget(node: 'objects.Node', device: transitions.Device) -> None:
    """Remove the wishes for a device that is gone, and save the node."""
    for key in (PERSISTENT_KEY, ONCE_KEY):
        if node.driver_internal_info.get(key) == device.value:
            node.del_driver_internal_info(key)
    node.save()


def booted(node: 'objects.Node') -> None:
    """Remove a one-time wish after a boot, without saving the node.

    Ironic saves it together with the power state: a conductor that dies
    before has neither changed.
    """
    node.del_driver_internal_info(ONCE_KEY)
