# SPDX-License-Identifier: Apache-2.0
"""When a server is looked at."""

import itertools
import random
import statistics
import unittest

from quintupleo_power.host_cloud import pace

ALONE = pace.Place.ALONE.value
REMEMBERED = pace.Pace.REMEMBERED


class PaceTestCase(unittest.TestCase):

    def setUp(self):
        self.pace = pace.Pace(longest=2.0)

    def waits(self, action='start', count=8, place=pace.Place.ALONE):
        return list(itertools.islice(self.pace.waits(action, place), count))

    def see_the_end(self, end, place=pace.Place.ALONE, look=0.0):
        """Look until an action is over; tell when that was, and the looks.

        :param look: seconds that each of them takes.
        """
        seen_at, made, under_way = 0.0, 0, None
        for wait in self.pace.waits('start', place):
            seen_at, made = seen_at + wait + look, made + 1
            if seen_at - look >= end:
                break
            under_way = seen_at
        self.pace.record('start', seen_at, made == 1, place, under_way)
        return seen_at, made

    def test_unknown_action_is_looked_at_soon_and_then_less_often(self):
        waits = self.waits()
        self.assertEqual(pace.Pace.FIRST, waits[0])
        self.assertEqual(sorted(waits), waits)
        self.assertEqual(2.0, waits[-1])

    def test_known_action_is_looked_at_before_its_usual_end(self):
        self.pace.record('start', 3.0, False)
        waits = self.waits()
        self.assertAlmostEqual(3.0 * ALONE.before, waits[0])
        self.assertAlmostEqual(3.0 * ALONE.behind, waits[1])

    def test_looks_are_close_while_the_end_is_likely_then_rarer(self):
        self.pace.record('start', 3.0, False)
        for place in pace.Place:
            waits = self.waits(count=20, place=place)
            behind = 3.0 * place.value.behind
            close = [wait for wait in waits[1:] if wait <= behind]
            self.assertGreater(waits[0] + sum(close) + 0.001,
                               3.0 * place.value.likely)
            self.assertLess(len(close), 8)
            self.assertEqual(2.0, waits[-1])

    def test_what_is_usual_of_late_counts(self):
        for seconds in (9.0, 2.0, 9.0, 0.5, 2.0):
            self.pace.record('start', seconds, False)
        self.assertAlmostEqual(2.0 * ALONE.before, self.waits()[0])

    def test_one_in_a_row_begins_with_what_it_took_alone(self):
        self.pace.record('start', 1.0, False)
        for place in pace.Place:
            self.assertAlmostEqual(place.value.before,
                                   self.waits(place=place)[0])

    def test_one_in_a_row_has_a_time_of_its_own(self):
        for _ in range(REMEMBERED):
            self.pace.record('start', 3.0, False)
            self.pace.record('start', 2.0, False, pace.Place.LAST)
        self.assertAlmostEqual(3.0 * ALONE.before, self.waits()[0])
        self.assertAlmostEqual(2.0 * pace.Place.LAST.value.before,
                               self.waits(place=pace.Place.LAST)[0])

    def test_two_in_a_row_that_take_as_long_as_ever_are_seen_by_three_looks(
            self):
        for place in (pace.Place.FOLLOWED, pace.Place.LAST):
            self.see_the_end(2.0, place)
        looks = []
        for _ in range(40):
            followed_at, followed = self.see_the_end(
                2.0, pace.Place.FOLLOWED)
            last_at, last = self.see_the_end(2.0, pace.Place.LAST)
            looks.append(followed + last)
        self.assertLessEqual(statistics.median(looks[-20:]), 3)
        self.assertLess(followed_at, 2.0 * 1.1)
        self.assertLess(last_at, 2.0 * 1.2)

    def test_two_in_a_row_are_seen_by_about_three_looks_for_ever(self):
        # The first looks come and go around the end: many tell, not a few.
        looks = []
        for number in range(420):
            made = [self.see_the_end(2.0, place) for place in (
                pace.Place.FOLLOWED, pace.Place.LAST)]
            if number >= 20:
                looks.append(sum(each for _, each in made))
                self.assertLess(made[0][0], 2.0 * 1.1)
                self.assertLess(made[1][0], 2.0 * 1.2)
        self.assertLess(statistics.mean(looks), 3.2)

    def test_ends_that_scatter_are_seen_soon(self):
        # libvirt waits a fifth of a second at a time for a guest to be gone.
        # What one alone may take: all but the request and one to spare.
        for place, late, most in ((pace.Place.ALONE, 0.15, 4.0),
                                  (pace.Place.FOLLOWED, 0.26, 2.0),
                                  (pace.Place.LAST, 0.26, 2.0)):
            chance = random.Random(7)
            lags, looks = [], []
            for number in range(400):
                end = chance.choice([1.5, 1.7, 1.9, 1.9, 2.1])
                seen_at, made = self.see_the_end(end, place, 0.05)
                if number >= 4:
                    lags.append(seen_at - end)
                    looks.append(made)
            # Of that 0.05 is the look itself.
            self.assertLess(statistics.mean(lags), late, place)
            self.assertLess(statistics.mean(looks), most, place)

    def test_end_is_half_way_between_two_looks(self):
        self.pace.record('start', 3.0, False, under_way=2.9)
        self.assertAlmostEqual(2.95 * ALONE.before, self.waits()[0])

    def test_end_between_two_looks_far_apart_is_taken_to_be_soon(self):
        self.pace.record('start', 3.0, False, under_way=2.0)
        self.assertAlmostEqual(2.1 * ALONE.before, self.waits()[0])

    def test_one_action_is_enough_to_learn(self):
        for place in pace.Place:
            self.pace = pace.Pace(longest=2.0)
            self.see_the_end(2.0, place)
            seen_at, made = self.see_the_end(2.0, place)
            self.assertLess(seen_at, 2.0 * 1.1, place)
            self.assertLessEqual(made, 4, place)

    def test_old_times_are_forgotten(self):
        self.pace.record('start', 1.0, False)
        for _ in range(REMEMBERED):
            self.pace.record('start', 2.0, False)
        self.assertAlmostEqual(2.0 * ALONE.before, self.waits()[0])

    def test_each_action_has_its_own_pace(self):
        self.pace.record('stop', 3.0, False)
        self.assertEqual(pace.Pace.FIRST, self.waits('start')[0])

    def test_after_a_slow_time_it_comes_back_soon(self):
        for place in pace.Place:
            for _ in range(REMEMBERED):
                self.pace.record('start', 4.0, False, place)
            for _ in range(16):
                seen_at, made = self.see_the_end(1.0, place)
            self.assertLess(seen_at, 1.3)
            self.assertLessEqual(made, 4)

    def test_while_the_first_look_sees_the_end_it_comes_ever_sooner(self):
        sooner, before = ALONE.sooner, ALONE.before
        self.pace.record('start', 9.0, False)
        # What took longer before counts no more.
        self.pace.record('start', 1.0, True)
        self.assertAlmostEqual(sooner * before, self.waits()[0])
        self.pace.record('start', sooner, True)
        self.assertAlmostEqual(sooner ** 3 * before, self.waits()[0])
        for _ in range(REMEMBERED):
            self.pace.record('start', 1.0, False)
        self.pace.record('start', 1.0, True)
        self.assertAlmostEqual(sooner * before, self.waits()[0])

    def test_no_wait_is_longer_than_twice_what_is_configured(self):
        self.pace.record('stop', 600.0, False)
        self.assertEqual(4.0, max(self.waits('stop')))

    def test_no_wait_is_shorter_than_the_shortest(self):
        self.pace.record('stop', 0.001, False)
        self.assertAlmostEqual(pace.Pace.SHORTEST,
                               min(self.waits('stop')))
