# SPDX-License-Identifier: Apache-2.0
"""Checks of servers that Ironic cannot use."""

from tests.unit.checks import base


class ServersTestCase(base.WholeCloudTestCase):

    def setUp(self):
        super().setUp()
        self.port = self.host.add_neutron_port(
            '52:54:00:00:00:02', device_id=self.server.id)

    def look(self, name, result, says='', advises=''):
        code = self.run_command('--server', 'machine-0')
        title = 'server machine-0' + (f': {name}' if name else '')
        self.assert_row(title, result, says, advises)
        self.assertEqual(int('fail' in self.results().values()), code)

    def test_good_server(self):
        self.look('', 'pass', 'ACTIVE')
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assert_row('server machine-0: network boot', 'pass',
                        f'by bios, with image {self.image("rescue")["id"]}')
        self.assert_row('server machine-0: console', 'pass', 'novnc')
        self.assert_changed_nothing()

    def test_no_such_server(self):
        self.assertEqual(1, self.run_command('--server', 'none'))
        self.assert_row('server none', 'fail', "named 'none'", 'check the')
        self.assert_row('server none: flavor', 'skipped',
                        'needs server none')

    def test_states(self):
        self.server.vm_state = 'shelved'
        self.look('', 'fail', 'it is shelved', 'openstack server unshelve')
        self.server.vm_state, self.server.fault = 'error', 'No valid host'
        self.look('', 'fail', 'No valid host', 'reboot --hard')

    def test_lock(self):
        self.server.locked, self.server.locked_reason = True, 'mine'
        self.look('', 'warn', 'locked: mine', 'unlock')

    def test_rescue_that_nova_refuses(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.look('network boot', 'fail', 'virtual TPM', 'without')

    def test_rescue_image_that_is_missing(self):
        del self.host.images[self.image('rescue')['id']]
        self.look('network boot', 'fail', 'No image is named', 'check the')

    def test_boot_mode_that_nothing_shows(self):
        self.host.microversion = '2.87'
        self.server.image = None
        self.look('network boot', 'warn', 'boot mode', 'capability')
        self.assert_row('server machine-0: clean shutdown', 'warn',
                        'unless the image of its volume')

    def test_network_first_server(self):
        image = self.host.add_image('nf', quintupleo_boot='network-first')
        self.server.image = image['id']
        self.server.volumes = (self.host.add_volume(),)
        self.look('network boot', 'pass', 'network-first')

    def test_flavor(self):
        self.server.disk = 0
        self.look('flavor', 'fail', '0 GiB', 'resize')
        self.server.disk, self.server.ram = 20, 512
        self.look('flavor', 'warn', '512 MiB', 'larger flavor')

    def test_clean_shutdown(self):
        del self.image('empty')['os_shutdown_timeout']
        self.look('clean shutdown', 'warn', '60 s', 'os_shutdown_timeout=0')

    def test_mac_that_the_agent_passes_over(self):
        self.port['mac_address'] = 'FA:16:3E:00:00:02'
        self.look('MAC addresses', 'fail', 'fa:16:3e:00:00:02',
                  '--mac-address')
        self.host.add_neutron_port('52:54:00:00:00:03',
                                   device_id=self.server.id)
        self.look('MAC addresses', 'warn', 'fa:16:3e:00:00:02')

    def test_port_security(self):
        self.port['port_security_enabled'] = True
        self.look('port security', 'fail', '52:54:00:00:00:02',
                  f'--disable-port-security {self.port["id"]}')
        other = self.host.add_neutron_port('52:54:00:00:00:03',
                                           device_id=self.server.id)
        self.look('port security', 'warn', '52:54:00:00:00:02')
        self.port['port_security_enabled'] = False
        other['port_security_enabled'] = None
        self.look('port security', 'warn', 'does not report')

    def test_server_without_ports(self):
        self.port['device_id'] = ''
        self.look('MAC addresses', 'fail', 'no network card')
        self.assert_row('server machine-0: port security', 'skipped')

    def test_consoles(self):
        self.host.consoles = {'serial': 'ws://serial.example.test/'}
        self.look('console', 'warn', 'serial, and no novnc',
                  'quintupleo_console_type')
        self.host.consoles = {}
        self.look('console', 'warn', 'offers none', 'no-console')
        self.server.vm_state, self.server.power_state = 'stopped', 4
        self.look('console', 'warn', 'as things stand', 'power the server on')

    def test_console_of_a_server_that_has_just_stopped(self):
        self.host.fail('POST', '/remote-consoles', (404, 'not running'))
        self.look('console', 'warn', 'as things stand')
