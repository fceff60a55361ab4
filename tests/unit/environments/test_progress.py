# SPDX-License-Identifier: Apache-2.0
"""What a user sees of the progress."""

import io
import time
import unittest
from unittest import mock

from quintupleo_power.environments import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTestCase(unittest.TestCase):

    def test_terminal(self):
        stream = Terminal()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 2})
        shown.done('ports')
        shown.note('A sentence.')
        shown.end()
        text = stream.getvalue()
        self.assertIn('\r\x1b[K0:00 making: 1/2 ports', text)
        self.assertIn('A sentence.\n', text)
        self.assertEqual(1, text.count('\n'))

    def test_narrow_terminal(self):
        stream = Terminal()
        with mock.patch.dict('os.environ', COLUMNS='20'):
            progress.Progress(stream).begin('making', {'ports': 200,
                                                       'servers': 100})
        self.assertEqual('\r\x1b[K0:00 making: 0/200 ', stream.getvalue())

    def test_wide_terminal(self):
        stream = Terminal()
        kinds = {f'kind {number}': 1 for number in range(20)}
        with mock.patch.dict('os.environ', COLUMNS='200'):
            shown = progress.Progress(stream)
            shown.begin('making', kinds)
            for kind in kinds:
                shown.done(kind)
        first, *_, last = stream.getvalue().split('\r\x1b[K')[1:]
        self.assertEqual(79, len(first))
        self.assertEqual('0:00 making: done', last)

    def test_only_what_is_not_done(self):
        stream = Terminal()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 1, 'servers': 1})
        shown.done('ports')
        self.assertTrue(stream.getvalue().endswith('making: 0/1 servers'))

    def test_lines(self):
        stream = io.StringIO()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 3, 'servers': 1})
        shown.done('ports')
        shown.done('ports')
        with mock.patch('time.monotonic', autospec=True,
                        return_value=time.monotonic() + 75):
            shown.done('ports')
        shown.end()
        self.assertEqual(
            ['1:15 making: 3/3 ports'], stream.getvalue().splitlines())

    def test_nothing_to_do(self):
        stream = io.StringIO()
        progress.Progress(stream).begin('making', {})
        self.assertEqual('', stream.getvalue())
