# SPDX-License-Identifier: Apache-2.0
"""Looks at servers that are waited for, shared by all that wait."""

import concurrent.futures
import contextlib
import threading
import time
import unittest
from unittest import mock

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import looks
from tests.unit import test_view


class Gathering(threading.Condition):
    """A condition that knows how many wait for it."""

    def __init__(self, lock=None):
        super().__init__(lock)
        self.waiting = 0

    def wait(self, timeout=None):
        self.waiting += 1
        return super().wait(timeout)

    def notify_all(self):
        self.waiting = 0
        super().notify_all()

    def until(self, number):
        """Return when so many wait."""
        while True:
            with self:
                if self.waiting == number:
                    return
            threading.Event().wait(0.001)


class LooksTestCase(unittest.TestCase):

    def setUp(self):
        self.compute = test_view.Compute()
        self.looks = looks.Looks(self.compute)
        for name in ('SHORTEST', 'LONGEST'):
            patch = mock.patch.object(looks, name, 0.0)
            patch.start()
            self.addCleanup(patch.stop)

    def look(self, ids):
        """Let as many threads look at once, each at its server."""
        together = threading.Barrier(len(ids))

        def one(server_id):
            with self.looks.waiting(server_id):
                together.wait(60)
                try:
                    return self.looks.look(server_id)
                finally:
                    together.wait(60)

        with concurrent.futures.ThreadPoolExecutor(len(ids)) as pool:
            return [pool.submit(one, each) for each in ids]

    def test_few_look_each_at_its_own(self):
        ids = self.compute.add(2)
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])
        self.assertEqual({f'/servers/{each}' for each in ids},
                         set(self.compute.asked))

    def test_many_look_together(self):
        ids = self.compute.add(40)
        with mock.patch.object(looks.threading, 'Condition', Gathering):
            self.looks = looks.Looks(self.compute)
        # The pause before a round is when the others come.
        with mock.patch.object(
                self.looks, '_rest', autospec=True,
                side_effect=lambda: self.looks._changed.until(39)):
            self.assertEqual(ids, [
                seen.result().id for seen in self.look(ids)])
        self.assertEqual(['/servers/detail'], self.compute.asked)

    def test_list_that_has_begun_serves_nobody_who_comes_later(self):
        ids = self.compute.add(3)
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            with self.looks.waiting(ids[0]), self.looks.waiting(ids[1]), (
                    self.looks.waiting(ids[2])):
                early = pool.submit(self.looks.look, ids[0])
                self.compute.listing.wait(60)
                late = pool.submit(self.looks.look, ids[1])
                self.compute.bodies[ids[0]]['OS-EXT-STS:vm_state'] = 'stopped'
                self.compute.bodies[ids[1]]['OS-EXT-STS:vm_state'] = 'stopped'
                self.assertFalse(late.done())
                self.compute.hold.set()
                self.assertEqual('active', early.result(60).state.vm_state)
                self.assertEqual('stopped', late.result(60).state.vm_state)
        self.assertEqual(2, self.compute.lists())

    def late(self, proves):
        """Look at one that is waited for since a list has begun."""
        ids = self.compute.add(4)
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor(2) as pool, (
                contextlib.ExitStack()) as waits:
            for server_id in ids[:3]:
                waits.enter_context(self.looks.waiting(server_id))
            early = pool.submit(self.looks.look, ids[0])
            self.compute.listing.wait(60)
            waits.enter_context(self.looks.waiting(ids[3], proves))
            self.compute.hold.set()
            early.result(60)
            return self.looks.look(ids[3])

    def test_list_that_shows_the_end_serves_one_who_came_later(self):
        shown = []

        def proves(server):
            shown.append(server)
            return True

        seen = self.late(proves)
        self.assertEqual([seen], shown)
        self.assertEqual(1, self.compute.lists())

    def test_list_that_does_not_show_the_end_does_not(self):
        self.late(lambda server: False)
        self.assertEqual(2, self.compute.lists())

    def test_end_of_one_wait_is_not_that_of_the_next(self):
        ids = self.compute.add(3)
        with contextlib.ExitStack() as others:
            for server_id in ids[1:]:
                others.enter_context(self.looks.waiting(server_id))
            for _ in range(2):
                with self.looks.waiting(ids[0], lambda server: True):
                    self.looks.look(ids[0])
        self.assertEqual(2, self.compute.lists())

    def test_failure_is_an_error_for_all_that_took_part(self):
        ids = self.compute.add(5)
        self.compute.failure = errors.ServerError('out of order')
        for seen in self.look(ids):
            self.assertRaisesRegex(errors.ServerError, 'out of order',
                                   seen.result)
        self.compute.failure = None
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])

    def test_server_that_is_not_in_the_list_is_read_by_itself(self):
        ids = self.compute.add(4)
        hidden = self.compute.hidden = ids[3]
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])
        self.assertIn(f'/servers/{hidden}', self.compute.asked)

    def test_deleted_server_is_not_there(self):
        ids = self.compute.add(4)
        self.compute.bodies[ids[3]]['OS-EXT-STS:vm_state'] = 'deleted'
        self.compute.gone = ids[3]
        self.assertRaises(errors.NotFound, self.look(ids)[3].result)

    def test_asks_for_what_has_changed_since_before_the_oldest_began(self):
        ids = self.compute.add(3)
        with mock.patch.object(looks.time, 'time', autospec=True,
                               return_value=1_000_300.0):
            self.look(ids)
        self.assertEqual({'1970-01-12T13:46:40Z'}, set(self.compute.since))

    def test_rounds_are_apart(self):
        for sending, took, wanted in ((False, 9.0, 0.25), (True, 9.0, 2.0),
                                      (True, 1.5, 1.5), (True, 0.1, 0.25)):
            self.assertEqual([wanted], self.rests(sending, took))

    def test_first_round_waits_for_actions_that_are_on_their_way(self):
        self.assertEqual([1.0], self.rests(True))
        self.assertEqual([0.25], self.rests(False))

    def rests(self, sending, took=None):
        """Seconds between two rounds, or before the first one.

        :param sending: whether actions are on their way.
        :param took: seconds that the first one took, None for the first one.
        """
        self.looks, now, waited = looks.Looks(self.compute), [1000.0], []

        def wait(seconds):
            waited.append(seconds)
            now[0] += seconds

        def read(*args):
            now[0] += took or 0.0
            return iter(())
        with contextlib.ExitStack() as stack:
            for module, name, value in (
                    (looks, 'SHORTEST', 0.25), (looks, 'LONGEST', 2.0),
                    (looks.time, 'monotonic', lambda: now[0]),
                    (looks.servers, 'read_pages', read),
                    (self.looks._all_sent, 'wait', wait)):
                stack.enter_context(mock.patch.object(module, name, value))
            ids = self.compute.add(3)
            for each in ids:
                stack.enter_context(self.looks.waiting(each))
            if took is not None:
                self.looks.look(ids[0])
                waited.clear()
            if sending:
                stack.enter_context(self.looks.sending())
            self.looks.look(ids[1])
        return waited

    def test_last_answer_to_an_action_ends_the_rest(self):
        ids = self.compute.add(3)
        with contextlib.ExitStack() as stack:
            for name, value in (('SHORTEST', 0.0), ('LONGEST', 600.0),
                                ('FIRST', 600.0)):
                stack.enter_context(mock.patch.object(looks, name, value))
            for each in ids:
                stack.enter_context(self.looks.waiting(each))
            pool = stack.enter_context(
                concurrent.futures.ThreadPoolExecutor(1))
            with mock.patch.object(self.looks, '_all_sent',
                                   Gathering(self.looks._changed._lock)):
                with self.looks.sending():
                    seen = pool.submit(self.looks.look, ids[0])
                    self.looks._all_sent.until(1)
                    self.assertFalse(seen.done())
                self.assertEqual(ids[0], seen.result(60).id)


class ChangesTestCase(unittest.TestCase):
    """What one round asks for after another."""

    BEGIN = 1_000_300.0
    BEGUN = '1970-01-12T13:51:40Z'
    SEEN_TO = '1970-01-12T13:51:35Z'
    ALL = '1970-01-12T13:46:40Z'

    def setUp(self):
        self.compute = test_view.Compute()
        self.looks = looks.Looks(self.compute)
        self.ids = self.compute.add(3, updated=self.BEGUN)
        # Of whole seconds: sums of others are not exact.
        self.wall, self.now = self.BEGIN, float(int(time.monotonic()))
        for module, name, value in (
                (looks, 'SHORTEST', 0.0), (looks, 'LONGEST', 0.0),
                (looks.time, 'time', lambda: self.wall),
                (looks.time, 'monotonic', lambda: self.now)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        waits = contextlib.ExitStack()
        self.addCleanup(waits.close)
        for server_id in self.ids:
            waits.enter_context(self.looks.waiting(server_id))

    def look(self, server_id, seconds=1.0):
        self.wall += seconds
        self.now += seconds
        return self.looks.look(server_id).state.vm_state

    def change(self, server_id, vm_state, moment):
        self.compute.bodies[server_id].update(
            {'OS-EXT-STS:vm_state': vm_state, 'updated': moment})

    def test_only_what_has_changed_is_read_again(self):
        first, second, third = self.ids
        self.assertEqual('active', self.look(first))
        self.change(first, 'stopped', '1970-01-12T13:51:50Z')
        self.look(first, 8.0)
        # From here on the other two are too old to be in the answers.
        self.change(third, 'rescued', '1970-01-12T13:51:50Z')
        self.assertEqual(['stopped', 'active', 'rescued'],
                         [self.look(each, 0.1) for each in self.ids])
        self.assertEqual([self.ALL, self.SEEN_TO], self.compute.since[:2])
        self.assertEqual({'1970-01-12T13:51:44Z'},
                         set(self.compute.since[2:]))
        self.assertEqual({'/servers/detail'}, set(self.compute.asked))

    def test_all_is_read_again_after_a_while(self):
        for _ in range(5):
            self.look(self.ids[0], 4.0)
        self.assertEqual(
            [self.ALL, self.SEEN_TO, self.SEEN_TO, self.ALL, self.SEEN_TO],
            self.compute.since)

    def test_change_that_a_late_clock_dates_back_is_seen_in_the_end(self):
        self.look(self.ids[0])
        self.change(self.ids[1], 'stopped', '1970-01-12T13:50:00Z')
        self.assertEqual('active', self.look(self.ids[1], 9.0))
        self.assertEqual('stopped', self.look(self.ids[1], 1.0))

    def test_clock_that_is_told_spares_most_of_the_first_answer(self):
        for ahead, since in ((0.0, '1970-01-12T13:51:35Z'),
                             (600.0, '1970-01-12T14:01:35Z'),
                             (-600.0, '1970-01-12T13:41:35Z')):
            self.compute.clock_ahead = ahead
            self.compute.since.clear()
            self.looks._seen_to = float('-inf')
            self.look(self.ids[0], 0.0)
            self.assertEqual([since], self.compute.since)

    def test_all_is_read_only_for_those_that_wait_for_long(self):
        self.compute.clock_ahead = 0.0
        since = [self.SEEN_TO] * 2 + [self.ALL] + [self.SEEN_TO] * 2
        for _ in since:
            self.look(self.ids[0], 4.0)
        self.assertEqual(since, self.compute.since)

    def test_late_machine_of_a_cloud_whose_clock_is_told(self):
        self.compute.clock_ahead = 0.0
        self.look(self.ids[0])
        self.change(self.ids[1], 'stopped', '1970-01-12T13:50:00Z')
        self.assertEqual('active', self.look(self.ids[1], 8.0))
        self.assertEqual('stopped', self.look(self.ids[1], 1.0))

    def test_clock_that_is_told_to_be_ahead_counts(self):
        self.compute.clock_ahead = 600.0
        self.change(self.ids[0], 'active', '1970-01-12T14:01:42Z')
        self.look(self.ids[0], 2.0)
        self.look(self.ids[0])
        self.assertEqual(['1970-01-12T14:01:35Z', '1970-01-12T14:01:37Z'],
                         self.compute.since)

    def test_what_breaks_in_a_round_keeps_nobody_waiting(self):
        with mock.patch.object(self.looks, '_since', autospec=True,
                               side_effect=ZeroDivisionError):
            self.assertRaises(ZeroDivisionError, self.look, self.ids[0])
        self.assertEqual('active', self.look(self.ids[1]))

    def test_change_dated_far_ahead_hides_nothing(self):
        self.change(self.ids[0], 'active', '1999-01-01T00:00:00Z')
        self.look(self.ids[0])
        self.change(self.ids[1], 'stopped', '1970-01-12T13:51:41Z')
        self.assertEqual('stopped', self.look(self.ids[1]))
        self.assertEqual([self.ALL, '1970-01-12T13:51:36Z'],
                         self.compute.since)

    def test_without_times_all_is_read_each_time(self):
        for server_id in self.ids:
            del self.compute.bodies[server_id]['updated']
        self.look(self.ids[0])
        self.look(self.ids[0])
        self.assertEqual([self.ALL] * 2, self.compute.since)

    def test_who_waits_anew_is_told_nothing_of_before(self):
        self.look(self.ids[0])
        self.change(self.ids[0], 'active', '1970-01-12T13:51:55Z')
        self.look(self.ids[0], 5.0)
        other = self.ids[1]
        with contextlib.ExitStack() as again:
            # As another thread would.
            again.enter_context(mock.patch.object(
                looks.threading, 'get_ident', lambda: 0))
            again.enter_context(self.looks.waiting(other))
            # Nova has set no task yet.
            self.compute.bodies[other]['OS-EXT-STS:vm_state'] = 'stopped'
            self.assertEqual('stopped', self.look(other))
        self.assertEqual(f'/servers/{other}', self.compute.asked[-1])

    def test_round_that_began_before_the_wait_does_not_count(self):
        first, second = self.compute.add(2, updated=self.BEGUN)
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            early = pool.submit(self.looks.look, self.ids[0])
            self.compute.listing.wait(60)
            self.now += 1.0
            with self.looks.waiting(first):
                self.compute.hold.set()
                early.result(60)
                # As before its action, were it kept.
                self.change(first, 'stopped', '1970-01-12T13:51:41Z')
                self.assertEqual('stopped', self.look(first))
