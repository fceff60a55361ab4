# SPDX-License-Identifier: Apache-2.0
"""Many threads, one call."""

from concurrent import futures
import threading
import unittest
from unittest import mock

from quintupleo_power.host_cloud import shared_call


class SharedCallTestCase(unittest.TestCase):

    def setUp(self):
        self.calls = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.failure = None
        self.shared = shared_call.SharedCall(self.function, 'test')
        self.waiting = threading.Semaphore(0)
        wait = shared_call.time_limit.wait

        def count(call):
            self.waiting.release()
            return wait(call)

        self.enterContext(mock.patch.object(
            shared_call.time_limit, 'wait', count))
        self.pool = futures.ThreadPoolExecutor(20)
        self.addCleanup(self.pool.shutdown)
        self.addCleanup(self.go_on.set)

    def function(self):
        self.calls.append(threading.get_ident())
        self.begun.set()
        self.go_on.wait(60)
        if self.failure:
            raise self.failure
        return len(self.calls)

    def ask(self, number, **options):
        """Have threads ask, and return when each waits for its call."""
        found = [self.pool.submit(self.shared, **options)
                 for _ in range(number)]
        for _ in range(number):
            self.assertTrue(self.waiting.acquire(timeout=60))
        return found

    def wait_for_the_next(self):
        while self.shared._next is None:
            threading.Event().wait(0.001)

    def test_who_comes_later_shares_the_next_call(self):
        early = self.ask(1)
        self.assertTrue(self.begun.wait(60))
        late = self.ask(10)
        self.wait_for_the_next()
        self.go_on.set()
        self.assertEqual(1, early[0].result(60))
        self.assertEqual({2}, {each.result(60) for each in late})
        self.assertEqual(2, len(self.calls))
        self.assertEqual(1, len(set(self.calls)))

    def test_who_joins_takes_the_call_that_has_begun(self):
        early = self.ask(1)
        self.assertTrue(self.begun.wait(60))
        late = self.ask(10, join=True)
        self.go_on.set()
        self.assertEqual({1}, {each.result(60) for each in early + late})

    def test_a_failure_is_one_for_each_and_not_for_the_next(self):
        self.failure = ValueError('no')
        early = self.ask(3)
        self.go_on.set()
        for each in early:
            self.assertRaises(ValueError, each.result, 60)
        self.failure = None
        self.assertTrue(self.shared())

    def test_who_asks_in_the_pause_shares_the_next_call(self):
        self.go_on.set()
        over = threading.Event()

        def pause(took):
            if self.calls:
                over.wait(60)
            return 0.0

        self.shared = shared_call.SharedCall(self.function, 'test', pause)
        self.assertEqual(1, self.ask(1)[0].result(60))
        early, late = self.ask(1), self.ask(1)
        over.set()
        self.assertEqual([2, 2], [each.result(60) for each in early + late])

    def test_pause_is_by_how_long_the_last_call_took(self):
        clock = mock.Mock(monotonic=mock.Mock(side_effect=[10.0, 13.0, 0, 0]))
        self.enterContext(mock.patch.object(shared_call, 'time', clock))
        shared = shared_call.SharedCall(lambda: None, 'test',
                                        lambda took: took / 2)
        shared()
        shared()
        self.assertEqual([mock.call(0.0), mock.call(1.5)],
                         clock.sleep.call_args_list)
