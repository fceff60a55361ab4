# SPDX-License-Identifier: Apache-2.0
"""Faults: what their arguments may be, and when they happen."""

import pathlib
import unittest

from quintupleo_power.faults import kinds
from tests.functional import fault_proxy

PAGE = (pathlib.Path(__file__).resolve().parents[3]
        / 'doc/source/user/fault-injection.rst')


class KindsTestCase(unittest.TestCase):

    def test_kinds_with_seconds_exist(self):
        self.assertLess({*kinds.TAKE_SECONDS}, {*kinds.KINDS})

    def test_page_has_each_kind(self):
        for name in kinds.KINDS:
            self.assertIn(f'   * - ``{name}``\n', PAGE.read_text())

    def test_words_that_the_proxy_has_too(self):
        for word in ('late', 'away'):
            self.assertIn(word, fault_proxy.FAULTS)
            self.assertTrue([name for name in kinds.KINDS
                             if name.endswith(f'-{word}')])


class ParseTestCase(unittest.TestCase):

    def parse(self, kind='power-fails', **arguments):
        return kinds.parse({'kind': kind, **arguments})

    def assert_wrong(self, says, **arguments):
        with self.assertRaisesRegex(ValueError, says):
            self.parse(**arguments)

    def test_fault_happens_once_by_default(self):
        fault = self.parse()
        self.assertEqual((1, 1.0, None), (fault['times'], fault['probability'],
                                          fault['seconds']))

    def test_fault_with_a_probability_stays(self):
        fault = self.parse(probability=0.5)
        self.assertEqual((None, 0.5), (fault['times'], fault['probability']))
        self.assertIsInstance(fault['seed'], int)

    def test_fault_with_a_probability_may_have_an_end(self):
        self.assertEqual(3, self.parse(probability=0.5, times=3)['times'])

    def test_numbers_may_be_texts(self):
        fault = self.parse('power-late', times='2', seconds='30')
        self.assertEqual((2, 30), (fault['times'], fault['seconds']))
        fault = self.parse(probability='0.25', seed='7')
        self.assertEqual((0.25, 7), (fault['probability'], fault['seed']))

    def test_each_has_a_name_of_its_own(self):
        self.assertNotEqual(self.parse()['id'], self.parse()['id'])

    def test_kind_that_does_not_exist(self):
        for wrong in ('fire', None, 7, ['power-fails'], ''):
            self.assert_wrong("'kind' must be one of power-fails, ",
                              kind=wrong)

    def test_argument_that_does_not_exist(self):
        self.assert_wrong("'time' is not an argument: they are kind, times",
                          time=3)

    def test_numbers_out_of_their_range(self):
        for name in ('times', 'seconds', 'probability', 'seed'):
            for wrong in (-1, 10 ** 10, 'soon', '', True, [1], {}, 'nan',
                          'inf'):
                self.assert_wrong(f"'{name}' must be a number from ",
                                  **{name: wrong})
        self.assert_wrong("'times' must be a number from 1 to", times=0)
        self.assert_wrong("'probability' must be", probability=1.01)

    def test_seconds_belong_to_some_kinds(self):
        self.assert_wrong("power-hangs takes 'seconds'", kind='power-hangs')
        self.assert_wrong("power-fails takes no 'seconds'", seconds=3)

    def test_seed_belongs_to_a_probability(self):
        self.assert_wrong("'seed' goes with 'probability' only", seed=3)


class DrawTestCase(unittest.TestCase):

    def draws(self, number, **arguments):
        fault = kinds.parse({'kind': 'power-fails', **arguments})
        return [kinds.draw(fault) for _ in range(number)], fault

    def test_same_seed_has_the_same_faults(self):
        first, _ = self.draws(50, probability=0.3, seed=7)
        second, _ = self.draws(50, probability=0.3, seed=7)
        other, _ = self.draws(50, probability=0.3, seed=8)
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)
        # Another release must not change what a seed means.
        self.assertEqual([1, 3, 4, 7, 9], [
            number for number, happens in enumerate(first[:10]) if happens])

    def test_probability_is_what_it_says(self):
        happened, fault = self.draws(4000, probability=0.3, seed=1)
        self.assertAlmostEqual(0.3, sum(happened) / 4000, delta=0.03)
        self.assertEqual((4000, sum(happened)),
                         (fault['draws'], fault['injected']))

    def test_certain_and_impossible(self):
        self.assertTrue(all(self.draws(100, probability=1)[0]))
        self.assertFalse(any(self.draws(100, probability=0)[0]))

    def test_times_are_counted_when_it_happens(self):
        happened, fault = self.draws(3, times=3)
        self.assertEqual(([True] * 3, 0, 3),
                         (happened, fault['times'], fault['injected']))
        happened, fault = self.draws(10, probability=0.3, seed=7, times=5)
        self.assertEqual(5 - sum(happened), fault['times'])
