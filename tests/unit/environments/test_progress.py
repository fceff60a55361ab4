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
        self.assertIn('\r\x1b[Kmaking: 1/2 ports (0:00)', text)
        self.assertIn('A sentence.\n', text)
        self.assertEqual(1, text.count('\n'))

    def test_narrow_terminal(self):
        stream = Terminal()
        with mock.patch.dict('os.environ', COLUMNS='20'):
            progress.Progress(stream).begin('making', {'ports': 200,
                                                       'servers': 100})
        self.assertEqual('\r\x1b[Kmaking: 0/200 ports', stream.getvalue())

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
            ['making: 0/3 ports, 0/1 servers (0:00)',
             'making: 3/3 ports, 0/1 servers (1:15)'],
            stream.getvalue().splitlines())

    def test_nothing_to_do(self):
        stream = io.StringIO()
        progress.Progress(stream).begin('making', {})
        self.assertEqual('', stream.getvalue())
