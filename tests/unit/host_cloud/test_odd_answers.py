# SPDX-License-Identifier: Apache-2.0
"""Answers that no service should give, and texts that anybody may have set."""

import json

from ironic.common import exception
from ironic.common import states

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from tests.unit import base

FROM_NOVA = {'x-openstack-request-id': 'req-1'}
# What moves a terminal's cursor, turns a line around or ends one, and half a
# character, which no database takes.
NASTY = 'a\x1b[2J\u202eb\r\nc\ud800'


class OddAnswersTestCase(base.DriverTestCase):

    def refuse(self):
        """Return why the power state is not told."""
        with self.acquire(shared=True) as task:
            error = self.assertRaises(exception.DriverOperationError,
                                      task.driver.power.get_power_state, task)
        return str(error)

    def assert_printable(self, text):
        self.assertTrue(text.isprintable(), ascii(text))
        self.assertLess(len(text), 1000)

    def test_texts_of_others_are_one_printable_line(self):
        self.server.name = NASTY
        self.server.fault = NASTY + 'x' * 200000
        self.set_server('error', 0)
        text = self.refuse()
        self.assert_printable(text)
        self.assertIn(self.server.id, text)

    def test_reason_of_a_lock(self):
        self.server.locked = True
        self.server.locked_reason = NASTY + 'x' * 200000
        self.host_cloud.fail('POST', '/action$', (409, 'It is locked'),
                             times=99)
        with self.acquire() as task:
            error = self.assertRaises(
                exception.DriverOperationError,
                task.driver.power.set_power_state, task, states.POWER_OFF)
            # What was kept with the node fits into a database.
            task.node.save()
        self.assert_printable(str(error))

    def test_answer_to_an_error(self):
        self.host_cloud.fail('GET', '/servers/', (403, NASTY), times=9)
        self.assert_printable(self.refuse())

    def test_long_sentence_keeps_its_end(self):
        text = str(errors.HostCloudError('a' * 9999 + ': do this'))
        self.assertTrue(text.endswith(': do this'))
        self.assertLess(len(text), 1000)

    def test_half_characters_do_not_come_in(self):
        self.host_cloud.fail('GET', '/servers/', json.dumps(
            {'server': {'id': self.server.id, 'name': '\ud800',
                        'status': 'ACTIVE', 'OS-EXT-STS:vm_state': 'active',
                        'OS-EXT-STS:power_state': 1,
                        'OS-EXT-STS:task_state': None}}), headers=FROM_NOVA)
        found = cloud.get(connection.Credentials()).servers.get(self.server.id)
        self.assertEqual('\ufffd', found.name)
        found.name.encode()

    def test_json_without_an_end(self):
        self.host_cloud.fail('GET', '/servers/', '[' * 100000, times=9,
                             headers=FROM_NOVA)
        self.assertIn('not JSON', self.refuse())

    def test_microversion_that_went_down(self):
        host = cloud.get(connection.Credentials())
        host.servers.get(self.server.id)
        self.clock.now += 60
        self.host_cloud.fail(
            'GET', '/servers/', (406, 'Version 2.98 is not supported'),
            times=3)
        self.host_cloud.microversion = '2.90'
        self.refuse()
        # It is asked for again, without a restart of the conductor.
        with self.acquire(shared=True) as task:
            self.assertEqual(states.POWER_ON,
                             task.driver.power.get_power_state(task))
        self.assertEqual((2, 90), cloud.get(
            connection.Credentials()).compute.microversion)
