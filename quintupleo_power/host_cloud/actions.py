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

"""Nova server actions: sent once, watched until Nova says how they ended."""

import collections
import threading
import time

from oslo_log import log
import tenacity

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

_BODIES = {
    transitions.Action.START: lambda image: {'os-start': None},
    transitions.Action.STOP: lambda image: {'os-stop': None},
    transitions.Action.HARD_REBOOT: lambda image: {
        'reboot': {'type': 'HARD'}},
    transitions.Action.SOFT_REBOOT: lambda image: {
        'reboot': {'type': 'SOFT'}},
    transitions.Action.RESCUE: lambda image: {
        'rescue': {'rescue_image_ref': image}},
    transitions.Action.UNRESCUE: lambda image: {'unrescue': None},
    transitions.Action.UNPAUSE: lambda image: {'unpause': None},
}


class Pace:
    """When to look at a server whose action is under way.

    The first look comes just before the time that the action took of late,
    going by the quicker ones of a mixture, the next ones close behind it, then
    ever further apart: few requests, and little lost between the end and its
    being seen.
    """

    REMEMBERED = 8
    FIRST = 0.4
    SHORTEST = 0.1

    def __init__(self, longest):
        """Start without a history.

        :param longest: seconds between two looks at the most.
        """
        self._longest = longest
        self._lock = threading.Lock()
        self._seen = collections.defaultdict(
            lambda: collections.deque(maxlen=self.REMEMBERED))

    def record(self, action, seconds):
        """Remember how long an action took."""
        with self._lock:
            self._seen[action].append(seconds)

    def waits(self, action):
        """Yield the seconds to wait before each look, without end."""
        with self._lock:
            seen = sorted(self._seen[action])
        usual = seen[len(seen) // 4] if seen else None
        if usual is None:
            wait = self.FIRST
            yield wait
        else:
            yield min(max(usual * 0.95, self.SHORTEST), self._longest * 2)
            wait = min(max(usual * 0.12, self.SHORTEST), self._longest)
            yield wait
        while True:
            wait = min(wait * 1.6, self._longest)
            yield wait


class Actions:
    """Runs actions on the servers of one host cloud."""

    # Nova writes the end of an event right after it cleared the task.
    EVENT_LAG = 5.0

    def __init__(self, compute, poll_interval):
        """Run actions through a compute service.

        :param compute: the compute :class:`connection.Service`.
        :param poll_interval: seconds between two looks at the most.
        """
        self._compute = compute
        self._pace = Pace(poll_interval)

    def settle(self, server, deadline):
        """Wait until nothing is under way on a server.

        :param server: a :class:`servers.Server`.
        :param deadline: a ``time.monotonic`` value.
        :returns: the :class:`servers.Server` without a task.
        :raises: ActionTimeout, or another HostCloudError.
        """
        task = server.state.task_state
        if not task:
            return server
        LOG.info('Waiting for task %(task)s of server %(server)s to end',
                 {'task': task, 'server': server.id})
        return self._watch(server.id, task, deadline)

    def run(self, server, action, deadline, rescue_image=None):
        """Send one action and see it end.

        :param server: the :class:`servers.Server`, with nothing under way.
        :param action: a :class:`quintupleo_power.transitions.Action`.
        :param deadline: a ``time.monotonic`` value.
        :param rescue_image: UUID of the image, for a rescue.
        :returns: the :class:`servers.Server` after the action.
        :raises: Conflict if the server is in no state for it,
            ActionFailed if Nova took it and did not do it,
            ActionTimeout if it did not end in time,
            or another HostCloudError.
        """
        begun = time.monotonic()
        request_id = self._compute.post(
            f'/servers/{server.id}/action', _BODIES[action](rescue_image))
        LOG.debug('Sent %(action)s to server %(server)s as %(request)s',
                  {'action': action.value, 'server': server.id,
                   'request': request_id})
        seen = self._watch(server.id, action.value, deadline)
        took = time.monotonic() - begun
        failure = self._failure(server.id, request_id, deadline)
        if failure:
            raise errors.ActionFailed(
                f'Nova could not {action.value} server {server.id}: '
                f'{seen.fault or failure}')
        if not transitions.reached(action, seen.state):
            raise errors.ActionFailed(
                f'Server {server.id} was {seen.status} with power state '
                f'{seen.state.power_state} after {action.value}: '
                f"{seen.fault or 'its console log may tell why'}")
        self._pace.record(action.value, took)
        return seen

    def _watch(self, server_id, name, deadline):
        """Look at a server until it has no task in progress."""
        waits = self._pace.waits(name)
        time.sleep(next(waits))
        watching = tenacity.Retrying(
            retry=(tenacity.retry_if_result(
                lambda seen: seen.state.task_state)
                | tenacity.retry_if_exception_type(_PASSING)),
            wait=lambda state: next(waits),
            stop=_stop_at(deadline))
        try:
            return watching(servers.read, self._compute, server_id)
        except tenacity.RetryError as exc:
            last = exc.last_attempt
            raise errors.ActionTimeout(
                f'"{name}" of server {server_id} did not end within the time '
                'that the request or [quintupleo]action_timeout gives: '
                + (str(last.exception()) if last.failed else
                   f'its task is still {last.result().state.task_state}, as '
                'when its compute host is down'))

    def _failure(self, server_id, request_id, deadline):
        """Read from Nova's own record why an action failed.

        :returns: a sentence, or None if it did not fail, or if the record
            does not tell: then the server's state has to.
        """
        path = f'/servers/{server_id}/os-instance-actions/{request_id}'
        waits = self._pace.waits('event')
        watching = tenacity.Retrying(
            retry=(tenacity.retry_if_result(
                lambda events: not all(event.get('finish_time')
                                       for event in events))
                | tenacity.retry_if_exception_type(_PASSING)),
            wait=lambda state: next(waits),
            stop=_stop_at(min(deadline, time.monotonic() + self.EVENT_LAG)))
        try:
            events = watching(
                lambda: self._compute.get(path)['instanceAction']['events'])
        except (tenacity.RetryError, errors.NotFound, errors.Forbidden,
                KeyError):
            LOG.debug('Nova does not tell how %(request)s of server '
                      '%(server)s ended',
                      {'request': request_id, 'server': server_id})
            return None
        for event in events:
            if event.get('result') == 'Error':
                return (event.get('details')
                        or f"{event['event']} ended with an error")
        return None


# Faults of the host cloud that may pass while an action goes on.
_PASSING = (errors.ServerError, errors.CloudUnreachable)


def _stop_at(deadline):
    return lambda state: time.monotonic() >= deadline
