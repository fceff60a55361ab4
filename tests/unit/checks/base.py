# SPDX-License-Identifier: Apache-2.0
"""What the tests of checks have in common: a cloud, and the command."""

import argparse
import io
import json
import os
import tempfile
import unittest
from unittest import mock

from openstack import config as sdk_config
from openstackclient import shell
from osc_lib import exceptions
from oslo_config import cfg
import yaml

from quintupleo_power.osc import check
from tests.unit import host_cloud_fixture

LIMITS = {'maxTotalInstances': 10, 'totalInstancesUsed': 2,
          'maxTotalCores': 20, 'totalCoresUsed': 2,
          'maxTotalRAMSize': -1, 'totalRAMUsed': 1024}


class CommandTestCase(unittest.TestCase):
    """Runs "openstack quintupleo check" against the stand-in for a cloud.

    :ivar rows: the rows that it has printed, by the name of the check.
    """

    def setUp(self):
        super().setUp()
        self.host = self.make_host_cloud()
        self.host.setUp()
        self.addCleanup(self.host.cleanUp)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # What the command reads of a conductor is read into this.
        self.addCleanup(cfg.CONF.reset)
        self.options = argparse.Namespace(cloud='mine')
        self.region = 'RegionOne'
        self.auth = {
            'auth_url': host_cloud_fixture.AUTH_URL, 'username': 'operator',
            'password': host_cloud_fixture.SECRET, 'project_name': 'machines',
            'user_domain_name': 'Default', 'project_domain_name': 'Default'}

    def make_host_cloud(self):
        """Make the host cloud; for classes that want it otherwise."""
        return host_cloud_fixture.FakeHostCloud()

    def add_all(self):
        """Give the cloud all that a check asks for."""
        uefi = {'hw_firmware_type': 'uefi'}
        for mode, properties in (('bios', {}), ('uefi', uefi)):
            self.host.add_rescue_image(f'quintupleo-rescue-{mode}',
                                       **properties)
            self.host.add_empty_image(f'quintupleo-empty-{mode}',
                                      os_shutdown_timeout='0', **properties)
        self.host.limits = dict(LIMITS)
        self.host.image_usage = {
            'image_count_total': {'limit': 100, 'usage': 4}}
        self.host.add_flavor()
        self.host.add_neutron_port()
        self.server = self.host.add_server(image=self.image('empty')['id'])
        self.host.change_behind(self.server, 'rescue')

    def image(self, purpose, mode='bios'):
        """Find an image by its usual name."""
        return next(image for image in self.host.images.values()
                    if image['name'] == f'quintupleo-{purpose}-{mode}')

    def write(self, name, text):
        """Write a file; return its path."""
        path = os.path.join(self.folder, name)
        with open(path, 'w') as target:
            target.write(text)
        return path

    def client(self):
        """The client that the command is one of."""
        client = shell.OpenStackShell()
        client.options = self.options
        path = self.write('clouds.yaml', yaml.safe_dump({'clouds': {'mine': {
            'auth': self.auth, 'region_name': self.region}}}))
        client.cloud_config = sdk_config.OpenStackConfig(
            config_files=[path], load_envvars=False)
        return client

    def run_command(self, *words):
        """Run the command; return its exit code."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch('sys.stderr', err), mock.patch('sys.stdout', out):
            client = self.client()
            client.stdout, client.stderr = out, err
            command = check.Check(client, mock.Mock())
            parser = command.get_parser('openstack')
            try:
                code = command.run(parser.parse_args(
                    ['-f', 'json', *map(str, words)]))
            except exceptions.CommandError as exc:
                code = 1
                print(exc, file=err)
            except KeyboardInterrupt:
                code = 130
        self.out, self.err = out.getvalue(), err.getvalue()
        self.rows = {row['Check']: row for row in json.loads(
            self.out or '[]')}
        return code

    def results(self, *names):
        """The results of checks, of all without names."""
        return {name: self.rows[name]['Result']
                for name in names or self.rows}

    def check(self, name, result, says='', advises=''):
        """Run the command, and look at one row."""
        code = self.run_command()
        self.assert_row(name, result, says, advises)
        self.assertEqual(int('fail' in self.results().values()), code)

    def assert_row(self, name, result, says='', advises=''):
        """Look at one row."""
        row = self.rows[name]
        self.assertEqual(result, row['Result'], row)
        self.assertIn(says, row['Found'])
        self.assertIn(advises, row['What To Do'])
        # Whatever is wrong comes with what to do.
        self.assertEqual(result in ('warn', 'fail'),
                         bool(row['What To Do']), row)

    def assert_changed_nothing(self):
        """Look at what was asked: sign-ins change nothing."""
        self.assertEqual([], [
            request for request in self.host.requests
            if not request.startswith('GET ')
            and not request.endswith(('/auth/tokens', '/remote-consoles'))])


class WholeCloudTestCase(CommandTestCase):
    """Has all in the cloud that a check asks for."""

    def setUp(self):
        super().setUp()
        self.add_all()
