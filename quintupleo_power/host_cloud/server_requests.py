# SPDX-License-Identifier: Apache-2.0
"""Requests of the state table, carried out without an Ironic."""

from collections import abc
import time
import typing

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power import transitions

# Most seconds between two reads of a server.
_POLL_INTERVAL = 2.0
# Each attempt comes so many seconds later after a failure than the last one.
_INTERVAL = 1.0
_ATTEMPTS = 5


class Operations:
    """Carries requests out with the servers of one project.

    All methods return the server, and raise Refused or HostCloudError.
    """

    def __init__(self, compute: service.Service, timeout: float):
        """Use a compute service; one request may take so many seconds."""
        self._compute = compute
        self._timeout = timeout
        self._actions = actions.Actions(
            compute, server_cache.ServerCache(compute), _POLL_INTERVAL)

    def read(self, server_id: str) -> servers.Server:
        """Wait until a server has no task."""
        return self._run(server_id, lambda state: ())

    def stop(self, server_id: str) -> servers.Server:
        """Bring a server to where a snapshot can be created."""
        return self._run(server_id, lambda state: transitions.plan(
            state, transitions.Request.SNAPSHOT,
            transitions.Device.DISK)[:-1])

    def run(self, server_id: str, request: transitions.Request,
            body: typing.Any = None,
            device: transitions.Device = transitions.Device.DISK
            ) -> servers.Server:
        """Carry a request out, booting from a device.

        :param body: see :meth:`host_cloud.actions.Actions.send`.
        """
        return self._run(server_id, lambda state: transitions.plan(
            state, request, device), body)

    def _run(self, server_id: str, plan: abc.Callable[
            [transitions.ServerState], tuple[transitions.Action, ...]],
            body: typing.Any = None) -> servers.Server:
        """Run the actions that a plan has for a server's state."""
        deadline = time.monotonic() + self._timeout
        number = 0
        while True:
            try:
                server = self._actions.settle(
                    servers.read(self._compute, server_id), deadline)
                for action in plan(server.state):
                    server = self._actions.run(server, action, deadline, body)
                return server
            except errors.PLAN_AGAIN as exc:
                pause = max(_INTERVAL * number, exc.retry_after)
                number += 1
                if (number == _ATTEMPTS
                        or time.monotonic() + pause >= deadline):
                    raise
            time.sleep(pause)
