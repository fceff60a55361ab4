# SPDX-License-Identifier: Apache-2.0
"""The server as Ironic left it, kept with its node and compared later.

It is set when a request is done, and compared where Ironic only asks: in
power sync, validation and node health.
"""

import dataclasses

from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic import objects
from oslo_log import log

from quintupleo_power.drift import compare
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import snapshots
from quintupleo_power.node import internal_info
from quintupleo_power.node import server_access
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

KEY = internal_info.BASELINE

# Where a node has on its disk what Ironic deployed. A deployment, a cleaning
# or a tear-down takes the server as it is.
_DEPLOYED = frozenset((
    states.ACTIVE,
    states.RESCUE, states.RESCUING, states.RESCUEWAIT, states.RESCUEFAIL,
    states.UNRESCUING, states.UNRESCUEFAIL,
    states.SERVICING, states.SERVICEWAIT, states.SERVICEFAIL))

_MAX_AGE = 86400.0

# The sentence that this conductor has reported last, by node.
_reported = cache.Cache(_MAX_AGE)

# Nova's record of actions, which stays as it is, by launch of a server.
_actions = cache.Cache(_MAX_AGE)


def is_deployed(node: objects.Node) -> bool:
    """Return whether a node has on its disk what Ironic deployed."""
    return node.provision_state in _DEPLOYED


def check_before_action(node: objects.Node, host: cloud.HostCloud,
                        server: servers.Server) -> None:
    """Report what Ironic's own action is about to cover up.

    :param node: the node, locked; is not saved.
    :raises: Refused if it is not the server that the node's system is on, or
        what :func:`find_in` raises.
    """
    difference = find_in(node, host, server)
    if difference is None:
        return
    report(node, difference)
    if difference.kind is compare.Kind.REPLACED:
        raise transitions.Refused(difference.sentence)
    if difference.kind is compare.Kind.DISK_LOST:
        _set(node, dataclasses.replace(_get(node), lost=difference.sentence))


def forget_device(node: objects.Node) -> None:
    """Forget what the server was booted from, which is about to change."""
    kept = _get(node)
    if kept and kept.device:
        _set(node, dataclasses.replace(kept, device=None))


def set_after_action(node: objects.Node, server: servers.Server,
                     request_id: str | None = None,
                     rebuilt: bool = False) -> None:
    """Set the baseline to the server as Ironic's action has left it.

    Ironic saves the node when a request is done.

    :param rebuilt: whether the disk is as Ironic wanted it, whatever became
        of the one before.
    """
    kept = _get(node)
    lost = kept.lost if kept and is_deployed(node) and not rebuilt else None
    _set(node, compare.Baseline.of(server, lost, request_id))


def find(task: task_manager.TaskManager, host: cloud.HostCloud,
         server: servers.Server) -> compare.Difference | None:
    """Return what is not as Ironic left it, where Ironic only asks.

    :param server: the server, as read a few seconds ago at most.
    :returns: None, too, if the host cloud cannot be asked now: then the next
        comparison finds it.
    """
    node = task.node
    try:
        difference = find_in(node, host, server)
        if difference is None or (
                _reported.get(node.uuid) == difference.sentence):
            return difference
        # A shared lock does not keep Ironic from acting meanwhile, and what
        # was read may be older than what that left.
        node = objects.Node.get_by_uuid(task.context, node.uuid)
        if task.shared and node.reservation:
            return None
        return find_in(node, host, server_access.get_read_only(
            node, host, cached=False))
    except errors.PASSING as exc:
        LOG.debug('What was done to server %(server)s of node %(node)s '
                  'cannot be found out: %(reason)s',
                  {'server': server.id, 'node': node.uuid, 'reason': exc})
        return None


def find_in(node: objects.Node, host: cloud.HostCloud,
            server: servers.Server) -> compare.Difference | None:
    """Return what a reading of a server shows that is not as Ironic left it.

    :raises: ServerError or CloudUnreachable if the host cloud cannot be asked
        now what was done with the server.
    """
    kept = _get(node)
    if kept is None:
        return None
    return compare.find(kept, server, is_deployed(node),
                        lambda: _read_actions(host, kept, server),
                        lambda: _read_snapshot(host, server))


def report(node: objects.Node, difference: compare.Difference) -> None:
    """Put a difference into the log and the node's history, once."""
    if _reported.get(node.uuid) == difference.sentence:
        return
    _reported.put(node.uuid, difference.sentence)
    LOG.warning('Node %(node)s: %(sentence)s',
                {'node': node.uuid, 'sentence': difference.sentence})
    conductor_utils.node_history_record(
        node, event=difference.sentence, event_type=states.MONITORING)


def _read_snapshot(host, server):
    """Return the name of the snapshot that a server was restored from."""
    try:
        found = snapshots.Snapshot.of_image(
            host.capabilities.own_image(server))
    except errors.Forbidden:
        return None
    return found and found.name


def _read_actions(host, kept, server):
    """Return the actions since a baseline, or None if that is not known."""
    key = (server.id, server.launched_at, kept.updated, kept.request_id)
    known = _actions.get(key)
    if known is None and kept.updated and server.updated:
        try:
            rows = instance_actions.since(
                host.compute, server.id, kept.updated,
                request_id=kept.request_id)
        except errors.PASSING:
            # What nothing explains now may be explained a moment later.
            raise
        except errors.HostCloudError as exc:
            LOG.debug('The host cloud does not say what was done with server '
                      '%(server)s: %(reason)s',
                      {'server': server.id, 'reason': exc})
            return None
        known = [(row['action'], row['start_time']) for row in rows]
        _actions.put(key, known)
    return known


def _get(node):
    kept = node.driver_internal_info.get(KEY)
    if not kept:
        return None
    names = [field.name for field in dataclasses.fields(compare.Baseline)]
    # Another release of the driver may have kept more or less.
    return compare.Baseline(**{name: kept.get(name) for name in names})


def _set(node, kept):
    node.set_driver_internal_info(KEY, dataclasses.asdict(kept))
