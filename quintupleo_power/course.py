# SPDX-License-Identifier: Apache-2.0
"""The course of one request: plan, act, and plan anew if need be."""

import dataclasses
import functools
import time

from oslo_config import cfg
from oslo_log import log

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import pace
from quintupleo_power.host_cloud import servers
from quintupleo_power import interrupted
from quintupleo_power.media import rescue_image
from quintupleo_power.node import boot_device
from quintupleo_power.node import driver_info
from quintupleo_power import saving
from quintupleo_power import transitions
from quintupleo_power import watch

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
LOG = log.getLogger(__name__)

# How often the server may change under a request before it is given up.
MAX_CONFLICTS = 4

# Seconds between two plans at the most while the host cloud fails, which
# they may outlast until the request's time is over.
LONGEST_PAUSE = 30.0

# A request begins with its validation or, where Ironic acts by itself, with
# its look at the power state: what was read since then is good enough for the
# plan, for so many seconds.
OWN_MAX_AGE = 10.0
NEVER = float('-inf')

# What is planned by an earlier reading, where Nova contradicts a plan that
# comes too late.
_BY_WHAT_IS_KNOWN = (
    transitions.Request.POWER_ON, transitions.Request.POWER_OFF,
    transitions.Request.SOFT_POWER_OFF, transitions.Request.REBOOT)


@dataclasses.dataclass
class _Course:
    """What the plans of one request have led to so far.

    :ivar begun_at: see :func:`fulfil`.
    :ivar may_be_done: see :func:`fulfil`.
    :ivar sent: actions that were sent, the last of them without success for
        all that is known.
    :ivar refused_in: the server's state when Nova refused an action last.
    :ivar sent_at: when the last action was sent, a ``time.time`` value.
    :ivar request_id: identifier of the request for the last action, None if
        it is not known.
    :ivar server: the server after the last action that ended well.
    :ivar drift_is_known: whether the server was looked at for what somebody
        else did to it.
    :ivar began_by_what_is_known: whether the first action was planned by an
        earlier reading.
    :ivar conflicts: how often Nova refused an action.
    :ivar failures: how often the host cloud failed.
    """

    begun_at: float
    may_be_done: bool = False
    sent: list = dataclasses.field(default_factory=list)
    refused_in: transitions.ServerState | None = None
    sent_at: float = 0.0
    request_id: str | None = None
    server: servers.Server | None = None
    drift_is_known: bool = False
    began_by_what_is_known: bool = False
    conflicts: int = 0
    failures: int = 0

    @property
    def is_without_an_answer(self):
        """Whether all that was sent is one action, by an earlier reading.

        If that is outdated, the server may have been before where it leads.
        """
        return (self.began_by_what_is_known and len(self.sent) == 1
                and self.request_id is None)

    @property
    def is_new(self):
        """Whether nothing was tried yet."""
        return not (self.sent or self.conflicts or self.failures)

    @property
    def max_age(self):
        """Seconds that a reading for a plan may be old; 0 for a new one."""
        return 0.0 if self.sent else own_reading(self.begun_at)


def own_reading(begun_at):
    """Tell how old a reading may be that began after a request did.

    :param begun_at: see :func:`fulfil`.
    :returns: seconds; 0 for one that begins now.
    """
    age = time.monotonic() - begun_at
    return age if age < OWN_MAX_AGE else 0.0


def fulfil(node, request, timeout, begun_at, argument=None, *,
           may_be_done=False):
    """Bring a node's server to where a request wants it.

    :param node: an Ironic node.
    :param request: a :class:`transitions.Request`.
    :param timeout: seconds that it may take; None for
        [quintupleo]action_timeout.
    :param begun_at: when Ironic began with this request, a
        ``time.monotonic`` value; NEVER if that was not seen.
    :param argument: function of (node, info, host, server) that finds what a
        rebuild or a snapshot is asked for with, see
        :meth:`host_cloud.actions.Actions.send`; it may refuse the server.
    :param may_be_done: whether Ironic was told by an earlier reading that the
        node is not where the request wants it. Had it been told that it is,
        it would have asked for nothing.
    :returns: the :class:`host_cloud.servers.Server` after the last action
        that this took, None if it took none.
    :raises: MissingParameterValue if a required setting is missing.
    :raises: InvalidParameterValue if a setting is wrong.
    :raises: DriverOperationError if the server did not get there.
    """
    info = driver_info.parse(node)
    deadline = time.monotonic() + (timeout or CONF[GROUP].action_timeout)
    device = boot_device.wished(node)[0] or transitions.Device.DISK
    with exceptions.translated(info):
        course = _Course(begun_at, may_be_done)
        while True:
            host = cloud.get(info.credentials)
            try:
                booted = _carry_out(node, info, host, request, device,
                                    deadline, course, argument)
                break
            except errors.PLAN_AGAIN as exc:
                pause = _pause(exc, course)
                if (course.conflicts == MAX_CONFLICTS
                        or time.monotonic() + pause >= deadline):
                    raise
                LOG.warning('Planning the %(request)s of node %(node)s '
                            'anew: %(reason)s',
                            {'request': request.value, 'node': node.uuid,
                             'reason': exc})
                cloud.failed(info.credentials, exc)
                interrupted.look(node)
                saving.save_request(node)
                time.sleep(pause)
    if course.server:
        if not course.drift_is_known:
            # A start or a stop leaves it to be seen.
            watch.before_action(node, host, course.server)
        watch.after_action(
            node, course.server, course.request_id,
            rebuilt=request is transitions.Request.REBUILD)
    if booted:
        boot_device.booted(node)
    return course.server


def _pause(exc, course):
    """Seconds to give a host cloud that fails, more each time."""
    if isinstance(exc, errors.Conflict):
        course.conflicts += 1
        return 0
    course.failures += 1
    pause = CONF[GROUP].poll_interval * 2 ** min(course.failures - 1, 8)
    return max(min(pause, LONGEST_PAUSE), exc.retry_after)


def _carry_out(node, info, host, request, device, deadline, course,
               argument):
    """Plan a request from the server's state as it is and run the plan.

    :param course: the :class:`_Course` of the request; is added to.
    :param argument: see :func:`fulfil`.
    :returns: whether the machine has booted from the wished device.
    """
    known = course.is_new and _known(node, info, host, request, device)
    server = known or host.server(info.server, course.max_age)
    interrupted.look(node, server)
    if server.state.task_state:
        saving.save_request(node)
    server = host.settle(server, deadline)
    if course.sent:
        if _has_booted(host, server, request, device, course):
            course.server = server
            return True
        if (request is transitions.Request.POWER_ON
                and course.is_without_an_answer
                and not _has_begun(host, server, course)):
            # It never got there: if the server is on, somebody else did it.
            course.sent.clear()
    if course.sent:
        if (request is transitions.Request.POWER_ON
                and any(action.boots for action in course.sent)):
            # A step on the way may have powered it on from the other device.
            request = transitions.Request.REBOOT
    elif not known:
        watch.before_action(node, host, server)
        course.drift_is_known = True
    actions = _plan(server, request, device)
    if (course.may_be_done and not course.sent
            and transitions.is_done(server.state, request)):
        actions = ()
    # Known before the first action: a missing image must not leave a
    # sequence half done.
    arguments = {
        action: find(node, info, host, server) for action, find in (
            (transitions.Action.RESCUE,
             functools.partial(rescue_image.find, device=device)),
            (transitions.Action.REBUILD, argument),
            (transitions.Action.SNAPSHOT, argument)) if action in actions}
    LOG.debug('Node %(node)s: %(request)s to %(device)s of server %(server)s '
              'in %(state)s takes %(actions)s',
              {'node': node.uuid, 'request': request.value,
               'device': device.value, 'server': server.id,
               'state': server.state,
               'actions': [action.value for action in actions]})
    if not course.sent:
        course.began_by_what_is_known = bool(known)
    under_way = None
    for number, action in enumerate(actions, 1):
        if not course.sent:
            watch.acting(node)
        saving.save_request(node)
        course.sent.append(action)
        course.sent_at, course.request_id = time.time(), None
        details = arguments.get(action)
        try:
            under_way = (
                host.follow(under_way, action, deadline, details)
                if under_way else
                host.send(server, action, deadline, details))
            course.request_id = under_way.request_id
            if number == len(actions):
                course.server = host.see_end(
                    under_way, deadline, pace.Place.ALONE if number == 1
                    else pace.Place.LAST)
        except errors.Conflict as exc:
            course.sent.pop()
            _require_another_state(host, info, server, course, exc)
            raise
        except errors.BadRequest as exc:
            if (action is transitions.Action.RESCUE
                    and device is transitions.Device.PXE
                    and rescue_image.was_replaced(node, info, host, server,
                                                  details)):
                raise errors.Conflict(str(exc))
            if action is transitions.Action.REBUILD and (
                    argument(node, info, host, server) != details):
                raise errors.Conflict(str(exc))
            raise
    return bool(actions) and actions[-1].boots


def _known(node, info, host, request, device):
    """Tell what is known of a server, if that is enough to ask Nova by it.

    :returns: a :class:`host_cloud.servers.Server`, or None.
    """
    if request not in _BY_WHAT_IS_KNOWN:
        return None
    is_reboot = request is transitions.Request.REBOOT
    # Whether a device for one boot was booted from is more than a state.
    if (request.ends_on and not is_reboot
            and boot_device.wished(node)[1] is False):
        return None
    # A rescue covers up what somebody did to the disk right before.
    if is_reboot and watch.has_a_system(node):
        return None
    server = host.recent(info.server)
    # A name may have gone over to another server.
    if (server is None or server.id != info.server
            or watch.find_in(node, host, server) or not (
                transitions.is_certain(server.state, request, device,
                                       server.network_first))):
        return None
    # Nothing that was read before this one's action shows its end.
    return dataclasses.replace(server, read_at=time.monotonic())


def _require_another_state(host, info, server, course, conflict):
    """Give up where Nova would refuse the same action once more.

    :raises: Refused if it is a lock that stops it, ActionFailed if the
        server stays as it was.
    """
    now = host.server(info.server)
    # Nova looks at a lock first. In another state there may be nothing to
    # do, or something else in the way too.
    if now.locked and now.state == server.state:
        raise transitions.Refused(
            f'Server {now.id} ({now.name}) takes no action: '
            + transitions.LOCKED.format(
                reason=f' ("{now.locked_reason}")' if now.locked_reason
                else ''))
    # Once is no proof: what stood in the way may just have ended.
    if course.refused_in == now.state == server.state:
        raise errors.ActionFailed(f'{conflict}; {fault(now)}')
    course.refused_in = server.state


def fault(server):
    """Tell what Nova holds against a server, or where to look.

    :param server: a :class:`host_cloud.servers.Server`.
    :returns: a clause.
    """
    return server.fault or f'see "openstack server show {server.id}"'


def _has_booted(host, server, request, device, course):
    """Whether an action that seemed to fail has done what was asked.

    :raises: HostCloudError if the host cloud cannot be asked.
    """
    state, last_sent = server.state, course.sent[-1]
    if not request.ends_on or not last_sent.boots or (
            not transitions.reached(last_sent, state, state.vm_state)):
        return False
    if not server.network_first and (
            transitions.device_in_use(server.state).by_rescue
            is not device.by_rescue):
        return False
    if request is transitions.Request.POWER_ON:
        return True
    # A reboot leaves nothing in the state by which to know that it happened.
    if last_sent in (transitions.Action.HARD_REBOOT,
                     transitions.Action.SOFT_REBOOT):
        return False
    # Somebody may have done it before, which an earlier reading did not show.
    return (not course.is_without_an_answer
            or _has_begun(host, server, course))


def _has_begun(host, server, course):
    """Whether Nova has a record of the action that has no answer.

    :raises: HostCloudError if the host cloud cannot be asked.
    """
    course.request_id = host.action_begun_since(server, course.sent[-1],
                                                course.sent_at)
    return course.request_id is not None


def _plan(server, request, device):
    try:
        return transitions.plan(server.state, request, device,
                                server.network_first)
    except transitions.Refused as refusal:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) is {server.status} and a '
            f'{request.value} is refused: {refusal}')
