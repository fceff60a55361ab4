# SPDX-License-Identifier: Apache-2.0
"""Sets of snapshots: all servers of an environment as they were at a moment.

Each server has a snapshot like any other; properties of its image say which
set it belongs to, and of how many servers that is.
"""

import collections
import dataclasses
import functools
import threading
import time

from quintupleo_power.environments import failures
from quintupleo_power.environments import mark
from quintupleo_power.environments import operations
from quintupleo_power.environments import parallel
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import snapshots
from quintupleo_power import transitions

# Seconds to wait for the snapshot of one server, or its return.
TIMEOUT = 1800

# Properties of the images, beside those of any snapshot and the mark.
_SERVERS = 'quintupleo_snapshot_servers'
_RAN = 'quintupleo_snapshot_ran'
_YES, _NO = 'yes', 'no'

_RUNNING = (transitions.Situation.ACTIVE, transitions.Situation.PAUSED)
# Nova's words for what lets a guest write to its disk.
_BOOTS = ('start', 'reboot', 'rescue', 'unrescue', 'rebuild', 'resume')
_SECOND = len('2026-01-01T00:00:00')

_STOPPED, _SNAPSHOTS, _RESTORED, _STARTED, _REMOVED = (
    'servers stopped', 'snapshots', 'servers restored', 'servers started',
    'snapshots removed')


@dataclasses.dataclass(frozen=True)
class Set:
    """A set of snapshots.

    :ivar environment: the environment's name.
    :ivar name: its name.
    :ivar created_at: when it was begun, as Glance writes it.
    :ivar servers: how many servers it is of.
    :ivar snapshots: dict of :class:`snapshots.Snapshot` by the servers' keys.
    :ivar is_complete: whether an environment can be brought back to it.
    """

    environment: str
    name: str
    created_at: str
    servers: int
    snapshots: dict
    is_complete: bool


class Sets:
    """The sets of one project."""

    def __init__(self, services, shown, timeout=TIMEOUT):
        """Use a cloud.

        :param services: what :func:`host_cloud.sdk.services` returns.
        :param shown: the :class:`progress.Progress`.
        :param timeout: seconds to wait for one server.
        """
        self._compute = services[0]
        self._snapshots = snapshots.Snapshots(*services)
        self._operations = operations.Operations(self._compute, timeout)
        self._shown = shown
        self._timeout = timeout

    def all(self, environment=None):
        """Read sets, complete or not.

        :param environment: the environment's name, None for all.
        :returns: list of :class:`Set`, the oldest first.
        :raises: HostCloudError
        """
        found = collections.defaultdict(dict)
        for each in self._snapshots.all(
                visibility='private',
                **({mark.ENVIRONMENT: environment} if environment else {})):
            owner, key = (each.properties.get(name) for name in (
                mark.ENVIRONMENT, mark.KEY))
            if owner and key and _SERVERS in each.properties:
                found[owner, each.name][key] = each
        return [self._set(*names, kept) for names, kept in found.items()]

    def _set(self, environment, name, kept):
        first = next(iter(kept.values()))
        count = first.properties[_SERVERS]
        count = int(count) if count.isdecimal() else 0
        return Set(environment, name, first.created_at, count, kept,
                   len(kept) == count and all(
                       map(self._snapshots.is_complete, kept.values())))

    def create(self, environment, name, found):
        """Make a set, all of it or nothing.

        Servers that run are stopped for it, and started at the end.

        :param environment: the environment's name.
        :param name: what to call the set.
        :param found: its servers, a list of :class:`inventory.Found`.
        :raises: failures.Failure or HostCloudError.
        """
        there = self._find(environment, name)
        if there and there.is_complete:
            raise failures.Failure(
                f'Environment "{environment}" has a snapshot "{name}" of '
                f'{there.created_at} already: delete it with "openstack '
                f'quintupleo environment snapshot delete {environment} '
                f'{name}", or use another name')
        if there:
            self._shown.note(f'Snapshot "{name}" is not complete and is '
                             'removed first')
            self._remove(there)
        servers = {}
        self._each(found, lambda each: servers.update({
            each: self._operations.read(each.id)}))
        self._each(found, lambda each: self._snapshots.prepare(
            servers[each], name))
        running = [each for each in found if transitions.situation(
            servers[each].state) in _RUNNING]
        self._shown.begin('snapshot', {
            _STOPPED: len(found), _SNAPSHOTS: len(found),
            _STARTED: len(running)})
        stopped = {}
        try:
            self._each(found, lambda each: stopped.update({
                each: self._operations.stop(each.id)}), _STOPPED)
            self._each(found, lambda each: self._take(
                stopped[each], name, **{
                    **mark.metadata(environment, each.key),
                    _SERVERS: str(len(found)),
                    _RAN: _YES if each in running else _NO}), _SNAPSHOTS)
        except BaseException:
            # The user's interrupt, too: a part of a set is of no use.
            left = self._find(environment, name)
            if left:
                self._remove(left)
            raise
        finally:
            self._start(running)

    def _take(self, server, name, **properties):
        """Make the snapshot of a server that was stopped before."""
        now = self._operations.read(server.id)
        if now.state.vm_state == 'stopped':
            deadline = time.monotonic() + self._timeout
            now = self._operations.run(
                server.id, transitions.Request.SNAPSHOT,
                self._snapshots.body(server, name, **properties))
            self._snapshots.finish(now, name, deadline)
            if not self._has_booted(server, now):
                return
        raise errors.NotPossible(
            'it was started before its snapshot was made, and would not fit '
            'to the others: put its node into maintenance if that was '
            "Ironic's power sync, and make the snapshot again")

    def _has_booted(self, before, now):
        """Whether a stopped server has run before its image was begun."""
        known = (before.updated or '')[:_SECOND]
        rows = (instance_actions.since(self._compute, now, known) if known
                else [])
        for row in rows:
            if row['action'] == 'createImage':
                return False
            if row['action'] in _BOOTS and (
                    row['start_time'][:_SECOND] > known):
                return True
        return False

    def restore(self, environment, name, found, start=False):
        """Bring an environment's servers back to a set, switched off.

        :param environment: the environment's name.
        :param name: what the set is called.
        :param found: its servers, a list of :class:`inventory.Found`.
        :param start: whether to start those that ran at that moment.
        :raises: failures.Failure or HostCloudError.
        """
        chosen = self._require(environment, name)
        there = {each.key: each for each in found}
        missing = sorted(set(chosen.snapshots) - set(there))
        if missing:
            raise failures.Failure(
                f'Environment "{environment}" lacks '
                f'{", ".join(missing)} of snapshot "{name}": "openstack '
                'quintupleo environment scale" or "create" makes servers')
        for key in sorted(set(there) - set(chosen.snapshots)):
            self._shown.note(f'{there[key].body.name} is not in snapshot '
                             f'"{name}" and stays as it is')
        wanted = [there[key] for key in chosen.snapshots]
        ran = [each for each in wanted if start and chosen.snapshots[
            each.key].properties.get(_RAN) == _YES]
        self._each(wanted, lambda each: self._check(
            each, chosen.snapshots[each.key]))
        self._shown.begin('restore', {
            _RESTORED: len(wanted), _STARTED: len(ran)})
        self._each(wanted, lambda each: self._bring_back(
            each.id, chosen.snapshots[each.key]), _RESTORED)
        self._start(ran)

    def _check(self, found, snapshot):
        """See what stands in the way of a server's return."""
        server = self._operations.read(found.id)
        if transitions.refusal(server.state):
            raise transitions.Refused(transitions.refusal(server.state))
        if server.id == snapshot.server:
            self._snapshots.check(server, snapshot)
        elif snapshot.volumes:
            raise errors.NotPossible(
                'it was made anew since then, and its volumes with it: their '
                'snapshots do not fit them')

    def _bring_back(self, server_id, snapshot):
        deadline = time.monotonic() + self._timeout
        self._operations.run(server_id, transitions.Request.REBUILD,
                             {'imageRef': snapshot.id})
        self._snapshots.restore_volumes(snapshot, deadline)

    def _start(self, found):
        self._each(found, lambda each: self._operations.run(
            each.id, transitions.Request.POWER_ON), _STARTED)

    def delete(self, environment, name):
        """Remove a set, complete or not.

        :param environment: the environment's name.
        :param name: what it is called.
        :returns: whether there was one.
        :raises: failures.Failure or HostCloudError.
        """
        there = self._find(environment, name)
        if there:
            self._remove(there)
        return there is not None

    def delete_all(self, environment):
        """Remove all sets of an environment, as its volumes go after them.

        :param environment: the environment's name.
        :raises: failures.Failure or HostCloudError.
        """
        for each in self.all(environment):
            self._remove(each)

    def _remove(self, chosen):
        kept = chosen.snapshots
        self._shown.begin('removing', {_REMOVED: len(kept)})
        parallel.run(
            [parallel.Task(key, functools.partial(
                _told, key, self._snapshots.delete, each))
             for key, each in kept.items()],
            threading.Event(), lambda task: self._shown.done(_REMOVED))

    def _find(self, environment, name):
        return next((each for each in self.all(environment)
                     if each.name == name), None)

    def _require(self, environment, name):
        known = self.all(environment)
        chosen = next((each for each in known if each.name == name), None)
        if chosen is None:
            raise failures.Failure(
                f'Environment "{environment}" has no snapshot "{name}"; it '
                'has ' + (', '.join(each.name for each in known) or 'none'))
        if not chosen.is_complete:
            raise failures.Failure(
                f'Snapshot "{name}" of environment "{environment}" is not '
                'complete: make it again')
        return chosen

    def _each(self, found, function, title=None):
        """Do something with servers, all at once."""
        parallel.run(
            [parallel.Task(each.key, functools.partial(
                _told, each, function, each)) for each in found],
            threading.Event(),
            (lambda task: self._shown.done(title)) if title else None)


def _told(what, function, *args):
    """Say of which server an error is."""
    try:
        return function(*args)
    except (errors.HostCloudError, transitions.Refused) as exc:
        name = what if isinstance(what, str) else what.body.name
        raise failures.Failure(f'{name}: {exc}')
