# SPDX-License-Identifier: Apache-2.0
"""The commands of snapshots: arguments, tables, exit codes."""

import json

from quintupleo_power.environments import environment
from tests.unit.environments import test_snapshots


class CommandsTestCase(test_snapshots.SnapshotsTestCase):

    def test_life(self):
        self.succeed('SnapshotEnvironment', 'env', 'start')
        self.assertIn('3/3 snapshots', self.err)
        self.assertEqual('start: created\n', self.out)
        self.succeed('ListSnapshots', '-f', 'json')
        found, = json.loads(self.out)
        self.assertEqual(
            ('env', 'start', environment.COMPLETE, 3),
            tuple(found[name] for name in (
                'Environment', 'Name', 'Status', 'Servers')))
        self.spoil()
        self.succeed('RestoreEnvironment', 'env', 'start', '--start')
        self.assertEqual('start: restored\n', self.out)
        self.assertEqual({'at the start'}, self.contents())
        self.assertEqual('active', self.states()['control-0'])
        self.host.images.pop(self.images()[0]['id'])
        self.succeed('ListSnapshots', 'env', '-f', 'json')
        self.assertEqual(environment.INCOMPLETE,
                         json.loads(self.out)[0]['Status'])
        self.fail_with('DeleteSnapshots', 'env', 'other', 'start',
                       says='other: it does not exist\n1 of 2 failed')
        self.assertEqual('start: deleted\n', self.out)
        self.succeed('DeleteSnapshots', 'env', 'start', '--ignore-missing')
        self.succeed('ListSnapshots', '-f', 'json')
        self.assertEqual([], json.loads(self.out))

    def test_names(self):
        for command in ('SnapshotEnvironment', 'RestoreEnvironment',
                        'DeleteSnapshots'):
            self.fail_with(command, 'env', 'a/b',
                           says="'a/b' is not a name: use up to 40 letters")

    def test_failure(self):
        self.fail_with('RestoreEnvironment', 'env', 'x',
                       says='it has none')
        self.fail_with('SnapshotEnvironment', 'other', 'x',
                       says='Environment "other" does not exist')
