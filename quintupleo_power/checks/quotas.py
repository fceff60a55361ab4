# SPDX-License-Identifier: Apache-2.0
"""What the host cloud allows the project: quota, ports, rescue.

Policies cannot be asked for. What the project has is a proof that it may have
it; without one only a trial tells.
"""

from quintupleo_power.checks import access
from quintupleo_power.checks import results
from quintupleo_power.environments import quota
from quintupleo_power.host_cloud import interfaces

FLAVOR = 'flavor'
PORT_SECURITY, MAC, RESCUE = 'port security', 'MAC addresses', 'rescue'
_IMAGES = 'images'
_WANTED = ('servers', 'vcpus', 'ram (MiB)', 'ports', 'networks', _IMAGES)
_EXTENSION = 'port-security'

# What Ironic's agent needs for a ramdisk of the usual size, in MiB.
AGENT_RAM = 2048

_TRY = 'run this command with --try --flavor <flavor>'


def quota_checks(project, read_quota, flavor=None):
    """List the checks of what is left of the project's quota.

    :param project: the :class:`host_cloud.project.Project`.
    :param read_quota: function that returns what :func:`quota.read` does.
    :param flavor: identifier or name of the flavor of a machine, or None.
    :returns: a generator of :class:`results.Check`.
    """
    if flavor:
        yield results.Check(FLAVOR, lambda facts: project.flavor(flavor),
                             judge_flavor, (access.COMPUTE,))
    known = {}

    def read(facts, what):
        if not known:
            known.update(read_quota())
            usage = project.image_usage()
            if usage:
                known[_IMAGES] = usage
        return quota.compare({what: _needed(what, facts.get(FLAVOR))},
                             known)[0]

    for what in _WANTED:
        yield results.Check(
            f'quota: {what}', lambda facts, what=what: read(facts, what),
            lambda cost: judge_quota(cost, is_wanted=bool(flavor)),
            (access.CREDENTIALS, *([FLAVOR] if flavor else ())))


def port_checks(project):
    """List the checks of which ports the project may have, by those it has.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: list of :class:`results.Check`.
    """
    return [
        results.Check(PORT_SECURITY, lambda facts: (
            facts[access.NETWORKS], project.ports()), judge_port_security,
            (access.NETWORKS,)),
        results.Check(MAC, lambda facts: project.ports(), judge_macs,
                       (access.NETWORKS,))]


def rescue_check(project):
    """Make the check of whether servers may be rescued, by Nova's records.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: a :class:`results.Check`.
    """
    return results.Check(RESCUE, lambda facts: project.has_rescued(),
                          judge_rescue, (access.COMPUTE,))


def _needed(what, flavor):
    """What one more machine takes."""
    if flavor is None:
        return 1
    return {'vcpus': flavor.vcpus, 'ram (MiB)': flavor.ram}.get(what, 1)


def judge_flavor(flavor):
    """Judge whether a flavor makes machines that Ironic can deploy.

    :param flavor: the :class:`host_cloud.flavors.Flavor`.
    :returns: a :class:`results.Verdict`.
    """
    found = (f'{flavor.name}: {flavor.vcpus} vcpus, {flavor.ram} MiB of '
             f'memory, {flavor.disk} GiB of disk')
    if flavor.ram < AGENT_RAM:
        return results.warned(
            f'{found}: the usual ramdisks of the agent need {AGENT_RAM} MiB',
            'use a larger flavor, or a smaller ramdisk')
    return results.passed(found)


def judge_quota(cost, is_wanted):
    """Judge what is left of a quota.

    :param cost: the :class:`quota.Cost` of one more machine.
    :param is_wanted: whether another machine is to be made; else a project
        may be full.
    :returns: a :class:`results.Verdict`.
    """
    if cost.used is None:
        return results.warned('not told by this cloud',
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


def judge_port_security(read):
    """Judge whether the project may switch port security off.

    :param read: (aliases of Neutron's extensions, the project's ports).
    :returns: a :class:`results.Verdict`.
    """
    extensions, ports = read
    if _EXTENSION not in extensions:
        return results.warned(
            'Neutron has no extension port-security, and filters what ports '
            'send as it is configured',
            "ask the host cloud's operator for ports that Ironic's DHCP "
            'server reaches')
    if any(port.security is False for port in ports):
        return results.passed('the project has ports without it')
    return results.warned('nothing tells whether this project may switch '
                           'it off', _TRY)


def judge_macs(ports):
    """Judge whether the project has MAC addresses that the agent takes.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`results.Verdict`.
    """
    if any(not interfaces.is_ignored(port.mac) for port in ports):
        return results.passed('the project has ports whose addresses the '
                               'agent takes')
    return results.warned(
        'nothing tells whether this project may choose MAC addresses; the '
        f'agent passes over those that begin with {interfaces.IGNORED_MAC}, '
        "as Neutron's own do", _TRY)


def judge_rescue(has_rescued):
    """Judge what Nova's records tell of rescues.

    :param has_rescued: whether a server of the project was rescued.
    :returns: a :class:`results.Verdict`.
    """
    if has_rescued:
        return results.passed('servers of this project were rescued')
    return results.warned('nothing tells whether this project may rescue '
                           'servers', _TRY)
