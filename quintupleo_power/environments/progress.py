# SPDX-License-Identifier: Apache-2.0
"""What a user sees while an environment is created or removed."""

import collections
import shutil
import threading
import time


class Progress:
    """Counts what is done: one line that changes, or a line for each kind.

    A line of counts is shorter than 80 columns.
    """

    def __init__(self, stream):
        """Write to a stream, which may be a terminal."""
        self._stream = stream
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._totals = {}
        self._done = collections.Counter()
        self._verb = ''

    def begin(self, verb, totals):
        """Begin a part of the work, such as 'making', with its totals."""
        with self._lock:
            self._verb, self._totals = verb, dict(totals)
            self._done.clear()
            if self._terminal and totals:
                self._show()

    def done(self, what):
        """Count one of the totals."""
        with self._lock:
            self._done[what] += 1
            if self._terminal:
                self._show()
            elif self._done[what] == self._totals.get(what):
                self._show([what])

    def note(self, sentence):
        """Show a line that stays."""
        with self._lock:
            self._write(f'{sentence}\n')

    def end(self):
        """Leave the terminal as it was."""
        with self._lock:
            self._write('')

    def _write(self, text):
        # Erases the line that changes.
        self._stream.write(('\r\x1b[K' if self._terminal else '') + text)
        self._stream.flush()

    def _show(self, kinds=None):
        """Show the counts of some kinds, or of those that are not done."""
        counts = ', '.join(
            f'{self._done[what]}/{total} {what}'
            for what, total in self._totals.items()
            if (self._done[what] < total if kinds is None else what in kinds)
        ) or 'done'
        seconds = int(time.monotonic() - self._began)
        line = f'{seconds // 60}:{seconds % 60:02} {self._verb}: {counts}'
        # A line that wraps could not be erased.
        self._write(line[:min(80, shutil.get_terminal_size().columns) - 1]
                    if self._terminal else f'{line}\n')
