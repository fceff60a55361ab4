# SPDX-License-Identifier: Apache-2.0
"""The network interface, through a real Ironic, Nova and Neutron.

No agent ever calls here. The tests' hypervisor lets an NMI switch a guest off,
as an agent does itself at the end of a deployment.
"""

import uuid

from openstack import exceptions
import pytest

from tests.functional import machines

MAC = '52:54:00:00:18:01'
REFUSED = 'while it is in vm_state rescued'


@pytest.fixture(scope='module')
def networks(deployment):
    """Two networks of the project's own, by what they are for."""
    neutron = deployment.cloud.network
    found = {}
    for number, name in enumerate(('provisioning', 'tenant')):
        found[name] = neutron.create_network(
            name=f'{name}-{uuid.uuid4()}').id
        neutron.create_subnet(
            network_id=found[name], ip_version=4, is_dhcp_enabled=False,
            cidr=f'192.0.2.{64 * number}/26')
    yield found
    for network in found.values():
        for port in neutron.ports(network_id=network):
            neutron.delete_port(port)
        neutron.delete_network(network)


class Machine(machines.Machine):
    """A node whose server has no card but what Ironic gives it."""

    def __init__(self, deployment, networks):
        super().__init__(deployment)
        self._networks = networks
        self._api = deployment.api
        self._neutron = deployment.cloud.network
        self._api.update_node(
            self.node, network_interface='quintupleo',
            boot_interface='quintupleo-virtual-media',
            inspect_interface='agent', rescue_interface='agent',
            driver_info={'quintupleo_server': self.server,
                         'provisioning_network': networks['provisioning']})
        self._api.create_port(node_id=self.node, address=MAC)

    def ports(self, name):
        """The ports of a network."""
        return list(self._neutron.ports(network_id=self._networks[name]))

    def cards(self):
        """Networks of the server's cards; each has the node's address."""
        names = {network: name for name, network in self._networks.items()}
        found = list(self.compute.server_interfaces(self.server))
        assert all(card.mac_addr == MAC for card in found)
        return [names[card.net_id] for card in found]

    def vif(self):
        """Make a port on the tenant's network, as a user does."""
        return self._neutron.create_port(
            network_id=self._networks['tenant'], mac_address=MAC).id

    def switch_off_from_within(self):
        """Let the guest be off without anybody having asked Nova for it."""
        self.compute.post(f'/servers/{self.server}/action', json={
            'trigger_crash_dump': None}, microversion='2.17')
        self.deployment.wait_for(
            lambda: self.compute.get_server(self.server).power_state == 4,
            'the guest to be off')


@pytest.fixture
def machine(deployment, networks, agent):
    found = Machine(deployment, networks)
    yield found
    server = found.compute.get_server(found.server)
    found.remove()
    found.compute.wait_for_delete(server, interval=0.3)


@pytest.mark.parametrize('verb,waits,fails', [
    ('provide', 'clean wait', 'clean failed'),
    pytest.param('inspect', 'inspect wait', 'inspect failed',
                 marks=pytest.mark.full)])
def test_agent_is_on_its_network_for_a_while(machine, verb, waits, fails):
    assert machine.cards() == []
    machine.provision(verb, waits)
    assert machine.status == 'RESCUE'
    assert machine.cards() == ['provisioning']
    port, = machine.ports('provisioning')
    assert port.fixed_ips
    machine.provision('abort', fails)
    assert machine.cards() == []
    assert machine.ports('provisioning') == []


def test_nova_changes_no_ports_in_a_rescue(machine):
    """Which is why an agent of Ironic's rescue stays on its network."""
    machine.provision('provide', 'clean wait')
    card, = machine.compute.server_interfaces(machine.server)
    vif = machine.vif()
    with pytest.raises(exceptions.ConflictException, match=REFUSED):
        machine.compute.create_server_interface(
            machine.server, port_id=vif)
    machine.deployment.cloud.network.delete_port(vif)
    with pytest.raises(exceptions.ConflictException, match=REFUSED):
        machine.compute.delete_server_interface(
            card.port_id, machine.server, ignore_missing=False)
    machine.provision('abort', 'clean failed')


@pytest.mark.full
def test_agent_that_has_switched_itself_off(machine):
    machine.provision('provide', 'clean wait')
    machine.switch_off_from_within()
    assert machine.status == 'RESCUE'
    machine.provision('abort', 'clean failed')
    assert machine.cards() == []
    assert machine.status == 'SHUTOFF'
    actions = machine.deployment.actions(machine.server)
    assert [action for action in actions if 'interface' not in action] == [
        'rescue', 'trigger_crash_dump', 'unrescue', 'stop']


def test_vif_of_an_active_node_is_plugged_at_once(machine):
    machine.adopt()
    vif = machine.vif()
    api = machine.deployment.api
    api.attach_vif_to_node(machine.node, vif)
    assert machine.cards() == ['tenant']
    assert api.list_node_vifs(machine.node) == [vif]
    api.detach_vif_from_node(machine.node, vif)
    assert machine.cards() == []
    assert [port.id for port in machine.ports('tenant')] == [vif]
    machine.deployment.cloud.network.delete_port(vif)


@pytest.mark.full
def test_rescue_and_back(machine):
    machine.adopt()
    vif = machine.vif()
    machine.deployment.api.attach_vif_to_node(machine.node, vif)
    machine.provision('rescue', 'rescue wait', rescue_password='secret')
    assert machine.cards() == ['provisioning']
    machine.provision('abort', 'rescue failed')
    # Where it runs on, and Nova changes nothing.
    assert machine.cards() == ['provisioning']
    machine.provision('unrescue', 'active')
    assert machine.cards() == ['tenant']
    assert machine.ports('provisioning') == []
    machine.deployment.api.detach_vif_from_node(machine.node, vif)
    machine.deployment.cloud.network.delete_port(vif)
