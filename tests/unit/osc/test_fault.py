# SPDX-License-Identifier: Apache-2.0
"""The commands for faults, with the driver behind Ironic's passthru."""

import json
from unittest import mock

from openstack import exceptions as sdk_exceptions
import oslo_messaging

from quintupleo_power.osc import fault
from tests.unit.faults import test_injection
from tests.unit.osc import base

ENDPOINT = ('--os-baremetal-endpoint', 'http://192.0.2.1:6385')


class FaultCommandTestCase(test_injection.FaultTestCase):

    def setUp(self):
        super().setUp()
        patcher = mock.patch('openstack.connect', autospec=True)
        self.connect = patcher.start()
        self.addCleanup(patcher.stop)
        self.connect.return_value.baremetal.call_node_vendor_passthru = (
            self.call)

    def call(self, node, verb, method, body=None):
        """Do what Ironic's API does, and openstacksdk with what it says."""
        try:
            found = self.manager.vendor_passthru(
                self.context, node, method, verb,
                json.loads(json.dumps(body or {})))['return']
        except oslo_messaging.ExpectedException as exc:
            raise sdk_exceptions.BadRequestException(str(exc.exc_info[1]))
        return mock.Mock(json=lambda: json.loads(json.dumps(found)))

    def run_command(self, name, *words):
        """Run a command; return its exit code."""
        code, self.out, self.err = base.run(
            getattr(fault, name), [*ENDPOINT, self.node.uuid, *words])
        return code

    def succeed(self, *words):
        self.assertEqual(0, self.run_command(*words), getattr(
            self, 'err', ''))

    def test_create(self):
        self.succeed('CreateFault', 'power-hangs', '--seconds', '30',
                     '--probability', '0.5', '--seed', '7', '-f', 'json')
        shown = json.loads(self.out)
        self.assertEqual(self.faults(), [shown])
        self.assertEqual(
            ('power-hangs', None, 30, 0.5, 7),
            tuple(shown[name] for name in (
                'kind', 'times', 'seconds', 'probability', 'seed')))
        self.assertEqual('none', self.connect.call_args.kwargs['auth_type'])

    def test_list(self):
        self.create('power-fails', times=2)
        self.power(test_injection.REBOOT)
        self.succeed('ListFaults', '-f', 'json')
        listed, = json.loads(self.out)
        self.assertEqual(['ID', 'Kind', 'Times', 'Seconds', 'Probability',
                          'Seed', 'Draws', 'Injected'], [*listed])
        self.assertEqual(('power-fails', 1, 1), (
            listed['Kind'], listed['Times'], listed['Injected']))

    def test_delete(self):
        first = self.create('power-fails')
        self.create('nmi-ignored')
        self.create('console-away')
        self.succeed('DeleteFaults', first['id'], '-f', 'value', '-c', 'ID')
        self.assertEqual(first['id'], self.out.strip())
        self.succeed('DeleteFaults', '--all')
        self.assertEqual([], self.faults())

    def test_delete_says_which(self):
        self.create('power-fails')
        self.assertNotEqual(0, self.run_command('DeleteFaults'))
        self.assertIn('--all', self.err)
        self.assertEqual(1, len(self.faults()))

    def test_kind_that_does_not_exist(self):
        self.assertNotEqual(0, self.run_command('CreateFault', 'fire'))
        self.assertIn('power-fails', self.err)

    def test_help_has_each_kind(self):
        self.succeed('CreateFault', '--help')
        for name in fault.kinds.KINDS:
            self.assertIn(f'{name}:', ' '.join(self.out.split()).replace(
                '- ', '-'))

    def test_refusal_is_ironics_sentence(self):
        self.assertEqual(1, self.run_command('CreateFault', 'power-late'))
        self.assertIn("Ironic: ", self.err)
        self.assertIn("power-late takes 'seconds'", self.err)
        self.config(fault_injection=False, group='quintupleo')
        for name, *words in (('CreateFault', 'power-fails'),
                             ('ListFaults',), ('DeleteFaults', '--all')):
            self.assertEqual(1, self.run_command(name, *words))
            self.assertIn('[quintupleo]fault_injection', self.err)
