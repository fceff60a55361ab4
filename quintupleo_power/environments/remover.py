# SPDX-License-Identifier: Apache-2.0
"""Removes what carries an environment's mark, in the order that clouds want.
"""

import time

from openstack import exceptions

from quintupleo_power.environments import failures
from quintupleo_power.environments import machines
from quintupleo_power.environments import networking
from quintupleo_power.environments import parallel
from quintupleo_power.environments import plan

# What is in one step does not need each other.
_STEPS = ((plan.FLOATING_IP, plan.SERVER), (plan.TRUNK,),
          (plan.PORT, plan.SUBPORT, plan.VIRTUAL_IP, plan.VOLUME, plan.GROUP),
          (plan.ROUTER,), (plan.SUBNET,), (plan.NETWORK,))
# The owners of ports by which a router joins a network, distributed or not.
_INTERFACES = ('network:router_interface',
               'network:ha_router_replicated_interface')
# Seconds for which things are tried again that something still uses.
PATIENCE = 60
_PAUSE = 1.0


class Remover:
    """Removes things, and tells what stays."""

    def __init__(self, connection, patience, inventory, longest=PATIENCE):
        """Prepare.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        :param inventory: the :class:`inventory.Inventory`.
        :param longest: seconds for which one thing is tried again.
        """
        self._connection = connection
        self._patience = patience
        self._inventory = inventory
        self._longest = longest

    def remove(self, found, shown, longest=None):
        """Remove things.

        :param found: list of :class:`inventory.Found`.
        :param shown: the :class:`progress.Progress`.
        :param longest: seconds for which one thing that something still
            uses is tried again, if fewer than this object has.
        :raises: failures.Failure with a line for each thing that
            could not be removed.
        """
        longest = min(self._longest if longest is None else longest,
                      self._longest)
        totals = {}
        for each in found:
            title = plan.TITLES[each.kind]
            totals[title] = totals.get(title, 0) + 1
        shown.begin('removing', totals)
        problems = []
        for step in _STEPS:
            parallel.run(
                [parallel.Task(each.id, lambda each=each: self._one(
                    each, shown, problems, longest))
                 for each in found if each.kind in step],
                self._patience.stop)
        if problems:
            raise failures.Failure('\n'.join(problems))

    def _one(self, found, shown, problems, longest):
        try:
            self._again(found, longest)
        except failures.Stopped:
            raise
        except failures.CLOUD_ERRORS as exc:
            problems.append(_left(found, failures.explain(exc)))
        except failures.Failure as exc:
            problems.append(_left(found, str(exc)))
        else:
            shown.done(plan.TITLES[found.kind])

    def _again(self, found, longest):
        """Remove a thing, while what used it goes."""
        deadline = time.monotonic() + longest
        while True:
            try:
                self._delete(found)
                return
            except (exceptions.ConflictException,
                    exceptions.BadRequestException):
                # In use: Neutron says 409, Cinder 400.
                if time.monotonic() > deadline:
                    raise
                self._patience.wait(_PAUSE)

    def _delete(self, found):
        neutron, nova = self._connection.network, self._connection.compute
        delete = {
            plan.FLOATING_IP: neutron.delete_ip, plan.TRUNK:
                neutron.delete_trunk, plan.SUBNET: neutron.delete_subnet,
            plan.NETWORK: neutron.delete_network,
            plan.GROUP: nova.delete_server_group,
        }.get(found.kind)
        if delete:
            self._call(delete, found.id)
        elif found.kind == plan.SERVER:
            self._server(found)
        elif found.kind == plan.ROUTER:
            self._router(found)
        elif found.kind == plan.VOLUME:
            self._volume(found)
        else:
            self._call(neutron.delete_port, found.id)

    def _call(self, delete, thing_id):
        self._patience.call(delete, thing_id, ignore_missing=True)

    def _server(self, found):
        nova = self._connection.compute
        machines.remove_server(nova, self._patience, found.id)
        self._wait_gone(nova.get_server, found.id, (
            'DELETED', 'SOFT_DELETED'))

    def _volume(self, found):
        cinder = self._connection.block_storage
        self._call(cinder.delete_volume, found.id)
        self._wait_gone(cinder.get_volume, found.id, ())

    def _wait_gone(self, get, thing_id, gone):
        deadline = time.monotonic() + self._longest
        while True:
            try:
                thing = self._patience.call(get, thing_id)
            except exceptions.NotFoundException:
                return
            if thing.status in gone:
                return
            if time.monotonic() > deadline:
                raise failures.Failure(
                    f'it is still {thing.status} {self._longest} s after '
                    'its end was asked for')
            self._patience.wait(_PAUSE)

    def _router(self, found):
        neutron = self._connection.network
        for port in self._inventory.router_ports(found.id):
            if not (port.device_owner or '').startswith(_INTERFACES):
                continue
            for address in port.fixed_ips or ():
                try:
                    self._patience.call(
                        networking.change_interface, neutron, 'remove',
                        found.id, address['subnet_id'])
                except exceptions.NotFoundException:
                    # Another try has removed it.
                    continue
        self._call(neutron.delete_router, found.id)


def _left(found, reason):
    name = getattr(found.body, 'name', None) or found.key
    return (f'Not removed: {plan.TITLES[found.kind][:-1]} {name} '
            f'({found.id}): {reason}')
