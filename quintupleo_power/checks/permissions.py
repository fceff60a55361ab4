# SPDX-License-Identifier: Apache-2.0
"""What the project may do with ports and rescues.

A policy cannot be read. What the project has already done proves that it
may; without a proof only a trial shows it.
"""

from quintupleo_power.checks import access
from quintupleo_power.checks import results
from quintupleo_power.host_cloud import cloud_info
from quintupleo_power.host_cloud import ports as host_ports

PORT_SECURITY, MAC, RESCUE = 'port security', 'MAC addresses', 'rescue'
_EXTENSION = 'port-security'
_TRY = 'run this command with --try --flavor <flavor>'


def port_checks(project: cloud_info.CloudInfo) -> list[results.Check]:
    """Return the checks of which ports the project may have."""
    need = (access.NETWORKS,)
    return [
        results.Check(PORT_SECURITY, lambda facts: (
            facts[access.NETWORKS], project.ports()), _judge_port_security,
            need),
        results.Check(MAC, lambda facts: project.ports(), _judge_macs, need)]


def rescue_check(project: cloud_info.CloudInfo) -> results.Check:
    """Return the check of whether the project may rescue servers."""
    return results.Check(RESCUE, lambda facts: project.has_rescued(),
                         _judge_rescue, (access.COMPUTE,))


def _judge_port_security(read):
    extensions, ports = read
    if _EXTENSION not in extensions:
        return results.warned(
            'Neutron has no extension port-security, and filters what ports '
            'send as it is configured',
            "ask the host cloud's operator for ports that Ironic's DHCP "
            'server reaches')
    if any(port.security is False for port in ports):
        return results.passed('the project has ports without it')
    return results.warned('nothing shows whether this project may switch '
                          'it off', _TRY)


def _judge_macs(ports):
    if any(not host_ports.is_ignored(port.mac) for port in ports):
        return results.passed('the project has ports whose addresses the '
                              'agent takes')
    return results.warned(
        'nothing shows whether this project may choose MAC addresses; the '
        f'agent passes over those that begin with {host_ports.IGNORED_MAC}, '
        "as Neutron's own do", _TRY)


def _judge_rescue(has_rescued):
    if has_rescued:
        return results.passed('servers of this project were rescued')
    return results.warned('nothing shows whether this project may rescue '
                          'servers', _TRY)
