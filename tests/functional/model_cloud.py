# SPDX-License-Identifier: Apache-2.0
"""The host cloud for those who go past Ironic.

It tells the truth about a server to compare with, and lets outsiders meddle.
"""

import dataclasses
import itertools
import time

import openstack

from tests.functional import model

TENANT, ADMIN = 'minicloud', 'minicloud-admin'
MICROVERSION = '2.90'
PATIENCE = 60
# Seconds between two looks: each costs Nova a tenth of one.
POLL_INTERVAL = 0.3
GUEST_OFF = (4, 6)


@dataclasses.dataclass(frozen=True)
class Seen:
    """A server as it was when it was looked at.

    :ivar machine: the :class:`model.Machine`.
    :ivar task: the task in progress, or None.
    """

    machine: model.Machine
    task: str | None = None


class HostCloud:
    """The host cloud for those who go past Ironic."""

    def __init__(self, clouds_yaml):
        """Connect.

        :param clouds_yaml: path of the file that minicloud wrote.
        """
        config = openstack.config.OpenStackConfig(
            config_files=[str(clouds_yaml)], load_envvars=False)
        self._connections = {
            name: openstack.connection.Connection(
                config=config.get_one(cloud=name))
            for name in (TENANT, ADMIN)}
        tenant = self._connections[TENANT]
        self._image, self._rescue_image = (
            tenant.image.find_image(name, ignore_missing=False).id
            for name in ('quintupleo-empty-bios', 'quintupleo-rescue-bios'))
        self._flavors = {
            name: tenant.compute.find_flavor(name, ignore_missing=False).id
            for name in ('tiny', 'baremetal-small')}
        self._numbers = itertools.count(1)

    def _get(self, path, cloud=ADMIN):
        answer = self._connections[cloud].compute.get(
            path, microversion=MICROVERSION)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    def create(self):
        """Make a server that is ACTIVE.

        :returns: its UUID.
        """
        compute = self._connections[TENANT].compute
        server = compute.create_server(
            name=f'model-{time.time():.0f}-{next(self._numbers)}',
            image_id=self._image, flavor_id=self._flavors['tiny'],
            networks='none')
        built = self.wait(server.id, ('active', 'error'))
        assert built.vm_state == 'active', (
            f'Nova did not build server {server.name}: '
            f'{compute.get_server(server.id).fault}')
        return server.id

    def begin_delete(self, server_id):
        """Delete a server, and do not wait for it.

        :returns: the request's id, or None if there is no such server.
        """
        answer = self._connections[ADMIN].compute.delete(
            f'/servers/{server_id}', microversion=MICROVERSION)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.headers['x-openstack-request-id']

    def delete(self, server_id):
        """Delete a server and wait until it is gone."""
        self.begin_delete(server_id)
        deadline = time.monotonic() + PATIENCE
        while self._get(f'/servers/{server_id}', TENANT) is not None:
            assert time.monotonic() < deadline, f'{server_id} is still there'
            time.sleep(POLL_INTERVAL)

    def look(self, server_id):
        """Read a server.

        :returns: a :class:`Seen`.
        """
        body = self._get(f'/servers/{server_id}', TENANT)
        if body is None:
            return Seen(model.Machine(None))
        server = body['server']
        if server['OS-EXT-STS:vm_state'] == 'deleted':
            # Nova shows it so for a moment before it is gone.
            return Seen(model.Machine(None))
        return Seen(
            model.Machine(
                server['OS-EXT-STS:vm_state'],
                server['OS-EXT-STS:power_state'] not in GUEST_OFF,
                server['locked']),
            server['OS-EXT-STS:task_state'])

    def wait(self, server_id, vm_states=None, guest_on=None):
        """Wait until a server has no task, and is where it has to be.

        :returns: its :class:`model.Machine`.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            seen = self.look(server_id)
            if (not seen.task
                    and (not vm_states or seen.machine.vm_state in vm_states)
                    and guest_on in (None, seen.machine.guest_on)):
                return seen.machine
            assert time.monotonic() < deadline, (
                f'Server {server_id} is {seen} and not {vm_states}')
            time.sleep(POLL_INTERVAL)

    def rows(self, server_id):
        """Read Nova's record of what was done with a server, oldest first.

        :returns: a list of (request id, action).
        """
        body = self._get(f'/servers/{server_id}/os-instance-actions')
        return [(row['request_id'], row['action'])
                for row in reversed(body['instanceActions'])] if body else []

    def act(self, server_id, name, admin=False):
        """Ask Nova for something, as someone who goes past Ironic.

        :param name: a key of :data:`MEDDLING`.
        :returns: the request's id, or None if Nova refused it.
        """
        body = MEDDLING[name].body(self)
        answer = self._connections[
            ADMIN if admin or MEDDLING[name].admin else TENANT].compute.post(
                f'/servers/{server_id}/action', json=body,
                microversion=MICROVERSION)
        # A resize to the flavor that it has is a 400.
        if answer.status_code in (404, 409) or (
                answer.status_code == 400 and name == 'resize'):
            return None
        answer.raise_for_status()
        return answer.headers['x-openstack-request-id']

    @property
    def image(self):
        """UUID of the image that servers are made from."""
        return self._image

    @property
    def rescue_image(self):
        """UUID of the rescue image."""
        return self._rescue_image

    @property
    def larger(self):
        """UUID of a flavor to resize to."""
        return self._flavors['baremetal-small']


@dataclasses.dataclass(frozen=True)
class Meddling:
    """Something that can be done with a server past Ironic.

    :ivar body: function that makes the action's body.
    :ivar ends_in: vm_states in which it has ended; None for where it was.
    :ivar admin: whether only the host cloud's administrator may do it.
    :ivar guest_on: whether the guest runs then, if that is waited for.
    """

    body: object
    ends_in: tuple | None = None
    admin: bool = False
    guest_on: bool | None = None


def _plain(key, *ends_in, **more):
    return Meddling(lambda cloud: {key: None}, ends_in or None, **more)


MEDDLING = {
    'stop': _plain('os-stop', 'stopped'),
    'start': _plain('os-start', 'active'),
    'hard reboot': Meddling(
        lambda cloud: {'reboot': {'type': 'HARD'}}, ('active',)),
    'rescue': Meddling(
        lambda cloud: {'rescue': {'rescue_image_ref': cloud.rescue_image}},
        ('rescued',)),
    'unrescue': _plain('unrescue', 'active'),
    'pause': _plain('pause', 'paused'),
    'unpause': _plain('unpause', 'active'),
    'suspend': _plain('suspend', 'suspended'),
    'resume': _plain('resume', 'active'),
    'rebuild': Meddling(
        lambda cloud: {'rebuild': {'imageRef': cloud.image}}),
    'resize': Meddling(
        lambda cloud: {'resize': {'flavorRef': cloud.larger}}, ('resized',)),
    'confirm the resize': _plain('confirmResize', 'active', 'stopped'),
    'revert the resize': _plain('revertResize', 'active', 'stopped'),
    'shelve': _plain('shelve', 'shelved_offloaded'),
    'unshelve': _plain('unshelve', 'active'),
    # Of minicloud's fake hypervisor; Nova then stops an ACTIVE server.
    'guest switches itself off': _plain(
        'trigger_crash_dump', 'rescued', 'stopped', guest_on=False),
    'set to ERROR by the administrator': Meddling(
        lambda cloud: {'os-resetState': {'state': 'error'}}, ('error',),
        admin=True),
    'lock': _plain('lock'),
    'lock by the administrator': _plain('lock', admin=True),
    'unlock': _plain('unlock', admin=True),
}


def ends_in(name, vm_state):
    """Tell in which vm_states something has ended.

    :param name: a key of :data:`MEDDLING`.
    :param vm_state: where it began.
    :returns: a tuple.
    """
    if name == 'rebuild' and vm_state == 'error':
        return ('active',)
    # A rebuild of a stopped server is ACTIVE without a task for a moment.
    return MEDDLING[name].ends_in or (vm_state,)


_ANYWHERE = ('set to ERROR by the administrator',)
_MOVABLE = (*_ANYWHERE, 'rebuild', 'resize', 'shelve')
# What is worth trying in a vm_state.
PERMITTED = {
    'active': ('stop', 'hard reboot', 'rescue', 'pause', 'suspend',
               'guest switches itself off', *_MOVABLE),
    'stopped': ('start', 'rescue', *_MOVABLE),
    'rescued': ('unrescue', 'guest switches itself off', *_ANYWHERE),
    'paused': ('unpause', 'hard reboot', *_ANYWHERE),
    'suspended': ('resume', 'hard reboot', *_ANYWHERE),
    'error': ('hard reboot', 'stop', 'rescue', 'rebuild'),
    'resized': ('confirm the resize', 'revert the resize'),
    'shelved_offloaded': ('unshelve',),
}
# What can be looked at while it is under way: model.Machine.after knows
# where it ends.
BEGINNINGS = {
    'active': ('stop', 'hard reboot', 'rescue', 'pause', 'suspend',
               'rebuild'),
    'stopped': ('start', 'rescue'),
    'rescued': ('unrescue',),
    'paused': ('unpause', 'hard reboot'),
    'suspended': ('resume', 'hard reboot'),
    'error': ('hard reboot', 'stop', 'rescue'),
}
