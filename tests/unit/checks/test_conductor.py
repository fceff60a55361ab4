# SPDX-License-Identifier: Apache-2.0
"""The configuration of a conductor, and the cloud that it names."""

import os
from unittest import mock

from keystoneauth1 import loading
from oslo_config import cfg

from quintupleo_power.checks import conductor
from tests.unit.checks import base
from tests.unit import host_cloud_fixture

CONF = f'''
[DEFAULT]
enabled_hardware_types = ipmi,quintupleo
enabled_power_interfaces = ipmitool,quintupleo
enabled_management_interfaces = quintupleo
[quintupleo]
auth_type = password
auth_url = {host_cloud_fixture.AUTH_URL}
username = operator
password = {host_cloud_fixture.SECRET}
project_name = machines
user_domain_name = Default
project_domain_name = Default
'''


class ConductorTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()
        self.conf = CONF
        self.addCleanup(self.forget)

    @staticmethod
    def forget():
        """Forget what was read, and options that were registered for it."""
        cfg.CONF.reset()
        # Some of them are required.
        cfg.CONF.unregister_opts(
            loading.get_auth_plugin_conf_options('password'),
            group='quintupleo')

    def configure(self, section, *lines):
        """Add lines to a section of the file."""
        self.conf = self.conf.replace(
            f'[{section}]', '\n'.join([f'[{section}]', *lines])) if (
            f'[{section}]' in self.conf) else (
            '\n'.join([self.conf, f'[{section}]', *lines]))

    def look(self, name, result, says='', advises=''):
        code = self.run_command('--config-file',
                                self.write('ironic.conf', self.conf))
        self.assert_row(name, result, says, advises)
        self.assertEqual(int('fail' in self.results().values()), code)

    def test_good_configuration(self):
        self.look('conductor: hardware type', 'pass', 'is enabled')
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assertNotIn(host_cloud_fixture.SECRET, self.out)
        self.assert_changed_nothing()

    def test_hardware_type_that_is_not_enabled(self):
        self.conf = self.conf.replace('ipmi,quintupleo', 'ipmi')
        self.look('conductor: hardware type', 'fail',
                  'enabled_hardware_types is ipmi', 'add quintupleo to')
        self.conf = self.conf.replace('enabled_hardware_types = ipmi', '')
        self.look('conductor: hardware type', 'fail', 'not set', 'add')

    def test_interfaces_that_are_not_enabled(self):
        self.configure('DEFAULT', 'enabled_console_interfaces = no-console')
        self.look('conductor: interfaces', 'warn',
                  'nodes do without consoles',
                  'enabled_console_interfaces')
        self.conf = self.conf.replace('ipmitool,quintupleo', 'ipmitool')
        self.look('conductor: interfaces', 'fail', 'power',
                  'enabled_power_interfaces')

    def test_interfaces_that_ironic_chooses(self):
        self.conf = self.conf.replace(
            'enabled_power_interfaces = ipmitool,quintupleo', '')
        self.look('conductor: interfaces', 'pass')

    def test_times(self):
        for section, line, says, advises in (
                ('quintupleo', 'action_timeout = 60', 'clean shutdown',
                 '[quintupleo]action_timeout'),
                ('conductor', 'power_state_change_timeout = 20', '15 s late',
                 'power_state_change_timeout')):
            with self.subTest(line):
                self.conf = CONF
                self.configure(section, line)
                self.look('conductor: times', 'warn', says, advises)

    def test_power_sync_that_is_off(self):
        self.configure('conductor', 'sync_power_state_interval = 0')
        self.look('conductor: times', 'pass')

    def test_images_of_its_own(self):
        self.configure('quintupleo', 'rescue_image_bios = mine')
        self.look('rescue image bios', 'warn', "No image is named 'mine'",
                  'image create')

    def test_wrong_password(self):
        self.conf = self.conf.replace(
            f'password = {host_cloud_fixture.SECRET}', 'password = wrong')
        self.look('credentials', 'fail', 'does not accept', 'correct')
        self.assert_row('conductor: hardware type', 'pass')

    def test_no_host_cloud(self):
        self.conf = self.conf.partition('[quintupleo]')[0]
        self.look('credentials', 'fail', 'No host cloud is named',
                  'section [quintupleo]')
        self.assert_row('compute API', 'skipped', 'needs credentials')

    def test_file_that_cannot_be_used(self):
        for text, says in (('nonsense', 'ironic.conf'),
                           ('[quintupleo]\naction_timeout = soon',
                            'action_timeout')):
            self.assertEqual(1, self.run_command(
                '--config-file', self.write('ironic.conf', text)))
            self.assertIn(says, self.err)
        self.assertEqual(1, self.run_command('--config-file', '/nonexistent'))
        self.assertIn('/nonexistent', self.err)

    def test_two_files(self):
        other = self.write('more.conf', '[DEFAULT]\n'
                           'enabled_hardware_types = fake-hardware\n')
        self.run_command('--config-file', self.write('a.conf', self.conf),
                         '--config-file', other)
        self.assert_row('conductor: hardware type', 'fail', 'fake-hardware',
                        'add')

    def test_configuration_of_the_machine(self):
        path = self.write('ironic.conf', self.conf)
        with mock.patch.object(conductor, 'usual_files', autospec=True,
                               return_value=[path]):
            # A cloud that is named is the one that is meant.
            self.run_command()
            self.assertNotIn('conductor: times', self.rows)
            self.options.cloud = ''
            self.assertEqual(0, self.run_command())
            self.assertIn('conductor: times', self.rows)

    def test_configuration_is_looked_for_where_a_conductor_looks(self):
        with mock.patch.dict(os.environ, {'HOME': self.folder}):
            os.mkdir(os.path.join(self.folder, '.ironic'))
            path = self.write(os.path.join('.ironic', 'ironic.conf'), '')
            self.assertIn(path, conductor.usual_files())
