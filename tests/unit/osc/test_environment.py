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
        self.assertEqual('env: deleted\n', self.out)
        self.fail_with('DeleteEnvironment', 'env',
                       says='env: it does not exist\n1 of 1 failed to delete')
        self.succeed('DeleteEnvironment', 'env', '--ignore-missing')
        self.assertEqual('env: does not exist\n', self.out)

    def test_dry_run(self):
        self.succeed('CreateEnvironment', self.path, '--name', 'env',
                     '--dry-run', '-f', 'json')
        found = json.loads(self.out)
        self.assertIn({'what': 'servers', 'names': [
            'env-control-0', 'env-compute-0', 'env-compute-1']},
            found['to_make'])
        self.assertIn({'what': 'servers', 'needed': 3, 'used': 0,
                       'limit': -1}, found['quota'])
        self.succeed('CreateEnvironment', self.path, '--name', 'env',
                     '--dry-run', '-f', 'table')
        self.assertIn('servers: 3 needed, 0 in use, limit -1', self.out)
        self.assertIn('servers: env-control-0, env-compute-0', self.out)
        self.assertEqual([], self.added())

    def test_names(self):
        self.fail_with('CreateEnvironment', self.path,
                       says='has no "name": add one, or give --name')
        self.fail_with('CreateEnvironment', self.path, '--name', 'a/b',
                       says="'a/b' is not a name: use up to 40 letters")

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
            self.fail_with(*words, says=f"'{words[-1]}' is not an")

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

    def sweep(self, *options, answer=None):
        """Sweep what is older than six hours; return what is left."""
        with mock.patch('builtins.input', autospec=True,
                        side_effect=answer or EOFError) as asked:
            self.code = self.run_command(
                'DeleteEnvironment', '--older-than', '6h', *options)
        self.asked = asked.called
        out = self.out
        self.succeed('ListEnvironments', '-f', 'json')
        found = [each['Name'] for each in json.loads(self.out)]
        self.out = out
        return found

    def test_delete_what_is_old(self):
        # The fake cloud's clock stands in January 2026.
        names = ['ci-1', 'ci-2', 'mine']
        for name in names:
            self.create('roles: {}', name)
        self.succeed('DeleteEnvironment', '--older-than', '10000d')
        self.assertEqual('To be deleted: nothing\n', self.out)
        self.assertEqual(names, self.sweep('--prefix', 'ci-', '--dry-run'))
        self.assertEqual('To be deleted: ci-1, ci-2\n', self.out)
        self.assertEqual((0, False), (self.code, self.asked))
        self.assertEqual(names, self.sweep(answer=['no']))
        self.assertEqual((0, True), (self.code, self.asked))
        self.assertEqual(names, self.sweep())
        self.assertEqual((1, True), (self.code, self.asked))
        self.assertEqual(['ci-2', 'mine'],
                         self.sweep('--prefix', 'ci-1', answer=['Y']))
        self.assertEqual(['mine'], self.sweep('--prefix', 'ci-', '--yes'))
        self.assertEqual('To be deleted: ci-2\nci-2: deleted\n', self.out)
        self.assertEqual(['mine'], self.sweep('other'))
        self.assertEqual((0, False), (self.code, self.asked))
        self.assertEqual([], self.sweep('mine'))
        self.assertFalse(self.asked)

    def test_delete_what(self):
        self.fail_with('DeleteEnvironment', says='Which environment?')
        for words in (['--prefix', 'ci-', 'mine'],
                      ['--prefix', 'ci-', '--older-than', '6h', 'mine']):
            self.fail_with('DeleteEnvironment', *words,
                           says='--prefix is for --older-than without names')

    def test_dry_run_of_a_deletion(self):
        self.create('roles: {}')
        self.succeed('DeleteEnvironment', 'env', '--dry-run')
        self.assertEqual('To be deleted: env\n', self.out)
        self.assertEqual(1, len(self.cloud.all('record')))

    def test_list_long(self):
        self.create()
        self.succeed('ListEnvironments', '--long', '-f', 'json')
        found, = json.loads(self.out)
        self.assertEqual(
            ([{'name': 'control', 'kind': 'server', 'count': 1},
              {'name': 'compute', 'kind': 'baremetal', 'count': 2}], 3, ''),
            tuple(found[key] for key in ('Roles', 'Servers', 'Ironic URL')))

    def test_one_that_stays_keeps_no_other(self):
        for name in ('one', 'two'):
            self.create('roles: {a: {flavor: small}}', name)
        server = self.server('one-a-0')
        self.cloud.refused = {server.id: exceptions.ForbiddenException(
            'no', http_status=403)}
        self.fail_with('DeleteEnvironment', 'one', 'two',
                       says='one: Not removed: server')
        self.assertIn('1 of 2 failed to delete', self.err)
        self.assertEqual('two: deleted\n', self.out)

    def show_long(self):
        self.succeed('ShowEnvironment', 'env', '--long', '-f', 'json')
        return json.loads(self.out)['nodes']

    def test_show_what_an_ironic_knows(self):
        self.create()
        self.assertEqual([], self.show_long())
        self.succeed('EnrollEnvironment', 'env')
        # Of another server, which is nobody's here.
        self.ironic.create_node(name='other', driver_info={
            'quintupleo_server': 'b61f8cc2-9d5e-4df3-9d5b-cd8f2d9a0f39'})
        for node in self.ironic.known:
            node.provision_state, node.power_state = 'active', 'power on'
        self.ironic.validate_node = mock.Mock(return_value={
            'power': mock.Mock(reason='Server x was rebuilt')})
        self.ironic.get_node_boot_device = mock.Mock(
            side_effect=[{'boot_device': 'disk', 'persistent': True},
                         exceptions.HttpException('No host cloud')])
        shown = self.show_long()
        self.assertEqual(['env-compute-0', 'env-compute-1'],
                         [each['name'] for each in shown])
        self.assertCountEqual(['disk', None],
                              [each['boot_device'] for each in shown])
        self.assertEqual(
            {'active', 'power on', None, 'Server x was rebuilt'},
            {each[name] for each in shown for name in (
                'provision_state', 'power_state', 'health', 'problem')})
        self.succeed('ShowEnvironment', 'env')
        self.assertNotIn('rebuilt', self.out)

    def test_show_what_no_ironic_knows(self):
        self.create()
        self.cloud.baremetal = mock.Mock()
        self.cloud.baremetal.get_endpoint.return_value = None
        self.fail_with('ShowEnvironment', 'env', '--long',
                       says='has no Ironic of its own')

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
        for options in ((), ('-f', 'json')):
            self.succeed('EnrollEnvironment', 'env', '-o', '-', *options)
            self.assertEqual(2, len(json.loads(self.out)['nodes']))

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
