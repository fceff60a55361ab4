# SPDX-License-Identifier: Apache-2.0
"""Describes existing servers of the host cloud as nodes of an Ironic."""

import collections
import re

from quintupleo_power.environments import enrolment
from quintupleo_power.environments import errors
from quintupleo_power.host_cloud import errors as host_errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import ports

# What Ironic's API takes as the name of a node.
_NODE_NAME = re.compile('[A-Za-z0-9._~-]+')


def describe(host, references, cloud=None, resource_class=None,
             capabilities=None, physical_networks=None):
    """Return nodes for servers, each once.

    :param references: UUIDs or unique names of servers.
    :param cloud: entry of the conductor's clouds.yaml for the host cloud;
        None for its [quintupleo] section.
    :param capabilities: dict of further capabilities.
    :param physical_networks: dict of Ironic's names of networks by the
        networks' UUID or name.
    :returns: (nodes in the format of ``openstack baremetal create``, list of
        warnings).
    :raises: EnvironmentsError with a line for each server that cannot become
        a node, or another HostCloudError.
    """
    wanted = {identifiers.reference(network): name
              for network, name in (physical_networks or {}).items()}
    problems, found = [], {}
    for reference in references:
        try:
            server = host.servers.get(reference)
            cards = host.ports.of_server(server)
        except (host_errors.NotFound, host_errors.NotUnique) as exc:
            problems.append(str(exc))
            continue
        found[server.id] = server, cards
        if not cards:
            problems.append(
                f'Server {server.id} ({server.name}) has no port, and a node '
                'needs one: add it with "openstack server add port"')
    problems += _name_problems([server for server, _ in found.values()])
    networks = {card.network_id for _, cards in found.values()
                for card in cards}
    names = (host.ports.network_names(networks)
             if networks and wanted else {})
    problems += [
        f'--physical-network {network}: no port of the servers is on a '
        'network of this name or UUID' for network
        in set(wanted) - networks - set(names.values())]
    if problems:
        raise errors.EnvironmentsError('\n'.join(dict.fromkeys(problems)))
    physical = {network: wanted.get(network) or wanted.get(names.get(network))
                for network in networks}
    return ([enrolment.node(
        server, cloud, _properties(host, server, capabilities or {}),
        [enrolment.port(card.mac, physical[card.network_id])
         for card in cards], resource_class)
        for server, cards in found.values()],
        [_warning(server, card) for server, cards in found.values()
         for card in cards if ports.is_ignored(card.mac)])


def _name_problems(servers):
    for name, count in collections.Counter(
            server.name for server in servers).items():
        if not _NODE_NAME.fullmatch(name):
            yield (f'Server name "{name}" cannot be the name of a node: use '
                   'letters, digits, dots, dashes, underscores and tildes; '
                   '"openstack server set --name" changes it')
        elif count > 1:
            yield (f'{count} of the servers are named "{name}", and the name '
                   'of a node is unique: change the names with "openstack '
                   'server set --name"')


def _properties(host, server, capabilities):
    flavor = host.capabilities.flavor(server)
    found = {
        'cpus': flavor.vcpus, 'memory_mb': flavor.ram,
        'local_gb': host.capabilities.root_disk(server, flavor),
        'cpu_arch': host.capabilities.architecture(server, flavor)
                    or enrolment.DEFAULT_ARCHITECTURE,
        'capabilities': enrolment.capabilities(
            {'boot_mode': host.capabilities.boot_mode(server),
             **capabilities}),
        'root_device': _root_device(host, server)}
    return {name: value for name, value in found.items() if value}


def _root_device(host, server):
    """Return the root device hint; None if the root disk is not known."""
    bus = (host.capabilities.image_properties(server) or {}).get('hw_disk_bus')
    if server.image_id and not server.network_first:
        return enrolment.root_device(bus)
    if len(server.volume_ids) == 1:
        return enrolment.root_device(bus, server.volume_ids[0])
    return None


def _warning(server, card):
    return (f'Server {server.id} ({server.name}): MAC address {card.mac} '
            f'begins with {ports.IGNORED_MAC}, and newer releases of '
            'ironic-python-agent pass over such a network card: replace the '
            'port by one with another MAC address, for example one that '
            'begins with 52:54:00')
