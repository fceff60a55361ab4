# SPDX-License-Identifier: Apache-2.0
"""Creates the volumes, server groups and servers of an environment."""

import base64
import contextlib

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import retry
from quintupleo_power.environments import schema
from quintupleo_power.host_cloud import shared_call


class Servers:
    """Creates servers of one environment and what belongs to them.

    Waiting raises EnvironmentsError if what is waited for does not come.
    """

    def __init__(self, inventory, resolved, stored, conductor, timeout):
        """Use a project; wait so many seconds for one server or volume."""
        self._connection = inventory.connection
        self._nova = inventory.connection.compute
        self._retrier = inventory.retrier
        self._inventory = inventory
        self._timeout = timeout
        self._resolved = resolved
        self._name = stored.name
        self._user_data = stored.definition.user_data
        self._conductor = conductor
        # One list of servers serves all threads.
        self._list = shared_call.SharedCall(self._read_list,
                                            'quintupleo-servers')

    def create(self, item, created):
        """Create a resource, as :meth:`networking.Networking.create`."""
        return {plan.GROUP: self._group, plan.VOLUME: self._volume,
                plan.SERVER: self._server}[item.kind](item, created)

    def _group(self, item, created):
        return self._inventory.create(
            self._name, item, self._nova.create_server_group,
            name=ownership.group_name(self._name, item.key),
            policies=[item.what.server_group])

    def _volume(self, item, created):
        disk, role = item.what, item.role
        image_id = (self._resolved.images[role.name].id
                    if disk is role.root_volume
                    else self._resolved.ids.get(('image', disk.image)))
        return self.wait_for_volume(self._inventory.create(
            self._name, item, self._connection.block_storage.create_volume,
            name=ownership.name(self._name, item.key), size=disk.size,
            image_id=image_id, volume_type=disk.type,
            metadata=ownership.metadata(self._name, item.key)))

    def wait_for_volume(self, volume):
        """Wait until a volume can be used, and return it."""
        found = self._poll(
            'Volume', lambda: self._retrier.call(
                self._connection.block_storage.get_volume, volume.id),
            lambda found: is_usable(found) or found.status.startswith('error'))
        if not is_usable(found):
            raise errors.EnvironmentsError(
                f'Volume {found.name} ({found.id}) is in state '
                f'{found.status}: "openstack volume show" and the host '
                "cloud's operator know more; the next create makes it again")
        return found

    def _server(self, item, created):
        role = item.role
        ports = [{'port': created[item.sibling(plan.PORT, place)].id}
                 for place in range(len(role.nics))]
        access = (self._conductor.create(item, created)
                  if role.kind == schema.IRONIC else {})
        user_data = access.get('user_data') or (
            role.user_data and base64.b64encode(
                self._user_data[role.user_data].encode()).decode())
        metadata = {**ownership.metadata(self._name, item.key),
                    **access.get('metadata', {})}
        server = self._inventory.create(
            self._name, item, self._nova.create_server,
            name=ownership.name(self._name, item.key),
            flavor_id=self._resolved.flavors[role.name].id,
            networks=ports or 'none',
            metadata=metadata, tags=[ownership.tag(self._name)],
            scheduler_hints=role.server_group and {
                'group': created[plan.key(plan.GROUP, role.name)].id},
            availability_zone=role.availability_zone, key_name=role.key_name,
            user_data=user_data,
            has_config_drive=role.config_drive or bool(access) or None,
            **self._block_devices(item, created))
        if ownership.access_id(server) != metadata.get(ownership.ACCESS):
            raise errors.EnvironmentsError(
                f'Another command made server {server.name} ({server.id}) at '
                'the same time, with other credentials: create again')
        return server

    def _block_devices(self, item, created):
        """Return the attributes of a server that describe its disks."""
        image_id = self._resolved.images[item.role.name].id
        mapping = [
            {'boot_index': 0 if name == 'root' else -1,
             'uuid': created[item.sibling(plan.VOLUME, name)].id,
             'source_type': 'volume', 'destination_type': 'volume',
             'delete_on_termination': False}
            for name, _ in plan.volumes(item.role)]
        if item.role.root_volume:
            return {'block_device_mapping': mapping}
        if not mapping:
            return {'image_id': image_id}
        return {'image_id': image_id, 'block_device_mapping': [
            {'boot_index': 0, 'uuid': image_id, 'source_type': 'image',
             'destination_type': 'local', 'delete_on_termination': True},
            *mapping]}

    def stop(self, server):
        """Stop a server, unless it is stopped, and wait for the end."""
        if server.status == 'SHUTOFF':
            return
        # It may have been requested before a response was lost.
        with contextlib.suppress(exceptions.ConflictException):
            self._retrier.call(self._nova.stop_server, server.id)
        self.wait(server.id, ('SHUTOFF',))

    def wait(self, server_id, states):
        """Wait until a server is in one of some states, and return it."""
        # The list of all servers has its own interval.
        server = self._poll(
            'Server', lambda: self._list().get(server_id), lambda found: (
                found is None or found.status == 'ERROR'
                or found.status in states and not found.task_state), 0)
        if server is None:
            raise errors.EnvironmentsError(
                f'Server {server_id} was removed by somebody else; create '
                'again')
        if server.status == 'ERROR':
            fault = self._retrier.call(
                self._nova.get_server, server_id).fault or {}
            raise errors.EnvironmentsError(
                f'Nova did not build server {server.name} ({server_id}): '
                f'{fault.get("message", "it does not say why")}; the next '
                'create makes it again')
        return server

    def _read_list(self):
        """Wait for an interval, and return the servers by UUID."""
        self._retrier.sleep(retry.INTERVAL)
        return {server.id: server for server in self._retrier.read_all(
            self._nova.servers, tags=ownership.tag(self._name))}

    def _poll(self, title, read, is_done, interval=None):
        found = self._retrier.poll(read, is_done, self._timeout, interval)
        if not is_done(found):
            task = getattr(found, 'task_state', None)
            raise errors.EnvironmentsError(
                f'{title} {found.name} ({found.id}) is still {found.status}'
                + (f' {task}' if task else '') + f' after {self._timeout} s: '
                'look at it, and create again with a longer --timeout')
        return found


def is_usable(volume):
    """Return whether a volume exists, for a server or in one."""
    return volume.status in ('available', 'in-use')
