# SPDX-License-Identifier: Apache-2.0
"""Volumes, server groups and servers of an environment."""

import base64
import threading
import time

from openstack import exceptions

from quintupleo_power.environments import definition
from quintupleo_power.environments import failures
from quintupleo_power.environments import mark
from quintupleo_power.environments import plan

# Seconds between two looks at what is being built.
_PAUSE = 1.0


class Watch:
    """Looks at servers for many threads with one list for all."""

    def __init__(self, patience, read):
        """Look.

        :param patience: the :class:`patience.Patience`.
        :param read: function that returns the servers by UUID.
        """
        self._patience = patience
        self._read = read
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._servers = {}

    def look(self, server_id, after):
        """Read a server.

        :param server_id: its UUID.
        :param after: the moment, as time.monotonic() has it, after which the
            list has to have been asked for.
        :returns: the server, or None if it is not there.
        """
        while True:
            with self._lock:
                if self._looked_at > after:
                    return self._servers.get(server_id)
                self._patience.wait(
                    self._looked_at + _PAUSE - time.monotonic())
                began = time.monotonic()
                self._servers = self._patience.call(self._read)
                self._looked_at = began


class Machines:
    """Makes servers and what belongs to them."""

    def __init__(self, connection, patience, inventory, choices, name,
                 timeout, wanted):
        """Make things of one environment.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        :param inventory: the :class:`inventory.Inventory`.
        :param choices: the :class:`choices.Choices`.
        :param name: the environment's name.
        :param timeout: seconds to wait for one server or volume.
        :param wanted: the :class:`definition.Definition`.
        """
        self._connection = connection
        self._nova = connection.compute
        self._patience = patience
        self._inventory = inventory
        self._choices = choices
        self._name = name
        self._timeout = timeout
        self._user_data = dict(wanted.user_data)
        self._watch = Watch(patience, self._read)

    def make(self, item, made):
        """Make a thing.

        :param item: its :class:`plan.Item`.
        :param made: dict of what openstacksdk knows of the things that were
            made before, by key.
        :returns: what openstacksdk knows of it.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        return {plan.GROUP: self._group, plan.VOLUME: self._volume,
                plan.SERVER: self._server}[item.kind](item, made)

    def _read(self):
        return {server.id: server for server in self._nova.servers(
            tags=mark.tag(self._name))}

    def _create(self, item, function, **attributes):
        return self._patience.make(
            lambda: self._inventory.find(self._name, item.kind, item.key),
            function, **attributes)

    def _group(self, item, made):
        return self._create(
            item, self._nova.create_server_group,
            name=mark.group_name(self._name, item.key),
            policies=[item.what.server_group])

    def _volume(self, item, made):
        disk, role = item.what, item.role
        attributes = {}
        if disk is role.root_volume:
            attributes['image_id'] = self._choices.images[role.name].id
        elif disk.image:
            attributes['image_id'] = self._choices.image(disk.image)
        if disk.volume_type:
            attributes['volume_type'] = disk.volume_type
        return self._create(
            item, self._connection.block_storage.create_volume,
            name=mark.name(self._name, item.key), size=disk.size,
            metadata=mark.metadata(self._name, item.key), **attributes)

    def wait_for_volume(self, volume):
        """Wait until a volume can be used.

        :param volume: what openstacksdk knows of it.
        :returns: what openstacksdk knows of it then.
        :raises: failures.Failure.
        """
        began = time.monotonic()
        while not is_usable(volume):
            if volume.status.startswith('error'):
                raise failures.Failure(
                    f'Volume {volume.name} ({volume.id}) is in state '
                    f'{volume.status}: "openstack volume show" and the host '
                    "cloud's operator know more; the next create makes it "
                    'anew')
            self._require_time(began, f'volume {volume.name} ({volume.id})',
                               volume.status)
            self._patience.wait(_PAUSE)
            volume = self._patience.call(
                self._connection.block_storage.get_volume, volume.id)
        return volume

    def _server(self, item, made):
        """Ask for a server."""
        role, place = item.role, item.key.split('.')[1:]
        image = self._choices.images[role.name]
        attributes = {}
        drives = [_drive(made[plan.key(plan.VOLUME, *place, name)].id,
                         0 if name == 'root' else -1)
                  for name, _ in plan.volumes(role)]
        if role.root_volume is None:
            attributes['image_id'] = image.id
            if drives:
                drives.insert(0, {
                    'boot_index': 0, 'uuid': image.id, 'source_type': 'image',
                    'destination_type': 'local',
                    'delete_on_termination': True})
        if drives:
            attributes['block_device_mapping'] = drives
        if role.server_group:
            attributes['scheduler_hints'] = {
                'group': made[plan.key(plan.GROUP, role.name)].id}
        if role.availability_zone:
            attributes['availability_zone'] = role.availability_zone
        if role.key_name:
            attributes['key_name'] = role.key_name
        if role.user_data:
            attributes['user_data'] = base64.b64encode(
                self._user_data[role.user_data].encode()).decode()
        if role.config_drive:
            attributes['has_config_drive'] = True
        ports = [{'port': made[plan.key(plan.PORT, *place, number)].id}
                 for number in range(len(role.nics))]
        return self._create(
            item, self._nova.create_server,
            name=mark.name(self._name, item.key),
            flavor_id=self._choices.flavors[role.name].id,
            networks=ports or 'none',
            metadata=mark.metadata(self._name, item.key),
            tags=[mark.tag(self._name)], **attributes)

    def wait_built(self, server_id):
        """Wait until Nova has built a server.

        :param server_id: its UUID.
        :returns: what openstacksdk knows of it.
        :raises: failures.Failure.
        """
        return self._wait(server_id, ('ACTIVE', 'SHUTOFF', 'RESCUE'))

    def switch_off(self, server):
        """Switch a server off that is on.

        :param server: what openstacksdk knows of it.
        """
        if server.status == 'SHUTOFF':
            return
        try:
            self._patience.call(self._nova.stop_server, server.id)
        except exceptions.ConflictException:
            # Its stop may have been asked for before an answer was lost.
            pass
        self._wait(server.id, ('SHUTOFF',))

    def set_made(self, server):
        """Note that a server is as its role wants it.

        :param server: what openstacksdk knows of it.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        self._patience.call(self._nova.set_server_metadata, server.id,
                            **{mark.MADE: 'yes'})

    def _wait(self, server_id, states):
        began = time.monotonic()
        while True:
            server = self._watch.look(server_id, time.monotonic())
            if server is None:
                raise failures.Failure(
                    f'Server {server_id} was removed by somebody else; '
                    'create again')
            if server.status in states and not server.task_state:
                return server
            if server.status == 'ERROR':
                fault = self._patience.call(
                    self._nova.get_server, server_id).fault or {}
                raise failures.Failure(
                    f'Nova did not build server {server.name} ({server_id}): '
                    f'{fault.get("message", "it does not say why")}; the '
                    'next create makes it anew')
            self._require_time(
                began, f'server {server.name} ({server_id})',
                f'{server.status} {server.task_state or ""}'.strip())

    def _require_time(self, began, what, state):
        if time.monotonic() - began > self._timeout:
            raise failures.Failure(
                f'{what[0].upper()}{what[1:]} is still {state} after '
                f'{self._timeout} s: look at it, and create again with a '
                'longer --timeout')


def is_usable(volume):
    """Tell whether a volume is there, for a server or in one.

    :param volume: what openstacksdk knows of it.
    :returns: True or False.
    """
    return volume.status in ('available', 'in-use')


def _drive(volume_id, boot_index):
    return {'boot_index': boot_index, 'uuid': volume_id,
            'source_type': 'volume', 'destination_type': 'volume',
            'delete_on_termination': False}


def remove_server(nova, patience, server_id):
    """Ask for the end of a server, unless that was asked for already.

    :param nova: openstacksdk's proxy of it.
    :param patience: the :class:`patience.Patience`.
    :param server_id: UUID of the server.
    :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
    """
    patience.call(nova.delete_server, server_id, ignore_missing=True)


def is_baremetal(item):
    """Tell whether a server is to become a node of Ironic.

    :param item: its :class:`plan.Item`.
    :returns: True or False.
    """
    return item.role.kind == definition.BAREMETAL
