# SPDX-License-Identifier: Apache-2.0
"""The request that is being carried out, kept with its node.

Ironic itself frees the node of a conductor that died, says that "pending
power operation was aborted due to conductor take over", and at the next power
sync forces the power state back that the node had before.

So a request is kept from before its first action until Ironic's own record of
its result, which is the same write. One that is there while nobody holds the
node was interrupted: see :mod:`quintupleo_power.takeover`.
"""

from collections import abc
import contextlib
import datetime
import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic import objects

from quintupleo_power.host_cloud import servers
from quintupleo_power.node import boot_device
from quintupleo_power.node import internal_info

KEY = internal_info.PENDING_REQUEST

# Seconds after which nobody expects a request to go on any more.
FINISHED_WITHIN = 900

# Requests for a power state by which a machine boots from its boot device.
_BOOTING = (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT)
POWER_OFF_STATES = (states.POWER_OFF, states.SOFT_POWER_OFF)
POWER_STATES = (*_BOOTING, *POWER_OFF_STATES)


@contextlib.contextmanager
def kept(node: objects.Node, power_state: str) -> abc.Iterator[None]:
    """Keep a request with its node while it is carried out.

    It is to be saved before an action is sent or a task is waited for. Ironic
    saves its end, together with the result.

    :param power_state: what is asked for, one of
        :mod:`ironic.common.states`, or the name of a clean or service step.
        Ironic itself fails a step that was interrupted.
    :raises: InvalidParameterValue if another release of the driver has kept a
        boot device that this one does not know.
    """
    device = boot_device.of_next_boot(node)
    node.set_driver_internal_info(KEY, {
        'power_state': power_state,
        'boot_device': device.value,
        'provision_state': node.provision_state,
        'conductor': CONF.host,
        'begun_at': time.time(),
    })
    try:
        yield
    finally:
        node.del_driver_internal_info(KEY)


def get(node: objects.Node) -> dict | None:
    """Return the request that is kept with a node, if there is one."""
    return (node.driver_internal_info or {}).get(KEY)


def set_server(node: objects.Node, server: servers.Server | None) -> None:
    """Keep when the server was changed last before the request.

    Whatever Nova did with the server from then on was for this request.

    :param node: the node; is not saved.
    :param server: the server as it was found, None if the host cloud could
        not be asked yet.
    """
    request = get(node)
    if request is None or request.get('server_updated') is not None or (
            server is None and 'server_updated' in request):
        return
    node.set_driver_internal_info(
        KEY, {**request, 'server_updated': server and server.updated})


def require_none(task: task_manager.TaskManager) -> None:
    """Raise while an interrupted request waits to be finished.

    Power sync would force the node back to what it was before the request.

    :raises: DriverOperationError if one waits.
    """
    node = task.node
    request = get(node)
    if request is None:
        return
    if task.shared:
        # In maintenance nothing is finished, and Ironic has to be able to
        # see that a node is well again.
        if not node.reservation and not node.maintenance:
            raise exception.DriverOperationError(
                f'{title(node, request)} was interrupted and is about to '
                'be finished')
    elif node.target_power_state:
        # A newer request, which may end with the read of the power state.
        node.del_driver_internal_info(KEY)


def is_too_old(request: dict) -> bool:
    """Return whether nobody expects a request to go on any more."""
    return time.time() - request['begun_at'] > FINISHED_WITHIN


def title(node: objects.Node, request: dict) -> str:
    """Return the name of a request, to begin a sentence with."""
    begun_at = datetime.datetime.fromtimestamp(
        request['begun_at'], datetime.timezone.utc)
    device = (f' from {request["boot_device"]}'
              if request['power_state'] in _BOOTING else '')
    return (f'"{request["power_state"]}"{device} of node {node.uuid}, begun '
            f'by conductor {request["conductor"]} at '
            f'{begun_at:%Y-%m-%d %H:%M:%S} UTC,')
