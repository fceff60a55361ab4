# SPDX-License-Identifier: Apache-2.0
"""The commands of environments: arguments, tables, exit codes."""

import json
import os
from unittest import mock

from openstack import exceptions

from tests.unit.osc import base


class CommandsTestCase(base.CommandTestCase):

    def test_life(self):
        self.succeed('CreateEnvironment', self.path, '--name', 'env',
                     '--wait', '-f', 'json')
        made = json.loads(self.out)
        self.assertEqual('COMPLETE', made['status'])
        self.assertEqual(
            ['env-compute-0', 'env-compute-1', 'env-control-0'],
            [each['name'] for each in made['servers']])
        self.assertEqual({'env-control-0-0': '203.0.113.9',
                          'env-api': '203.0.113.9'}, {
            name.replace('port-', '').replace('vip-', ''): address
            for name, address in made['floating_ips'].items()})
        self.assertIn('servers ready', self.err)
        self.succeed('ListEnvironments', '-f', 'json')
        self.assertEqual(
            [('env', 'COMPLETE', 3)],
            [(each['Name'], each['Status'], each['Servers'])
             for each in json.loads(self.out)])
        self.succeed('ShowEnvironment', 'env')
        self.assertIn('env-undercloud', self.out)
        self.succeed('ScaleEnvironment', 'env', 'compute', 1, '--wait',
                     '-f', 'json')
        self.assertEqual(2, len(json.loads(self.out)['servers']))
        self.succeed('EnrollEnvironment', 'env', '-f', 'json')
        self.assertEqual(['enrolled'], [each['Outcome'] for each
                                        in json.loads(self.out)])
        self.succeed('DeleteEnvironment', 'env')
        self.assertEqual('env: removed\n', self.out)
        self.succeed('DeleteEnvironment', 'env')
        self.assertEqual('env: does not exist\n', self.out)

    def test_dry_run(self):
        self.succeed('CreateEnvironment', self.path, '--name', 'env',
                     '--dry-run', '-f', 'json')
        found = json.loads(self.out)
        self.assertIn({'what': 'servers', 'names': [
            'env-control-0', 'env-compute-0', 'env-compute-1']},
            found['to_make'])
        self.assertIn({'what': 'servers', 'needed': 3, 'used': 0,
                       'limit': 'none'}, found['quota'])
        self.succeed('CreateEnvironment', self.path, '--name', 'env',
                     '--dry-run', '-f', 'table')
        self.assertIn('servers: 3 needed, 0 in use, limit none', self.out)
        self.assertIn('servers: env-control-0, env-compute-0', self.out)
        self.assertEqual([], self.added())

    def test_names(self):
        self.fail_with('CreateEnvironment', self.path,
                       says='has no "name": add one, or give --name')
        self.fail_with('CreateEnvironment', self.path, '--name', 'a/b',
                       says="invalid value 'a/b': use up to 40 letters")

    def test_file_with_a_mistake(self):
        self.fail_with('CreateEnvironment', self.write(
            'wrong.yaml', 'rols: {}'), says='line 1')

    def test_servers_are_in_the_order_of_their_numbers(self):
        self.succeed('CreateEnvironment', self.write('many.yaml', (
            'roles: {b: {count: 11, flavor: small}, a1: {flavor: small}}')),
            '--name', 'env', '-f', 'json')
        self.assertEqual(
            ['env-a1-0', *(f'env-b-{number}' for number in range(11))],
            [each['name'] for each in json.loads(self.out)['servers']])

    def test_numbers(self):
        for words in (['CreateEnvironment', self.path, '--concurrency', '0'],
                      ['CreateEnvironment', self.path, '--timeout', 'x'],
                      ['ScaleEnvironment', 'env', 'compute', '-1'],
                      ['DeleteEnvironment', '--older-than', '6']):
            self.fail_with(*words, says='invalid')

    def test_interrupt(self):
        with mock.patch.object(self.cloud.network, 'create_network',
                               autospec=True, side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_command(
                'CreateEnvironment', self.path, '--name', 'env'))
        self.assertIn('the same command goes on', self.err)

    def test_cloud_that_refuses(self):
        with mock.patch.object(
                self.cloud.network, 'networks', autospec=True,
                side_effect=exceptions.ForbiddenException(
                    'no', http_status=403)):
            self.fail_with('ListEnvironments', says='The host cloud: no')

    def test_delete_what_is_old(self):
        # The fake cloud's clock stands in January 2026.
        for name in ('ci-1', 'ci-2', 'mine'):
            self.create('roles: {}', name)
        self.succeed('DeleteEnvironment', '--older-than', '10000d')
        self.assertEqual('Nothing is to be removed.\n', self.out)
        self.succeed('DeleteEnvironment', '--older-than', '6h', '--prefix',
                     'ci-')
        self.assertEqual('ci-1: removed\nci-2: removed\n', self.out)
        self.succeed('DeleteEnvironment', '--older-than', '6h', 'other')
        self.assertEqual('Nothing is to be removed.\n', self.out)
        self.fail_with('DeleteEnvironment', says='Which environment?')

    def test_one_that_stays_keeps_no_other(self):
        for name in ('one', 'two'):
            self.create('roles: {a: {flavor: small}}', name)
        server = self.server('one-a-0')
        self.cloud.refused = {server.id: exceptions.ForbiddenException(
            'no', http_status=403)}
        self.fail_with('DeleteEnvironment', 'one', 'two',
                       says='Environment "one":\nNot removed: server')
        self.assertEqual('two: removed\n', self.out)

    def test_enroll_into_a_file(self):
        self.create()
        target = os.path.join(self.folder, 'nodes.json')
        self.succeed('EnrollEnvironment', 'env', '-o', target,
                     '--host-cloud', 'public')
        with open(target) as source:
            nodes = json.load(source)['nodes']
        self.assertEqual(['public', 'public'], [
            node['driver_info']['quintupleo_cloud'] for node in nodes])
        self.fail_with('EnrollEnvironment', 'env', '-o', self.folder,
                       says='cannot be written')

    def test_enroll_in_another_ironic(self):
        self.create()
        with mock.patch('openstack.connect', autospec=True) as connect:
            connect.return_value.baremetal = self.ironic
            self.succeed('EnrollEnvironment', 'env',
                         '--os-baremetal-endpoint', 'http://192.0.2.1:6385')
            self.assertEqual('http://192.0.2.1:6385',
                             connect.call_args.kwargs['endpoint'])
            self.succeed('EnrollEnvironment', 'env', '--os-baremetal-cloud',
                         'undercloud')
            connect.assert_called_with(cloud='undercloud')
            connect.side_effect = exceptions.ConfigException('no such cloud')
            self.fail_with('EnrollEnvironment', 'env',
                           '--os-baremetal-cloud', 'x',
                           says='--os-baremetal-cloud: no such cloud')

    def test_enroll_without_an_ironic(self):
        self.create()
        for way in ({'return_value': None},
                    {'side_effect': exceptions.ServiceDisabledException}):
            with mock.patch.object(self.ironic, 'get_endpoint',
                                   autospec=True, **way):
                self.fail_with('EnrollEnvironment', 'env',
                               says='has no Ironic of its own')
