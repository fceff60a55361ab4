# SPDX-License-Identifier: Apache-2.0
"""Whether the project's quota allows one more server, and its flavor fits."""

from collections import abc
import functools

from openstack import connection as sdk_connection

from quintupleo_power.checks import access
from quintupleo_power.checks import results
from quintupleo_power.environments import quota
from quintupleo_power.environments import retry
from quintupleo_power.host_cloud import cloud_facts

FLAVOR = 'flavor'
_IMAGES = 'images'
# What is read, by the check without which it makes no sense.
_WANTED = {access.COMPUTE: ('servers', 'vcpus', 'ram (MiB)'),
           access.NETWORKS: ('ports', 'networks'),
           access.IMAGES: (_IMAGES,)}

# Seconds for which a request that reads a quota is tried again.
_TIMEOUT = 10
# What Ironic's agent needs for a ramdisk of the usual size, in MiB.
AGENT_RAM = 2048


def checks(project: cloud_facts.CloudInfo,
           connection: sdk_connection.Connection | None,
           flavor: str | None) -> abc.Iterator[results.Check]:
    """Yield the checks of what the project's quota still allows.

    :param flavor: that of a server to be made.
    """
    if flavor:
        yield results.Check(
            FLAVOR, lambda facts: connection.compute.find_flavor(
                flavor, ignore_missing=False), judge_flavor, (access.COMPUTE,))
    usage = functools.cache(lambda: {
        **quota.read(connection, retry.Retrier(timeout=_TIMEOUT)),
        _IMAGES: project.image_usage() or (None, None)})

    def judge(facts, what):
        found = facts.get(FLAVOR)
        needed = found and {'vcpus': found.vcpus, 'ram (MiB)': found.ram}
        cost, = quota.compare({what: (needed or {}).get(what, 1)}, usage())
        return _judge_quota(cost, is_wanted=bool(flavor))

    for api, quotas in _WANTED.items():
        for what in quotas:
            yield results.Check(
                f'quota: {what}', functools.partial(judge, what=what),
                needs=(api, *([FLAVOR] if flavor else ())))


def judge_flavor(flavor) -> results.Verdict:
    """Judge whether Ironic can deploy servers of a flavor."""
    found = (f'{flavor.name}: {flavor.vcpus} vcpus, {flavor.ram} MiB of '
             f'memory, {flavor.disk} GiB of disk')
    if flavor.ram < AGENT_RAM:
        return results.warned(
            f'{found}: the usual ramdisks of the agent need {AGENT_RAM} MiB',
            'use a larger flavor, or a smaller ramdisk')
    return results.passed(found)


def _judge_quota(cost, is_wanted):
    # A project may be full where no server is to be made.
    if cost.used is None:
        return results.warned('not reported by this cloud',
                              f'see that there are enough {cost.what}')
    if cost.limit is None:
        return results.passed(f'{cost.used} in use, no limit')
    found = f'{cost.used} of {cost.limit} in use'
    if cost.suffices:
        return results.passed(found)
    advice = ("delete what is not needed, or ask the host cloud's operator "
              f'for a larger quota of {cost.what}')
    if is_wanted:
        return results.failed(f'{found}, and {cost.needed} more are needed',
                              advice)
    if not cost.limit:
        return results.failed(found, advice)
    return results.warned(found, advice)
