# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is known of the servers of one project, shared by all that ask.

Many readers are served from one list, an action makes what is known of its
server stale at once, and a list that fails is an error for all that waited
for it.
"""

import collections
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


class _List:
    """A list on its way, or the last one.

    :ivar begun: a ``time.monotonic`` value.
    :ivar failure: the error that it ended with, if it did.
    """

    def __init__(self, begun):
        self.begun = begun
        self.failure = None


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
        self._asked = collections.OrderedDict()
        self._listing = None
        self._listed = float('-inf')
        self._size = None
        self._sized_at = 0.0

    def watch(self, reference, max_age):
        """Read a server, together with others where that is cheaper.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that an earlier reading may be old; 0 for one
            of this server alone that begins now.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return (self._shared(reference, max_age) if max_age > 0 else None
                ) or self.server(reference)

    def server(self, reference, max_age=0.0):
        """Read a server by itself, which is the quickest for one.

        :param reference: UUID, or name if it is unique.
        :param max_age: seconds that an earlier reading may be old.
        :returns: a :class:`servers.Server`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        begun = time.monotonic()
        if max_age > 0:
            with self._changed:
                known = self._find(reference, begun - max_age)
            if known is not None:
                return known
        server = servers.read(self._compute, reference)
        with self._changed:
            self._keep(server, begun)
            self._ids[reference] = server.id
        return server

    def acted(self, server_id):
        """Forget a server, as something happens to it from now on."""
        with self._changed:
            self._acted[server_id] = time.monotonic()
            self._known.pop(server_id, None)

    def _shared(self, reference, max_age):
        """Serve a reader from what is known, or from a list.

        :returns: the server, or None if it has to be read by itself.
        """
        now = time.monotonic()
        with self._changed:
            self._watch(reference, now)
            while True:
                known = self._find(reference, now - max_age)
                if known is not None:
                    return known
                if self._listing is None:
                    break
                listing = self._listing
                while self._listing is listing:
                    self._changed.wait()
                if listing.failure and listing.begun > now - max_age:
                    raise listing.failure
                if listing.begun > now - max_age:
                    return self._find(reference, now - max_age)
            # A list of late lacks it: it was acted on, is new or is gone.
            if self._listed > now - max_age or (
                    not self._list_is_worth_it(now)):
                return None
            self._listing = _List(now)
        self._read_all(self._listing)
        with self._changed:
            return self._find(reference, now - max_age)

    def _find(self, reference, since):
        begun, server = self._known.get(
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

    def _list_is_worth_it(self, now):
        if len(self._asked) < LIST_FROM:
            return False
        return (not self._is_sized(now)
                or self._size <= BREAK_EVEN * len(self._asked))

    def _is_sized(self, now):
        return self._size is not None and now - self._sized_at <= SIZE_MAX_AGE

    def _read_all(self, listing):
        """Read the project's servers, page by page, for all that wait."""
        try:
            worth = BREAK_EVEN * len(self._asked)
            found, complete = self._pages(
                worth if self._is_sized(listing.begun)
                else max(worth, FIRST_LOOK))
        except errors.HostCloudError as exc:
            listing.failure = exc
            raise
        else:
            with self._changed:
                if complete:
                    self._listed = listing.begun
                self._keep_all(found, listing.begun, complete)
        finally:
            with self._changed:
                self._listing = None
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
