# SPDX-License-Identifier: Apache-2.0
"""Actions of many nodes at once: on their way, and seen to end."""

import concurrent.futures
import threading
import time
import unittest

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions
from tests.unit.host_cloud import test_server_cache

RESCUE = transitions.Action.RESCUE


class Compute(test_server_cache.Compute):
    """A Nova that answers to no action before ``answer`` is set."""

    def __init__(self):
        super().__init__(time.monotonic)
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
        self.cached = server_cache.ServerCache(self.compute, None)
        self.actions = actions.Actions(self.compute, self.cached, 1.0)
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
            # A poll stands in no line with them.
            self.assertEqual('ACTIVE', self.cached.poll(
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
