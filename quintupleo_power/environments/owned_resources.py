# SPDX-License-Identifier: Apache-2.0
"""Resources of environments, read from the host cloud."""

import collections
import concurrent.futures
import dataclasses
import functools

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan

# Names of openstacksdk's lists of what every Neutron has, by kind. All other
# kinds in Neutron are ports.
_LISTS = {plan.NETWORK: 'networks', plan.SUBNET: 'subnets',
          plan.ROUTER: 'routers', plan.PORT: 'ports', plan.FLOATING_IP: 'ips'}


@dataclasses.dataclass(frozen=True)
class Resource:
    """A resource of an environment, with openstacksdk's one as its body."""

    key: str
    id: str
    body: object = dataclasses.field(repr=False, compare=False)

    @property
    def kind(self):
        """One of plan.KINDS."""
        return plan.kind(self.key)


class Inventory:
    """The resources of environments in one project.

    All methods raise one of errors.CLOUD_ERRORS, or Cancelled.

    :ivar retrier: the :class:`retry.Retrier` of all requests.
    """

    def __init__(self, connection, retrier):
        self.connection = connection
        self.retrier = retrier
        self._project = connection.current_project_id

    def read(self, environment=None):
        """Return the resources of one environment, or of all.

        :returns: dict of lists of :class:`Resource` by environment, the
            oldest resource first.
        """
        readers = self._readers(environment).values()
        found = collections.defaultdict(list)
        with concurrent.futures.ThreadPoolExecutor(len(readers)) as threads:
            for pairs in threads.map(self.retrier.call, readers):
                for owner, body in pairs:
                    if owner and environment in (None, owner[0]):
                        found[owner[0]].append(
                            Resource(owner[1], body.id, body))
        for resources in found.values():
            resources.sort(key=lambda each: (
                str(getattr(each.body, 'created_at', '')), each.id))
        return found

    def create(self, environment, item, function, **attributes):
        """Create the resource of a :class:`plan.Item`, and return it.

        :param attributes: those that are None are left out.
        """
        return self.retrier.create(
            lambda: self.find(environment, item.key), function, **{
                name: value for name, value in attributes.items()
                if value is not None})

    def find(self, environment, key):
        """Return the resource of a key, or None."""
        readers = self._readers(environment)
        reader = readers.get(plan.kind(key), readers[plan.PORT])
        return next((body for owner, body in self.retrier.call(reader)
                     if owner == (environment, key)), None)

    def _readers(self, environment):
        """Return functions that list (owner and key, resource), by kind."""
        return {
            **{kind: functools.partial(self._described, lists)
               for kind, lists in _LISTS.items()},
            plan.TRUNK: self._trunks, plan.GROUP: self._groups,
            plan.VOLUME: self._volumes, plan.ACCESS: self._access_images,
            plan.SERVER: functools.partial(self._servers, environment)}

    def _described(self, lists):
        return [(ownership.parse_description(body.description), body)
                for body in getattr(self.connection.network, lists)(
                    project_id=self._project)
                # Administrators see what belongs to other projects.
                if body.project_id in (None, self._project)]

    def _trunks(self):
        try:
            return self._described('trunks')
        except exceptions.NotFoundException:
            # This Neutron has no trunks.
            return []

    def _groups(self):
        return [(ownership.parse_description(group.name), group)
                for group in self.connection.compute.server_groups()
                if group.project_id in (None, self._project)]

    def _servers(self, environment):
        # The tag makes the list short; the metadata decides.
        tags = {'tags': ownership.tag(environment)} if environment else {}
        return [(ownership.parse_metadata(server.metadata), server)
                for server in self.connection.compute.servers(
                    project_id=self._project, **tags)
                if server.project_id in (None, self._project)]

    def _volumes(self):
        if not has_volumes(self.connection):
            return []
        return [(ownership.parse_metadata(volume.metadata), volume)
                for volume in self.connection.block_storage.volumes()]

    def _access_images(self):
        return [(ownership.parse_metadata(image.properties), image)
                for image in self.own_images(tag=ownership.ACCESS)]

    def own_images(self, **filters):
        """Return the images of the project that fit."""
        return [image for image in self.connection.image.images(
                    owner=self._project, limit=100, **filters)
                # Others may share images that look like ours.
                if image.owner_id == self._project]


def has_volumes(connection):
    """Return whether the cloud has block storage; may raise CLOUD_ERRORS."""
    try:
        return bool(connection.block_storage.get_endpoint())
    except (ks_exceptions.CatalogException,
            exceptions.ServiceDisabledException):
        return False
