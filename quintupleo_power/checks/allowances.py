# SPDX-License-Identifier: Apache-2.0
"""What the host cloud allows the project: quota, ports, rescue.

Policies cannot be asked for. What the project has is a proof that it may have
it; without one only a trial tells.
"""

from quintupleo_power.checks import access
from quintupleo_power.checks import findings
from quintupleo_power.environments import quota
from quintupleo_power.host_cloud import ports as host_ports

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
    :returns: a generator of :class:`findings.Check`.
    """
    if flavor:
        yield findings.Check(FLAVOR, lambda facts: project.flavor(flavor),
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
        yield findings.Check(
            f'quota: {what}', lambda facts, what=what: read(facts, what),
            lambda cost: judge_quota(cost, is_wanted=bool(flavor)),
            (access.CREDENTIALS, *([FLAVOR] if flavor else ())))


def port_checks(project):
    """List the checks of which ports the project may have, by those it has.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: list of :class:`findings.Check`.
    """
    return [
        findings.Check(PORT_SECURITY, lambda facts: (
            facts[access.NETWORKS], project.ports()), judge_port_security,
            (access.NETWORKS,)),
        findings.Check(MAC, lambda facts: project.ports(), judge_macs,
                       (access.NETWORKS,))]


def rescue_check(project):
    """Make the check of whether servers may be rescued, by Nova's records.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: a :class:`findings.Check`.
    """
    return findings.Check(RESCUE, lambda facts: project.has_rescued(),
                          judge_rescue, (access.COMPUTE,))


def _needed(what, flavor):
    """What one more machine takes."""
    if flavor is None:
        return 1
    return {'vcpus': flavor.vcpus, 'ram (MiB)': flavor.ram}.get(what, 1)


def judge_flavor(flavor):
    """Judge whether a flavor makes machines that Ironic can deploy.

    :param flavor: the :class:`host_cloud.flavors.Flavor`.
    :returns: a :class:`findings.Verdict`.
    """
    found = (f'{flavor.name}: {flavor.vcpus} vcpus, {flavor.ram} MiB of '
             f'memory, {flavor.disk} GiB of disk')
    if flavor.ram < AGENT_RAM:
        return findings.warned(
            f'{found}: the usual ramdisks of the agent need {AGENT_RAM} MiB',
            'use a larger flavor, or a smaller ramdisk')
    return findings.passed(found)


def judge_quota(cost, is_wanted):
    """Judge what is left of a quota.

    :param cost: the :class:`quota.Cost` of one more machine.
    :param is_wanted: whether another machine is to be made; else a project
        may be full.
    :returns: a :class:`findings.Verdict`.
    """
    if cost.used is None:
        return findings.warned('not told by this cloud',
                               f'see that there are enough {cost.what}')
    if cost.limit is None:
        return findings.passed(f'{cost.used} in use, no limit')
    found = f'{cost.used} of {cost.limit} in use'
    if cost.suffices:
        return findings.passed(found)
    advice = ("delete what is not needed, or ask the host cloud's operator "
              f'for a larger quota of {cost.what}')
    if is_wanted:
        return findings.failed(f'{found}, and {cost.needed} more are needed',
                               advice)
    if not cost.limit:
        return findings.failed(found, advice)
    return findings.warned(found, advice)


def judge_port_security(read):
    """Judge whether the project may switch port security off.

    :param read: (aliases of Neutron's extensions, the project's ports).
    :returns: a :class:`findings.Verdict`.
    """
    extensions, ports = read
    if _EXTENSION not in extensions:
        return findings.warned(
            'Neutron has no extension port-security, and filters what ports '
            'send as it is configured',
            "ask the host cloud's operator for ports that Ironic's DHCP "
            'server reaches')
    if any(port.security is False for port in ports):
        return findings.passed('the project has ports without it')
    return findings.warned('nothing tells whether this project may switch '
                           'it off', _TRY)


def judge_macs(ports):
    """Judge whether the project has MAC addresses that the agent takes.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`findings.Verdict`.
    """
    if any(not host_ports.is_ignored(port.mac) for port in ports):
        return findings.passed('the project has ports whose addresses the '
                               'agent takes')
    return findings.warned(
        'nothing tells whether this project may choose MAC addresses; the '
        f'agent passes over those that begin with {host_ports.IGNORED_MAC}, '
        "as Neutron's own do", _TRY)


def judge_rescue(has_rescued):
    """Judge what Nova's records tell of rescues.

    :param has_rescued: whether a server of the project was rescued.
    :returns: a :class:`findings.Verdict`.
    """
    if has_rescued:
        return findings.passed('servers of this project were rescued')
    return findings.warned('nothing tells whether this project may rescue '
                           'servers', _TRY)
