# SPDX-License-Identifier: Apache-2.0
"""The power interface, and whether a server can be used or booted by PXE."""

from ironic.common import exception
from ironic.common import states
from ironic.conductor import periodics
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers import base
from oslo_log import log

from quintupleo_power import boot_log
from quintupleo_power import compat
from quintupleo_power.drift import baseline
from quintupleo_power.drift import compare
from quintupleo_power import exceptions
from quintupleo_power import executor
from quintupleo_power.faults import injection
from quintupleo_power.host_cloud import errors
from quintupleo_power.interfaces import boot
from quintupleo_power.interfaces import deploy
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import server_interface
from quintupleo_power.media import rescue_image
from quintupleo_power.node import pending_request
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import server_fields
from quintupleo_power import takeover
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

REQUESTS = {
    states.POWER_ON: transitions.Request.POWER_ON,
    states.POWER_OFF: transitions.Request.POWER_OFF,
    states.REBOOT: transitions.Request.REBOOT,
    states.SOFT_POWER_OFF: transitions.Request.SOFT_POWER_OFF,
    states.SOFT_REBOOT: transitions.Request.SOFT_REBOOT,
}


class QuintupleoPower(server_interface.ServerInterface, base.PowerInterface):
    """Power of a Nova server."""

    def validate(self, task):
        """Check the node's settings and that its server can be used.

        :raises: InvalidParameterValue, too, if the host cloud or what it
            holds cannot be used.
        """
        _require_wipe(task)
        with exceptions.host_cloud(task.node, validating=True) as host:
            server = server_access.get(task.node, host, compare=True)
            _require_usable(task, host, server)

    @injection.injected
    def get_power_state(self, task):
        """Return the power state of the task's node.

        :raises: DriverOperationError, too, if the server is neither on nor
            off (ERROR, being built, deleted), or if an interrupted request
            is about to be finished.
        :returns: POWER_ON or POWER_OFF of :mod:`ironic.common.states`, or
            ERROR for a server in ERROR whose power Ironic is about to change.
        """
        pending_request.require_none(task)
        with exceptions.host_cloud(task.node) as host:
            # Ironic leaves a node as it is if this says that it is so
            # already, which only a new reading may say.
            server = (_read_for_sync if task.shared else server_access.get)(
                task.node, host)
            is_on = transitions.is_on(server.state)
            if is_on is None:
                sentence = (
                    f'Server {server.id} is {server.status}, neither on nor '
                    'off: '
                    + (transitions.refusal(server.state)
                       or server.fault_or_hint))
                if _is_about_to_leave_error(task, server):
                    LOG.warning('Node %(node)s: %(reason)s',
                                {'node': task.node.uuid, 'reason': sentence})
                    return states.ERROR
                raise errors.HostCloudError(sentence)
            if task.shared:
                _report_difference(task, host, server)
        return states.POWER_ON if is_on else states.POWER_OFF

    @task_manager.require_exclusive_lock
    @injection.injected
    def set_power_state(self, task, power_state, timeout=None):
        """Set the power state of the task's node, the wished device with it.

        :param power_state: one that :meth:`get_supported_power_states` lists.
        :param timeout: seconds that it may take; None for
            [quintupleo]action_timeout.
        """
        if power_state not in REQUESTS:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: the quintupleo driver knows no '
                f"power state '{power_state}'")
        boot_log.before_power_request(task, power_state)
        with pending_request.kept(task.node, power_state):
            executor.run(task.node, REQUESTS[power_state], timeout)

    @task_manager.require_exclusive_lock
    def reboot(self, task, timeout=None):
        """Reboot the task's node hard, or power it on if it is off.

        :param timeout: see :meth:`set_power_state`.
        """
        self.set_power_state(task, states.REBOOT, timeout)

    def get_supported_power_states(self, task):
        """Get a list of the supported power states."""
        return list(REQUESTS)

    @periodics.node_periodic(
        purpose='finishing interrupted requests',
        # As often as Ironic looks for what a dead conductor has left.
        spacing=CONF.conductor.check_provision_state_interval or 60,
        filters={'reserved': False, 'maintenance': False},
        predicate=takeover.is_needed,
        predicate_extra_fields=('driver_internal_info', 'provision_state',
                                'target_power_state'),
        shared_task=False)
    def _take_over(self, task, manager, context):
        """Finish what a conductor that died had begun with a node."""
        task.spawn_after(manager._spawn_worker, takeover.run, task)

    @periodics.node_periodic(
        purpose='carrying out late power requests',
        spacing=5, enabled=CONF.quintupleo.fault_injection,
        filters={'reserved': False}, predicate=injection.late_request,
        predicate_extra_fields=('driver_internal_info',), shared_task=False)
    def _finish_late(self, task, manager, context):
        """Carry a power request out that was answered before."""
        task.spawn_after(manager._spawn_worker, injection.carry_out_late, task)

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


def _require_usable(task, host, server):
    """Require that power requests can be served with a server as it is.

    :raises: Refused or another HostCloudError if not.
    """
    server.require('used', transitions.refusal(server.state))
    ends_instance = _is_about_to_boot_an_agent(task)
    # Where it is not known, a rescue is refused when one is planned, which
    # is too late for an instance that is powered off for it.
    if (server.network_first is None
            and not task.shared and not ends_instance):
        return
    if not server.network_first:
        # Deployed by rebuild or not at all, a node does without PXE.
        if ends_instance or not isinstance(task.driver.deploy, (
                deploy.QuintupleoRebuildDeploy, *compat.NO_DEPLOY)):
            _require_rescue(task, host, server)
    # Where Ironic is about to act it is not stopped: deploying again is
    # what helps.
    difference = task.shared and baseline.find(task, host, server)
    if difference:
        raise transitions.Refused(difference.sentence)


def _is_about_to_boot_an_agent(task):
    """Whether Ironic powers an instance off next, to boot an agent for it.

    It keeps the password of its rescue with the node before it validates it
    (``ConductorManager.do_node_rescue``).
    """
    node = task.node
    if node.provision_state == states.SERVICING:
        return not isinstance(task.driver.deploy,
                              deploy.QuintupleoRebuildDeploy)
    return 'rescue_password' in node.instance_info and (
        node.provision_state in (states.ACTIVE, states.RESCUEFAIL))


def _require_wipe(task):
    """Require what cleaning removes an instance with, where no agent does.

    Ironic leaves out the steps of a management interface that has none.
    """
    if isinstance(task.driver.management, management.QuintupleoManagement):
        return
    if (isinstance(task.driver.deploy, deploy.QuintupleoRebuildDeploy)
            or server_fields.may_be_left(task.node)):
        raise exception.InvalidParameterValue(
            f'Node {task.node.uuid}: management_interface '
            f"{task.node.get_interface('management')} does not wipe what a "
            'deployment by rebuild leaves: set management_interface '
            'quintupleo, and remove instance_info/management_interface')


def _require_rescue(task, host, server):
    """Require what boots a server that does not ask the network by itself."""
    if not isinstance(task.driver.management, management.QuintupleoManagement):
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) does not ask the network by '
            'itself, and management_interface '
            f"{task.node.get_interface('management')} sets no boot device: "
            'set management_interface quintupleo, or make it a network-first '
            'server')
    server.require('booted from the network',
                   host.capabilities.rescue_obstacle(server))
    if not isinstance(task.driver.boot, boot.QuintupleoVirtualMediaBoot):
        rescue_image.find(task.node, host, server)


def _read_for_sync(node, host):
    """Return a server for power sync.

    Many nodes share a reading, which may be older than what was done since:
    a change is reported after another reading only.
    """
    server = server_access.get_read_only(node, host)
    is_on = transitions.is_on(server.state)
    known = node.power_state
    if is_on is None or known and is_on is not (known == states.POWER_ON):
        return server_access.get_read_only(node, host, cached=False)
    return server


def _report_difference(task, host, server):
    """Report what somebody else did to a server.

    :raises: HostCloudError if another server has come in its place, whose
        power is not the node's.
    """
    difference = baseline.find(task, host, server)
    if difference and difference.kind is compare.Kind.REPLACED:
        raise errors.HostCloudError(difference.sentence)
    if difference:
        baseline.report(task.node, difference)


def _is_about_to_leave_error(task, server):
    """Whether Ironic reads the power state of an ERROR in order to change it.

    It gives up before it asks for anything when that read raises
    (``ironic.conductor.utils._can_skip_state_change``). Power sync, which
    only looks, holds a shared lock.
    """
    return (transitions.situation(server.state) is transitions.Situation.ERROR
            and not task.shared
            and task.node.provision_state != states.VERIFYING)
