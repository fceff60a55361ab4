# SPDX-License-Identifier: Apache-2.0
"""Snapshots of environments: all servers as they were at one moment.

Each server has a snapshot like any other. Properties of its image say to
which snapshot of the environment it belongs, and of how many servers that is.
"""

import collections
import functools
import threading
import time
import typing

from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import errors as host_errors
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import server_requests
from quintupleo_power import transitions

# Seconds to wait for the snapshot of one server, or its restoration.
TIMEOUT = 1800

# Properties of the images, beside those of any snapshot and of ownership.
_SERVERS = 'quintupleo_snapshot_servers'
_RAN = 'quintupleo_snapshot_ran'

_RUNNING = (transitions.Situation.ACTIVE, transitions.Situation.PAUSED)
# Nova's names of the actions after which a guest may write to its disk.
_BOOTS = ('start', 'reboot', 'rescue', 'unrescue', 'rebuild', 'resume')

_STOPPED, _SNAPSHOTS, _RESTORED, _STARTED, _REMOVED = (
    'servers stopped', 'snapshots', 'servers restored', 'servers started',
    'snapshots removed')


class EnvironmentSnapshot(typing.NamedTuple):
    """A snapshot of an environment of some number of servers.

    :ivar created_at: as Glance writes it.
    :ivar snapshots: dict of :class:`host_cloud.snapshots.Snapshot` by the
        servers' keys.
    :ivar is_complete: whether an environment can be restored from it.
    """

    environment: str
    name: str
    created_at: str
    servers: int
    snapshots: dict
    is_complete: bool


class EnvironmentSnapshots:
    """The snapshots of environments in one project.

    All methods raise EnvironmentsError; the servers that they take are lists
    of :class:`owned_resources.Resource`.
    """

    def __init__(self, host, progress, timeout=TIMEOUT):
        """Use a host cloud; wait so many seconds for a server."""
        self._compute = host.compute
        self._snapshots = host.snapshots
        self._operations = server_requests.Operations(host, timeout)
        self._progress = progress
        self._timeout = timeout

    @errors.translated()
    def all(self, environment=None):
        """Return snapshots of one environment or all, the oldest first."""
        found = collections.defaultdict(dict)
        for each in self._snapshots.all(
                visibility='private', **(
                    {ownership.ENVIRONMENT: environment} if environment
                    else {})):
            owner = ownership.parse(each.properties)
            if owner and _SERVERS in each.properties:
                found[owner[0], each.name][owner[1]] = each
        return [self._snapshot(*names, members)
                for names, members in found.items()]

    def _snapshot(self, environment, name, members):
        first = next(iter(members.values()))
        count = first.properties[_SERVERS]
        count = int(count) if count.isdecimal() else 0
        return EnvironmentSnapshot(
            environment, name, first.created_at, count, members,
            len(members) == count and all(
                map(self._snapshots.is_complete, members.values())))

    def create(self, environment, name, servers):
        """Create a snapshot, all of it or nothing.

        Servers that run are stopped for it, and started at the end.
        """
        self._remove_incomplete(environment, name)
        states = self._each(servers,
                            lambda each: self._operations.read(each.id))
        self._each(servers, lambda each: self._snapshots.prepare(
            states[each], name))
        running = [each for each in servers if transitions.situation(
            states[each].state) in _RUNNING]
        self._progress.begin('snapshot', {
            _STOPPED: len(servers), _SNAPSHOTS: len(servers),
            _STARTED: len(running)})
        try:
            stopped = self._each(
                servers, lambda each: self._operations.stop(each.id), _STOPPED)
            self._each(servers, lambda each: self._take(
                stopped[each], name, **{
                    **ownership.metadata(environment, each.key),
                    _SERVERS: str(len(servers)),
                    _RAN: 'yes' if each in running else 'no'}), _SNAPSHOTS)
        except BaseException:
            # The user's interrupt, too: a part of a snapshot is of no use.
            self.delete(environment, name)
            raise
        finally:
            self._start(running)

    def _remove_incomplete(self, environment, name):
        existing = self._find(environment, name)
        if existing and existing.is_complete:
            raise errors.EnvironmentsError(
                f'Environment "{environment}" has a snapshot "{name}" of '
                f'{existing.created_at} already: delete it with "openstack '
                f'quintupleo environment snapshot delete {environment} '
                f'{name}", or use another name')
        if existing:
            self._progress.note(f'Snapshot "{name}" is not complete and is '
                                'removed first')
            self._remove(existing)

    def _take(self, server, name, **properties):
        """Create the snapshot of a server that was stopped before."""
        now = self._operations.read(server.id)
        if now.state.vm_state == 'stopped':
            deadline = time.monotonic() + self._timeout
            now = self._operations.run(
                server.id, transitions.Request.SNAPSHOT,
                self._snapshots.body(server, name, **properties))
            self._snapshots.finish(now, name, deadline)
            if not self._has_booted(server, now):
                return
        raise host_errors.NotPossible(
            'it was started before its snapshot was made, and would not fit '
            'to the others: put its node into maintenance if that was '
            "Ironic's power sync, and make the snapshot again")

    def _has_booted(self, before, now):
        """Return whether a stopped server ran before its image was begun."""
        known = before.updated or ''
        for row in known and instance_actions.since(
                self._compute, now.id, known):
            if row['action'] == 'createImage':
                return False
            if row['action'] in _BOOTS and row['start_time'] > known:
                return True
        return False

    def restore(self, environment, name, servers, start=False):
        """Restore servers from a snapshot; start those that ran, or none."""
        snapshots = self._require(environment, name).snapshots
        by_key = {each.key: each for each in servers}
        missing = sorted(set(snapshots) - set(by_key))
        if missing:
            raise errors.EnvironmentsError(
                f'Environment "{environment}" lacks '
                f'{", ".join(missing)} of snapshot "{name}": "openstack '
                'quintupleo environment scale" or "create" makes servers')
        for key in sorted(set(by_key) - set(snapshots)):
            self._progress.note(f'{by_key[key].body.name} is not in snapshot '
                                f'"{name}" and stays as it is')
        wanted = [by_key[key] for key in snapshots]
        ran = [each for each in wanted if start
               and snapshots[each.key].properties.get(_RAN) == 'yes']
        self._each(wanted, lambda each: self._check(
            each, snapshots[each.key]))
        self._progress.begin('restore', {
            _RESTORED: len(wanted), _STARTED: len(ran)})
        self._each(wanted, lambda each: self._restore(
            each.id, snapshots[each.key]), _RESTORED)
        self._start(ran)

    def _check(self, resource, snapshot):
        """Raise what prevents the restoration of a server."""
        server = self._operations.read(resource.id)
        if transitions.refusal(server.state):
            raise transitions.Refused(transitions.refusal(server.state))
        if server.id == snapshot.server:
            self._snapshots.check(server, snapshot)
        elif snapshot.volumes:
            raise host_errors.NotPossible(
                'it was made again since then, and its volumes with it: '
                'their snapshots do not fit them')

    def _restore(self, server_id, snapshot):
        deadline = time.monotonic() + self._timeout
        self._operations.run(server_id, transitions.Request.REBUILD,
                             {'imageRef': snapshot.id})
        self._snapshots.restore_volumes(snapshot, deadline)

    def _start(self, servers):
        self._each(servers, lambda each: self._operations.run(
            each.id, transitions.Request.POWER_ON), _STARTED)

    def delete(self, environment, name):
        """Delete a snapshot, complete or not; return whether it existed."""
        existing = self._find(environment, name)
        if existing:
            self._remove(existing)
        return existing is not None

    def delete_all(self, environment):
        """Delete all snapshots of an environment, then its volumes can go."""
        for each in self.all(environment):
            self._remove(each)

    def _remove(self, snapshot):
        members = snapshot.snapshots.values()
        self._progress.begin('removing', {_REMOVED: len(members)})
        self._each(members, self._snapshots.delete, _REMOVED,
                   lambda each: each.properties[ownership.KEY])

    def _find(self, environment, name):
        return next((each for each in self.all(environment)
                     if each.name == name), None)

    def _require(self, environment, name):
        existing = {each.name: each for each in self.all(environment)}
        if name not in existing:
            raise errors.EnvironmentsError(
                f'Environment "{environment}" has no snapshot "{name}"; it '
                'has ' + (', '.join(existing) or 'none'))
        if not existing[name].is_complete:
            raise errors.EnvironmentsError(
                f'Snapshot "{name}" of environment "{environment}" is not '
                'complete: make it again')
        return existing[name]

    def _each(self, items, function, title=None,
              name=lambda server: server.body.name):
        """Call a function with all items at once; return its results by item.

        :param title: what progress counts, if anything.
        :param name: function that returns an item's name in errors.
        """
        results = {}

        def call(item):
            try:
                results[item] = function(item)
            except (host_errors.HostCloudError, transitions.Refused) as exc:
                raise errors.EnvironmentsError(f'{name(item)}: {exc}')

        task_graph.run(
            [task_graph.Task(each.id, functools.partial(call, each))
             for each in items],
            threading.Event(),
            (lambda task: self._progress.done(title)) if title else None)
        return results
