# SPDX-License-Identifier: Apache-2.0
"""The servers of one project, read for many who ask.

One list serves a whole pass of power sync, and after it a list of what has
changed since. Who waits for the end of an action shares such a list, too.
"""

import collections
from collections import abc
import contextlib
import datetime
import threading
import time

from oslo_log import log

from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import shared_call

LOG = log.getLogger(__name__)

# Threads that ask at the same time from whom on they share a list.
SHARED_FROM = 3
# Such a list is worth it while the project holds at most so many times their
# number: reading each of these takes longer then (benchmarks/power_sync.py).
BREAK_EVEN = 25
# A project that holds more servers is not listed. How many it holds is found
# out again after so many seconds.
LONGEST_LIST = 10000
SIZE_AGE = 3600.0
# Seconds after which the whole project is listed again. Changes that do not
# touch a server's own row, such as a volume, are seen no earlier.
WHOLE_LIST_AGE = 600.0
# Seconds that the clocks of the host cloud's machines may be apart. A Nova
# behind uWSGI does not show its time: that of the tokens is taken for it.
CLOCK_SKEW = 300.0
# Seconds before a poll, at least, and before any shared list, at most. What
# lists cost the host cloud, its actions wait for.
POLL_PAUSE, LONGEST_PAUSE = 0.3, 2.0


class ServerCache:
    """Readings of the servers of one project, by UUID or unique name.

    Whatever reads may raise NotFound or NotUnique.
    """

    def __init__(self, compute: service.Service,
                 described: capabilities.Capabilities):
        """Use a compute service, and what completes the servers it shows."""
        self._compute = compute
        self._capabilities = described
        self._lock = threading.RLock()
        # They are listed again before they are so old.
        self._servers = cache.Cache(2 * WHOLE_LIST_AGE)
        # Their UUIDs by name.
        self._ids = cache.Cache(2 * WHOLE_LIST_AGE)
        # When an action was sent to a server last, or seen to end.
        self._acted = cache.Cache(WHOLE_LIST_AGE)
        # What power sync has asked for: few nodes need no list.
        self._asked = cache.Cache(WHOLE_LIST_AGE)
        # Since when somebody waits for the end of an action, for each one.
        self._waiting: list[float] = []
        self._readers = 0
        # How many servers the project holds, by no key.
        self._size = cache.Cache(SIZE_AGE)
        # The begin of the last whole list, and of the last list that brought
        # it up to date: all that it holds is as it was then.
        self._listed_at = self._refreshed_at = float('-inf')
        self._whole_list = shared_call.SharedCall(
            self._read_whole_list, 'quintupleo-list',
            lambda took: min(took / 2, LONGEST_PAUSE))
        self._refresh = shared_call.SharedCall(
            self._read_changes, 'quintupleo-refresh')
        self._poll = shared_call.SharedCall(
            self._read_polled, 'quintupleo-poll',
            lambda took: max(POLL_PAUSE, min(2 * took, LONGEST_PAUSE)))

    def get(self, reference: str) -> servers.Server:
        """Return a server as a reading shows it that begins now."""
        return self._capabilities.complete(self._get(reference))

    def _get(self, reference):
        begun = time.monotonic()
        with self._lock:
            self._readers += 1
            shares = (self._readers >= SHARED_FROM
                      and self._serves(self._readers))
        try:
            if shares:
                self._whole_list()
                found = self._find(reference, begun)
                if found:
                    return found
            return self._read(reference)
        finally:
            with self._lock:
                self._readers -= 1

    def get_cached(self, reference: str, max_age: float) -> servers.Server:
        """Return a server as of at most some seconds ago, as Nova shows it."""
        if max_age <= 0:
            return self._get(reference)
        since = time.monotonic() - max_age
        self._asked.put(reference, True)
        found = self._find(reference, since)
        if not found and self._refreshed_at <= since:
            asked = len(self._asked.items())
            if asked > 1 and self._serves(asked) is not False:
                self._refresh(join=True)
                found = self._find(reference, since)
        return found or self._read(reference)

    def _serves(self, number):
        """Return whether a list beats so many reads; None if not known."""
        size = self._size.get(None)
        return size and size <= min(LONGEST_LIST, BREAK_EVEN * number)

    def poll(self, server_id: str) -> servers.Server:
        """Return a server whose action is under way, as it is now."""
        begun = time.monotonic()
        with self._lock:
            shares = len(self._waiting) >= SHARED_FROM
        if shares:
            self._poll()
            found = self._find(server_id, begun)
            if found:
                return found
        return self._read(server_id)

    @contextlib.contextmanager
    def waiting(self) -> abc.Iterator[None]:
        """Count the thread as one that polls from now on."""
        begun = time.monotonic()
        with self._lock:
            self._waiting.append(begun)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(begun)

    def invalidate(self, server_id: str) -> None:
        """Drop all readings of a server that began before now."""
        with self._lock:
            self._acted.put(server_id, time.monotonic())
            self._servers.drop(server_id)

    def _read(self, reference):
        server = servers.read(self._compute, reference)
        with self._lock:
            self._keep(server)
            self._ids.put(reference, server.id)
        return server

    def _find(self, reference, since):
        """Return a server that a reading since a moment shows, or None."""
        with self._lock:
            server = self._servers.get(self._ids.get(reference) or reference)
            # A name may have gone over to another server.
            if server is None or reference not in (server.id, server.name):
                return None
            read_at = server.read_at
            if read_at >= self._listed_at:
                read_at = max(read_at, self._refreshed_at)
            return server if read_at >= since else None

    def _keep(self, server):
        known = self._servers.get(server.id)
        if ((self._acted.get(server.id) or float('-inf')) >= server.read_at
                or (known and known.read_at > server.read_at)):
            return
        if server.state.vm_state == 'deleted':
            # Only a list of changes shows it: to read it is a NotFound.
            self._servers.drop(server.id)
        else:
            self._servers.put(server.id, server)

    def _read_whole_list(self):
        """List the project, unless it turns out to be too large."""
        begun, found = time.monotonic(), []
        for page in servers.read_pages(self._compute):
            found += page
            if len(found) > LONGEST_LIST:
                LOG.info('The project holds more than %s servers, too many '
                         'to list them for those that are nodes: each of '
                         'these is read by itself', LONGEST_LIST)
                self._size.put(None, len(found))
                return
        names = collections.Counter(server.name for server in found)
        with self._lock:
            self._size.put(None, len(found))
            # A name may be that of two servers by now.
            self._ids.clear()
            for server in found:
                self._keep(server)
                if names[server.name] == 1:
                    self._ids.put(server.name, server.id)
            self._listed_at = self._refreshed_at = begun

    def _read_changes(self):
        """Bring the last whole list up to date, or make another one."""
        begun = time.monotonic()
        if begun - self._listed_at > WHOLE_LIST_AGE:
            self._read_whole_list()
            return
        self._take_changes(self._refreshed_at)
        with self._lock:
            self._refreshed_at = max(self._refreshed_at, begun)

    def _read_polled(self):
        """Read what has changed since somebody waits for it."""
        with self._lock:
            since = min(self._waiting, default=time.monotonic())
        self._take_changes(since)

    def _take_changes(self, since):
        """Read what has changed since a ``time.monotonic`` value."""
        moment = datetime.datetime.fromtimestamp(
            time.time() - (time.monotonic() - since)
            + (self._compute.clock_ahead or 0.0) - CLOCK_SKEW,
            datetime.timezone.utc)
        for page in servers.read_pages(self._compute, **{
                'changes-since': f'{moment:%Y-%m-%dT%H:%M:%SZ}'}):
            with self._lock:
                for server in page:
                    self._keep(server)
