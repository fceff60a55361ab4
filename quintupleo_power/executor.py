# SPDX-License-Identifier: Apache-2.0
"""Carries out what Ironic asks of a node: read, plan, act, verify."""

from collections import abc
import time
import typing

from ironic import objects
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power.drift import baseline
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.media import rescue_image
from quintupleo_power.node import boot_device
from quintupleo_power.node import driver_info
from quintupleo_power.node import pending_request
from quintupleo_power.node import server_access
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

# How often Nova may refuse an action of one request.
MAX_CONFLICTS = 4

# Seconds between two attempts at most while the host cloud fails, which a
# request may outlast until its time is over.
LONGEST_PAUSE = 30.0

_REBOOTS = (transitions.Action.HARD_REBOOT, transitions.Action.SOFT_REBOOT)


def run(node: objects.Node, request: transitions.Request,
        timeout: float | None = None,
        body: abc.Callable[..., typing.Any] | None = None,
        ) -> servers.Server | None:
    """Bring a node's server to where a request wants it.

    :param node: the node, locked; is saved before each action.
    :param timeout: seconds that it may take; None for
        [quintupleo]action_timeout.
    :param body: function of (host, server) that returns the body of a
        rebuild or a snapshot, see :meth:`host_cloud.actions.Actions.send`;
        it may refuse the server.
    :returns: the server after the last action, None if there was nothing to
        do.
    :raises: MissingParameterValue if a required setting is missing.
    :raises: InvalidParameterValue if a setting is wrong.
    :raises: DriverOperationError if the server did not get there.
    """
    info = driver_info.parse(node)
    deadline = time.monotonic() + (timeout or CONF.quintupleo.action_timeout)
    with exceptions.translated(info):
        return _Execution(node, info, request, deadline, body).run()


class _Execution:
    """One request of a node, with what its attempts have led to so far."""

    def __init__(self, node, info, request, deadline, body):
        """Begin with nothing sent; for the parameters see :func:`run`."""
        self._node = node
        self._info = info
        self._request = request
        self._deadline = deadline
        self._body = body
        self._device = boot_device.of_next_boot(node)
        # The last of these without success for all that is known.
        self._sent = []
        self._request_id = None
        # The server's state when Nova refused an action last.
        self._refused_in = None
        self._conflicts = self._failures = 0

    def run(self) -> servers.Server | None:
        """Make attempts until one ends well or there is to be none."""
        while True:
            self._host = cloud.get(self._info.credentials)
            try:
                return self._attempt()
            except errors.PLAN_AGAIN as exc:
                self._pause(exc)

    def _attempt(self):
        server = self._read()
        if self._sent and self._has_booted(server):
            return self._end(server, booted=True)
        actions = self._plan(server)
        # Known before the first action: a missing image must not leave a
        # sequence half done.
        bodies = {action: self._body_of(action, server) for action in actions}
        for action in actions:
            server = self._act(server, action, bodies[action])
        # A rebuild or the end of a rescue is no boot that anybody asked for.
        return self._end(server, self._request.ends_on and bool(actions)
                         and actions[-1].boots)

    def _read(self):
        """Return the server when nothing is under way on it."""
        server = server_access.get(self._node, self._host)
        pending_request.set_server(self._node, server)
        if server.state.task_state:
            self._save()
        server = self._host.actions.settle(server, self._deadline)
        if not self._sent:
            baseline.check_before_action(self._node, self._host, server)
        return server

    def _plan(self, server):
        request = self._request
        if request is transitions.Request.POWER_ON and any(
                action.boots for action in self._sent):
            # A step on the way may have powered it on from the other device.
            request = transitions.Request.REBOOT
        try:
            actions = transitions.plan(server.state, request, self._device,
                                       server.network_first,
                                       compat.must_stay_on(self._node))
        except transitions.Refused as refusal:
            raise transitions.Refused(
                f'Server {server.id} ({server.name}) is {server.status} and '
                f'a {request.value} is refused: {refusal}')
        LOG.debug('Node %(node)s: %(request)s to %(device)s of server '
                  '%(server)s in %(state)s takes %(actions)s',
                  {'node': self._node.uuid, 'request': request.value,
                   'device': self._device.value, 'server': server.id,
                   'state': server.state,
                   'actions': [action.value for action in actions]})
        return actions

    def _body_of(self, action, server):
        if action is transitions.Action.RESCUE:
            return rescue_image.find(self._node, self._host, server,
                                      self._device)
        if action in (transitions.Action.REBUILD,
                      transitions.Action.SNAPSHOT):
            return self._body(self._host, server)
        return None

    def _act(self, server, action, body):
        """Send an action and return the server when Nova has done it."""
        if not self._sent:
            baseline.forget_device(self._node)
        self._save()
        self._sent.append(action)
        self._request_id = None
        actions = self._host.actions
        try:
            under_way = actions.send(server, action, self._deadline, body)
            self._request_id = under_way.request_id
            LOG.info('Node %(node)s: %(action)s of server %(server)s, request '
                     '%(request)s of the compute service',
                     {'node': self._node.uuid, 'action': action.value,
                      'server': server.id, 'request': self._request_id})
            return actions.wait(under_way, self._deadline)
        except errors.Conflict as exc:
            self._sent.pop()
            self._require_another_state(server, exc)
            raise
        except errors.ActionFailed as exc:
            # Nova starts the guest with its serial port of before the rescue,
            # which another may have by now (nova.virt.libvirt.driver).
            if action is transitions.Action.UNRESCUE and (
                    transitions.situation(self._host.servers.get(
                        server.id).state) is transitions.Situation.ERROR):
                raise errors.Conflict(str(exc))
            raise
        except errors.BadRequest as exc:
            # An image that it names may have been replaced since.
            self._host.rescue_images.clear()
            if body is not None and self._body_of(action, server) != body:
                raise errors.Conflict(str(exc))
            raise

    def _require_another_state(self, server, conflict):
        """Raise where Nova would refuse the same action once more.

        :raises: Refused if it is a lock that stops it, ActionFailed if the
            server stays as it was.
        """
        now = self._host.servers.get(self._info.server)
        # Nova looks at a lock first. In another state there may be nothing
        # to do, or something else in the way too.
        if now.locked and now.state == server.state:
            reason = f' ("{now.locked_reason}")' if now.locked_reason else ''
            raise transitions.Refused(
                f'Server {now.id} ({now.name}) takes no action: it is locked'
                f'{reason}: run "openstack server unlock" as the user who '
                'locked it')
        # Once is no proof: what stood in the way may just have ended.
        if self._refused_in == now.state == server.state:
            raise errors.ActionFailed(f'{conflict}; {now.fault_or_hint}')
        self._refused_in = server.state

    def _has_booted(self, server):
        """Return whether an action that seemed to fail has done its work."""
        state, last = server.state, self._sent[-1]
        if not (self._request.ends_on and last.boots
                and transitions.reached(last, state, state.vm_state)):
            return False
        if not server.network_first and (
                transitions.device_in_use(state).by_rescue
                is not self._device.by_rescue):
            return False
        # A reboot leaves nothing in the state by which to know of it.
        return (self._request is transitions.Request.POWER_ON
                or last not in _REBOOTS)

    def _end(self, server, booted):
        """Keep with the node what has become of its server."""
        if not self._sent:
            return None
        rebuilt = self._request is transitions.Request.REBUILD
        if rebuilt:
            self._host.capabilities.forget(server)
        baseline.set_after_action(self._node, server, self._request_id,
                                  rebuilt=rebuilt)
        if booted:
            boot_device.booted(self._node)
        return server

    def _pause(self, error):
        """Wait before another attempt.

        :raises: the error if there is to be none.
        """
        pause = 0.0
        if isinstance(error, errors.Conflict):
            self._conflicts += 1
        else:
            pause = CONF.quintupleo.poll_interval * 2 ** min(self._failures, 8)
            pause = max(min(pause, LONGEST_PAUSE), error.retry_after)
            self._failures += 1
        if (self._conflicts == MAX_CONFLICTS
                or time.monotonic() + pause >= self._deadline):
            raise error
        LOG.warning('The %(request)s of node %(node)s is planned again: '
                    '%(reason)s',
                    {'request': self._request.value,
                     'node': self._node.uuid, 'reason': error})
        cloud.failed(self._info.credentials, error)
        pending_request.set_server(self._node, None)
        self._save()
        time.sleep(pause)

    def _save(self):
        if self._node.obj_what_changed():
            self._node.save()
