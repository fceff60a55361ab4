# SPDX-License-Identifier: Apache-2.0
"""Resources of environments, read from the host cloud."""

import collections
import concurrent.futures
import dataclasses

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan

# Where openstacksdk has a kind, and the project its owner: the service, the
# noun of its functions, and an attribute. All other kinds are Neutron's.
_PLACES = {plan.GROUP: ('compute', 'server_group', 'name'),
           plan.SERVER: ('compute', 'server', 'metadata'),
           plan.VOLUME: ('block_storage', 'volume', 'metadata'),
           plan.ACCESS: ('image', 'image', 'properties')}
_NOUNS = {plan.FLOATING_IP: 'ip', plan.VIRTUAL_IP: 'port',
          plan.SUBPORT: 'port'}


def _place(kind):
    return _PLACES.get(kind) or (
        'network', _NOUNS.get(kind, kind), 'description')


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

    All methods raise one of errors.CLOUD_ERRORS, or EnvironmentsError.

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
        places = {_place(kind) for kind in plan.KINDS}
        found = collections.defaultdict(list)
        with concurrent.futures.ThreadPoolExecutor(len(places)) as threads:
            for pairs in threads.map(lambda place: self.retrier.call(
                    self._list, environment, *place), places):
                for owner, body in pairs:
                    if owner and environment in (None, owner[0]):
                        found[owner[0]].append(
                            Resource(owner[1], body.id, body))
        for resources in found.values():
            resources.sort(key=lambda each: (
                str(getattr(each.body, 'created_at', '')), each.id))
        return found

    def function(self, verb, kind):
        """Return openstacksdk's function that gets or deletes a kind."""
        service, noun, _ = _place(kind)
        return getattr(getattr(self.connection, service), f'{verb}_{noun}')

    def create(self, environment, item, function=None, **attributes):
        """Create the resource of a :class:`plan.Item`, and return it.

        :param function: openstacksdk's one of the kind, or another.
        :param attributes: those that are None are left out.
        """
        return self.retrier.create(
            lambda: self.find(environment, item.key),
            function or self.function('create', item.kind), **{
                name: value for name, value in attributes.items()
                if value is not None})

    def find(self, environment, key):
        """Return the resource of a key, or None."""
        return next((body for owner, body in self.retrier.call(
            self._list, environment, *_place(plan.kind(key)))
            if owner == (environment, key)), None)

    def _list(self, environment, service, noun, attribute):
        """Return (owner and key, resource) of a list of openstacksdk's."""
        if service == 'block_storage' and not has_volumes(self.connection):
            return []
        lists, filters = self.own_images, {'tag': ownership.ACCESS}
        if service != 'image':
            lists = getattr(getattr(self.connection, service), f'{noun}s')
            filters = ({'project_id': self._project}
                       if service == 'network' or noun == 'server' else {})
        if noun == 'server' and environment:
            # The tag makes the list short; the metadata decides.
            filters['tags'] = ownership.tag(environment)
        try:
            return [(ownership.parse(getattr(each, attribute)), each)
                    for each in lists(**filters)
                    # Administrators see what belongs to other projects.
                    if getattr(each, 'project_id', None)
                    in (None, self._project)]
        except exceptions.NotFoundException:
            if noun != 'trunk':
                raise
            # This Neutron has no trunks.
            return []

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


def fixed_ips(port):
    """Return the addresses of openstacksdk's port."""
    return [each['ip_address'] for each in port.fixed_ips or ()]
