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

"""Looks at servers whose actions are under way, shared by all that wait.

A few waiting threads look each at its own server. From SHARED_FROM on they
look together: one of them reads what has changed in the project of late, for
all, so that the requests that waiting costs do not grow with the machines.
"""

import contextlib
import datetime
import threading
import time

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers

LOG = log.getLogger(__name__)

SHARED_FROM = 3
# Seconds between the end of a round and the next one: what it took, so that
# the host cloud has half of the time to itself, but within these. A round that
# took long may just have stood in line behind the actions themselves.
SHORTEST = 0.5
LONGEST = 2.0
# Seconds that the host cloud's clock may be behind without a look for each
# server by itself.
CLOCK_SKEW = 300


class _Round:
    """One list for all that wait for it.

    :ivar has_begun: whether it is too late to be served by it.
    :ivar is_over: whether it has ended.
    :ivar found: servers by UUID.
    :ivar failure: the error that it ended with, or None.
    """

    def __init__(self):
        self.has_begun = False
        self.is_over = False
        self.found = {}
        self.failure = None


class Looks:
    """Readings of the servers of one project that are waited for."""

    def __init__(self, compute):
        """Read through a compute service.

        :param compute: the compute :class:`service.Service`.
        """
        self._compute = compute
        self._changed = threading.Condition()
        self._waiting = {}
        self._round = None
        self._next_at = 0.0

    @contextlib.contextmanager
    def waiting(self, server_id):
        """Count as one of those that wait.

        :param server_id: UUID of the server, whose action was just sent.
        """
        key = (server_id, threading.get_ident())
        with self._changed:
            self._waiting[key] = time.time()
        try:
            yield
        finally:
            with self._changed:
                del self._waiting[key]

    def are_shared(self):
        """Tell whether so many wait that they look together."""
        return len(self._waiting) >= SHARED_FROM

    def look(self, server_id):
        """Read a server as it is now, or a moment later.

        :param server_id: its UUID.
        :returns: a :class:`servers.Server`.
        :raises: NotFound or another HostCloudError.
        """
        if not self.are_shared():
            return servers.read(self._compute, server_id)
        server = self._in_a_round().get(server_id)
        if server is None or server.state.vm_state == 'deleted':
            return servers.read(self._compute, server_id)
        return server

    def _in_a_round(self):
        """Take part in the next round, or lead it.

        :returns: the servers that have changed of late, by UUID.
        """
        with self._changed:
            while self._round is not None and self._round.has_begun:
                self._changed.wait()
            current, leads = self._round, self._round is None
            if leads:
                current = self._round = _Round()
            while not leads and not current.is_over:
                self._changed.wait()
        if leads:
            self._lead(current)
        if current.failure:
            raise current.failure
        return current.found

    def _lead(self, current):
        time.sleep(max(0.0, self._next_at - time.monotonic()))
        with self._changed:
            current.has_begun = True
            since = min(self._waiting.values()) - CLOCK_SKEW
        begun = time.monotonic()
        try:
            # The time of the oldest that is waited for, by our clock.
            moment = datetime.datetime.fromtimestamp(
                since, datetime.timezone.utc)
            for page in servers.read_pages(
                    self._compute,
                    {'changes-since': f'{moment:%Y-%m-%dT%H:%M:%SZ}'}):
                current.found.update((server.id, server) for server in page)
        except errors.HostCloudError as exc:
            current.failure = exc
        finally:
            took = time.monotonic() - begun
            with self._changed:
                current.is_over = True
                self._round = None
                self._next_at = (begun + took
                                 + min(max(took, SHORTEST), LONGEST))
                self._changed.notify_all()
            LOG.debug('One look at %(found)s servers for %(waiting)s that are '
                      'waited for took %(took).1f s',
                      {'found': len(current.found),
                       'waiting': len(self._waiting), 'took': took})
