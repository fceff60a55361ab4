# SPDX-License-Identifier: Apache-2.0
"""Nova server actions: sent once, watched until Nova says how they ended."""

import contextlib
import dataclasses
import functools
import threading
import time

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import looks
from quintupleo_power.host_cloud import pace
from quintupleo_power.host_cloud import records
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

_BODIES = {
    transitions.Action.START: lambda argument: {'os-start': None},
    transitions.Action.STOP: lambda argument: {'os-stop': None},
    transitions.Action.HARD_REBOOT: lambda argument: {
        'reboot': {'type': 'HARD'}},
    transitions.Action.SOFT_REBOOT: lambda argument: {
        'reboot': {'type': 'SOFT'}},
    transitions.Action.RESCUE: lambda argument: {
        'rescue': {'rescue_image_ref': argument}},
    transitions.Action.UNRESCUE: lambda argument: {'unrescue': None},
    transitions.Action.UNPAUSE: lambda argument: {'unpause': None},
    transitions.Action.REBUILD: lambda argument: {'rebuild': argument},
    transitions.Action.SNAPSHOT: lambda argument: {'createImage': argument},
}


class _NotInTime(Exception):
    """What was waited for did not come; ``args[0]`` was seen last."""


def _wait_for(look, is_over, waits, deadline):
    """Look until something is over, the last time at the deadline.

    What passes by itself is passed over; what the host cloud asks for is
    kept to, but for not looking any more.

    :param look: makes one look.
    :param is_over: tells of what was seen whether it is over.
    :param waits: yields the seconds between two looks.
    :param deadline: a ``time.monotonic`` value.
    :returns: what was seen last.
    :raises: _NotInTime with what was seen last, or with the error.
    """
    while True:
        asked = 0
        try:
            seen = look()
            if is_over(seen):
                return seen
        except errors.PASSING as exc:
            seen, asked = exc, min(exc.retry_after, LONGEST_ASKED)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _NotInTime(seen)
        time.sleep(min(max(next(waits), asked), left))


# A read of an action under way is worth repeating after this, whatever a
# proxy before Nova asks for.
LONGEST_ASKED = 60.0

_REBOOTS = (transitions.Action.HARD_REBOOT, transitions.Action.SOFT_REBOOT)

_NMI = 'NMI'
# What does harm when it is sent twice and leaves no trace in the server's
# state, with the word that Nova's records have for it.
_ONCE = {**dict.fromkeys(_REBOOTS, 'reboot'),
         transitions.Action.SNAPSHOT: 'createImage'}
# What Nova takes in the state, too, that it leads to.
_TAKEN_THERE = (*_REBOOTS, transitions.Action.REBUILD)


@dataclasses.dataclass(frozen=True)
class UnderWay:
    """An action that Nova has taken.

    :ivar server: the :class:`servers.Server` before it.
    :ivar action: the :class:`quintupleo_power.transitions.Action`.
    :ivar request_id: identifier of the request, None if Nova does not tell.
    :ivar begun: when it was taken, a ``time.monotonic`` value.
    :ivar begun_in: the ``vm_state`` in which it was taken.
    :ivar was_reached: whether the server was where the action leads to.
    """

    server: servers.Server
    action: transitions.Action
    request_id: str | None
    begun: float
    begun_in: str
    was_reached: bool

    @property
    def leads_to(self):
        """The ``vm_state`` in which it leaves the server."""
        return transitions.leads_to(self.action, self.begun_in)


@dataclasses.dataclass
class _Watched:
    """What looks at a server have shown.

    :ivar server: the :class:`servers.Server` as it was seen last.
    :ivar looks: how many there were.
    :ivar shared: whether any was one for many servers.
    :ivar under_way_at: when the last one before that was answered, a
        ``time.monotonic`` value; None if there was none.
    """

    server: servers.Server | None = None
    looks: int = 0
    shared: bool = False
    under_way_at: float | None = None


class Actions:
    """Runs actions on the servers of one host cloud."""

    # Nova writes the end of an event right after it cleared the task.
    EVENT_LAG = 5.0
    # A request whose connection was cut may still be on its way.
    ARRIVAL_LAG = 3.0
    # How often an action is sent in the hope that the one before is over.
    TRIES = 3
    # Actions that are sent to the host cloud at the same time. Nova answers
    # in turn: with more of them each look would come after all of these, and
    # the last ones might not be answered in time.
    AT_ONCE = 10

    def __init__(self, compute, poll_interval):
        """Run actions through a compute service.

        :param compute: the compute :class:`service.Service`.
        :param poll_interval: seconds between two looks at the most.
        """
        self._compute = compute
        self._looks = looks.Looks(compute)
        self._pace = pace.Pace(poll_interval)
        self._line = threading.Semaphore(self.AT_ONCE)

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
        return self._watch(server.id, task, deadline,
                           self._pace.waits(task)).server

    def send(self, server, action, deadline, argument=None):
        """Send one action.

        :param server: the :class:`servers.Server`, with nothing under way.
        :param action: a :class:`quintupleo_power.transitions.Action`.
        :param deadline: a ``time.monotonic`` value.
        :param argument: for a rescue the UUID of the image, for a rebuild
            the members of its body (``imageRef`` among them), for a snapshot
            those of ``createImage``.
        :returns: the :class:`UnderWay`.
        :raises: Conflict if the server is in no state for it,
            ServerError or CloudUnreachable if it was not sent, or if only
            the server's state tells whether it was: never so for a reboot
            or a snapshot,
            OutcomeUnknown if it is not known whether one of these was sent,
            ActionTimeout if too many others were before it,
            or another HostCloudError.
        """
        request_id = self._send(server, action, deadline, argument)
        state = server.state
        return UnderWay(server, action, request_id, time.monotonic(),
                        state.vm_state, transitions.reached(
                            action, state, state.vm_state))

    def follow(self, earlier, action, deadline, argument=None):
        """Send an action as soon as an earlier one is over.

        Nova takes an action when no other is under way, and refuses it until
        then: to send it costs no more than to look, and nothing lies between
        the end of the one and the begin of the other.

        :param earlier: the :class:`UnderWay` of the earlier one.
        :param action: the next :class:`quintupleo_power.transitions.Action`.
        :param deadline: a ``time.monotonic`` value.
        :param argument: see :meth:`send`.
        :returns: the :class:`UnderWay` of the next one.
        :raises: what :meth:`send` and :meth:`see_end` raise.
        """
        waits = self._pace.waits(earlier.action.value, pace.Place.FOLLOWED)
        under_way = None
        with self._looks.waiting(earlier.server.id):
            for number in range(self.TRIES):
                # Many look together, which costs less. A rebuild that fails
                # leaves the server in ERROR, where Nova takes a stop, too.
                if (self._looks.are_shared() or action in _ONCE
                        or earlier.action is transitions.Action.REBUILD):
                    break
                time.sleep(max(0, min(next(waits),
                                      deadline - time.monotonic())))
                try:
                    request_id = self._send(earlier.server, action, deadline,
                                            argument)
                except errors.Conflict:
                    under_way = time.monotonic() - earlier.begun
                    continue
                now = time.monotonic()
                self._pace.record(earlier.action.value, now - earlier.begun,
                                  number == 0, pace.Place.FOLLOWED, under_way)
                before = earlier.leads_to
                return UnderWay(earlier.server, action, request_id, now,
                                before, before == transitions.leads_to(
                                    action, before))
        seen = self.see_end(earlier, deadline, pace.Place.FOLLOWED, waits,
                            under_way)
        return self.send(seen, action, deadline, argument)

    def see_end(self, under_way, deadline, place=pace.Place.ALONE,
                waits=None, refused_at=None):
        """See an action end.

        :param under_way: its :class:`UnderWay`.
        :param deadline: a ``time.monotonic`` value.
        :param place: its :class:`pace.Place` in the request.
        :param waits: when to look, if somebody has begun to.
        :param refused_at: seconds from its begin to when Nova took no other
            action yet; None if it was not asked.
        :returns: the :class:`servers.Server` after the action.
        :raises: ActionFailed if Nova took it and did not do it,
            ActionTimeout if it did not end in time,
            OutcomeUnknown if nothing proves that it was done,
            or another HostCloudError.
        """
        server, action = under_way.server, under_way.action
        watched = self._watch(
            server.id, action.value, deadline,
            waits or self._pace.waits(action.value, place),
            functools.partial(_proves_end, under_way))
        seen, took = watched.server, time.monotonic() - under_way.begun
        doubt = self._doubt(under_way, seen, deadline)
        if action is transitions.Action.REBUILD and not _is_reached(
                under_way, seen):
            # Nova shows what it has rebuilt of a stopped server as running
            # for a moment; its record ends after the stop.
            seen = self._watch(server.id, action.value, deadline,
                               self._pace.waits('event')).server
            doubt = doubt and self._doubt(under_way, seen, deadline)
        if not _is_reached(under_way, seen):
            raise errors.ActionFailed(
                f'Server {server.id} was {seen.status} with power state '
                f'{seen.state.power_state} after {action.value}: '
                f"{seen.fault or 'its console log may tell why'}")
        if doubt:
            raise doubt
        # What it takes among many tells nothing of what one alone takes.
        if not watched.shared:
            self._pace.record(
                action.value, took, watched.looks == 1 and waits is None,
                place, watched.under_way_at - under_way.begun
                if watched.under_way_at else refused_at)
        return seen

    def inject_nmi(self, server):
        """Send a guest a non-maskable interrupt, once.

        That changes nothing that Nova knows of the server.

        :param server: a :class:`servers.Server`.
        :raises: Conflict if the server is in no state for it,
            ActionFailed if Nova took it and did not do it,
            OutcomeUnknown if it is not known whether it was sent or done,
            or another HostCloudError.
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

    def _send(self, server, action, deadline, argument):
        """Send an action; find one that went out without an answer.

        Most are known by the server's state, or do no harm when they are sent
        again. A reboot or a snapshot sent twice does, and one not sent at all
        looks the same as one that is over.

        :returns: the request's identifier, None if Nova does not tell it.
        """
        try:
            with self._in_line(server, action, deadline):
                request_id = self._compute.post(
                    f'/servers/{server.id}/action', _BODIES[action](argument))
        except errors.NotFound:
            raise servers.not_found(server.id)
        except errors.TooManyRequests:
            raise
        except errors.PASSING as exc:
            if action not in _ONCE:
                # A plan before it arrives would be for another state.
                exc.retry_after = max(exc.retry_after, self.ARRIVAL_LAG)
                raise
            request_id = self._arrived(server, action, exc, deadline)
        LOG.debug('Sent %(action)s to server %(server)s as %(request)s',
                  {'action': action.value, 'server': server.id,
                   'request': request_id})
        return request_id

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
            with self._looks.sending():
                yield
        finally:
            self._line.release()

    def _arrived(self, server, action, error, deadline):
        """Find out whether Nova has an action whose answer was lost.

        A server that nothing is under way on was changed last when its last
        such action ended, or later: one that began since then is ours.

        :param server: the :class:`servers.Server` as it was before.
        :param error: what came instead of the answer.
        :returns: the request's identifier.
        :raises: the error if Nova has none, OutcomeUnknown if Nova does not
            tell.
        """
        LOG.info('No answer to the %(action)s of server %(server)s, looking '
                 'whether Nova has it: %(error)s',
                 {'action': action.value, 'server': server.id,
                  'error': error})
        sure_at = time.monotonic() + self.ARRIVAL_LAG
        try:
            found = _wait_for(
                lambda: records.latest(self._compute, server, _ONCE[action]),
                lambda found: found or time.monotonic() >= sure_at,
                self._pace.waits('arrival'), deadline)
        except (_NotInTime, errors.HostCloudError):
            raise _unknown(server.id, action.value, error)
        if not found:
            raise error
        if not records.is_later(found[0], server):
            # It may have been the last of the changes that were known.
            raise _unknown(server.id, action.value, error)
        return found[0].get('request_id')

    def _watch(self, server_id, name, deadline, waits, proves=None):
        """Look at a server until it has no task in progress.

        :param name: what it is that is waited for.
        :param waits: yields the seconds between two looks.
        :param proves: see :meth:`looks.Looks.waiting`.
        :returns: a :class:`_Watched`.
        """
        watched, seen_at = _Watched(), None

        def look():
            nonlocal seen_at
            watched.looks += 1
            watched.shared |= self._looks.are_shared()
            seen = self._looks.look(server_id)
            watched.under_way_at, seen_at = seen_at, time.monotonic()
            return seen

        try:
            with self._looks.waiting(server_id, proves):
                time.sleep(max(0, min(next(waits),
                                      deadline - time.monotonic())))
                watched.server = _wait_for(
                    look, lambda seen: not seen.state.task_state,
                    self._pauses(waits), deadline)
                return watched
        except _NotInTime as late:
            seen = late.args[0]
            raise errors.ActionTimeout(
                f'"{name}" of server {server_id} did not end within the time '
                'that the request or [quintupleo]action_timeout gives: '
                + (str(seen) if isinstance(seen, Exception) else
                   f'its task is still {seen.state.task_state}, as when its '
                   'compute host is down'))

    def _pauses(self, waits):
        """Leave the pauses to the looks themselves where they are shared."""
        while True:
            yield 0 if self._looks.are_shared() else next(waits)

    def _doubt(self, under_way, seen, deadline):
        """Look whether something proves that an action was done.

        Where neither a change of the server does nor, of a snapshot, its
        image (:meth:`snapshots.Snapshots.finish`), Nova's record of it has
        to; where the state shows a failure, the record shows why.

        :param seen: the :class:`servers.Server` without a task.
        :returns: None, or the OutcomeUnknown if nothing does.
        :raises: ActionFailed if the record shows that it failed.
        """
        server, action = under_way.server, under_way.action
        is_reached = _is_reached(under_way, seen)
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

    def _failure(self, server, name, word, request_id, deadline,
                 needs_end=False):
        """Read from Nova's own record whether an action failed, and why.

        Nova records a failure before it clears the task. Where it hides the
        events or, by policy, all records, all that can be known is that it
        took the action and shows no failure.

        :param name: what it is that was asked for.
        :param word: what Nova's records call it.
        :param needs_end: whether only a record that has ended is proof.
        :returns: a sentence, or None if it did not fail.
        :raises: OutcomeUnknown if that cannot be found out.
        """
        record, in_time = self._last_record(server, name, word, request_id,
                                            deadline)
        failure = records.failure(record)
        if failure or records.has_ended(record):
            return failure
        if needs_end or not in_time or not (
                record is None or records.is_row(record)):
            raise _unknown(server.id, name,
                           'Nova shows no record that it has ended')
        if record is None:
            LOG.warning(
                'Nova does not permit to read its records of actions '
                '(os_compute_api:os-instance-actions:show), and whether the '
                '%(name)s of server %(server)s has failed is judged by the '
                'state of the server alone',
                {'name': name, 'server': server.id})
        return None

    def _last_record(self, server, name, word, request_id, deadline):
        """Read Nova's record of an action until it shows the end.

        One that shows no event is the last one, too, when it has stayed so
        for :data:`EVENT_LAG`.

        :returns: (what :func:`records.find` returns, whether it is the last
            one).
        :raises: OutcomeUnknown if it cannot be read.
        """
        shown, since = {}, time.monotonic()

        def is_over(record):
            nonlocal shown, since
            if record != shown:
                shown, since = record, time.monotonic()
            return records.has_ended(record) or (
                not records.events(record)
                and time.monotonic() - since >= self.EVENT_LAG)

        try:
            return _wait_for(
                lambda: records.find(self._compute, server, word, request_id),
                is_over, self._pace.waits('event'), deadline), True
        except _NotInTime as late:
            if isinstance(late.args[0], Exception):
                raise _unknown(server.id, name, late.args[0])
            return late.args[0], False


def _proves_end(under_way, seen):
    """Whether a reading shows that an action is over, whenever it began.

    Nothing was under way when its plan was read, and Nova would have refused
    it had somebody else brought the server there since then.
    """
    return (seen.read_at >= under_way.server.read_at
            and under_way.action not in _TAKEN_THERE
            and not seen.state.task_state and not under_way.was_reached
            and _is_reached(under_way, seen))


def _is_proved(under_way, seen):
    """Whether a server that is where an action leads to proves its success.

    It does if it was elsewhere before. A rebuild is proved by a new time of
    launch, which Nova sets with the end of the task that spawns the guest.
    """
    if under_way.action is transitions.Action.REBUILD:
        return (seen.launched_at or '') > (under_way.server.launched_at or '')
    return not under_way.was_reached


def _is_reached(under_way, seen):
    return transitions.reached(under_way.action, seen.state,
                               under_way.begun_in)


def _unknown(server_id, name, why):
    return errors.OutcomeUnknown(
        f'Whether server {server_id} got the {name} is not known '
        f'({why}): look at "openstack server event list {server_id}" before '
        'asking for it again')
