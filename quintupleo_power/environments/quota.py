# SPDX-License-Identifier: Apache-2.0
"""What an environment costs in quota, and whether the project has it left."""

import collections
import dataclasses

from openstack import exceptions

from quintupleo_power.environments import failures
from quintupleo_power.environments import inventory
from quintupleo_power.environments import plan

_NEUTRON = {'networks': 'network', 'subnets': 'subnet', 'ports': 'port',
            'routers': 'router', 'floating IPs': 'floatingip',
            'trunks': 'trunk'}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What is needed of one thing.

    :ivar what: its name, with the unit.
    :ivar needed: how much the environment needs beyond what it has.
    :ivar used: how much of the project's quota is in use, None if the cloud
        does not tell.
    :ivar limit: the quota; None for no limit, or if the cloud does not tell.
    """

    what: str
    needed: int
    used: int | None = None
    limit: int | None = None

    @property
    def suffices(self):
        """Whether the quota suffices, as far as the cloud tells."""
        return (not self.needed or self.limit is None or self.used is None
                or self.used + self.needed <= self.limit)


def needed(missing, choices):
    """Add up what things cost.

    :param missing: the :class:`plan.Item` that are to be made.
    :param choices: the :class:`choices.Choices`.
    :returns: dict of numbers by what they count.
    """
    total = collections.Counter()
    names = {plan.NETWORK: 'networks', plan.SUBNET: 'subnets',
             plan.ROUTER: 'routers', plan.INTERFACE: 'ports',
             plan.VIRTUAL_IP: 'ports', plan.PORT: 'ports',
             plan.SUBPORT: 'ports', plan.TRUNK: 'trunks',
             plan.GROUP: 'server groups', plan.VOLUME: 'volumes',
             plan.SERVER: 'servers', plan.FLOATING_IP: 'floating IPs'}
    for item in missing:
        total[names[item.kind]] += 1
        if item.kind == plan.SERVER:
            flavor = choices.flavors[item.role.name]
            total['vcpus'] += flavor.vcpus
            total['ram (MiB)'] += flavor.ram
        elif item.kind == plan.VOLUME:
            total['volume storage (GiB)'] += item.what.size
        elif item.kind == plan.INTERFACE:
            # One for each subnet of the network.
            total['ports'] += max(0, len(item.network.subnets) - 1)
    return total


def costs(connection, patience, missing, choices):
    """Compare what is to be made with the project's quota.

    :param connection: an openstacksdk ``Connection``.
    :param patience: the :class:`patience.Patience`.
    :param missing: the :class:`plan.Item` that are to be made.
    :param choices: the :class:`choices.Choices`.
    :returns: list of :class:`Cost`.
    """
    return compare(needed(missing, choices), read(connection, patience))


def read(connection, patience):
    """Read the project's quota.

    :param connection: an openstacksdk ``Connection``.
    :param patience: the :class:`patience.Patience`.
    :returns: dict of (used, limit) by what is counted, of what the cloud
        tells; a limit of None is no limit.
    """
    known = {}
    for reader in (_compute, _network, _volumes):
        try:
            known.update(patience.call(reader, connection))
        except failures.CLOUD_ERRORS:
            # Not every cloud lets its tenants see their quota. What it
            # refuses later is told then.
            continue
    return known


def compare(wanted, known):
    """Compare what is wanted with a quota.

    :param wanted: dict of numbers by what they count.
    :param known: what :func:`read` returns.
    :returns: list of :class:`Cost`.
    """
    return [Cost(what, number, *known.get(what, (None, None)))
            for what, number in wanted.items()]


def require(found):
    """Refuse what the quota does not suffice for.

    :param found: list of :class:`Cost`.
    :raises: failures.Failure with a line for each.
    """
    short = [f'the quota of {each.what} does not suffice: {each.needed} more '
             f'are needed, and {each.used} of {each.limit} are in use'
             for each in found if not each.suffices]
    if short:
        raise failures.Failure('\n'.join(
            [*short, 'Nothing was made. Remove something, or ask the host '
             "cloud's operator for a larger quota."]))


def _compute(connection):
    limits = connection.compute.get_limits().absolute
    return {
        'servers': (limits.instances_used, _limit(limits.instances)),
        'vcpus': (limits.total_cores_used, _limit(limits.total_cores)),
        'ram (MiB)': (limits.total_ram_used, _limit(limits.total_ram)),
        'server groups': (limits.server_groups_used,
                          _limit(limits.server_groups))}


def _network(connection):
    project = connection.current_project_id
    answer = connection.network.get(f'/quotas/{project}/details.json')
    exceptions.raise_from_response(answer)
    found = answer.json()['quota']
    return {what: (found[name]['used'], _limit(found[name]['limit']))
            for what, name in _NEUTRON.items() if name in found}


def _volumes(connection):
    if not inventory.has_volumes(connection):
        return {}
    limits = connection.block_storage.get_limits().absolute
    return {
        'volumes': (limits.total_volumes_used,
                    _limit(limits.max_total_volumes)),
        'volume storage (GiB)': (
            limits.total_gigabytes_used,
            _limit(limits.max_total_volume_gigabytes))}


def _limit(number):
    return None if number is None or number < 0 else number
