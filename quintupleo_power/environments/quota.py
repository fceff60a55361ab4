# SPDX-License-Identifier: Apache-2.0
"""What an environment needs of the project's quota, and what is left of it."""

import collections
import contextlib
import typing

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import plan

_NEUTRON = {'networks': 'network', 'subnets': 'subnet', 'ports': 'port',
            'routers': 'router', 'floating IPs': 'floatingip',
            'trunks': 'trunk'}
# openstacksdk's names of what is used, and of the limit, by service.
_ABSOLUTE = {
    'compute': {
        'servers': ('instances_used', 'instances'),
        'vcpus': ('total_cores_used', 'total_cores'),
        'ram (MiB)': ('total_ram_used', 'total_ram'),
        'server groups': ('server_groups_used', 'server_groups')},
    'block_storage': {
        'volumes': ('total_volumes_used', 'max_total_volumes'),
        'volume storage (GiB)': ('total_gigabytes_used',
                                 'max_total_volume_gigabytes')}}
# Kinds that count as something else than their title.
_COUNTED_AS = {plan.VIRTUAL_IP: 'ports', plan.SUBPORT: 'ports'}


class Cost(typing.NamedTuple):
    """What is needed of one quota, beyond what the environment has.

    :ivar what: its name, with the unit.
    :ivar used: what the project uses, None if the cloud does not show it.
    :ivar limit: None for no limit, or if the cloud does not show it.
    """

    what: str
    needed: int
    used: int | None = None
    limit: int | None = None

    @property
    def suffices(self):
        """Whether the quota suffices, as far as the cloud shows it."""
        return (not self.needed or self.limit is None or self.used is None
                or self.used + self.needed <= self.limit)


def needed(missing, resolved):
    """Return what items need, as a dict of numbers by name."""
    total = collections.Counter()
    for item in missing:
        total[_COUNTED_AS.get(item.kind, plan.TITLES[item.kind])] += 1
        if item.kind == plan.SERVER:
            flavor = resolved.flavors[item.role.name]
            total['vcpus'] += flavor.vcpus
            total['ram (MiB)'] += flavor.ram
        elif item.kind == plan.VOLUME:
            total['volume storage (GiB)'] += item.what.size
        elif item.kind == plan.ROUTER:
            # One for each subnet; networks that exist may have several.
            total['ports'] += len(resolved.networks.keys()
                                  & item.what.networks)
            total['ports'] += sum(plan.kind(key) == plan.SUBNET
                                  for key in item.after)
    return total


def read(connection, retrier):
    """Return (used, limit or None) by name, as far as the cloud shows it."""
    known = {}
    for reader, *args in (*((_absolute, service) for service in _ABSOLUTE),
                          (_network,)):
        # Policies may hide it; the cloud then refuses what exceeds it.
        with contextlib.suppress(*errors.CLOUD_ERRORS):
            known.update(retrier.call(reader, connection, *args))
    return known


def compare(wanted, known):
    """Return a :class:`Cost` for each number, by what :func:`read` returns."""
    return [Cost(what, number, *known.get(what, (None, None)))
            for what, number in wanted.items()]


def require(found):
    """Raise EnvironmentsError with a line for each quota that is too small."""
    short = [f'the quota of {each.what} does not suffice: {each.needed} more '
             f'are needed, and {each.used} of {each.limit} are in use'
             for each in found if not each.suffices]
    if short:
        raise errors.EnvironmentsError('\n'.join(
            [*short, 'Nothing was made. Remove something, or ask the host '
             "cloud's operator for a larger quota."]))


def _absolute(connection, service):
    limits = getattr(connection, service).get_limits().absolute
    return {what: (getattr(limits, used), _limit(getattr(limits, limit)))
            for what, (used, limit) in _ABSOLUTE[service].items()}


def _network(connection):
    project = connection.current_project_id
    response = connection.network.get(f'/quotas/{project}/details.json')
    exceptions.raise_from_response(response)
    found = response.json()['quota']
    return {what: (found[name]['used'], _limit(found[name]['limit']))
            for what, name in _NEUTRON.items() if name in found}


def _limit(number):
    return None if number is None or number < 0 else number
