# SPDX-License-Identifier: Apache-2.0
"""Requests of the state table, carried out without an Ironic."""

import time

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions

# Most seconds between two reads of a server.
_POLL_INTERVAL = 2.0
# Seconds between two plans, and how many of them there are.
_INTERVAL = 1.0
_PLANS = 5


class Operations:
    """Carries requests out with the servers of one project."""

    def __init__(self, compute, timeout):
        """Use a compute service.

        :param timeout: seconds that one request may take.
        """
        self._compute = compute
        self._timeout = timeout
        self._actions = actions.Actions(
            compute, server_cache.ServerCache(compute), _POLL_INTERVAL)

    def read(self, server_id):
        """Return a :class:`host_cloud.servers.Server` without a task."""
        return self._read(server_id, time.monotonic() + self._timeout)

    def stop(self, server_id):
        """Bring a server to where a snapshot of it can be created.

        :returns: the :class:`host_cloud.servers.Server`.
        :raises: Refused or HostCloudError.
        """
        return self._repeat(server_id, lambda state: transitions.plan(
            state, transitions.Request.SNAPSHOT,
            transitions.Device.DISK)[:-1])

    def run(self, server_id, request, argument=None,
            device=transitions.Device.DISK):
        """Carry a request out.

        :param request: a :class:`transitions.Request`.
        :param argument: see :meth:`host_cloud.actions.Actions.send`.
        :param device: the :class:`transitions.Device` to boot from.
        :returns: the :class:`host_cloud.servers.Server` afterwards.
        :raises: Refused or HostCloudError.
        """
        return self._repeat(
            server_id, lambda state: transitions.plan(state, request, device),
            argument)

    def _repeat(self, server_id, plan, argument=None):
        deadline = time.monotonic() + self._timeout
        for number in range(_PLANS):
            try:
                return self._once(server_id, plan, argument, deadline)
            except errors.PLAN_AGAIN as exc:
                pause = max(_INTERVAL * number, exc.retry_after)
                if (number == _PLANS - 1
                        or time.monotonic() + pause >= deadline):
                    raise
            time.sleep(pause)

    def _once(self, server_id, plan, argument, deadline):
        server = self._read(server_id, deadline)
        for action in plan(server.state):
            server = self._actions.run(server, action, deadline, argument)
        return server

    def _read(self, server_id, deadline):
        return self._actions.settle(
            servers.read(self._compute, server_id), deadline)
