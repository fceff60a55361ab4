# SPDX-License-Identifier: Apache-2.0
"""The network interface: the server's cards change networks in the host cloud.

Nova attaches and detaches ports of servers that are ACTIVE, PAUSED or SHUTOFF
and refuses it in a rescue. Ironic asks for it while the machine is off, where
an agent that has switched itself off leaves a rescue behind: that is ended
first. Only an agent for Ironic's rescue runs, when it is ready or Ironic gives
it up: the machine then stays on the rescuing network until it is off.
"""

import contextlib
import functools

from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.drivers import base
from ironic.drivers.modules.network import common
from ironic import objects
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power import exceptions
from quintupleo_power import executor
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import ports
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import server_access
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

# Where a port keeps the VIF that it has now (``NetType`` of Ironic's
# ``ironic/drivers/modules/network/common.py``), and how its network is set.
_TENANT_KEY = 'tenant_vif_port_id'
# The network on which a port is being made, until it is known: its answer may
# be lost, or the conductor die.
_MAKING_KEY = 'quintupleo_making_port_on'
KINDS = ('provisioning', 'cleaning', 'rescuing', 'inspection', 'servicing')

PROPERTIES = driver_info.COMMON_PROPERTIES | {
    f'{kind}_network': (
        f'Network of the host cloud for {kind}, UUID or name. Default: '
        f'[quintupleo]{kind}_network'
        + ('.' if kind == 'provisioning' else
           ', else what is set for provisioning.') + ' Optional.')
    for kind in KINDS}


def _key(kind):
    return f'{kind}_vif_port_id'


@contextlib.contextmanager
def _host_cloud(node):
    """Use the host cloud of a node; its failures are NetworkErrors here."""
    try:
        with exceptions.host_cloud(node) as host:
            yield host
    except exception.DriverOperationError as exc:
        raise exception.NetworkError(str(exc)) from None


class QuintupleoNetwork(server_interface.ServerInterface,
                        common.VIFPortIDMixin, base.NetworkInterface):
    """Networks of the host cloud, which isolate machines as switches would.

    Methods raise NetworkError if the host cloud cannot be asked or does not
    do it.
    """

    properties = PROPERTIES

    def validate(self, task):
        """Check the networks for provisioning and cleaning.

        :raises: MissingParameterValue, too, if none is set.
        :raises: InvalidParameterValue, too, if one is not in the host cloud,
            or the node must not be powered off.
        """
        self._validate(task, ('provisioning', 'cleaning'))

    def _validate(self, task, kinds):
        if compat.must_stay_on(task.node):
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: {transitions.STAYS_ON}, or use '
                'network_interface noop, as Nova changes no ports of a server '
                'that runs an agent')
        names = {_network(task.node, kind) for kind in kinds}
        with exceptions.host_cloud(task.node, validating=True) as host:
            for name in names:
                ports.find_network(host.network, name)

    validate_rescue = functools.partialmethod(_validate, kinds=('rescuing',))
    validate_inspection = functools.partialmethod(
        _validate, kinds=('inspection',))

    def port_changed(self, task, port_obj):
        """Refuse to change the MAC address of a card that has a VIF.

        :param port_obj: the changed port, not saved yet.
        :raises: Conflict if it has one.
        """
        if 'address' in port_obj.obj_what_changed() and (
                self.get_current_vif(task, port_obj)):
            raise exception.Conflict(
                f'Port {port_obj.uuid} of node {task.node.uuid} has a VIF, '
                'whose MAC address it has to be: detach that first')

    def portgroup_changed(self, task, portgroup_obj):
        """Do nothing: a server has no port groups."""

    def vif_attach(self, task, vif_info):
        """Attach a port of the host cloud's Neutron as a card of the node.

        :param vif_info: dict with its UUID as ``id``; ``port_uuid`` may name
            the node's port.
        :raises: NetworkError if the host cloud has no such port, something
            else has it, or it is not made the card.
        :raises: VifAlreadyAttached if the node has that VIF.
        :raises: NoFreePhysicalPorts if it has no port left for one.
        """
        vif_id = vif_info['id']
        port = common.get_free_port_like_object(task, vif_id, set(), vif_info)
        if isinstance(port, objects.Portgroup):
            raise exception.NetworkError(
                f'Node {task.node.uuid}: VIF {vif_id} was to be port group '
                f'{port.uuid}, and a server has none: delete the port group, '
                'or name a port with "--port-uuid"')
        with _host_cloud(task.node) as host:
            server = server_access.get(task.node, host)
            host.ports.set_mac(server, vif_id, port.address)
        if task.node.provision_state == states.ACTIVE:
            self._plug(task, {port.address: vif_id})
        self._save_vif_to_port_like_obj(port, vif_id)

    def vif_detach(self, task, vif_id):
        """Take a port of the host cloud's Neutron from the node.

        :param vif_id: UUID of the port.
        :raises: VifNotAttached if the node does not have it.
        """
        port = self._get_port_like_obj_by_vif_id(task, vif_id)
        if task.node.provision_state == states.ACTIVE:
            self._plug(task, {port.address: None})
        self._clear_vif_from_port_like_obj(port)

    def configure_tenant_networks(self, task):
        """Attach the VIFs as cards.

        :raises: NetworkError, too, if there is none.
        """
        if task.node.provision_state in (
                states.RESCUING, states.RESCUEWAIT) and _is_in_rescue(task):
            # The agent has just told that it is ready.
            return
        self._remove(task, KINDS)
        self._plug(task, self._required_vifs(task))

    def unconfigure_tenant_networks(self, task):
        """Take their VIFs from the cards."""
        if not conductor_utils.is_fast_track(task):
            self._remove(task, KINDS)
            self._plug(task, dict.fromkeys(self._vifs(task)))

    @base.service_step(requires_ramdisk=False)
    def reattach_networking(self, task):
        """Take the VIFs from the cards and attach them again, as a node runs.

        It is what the step of Ironic's network interface neutron is there,
        and Ironic offers it since 35.0. To run it twice does no harm.

        :raises: NetworkError if there is no VIF, or Nova does not take one;
            a VIF that was taken away is then attached by another run.
        """
        vifs = self._required_vifs(task)
        self._plug(task, dict.fromkeys(vifs))
        self._plug(task, vifs)

    def _required_vifs(self, task):
        vifs = self._vifs(task)
        if not vifs:
            raise exception.NetworkError(
                f'Node {task.node.uuid} has no VIF to be on a network with: '
                'run "baremetal node vif attach" with a port of the host '
                'cloud first')
        return vifs

    @staticmethod
    def _vifs(task):
        return {port.address: port.internal_info[_TENANT_KEY]
                for port in task.ports if port.internal_info.get(_TENANT_KEY)}

    @staticmethod
    def _plug(task, ports):
        """Attach ports as cards by MAC address; None takes a card away."""
        if not ports:
            return
        with _host_cloud(task.node) as host:
            server = _out_of_rescue(task.node, host)
            for mac, port_id in ports.items():
                host.ports.plug(server, mac, port_id)

    def _add(self, task, kind):
        """Put the cards that boot on a network, each with a port made for it.

        They are on one at a time, whatever a conductor that died has left.

        :returns: dict of the UUID of each of these ports in the host cloud by
            that of Ironic's port.
        """
        node = task.node
        if conductor_utils.is_fast_track(task):
            LOG.info('Node %s stays on the network that its agent runs in',
                     node.uuid)
            return {port.uuid: made for port, _, made in _made(task, KINDS)}
        self._remove(task, KINDS)
        with _host_cloud(node) as host:
            # Ironic boots an agent next, whatever runs now.
            server = _out_of_rescue(node, host, running=True)
            network_id = ports.find_network(host.network,
                                            _network(node, kind))
            for port in task.ports:
                if not port.pxe_enabled:
                    continue
                _replace(port, _key(kind), _MAKING_KEY, network_id)
                made = host.ports.find_or_create(
                    network_id, port.address,
                    f'{node.name or node.uuid}-{kind}')
                _replace(port, _MAKING_KEY, _key(kind), made)
                host.ports.plug(server, port.address, made)
        return {port.uuid: made for port, _, made in _made(task, (kind,))}

    def _remove(self, task, kinds, running=False):
        """Take the cards from networks, and delete their ports there.

        :param running: see :func:`_out_of_rescue`.
        """
        self._remove_unknown(task)
        for port, key, made in _made(task, kinds):
            with _host_cloud(task.node) as host:
                try:
                    server = _out_of_rescue(task.node, host, running)
                    host.ports.plug(server, port.address, None)
                except errors.NotFound as exc:
                    LOG.warning('Node %(node)s: port %(port)s is removed, '
                                'and is no card any more: %(reason)s',
                                {'node': task.node.uuid, 'port': made,
                                 'reason': exc})
                host.ports.delete(made)
            _replace(port, key)

    @staticmethod
    def _remove_unknown(task):
        """Delete the ports of which it is not known whether they were made."""
        for port in task.ports:
            network_id = port.internal_info.get(_MAKING_KEY)
            if network_id:
                with _host_cloud(task.node) as host:
                    made = host.ports.find(network_id, port.address)
                    if made:
                        host.ports.delete(made)
                _replace(port, _MAKING_KEY)

    add_provisioning_network = functools.partialmethod(
        _add, kind='provisioning')
    add_cleaning_network = functools.partialmethod(_add, kind='cleaning')
    add_rescuing_network = functools.partialmethod(_add, kind='rescuing')
    add_inspection_network = functools.partialmethod(_add, kind='inspection')
    add_servicing_network = functools.partialmethod(_add, kind='servicing')
    remove_provisioning_network = functools.partialmethod(
        _remove, kinds=('provisioning',))
    remove_servicing_network = functools.partialmethod(
        _remove, kinds=('servicing',))

    def remove_cleaning_network(self, task):
        """Take the node from the network for cleaning.

        An agent that goes on running, for a fast track, stays on it.
        """
        if not conductor_utils.is_fast_track(task):
            self._remove(task, ('cleaning',))

    def remove_rescuing_network(self, task):
        """Take the node from the network for rescuing.

        Ironic does so when the agent is ready, or was given up, and still
        runs, which Nova does not permit in a rescue; then it is done when
        the node goes on another network, or is torn down.
        """
        if _made(task, ('rescuing',)) and _is_in_rescue(task):
            LOG.info('Node %s stays on the network for rescuing: Nova '
                     'detaches no ports in a rescue', task.node.uuid)
            return
        self._remove(task, ('rescuing',))

    def remove_inspection_network(self, task):
        """Take the node from the network for inspection.

        Ironic does so while the agent runs, and powers the node off next.
        """
        if not conductor_utils.is_fast_track(task):
            self._remove(task, ('inspection',), running=True)

    def get_node_network_data(self, task):
        """Return the network configuration that the agent gets without DHCP.

        :returns: what the node's ``network_data`` holds, or what Neutron has
            given the ports that were made for the node.
        """
        node = task.node
        made = [each for _, _, each in _made(task, KINDS)]
        if node.network_data or not made:
            return node.network_data or {}
        with _host_cloud(node) as host:
            return host.ports.network_data(made)


def _replace(port, old, new=None, value=None):
    """Remove a key of a port's internal_info, set another, and save it."""
    port.internal_info = {
        **{key: each for key, each in port.internal_info.items()
           if key != old},
        **({new: value} if new else {})}
    port.save()


def _made(task, kinds):
    """Return (Ironic port, internal_info key, Neutron UUID) of ports made."""
    return [(port, key, port.internal_info[key])
            for port in task.ports for key in map(_key, kinds)
            if port.internal_info.get(key)]


def _is_in_rescue(task):
    """Whether a node's server runs from a rescue."""
    with _host_cloud(task.node) as host:
        server = server_access.get(task.node, host)
    return (transitions.situation(server.state)
            is transitions.Situation.RESCUE)


def _out_of_rescue(node, host, running=False):
    """Read a server, and end its rescue if its guest has switched itself off.

    To Ironic it is off; its own disk runs for the time of a stop, as after
    each power off out of PXE.

    :param running: whether it is ended while its guest runs, too.
    :returns: the server.
    """
    server = server_access.get(node, host)
    situation = transitions.situation(server.state)
    if situation is not transitions.Situation.RESCUE_GUEST_OFF and not (
            running and situation is transitions.Situation.RESCUE):
        return server
    server = executor.run(node, transitions.Request.END_RESCUE)
    node.save()
    return server or server_access.get(node, host)


def _network(node, kind):
    """Return the network that is set for something.

    :raises: MissingParameterValue if there is none.
    """
    for key in (f'{kind}_network', 'provisioning_network'):
        found = node.driver_info.get(key) or CONF.quintupleo[key]
        if found:
            return found
    raise exception.MissingParameterValue(
        f'Node {node.uuid} has no network for {kind}: set '
        f'[quintupleo]{kind}_network or [quintupleo]provisioning_network, or '
        'driver_info of the same names, to a network of the host cloud')
