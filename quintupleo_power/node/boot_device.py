# SPDX-License-Identifier: Apache-2.0
"""The wished boot device, kept with the node in Ironic.

Like the override of a Redfish system it has two parts: a device for all
boots and, when set, another for the next boot only. Nothing is remembered
about what the server boots from now: the host cloud is asked.
"""

from ironic.common import exception

from quintupleo_power import saving
from quintupleo_power import transitions

PERSISTENT_KEY = 'quintupleo_boot_device'
ONCE_KEY = 'quintupleo_boot_device_once'


def record(node, device, persistent):
    """Record a wish.

    :param node: an Ironic node; is saved.
    :param device: a :class:`transitions.Device`.
    :param persistent: whether it is for all boots to come.
    """
    if persistent:
        node.set_driver_internal_info(PERSISTENT_KEY, device.value)
        node.del_driver_internal_info(ONCE_KEY)
    else:
        node.set_driver_internal_info(ONCE_KEY, device.value)
    saving.save_boot_device(node)


def wished(node):
    """Tell what the next boot is to be from.

    :param node: an Ironic node.
    :returns: (a :class:`transitions.Device`, whether it is persistent), or
        (None, None) when nothing was ever recorded.
    :raises: InvalidParameterValue if a newer release of the driver recorded
        what this one cannot boot from.
    """
    info = node.driver_internal_info
    for key, persistent in ((ONCE_KEY, False), (PERSISTENT_KEY, True)):
        if info.get(key):
            return _device(node, info[key]), persistent
    return None, None


def forget(node, device):
    """Drop all wishes for a device that is gone.

    :param node: an Ironic node; is saved.
    :param device: a :class:`transitions.Device`.
    """
    for key in (PERSISTENT_KEY, ONCE_KEY):
        if node.driver_internal_info.get(key) == device.value:
            node.del_driver_internal_info(key)
    saving.save_boot_device(node)


def _device(node, recorded):
    try:
        return transitions.Device(recorded)
    except ValueError:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: its boot device "{recorded}" was recorded by '
            'another release of the driver, and this one does not know it; '
            'set the boot device anew')


def booted(node):
    """Record that the machine has booted, which ends a one-time wish.

    Ironic saves it together with the power state: a conductor that dies
    before has neither changed.

    :param node: an Ironic node; is not saved.
    """
    node.del_driver_internal_info(ONCE_KEY)
