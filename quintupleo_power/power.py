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

"""The power interface: Ironic's requests become Nova server actions."""

import dataclasses
import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import periodics
from ironic.conductor import task_manager
from ironic.drivers import base
from ironic.drivers.modules import boot_mode_utils
from oslo_config import cfg
from oslo_log import log

from quintupleo_power import boot_device
from quintupleo_power import compat
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power import drift
from quintupleo_power import driver_info
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power import interrupted
from quintupleo_power import transitions
from quintupleo_power import watch

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
LOG = log.getLogger(__name__)
METRICS = compat.get_metrics_logger(__name__)

REQUESTS = {
    states.POWER_ON: transitions.Request.POWER_ON,
    states.POWER_OFF: transitions.Request.POWER_OFF,
    states.REBOOT: transitions.Request.REBOOT,
    states.SOFT_POWER_OFF: transitions.Request.SOFT_POWER_OFF,
    states.SOFT_REBOOT: transitions.Request.SOFT_REBOOT,
}

# How often the server may change under a request before it is given up.
MAX_CONFLICTS = 4

# Seconds between two plans at the most while the host cloud fails, which
# they may outlast until the request's time is over.
LONGEST_PAUSE = 30.0

# Ironic validates a request, which reads the server anew, right before it
# carries it out: that is good enough for a first plan, as Nova refuses what
# does not fit.
PLAN_MAX_AGE = 1.0

# Servers whose power off is known to be slow, so that each is told of once.
_warned_of = set()

# After these the server may not be what the plan was made for.
_PLAN_AGAIN = (errors.Conflict, errors.ServerError, errors.CloudUnreachable)


class QuintupleoPower(base.PowerInterface):
    """Power of a Nova server."""

    def get_properties(self):
        """Return the properties of the interface.

        :returns: dictionary of <property name>:<property description>.
        """
        return driver_info.COMMON_PROPERTIES.copy()

    @METRICS.timer('QuintupleoPower.validate')
    def validate(self, task):
        """Check the node's settings and that its server can be used.

        :param task: a TaskManager instance containing the node to act on.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting is wrong, or the host
            cloud or what it holds cannot be used with it.
        """
        info = driver_info.parse(task.node)
        with exceptions.translated(info, validating=True):
            host = cloud.get(info.credentials)
            # Under an exclusive lock a request begins, which must not be
            # judged by what was read before it.
            server = host.server(
                info.server,
                CONF[GROUP].server_list_max_age if task.shared else 0.0)
            refusal = transitions.refusal(server.state)
            if refusal:
                raise transitions.Refused(
                    f'Server {server.id} ({server.name}) cannot be used: '
                    f'{refusal}')
            if not server.network_first:
                _require_rescue(host, server)
                _rescue_image(task.node, info, host, server)
                _warn_of_a_slow_stop(task.node, host, server)
            # Where Ironic is about to act it is not stopped: deploying anew
            # is what helps.
            finding = task.shared and watch.find(task, info, host, server)
            if finding:
                raise transitions.Refused(finding.sentence)

    @METRICS.timer('QuintupleoPower.get_power_state')
    def get_power_state(self, task):
        """Return the power state of the task's node.

        :param task: a TaskManager instance containing the node to act on.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting is wrong.
        :raises: DriverOperationError if the host cloud does not tell, or if
            the server is neither on nor off (ERROR, being built, deleted).
        :returns: POWER_ON or POWER_OFF of :mod:`ironic.common.states`, or
            ERROR for a server in ERROR whose power Ironic is about to change.
        """
        interrupted.require_none(task)
        info = driver_info.parse(task.node)
        with exceptions.translated(info):
            # Under an exclusive lock Ironic is about to change the power, and
            # leaves it as it is if this says that it is so already.
            host = cloud.get(info.credentials)
            server = host.server(
                info.server,
                CONF[GROUP].server_list_max_age if task.shared
                else PLAN_MAX_AGE)
            is_on = transitions.is_on(server.state)
            if is_on is None:
                sentence = (
                    f'Server {server.id} is {server.status}, neither on nor '
                    'off: '
                    + (transitions.refusal(server.state) or _fault(server)))
                if _is_about_to_leave_error(task, server):
                    LOG.warning('Node %(node)s: %(reason)s',
                                {'node': task.node.uuid, 'reason': sentence})
                    return states.ERROR
                raise errors.HostCloudError(sentence)
            if task.shared:
                _watch(task, info, host, server)
        return states.POWER_ON if is_on else states.POWER_OFF

    @METRICS.timer('QuintupleoPower.set_power_state')
    @task_manager.require_exclusive_lock
    def set_power_state(self, task, power_state, timeout=None):
        """Set the power state of the task's node, the wished device with it.

        :param task: a TaskManager instance containing the node to act on.
        :param power_state: any power state of :mod:`ironic.common.states`
            that :meth:`get_supported_power_states` lists.
        :param timeout: seconds that it may take; None for
            [quintupleo]action_timeout.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting or the power state is
            wrong.
        :raises: DriverOperationError if the server did not get there.
        """
        if power_state not in REQUESTS:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: the quintupleo driver knows no '
                f"power state '{power_state}'")
        with interrupted.recorded(task.node, power_state):
            _fulfil(task.node, REQUESTS[power_state], timeout)

    @METRICS.timer('QuintupleoPower.reboot')
    @task_manager.require_exclusive_lock
    def reboot(self, task, timeout=None):
        """Reboot the task's node hard, or power it on if it is off.

        :param task: a TaskManager instance containing the node to act on.
        :param timeout: seconds that it may take; None for
            [quintupleo]action_timeout.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting is wrong.
        :raises: DriverOperationError if the server did not get there.
        """
        with interrupted.recorded(task.node, states.REBOOT):
            _fulfil(task.node, transitions.Request.REBOOT, timeout)

    def get_supported_power_states(self, task):
        """Get a list of the supported power states.

        :param task: a TaskManager instance containing the node to act on.
        :returns: a list of power states of :mod:`ironic.common.states`.
        """
        return list(REQUESTS)

    @METRICS.timer('QuintupleoPower._take_over')
    @periodics.node_periodic(
        purpose='finishing interrupted requests',
        # As often as Ironic looks for what a dead conductor has left.
        spacing=CONF.conductor.check_provision_state_interval or 60,
        filters={'reserved': False, 'maintenance': False},
        predicate=interrupted.is_left,
        predicate_extra_fields=('driver_internal_info', 'provision_state',
                                'target_power_state'),
        shared_task=False)
    def _take_over(self, task, manager, context):
        """Finish what a conductor that died had begun with a node."""
        task.spawn_after(manager._spawn_worker, interrupted.take_over, task)


def _require_rescue(host, server):
    obstacle = host.rescue_obstacle(server)
    if obstacle:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) cannot be booted from the '
            f'network: {obstacle}')


def _watch(task, info, host, server):
    """Tell of what somebody else did to a server.

    :raises: HostCloudError if another server has come in its place, whose
        power is not the node's.
    """
    finding = watch.find(task, info, host, server)
    if finding and finding.kind is drift.Kind.REPLACED:
        raise errors.HostCloudError(finding.sentence)
    if finding:
        watch.tell(task.node, finding)


def _is_about_to_leave_error(task, server):
    """Whether Ironic reads the power state of an ERROR in order to change it.

    It gives up before it asks for anything when that read raises
    (``ironic.conductor.utils._can_skip_state_change``). Power sync, which
    only looks, holds a shared lock.
    """
    return (transitions.situation(server.state) is transitions.Situation.ERROR
            and not task.shared
            and task.node.provision_state != states.VERIFYING)


@dataclasses.dataclass
class _Course:
    """What the plans of one request have led to so far.

    :ivar sent: actions that were sent, the last of them without success for
        all that is known.
    :ivar refused_in: the server's state when Nova refused an action last.
    :ivar server: the server after the last action that ended well.
    :ivar conflicts: how often Nova refused an action.
    :ivar failures: how often the host cloud failed.
    """

    sent: list = dataclasses.field(default_factory=list)
    refused_in: transitions.ServerState | None = None
    server: servers.Server | None = None
    conflicts: int = 0
    failures: int = 0


def _fulfil(node, request, timeout):
    """Bring the node's server to where a request wants it."""
    info = driver_info.parse(node)
    deadline = time.monotonic() + (timeout or CONF[GROUP].action_timeout)
    device = boot_device.wished(node)[0] or transitions.Device.DISK
    with exceptions.translated(info):
        course = _Course()
        while True:
            host = cloud.get(info.credentials)
            try:
                booted = _carry_out(node, info, host, request, device,
                                    deadline, course)
                break
            except _PLAN_AGAIN as exc:
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
                time.sleep(pause)
    if course.server:
        watch.after_action(node, course.server)
    if booted:
        boot_device.booted(node)


def _pause(exc, course):
    """Seconds to give a host cloud that fails, more each time."""
    if isinstance(exc, errors.Conflict):
        course.conflicts += 1
        return 0
    course.failures += 1
    pause = CONF[GROUP].poll_interval * 2 ** min(course.failures - 1, 8)
    return max(min(pause, LONGEST_PAUSE), exc.retry_after)


def _carry_out(node, info, host, request, device, deadline, course):
    """Plan a request from the server's state as it is and run the plan.

    :param course: the :class:`_Course` of the request; is added to.
    :returns: whether the machine has booted from the wished device.
    """
    server = host.server(info.server, 0.0 if course.sent else PLAN_MAX_AGE)
    interrupted.look(node, server)
    server = host.settle(server, deadline)
    if course.sent:
        if _has_booted(server, request, device, course.sent[-1]):
            course.server = server
            return True
        if (request is transitions.Request.POWER_ON
                and any(action.boots for action in course.sent)):
            # A step on the way may have powered it on from the other device.
            request = transitions.Request.REBOOT
    elif not _nova_checks(server, request, device):
        server = host.settle(host.server(info.server), deadline)
    if not course.sent:
        watch.before_action(node, host, server)
    actions = _plan(server, request, device)
    # Known before the first action: a missing image must not leave a
    # sequence half done.
    image = (_rescue_image(node, info, host, server)
             if transitions.Action.RESCUE in actions else None)
    LOG.debug('Node %(node)s: %(request)s to %(device)s of server %(server)s '
              'in %(state)s takes %(actions)s',
              {'node': node.uuid, 'request': request.value,
               'device': device.value, 'server': server.id,
               'state': server.state,
               'actions': [action.value for action in actions]})
    for action in actions:
        if not course.sent:
            watch.acting(node)
        course.sent.append(action)
        try:
            server = host.run(info.server, server, action, deadline, image)
            course.server = server
        except errors.Conflict as exc:
            course.sent.pop()
            _require_another_state(host, info, server, course, exc)
            raise
        except errors.BadRequest as exc:
            if (action is transitions.Action.RESCUE
                    and _image_was_replaced(node, info, host, server, image)):
                raise errors.Conflict(str(exc))
            raise
    return bool(actions) and actions[-1].boots


def _require_another_state(host, info, server, course, conflict):
    """Give up where Nova would refuse the same action once more.

    :raises: Refused if it is a lock that stops it, ActionFailed if the
        server stays as it was.
    """
    now = host.server(info.server)
    if now.locked:
        raise transitions.Refused(
            f'Server {now.id} ({now.name}) takes no action: '
            + transitions.LOCKED.format(
                reason=f' ("{now.locked_reason}")' if now.locked_reason
                else ''))
    # Once is no proof: what stood in the way may just have ended.
    if course.refused_in == now.state == server.state:
        raise errors.ActionFailed(f'{conflict}; {_fault(now)}')
    course.refused_in = server.state


def _fault(server):
    """What Nova holds against a server, or where to look."""
    return server.fault or f'see "openstack server show {server.id}"'


def _has_booted(server, request, device, last_sent):
    """Whether an action that seemed to fail has done what was asked."""
    if not request.ends_on or not last_sent.boots or (
            not transitions.reached(last_sent, server.state)):
        return False
    if not server.network_first and (
            transitions.device_in_use(server.state) is not device):
        return False
    # A reboot leaves nothing in the state by which to know that it happened.
    return request is transitions.Request.POWER_ON or last_sent not in (
        transitions.Action.HARD_REBOOT, transitions.Action.SOFT_REBOOT)


def _nova_checks(server, request, device):
    """Whether Nova would contradict a plan from an outdated reading.

    It cannot contradict an empty plan or a refusal, and it does not when a
    rescued guest has switched itself off before a plan of two actions.
    """
    try:
        return len(transitions.plan(server.state, request, device,
                                    server.network_first)) == 1
    except transitions.Refused:
        return False


def _plan(server, request, device):
    try:
        return transitions.plan(server.state, request, device,
                                server.network_first)
    except transitions.Refused as refusal:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) is {server.status} and a '
            f'{request.value} is refused: {refusal}')


def _rescue_image(node, info, host, server):
    reference = _rescue_image_reference(node, info, host, server)
    try:
        return host.rescue_image(reference)
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        setting = ('driver_info/quintupleo_rescue_image'
                   if info.rescue_image else
                   f'[{GROUP}]rescue_image_{_boot_mode(node, host, server)}')
        raise errors.UnsuitableImage(
            f'The rescue image of {setting} cannot be used: {exc}')


def _image_was_replaced(node, info, host, server, image):
    """Whether another image has the name by now that was looked up before."""
    host.forget_image(_rescue_image_reference(node, info, host, server))
    return _rescue_image(node, info, host, server) != image


def _rescue_image_reference(node, info, host, server):
    return (info.rescue_image
            or CONF[GROUP][f'rescue_image_{_boot_mode(node, host, server)}'])


def _warn_of_a_slow_stop(node, host, server):
    """Tell once of a server whose own disk runs long at each power off."""
    if server.id in _warned_of:
        return
    _warned_of.add(server.id)
    seconds = host.shutdown_timeout(server)
    if seconds != 0:
        LOG.warning(
            'Node %(node)s: Nova waits %(seconds)s for the guest of server '
            '%(server)s to shut down at each power off and PXE boot, and its '
            'own disk runs that long when it is powered off out of PXE. Make '
            'the server from an image with os_shutdown_timeout=0, unless its '
            'guest is to be shut down cleanly',
            {'node': node.uuid, 'server': server.id,
             'seconds': '60 s or what the host cloud sets'
             if seconds is None else f'{seconds} s'})


def _boot_mode(node, host, server):
    """The server's boot mode, or the node's where the cloud cannot tell."""
    return (host.boot_mode(server)
            or boot_mode_utils.get_boot_mode(node))
