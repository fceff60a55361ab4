# SPDX-License-Identifier: Apache-2.0
"""Removes resources that were found, in the order that clouds require."""

import collections
import contextlib

from openstack import exceptions

from quintupleo_power.environments import conductor
from quintupleo_power.environments import errors
from quintupleo_power.environments import plan
from quintupleo_power.environments import task_graph

# The kinds of one step do not depend on each other.
_STEPS = ((plan.FLOATING_IP, plan.SERVER), (plan.TRUNK, plan.ACCESS),
          (plan.PORT, plan.SUBPORT, plan.VIRTUAL_IP, plan.VOLUME, plan.GROUP),
          (plan.ROUTER,), (plan.SUBNET,), (plan.NETWORK,))
# States of servers that are no longer there, beside that of none at all.
_GONE = (None, 'DELETED', 'SOFT_DELETED')
# The owners of ports by which a router joins a network, distributed or not.
_INTERFACES = ('network:router_interface',
               'network:ha_router_replicated_interface')
# What services raise for what is in use: Neutron 409, Cinder 400.
_IN_USE = (exceptions.ConflictException, exceptions.BadRequestException)
# Seconds for which the removal of one resource is tried again.
TIMEOUT = 60


class Remover:
    """Removes resources, and names those that it could not remove."""

    def __init__(self, inventory, timeout=TIMEOUT):
        self._inventory = inventory
        self._connection = inventory.connection
        self._retrier = inventory.retrier
        self._timeout = timeout

    def remove(self, resources, progress):
        """Remove resources, or raise a line for each that could not be."""
        progress.begin('removing', collections.Counter(
            plan.TITLES[each.kind] for each in resources))
        problems = []

        def remove(resource):
            try:
                if resource.kind == plan.ACCESS:
                    conductor.delete_credential(
                        self._inventory, resource.body, progress)
                self._retrier.retry_on(_IN_USE, self._timeout, self._delete,
                                       resource)
            except (errors.EnvironmentsError, *errors.CLOUD_ERRORS) as exc:
                name = getattr(resource.body, 'name', None) or resource.key
                problems.append(
                    f'Not removed: {plan.TITLES[resource.kind][:-1]} {name} '
                    f'({resource.id}): {errors.explain(exc)}')
            else:
                progress.done(plan.TITLES[resource.kind])

        for step in _STEPS:
            task_graph.run(
                [task_graph.Task(each.id, lambda each=each: remove(each))
                 for each in resources if each.kind in step],
                self._retrier.stop)
        if problems:
            raise errors.EnvironmentsError('\n'.join(problems))

    def _delete(self, resource):
        if resource.kind == plan.ROUTER:
            self._remove_interfaces(resource.id)
        self._retrier.call(
            self._inventory.function('delete', resource.kind), resource.id,
            ignore_missing=True)
        if resource.kind in (plan.SERVER, plan.VOLUME):
            self._wait_deleted(self._inventory.function('get', resource.kind),
                               resource.id)

    def _wait_deleted(self, get, resource_id):
        def status():
            with contextlib.suppress(exceptions.NotFoundException):
                return self._retrier.call(get, resource_id).status

        found = self._retrier.poll(status, _GONE.__contains__, self._timeout)
        if found not in _GONE:
            raise errors.EnvironmentsError(
                f'it is still {found} {self._timeout} s after its deletion '
                'was requested')

    def _remove_interfaces(self, router_id):
        neutron = self._connection.network
        for port in self._retrier.read_all(neutron.ports,
                                           device_id=router_id):
            if not (port.device_owner or '').startswith(_INTERFACES):
                continue
            for address in port.fixed_ips or ():
                # An earlier attempt may have removed it.
                with contextlib.suppress(exceptions.NotFoundException):
                    self._retrier.call(neutron.remove_interface_from_router,
                                       router_id, address['subnet_id'])
