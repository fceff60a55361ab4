# SPDX-License-Identifier: Apache-2.0
"""Whether Ironic can provision by networks and ports of the host cloud."""

from quintupleo_power.checks import access
from quintupleo_power.checks import results
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import ports as host_ports


def checks(project: cloud_facts.CloudInfo, reference: str
           ) -> list[results.Check]:
    """Return the checks of a network, named by its UUID or name."""
    name = f'network {reference}'
    return [
        results.Check(name, lambda facts: project.network(reference),
                      lambda network: results.passed(network.id),
                      (access.NETWORKS,)),
        results.Check(f'{name}: DHCP', lambda facts: facts[name],
                      _judge_dhcp, (name,)),
        results.Check(f'{name}: port security', lambda facts: facts[name],
                      _judge_security, (name,))]


def _judge_dhcp(network):
    if not network.dhcp:
        return results.passed('Neutron serves none there')
    return results.warned(
        f'Neutron serves DHCP in {", ".join(network.dhcp)}, and answers '
        "before Ironic's server",
        'run "openstack subnet set --no-dhcp" for each of these subnets, '
        "unless Neutron's DHCP options of the ports lead to Ironic")


def _judge_security(network):
    if network.security is False:
        return results.passed('off')
    if network.security is None:
        return results.warned(
            'Neutron does not report whether it is on', access.ASK_OF_PORTS)
    if not network.is_own:
        return results.failed(
            "on, and the network is another project's, on which a member "
            'may not switch it off',
            "make a network of the project's own, or ask its owner for "
            'ports without port security')
    return results.warned(
        'on, and so on each port that does not say otherwise',
        f'run "openstack network set --disable-port-security {network.id}" '
        'before the ports are made')


def port_checks(project: cloud_facts.CloudInfo) -> list[results.Check]:
    """Return the checks of which ports the project may have."""
    return [
        results.Check('port security', lambda facts: _judge_port_security(
            facts[access.NETWORKS], project.ports()),
            needs=(access.NETWORKS,)),
        results.Check('MAC addresses', lambda facts: project.ports(),
                      _judge_macs, (access.NETWORKS,))]


def _judge_port_security(extensions, ports):
    if 'port-security' not in extensions:
        return results.warned(
            'Neutron has no extension port-security, and filters what ports '
            'send as it is configured', access.ASK_OF_PORTS)
    if any(port.security is False for port in ports):
        return results.passed('the project has ports without it')
    return results.warned('nothing shows whether this project may switch '
                          'it off', access.TRY)


def _judge_macs(ports):
    if any(not host_ports.is_ignored(port.mac) for port in ports):
        return results.passed('the project has ports whose addresses the '
                              'agent takes')
    return results.warned(
        'nothing shows whether this project may choose MAC addresses; the '
        f'agent passes over those that begin with {host_ports.IGNORED_MAC}, '
        "as Neutron's own do", access.TRY)
