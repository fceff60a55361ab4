# SPDX-License-Identifier: Apache-2.0
"""What is known of the servers of one project, shared by all that ask.

Many readers are served from one list, an action makes what is known of its
server stale at once, and a list that fails is an error for all that waited
for it.
"""

import collections
from concurrent import futures
import threading
import time

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers

LOG = log.getLogger(__name__)

# Servers that are asked for within this many seconds are watched.
WATCHED = 300.0
# From so many watched servers on a list is worth a try ...
LIST_FROM = 2
# ... unless the project holds more than so many times the servers that are
# watched: then a read of each is cheaper (benchmarks/power_sync.py).
BREAK_EVEN = 25
# To find out of a project's size up to so many are read all the same, as a
# conductor that starts has asked for few of those that it manages yet ...
FIRST_LOOK = 10000
# ... and again after so many seconds.
SIZE_MAX_AGE = 3600.0
# Readers of single servers at once from whom on they read a list together.
CROWD = 4
# A list serves for so many times what it took, however old readings may be:
# one that takes longer than that would otherwise be read anew without end.
SERVES_FOR = 2


class _List:
    """A list on its way, or the last one.

    :ivar begun: a ``time.monotonic`` value.
    :ivar ended: another one, None while it is on its way.
    :ivar failure: the error that it ended with, if it did.
    """

    def __init__(self, begun):
        self.begun = begun
        self.ended = None
        self.failure = None

    def serves_for(self):
        """Tell for how long it serves at least, in seconds from its begin."""
        if self.ended is None or self.failure:
            return 0.0
        return SERVES_FOR * (self.ended - self.begun)


class View:
    """The servers of one project of a host cloud."""

    def __init__(self, compute):
        """Read through a compute service.

        :param compute: the compute :class:`service.Service`.
        """
        self._compute = compute
        self._changed = threading.Condition()
        self._known = {}
        self._ids = {}
        self._acted = {}
        # As servers were at the end of what was done to them: news to nobody
        # but who plans the next action.
        self._left = collections.OrderedDict()
        self._asked = collections.OrderedDict()
        self._listing = None
        self._last = _List(float('-inf'))
        # One thread reads all lists: each that reads one keeps megabytes of
        # memory for the next, and Ironic watches with many.
        self._reader = futures.ThreadPoolExecutor(
            1, thread_name_prefix='quintupleo-list')
        self._size = None
        self._sized_at = 0.0
        self._readers = 0

    def watch(self, reference, max_age):
        """Read a server, together with others where that is cheaper.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that an earlier reading may be old, or more
            where a list takes long; 0 for one of this server alone that
            begins now.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        if max_age > 0:
            now = time.monotonic()
            with self._changed:
                self._watch(reference, now)
                max_age = max(max_age, self._last.serves_for())
            found = self._shared(reference, now - max_age,
                                 lambda: self._enough(now))
            if found is not None:
                return found
        return self.server(reference)

    def server(self, reference, max_age=0.0):
        """Read a server by itself, which is the quickest for one.

        Where many are read at the same time a list is the quickest for all.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that an earlier reading may be old; with 0 the
            reading begins now.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        begun = time.monotonic()
        with self._changed:
            known = self._find(reference, begun - max_age) if max_age else None
            if known is not None:
                return known
            self._readers += 1
            crowd = self._readers
        try:
            return (self._in_a_crowd(reference, begun - max_age, crowd)
                    or self._by_itself(reference, begun))
        finally:
            with self._changed:
                self._readers -= 1

    def recent(self, reference, max_age):
        """Tell what is known of a server, without a request.

        That may be how it was left at the end of an action, which says
        nothing of what has become of it since.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that the reading may be old.
        :returns: a :class:`servers.Server`, or None.
        """
        since = time.monotonic() - max_age
        with self._changed:
            return (self._find(reference, since)
                    or self._find(reference, since, self._left))

    def _by_itself(self, reference, begun):
        server = servers.read(self._compute, reference)
        with self._changed:
            self._keep(server, begun)
            self._ids[reference] = server.id
        return server

    def _in_a_crowd(self, reference, since, readers):
        """Serve one of many readers from a list that all of them share.

        :param readers: how many there were when it came.
        :returns: the server, or None if it is to be read by itself.
        """
        if readers < CROWD or not self._is_sized(time.monotonic()):
            return None
        return self._shared(reference, since,
                            lambda: self._worth(self._readers))

    def acted(self, server_id):
        """Forget a server, as something happens to it from now on.

        :param server_id: its UUID.
        """
        with self._changed:
            self._acted[server_id] = time.monotonic()
            self._known.pop(server_id, None)
            self._left.pop(server_id, None)

    def left(self, server):
        """Remember how a server was when what was done to it was over.

        :param server: the :class:`servers.Server`.
        """
        now = time.monotonic()
        with self._changed:
            self._left[server.id] = (now, server)
            while next(iter(self._left.values()))[0] < now - WATCHED:
                self._left.popitem(last=False)

    def _shared(self, reference, since, enough):
        """Serve a reader from what is known, or from a list.

        :param since: a ``time.monotonic`` value, of a reading that would be
            too old.
        :param enough: tells how long a list may be to be worth it, 0 if none
            is.
        :returns: the server, or None if it has to be read by itself.
        """
        came = time.monotonic()
        with self._changed:
            while True:
                known = self._find(reference, since)
                if known is not None:
                    return known
                last = self._last
                of_late = last.begun > since
                if of_late and last.failure and last.ended > came:
                    raise last.failure
                if self._listing is None:
                    break
                self._changed.wait()
            if of_late and not last.failure:
                # The list lacks it: it was acted on, is new or is gone.
                return None
            most = enough()
            if not most:
                return None
            listing = self._listing = _List(time.monotonic())
        self._in_one_thread(self._read_all, listing, most)
        with self._changed:
            return self._find(reference, since)

    def _in_one_thread(self, function, *args):
        try:
            reading = self._reader.submit(function, *args)
        except RuntimeError:
            # Python ends, or can have no more threads. In the second case it
            # is asked for all the same, as soon as there is one.
            function(*args)
        else:
            reading.result()

    def _find(self, reference, since, known=None):
        begun, server = (self._known if known is None else known).get(
            self._ids.get(reference, reference), (None, None))
        if server is None or begun <= since:
            return None
        # A name may have gone over to another server.
        return server if reference in (server.id, server.name) else None

    def _watch(self, reference, now):
        """Note that a server was asked for, and which are so no more."""
        self._asked[reference] = now
        self._asked.move_to_end(reference)
        while next(iter(self._asked.values())) < now - WATCHED:
            self._asked.popitem(last=False)

    def _enough(self, now):
        """Tell how long a list for those that watch may be, 0 for none."""
        if len(self._asked) < LIST_FROM:
            return 0
        if not self._is_sized(now):
            return max(BREAK_EVEN * len(self._asked), FIRST_LOOK)
        return self._worth(len(self._asked))

    def _worth(self, readers):
        most = BREAK_EVEN * readers
        return most if self._size <= most else 0

    def _is_sized(self, now):
        return self._size is not None and now - self._sized_at <= SIZE_MAX_AGE

    def _read_all(self, listing, enough):
        """Read the project's servers, page by page, for all that wait."""
        if listing.ended is not None:
            return
        try:
            found, complete = self._pages(enough)
        except errors.HostCloudError as exc:
            listing.failure = exc
            raise
        else:
            with self._changed:
                self._keep_all(found, listing.begun, complete)
        finally:
            with self._changed:
                listing.ended = time.monotonic()
                self._last, self._listing = listing, None
                self._changed.notify_all()

    def _pages(self, enough):
        """Read pages until there are no more, or more than is worth it.

        :returns: the servers, and whether these are all.
        """
        found = []
        for page in servers.read_pages(self._compute):
            found += page
            if len(found) > enough:
                self._size, self._sized_at = len(found), time.monotonic()
                LOG.info('The project holds more than %(found)s servers, of '
                         'which %(watched)s are watched: reading each of '
                         'those by itself',
                         {'found': len(found), 'watched': len(self._asked)})
                return found, False
        self._size, self._sized_at = len(found), time.monotonic()
        return found, True

    def _keep_all(self, found, begun, complete):
        """Take a list for what is known; what is not in it is not known."""
        self._known = {
            server_id: entry for server_id, entry in self._known.items()
            if entry[0] >= begun}
        names = collections.Counter(server.name for server in found)
        for server in found:
            self._keep(server, begun)
            if (complete and names[server.name] == 1
                    and server.name in self._asked):
                self._ids[server.name] = server.id
        self._ids = {reference: server_id
                     for reference, server_id in self._ids.items()
                     if reference in self._asked}
        self._acted = {server_id: acted
                       for server_id, acted in self._acted.items()
                       if acted >= begun}

    def _keep(self, server, begun):
        if self._acted.get(server.id, -1.0) < begun:
            self._known[server.id] = (begun, server)
