# SPDX-License-Identifier: Apache-2.0
"""The faults of a node, kept with it, and what they do to its requests."""

import contextlib
import functools
import inspect
import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from oslo_log import log

from quintupleo_power.conf import CONF
from quintupleo_power.faults import kinds
from quintupleo_power.media import virtual_media
from quintupleo_power.node import boot_device
from quintupleo_power.node import internal_info
from quintupleo_power.node import pending_request
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

KEY = internal_info.FAULTS
LATE_KEY = internal_info.LATE_REQUEST


def get(node):
    """Return the faults of a node, oldest first."""
    return node.driver_internal_info.get(KEY) or []


def add(node, arguments):
    """Add the fault that arguments of a request describe, and return it.

    :raises: ValueError with what is wrong.
    """
    fault = kinds.parse(arguments)
    node.set_driver_internal_info(KEY, [*get(node), fault])
    node.save()
    _record(node, f'Fault {fault["id"]} is set')
    return [fault]


def delete(node, arguments):
    """Delete a fault by its ``id``, or all and what is still to be done late.

    :raises: ValueError if the node does not have it.
    """
    found = [each for each in get(node)
             if arguments in ({}, {'id': each['id']})]
    if arguments and not found:
        raise ValueError('this fault does not exist: "openstack quintupleo '
                         f'fault list {node.uuid}" shows the id of each')
    if not arguments:
        node.del_driver_internal_info(LATE_KEY)
    node.set_driver_internal_info(KEY, [
        each for each in get(node) if each not in found])
    node.save()
    for fault in found:
        _record(node, f'Fault {fault["id"]} is deleted')
    return found


def late_request(node):
    """Return the power state of a late request that is due, or None."""
    late = (node.driver_internal_info or {}).get(LATE_KEY)
    if (CONF.quintupleo.fault_injection and late
            and late['due_at'] <= time.time()):
        return late['power_state']
    return None


def carry_out_late(task):
    """Carry out the late request that is due; no fault happens to it."""
    if power_state := late_request(task.node):
        task.node.del_driver_internal_info(LATE_KEY)
        _record(task.node, f'The late "{power_state}" is carried out')
        try:
            task.driver.power.set_power_state.without_faults(
                task.driver.power, task, power_state)
        except exception.IronicException as exc:
            _record(task.node, f'The late "{power_state}" failed: {exc}')
        task.node.save()


def _record(node, event):
    """Log an event, and keep it in the history of the node."""
    LOG.info('Node %(node)s: %(event)s', {'node': node.uuid, 'event': event})
    conductor_utils.node_history_record(node, event=event,
                                        event_type='fault injection')


def injected(method):
    """Return a method that faults happen to; it has one ``without_faults``."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapper(interface, task, *args, **kwargs):
        if method.__name__ == 'set_power_state':
            # A newer request supersedes one that is still to be done late.
            task.node.del_driver_internal_info(LATE_KEY)
        if not CONF.quintupleo.fault_injection:
            return method(interface, task, *args, **kwargs)
        bound = signature.bind(interface, task, *args, **kwargs)
        bound.apply_defaults()
        call = functools.partial(method, **bound.arguments)
        fault = _draw(task, call)
        return _inject(fault, call) if fault else call()

    wrapper.without_faults = method
    return wrapper


def _kinds_for(call):
    """Return the kinds of faults that may happen to a call of a method."""
    found = {call.func.__name__}
    power_state = call.keywords.get('power_state')
    if power_state in (states.REBOOT, states.SOFT_REBOOT):
        found.add('reboot')
    if call.keywords.get('persistent'):
        found.add('persistent')
    if (power_state not in (None, *pending_request.POWER_OFF_STATES)
            and boot_device.of_next_boot(call.keywords['task'].node)
            is transitions.Device.CDROM):
        found.add('boot_iso')
    return [kind for kind, (what, _) in kinds.KINDS.items() if what in found]


def _draw(task, call):
    """Return the oldest fault that happens to a call, or None."""
    node, kinds_for = task.node, _kinds_for(call)
    found = [each for each in get(node) if each['kind'] in kinds_for]
    if not found:
        return None
    if task.shared:
        # To count would overwrite what another holder of the lock saves.
        with contextlib.suppress(exception.NodeLocked), task_manager.acquire(
                task.context, node.id, purpose='counting faults',
                retry=False, load_driver=False) as own:
            return _draw(own, call)
        return None
    fault = next(filter(kinds.draw, found), None)
    if fault:
        _record(node, f'Fault {fault["id"]} happens: '
                      f'{kinds.KINDS[fault["kind"]][1]}')
    node.set_driver_internal_info(KEY, [
        each for each in get(node) if each['times'] != 0])
    node.save()
    return fault


def _inject(fault, call):
    """Return the result of a call that a fault happens to."""
    node = call.keywords['task'].node
    power_state = call.keywords.get('power_state')
    cause = (f'which is fault {fault["id"]}: "openstack quintupleo fault list '
             f'{node.uuid}" shows those of the node')
    match fault['kind']:
        case 'power-fails':
            raise exception.PowerStateFailure(
                f'Node {node.uuid}: "{power_state}" failed, {cause}')
        case 'power-hangs':
            timeout, seconds = call.keywords['timeout'], fault['seconds']
            limit = timeout or CONF.conductor.power_state_change_timeout
            time.sleep(min(seconds, limit))
            if seconds >= limit:
                raise exception.PowerStateFailure(
                    f'Node {node.uuid}: "{power_state}" was not answered '
                    f'within {limit} s, {cause}')
            return call(timeout=timeout and timeout - seconds)
        case 'power-late':
            node.set_driver_internal_info(LATE_KEY, {
                'power_state': power_state,
                'due_at': time.time() + fault['seconds']})
            node.save()
        case 'power-state-lies':
            found = call()
            return {states.POWER_ON: states.POWER_OFF,
                    states.POWER_OFF: states.POWER_ON}.get(found, found)
        case 'reboot-stays-off':
            return call(power_state=states.POWER_OFF)
        case 'boot-device-lost':
            return call(persistent=False)
        case 'virtual-media-lost':
            virtual_media.eject(node)
            return call()
        case 'console-away':
            raise exception.DriverOperationError(
                f'Node {node.uuid}: its console cannot be reached, {cause}')
    return None
