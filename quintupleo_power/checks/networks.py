# SPDX-License-Identifier: Apache-2.0
"""Whether machines can be provisioned on a network of the host cloud."""

from quintupleo_power.checks import access
from quintupleo_power.checks import results


def checks(project, reference):
    """List the checks of a network.

    :param project: the :class:`host_cloud.project.Project`.
    :param reference: the network's UUID or name.
    :returns: list of :class:`results.Check`.
    """
    name = f'network {reference}'
    return [
        results.Check(name, lambda facts: project.network(reference),
                       lambda network: results.passed(network.id),
                       (access.NETWORKS,)),
        results.Check(f'{name}: DHCP', lambda facts: facts[name],
                       judge_dhcp, (name,)),
        results.Check(f'{name}: port security', lambda facts: facts[name],
                       judge_security, (name,))]


def judge_dhcp(network):
    """Judge whether Neutron answers before Ironic does.

    :param network: the :class:`host_cloud.project.Network`.
    :returns: a :class:`results.Verdict`.
    """
    if not network.dhcp:
        return results.passed('Neutron serves none there')
    return results.warned(
        f'Neutron serves DHCP in {", ".join(network.dhcp)}, and answers '
        "before Ironic's server",
        'run "openstack subnet set --no-dhcp" for each of these subnets, '
        "unless Neutron's DHCP options of the ports lead to Ironic")


def judge_security(network):
    """Judge whether ports of a network are filtered.

    :param network: the :class:`host_cloud.project.Network`.
    :returns: a :class:`results.Verdict`.
    """
    if network.security is False:
        return results.passed('off')
    if network.security is None:
        return results.warned(
            'Neutron does not tell whether it is on',
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
