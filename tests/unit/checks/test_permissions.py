# SPDX-License-Identifier: Apache-2.0
"""Checks of rights of which a project has no proof."""

from tests.unit.checks import base


class PermissionsTestCase(base.WholeCloudTestCase):

    def test_no_proof_of_a_rescue(self):
        self.host.events.clear()
        self.check('rescue', 'warn', 'nothing shows', '--try')
        self.server.vm_state = 'rescued'
        self.check('rescue', 'pass')

    def test_rescue_that_failed_proves_nothing(self):
        for event in self.host.events.values():
            event['message'] = 'Error'
        self.check('rescue', 'warn', 'nothing shows', '--try')

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
