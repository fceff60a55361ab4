# SPDX-License-Identifier: Apache-2.0
"""The power interface: Ironic's requests become Nova server actions."""

import contextlib
import time
import weakref

from ironic.common import exception
from ironic.common import states
from ironic.conductor import periodics
from ironic.conductor import task_manager
from ironic.drivers import base
from oslo_config import cfg
from oslo_log import log

from quintupleo_power import boot
from quintupleo_power import boot_log
from quintupleo_power import compat
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power import course
from quintupleo_power import deploy
from quintupleo_power import drift
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power import interrupted
from quintupleo_power.media import rescue_image
from quintupleo_power.node import driver_info
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

# When the request began that each task goes on with, time.monotonic values.
_begun_at = weakref.WeakKeyDictionary()

# Tasks in which Ironic was told by an earlier reading that it has to act.
_told_by_what_is_known = weakref.WeakSet()

# Servers whose power off was looked at, so that a slow one is told of once a
# day.
_warned_of = cache.Cache(86400.0)


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
        _begun_at[task] = time.monotonic()
        info = driver_info.parse(task.node)
        with exceptions.translated(info, validating=True):
            host = cloud.get(info.credentials)
            # What was read earlier must not refuse anything: somebody may
            # have mended it. But it lets a request begin, as Nova itself
            # refuses what does not fit. Who only asks gets a new answer.
            recent = None if task.shared else host.recent(info.server)
            if recent:
                with contextlib.suppress(errors.HostCloudError,
                                         transitions.Refused):
                    _require_usable(task, info, host, recent)
                    return
            _require_usable(task, info, host, host.server(info.server))

    @METRICS.timer('QuintupleoPower.get_power_state')
    def get_power_state(self, task):
        """Return the power state of the task's node.

        :param task: a TaskManager instance containing the node to act on.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting is wrong.
        :raises: DriverOperationError if the host cloud does not tell, if the
            server is neither on nor off (ERROR, being built, deleted), or if
            an interrupted request is about to be finished.
        :returns: POWER_ON or POWER_OFF of :mod:`ironic.common.states`, or
            ERROR for a server in ERROR whose power Ironic is about to change.
        """
        interrupted.require_none(task)
        info = driver_info.parse(task.node)
        with exceptions.translated(info):
            host = cloud.get(info.credentials)
            server = (_look(task.node, info, host) if task.shared else
                      _look_before_a_change(task, info, host))
            is_on = transitions.is_on(server.state)
            if is_on is None:
                sentence = (
                    f'Server {server.id} is {server.status}, neither on nor '
                    'off: '
                    + (transitions.refusal(server.state)
                       or course.fault(server)))
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
        boot_log.before_power_request(task, power_state)
        with interrupted.recorded(task.node, power_state):
            course.fulfil(task.node, REQUESTS[power_state], timeout,
                          _begun_at.get(task, course.NEVER),
                          may_be_done=task in _told_by_what_is_known)

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
        boot_log.before_power_request(task, states.REBOOT)
        with interrupted.recorded(task.node, states.REBOOT):
            course.fulfil(task.node, transitions.Request.REBOOT, timeout,
                          _begun_at.get(task, course.NEVER))

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

    @METRICS.timer('QuintupleoPower._keep_boot_logs')
    @periodics.node_periodic(
        purpose='keeping console logs of failures',
        # As often as Ironic looks for what has taken too long.
        spacing=CONF.conductor.check_provision_state_interval or 60,
        # A failed cleaning puts a node into maintenance.
        filters={'reserved': False,
                 'provision_state_in': tuple(boot_log.FAILED)},
        predicate=boot_log.is_missing,
        predicate_extra_fields=('driver_internal_info', 'power_interface',
                                'provision_state', 'provision_updated_at'),
        shared_task=False)
    def _keep_boot_logs(self, task, manager, context):
        """Keep the console log of a failure that no action followed."""
        task.spawn_after(manager._spawn_worker, boot_log.keep_missing, task)


def _require_usable(task, info, host, server):
    """Require that power requests can be served with a server as it is.

    :raises: Refused or another HostCloudError if not.
    :raises: InvalidParameterValue if a setting is wrong.
    """
    _require_no_refusal(server)
    # Where it is not known, a rescue is refused when one is planned.
    if server.network_first is None and not task.shared:
        return
    if not server.network_first:
        # Deployed by rebuild, a node does without PXE.
        if not isinstance(task.driver.deploy, deploy.QuintupleoRebuildDeploy):
            _require_rescue(host, server)
            if not isinstance(task.driver.boot,
                              boot.QuintupleoVirtualMediaBoot):
                rescue_image.find(task.node, info, host, server)
        _warn_of_a_slow_stop(task.node, host, server)
    # Where Ironic is about to act it is not stopped: deploying anew is what
    # helps.
    finding = task.shared and watch.find(task, info, host, server)
    if finding:
        raise transitions.Refused(finding.sentence)


def _require_no_refusal(server):
    refusal = transitions.refusal(server.state)
    if refusal:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) cannot be used: {refusal}')


def _require_rescue(host, server):
    obstacle = host.rescue_obstacle(server)
    if obstacle:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) cannot be booted from the '
            f'network: {obstacle}')


def _warn_of_a_slow_stop(node, host, server):
    """Tell once of a server whose own disk runs long at each power off."""
    if _warned_of.get(server.id):
        return
    try:
        seconds = host.shutdown_timeout(server)
    except errors.HostCloudError:
        # A warning less must not stop anything.
        return
    _warned_of.put(server.id, True)
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


def _look(node, info, host):
    """Read a server for power sync, anew before Ironic is told of a change.

    Many nodes share a reading, which may be older than what was done since.
    """
    server = host.watch(info.server)
    is_on = transitions.is_on(server.state)
    known = node.power_state
    if is_on is None or known and is_on is not (known == states.POWER_ON):
        return host.server(info.server, watch.NEWS_MAX_AGE)
    return server


def _look_before_a_change(task, info, host):
    """Read a server whose power Ironic is about to change.

    Ironic leaves it as it is if this says that it is so already, which only
    a reading says that began after the request.

    :raises: Refused if validation let a server pass by an earlier reading
        that has to be refused by now.
    """
    target = task.node.target_power_state
    _told_by_what_is_known.discard(task)
    recent = host.recent(info.server) if target else None
    if recent:
        is_on = transitions.is_on(recent.state)
        if is_on is not None and is_on is not (target == states.POWER_ON):
            _told_by_what_is_known.add(task)
            return recent
    max_age = course.own_reading(_begun_at.get(task, course.NEVER))
    if not max_age:
        # Not validated, or another request of the same task was.
        _begun_at[task] = time.monotonic()
    server = host.server(info.server, max_age)
    if target:
        _require_no_refusal(server)
    return server


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
