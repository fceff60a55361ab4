# SPDX-License-Identifier: Apache-2.0
"""Requests of the state table, carried out without an Ironic."""

from collections import abc
import time
import typing

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions

# Each attempt comes so many seconds later after a failure than the last one.
_INTERVAL = 1.0
_ATTEMPTS = 5


class Operations:
    """Carries requests out with the servers of one project.

    All methods return the server, and raise Refused or HostCloudError.
    """

    def __init__(self, host: cloud.HostCloud, timeout: float):
        """Use a host cloud; one request may take so many seconds."""
        self._host = host
        self._timeout = timeout

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
                server = self._host.actions.settle(
                    servers.read(self._host.compute, server_id), deadline)
                for action in plan(server.state):
                    server = self._host.actions.run(server, action, deadline,
                                                    body)
                return server
            except errors.PLAN_AGAIN as exc:
                pause = max(_INTERVAL * number, exc.retry_after)
                number += 1
                if (number == _ATTEMPTS
                        or time.monotonic() + pause >= deadline):
                    raise
            time.sleep(pause)
