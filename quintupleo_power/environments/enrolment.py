# SPDX-License-Identifier: Apache-2.0
"""Describes servers as nodes of an Ironic, enrolls them, and reads them."""

import collections
from concurrent import futures
import contextlib

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import plan
from quintupleo_power.environments import resolver
from quintupleo_power.environments import schema
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import errors as host_errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import ports as host_ports
from quintupleo_power.host_cloud import servers

DRIVER = 'quintupleo'
ENROLLED, COMPLETED, UNCHANGED = (
    'enrolled', 'completed', 'already enrolled')
DEFAULT_ARCHITECTURE = 'x86_64'
# Names in Linux of the first disk of a bus.
_FIRST_DISKS = {'virtio': '/dev/vda', 'scsi': '/dev/sda', 'sata': '/dev/sda',
                'ide': '/dev/sda', 'usb': '/dev/sda', 'xen': '/dev/xvda'}
# Linux shows as many characters of a virtio disk's serial number, which is
# the volume's UUID.
_SERIAL_LENGTH = 20
# A node after enrolment; its outcome is ENROLLED, COMPLETED or UNCHANGED.
Outcome = collections.namedtuple('Outcome', 'name id server outcome')


# The servers of an environment that are built and have all their ports, in the
# format of "openstack baremetal create", and a dict of their fixed IPv4
# addresses by MAC address.
Described = collections.namedtuple('Described', 'nodes addresses')


def describe(definition, bodies, resolved, cloud=None):
    """Return :class:`Described`.

    :param bodies: dict of openstacksdk's resources by key.
    :param cloud: entry of the conductor's clouds.yaml for the host cloud;
        None for its [quintupleo] section.
    """
    networks = {each.name: each for each in definition.networks}
    found = Described([], {})
    for item in plan.items(definition).values():
        if item.kind != plan.SERVER or item.role.kind != schema.BAREMETAL:
            continue
        needed = [key for key in item.after
                  if plan.kind(key) in (plan.PORT, plan.VOLUME)]
        if (not bodies.keys() >= {item.key, *needed}
                or bodies[item.key].status == 'BUILD'):
            continue
        found.nodes.append(node(
            bodies[item.key], cloud, _properties(item, bodies, resolved),
            [port(bodies[item.sibling(plan.PORT, place)].mac_address,
                  networks[nic.network].physical_network,
                  pxe_enabled=nic.pxe)
             for place, nic in enumerate(item.role.nics)],
            item.role.resource_class))
        found.addresses.update(
            (bodies[key].mac_address, address)
            for key in needed if plan.kind(key) == plan.PORT
            for address in owned_resources.fixed_ips(bodies[key])
            if ':' not in address)
    return found


def node(server, cloud, properties, ports, resource_class):
    """Return a server as a node; cloud and resource class may be None."""
    return {'name': server.name, 'driver': DRIVER,
            'driver_info': {
                'quintupleo_server': server.id,
                **({'quintupleo_cloud': cloud} if cloud else {})},
            'properties': properties, 'ports': ports,
            **({'resource_class': resource_class} if resource_class else {})}


def port(address, physical_network, **others):
    """Return a port of a node; the physical network may be None."""
    return {'address': address, **others, **(
        {'physical_network': physical_network} if physical_network else {})}


def _properties(item, bodies, resolved):
    role, flavor = item.role, resolved.flavors[item.role.name]
    known = resolver.image_properties(resolved.images[role.name])
    root = role.root_volume and bodies[item.sibling(plan.VOLUME, 'root')].id
    return {
        'cpus': flavor.vcpus,
        'memory_mb': flavor.ram,
        'local_gb': role.root_volume.size if root else flavor.disk,
        'cpu_arch': images.architecture(known) or DEFAULT_ARCHITECTURE,
        'capabilities': capabilities({'boot_mode': role.boot_mode,
                                      **role.capabilities}),
        'root_device': root_device(known.get('hw_disk_bus'), root)}


def capabilities(values):
    """Return a dict of capabilities as Ironic stores them."""
    return ','.join(f'{name}:{value}' for name, value in values.items()
                    if value is not None)


def root_device(bus, volume_id=None):
    """Return the root device hint by ``hw_disk_bus`` of an image, or None."""
    if volume_id and bus in (None, 'virtio'):
        return {'serial': volume_id[:_SERIAL_LENGTH]}
    return {'name': _FIRST_DISKS.get(bus, '/dev/vda')}


def describe_servers(host, references, cloud=None, resource_class=None,
                     further=None, physical_networks=None):
    """Return nodes for existing servers, each once.

    :param references: UUIDs or unique names of servers.
    :param cloud: entry of the conductor's clouds.yaml for the host cloud;
        None for its [quintupleo] section.
    :param further: dict of further capabilities.
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
    return ([node(
        server, cloud, _server_properties(host, server, further or {}),
        [port(card.mac, physical[card.network_id])
         for card in cards], resource_class)
        for server, cards in found.values()],
        [f'Server {server.id} ({server.name}): MAC address {card.mac} begins '
         f'with {host_ports.IGNORED_MAC}, and newer releases of '
         'ironic-python-agent pass over such a network card: replace the port '
         'by one with another MAC address, for example one that begins with '
         '52:54:00' for server, cards in found.values()
         for card in cards if host_ports.is_ignored(card.mac)])


def _name_problems(found):
    for name, count in collections.Counter(
            server.name for server in found).items():
        if count > 1:
            yield (f'{count} of the servers are named "{name}", and the name '
                   'of a node is unique: change the names with "openstack '
                   'server set --name"')


def _server_properties(host, server, further):
    flavor = host.capabilities.flavor(server)
    found = {
        'cpus': flavor.vcpus, 'memory_mb': flavor.ram,
        'local_gb': host.capabilities.root_disk(server, flavor),
        'cpu_arch': host.capabilities.architecture(server, flavor)
                    or DEFAULT_ARCHITECTURE,
        'capabilities': capabilities(
            {'boot_mode': host.capabilities.boot_mode(server),
             **further}),
        'root_device': _root_device(host, server)}
    return {name: value for name, value in found.items() if value}


def _root_device(host, server):
    """Return the root device hint; None if the root disk is not known."""
    bus = (host.capabilities.image_properties(server) or {}).get('hw_disk_bus')
    if server.image_id and not server.network_first:
        return root_device(bus)
    if len(server.volume_ids) == 1:
        return root_device(bus, server.volume_ids[0])
    return None


def enroll(described, baremetal, retrier, nova=None):
    """Enroll nodes, each server once, and return their :class:`Outcome`.

    :param described: nodes in the format of ``openstack baremetal create``.
    :param nova: openstacksdk's proxy, to put the UUID of each node into its
        server's metadata; None to leave servers as they are.
    :raises: EnvironmentsError before anything is enrolled if a name is
        taken, a MAC address is that of another node's port, or a server is
        refused.
    """
    existing = retrier.read_all(
        baremetal.nodes, fields=['uuid', 'name', 'driver', 'driver_info'])
    ports = {port.address.lower(): port for port in retrier.read_all(
        baremetal.ports, details=True)}
    by_server = {
        identifiers.reference(node.driver_info.get('quintupleo_server') or ''):
        node for node in existing}
    problems, wanted = [], []
    for each in described:
        # Somebody may have enrolled it by the server's name.
        node = by_server.get(_server_id(each)) or by_server.get(each['name'])
        missing = [port for port in each['ports']
                   if port['address'].lower() not in ports]
        problems += _conflicts(each, node, existing, ports)
        wanted.append((each, node, missing))
    if problems:
        raise errors.EnvironmentsError('\n'.join(problems))
    outcomes = []
    for each in wanted:
        outcomes.append(_enroll(*each, baremetal, retrier))
        if nova:
            with errors.translated():
                retrier.call(nova.set_server_metadata, outcomes[-1].server,
                             **{servers.NODE: outcomes[-1].id})
    return outcomes


def _enroll(described, node, missing, baremetal, retrier):
    """Create a node unless it exists, and those of its ports missing."""
    outcome = COMPLETED if missing else UNCHANGED
    if node is None:
        outcome = ENROLLED
        node = retrier.create(
            lambda: retrier.call(baremetal.find_node, described['name'],
                                 ignore_missing=True),
            baremetal.create_node, **{
                key: value for key, value in described.items()
                if key != 'ports'})
    for port in missing:
        retrier.create(
            lambda address=port['address']: next(iter(retrier.read_all(
                baremetal.ports, address=address)), None),
            baremetal.create_port, node_id=node.id,
            # openstacksdk has another name for it.
            **{'is_pxe_enabled' if name == 'pxe_enabled' else name: value
               for name, value in port.items()})
    return Outcome(described['name'], node.id, _server_id(described), outcome)


def _server_id(described):
    return described['driver_info']['quintupleo_server']


def _conflicts(described, own, existing, ports):
    """Yield what of Ironic is in the way of a node."""
    name = described['name']
    for node in existing:
        if node.name == name and not (own and node.id == own.id):
            yield (f'Ironic has another node "{name}" ({node.id}): give one '
                   'of them another name, or delete that node')
    for port in described['ports']:
        found = ports.get(port['address'].lower())
        if found and not (own and found.node_id == own.id):
            yield (f'{name}: MAC address {port["address"]} is that of a port '
                   f'of node {found.node_id} already: delete that node first')


def states(wanted, baremetal, retrier):
    """Return what an Ironic knows of the nodes of servers, sorted by name.

    :param wanted: openstacksdk's servers.
    :param baremetal: openstacksdk's proxy of the Ironic.
    :returns: list of dicts: ``boot_device`` is the one in use, ``health`` has
        Ironic 34.0 and later, and ``problem`` is what is wrong with the
        server, such as a change by somebody else. None is not known.
    """
    references = {name for server in wanted
                  for name in (server.id, server.name)}
    nodes = [node for node in retrier.read_all(
        baremetal.nodes, details=True, driver=DRIVER, sort_key='name')
        if identifiers.reference(
            node.driver_info.get('quintupleo_server') or '') in references]

    def describe(node):
        device = {}
        # Then the problem says why.
        with contextlib.suppress(exceptions.HttpException):
            device = retrier.call(baremetal.get_node_boot_device, node)
        return {**{name: getattr(node, name, None) for name in (
            'name', 'id', 'provision_state', 'power_state', 'health')},
            'boot_device': device.get('boot_device'),
            'problem': retrier.call(baremetal.validate_node, node,
                                    required=())['power'].reason}

    with futures.ThreadPoolExecutor(task_graph.THREADS) as pool:
        return list(pool.map(describe, nodes))
