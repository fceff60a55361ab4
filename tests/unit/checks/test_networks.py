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
        self.assert_row('network none', 'fail', "no network 'none'")
        self.assert_row('network none: DHCP', 'skipped',
                        'needs network none')
