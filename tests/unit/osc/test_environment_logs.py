# SPDX-License-Identifier: Apache-2.0
"""The command that shows serial consoles."""

import json
import os
import types
from unittest import mock

from quintupleo_power.environments import retry
from tests.unit.osc import base

FILE = '''
roles:
  control: {kind: server, image: debian, flavor: small}
  compute: {flavor: small, count: 2}
'''
# More than logs._OVERLAP has of it.
BOOT = ''.join(f'[{number:6}] line {number}\n' for number in range(500))


class LogsTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.create(FILE)
        self.servers = {server.name: server
                        for server in self.cloud.all('server')}

    def print(self, name, text):
        """Have a server write to its console."""
        server = self.servers[name]
        server.console = (server.console or '') + text

    def lines(self):
        return [tuple(part.strip() for part in line.split('|', 1))
                for line in self.out.splitlines()]

    def follow(self, *happenings):
        """Run --follow; one thing happens before each further reading."""
        def interrupt():
            raise KeyboardInterrupt

        waiting = iter([*happenings, interrupt])

        def sleep(retrier, seconds):
            if seconds > 0:
                next(waiting)()

        with mock.patch.object(retry.Retrier, 'sleep', sleep):
            self.fail_with('EnvironmentLogs', 'env', '--follow',
                           says='Interrupted.')

    def test_each_line_has_its_server(self):
        self.print('env-control-0', 'up\nlogin: ')
        self.print('env-compute-1', 'No bootable device\n')
        self.succeed('EnvironmentLogs', 'env')
        # In the order in which the servers were made.
        self.assertEqual(['env-compute-1 | No bootable device',
                          'env-control-0 | up', 'env-control-0 | login: '],
                         sorted(self.out.splitlines(), key=lambda line:
                                line.partition(' ')[0]))

    def test_nothing_reaches_the_terminal_but_text(self):
        self.print('env-control-0',
                   '\x1b[0;32mOK\x1b[0m\tup\r\n\x1bc\x07\x9b31mbell\n')
        self.succeed('EnvironmentLogs', 'env')
        self.assertEqual(
            ['env-control-0 | OK\tup', 'env-control-0 | 31mbell'],
            self.out.splitlines())

    def test_follow_goes_on_where_it_was(self):
        self.print('env-control-0', BOOT)
        self.follow(lambda: self.print('env-control-0', 'half a '),
                    lambda: self.print('env-control-0', 'line\n'),
                    lambda: self.print('env-compute-0', 'another\n'))
        self.assertEqual(
            [('env-control-0', line) for line in BOOT.splitlines()]
            + [('env-control-0', 'half a line'),
               ('env-compute-0', 'another')], self.lines())

    def test_follow_of_a_log_that_lost_its_beginning(self):
        server = self.servers['env-control-0']
        self.print('env-control-0', BOOT)

        def lose():
            server.console = server.console[5000:] + 'new\n'

        self.follow(lose)
        self.assertEqual([*BOOT.splitlines(), 'new'],
                         [line for _, line in self.lines()])

    def test_follow_of_a_guest_that_was_started_again(self):
        server = self.servers['env-control-0']
        self.print('env-control-0', BOOT)

        def start():
            server.console = BOOT[:100]

        self.follow(start)
        lines = [line for _, line in self.lines()]
        self.assertEqual(BOOT[:100].splitlines()[:-1],
                         lines[len(BOOT.splitlines()):])

    def test_files(self):
        self.print('env-control-0', '\x1b[1mup\x1b[0m\n')
        self.print('env-compute-1', 'half \ud800\n')
        server = self.servers['env-control-0']
        server.actions = [types.SimpleNamespace(
            action='create', start_time='2026-01-01T00:00:00', message=None,
            request_id='req-1')]
        server.metadata['password'] = 'secret'
        folder = os.path.join(self.folder, 'logs')
        self.succeed('EnvironmentLogs', 'env', '--output', folder)
        self.assertEqual(f'env: logs written to {folder}\n', self.out)
        self.assertEqual(
            {f'env-{name}{end}' for name in (
                'control-0', 'compute-0', 'compute-1')
             for end in ('.log', '.json')}, set(os.listdir(folder)))
        with open(os.path.join(folder, 'env-control-0.log')) as source:
            self.assertEqual(server.console, source.read())
        with open(os.path.join(folder, 'env-control-0.json')) as source:
            text = source.read()
        self.assertNotIn('secret', text)
        found = json.loads(text)
        self.assertEqual(('ACTIVE', 'create'), (
            found['server']['status'], found['actions'][0]['action']))

    def test_folder_that_cannot_be_made(self):
        path = self.write('file', '')
        self.fail_with('EnvironmentLogs', 'env', '--output', path,
                       says=f'{path} cannot be written: File exists')

    def test_no_environment(self):
        self.fail_with('EnvironmentLogs', 'other',
                       says='Environment "other" does not exist')
