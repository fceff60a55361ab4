# SPDX-License-Identifier: Apache-2.0
"""Creates what is missing of an environment, and completes its servers."""

import collections
import contextlib
import functools

from openstack import exceptions

from quintupleo_power.environments import creator
from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import remover
from quintupleo_power.environments import schema
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import servers as host_servers

# Tasks for a server that exists, and for what it has lost.
COMPLETE, ATTACH = 'complete', 'attach'
_TITLES = {**plan.TITLES, COMPLETE: 'servers ready', ATTACH: 'attachments'}


class Builder:
    """Builds one environment; waiting in vain raises EnvironmentsError."""

    def __init__(self, inventory, resolved, stored, conductor, progress,
                 timeout):
        """Use a project; wait so many seconds for one server or volume."""
        self._connection = inventory.connection
        self._nova = inventory.connection.compute
        self._retrier = inventory.retrier
        self._progress = progress
        self._timeout = timeout
        self._items = plan.items(stored.definition)
        self._creator = creator.Creator(inventory, resolved, stored, conductor)
        self._remover = remover.Remover(inventory)
        # Threads only get and set single keys, which needs no lock.
        self._created = {plan.key(plan.NETWORK, name): network
                         for name, network in resolved.networks.items()}

    def build(self, resources, wait):
        """Create what is missing, or raise EnvironmentsError.

        :param resources: list of :class:`owned_resources.Resource` that exist.
        :param wait: whether to wait for servers, and complete them.
        """
        self._adopt(resources)
        tasks = [task for item in self._items.values()
                 for task in self._tasks(item, wait)]
        # Those of one server wait for each other: the order names devices.
        last = {}
        for key, server_id in _lost(self._items, self._created).items():
            # A trunk is made of a port that no server has yet.
            trunk = key.replace(plan.PORT, plan.TRUNK, 1)
            tasks.append(task_graph.Task(
                plan.key(ATTACH, key),
                functools.partial(self._attach, server_id, key),
                (key, trunk, last.get(server_id, key))))
            last[server_id] = tasks[-1].name
        # All servers are requested before threads wait for one of them.
        tasks.sort(key=lambda task: plan.kind(task.name) == COMPLETE)
        self._progress.begin('making', collections.Counter(
            _TITLES[plan.kind(task.name)] for task in tasks))
        task_graph.run(tasks, self._retrier.stop, lambda task:
                       self._progress.done(_TITLES[plan.kind(task.name)]))

    def _tasks(self, item, wait):
        resource = self._created.get(item.key)
        if resource is None:
            yield task_graph.Task(item.key, lambda: self._create(item),
                                  item.after)
        elif item.kind == plan.VOLUME and not _is_usable(resource):
            # An earlier command may have ended before it could be used.
            yield task_graph.Task(
                item.key, lambda: self._wait_for_volume(resource))
        elif item.kind == plan.ROUTER:
            # Or before it was part of all its networks.
            yield task_graph.Task(
                item.key, lambda: self._creator.join_networks(
                    resource, item, self._created), item.after)
        if item.kind == plan.SERVER and wait and not (
                resource and _is_made(resource)):
            yield task_graph.Task(plan.key(COMPLETE, item.key),
                                  lambda: self._complete(item),
                                  (item.key, *item.after))

    def _adopt(self, resources):
        """Take what exists, and remove what cannot be used or is too much."""
        # Access images; others are of a command that ended before its server.
        in_use = set()
        for key, body in usable(resources).items():
            # There may have been more servers before.
            if key in self._items:
                self._created[key] = body
                if plan.kind(key) == plan.SERVER:
                    in_use.add(ownership.access_id(body))
        removed = [each for each in resources if each.id not in in_use and
                   each.body is not self._created.get(each.key)]
        broken = sorted(each.key for each in removed
                        if each.key in self._items)
        if broken:
            self._progress.note('To be removed, as it cannot be used: '
                                + ', '.join(broken))
        self._remover.remove(removed, self._progress)

    def _create(self, item):
        resource = self._creator.create(item, self._created)
        if item.kind == plan.VOLUME:
            resource = self._wait_for_volume(resource)
        self._created[item.key] = resource

    def _wait_for_volume(self, volume):
        """Wait until a volume can be used, and return it."""
        found = self._poll(
            'Volume', self._connection.block_storage.get_volume, volume.id,
            lambda found: _is_usable(found)
            or found.status.startswith('error'))
        if not _is_usable(found):
            raise errors.EnvironmentsError(
                f'Volume {found.name} ({found.id}) is in state '
                f'{found.status}: "openstack volume show" and the host '
                "cloud's operator know more; the next create makes it again")
        return found

    def _complete(self, item):
        """Wait for a server, and bring it to what its role wants."""
        server = self._wait(self._created[item.key].id,
                            ('ACTIVE', 'SHUTOFF', 'RESCUE'))
        # What is a node by now is Ironic's.
        if (item.role.kind == schema.BAREMETAL
                and host_servers.NODE not in (server.metadata or {})):
            self._stop(server)
        for key in item.after:
            self._release_addresses(key)
        self._retrier.call(self._nova.set_server_metadata, server.id,
                           **{ownership.MADE: 'yes'})

    def _stop(self, server):
        """Stop a server, unless it is stopped, and wait for the end."""
        if server.status == 'SHUTOFF':
            return
        # It may have been requested before a response was lost.
        with contextlib.suppress(exceptions.ConflictException):
            self._retrier.call(self._nova.stop_server, server.id)
        self._wait(server.id, ('SHUTOFF',))

    def _wait(self, server_id, states):
        """Wait until a server is in one of some states, and return it."""
        server = self._poll(
            'Server', self._nova.get_server, server_id, lambda found: (
                found.status == 'ERROR'
                or found.status in states and not found.task_state))
        if server.status == 'ERROR':
            fault = server.fault or {}
            raise errors.EnvironmentsError(
                f'Nova did not build server {server.name} ({server_id}): '
                f'{fault.get("message", "it does not say why")}; the next '
                'create makes it again')
        return server

    def _poll(self, title, get, resource_id, is_done):
        found = self._retrier.poll(
            lambda: self._retrier.call(get, resource_id), is_done,
            self._timeout)
        if not is_done(found):
            task = getattr(found, 'task_state', None)
            raise errors.EnvironmentsError(
                f'{title} {found.name} ({found.id}) is still {found.status}'
                + (f' {task}' if task else '') + f' after {self._timeout} s: '
                'look at it, and create again with a longer --timeout')
        return found

    def _attach(self, server_id, key):
        resource_id = self._created[key].id
        path, body = {
            plan.VOLUME: ('os-volume_attachments', {
                'volumeAttachment': {'volumeId': resource_id}}),
            plan.PORT: ('os-interface', {
                'interfaceAttachment': {'port_id': resource_id}})
        }[plan.kind(key)]
        # The parameters of openstacksdk's functions differ between releases.
        self._retrier.call(lambda: exceptions.raise_from_response(
            self._nova.post(f'/servers/{server_id}/{path}', json=body)))
        self._release_addresses(key)

    def _release_addresses(self, key):
        if (plan.kind(key) == plan.PORT
                and self._items[key].what.fixed_ip == 'release'
                and self._created[key].fixed_ips):
            self._retrier.call(
                self._connection.network.update_port,
                self._created[key].id, fixed_ips=[])


def usable(resources):
    """Return the first one that can be used of each key.

    :returns: dict of openstacksdk's resources by key.
    """
    images = {each.id for each in resources if each.kind == plan.ACCESS}
    return {each.key: each.body for each in reversed(resources)
            if not _is_broken(each, images)}


def _is_broken(resource, images):
    """Return whether a resource never became usable, or has lost its image.

    With its access image a server has lost its application credential.
    """
    state = (getattr(resource.body, 'status', None) or '').lower()
    if resource.kind == plan.SERVER:
        return (state == 'error' and not _is_made(resource.body)
                or ownership.access_id(resource.body) not in (None, *images))
    return resource.kind == plan.VOLUME and state.startswith('error')


def missing(definition, resources):
    """Return the :class:`plan.Item` of a definition that are not there."""
    existing = usable(resources)
    return [item for item in plan.items(definition).values()
            if item.key not in existing]


def is_complete(definition, resources):
    """Return whether all of an environment exists, its servers completed."""
    return (not missing(definition, resources)
            and not _lost(plan.items(definition), usable(resources))
            and all(_is_made(each.body) for each in resources
                    if each.kind == plan.SERVER))


def _lost(items, found):
    """Return servers' UUIDs by the keys of ports and volumes they lost."""
    return {key: found[item.key].id for item in items.values()
            if item.kind == plan.SERVER and item.key in found
            and _is_made(found[item.key])
            for key in item.after
            if plan.kind(key) in (plan.PORT, plan.VOLUME)
            # A root disk cannot be attached to a server that exists.
            and not key.endswith('.root')
            and not _is_attached(found[item.key].id, found.get(key))}


def _is_usable(volume):
    """Return whether a volume exists, for a server or in one."""
    return volume.status in ('available', 'in-use')


def _is_made(server):
    """Return whether a server was completed, whatever it does now."""
    return ownership.MADE in (server.metadata or {})


def _is_attached(server_id, body):
    attachments = getattr(body, 'attachments', None) or ()
    return server_id in (getattr(body, 'device_id', None), *(
        each['server_id'] for each in attachments))
