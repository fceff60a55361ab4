# SPDX-License-Identifier: Apache-2.0
"""When a server is polled whose action is under way."""

import itertools
import unittest

from quintupleo_power.host_cloud import poll_schedule


def polls(schedule, took, name='stop'):
    """Return the times of the polls of an action, and let it be learnt."""
    times = []
    for pause in schedule.pauses(name):
        times.append(sum(times[-1:]) + pause)
        if times[-1] >= took:
            schedule.learn(name, times[-1], len(times))
            return times


class PollScheduleTestCase(unittest.TestCase):

    def setUp(self):
        self.schedule = poll_schedule.PollSchedule(2.0)

    def test_pauses_grow_up_to_the_longest(self):
        pauses = list(itertools.islice(self.schedule.pauses('stop'), 20))
        self.assertEqual(sorted(pauses), pauses)
        self.assertEqual(0.4, pauses[0])
        self.assertEqual(2.0, pauses[-1])

    def test_an_action_that_is_known_takes_few_polls(self):
        for took in (0.5, 1.0, 2.0, 3.5):
            schedule = poll_schedule.PollSchedule(2.0)
            rounds = [polls(schedule, took) for _ in range(30)][10:]
            late = [times[-1] / took for times in rounds]
            self.assertLessEqual(sum(late) / len(late), 1.1)
            self.assertLessEqual(sum(map(len, rounds)) / len(rounds), 2.5)

    def test_each_action_by_itself(self):
        for _ in range(5):
            polls(self.schedule, 3.0)
        self.assertEqual(0.4, next(self.schedule.pauses('start')))

    def test_one_slow_action_delays_no_other(self):
        for _ in range(5):
            polls(self.schedule, 1.0)
        polls(self.schedule, 60.0)
        self.assertLess(polls(self.schedule, 1.0)[-1], 1.2)

    def test_first_poll_after_slow_ones_is_never_much_too_late(self):
        for _ in range(5):
            polls(self.schedule, 60.0)
        self.assertLessEqual(polls(self.schedule, 1.0)[-1], 4.0)

    def test_a_host_cloud_that_got_quicker_is_followed(self):
        for _ in range(5):
            polls(self.schedule, 3.0)
        for _ in range(30):
            last = polls(self.schedule, 1.0)
        self.assertLess(last[-1], 1.2)
