# SPDX-License-Identifier: Apache-2.0
"""The options of [quintupleo], and their sample."""

import os
import pathlib
import tempfile
import unittest

from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import generator
import pytest

from quintupleo_power import conf as quintupleo_conf

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / 'etc' / 'ironic' / 'quintupleo.conf.sample'
GENERATOR = REPOSITORY / 'tools' / 'quintupleo-config-generator.conf'


class SampleTestCase(unittest.TestCase):

    @pytest.mark.newest
    def test_sample_is_what_the_generator_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'sample')
            generator.main(['--config-file', str(GENERATOR),
                            '--output-file', path])
            with open(path) as written:
                self.assertEqual(SAMPLE.read_text(), written.read(),
                                 'run tox -e genconfig')

    def test_sample_has_every_option_of_ours(self):
        sample = SAMPLE.read_text()
        for opt in quintupleo_conf.opts:
            self.assertIn(f'\n#{opt.name} =', sample)

    def test_sample_has_no_value_for_a_secret(self):
        for line in SAMPLE.read_text().splitlines():
            if 'secret' in line or line.startswith('#password'):
                self.assertNotIn('=', line.removesuffix(' = <None>'))


class OptionsTestCase(unittest.TestCase):

    def setUp(self):
        self.conf = cfg.ConfigOpts()
        quintupleo_conf.register_opts(self.conf)

    def parse(self, text):
        with tempfile.NamedTemporaryFile('w') as source:
            source.write(f'[quintupleo]\n{text}\n')
            source.flush()
            self.conf([], default_config_files=[source.name])
            return self.conf.quintupleo

    def test_defaults(self):
        group = self.parse('')
        self.assertEqual(
            (None, 'quintupleo-rescue-bios', 'quintupleo-rescue-uefi',
             'quintupleo-empty-bios', 'quintupleo-empty-uefi', 30.0,
             300, 1800, 2.0, []),
            (group.cloud, group.rescue_image_bios, group.rescue_image_uefi,
             group.empty_image_bios, group.empty_image_uefi,
             group.server_list_max_age, group.action_timeout,
             group.image_timeout, group.poll_interval,
             group.allowed_auth_urls))

    def test_requests_time_out_by_default(self):
        self.assertEqual(60, self.parse('').timeout)
        self.conf.reset()
        self.assertEqual(60, self.parse('').timeout)

    def test_no_option_is_there_that_nothing_reads(self):
        for name in ('service_type', 'service_name', 'version', 'min_version',
                     'max_version', 'connect_retries', 'connect_retry_delay',
                     'status_code_retries', 'status_code_retry_delay',
                     'retriable_status_codes'):
            self.assertNotIn(name, self.conf.quintupleo)
            self.assertNotIn(f'#{name} =', SAMPLE.read_text())

    def test_session_auth_and_adapter_options_are_keystoneauths(self):
        group = self.parse('auth_type = password\ncafile = /ca.pem\n'
                           'region_name = east\nvalid_interfaces = internal')
        self.assertEqual(
            ('password', '/ca.pem', 'east', ['internal']),
            (group.auth_type, group.cafile, group.region_name,
             group.valid_interfaces))

    def test_values_that_make_no_sense_are_refused(self):
        for line in ('action_timeout = 0', 'image_timeout = 0',
                     'poll_interval = 0',
                     'server_list_max_age = -1', 'action_timeout = soon'):
            with self.subTest(line=line):
                group = self.parse(line)
                with self.assertRaises(ValueError):
                    group[line.split()[0]]

    def test_every_option_is_listed_once(self):
        (group, listed), = quintupleo_conf.list_opts()
        self.assertEqual('quintupleo', group)
        names = [opt.dest for opt in listed]
        self.assertEqual(len(names), len(set(names)))
        wanted = {opt.dest for opt in quintupleo_conf.opts}
        for plugin in ('password', 'v3applicationcredential'):
            wanted |= {opt.dest for opt in
                       loading.get_auth_plugin_conf_options(plugin)}
        self.assertLessEqual(wanted, set(names))

    def test_secrets_are_declared_secret(self):
        (_group, listed), = quintupleo_conf.list_opts()
        secret = {opt.dest for opt in listed if opt.secret}
        self.assertLessEqual({'password', 'application_credential_secret'},
                             secret)
