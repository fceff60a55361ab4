# SPDX-License-Identifier: Apache-2.0
"""What the project has of an environment, read from the host cloud."""

import collections
import concurrent.futures
import dataclasses
import functools

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.environments import mark
from quintupleo_power.environments import plan

# openstacksdk's lists of what every Neutron has, by kind; whatever else is in
# Neutron is a port.
_LISTS = {plan.NETWORK: 'networks', plan.SUBNET: 'subnets',
          plan.ROUTER: 'routers', plan.PORT: 'ports', plan.FLOATING_IP: 'ips'}


@dataclasses.dataclass(frozen=True)
class Found:
    """One thing that carries an environment's mark.

    :ivar key: which part of the environment it is.
    :ivar id: its UUID.
    :ivar body: what openstacksdk read.
    """

    key: str
    id: str
    body: object = dataclasses.field(repr=False, compare=False)

    @property
    def kind(self):
        """One of plan.KINDS."""
        return plan.kind(self.key)


class Inventory:
    """Readings of one project."""

    def __init__(self, connection, patience):
        """Use a connection.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        """
        self._connection = connection
        self._patience = patience
        self._project = connection.current_project_id

    def read(self, environment=None):
        """Read what there is.

        :param environment: name of the one to read, None for all.
        :returns: dict of lists of :class:`Found` by the environment's name;
            what was made first comes first.
        :raises: one of failures.CLOUD_ERRORS.
        """
        readers = [functools.partial(self._described, lists)
                   for lists in _LISTS.values()]
        readers += [self._trunks, self._groups, self._volumes,
                    lambda: self._servers(environment)]
        found = collections.defaultdict(list)
        with concurrent.futures.ThreadPoolExecutor(len(readers)) as threads:
            for things in threads.map(self._patience.call, readers):
                for marked, thing in things:
                    if marked and environment in (None, marked[0]):
                        found[marked[0]].append(
                            Found(marked[1], thing.id, thing))
        for things in found.values():
            things.sort(key=lambda each: (
                str(getattr(each.body, 'created_at', '')), each.id))
        return found

    def find(self, environment, kind, key):
        """Look for one thing.

        :param environment: name of the environment.
        :param kind: what it is, of plan.KINDS.
        :param key: which part of the environment it is.
        :returns: what openstacksdk read, or None if there is no such thing.
        :raises: one of failures.CLOUD_ERRORS.
        """
        reader = {
            plan.TRUNK: self._trunks, plan.GROUP: self._groups,
            plan.VOLUME: self._volumes,
            plan.SERVER: lambda: self._servers(environment),
        }.get(kind) or functools.partial(
            self._described, _LISTS.get(kind, _LISTS[plan.PORT]))
        return next((thing for marked, thing in self._patience.call(reader)
                     if marked == (environment, key)), None)

    def router_ports(self, router_id):
        """Read the ports by which a router joins networks.

        :param router_id: UUID of the router.
        :returns: list of what openstacksdk read.
        :raises: one of failures.CLOUD_ERRORS.
        """
        return self._patience.call(lambda: list(
            self._connection.network.ports(device_id=router_id)))

    def _described(self, lists):
        """What a list of Neutron has, with the marks."""
        return [(mark.of_description(thing.description), thing)
                for thing in getattr(self._connection.network, lists)(
                    project_id=self._project)
                # Whoever sees other projects' things has no part in them.
                if thing.project_id in (None, self._project)]

    def _trunks(self):
        try:
            return self._described('trunks')
        except exceptions.NotFoundException:
            # This Neutron has no trunks.
            return []

    def _groups(self):
        return [(mark.of_group_name(group.name), group)
                for group in self._connection.compute.server_groups()
                if group.project_id in (None, self._project)]

    def _servers(self, environment):
        # The tag makes the list short; the metadata are what counts.
        tags = {'tags': mark.tag(environment)} if environment else {}
        return [(mark.of_metadata(server.metadata), server)
                for server in self._connection.compute.servers(
                    project_id=self._project, **tags)
                if server.project_id in (None, self._project)]

    def _volumes(self):
        if not has_volumes(self._connection):
            return []
        return [(mark.of_metadata(volume.metadata), volume)
                for volume in self._connection.block_storage.volumes()]


def has_volumes(connection):
    """Tell whether the cloud has a block storage service.

    :param connection: an openstacksdk ``Connection``.
    :returns: True or False.
    :raises: one of failures.CLOUD_ERRORS if the cloud cannot be asked.
    """
    try:
        return bool(connection.block_storage.get_endpoint())
    except (ks_exceptions.CatalogException,
            exceptions.ServiceDisabledException):
        return False
