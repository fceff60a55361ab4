# SPDX-License-Identifier: Apache-2.0
"""The nodes of Ironic that an environment's machines become."""

import dataclasses

from quintupleo_power.environments import definition
from quintupleo_power.environments import failures
from quintupleo_power.environments import plan

DRIVER = 'quintupleo'
ENROLLED, COMPLETED, UNCHANGED = (
    'enrolled', 'completed', 'already enrolled')
DEFAULT_ARCHITECTURE = 'x86_64'
# The names that Linux gives the first disk of a bus.
_FIRST_DISKS = {'virtio': '/dev/vda', 'scsi': '/dev/sda', 'sata': '/dev/sda',
                'ide': '/dev/sda', 'usb': '/dev/sda', 'xen': '/dev/xvda'}
# Linux shows as many characters of a virtio disk's serial number, which is
# the volume's UUID.
_SERIAL_LENGTH = 20


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A node after enrolment.

    :ivar name: its name.
    :ivar id: its UUID.
    :ivar server: UUID of the server.
    :ivar outcome: ENROLLED, COMPLETED or UNCHANGED.
    """

    name: str
    id: str
    server: str
    outcome: str


def nodes(wanted, found, choices, cloud=None):
    """Describe the nodes of an environment.

    :param wanted: the :class:`definition.Definition`.
    :param found: list of :class:`inventory.Found`.
    :param choices: the :class:`choices.Choices`.
    :param cloud: what the conductor's clouds.yaml calls the host cloud; None
        for its [quintupleo] section.
    :returns: list of dicts in the format of ``openstack baremetal create``.
    """
    things = {each.key: each.body for each in found}
    return [_node(role, number, things, choices, wanted, cloud)
            for role in wanted.roles if role.kind == definition.BAREMETAL
            for number in range(role.count)]


def _node(role, number, things, choices, wanted, cloud):
    server = things[plan.key(plan.SERVER, role.name, number)]
    node = {'name': server.name, 'driver': DRIVER,
            'driver_info': {'quintupleo_server': server.id},
            'properties': _properties(role, number, things, choices),
            'ports': [_port(role, number, place, nic, things, wanted)
                      for place, nic in enumerate(role.nics)]}
    if cloud:
        node['driver_info']['quintupleo_cloud'] = cloud
    if role.resource_class:
        node['resource_class'] = role.resource_class
    return node


def _properties(role, number, things, choices):
    flavor, image = choices.flavors[role.name], choices.images[role.name]
    known = image.to_dict()
    known = {**known, **(known.get('properties') or {})}
    capabilities = {'boot_mode': role.boot_mode, **dict(role.capabilities)}
    return {
        'cpus': flavor.vcpus,
        'memory_mb': flavor.ram,
        'local_gb': role.root_volume.size if role.root_volume
                    else flavor.disk,
        'cpu_arch': known.get('hw_architecture')
                    or known.get('architecture') or DEFAULT_ARCHITECTURE,
        'capabilities': ','.join(f'{name}:{value}' for name, value
                                 in capabilities.items()),
        'root_device': root_device(
            known.get('hw_disk_bus'),
            things[plan.key(plan.VOLUME, role.name, number, 'root')].id
            if role.root_volume else None)}


def root_device(bus, volume_id=None):
    """Return the root device hint of a server.

    :param bus: ``hw_disk_bus`` of its image, or None.
    :param volume_id: UUID of the volume that it boots from, or None.
    """
    if volume_id and bus in (None, 'virtio'):
        return {'serial': volume_id[:_SERIAL_LENGTH]}
    return {'name': _FIRST_DISKS.get(bus, '/dev/vda')}


def _port(role, number, place, nic, things, wanted):
    made = things[plan.key(plan.PORT, role.name, number, place)]
    port = {'address': made.mac_address, 'pxe_enabled': nic.pxe}
    network = next(each for each in wanted.networks
                   if each.name == nic.network)
    if network.physical_network:
        port['physical_network'] = network.physical_network
    return port


class Enrolment:
    """Enrols nodes in an Ironic."""

    def __init__(self, baremetal, patience):
        """Use an Ironic.

        :param baremetal: openstacksdk's proxy of it.
        :param patience: the :class:`patience.Patience`.
        """
        self._ironic = baremetal
        self._call = patience.call
        self._make = patience.make

    def run(self, described, refuse_enrolled=False):
        """Enrol nodes, each server once.

        :param described: list of dicts, as :func:`nodes` makes them.
        :param refuse_enrolled: whether a server that is a node with all its
            ports is a mistake.
        :returns: list of :class:`Outcome`.
        :raises: failures.Failure before anything is enrolled if a
            name is taken, a MAC address is that of another node's port, or a
            server is refused.
        """
        known = self._call(lambda: list(self._ironic.nodes(
            fields=['uuid', 'name', 'driver', 'driver_info'])))
        ports = {port.address.lower(): port for port in self._call(
            lambda: list(self._ironic.ports(details=True)))}
        by_server = {node.driver_info.get('quintupleo_server'): node
                     for node in known}
        problems = self._conflicts(described, known, ports, by_server)
        if refuse_enrolled:
            problems += _enrolled(described, ports, by_server)
        if problems:
            raise failures.Failure('\n'.join(problems))
        return [self._enroll(each, by_server, ports) for each in described]

    def _conflicts(self, described, known, ports, by_server):
        names = {node.name: node for node in known}
        problems = []
        for each in described:
            own = _node_of(each, by_server)
            other = names.get(each['name'])
            if other and (not own or other.id != own.id):
                problems.append(
                    f'Ironic has another node "{each["name"]}" ({other.id}): '
                    'give one of them another name, or delete that node')
            for port in each['ports']:
                found = ports.get(port['address'].lower())
                if found and (not own or found.node_id != own.id):
                    problems.append(
                        f'{each["name"]}: MAC address {port["address"]} is '
                        f'that of a port of node {found.node_id} already: '
                        'remove that node first')
        return problems

    def _enroll(self, described, by_server, ports):
        server = described['driver_info']['quintupleo_server']
        node = _node_of(described, by_server)
        outcome = UNCHANGED
        attributes = {name: value for name, value in described.items()
                      if name != 'ports'}
        if node is None:
            node = self._make(lambda: self._find(described['name']),
                              self._ironic.create_node, **attributes)
            outcome = ENROLLED
        for port in described['ports']:
            if port['address'].lower() not in ports:
                self._make(lambda port=port: self._find_port(port),
                           self._ironic.create_port, node_id=node.id,
                           **_attributes(port))
                if outcome == UNCHANGED:
                    outcome = COMPLETED
        return Outcome(described['name'], node.id, server, outcome)

    def _find(self, name):
        return self._call(self._ironic.find_node, name, ignore_missing=True)

    def _find_port(self, port):
        return next(iter(self._call(lambda: list(self._ironic.ports(
            address=port['address'])))), None)


def _node_of(described, by_server):
    # Somebody may have enrolled it by the server's name.
    return (by_server.get(described['driver_info']['quintupleo_server'])
            or by_server.get(described['name']))


def _enrolled(described, ports, by_server):
    """Return a sentence for each server that is a whole node already."""
    return [
        f'Server {each["driver_info"]["quintupleo_server"]} '
        f'({each["name"]}) is node {_node_of(each, by_server).id} already: '
        'leave it out, or delete that node first'
        for each in described if _node_of(each, by_server)
        and all(port['address'].lower() in ports for port in each['ports'])]


def _attributes(port):
    """The words of openstacksdk for a port."""
    words = {'pxe_enabled': 'is_pxe_enabled'}
    return {words.get(name, name): value for name, value in port.items()}
