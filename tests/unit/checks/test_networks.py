# SPDX-License-Identifier: Apache-2.0
"""Checks of networks that Ironic cannot provision on."""

from tests.unit.checks import base


class NetworksTestCase(base.WholeCloudTestCase):

    def look(self, **attributes):
        self.network = self.host.add_network('provision', **attributes)
        self.host.add_subnet(self.network)
        return self.run_command('--network', 'provision')

    def test_good_network(self):
        self.assertEqual(0, self.look())
        self.assert_row('network provision: DHCP', 'pass')
        self.assert_row('network provision: port security', 'pass', 'off')

    def test_dhcp(self):
        self.look()
        self.host.add_subnet(self.network, '198.51.100.0/24', dhcp=True)
        self.run_command('--network', self.network['id'])
        self.assert_row(f'network {self.network["id"]}: DHCP', 'warn',
                        '198.51.100.0/24', '--no-dhcp')

    def test_port_security(self):
        self.look(port_security_enabled=True)
        self.assert_row('network provision: port security', 'warn', 'on',
                        f'--disable-port-security {self.network["id"]}')

    def test_port_security_that_is_not_reported(self):
        self.look(port_security_enabled=None)
        self.assert_row('network provision: port security', 'warn',
                        'does not report')

    def test_network_of_another_project(self):
        self.assertEqual(1, self.look(port_security_enabled=True,
                                      project_id='d' * 32))
        self.assert_row('network provision: port security', 'fail',
                        "another project's", "the project's own")

    def test_no_such_network(self):
        self.assertEqual(1, self.run_command('--network', 'none'))
        self.assert_row('network none', 'fail', "No network is named 'none'")
        self.assert_row('network none: DHCP', 'skipped',
                        'needs network none')


class PortsTestCase(base.WholeCloudTestCase):

    def test_no_proof_of_ports(self):
        self.host.neutron_ports.clear()
        self.host.add_neutron_port('fa:16:3e:00:00:01', security=True)
        self.check('port security', 'warn', 'nothing shows', '--try')
        self.assert_row('MAC addresses', 'warn', 'nothing shows', '--try')

    def test_ports_of_routers_prove_nothing(self):
        self.host.neutron_ports.clear()
        self.host.add_neutron_port(device_owner='network:dhcp')
        self.check('port security', 'warn', 'nothing shows', '--try')

    def test_port_that_is_none(self):
        self.host.fail('GET', '/ports', {'ports': [{}]}, times=2)
        self.check('MAC addresses', 'fail', 'a form that Neutron does not')

    def test_neutron_without_port_security(self):
        self.host.extensions.remove('port-security')
        self.check('port security', 'warn', 'no extension', 'operator')
