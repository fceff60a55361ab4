# SPDX-License-Identifier: Apache-2.0
"""Actions of many nodes at once: on their way, and seen to end."""

import concurrent.futures
import dataclasses
import threading
import time
import unittest

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions
from tests.unit import test_view

RESCUE = transitions.Action.RESCUE


class Compute(test_view.Compute):
    """A Nova that answers to no action before ``answer`` is set."""

    def __init__(self):
        super().__init__()
        self.sent = threading.Semaphore(0)
        self.answer = threading.Event()
        self.on_the_way = self.most = 0
        self._lock = threading.Lock()

    def post(self, path, body):
        with self._lock:
            self.on_the_way += 1
            self.most = max(self.most, self.on_the_way)
        self.sent.release()
        self.answer.wait(60)
        with self._lock:
            self.on_the_way -= 1
        return 'req-1'


class LineTestCase(unittest.TestCase):
    """How many actions are on their way to Nova at the same time."""

    def setUp(self):
        self.compute = Compute()
        self.actions = actions.Actions(self.compute, 1.0)
        self.servers = [
            servers.read(self.compute, server_id)
            for server_id in self.compute.add(actions.Actions.AT_ONCE + 5)]

    def send(self, server, seconds=60.0):
        return self.actions.send(server, RESCUE, time.monotonic() + seconds,
                                 'image')

    def test_so_many_at_once_and_no_more(self):
        with concurrent.futures.ThreadPoolExecutor(
                len(self.servers)) as pool:
            sent = [pool.submit(self.send, server)
                    for server in self.servers]
            for _ in range(actions.Actions.AT_ONCE):
                self.assertTrue(self.compute.sent.acquire(timeout=60))
            self.assertFalse(self.compute.sent.acquire(timeout=0.1))
            # A look stands in no line with them.
            self.assertEqual('ACTIVE', self.actions._looks.look(
                self.servers[0].id).status)
            self.compute.answer.set()
            self.assertEqual({'req-1'}, {
                each.result(60).request_id for each in sent})
        self.assertEqual(actions.Actions.AT_ONCE, self.compute.most)

    def test_one_whose_time_is_over_before_is_not_sent(self):
        first, *others = self.servers
        with concurrent.futures.ThreadPoolExecutor(
                len(self.servers)) as pool:
            for server in others[:actions.Actions.AT_ONCE]:
                pool.submit(self.send, server)
            for _ in range(actions.Actions.AT_ONCE):
                self.assertTrue(self.compute.sent.acquire(timeout=60))
            self.assertRaisesRegex(
                errors.ActionTimeout, f'rescue of server {first.id} was not '
                'sent .*action_timeout', self.send, first, 0.01)
            self.compute.answer.set()
        self.assertEqual('req-1', self.send(first).request_id)

    def test_one_that_failed_leaves_the_line(self):
        self.compute.answer.set()
        self.compute.post = self.fail_to_post
        for _ in range(actions.Actions.AT_ONCE + 1):
            self.assertRaises(errors.Conflict, self.send, self.servers[0])
        del self.compute.post
        self.assertEqual('req-1', self.send(self.servers[0]).request_id)

    def fail_to_post(self, path, body):
        raise errors.Conflict('no')


class ProofTestCase(unittest.TestCase):
    """What a reading tells of the end of an action, whenever it began."""

    def setUp(self):
        compute = test_view.Compute()
        server_id, = compute.add(1)
        self.before = servers.read(compute, server_id)
        self.under_way = actions.UnderWay(
            self.before, RESCUE, 'req-1', time.monotonic(), 'active', False)
        compute.bodies[server_id].update(
            {'OS-EXT-STS:vm_state': 'rescued', 'status': 'RESCUE'})
        self.after = servers.read(compute, server_id)

    def proves(self, under_way=None, **changes):
        return actions._proves_end(
            under_way or self.under_way,
            dataclasses.replace(self.after, **changes))

    def test_state_that_it_was_not_in_before(self):
        self.assertTrue(self.proves())
        self.assertTrue(self.proves(read_at=self.before.read_at))

    def test_not_one_from_before_it_was_planned(self):
        self.assertFalse(self.proves(read_at=self.before.read_at - 0.001))

    def test_not_while_a_task_is_in_progress(self):
        self.assertFalse(self.proves(state=dataclasses.replace(
            self.after.state, task_state='rescuing')))

    def test_not_where_it_was_before(self):
        self.assertFalse(self.proves(state=self.before.state))
        self.assertFalse(self.proves(dataclasses.replace(
            self.under_way, was_reached=True)))

    def test_not_of_what_nova_takes_there_too(self):
        # Somebody else may have brought the server there before it was sent.
        for action in (transitions.Action.HARD_REBOOT,
                       transitions.Action.REBUILD):
            under_way = dataclasses.replace(
                self.under_way, action=action, begun_in='stopped')
            state = dataclasses.replace(
                self.before.state, vm_state=under_way.leads_to,
                power_state=4 if under_way.leads_to == 'stopped' else 1)
            seen = dataclasses.replace(self.after, state=state)
            self.assertTrue(actions._is_reached(under_way, seen))
            self.assertFalse(actions._proves_end(under_way, seen))
