# SPDX-License-Identifier: Apache-2.0
"""The network interface: which ports of the host cloud a node's cards are."""

from unittest import mock

from ironic.common import exception
from ironic.common import states
from ironic.conductor import servicing
from ironic.conductor import steps
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

from tests.unit import base
from tests.unit import host_cloud_fixture

MAC = '20:57:f8:00:00:01'


class NetworkTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.provisioning = self.host_cloud.add_network('provision')
        self.tenant = self.host_cloud.add_network('tenant')
        self.config(group='quintupleo', provisioning_network='provision')
        self.set_server('stopped', 4)
        self.node.network_interface = 'quintupleo'
        self.node.provision_state = states.DEPLOYING
        self.node.save()
        self.port = objects_utils.create_test_port(
            self.context, node_id=self.node.id, address=MAC,
            uuid=uuidutils.generate_uuid(), internal_info={}, extra={},
            local_link_connection={}, physical_network=None)

    def call(self, method, *args):
        with self.acquire() as task:
            return getattr(task.driver.network, method)(task, *args)

    def networks(self):
        """Names of the networks that the server is on."""
        names = {network['id']: network['name']
                 for network in self.host_cloud.networks.values()}
        return [names[port['net_id']] for _, port in self.host_cloud.ports]

    def make_vif(self, mac='fa:16:3e:00:00:07', **values):
        """Make a port of the tenant's, as a user does."""
        vif = {'id': uuidutils.generate_uuid(), 'mac_address': mac,
               'network_id': self.tenant['id'], 'fixed_ips': [], **values}
        self.host_cloud.neutron_ports[vif['id']] = vif
        return vif['id']

    def internal_info(self):
        self.port.refresh()
        return self.port.internal_info


class KindsTestCase(NetworkTestCase):

    def test_node_is_on_the_network_and_off_it(self):
        for kind in ('provisioning', 'cleaning', 'rescuing', 'inspection',
                     'servicing'):
            self.call(f'add_{kind}_network')
            self.assertEqual(['provision'], self.networks(), kind)
            port, = self.host_cloud.neutron_ports.values()
            self.assertEqual(MAC, port['mac_address'])
            self.assertEqual({f'{kind}_vif_port_id': port['id']},
                             self.internal_info())
            self.call(f'remove_{kind}_network')
            self.assertEqual([], self.networks(), kind)
            self.assertEqual({}, self.host_cloud.neutron_ports)
            self.assertEqual({}, self.internal_info())

    def test_ports_that_were_made_are_returned(self):
        for kind in ('provisioning', 'cleaning', 'rescuing', 'inspection',
                     'servicing'):
            found = self.call(f'add_{kind}_network')
            made, = self.host_cloud.neutron_ports
            self.assertEqual({self.port.uuid: made}, found, kind)

    def test_each_kind_can_have_a_network_of_its_own(self):
        self.host_cloud.add_network('clean')
        self.config(group='quintupleo', cleaning_network='clean')
        self.call('add_cleaning_network')
        self.assertEqual(['clean'], self.networks())

    def test_node_can_have_a_network_of_its_own(self):
        other = self.host_cloud.add_network('other')
        self.set_driver_info(provisioning_network=other['id'])
        self.call('add_provisioning_network')
        self.assertEqual(['other'], self.networks())

    def test_card_that_does_not_boot_stays_where_it_is(self):
        self.port.pxe_enabled = False
        self.port.save()
        self.call('add_provisioning_network')
        self.assertEqual([], self.networks())

    def test_port_of_the_servers_own_makes_room_and_stays(self):
        own = self.host_cloud.add_port(self.server, MAC, self.tenant)
        self.host_cloud.neutron_ports[own['port_id']] = {
            'id': own['port_id'], 'mac_address': MAC,
            'network_id': self.tenant['id']}
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())
        self.assertIn(own['port_id'], self.host_cloud.neutron_ports)

    def test_port_that_nova_does_not_take_away(self):
        self.call('add_provisioning_network')
        self.host_cloud.fail('DELETE', '/os-interface', {})
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'remove_provisioning_network')
        self.assertIn('Nova has not taken port', str(error))

    def test_what_a_dead_conductor_left_is_used_up(self):
        self.call('add_provisioning_network')
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())
        self.assertEqual(1, len(self.host_cloud.neutron_ports))

    def test_port_of_the_servers_own_on_that_network_is_used(self):
        own = self.host_cloud.add_port(self.server, MAC, self.provisioning)
        self.make_vif(MAC, id=own['port_id'],
                      network_id=self.provisioning['id'])
        for _ in range(2):
            self.call('add_provisioning_network')
            self.assertEqual(['provision'], self.networks())
            self.call('remove_provisioning_network')
            self.assertEqual([], self.networks())
            self.assertEqual([own['port_id']],
                             list(self.host_cloud.neutron_ports))

    def test_port_whose_conductor_died_before_it_knew_of_it_goes(self):
        self.call('add_provisioning_network')
        self.port.refresh()
        self.port.internal_info = {}
        self.port.save()
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())
        self.call('remove_provisioning_network')
        self.assertEqual({}, self.host_cloud.neutron_ports)

    def test_port_whose_answer_was_lost_goes(self):
        for kind in ('provisioning', 'cleaning', 'rescuing', 'inspection',
                     'servicing'):
            self.host_cloud.fail('POST', '/ports', 504, carried_out=True)
            self.assertRaises(exception.NetworkError, self.call,
                              f'add_{kind}_network')
            self.assertEqual(1, len(self.host_cloud.neutron_ports), kind)
            self.call(f'remove_{kind}_network')
            self.assertEqual({}, self.host_cloud.neutron_ports, kind)
            self.assertEqual({}, self.internal_info())

    def test_port_whose_answer_was_lost_is_used_or_replaced(self):
        self.host_cloud.fail('POST', '/ports', 504, carried_out=True)
        self.assertRaises(exception.NetworkError, self.call,
                          'add_provisioning_network')
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())
        port, = self.host_cloud.neutron_ports
        self.assertEqual({'provisioning_vif_port_id': port},
                         self.internal_info())

    def test_port_of_the_servers_own_stays_if_it_is_not_known(self):
        own = self.make_vif(MAC, network_id=self.provisioning['id'])
        self.host_cloud.fail('GET', '/ports', 504, times=3)
        self.assertRaises(exception.NetworkError, self.call,
                          'add_provisioning_network')
        self.call('remove_provisioning_network')
        self.assertEqual([own], list(self.host_cloud.neutron_ports))
        self.assertEqual({}, self.internal_info())

    def test_agent_that_has_switched_itself_off_leaves_its_rescue(self):
        self.call('add_provisioning_network')
        vif = self.make_vif(MAC)
        self.call('vif_attach', {'id': vif})
        self.set_server('rescued', 4)
        self.call('remove_provisioning_network')
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)
        self.call('configure_tenant_networks')
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)
        self.assertEqual(['tenant'], self.networks())
        self.assertEqual('stopped', self.server.vm_state)

    def test_rescue_that_does_not_end_is_told_of(self):
        self.set_server('rescued', 4)
        self.host_cloud.fail_action('unrescue', 'no host')
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'add_provisioning_network')
        self.assert_says(error, self.node.uuid, 'unrescue')
        self.assertEqual([], self.networks())

    def test_server_that_somebody_deleted_leaves_no_port(self):
        self.call('add_provisioning_network')
        self.set_server('deleted')
        self.call('remove_provisioning_network')
        self.assertEqual({}, self.host_cloud.neutron_ports)
        self.assertEqual({}, self.internal_info())

    def test_port_that_neutron_does_not_make_is_told_of(self):
        self.host_cloud.fail('POST', '/ports', (409, 'Quota exceeded'))
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'add_provisioning_network')
        self.assert_says(error, self.node.uuid, 'Quota exceeded')

    def test_port_that_somebody_deleted_is_no_error(self):
        self.call('add_provisioning_network')
        self.host_cloud.neutron_ports.clear()
        self.host_cloud.ports.clear()
        self.call('remove_provisioning_network')
        self.assertEqual({}, self.internal_info())

    def test_machine_in_pxe_that_an_agent_is_about_to_boot_on(self):
        self.set_server('rescued', 1)
        self.call('add_cleaning_network')
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)
        self.assertEqual(['provision'], self.networks())

    def test_agent_that_ironic_goes_on_with_stays_where_it_is(self):
        self.call('add_inspection_network')
        self.call('vif_attach', {'id': self.make_vif(MAC)})
        self.set_server('rescued', 1)
        with mock.patch('ironic.conductor.utils.is_fast_track',
                        autospec=True, return_value=True):
            self.call('unconfigure_tenant_networks')
            found = self.call('add_provisioning_network')
        self.assertEqual([self.port.uuid], list(found))
        self.assertEqual([], self.host_cloud.sent)
        self.assertEqual(['provision'], self.networks())
        # It has deployed, and switched itself off.
        self.set_server('rescued', 4)
        self.call('remove_provisioning_network')
        self.call('configure_tenant_networks')
        self.assertEqual(['tenant'], self.networks())

    def test_agent_that_inspects_is_taken_off_its_network(self):
        self.call('add_inspection_network')
        self.set_server('rescued', 1)
        with mock.patch('ironic.conductor.utils.is_fast_track',
                        autospec=True, return_value=True):
            self.call('remove_inspection_network')
        self.assertEqual(['provision'], self.networks())
        self.call('remove_inspection_network')
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)
        self.assertEqual([], self.networks())

    def test_agent_that_runs_on_is_told_of(self):
        self.call('add_cleaning_network')
        self.set_server('rescued', 1)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'remove_cleaning_network')
        self.assert_says(error, self.node.uuid, 'vm_state rescued')
        self.assertEqual(['provision'], self.networks())
        self.assertEqual(['cleaning_vif_port_id'],
                         list(self.internal_info()))

    def test_server_in_a_state_that_nova_permits_nothing_in(self):
        self.set_server('error', 1)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'add_provisioning_network')
        self.assert_says(error, self.node.uuid, 'vm_state error')


class TenantTestCase(NetworkTestCase):

    def test_vif_takes_the_cards_address_and_its_place(self):
        vif = self.make_vif()
        self.call('vif_attach', {'id': vif})
        self.assertEqual([], self.networks())
        self.assertEqual(
            MAC, self.host_cloud.neutron_ports[vif]['mac_address'])
        self.assertEqual([{'id': vif}], self.call('vif_list'))
        self.call('configure_tenant_networks')
        self.assertEqual(['tenant'], self.networks())
        self.call('unconfigure_tenant_networks')
        self.assertEqual([], self.networks())
        self.assertIn(vif, self.host_cloud.neutron_ports)

    def test_server_has_no_port_groups(self):
        group = objects_utils.create_test_portgroup(
            self.context, node_id=self.node.id, address=None)
        self.port.portgroup_id = group.id
        self.port.save()
        error = self.assertRaises(
            exception.NetworkError, self.call, 'vif_attach',
            {'id': self.make_vif(), 'portgroup_uuid': group.uuid})
        for part in (self.node.uuid, group.uuid, 'delete the port group'):
            self.assertIn(part, str(error))

    def test_malformed_answers_are_errors(self):
        for path, body in (('/networks', {'networks': [{'name': 'x'}]}),
                           ('/ports', {'ports': [{'id': None}]})):
            self.host_cloud.fail('GET', path, body)
            error = self.assertRaises(exception.NetworkError, self.call,
                                      'add_provisioning_network')
            self.assertIn('a form that Neutron does not have', str(error))
        self.assertEqual([], self.networks())

    def test_deployment_goes_from_one_network_to_the_other(self):
        vif = self.make_vif()
        self.call('vif_attach', {'id': vif})
        self.call('add_provisioning_network')
        with self.acquire(shared=True) as task:
            self.assertNotEqual(vif, task.driver.network.get_current_vif(
                task, task.ports[0]))
        self.call('remove_provisioning_network')
        self.call('configure_tenant_networks')
        self.assertEqual(['tenant'], self.networks())

    def test_active_node_is_plugged_at_once(self):
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.set_server('active', 1)
        vif = self.make_vif()
        self.call('vif_attach', {'id': vif})
        self.assertEqual(['tenant'], self.networks())
        self.call('vif_detach', vif)
        self.assertEqual([], self.networks())
        self.assertEqual([], self.call('vif_list'))

    def test_vif_that_the_host_cloud_does_not_have_is_refused(self):
        missing = uuidutils.generate_uuid()
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'vif_attach', {'id': missing})
        self.assert_says(error, self.node.uuid, missing)
        self.assertEqual([], self.call('vif_list'))

    def test_spelling_of_a_vif_and_its_address(self):
        vif = self.make_vif(MAC.upper().replace(':', '-'))
        self.host_cloud.fail('PUT', '/ports/', 403)
        self.host_cloud.neutron_ports[vif.upper()] = (
            self.host_cloud.neutron_ports[vif])
        self.call('vif_attach', {'id': vif.upper()})
        self.call('configure_tenant_networks')
        self.host_cloud.forget_requests()
        self.call('configure_tenant_networks')
        self.assertFalse([each for each in self.host_cloud.requests
                          if not each.startswith('GET ')])

    def test_network_by_another_spelling_of_its_uuid(self):
        network, = [each for each in self.host_cloud.networks.values()
                    if each['name'] == 'provision']
        self.set_driver_info(provisioning_network=network['id'].upper())
        self.call('add_provisioning_network')
        self.assertEqual(['provision'], self.networks())

    def test_vif_of_others_is_refused(self):
        for values, says in (
                ({'device_id': 'f00d', 'device_owner': 'compute:nova'},
                 'compute:nova of f00d'),
                ({'device_id': 'f00d',
                  'device_owner': 'network:router_interface'},
                 'network:router_interface of f00d'),
                ({'project_id': 'b' * 32}, 'not of the project')):
            vif = self.make_vif(**values)
            self.host_cloud.forget_requests()
            error = self.assertRaises(exception.NetworkError, self.call,
                                      'vif_attach', {'id': vif})
            self.assert_says(error, self.node.uuid, vif, says)
            self.assertEqual([], self.call('vif_list'))
            self.assertFalse([each for each in self.host_cloud.requests
                              if each.startswith('PUT ')])
        own = self.make_vif(device_id=self.server.id,
                            device_owner='compute:nova',
                            project_id=host_cloud_fixture.PROJECT_ID)
        self.call('vif_attach', {'id': own})

    def test_address_that_a_member_may_not_change_is_told(self):
        vif = self.make_vif()
        self.host_cloud.fail('PUT', '/ports/', 403)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'vif_attach', {'id': vif})
        self.assert_says(error, self.node.uuid, vif, MAC,
                         'fa:16:3e:00:00:07')
        self.assertEqual([], self.call('vif_list'))

    def test_vif_that_nova_does_not_take_is_not_attached(self):
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.set_server('rescued', 1)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'vif_attach', {'id': self.make_vif()})
        self.assert_says(error, self.node.uuid, 'vm_state rescued')
        self.assertEqual([], self.call('vif_list'))

    def test_second_vif_finds_no_card(self):
        self.call('vif_attach', {'id': self.make_vif()})
        self.assertRaises(exception.NoFreePhysicalPorts, self.call,
                          'vif_attach', {'id': self.make_vif()})

    def test_deployment_without_a_vif_is_told_what_to_do(self):
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'configure_tenant_networks')
        self.assert_says(error, self.node.uuid, 'baremetal node vif attach')

    def test_agent_for_rescue_stays_on_its_network(self):
        self.call('vif_attach', {'id': self.make_vif()})
        self.call('add_rescuing_network')
        self.node.provision_state = states.RESCUEWAIT
        self.node.save()
        self.set_server('rescued', 1)
        self.call('remove_rescuing_network')
        self.call('configure_tenant_networks')
        self.assertEqual(['provision'], self.networks())
        # On the way out the machine is switched off before.
        self.set_server('stopped', 4)
        self.node.provision_state = states.UNRESCUING
        self.node.save()
        self.call('remove_rescuing_network')
        self.call('configure_tenant_networks')
        self.assertEqual(['tenant'], self.networks())

    def test_agent_for_rescue_that_was_given_up_leaves_its_network_later(self):
        self.call('vif_attach', {'id': self.make_vif()})
        self.call('add_rescuing_network')
        self.node.provision_state = states.RESCUEFAIL
        self.node.save()
        self.set_server('rescued', 1)
        self.call('remove_rescuing_network')
        self.assertEqual(['provision'], self.networks())
        # The node is deleted.
        self.set_server('stopped', 4)
        self.call('unconfigure_tenant_networks')
        self.assertEqual([], self.networks())
        self.assertEqual(1, len(self.host_cloud.neutron_ports))
        self.assertEqual(['tenant_vif_port_id'], list(self.internal_info()))

    def test_agent_for_rescue_that_never_called_leaves_its_network(self):
        self.call('add_rescuing_network')
        self.node.provision_state = states.RESCUEWAIT
        self.node.save()
        self.call('remove_rescuing_network')
        self.assertEqual([], self.networks())
        self.assertEqual({}, self.internal_info())

    def test_agent_for_rescue_on_a_server_that_nova_does_not_rescue(self):
        vif = self.make_vif()
        self.call('vif_attach', {'id': vif})
        self.call('add_rescuing_network')
        self.node.provision_state = states.RESCUING
        self.node.save()
        self.set_server('active', 1)
        self.call('remove_rescuing_network')
        self.call('configure_tenant_networks')
        self.assertEqual(['tenant'], self.networks())

    def test_address_of_a_card_with_a_vif_is_not_changed(self):
        self.call('vif_attach', {'id': self.make_vif()})
        with self.acquire() as task:
            port = task.ports[0]
            port.address = '20:57:f8:00:00:09'
            self.assertRaises(exception.Conflict,
                              task.driver.network.port_changed, task, port)


class ReattachTestCase(NetworkTestCase):
    """A step that Ironic's own network interface has since 35.0."""

    def setUp(self):
        super().setUp()
        self.node.provision_state = states.ACTIVE
        self.node.save()
        self.set_server('active', 1)
        self.vif = self.make_vif(MAC)
        self.call('vif_attach', {'id': self.vif})

    def changes(self):
        """What was asked of Nova about cards, but for reading them."""
        return [request.split()[0] for request in self.host_cloud.requests
                if 'os-interface' in request
                and not request.startswith('GET')]

    def test_card_is_taken_away_and_attached_again(self):
        self.host_cloud.forget_requests()
        self.call('reattach_networking')
        self.assertEqual(['DELETE', 'POST'], self.changes())
        self.assertEqual(['tenant'], self.networks())
        self.assertEqual([{'id': self.vif}], self.call('vif_list'))

    def test_card_that_somebody_took_away_comes_back(self):
        self.host_cloud.ports.clear()
        self.call('reattach_networking')
        self.assertEqual(['tenant'], self.networks())

    def test_card_that_nova_does_not_attach_again(self):
        self.host_cloud.fail('POST', '/os-interface', (500, 'No host'))
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'reattach_networking')
        self.assert_says(error, self.node.uuid, 'No host')
        self.call('reattach_networking')
        self.assertEqual(['tenant'], self.networks())

    def test_nova_in_a_rescue_takes_nothing_away(self):
        self.set_server('rescued', 1)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'reattach_networking')
        self.assert_says(error, self.node.uuid, 'vm_state rescued')
        self.assertEqual(['tenant'], self.networks())

    def test_node_without_a_vif(self):
        self.call('vif_detach', self.vif)
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'reattach_networking')
        self.assert_says(error, self.node.uuid, 'baremetal node vif attach')

    def test_ironic_offers_it(self):
        if 'network' not in steps.SERVICING_INTERFACE_PRIORITY:
            self.skipTest('Before Ironic 35.0')
        self.node.refresh()
        self.node.provision_state = states.SERVICING
        self.node.target_provision_state = states.ACTIVE
        self.node.save()
        self.host_cloud.forget_requests()
        with self.acquire() as task:
            servicing.do_node_service(
                task, [{'interface': 'network',
                        'step': 'reattach_networking'}],
                disable_ramdisk=True)
        self.node.refresh()
        self.assertEqual(states.ACTIVE, self.node.provision_state,
                         self.node.last_error)
        self.assertEqual(['DELETE', 'POST'], self.changes())


class NetworkDataTestCase(NetworkTestCase):

    def add_subnet(self, **values):
        subnet = {'id': uuidutils.generate_uuid(),
                  'network_id': self.provisioning['id'],
                  'cidr': '192.0.2.0/24', 'gateway_ip': '192.0.2.1',
                  'dns_nameservers': ['192.0.2.2'], 'host_routes': [
                      {'destination': '198.51.100.0/24',
                       'nexthop': '192.0.2.9'}], **values}
        self.host_cloud.subnets[subnet['id']] = subnet
        return subnet['id']

    def add_address(self, address, **values):
        port, = self.host_cloud.neutron_ports.values()
        port['fixed_ips'].append({'ip_address': address,
                                  'subnet_id': self.add_subnet(**values)})
        return port['id']

    def test_address_that_neutron_has_given_is_told_to_the_agent(self):
        self.call('add_provisioning_network')
        port = self.add_address('192.0.2.7')
        dns = {'type': 'dns', 'address': '192.0.2.2'}
        self.assertEqual({
            'links': [{'id': port, 'vif_id': port, 'type': 'phy',
                       'ethernet_mac_address': MAC, 'mtu': 1450}],
            'networks': [{
                'id': 'network0', 'link': port, 'type': 'ipv4',
                'network_id': self.provisioning['id'],
                'ip_address': '192.0.2.7', 'netmask': '255.255.255.0',
                'routes': [
                    {'network': '0.0.0.0', 'netmask': '0.0.0.0',
                     'gateway': '192.0.2.1'},
                    {'network': '198.51.100.0', 'netmask': '255.255.255.0',
                     'gateway': '192.0.2.9'}],
                'services': [dns]}],
            'services': [dns]}, self.call('get_node_network_data'))

    def test_address_of_version_6_without_a_gateway(self):
        self.call('add_cleaning_network')
        self.add_address('2001:db8::7', cidr='2001:db8::/64',
                         gateway_ip=None, dns_nameservers=[], host_routes=[])
        network, = self.call('get_node_network_data')['networks']
        self.assertEqual(('ipv6', '2001:db8::7', 'ffff:ffff:ffff:ffff::', []),
                         tuple(network[key] for key in (
                             'type', 'ip_address', 'netmask', 'routes')))

    def test_what_the_node_says_comes_first(self):
        self.call('add_provisioning_network')
        self.node.refresh()
        self.node.network_data = {'links': [{'id': 'eth0'}]}
        self.node.save()
        self.assertEqual({'links': [{'id': 'eth0'}]},
                         self.call('get_node_network_data'))

    def test_node_on_no_network_has_none(self):
        self.assertEqual({}, self.call('get_node_network_data'))
        self.assertEqual([], self.host_cloud.requests)

    def test_answer_that_makes_no_sense_is_told(self):
        self.call('add_provisioning_network')
        self.add_address('192.0.2.7', cidr='nonsense')
        error = self.assertRaises(exception.NetworkError, self.call,
                                  'get_node_network_data')
        self.assert_says(error, self.node.uuid, 'Neutron')


class ValidateTestCase(NetworkTestCase):

    def test_networks_that_are_there_are_fine(self):
        self.call('validate')
        self.call('validate_rescue')
        self.call('validate_inspection')

    def test_unset_network_is_told(self):
        self.config(group='quintupleo', provisioning_network=None)
        error = self.assertRaises(exception.MissingParameterValue, self.call,
                                  'validate')
        self.assert_says(error, self.node.uuid,
                         '[quintupleo]provisioning_network')

    def test_missing_network_is_told(self):
        self.config(group='quintupleo', rescuing_network='nowhere')
        error = self.assertRaises(exception.InvalidParameterValue, self.call,
                                  'validate_rescue')
        self.assert_says(error, self.node.uuid, "'nowhere'")
        self.assertNotIn('quintupleo_server', str(error))

    def test_name_of_two_networks_is_told(self):
        self.host_cloud.add_network('provision')
        error = self.assertRaises(exception.InvalidParameterValue, self.call,
                                  'validate')
        self.assert_says(error, "2 networks are named 'provision'")
