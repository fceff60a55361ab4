# SPDX-License-Identifier: Apache-2.0
"""Removes resources of environments in the order that clouds require."""

import collections

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import networking
from quintupleo_power.environments import plan
from quintupleo_power.environments import task_graph

# The kinds of one step do not depend on each other.
_STEPS = ((plan.FLOATING_IP, plan.SERVER), (plan.TRUNK,),
          (plan.PORT, plan.SUBPORT, plan.VIRTUAL_IP, plan.VOLUME, plan.GROUP),
          (plan.ROUTER,), (plan.SUBNET,), (plan.NETWORK,))
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
        self._connection = inventory.connection
        self._retrier = inventory.retrier
        self._inventory = inventory
        self._timeout = timeout

    def remove(self, resources, progress, timeout=None):
        """Remove resources.

        :param timeout: seconds for which one resource in use is tried again,
            if fewer than this object has.
        :raises: EnvironmentsError with a line for each resource that could
            not be removed.
        """
        timeout = min(self._timeout if timeout is None else timeout,
                      self._timeout)
        progress.begin('removing', collections.Counter(
            plan.TITLES[each.kind] for each in resources))
        problems = []

        def remove(resource):
            try:
                self._retrier.retry_on(_IN_USE, timeout, self._delete,
                                       resource)
            except errors.Cancelled:
                raise
            except errors.CLOUD_ERRORS as exc:
                problems.append(_not_removed(resource, errors.explain(exc)))
            except errors.EnvironmentsError as exc:
                problems.append(_not_removed(resource, str(exc)))
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
        neutron, nova = self._connection.network, self._connection.compute
        delete = {
            plan.FLOATING_IP: neutron.delete_ip,
            plan.TRUNK: neutron.delete_trunk,
            plan.SUBNET: neutron.delete_subnet,
            plan.NETWORK: neutron.delete_network,
            plan.GROUP: nova.delete_server_group,
        }.get(resource.kind)
        if delete:
            self._call(delete, resource.id)
        elif resource.kind == plan.SERVER:
            self._call(nova.delete_server, resource.id)
            self._wait_deleted(nova.get_server, resource.id,
                               ('DELETED', 'SOFT_DELETED'))
        elif resource.kind == plan.ROUTER:
            self._delete_router(resource.id)
        elif resource.kind == plan.VOLUME:
            cinder = self._connection.block_storage
            self._call(cinder.delete_volume, resource.id)
            self._wait_deleted(cinder.get_volume, resource.id, ())
        else:
            self._call(neutron.delete_port, resource.id)

    def _call(self, delete, resource_id):
        self._retrier.call(delete, resource_id, ignore_missing=True)

    def _wait_deleted(self, get, resource_id, deleted):
        def status():
            try:
                return self._retrier.call(get, resource_id).status
            except exceptions.NotFoundException:
                return None

        def is_done(found):
            return found is None or found in deleted

        found = self._retrier.poll(status, is_done, self._timeout)
        if not is_done(found):
            raise errors.EnvironmentsError(
                f'it is still {found} {self._timeout} s after its deletion '
                'was requested')

    def _delete_router(self, router_id):
        neutron = self._connection.network
        for port in self._inventory.router_ports(router_id):
            if not (port.device_owner or '').startswith(_INTERFACES):
                continue
            for address in port.fixed_ips or ():
                try:
                    self._retrier.call(
                        networking.change_interface, neutron, 'remove',
                        router_id, address['subnet_id'])
                except exceptions.NotFoundException:
                    # An earlier attempt has removed it.
                    continue
        self._call(neutron.delete_router, router_id)


def _not_removed(resource, reason):
    name = getattr(resource.body, 'name', None) or resource.key
    return (f'Not removed: {plan.TITLES[resource.kind][:-1]} {name} '
            f'({resource.id}): {reason}')
