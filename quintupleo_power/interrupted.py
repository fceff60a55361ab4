# SPDX-License-Identifier: Apache-2.0
"""Power requests whose conductor died before they were done.

Ironic itself frees the node, says that "pending power operation was aborted
due to conductor take over", and at the next power sync forces the power
state back that the node had before. The request is lost.

So each request is kept with the node before an action is sent to Nova, and
goes away in the same write as Ironic's own record of its result. A request
that is there while nobody holds the node was interrupted: the conductor that
has the node now finishes it, or says what it was and why it does not.

What a clean or service step asks for is kept, too, under the step's name.
Ironic itself fails the step, so it is never finished, only told of.
"""

import contextlib
import datetime
import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.conductor import verify
from oslo_config import cfg
from oslo_log import log

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.node import boot_device
from quintupleo_power.node import driver_info
from quintupleo_power import transitions

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
LOG = log.getLogger(__name__)

KEY = 'quintupleo_request'

# Seconds after which a machine is not switched by a request that nobody
# expects to go on any more.
FINISHED_WITHIN = 900

# Requests for a power state by which a machine boots from its boot device.
_BOOTING = (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT)
_POWER_STATES = (*_BOOTING, states.POWER_OFF, states.SOFT_POWER_OFF)

# Words of Nova's records for the actions that boot a machine.
_BOOTS = ('start', 'reboot', 'rescue', 'unrescue')

# Nodes whose request this process finishes. The node's lock keeps others
# away, so nothing more is needed.
_being_finished = set()


@contextlib.contextmanager
def recorded(node, power_state):
    """Keep a request with its node while it is carried out.

    It is to be saved before an action is sent or a task is waited for.
    Its end is saved by Ironic, which writes the node as soon as a request
    succeeded or failed.

    :param node: an Ironic node.
    :param power_state: what is asked for, one of
        :mod:`ironic.common.states`, or the name of a step.
    :raises: InvalidParameterValue if another release of the driver recorded a
        boot device that this one does not know.
    """
    if node.uuid not in _being_finished:
        device = boot_device.wished(node)[0] or transitions.Device.DISK
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


def look(node, server=None):
    """Note with the request when the server was changed before it.

    Whatever Nova did with the server from then on was for this request.

    :param node: an Ironic node; is not saved.
    :param server: a :class:`host_cloud.servers.Server` as it was found, None
        if the host cloud could not be asked yet.
    """
    request = dict(node.driver_internal_info[KEY])
    if 'server_updated' in request and (
            request['server_updated'] is not None or server is None):
        return
    request['server_updated'] = server.updated if server else None
    node.set_driver_internal_info(KEY, request)


def require_none(task):
    """Have no power state while a request waits to be finished.

    Power sync would force the node back to what it was before the request.

    :param task: a TaskManager instance.
    :raises: DriverOperationError if one waits.
    """
    node = task.node
    request = node.driver_internal_info.get(KEY)
    if request is None:
        return
    if task.shared:
        # In maintenance nothing is finished, and Ironic has to be able to
        # see that a node is well again.
        if not node.reservation and not node.maintenance:
            raise exception.DriverOperationError(
                f'{_title(node, request)} was interrupted and is about to '
                'be finished')
    elif node.target_power_state and node.uuid not in _being_finished:
        # A newer request, which may end with the look at the power state.
        node.del_driver_internal_info(KEY)


def is_left(node):
    """Tell whether a node that nobody holds waits for :func:`take_over`.

    :param node: what was read of it: ``driver_internal_info``,
        ``provision_state``, ``target_power_state``.
    :returns: True or False.
    """
    if node.provision_state == states.VERIFYING:
        return True
    request = (node.driver_internal_info or {}).get(KEY)
    # Ironic clears the target when it takes a node over; another lock of
    # the node at that moment would stop it half-way through its list.
    return request is not None and (
        not node.target_power_state or _is_too_old(request))


def take_over(task):
    """Finish what a conductor began with a node, or say why not.

    :param task: a TaskManager instance with an exclusive lock.
    """
    node = task.node
    if node.provision_state == states.VERIFYING:
        # Ironic leaves the node so until a conductor is started anew.
        LOG.warning('Node %s: its verification was interrupted and is done '
                    'anew', node.uuid)
        verify.do_node_verify(task)
        return
    request = node.driver_internal_info.get(KEY)
    if request is None:
        return
    reason = _reason_not_to_finish(node, request)
    try:
        server, sent = _read(node, request)
    except exception.IronicException as exc:
        if _is_too_old(request):
            _give_up(task, request, f'{reason}. {exc}')
        else:
            LOG.warning('%(request)s was interrupted, and is not finished '
                        'yet: %(reason)s', {'request': _title(node, request),
                                            'reason': exc})
        return
    if reason:
        _give_up(task, request, reason, server)
    elif node.provision_state not in states.UNSTABLE_STATES:
        _finish(task, request, server, sent)
    # Else Ironic has yet to end what it was for.


def _reason_not_to_finish(node, request):
    if _is_too_old(request):
        return f'that is more than {FINISHED_WITHIN // 60} minutes ago'
    if (node.provision_state != request['provision_state']
            and node.provision_state not in states.UNSTABLE_STATES):
        return ('it belonged to what the node was doing in provision state '
                f'"{request["provision_state"]}", and the node is in '
                f'"{node.provision_state}" now')
    return None


def _is_too_old(request):
    return time.time() - request['begun_at'] > FINISHED_WITHIN


def _read(node, request):
    """Read the server at rest and what Nova did for the request.

    :returns: (the :class:`host_cloud.servers.Server`, rows of its actions
        that boot, oldest first).
    """
    info = driver_info.parse(node)
    deadline = time.monotonic() + CONF[GROUP].action_timeout
    with exceptions.translated(info):
        host = cloud.get(info.credentials)
        server = host.settle(host.server(info.server), deadline)
        updated = request.get('server_updated')
        # What is known of a server when a request comes may be minutes old.
        rows = (host.actions_since(server, updated, request['begun_at'])
                if updated else [])
        return server, [row for row in rows if row['action'] in _BOOTS]


def _finish(task, request, server, sent):
    """Carry a request out as far as that was not done."""
    node = task.node
    power_state = request['power_state']
    has_booted = _has_booted(server, request, sent)
    if has_booted:
        # Ironic looks, finds it so and records it.
        power_state = states.POWER_ON
    elif power_state == states.POWER_ON and sent:
        # A step on the way may have powered it on from the other device.
        power_state = states.REBOOT
    _record(node, f'{_title(node, request)} was interrupted; conductor '
                  f'{CONF.host} finishes it')
    _being_finished.add(node.uuid)
    try:
        conductor_utils.node_power_action(task, power_state)
    except exception.IronicException as exc:
        # Ironic has recorded it with the node.
        LOG.error('%(request)s was interrupted and could not be finished: '
                  '%(error)s', {'request': _title(node, request),
                                'error': exc})
        return
    finally:
        _being_finished.discard(node.uuid)
    if has_booted and _wished(node) == request['boot_device']:
        boot_device.booted(node)
    node.del_driver_internal_info(KEY)
    node.save()


def _has_booted(server, request, sent):
    """Whether all that was asked for had been done."""
    if request['power_state'] in (states.POWER_OFF, states.SOFT_POWER_OFF):
        # The state of the server tells.
        return False
    if not sent or sent[-1].get('message'):
        return False
    # Another release of the driver may know devices that this one does not.
    by_rescue = {device.value: device.by_rescue
                 for device in transitions.Device}
    return bool(transitions.is_on(server.state)) and (
        server.network_first
        or by_rescue.get(request['boot_device'])
        is transitions.device_in_use(server.state).by_rescue)


def _wished(node):
    return (boot_device.wished(node)[0] or transitions.Device.DISK).value


def _give_up(task, request, reason, server=None):
    """Say what was interrupted and take the server as it is."""
    node = task.node
    message = f'{_title(node, request)} was interrupted: {reason}.'
    if server is not None:
        message += f' Server {server.id} is {server.status}.'
        is_on = transitions.is_on(server.state)
        if is_on is not None:
            # Power sync would force the state from before the request.
            node.power_state = (states.POWER_ON if is_on
                                else states.POWER_OFF)
    node.target_power_state = states.NOSTATE
    node.del_driver_internal_info(KEY)
    again = ('Ask for the power state again'
             if request['power_state'] in _POWER_STATES
             else 'Run the step again')
    _record(node, f'{message} {again} if it is still wanted', error=True)
    node.save()


def _record(node, event, error=False):
    LOG.log(log.ERROR if error else log.WARNING, event)
    conductor_utils.node_history_record(
        node, event=event, event_type=states.TAKEOVER, error=error)


def _title(node, request):
    """Name a request, to begin a sentence with."""
    begun_at = datetime.datetime.fromtimestamp(
        request['begun_at'], datetime.timezone.utc)
    device = (f' from {request["boot_device"]}'
              if request['power_state'] in _BOOTING else '')
    return (f'"{request["power_state"]}"{device} of node {node.uuid}, begun '
            f'by conductor {request["conductor"]} at '
            f'{begun_at:%Y-%m-%d %H:%M:%S} UTC,')
