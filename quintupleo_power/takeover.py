# SPDX-License-Identifier: Apache-2.0
"""Finishes the requests that a conductor that died has left."""

import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.conductor import verify
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.node import boot_device
from quintupleo_power.node import pending_request
from quintupleo_power.node import server_access
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

# Nova's names of the actions that boot a server.
_BOOTS = ('start', 'reboot', 'rescue', 'unrescue')


def is_needed(node):
    """Return whether a node that nobody holds waits for :func:`run`.

    :param node: what was read of it: ``driver_internal_info``,
        ``provision_state``, ``target_power_state``.
    """
    if node.provision_state == states.VERIFYING:
        return True
    request = pending_request.get(node)
    # Ironic clears the target when it takes a node over; another lock of
    # the node at that moment would stop it half-way through its list.
    return request is not None and (
        not node.target_power_state or pending_request.is_too_old(request))


def run(task):
    """Finish what a conductor began with a node, or say why not.

    :param task: a TaskManager instance with an exclusive lock.
    """
    node = task.node
    if node.provision_state == states.VERIFYING:
        # Ironic leaves the node so until a conductor starts.
        LOG.warning('Node %s: its verification was interrupted and begins '
                    'again', node.uuid)
        verify.do_node_verify(task)
        return
    request = pending_request.get(node)
    if request is None:
        return
    reason = _reason_not_to_finish(node, request)
    try:
        server, sent = _read(node, request)
    except exception.IronicException as exc:
        if pending_request.is_too_old(request):
            _give_up(task, request, f'{reason}. {exc}')
        else:
            LOG.warning('%(request)s was interrupted, and is not finished '
                        'yet: %(reason)s',
                        {'request': pending_request.title(node, request),
                         'reason': exc})
        return
    if reason:
        _give_up(task, request, reason, server)
    elif node.provision_state not in states.UNSTABLE_STATES:
        _finish(task, request, server, sent)
    # Else Ironic has yet to end what it was for.


def _reason_not_to_finish(node, request):
    if pending_request.is_too_old(request):
        minutes = pending_request.FINISHED_WITHIN // 60
        return f'that is more than {minutes} minutes ago'
    if compat.must_stay_on(node) and (
            request['power_state'] in pending_request.POWER_OFF_STATES):
        return transitions.STAYS_ON
    if (node.provision_state != request['provision_state']
            and node.provision_state not in states.UNSTABLE_STATES):
        return ('it belonged to what the node was doing in provision state '
                f'"{request["provision_state"]}", and the node is in '
                f'"{node.provision_state}" now')
    return None


def _read(node, request):
    """Read the server at rest and what Nova did for the request.

    :returns: (the :class:`host_cloud.servers.Server`, rows of its actions
        that boot, oldest first).
    """
    deadline = time.monotonic() + CONF.quintupleo.action_timeout
    with server_access.use(node) as (host, server):
        server = host.actions.settle(server, deadline)
        updated = request.get('server_updated')
        rows = (instance_actions.since(host.compute, server.id, updated,
                                       server.updated != updated)
                if updated else [])
        return server, [row for row in rows if row['action'] in _BOOTS]


def _finish(task, request, server, sent):
    """Carry a request out as far as that was not done."""
    node = task.node
    title = pending_request.title(node, request)
    power_state = request['power_state']
    has_booted = _has_booted(server, request, sent)
    if has_booted:
        # Ironic reads the power state, finds it so and records it.
        power_state = states.POWER_ON
    elif power_state == states.POWER_ON and sent:
        # A step on the way may have powered it on from the other device.
        power_state = states.REBOOT
    _report(node, f'{title} was interrupted; conductor {CONF.host} finishes '
                  'it')
    try:
        conductor_utils.node_power_action(task, power_state)
    except exception.IronicException as exc:
        # Ironic has recorded it with the node.
        LOG.error('%(request)s was interrupted and could not be finished: '
                  '%(error)s', {'request': title, 'error': exc})
        return
    device = boot_device.of_next_boot(node)
    if has_booted and device.value == request['boot_device']:
        boot_device.booted(node)
    node.del_driver_internal_info(pending_request.KEY)
    node.save()


def _has_booted(server, request, sent):
    """Return whether all that was asked for had been done."""
    if request['power_state'] in pending_request.POWER_OFF_STATES:
        # The state of the server says so by itself.
        return False
    if not sent or sent[-1].get('message'):
        return False
    # Another release of the driver may know devices that this one does not.
    by_rescue = request['boot_device'] != transitions.Device.DISK.value
    return bool(transitions.is_on(server.state)) and (
        server.network_first
        or by_rescue is transitions.device_in_use(server.state).by_rescue)


def _give_up(task, request, reason, server=None):
    """Say what was interrupted and take the server as it is."""
    node = task.node
    message = (f'{pending_request.title(node, request)} was interrupted: '
               f'{reason}.')
    if server is not None:
        message += f' Server {server.id} is {server.status}.'
        is_on = transitions.is_on(server.state)
        if is_on is not None:
            # Power sync would force the state from before the request.
            node.power_state = (states.POWER_ON if is_on
                                else states.POWER_OFF)
    node.target_power_state = states.NOSTATE
    node.del_driver_internal_info(pending_request.KEY)
    again = ('Ask for the power state again'
             if request['power_state'] in pending_request.POWER_STATES
             else 'Run the step again')
    _report(node, f'{message} {again} if it is still wanted', error=True)
    node.save()


def _report(node, event, error=False):
    LOG.log(log.ERROR if error else log.WARNING, event)
    conductor_utils.node_history_record(
        node, event=event, event_type=states.TAKEOVER, error=error)
