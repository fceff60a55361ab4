# SPDX-License-Identifier: Apache-2.0
"""Looks at servers whose actions are under way, shared by all that wait.

A few waiting threads look each at its own server. From SHARED_FROM on they
look together: one of them reads what has changed in the project since the last
time, for all, so that neither the requests that waiting costs nor their
answers grow with the machines.
"""

import collections
import contextlib
import dataclasses
import datetime
import threading
import time
import typing

from oslo_log import log
from oslo_utils import timeutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers

LOG = log.getLogger(__name__)

SHARED_FROM = 3
# Seconds between two rounds. While actions are on their way it is as long as
# the last one took, within these: what a look costs the host cloud, the
# actions wait for. Otherwise it is the shortest. Before the first one it is
# FIRST.
SHORTEST = 0.25
LONGEST = 2.0
FIRST = 1.0
# Seconds that the host cloud's clock may be behind ours without a look for
# each server by itself, where its answers do not tell.
CLOCK_SKEW = 300
# Seconds that the clocks of the host cloud's own machines may be apart, and
# that a change may take to be seen, without a loss of time ...
OVERLAP = 5
# ... which is at most so many seconds: then all is read from the begin on.
ALL_AFTER = 10.0


class _Round:
    """One list for all that wait for it.

    :ivar has_begun: whether it is too late to be served by it.
    :ivar is_over: whether it has ended.
    :ivar failure: the error that it ended with, or None.
    """

    def __init__(self):
        self.has_begun = False
        self.is_over = False
        self.failure = None


@dataclasses.dataclass(frozen=True)
class _Wait:
    """One thread that waits for a server.

    :ivar since: a ``time.time`` value.
    :ivar begun: the same as a ``time.monotonic`` value.
    :ivar proves: tells of a reading, which may have begun before the wait,
        whether the end of what is waited for shows in it; None if that is
        not to be told.
    """

    since: float
    begun: float
    proves: typing.Callable[[servers.Server], bool] | None


class Looks:
    """Readings of the servers of one project that are waited for."""

    def __init__(self, compute):
        """Read through a compute service.

        :param compute: the compute :class:`service.Service`.
        """
        self._compute = compute
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        # Actions on their way to Nova, and that there are none any more.
        self._sending = 0
        self._all_sent = threading.Condition(lock)
        self._waiting = {}
        # Of each server that is waited for, what was read of it since then ...
        self._seen = {}
        # ... and which of these show the end.
        self._ended = set()
        # Changes up to then were seen, by the host cloud's clock ...
        self._seen_to = float('-inf')
        # ... and a round asked for all of them then, by ours.
        self._all_at = float('-inf')
        self._round = None
        # When the last round ended, and what it took.
        self._ended_at, self._took = float('-inf'), 0.0

    @contextlib.contextmanager
    def sending(self):
        """Count as one whose action is on its way to Nova."""
        with self._changed:
            self._sending += 1
        try:
            yield
        finally:
            with self._changed:
                self._sending -= 1
                if not self._sending:
                    self._all_sent.notify()

    @contextlib.contextmanager
    def waiting(self, server_id, proves=None):
        """Count as one of those that wait.

        :param server_id: UUID of the server, whose action was just sent.
        :param proves: function of a :class:`servers.Server` that tells
            whether that shows the end of the action, even if its reading
            began before the action was sent; None if there is none.
        """
        key = (server_id, threading.get_ident())
        wait = _Wait(time.time(), time.monotonic(), proves)
        with self._changed:
            if not self._waiting:
                self._ended_at, self._took = wait.begun, FIRST
            self._waiting[key] = wait
            self._forget(server_id)
        try:
            yield
        finally:
            with self._changed:
                del self._waiting[key]
                self._forget(server_id)

    def _forget(self, server_id):
        self._seen.pop(server_id, None)
        self._ended.discard(server_id)

    def are_shared(self):
        """Tell whether so many wait that they look together.

        :returns: True or False.
        """
        return len(self._waiting) >= SHARED_FROM

    def look(self, server_id):
        """Read a server as it is now, or a moment later.

        :param server_id: its UUID.
        :returns: a :class:`servers.Server`.
        :raises: NotFound or another HostCloudError.
        """
        if not self.are_shared():
            return servers.read(self._compute, server_id)
        self._in_a_round(server_id)
        with self._changed:
            server = self._seen.get(server_id)
        if server is not None and server.state.vm_state != 'deleted':
            return server
        found = servers.read(self._compute, server_id)
        with self._changed:
            # Another round may have found a newer state of it meanwhile.
            return (found if server else
                    self._seen.setdefault(server_id, found))

    def _in_a_round(self, server_id):
        """Take part in the next round, or lead it.

        One that has begun is enough if it finds what is waited for.
        """
        with self._changed:
            while self._round is not None and self._round.has_begun:
                self._changed.wait()
            if server_id in self._ended:
                return
            current, leads = self._round, self._round is None
            if leads:
                current = self._round = _Round()
            while not leads and not current.is_over:
                self._changed.wait()
        if leads:
            self._lead(current)
        if current.failure:
            raise current.failure

    def _lead(self, current):
        self._rest()
        begun, now, found = time.monotonic(), time.time(), []
        with self._changed:
            current.has_begun = True
        try:
            with self._changed:
                since = self._since(begun)
            moment = datetime.datetime.fromtimestamp(
                since, datetime.timezone.utc)
            for page in servers.read_pages(
                    self._compute,
                    {'changes-since': f'{moment:%Y-%m-%dT%H:%M:%SZ}'}):
                found += page
            with self._changed:
                self._keep(found, now)
        except errors.HostCloudError as exc:
            current.failure = exc
        finally:
            ended_at = time.monotonic()
            took = ended_at - begun
            with self._changed:
                current.is_over = True
                self._round = None
                self._ended_at, self._took = ended_at, took
                self._changed.notify_all()
            LOG.debug('One look at %(found)s servers for %(waiting)s that are '
                      'waited for took %(took).1f s',
                      {'found': len(found),
                       'waiting': len(self._waiting), 'took': took})

    def _rest(self):
        """Leave some time between the last round and the next one."""
        with self._changed:
            while True:
                rest = (min(max(self._took, SHORTEST), LONGEST)
                        if self._sending else SHORTEST)
                left = self._ended_at + rest - time.monotonic()
                if left <= 0:
                    return
                self._all_sent.wait(left)

    def _since(self, begun):
        """Tell from when on to ask for changes, by the host cloud's clock.

        :param begun: when the round began, a ``time.monotonic`` value.
        :returns: a ``time.time`` value.
        """
        oldest = min(self._waiting.values(), key=lambda wait: wait.begun)
        ahead = self._compute.clock_ahead
        all_from, all_at = oldest.since - CLOCK_SKEW, self._all_at
        since = all_from
        if ahead is not None:
            since = oldest.since + ahead - OVERLAP
            all_at = max(all_at, oldest.begun)
        if begun - all_at < ALL_AFTER:
            return max(since, self._seen_to)
        self._all_at = begun
        return all_from

    def _keep(self, found, now):
        """Take what a round has found for what is seen.

        :param found: list of :class:`servers.Server`.
        :param now: when the round began, a ``time.time`` value.
        """
        waits = collections.defaultdict(list)
        for (server_id, _), wait in self._waiting.items():
            waits[server_id].append(wait)
        for server in found:
            proofs = [
                (wait, wait.proves is not None and wait.proves(server))
                for wait in waits.get(server.id, ())]
            if proofs and all(proven for _, proven in proofs):
                self._ended.add(server.id)
            # One whose wait began later may have been read before its action.
            if proofs and all(proven or wait.begun <= server.read_at
                              for wait, proven in proofs):
                self._seen[server.id] = server
        changes = [change for change in map(_changed_at, found) if change]
        if changes:
            # A clock that is ahead must not hide what comes after it.
            ahead = self._compute.clock_ahead or 0.0
            self._seen_to = min(max(changes), now + ahead) - OVERLAP


def _changed_at(server):
    """When a server was changed, a ``time.time`` value; None if unknown."""
    try:
        return timeutils.parse_isotime(server.updated).timestamp()
    except (TypeError, ValueError):
        return None
