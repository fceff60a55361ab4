# SPDX-License-Identifier: Apache-2.0
"""The inspect interface: the node gets what the host cloud knows."""

from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic.drivers import base
from ironic.drivers.modules import inspect_utils
from ironic import objects
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power.faults import injection
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import inventory
from quintupleo_power.node import server_access

LOG = log.getLogger(__name__)

# That of a port's physical_network in Ironic's database.
_LONGEST_PHYSICAL_NETWORK = 64


class QuintupleoInspect(server_interface.ServerInterface,
                        base.InspectInterface):
    """Inspection of a Nova server from outside, in whatever state it is."""

    def __init__(self):
        """Load the hooks that are configured, as Ironic's redfish does.

        :raises: see :func:`compat.inspection_hooks`.
        """
        super().__init__()
        self.hooks = compat.inspection_hooks(
            'quintupleo', CONF.quintupleo.inspection_hooks)

    def validate(self, task: task_manager.TaskManager) -> None:
        """Check the node's settings, without a request to the host cloud.

        :raises: InvalidParameterValue, too, if Ironic shows the validation of
            a node that has faults; to inspect, it has an exclusive lock.
        """
        driver_info.parse(task.node)
        found = ', '.join(each['id'] for each in injection.get(task.node))
        if found and task.shared and CONF.quintupleo.fault_injection:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid} has faults: {found}; "openstack '
                f'quintupleo fault delete {task.node.uuid} --all" deletes '
                'them')

    def inspect_hardware(self, task: task_manager.TaskManager) -> str:
        """Read what the server is and write it to the node.

        Properties are updated, missing capabilities, ports and traits are
        added; all else stays. Nothing changes in the host cloud. Then come
        the hooks and rules of the operators.

        :raises: InvalidParameterValue, too, if the node's capabilities are
            malformed, or it would have more traits than Ironic takes.
        :raises: HardwareInspectionFailure if the host cloud does not show
            what is essential, what is found cannot be kept, or a hook or
            a rule says so.
        :raises: another IronicException if a rule cannot be applied.
        :raises: SwiftOperationError if Ironic keeps inventories in Swift, and
            that does not take it.
        :returns: MANAGEABLE of :mod:`ironic.common.states`.
        """
        node = task.node
        port_macs = {
            port.address.lower() for port in objects.Port.list_by_node_id(
                task.context, node.id)}
        # All of it is read before any of it is written.
        try:
            with server_access.use(node) as (host, server):
                found = _read(host, server)
                missing = [card for card in found.cards
                           if card.mac not in port_macs]
                names = host.ports.network_names(
                    {card.network_id for card in missing}) if missing else {}
        except exception.DriverOperationError as exc:
            raise exception.HardwareInspectionFailure(str(exc)) from None
        properties = found.properties(node.properties)
        _add_traits(task, found)
        for card in missing:
            _add_port(task, found, card, names.get(card.network_id))
        for name, (own, servers) in found.contradictions(
                node.properties).items():
            _warn(node, (
                f"Capability {name} of properties/capabilities is '{own}', "
                f'and server {found.server_id} has {servers}: it is left as '
                'it is; remove it and inspect again if nobody wants it so'))
        node.properties = properties
        node.save()
        self._finish(task, found.as_agent(properties))
        LOG.info('Node %(node)s: server %(server)s was inspected: '
                 '%(properties)s',
                 {'node': node.uuid, 'server': found.server_id,
                  'properties': node.properties})
        return states.MANAGEABLE

    def _finish(self, task, found):
        """Run hooks, store the inventory, and apply rules.

        They see the node as it is with what was found, and have the last
        word.
        """
        plugin_data = {}
        task.ports = objects.Port.list_by_node_id(task.context, task.node.id)
        if self.hooks:
            inspect_utils.run_inspection_hooks(task, found, plugin_data,
                                               self.hooks, None)
        inspect_utils.store_inspection_data(task.node, found, plugin_data,
                                            task.context)
        compat.apply_inspection_rules(task, found, plugin_data)

    def abort(self, task: task_manager.TaskManager) -> None:
        """Do nothing: an inspection is over when it returns.

        Ironic calls this when one has failed, and would otherwise clean up
        after a ramdisk that was never booted.
        """


def _read(host, server):
    flavor = host.capabilities.flavor(server)
    return inventory.Inventory(
        server_id=server.id, cpus=flavor.vcpus, memory_mb=flavor.ram,
        local_gb=host.capabilities.root_disk(server, flavor),
        cpu_arch=host.capabilities.architecture(server, flavor),
        boot_mode=host.capabilities.boot_mode(server),
        secure_boot=host.capabilities.secure_boot(server),
        traits=flavor.required_traits,
        cards=tuple(host.ports.of_server(server)))


def _add_traits(task, found):
    present = objects.TraitList.get_by_node_id(task.context, task.node.id)
    for name in sorted(found.valid_traits - set(present.get_trait_names())):
        objects.Trait(task.context, node_id=task.node.id, trait=name).create()


def _add_port(task, found, card, network_name):
    if not network_name or len(network_name) > _LONGEST_PHYSICAL_NETWORK:
        network_name = card.network_id
    port = objects.Port(task.context, node_id=task.node.id, address=card.mac,
                        physical_network=network_name)
    try:
        port.create()
    except exception.MACAlreadyExists:
        other = objects.Port.get_by_address(task.context, card.mac)
        owner = objects.Node.get_by_id(task.context, other.node_id)
        _warn(task.node, (
            f'No port was made for MAC address {card.mac} of server '
            f'{found.server_id}, as it is that of port {other.uuid} of node '
            f'{owner.uuid}: delete that port, or correct '
            'driver_info/quintupleo_server of the wrong node of the two, and '
            'inspect again'))
        return
    LOG.info('Node %(node)s got port %(port)s for MAC address %(mac)s',
             {'node': task.node.uuid, 'port': port.uuid, 'mac': card.mac})


def _warn(node, sentence):
    LOG.warning('Node %(node)s: %(sentence)s',
                {'node': node.uuid, 'sentence': sentence})
    conductor_utils.node_history_record(
        node, event=sentence, event_type=states.INTROSPECTION)
