# SPDX-License-Identifier: Apache-2.0
"""Nova server actions: sent once, watched until Nova says how they ended."""

from collections import abc
import contextlib
import dataclasses
import threading
import time
import typing

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import poll_schedule
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power import transitions

LOG = log.getLogger(__name__)


def _body(action: transitions.Action, body: typing.Any) -> dict:
    """Return what Nova is sent for an action, see :meth:`Actions.send`."""
    bodies: dict[transitions.Action, dict] = {
        transitions.Action.START: {'os-start': None},
        transitions.Action.STOP: {'os-stop': None},
        transitions.Action.HARD_REBOOT: {'reboot': {'type': 'HARD'}},
        transitions.Action.SOFT_REBOOT: {'reboot': {'type': 'SOFT'}},
        transitions.Action.RESCUE: {'rescue': {'rescue_image_ref': body}},
        transitions.Action.UNRESCUE: {'unrescue': None},
        transitions.Action.UNPAUSE: {'unpause': None},
        transitions.Action.REBUILD: {'rebuild': body},
        transitions.Action.SNAPSHOT: {'createImage': body},
    }
    return bodies[action]


class _NotInTime(Exception):
    """What was waited for did not come; ``args[0]`` was seen last."""


def _poll(read: abc.Callable[[], typing.Any],
          is_over: abc.Callable[[typing.Any], bool],
          pauses: abc.Iterator[float], deadline: float) -> typing.Any:
    """Read until something is over, and return what was read last.

    The last read is at the deadline, a ``time.monotonic`` value. An error that
    may pass is passed over. A ``Retry-After`` is kept to, but for the last
    read.

    :raises: _NotInTime with what was read last, or with the error.
    """
    while True:
        asked = 0.0
        try:
            seen = read()
            if is_over(seen):
                return seen
        except errors.PASSING as exc:
            seen, asked = exc, min(exc.retry_after, LONGEST_RETRY_AFTER)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _NotInTime(seen)
        time.sleep(min(max(next(pauses), asked), left))


# A read of an action under way is worth repeating after this, whatever a
# proxy before Nova asks for.
LONGEST_RETRY_AFTER = 60.0

_NMI = 'NMI'
# What does harm when it is sent twice and leaves no trace in the server's
# state, with Nova's names of the instance actions.
_ONCE = {transitions.Action.HARD_REBOOT: 'reboot',
         transitions.Action.SOFT_REBOOT: 'reboot',
         transitions.Action.SNAPSHOT: 'createImage'}


@dataclasses.dataclass(frozen=True)
class UnderWay:
    """An action that Nova has taken.

    :ivar server: the server before it.
    :ivar request_id: identifier of the request, None if that is not known.
    :ivar begun: when it was taken, a ``time.monotonic`` value.
    """

    server: servers.Server
    action: transitions.Action
    request_id: str | None
    begun: float

    def leads_to(self, state: transitions.ServerState) -> bool:
        """Return whether a state is the one that the action leads to."""
        return transitions.reached(self.action, state,
                                   self.server.state.vm_state)


class Actions:
    """Runs actions on servers; a deadline is a ``time.monotonic`` value."""

    # Nova writes the end of an event right after it cleared the task.
    EVENT_LAG = 5.0
    # A request whose connection was cut may still be on its way.
    ARRIVAL_LAG = 3.0
    # Actions that are sent at the same time. Nova answers in turn: with more
    # of them polls come late, and the last ones may not be answered in time.
    AT_ONCE = 10

    def __init__(self, compute: service.Service,
                 cached: server_cache.ServerCache, poll_interval: float):
        """Use a service, with at most poll_interval seconds between polls."""
        self._compute = compute
        self._cached = cached
        self._schedule = poll_schedule.PollSchedule(poll_interval)
        self._line = threading.Semaphore(self.AT_ONCE)

    def settle(self, server: servers.Server,
               deadline: float) -> servers.Server:
        """Return a server when nothing is under way on it.

        :raises: ActionTimeout if its task does not end in time.
        """
        task = server.state.task_state
        if not task:
            return server
        LOG.info('Waiting for task %(task)s of server %(server)s to end',
                 {'task': task, 'server': server.id})
        return dataclasses.replace(
            self._poll_task(server.id, task, deadline),
            network_first=server.network_first)

    def send(self, server: servers.Server, action: transitions.Action,
             deadline: float, body: typing.Any = None) -> UnderWay:
        """Send one action to a server on which nothing is under way.

        :param body: for a rescue the UUID of the image, for a rebuild the
            members of its body (``imageRef`` among them), for a snapshot
            those of ``createImage``.
        :raises: Conflict if the server is in no state for it,
            ServerError or CloudUnreachable if it was not sent, or if only
            the server's state tells whether it was: never so for a reboot
            or a snapshot,
            OutcomeUnknown if it is not known whether one of these was sent,
            ActionTimeout if too many others were before it.
        """
        with self._acting(server):
            request_id = self._send(server, action, deadline, body)
        return UnderWay(server, action, request_id, time.monotonic())

    def wait(self, under_way: UnderWay, deadline: float) -> servers.Server:
        """Wait for the end of an action, and return the server after it.

        :raises: ActionFailed if Nova took it and did not do it,
            ActionTimeout if it did not end in time,
            OutcomeUnknown if nothing proves that it was done.
        """
        server, action = under_way.server, under_way.action
        with self._acting(server):
            seen = self._poll_task(server.id, action.value, deadline,
                                   under_way.begun)
        doubt = self._doubt(under_way, seen, deadline)
        if action is transitions.Action.REBUILD and not under_way.leads_to(
                seen.state):
            # Nova shows what it has rebuilt of a stopped server as running
            # for a moment; its instance action ends after the stop.
            seen = self._poll_task(server.id, 'stop', deadline)
            doubt = doubt and self._doubt(under_way, seen, deadline)
        if not under_way.leads_to(seen.state):
            raise errors.ActionFailed(
                f'Server {server.id} was {seen.status} with power state '
                f'{seen.state.power_state} after {action.value}: '
                f"{seen.fault or 'its console log may tell why'}")
        if doubt:
            raise doubt
        # No request may fail any more once the action is done.
        return dataclasses.replace(seen, network_first=server.network_first)

    def run(self, server: servers.Server, action: transitions.Action,
            deadline: float, body: typing.Any = None) -> servers.Server:
        """Send one action and wait for its end: :meth:`send`, :meth:`wait`."""
        return self.wait(self.send(server, action, deadline, body), deadline)

    @contextlib.contextmanager
    def _acting(self, server):
        """Invalidate readings from before and meanwhile."""
        self._cached.invalidate(server.id)
        try:
            yield
        finally:
            self._cached.invalidate(server.id)

    def inject_nmi(self, server: servers.Server) -> None:
        """Send a guest a non-maskable interrupt, once.

        That changes nothing that Nova knows of the server.

        :raises: Conflict if the server is in no state for it,
            ActionFailed if Nova took it and did not do it,
            OutcomeUnknown if it is not known whether it was sent or done.
        """
        try:
            # Since microversion 2.17.
            request_id = self._compute.post(
                f'/servers/{server.id}/action', {'trigger_crash_dump': None})
        except errors.NotFound:
            raise servers.not_found(server.id)
        except errors.TooManyRequests:
            raise
        except errors.PASSING as exc:
            raise _unknown(server.id, _NMI, exc)
        failure = self._failure(server, _NMI, 'trigger_crash_dump',
                                request_id,
                                time.monotonic() + 2 * self.EVENT_LAG)
        if failure:
            raise errors.ActionFailed(
                f'Nova could not inject an NMI into server {server.id}: '
                f'{failure}; the guest has to run, and the hypervisor of the '
                'host cloud has to know NMIs')

    def _send(self, server, action, deadline, body):
        """Send an action; find one that went out without an answer.

        Most are known by the server's state, or do no harm when they are sent
        again. A reboot or a snapshot sent twice does, and one not sent at all
        looks the same as one that is over.

        :returns: the request's identifier, None if that is not known.
        """
        try:
            with self._in_line(server, action, deadline):
                return self._compute.post(
                    f'/servers/{server.id}/action', _body(action, body))
        except errors.NotFound:
            raise servers.not_found(server.id)
        except errors.TooManyRequests:
            raise
        except errors.PASSING as exc:
            if action not in _ONCE:
                # A plan before it arrives would be for another state.
                exc.retry_after = max(exc.retry_after, self.ARRIVAL_LAG)
                raise
            return self._arrived(server, action, exc, deadline)

    @contextlib.contextmanager
    def _in_line(self, server, action, deadline):
        """Wait until few enough actions are on their way to Nova."""
        if not self._line.acquire(
                timeout=max(0, deadline - time.monotonic())):
            raise errors.ActionTimeout(
                f'The {action.value} of server {server.id} was not sent '
                'within the time that the request or '
                '[quintupleo]action_timeout gives: the host cloud did not '
                'answer to others that were sent before')
        try:
            yield
        finally:
            self._line.release()

    def _arrived(self, server, action, error, deadline):
        """Return the request of an action whose answer was lost.

        A server that nothing is under way on was changed last when its last
        such action ended, or later: one that began since then is ours.

        :param error: what came instead of the answer.
        :raises: the error if Nova has no such action, OutcomeUnknown if that
            cannot be found out.
        """
        LOG.info('No answer to the %(action)s of server %(server)s, looking '
                 'whether Nova has it: %(error)s',
                 {'action': action.value, 'server': server.id,
                  'error': error})
        sure_at = time.monotonic() + self.ARRIVAL_LAG
        try:
            found = _poll(
                lambda: instance_actions.latest(self._compute, server,
                                                _ONCE[action]),
                lambda found: found or time.monotonic() >= sure_at,
                self._schedule.pauses('arrival'), deadline)
        except (_NotInTime, errors.HostCloudError):
            raise _unknown(server.id, action.value, error)
        if not found:
            raise error
        if not instance_actions.is_later(found[0], server):
            # It may have been the last of the changes that were known.
            raise _unknown(server.id, action.value, error)
        return found[0].get('request_id')

    def _poll_task(self, server_id, name, deadline, begun=None):
        """Poll a server until its task ends; learn from when it began."""
        polls = 0

        def read() -> servers.Server:
            nonlocal polls
            polls += 1
            return self._cached.poll(server_id)

        pauses = self._schedule.pauses(name)
        try:
            with self._cached.waiting():
                time.sleep(max(0, min(next(pauses),
                                      deadline - time.monotonic())))
                server = _poll(read, lambda seen: not seen.state.task_state,
                               pauses, deadline)
        except _NotInTime as late:
            seen = late.args[0]
            raise errors.ActionTimeout(
                f'"{name}" of server {server_id} did not end within the time '
                'that the request or [quintupleo]action_timeout gives: '
                + (str(seen) if isinstance(seen, Exception) else
                   f'its task is still {seen.state.task_state}, as when its '
                   'compute host is down'))
        if begun is not None:
            self._schedule.learn(name, time.monotonic() - begun, polls)
        return server

    def _doubt(self, under_way, seen, deadline):
        """Return an OutcomeUnknown if nothing proves that an action was done.

        Where neither a change of the server does nor, of a snapshot, its
        image (:meth:`snapshots.Snapshots.finish`), the instance action has
        to; where the state shows a failure, the instance action shows why.

        :param seen: the server without a task.
        :raises: ActionFailed if the instance action shows that it failed.
        """
        server, action = under_way.server, under_way.action
        is_reached = under_way.leads_to(seen.state)
        if is_reached and _is_proved(under_way, seen):
            return None
        if not is_reached or action is transitions.Action.SNAPSHOT:
            deadline = min(deadline, time.monotonic() + self.EVENT_LAG)
        try:
            failure = self._failure(
                server, action.value, _ONCE.get(action, action.value),
                under_way.request_id, deadline,
                needs_end=action is transitions.Action.REBUILD)
        except errors.OutcomeUnknown as exc:
            return None if action is transitions.Action.SNAPSHOT else exc
        if failure:
            raise errors.ActionFailed(
                f'Nova could not {action.value} server {server.id}: '
                f'{seen.fault or failure}')
        return None

    def _failure(self, server, title, name, request_id, deadline,
                 needs_end=False):
        """Return why an action failed, None if its instance action has not.

        Nova writes a failure down before it clears the task. Where it hides
        the events or, by policy, all instance actions, all that can be known
        is that it took the action and shows no failure.

        :param title: what was asked for, by our name; ``name`` is Nova's.
        :param needs_end: whether only an end is proof.
        :raises: OutcomeUnknown if that cannot be found out.
        """
        found, in_time = self._last_reading(server, title, name, request_id,
                                            deadline)
        failure = instance_actions.failure(found)
        if failure or instance_actions.has_ended(found):
            return failure
        if needs_end or not in_time or not (
                found is None or instance_actions.is_without_events(found)):
            raise _unknown(server.id, title,
                           'no instance action shows that it has ended')
        if found is None:
            LOG.warning(
                'Nova does not permit to read instance actions '
                '(os_compute_api:os-instance-actions:show), and whether the '
                '%(name)s of server %(server)s has failed is judged by the '
                'state of the server alone',
                {'name': title, 'server': server.id})
        return None

    def _last_reading(self, server, title, name, request_id, deadline):
        """Read an instance action until it shows the end.

        One that shows no event is the last one, too, when it has stayed so
        for :data:`EVENT_LAG`.

        :returns: (what :func:`instance_actions.find` returns, whether it is
            the last one).
        :raises: OutcomeUnknown if it cannot be read.
        """
        shown: dict | None = {}
        since = time.monotonic()

        def is_over(found: dict | None) -> bool:
            nonlocal shown, since
            if found != shown:
                shown, since = found, time.monotonic()
            return instance_actions.has_ended(found) or (
                not instance_actions.events(found)
                and time.monotonic() - since >= self.EVENT_LAG)

        try:
            return _poll(
                lambda: instance_actions.find(self._compute, server, name,
                                              request_id),
                is_over, self._schedule.pauses('event'), deadline), True
        except _NotInTime as late:
            if isinstance(late.args[0], Exception):
                raise _unknown(server.id, title, late.args[0])
            return late.args[0], False


def _is_proved(under_way, seen):
    """Return whether a server where an action leads to proves its success.

    It does if it was elsewhere before. A rebuild is proved by a new time of
    launch, which Nova sets with the end of the task that spawns the guest.
    """
    if under_way.action is transitions.Action.REBUILD:
        return (seen.launched_at or '') > (under_way.server.launched_at or '')
    return not under_way.leads_to(under_way.server.state)


def _unknown(server_id, name, why):
    return errors.OutcomeUnknown(
        f'Whether server {server_id} got the {name} is not known '
        f'({why}): look at "openstack server event list {server_id}" before '
        'asking for it again')
