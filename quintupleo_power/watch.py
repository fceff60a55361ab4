# SPDX-License-Identifier: Apache-2.0
"""What Ironic knew of a node's server, kept with the node and compared.

It is kept when a power request is done and looked at where Ironic only asks:
power sync, validation, node health. None of these needs a request more for
it, unless something is not as it was.
"""

import dataclasses

from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic import objects
from oslo_log import log

from quintupleo_power import drift
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import errors
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

KEY = 'quintupleo_seen'

# Seconds that a reading may be old by which Ironic is told of a change.
NEWS_MAX_AGE = 1.0

# Where a node has on its disk what Ironic deployed. A deployment, a cleaning
# or a tear-down takes the server as it is.
_DEPLOYED = frozenset((
    states.ACTIVE,
    states.RESCUE, states.RESCUING, states.RESCUEWAIT, states.RESCUEFAIL,
    states.UNRESCUING, states.UNRESCUEFAIL,
    states.SERVICING, states.SERVICEWAIT, states.SERVICEFAIL))

# Seconds for which these are kept.
_MAX_AGE = 86400.0

# Sentences that were told by this conductor, by node.
_told = cache.Cache(_MAX_AGE)

# What Nova recorded about a launch, by node: that does not change any more;
# and the snapshot that the server was launched from.
_records = cache.Cache(_MAX_AGE)
_snapshots = cache.Cache(_MAX_AGE)

_SECONDS = len('2026-01-01T00:00:00')


def has_a_system(node):
    """Tell whether a node has on its disk what Ironic deployed.

    :param node: an Ironic node.
    :returns: True or False.
    """
    return node.provision_state in _DEPLOYED


def before_action(node, host, server):
    """See what Ironic's own action is about to cover up.

    :param node: an Ironic node, locked; is not saved.
    :param host: its :class:`quintupleo_power.host_cloud.cloud.HostCloud`.
    :param server: its server.
    :raises: Refused if it is not the server that the node's system is on, or
        what :func:`find_in` raises.
    """
    finding = find_in(node, host, server)
    if finding is None:
        return
    tell(node, finding)
    if finding.kind is drift.Kind.REPLACED:
        raise transitions.Refused(finding.sentence)
    if finding.kind is drift.Kind.DISK_LOST:
        _set(node, dataclasses.replace(_seen(node), lost=finding.sentence))


def acting(node):
    """Forget what the server was booted from: that is about to change.

    Nothing is claimed of it when the action is lost sight of.

    :param node: an Ironic node, locked; is not saved.
    """
    seen = _seen(node)
    if seen and seen.device:
        _set(node, dataclasses.replace(seen, device=None))


def after_action(node, server, request_id=None, rebuilt=False):
    """Keep what a server is like when Ironic has acted on it.

    Ironic saves the node when a request is done.

    :param node: an Ironic node, locked.
    :param server: its server.
    :param request_id: identifier of the request to Nova, None if it is not
        known.
    :param rebuilt: whether its disk is as Ironic wanted it, whatever became
        of the one before.
    """
    seen = _seen(node)
    lost = (seen.lost if seen and has_a_system(node) and not rebuilt
            else None)
    _set(node, drift.Seen.of(server, lost, request_id))


def find(task, info, host, server):
    """Tell what is not as Ironic left it, where Ironic only asks.

    :param task: a task from TaskManager.
    :param info: the node's settings.
    :param host: its host cloud.
    :param server: its server, as read a few seconds ago at most.
    :returns: a :class:`drift.Finding`; None if there is nothing, or if the
        host cloud cannot be asked now: then the next look finds it.
    """
    try:
        return _find(task, info, host, server)
    except errors.PASSING as exc:
        LOG.debug('What was done to server %(server)s of node %(node)s '
                  'cannot be found out: %(reason)s',
                  {'server': server.id, 'node': task.node.uuid,
                   'reason': exc})
        return None


def _find(task, info, host, server):
    finding = find_in(task.node, host, server)
    if finding is None or _told.get(task.node.uuid) == finding.sentence:
        return finding
    # A shared lock does not keep Ironic from acting meanwhile, and what was
    # read may be older than what that left.
    node = objects.Node.get_by_uuid(task.context, task.node.uuid)
    if task.shared and node.reservation:
        return None
    return find_in(node, host, host.server(info.server))


def find_in(node, host, server):
    """Tell what a reading of a server shows that is not as Ironic left it.

    :param node: an Ironic node.
    :param host: its host cloud.
    :param server: its server.
    :returns: a :class:`drift.Finding`, or None.
    :raises: ServerError or CloudUnreachable if the host cloud cannot be asked
        what the server was rebuilt from.
    """
    seen = _seen(node)
    if seen is None:
        return None
    return drift.find(seen, server, has_a_system(node),
                      lambda: _actions(node, host, seen, server),
                      lambda: _snapshot(node, host, server))


def tell(node, finding):
    """Put a finding into the log and the node's history, once.

    :param node: an Ironic node.
    :param finding: a :class:`drift.Finding`.
    """
    if _told.get(node.uuid) == finding.sentence:
        return
    _told.put(node.uuid, finding.sentence)
    LOG.warning('Node %(node)s: %(sentence)s',
                {'node': node.uuid, 'sentence': finding.sentence})
    conductor_utils.node_history_record(
        node, event=finding.sentence, event_type=states.MONITORING)


def _snapshot(node, host, server):
    """Tell which snapshot a server was restored from, if any."""
    key = (server.id, server.launched_at)
    known_key, known = _snapshots.get(node.uuid) or (None, None)
    if key == known_key:
        return known
    try:
        known = host.snapshot_of(server)
    except errors.PASSING:
        # A disk that may just have been restored is not to be called lost.
        raise
    except errors.HostCloudError as exc:
        LOG.debug('The host cloud does not tell what server %(server)s was '
                  'rebuilt from: %(reason)s',
                  {'server': server.id, 'reason': exc})
        return None
    _snapshots.put(node.uuid, (key, known))
    return known


def _actions(node, host, seen, server):
    """Read what was done with a server, once for each new launch of it."""
    key = (server.id, server.launched_at, seen.updated, seen.request_id)
    known_key, known = _records.get(node.uuid) or (None, None)
    if key == known_key:
        return known
    if not seen.updated or not server.updated:
        return None
    try:
        known = [(row['action'], row['start_time'][:_SECONDS])
                 for row in host.actions_after(server, seen.request_id,
                                               seen.updated)]
    except errors.HostCloudError as exc:
        LOG.debug('The host cloud does not tell what was done with server '
                  '%(server)s of node %(node)s: %(reason)s',
                  {'server': server.id, 'node': node.uuid, 'reason': exc})
        return None
    _records.put(node.uuid, (key, known))
    return known


def _seen(node):
    kept = node.driver_internal_info.get(KEY)
    if not kept:
        return None
    names = [field.name for field in dataclasses.fields(drift.Seen)]
    # Another release of the driver may have kept more or less.
    return drift.Seen(**{name: kept.get(name) for name in names})


def _set(node, seen):
    node.set_driver_internal_info(KEY, dataclasses.asdict(seen))
