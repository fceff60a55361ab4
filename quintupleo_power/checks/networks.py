# SPDX-License-Identifier: Apache-2.0
"""Whether Ironic can provision on a network of the host cloud."""

from quintupleo_power.checks import access
from quintupleo_power.checks import results
from quintupleo_power.host_cloud import cloud_info


def checks(project: cloud_info.CloudInfo, reference: str
           ) -> list[results.Check]:
    """Return the checks of a network.

    :param reference: the network's UUID or name.
    """
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
            'Neutron does not report whether it is on',
            "ask the host cloud's operator whether Ironic's DHCP server "
            'reaches its ports')
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
