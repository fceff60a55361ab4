# SPDX-License-Identifier: Apache-2.0
"""What a user sees while an environment is created or removed."""

import collections
import shutil
import threading
import time

# Seconds between two lines on what is not a terminal.
_INTERVAL = 10


class Progress:
    """Counts what is done: one line that changes, or a line now and then."""

    def __init__(self, stream):
        """Write to a stream, which may be a terminal."""
        self._stream = stream
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._shown_at = self._began
        self._totals = {}
        self._done = collections.Counter()
        self._verb = ''

    def begin(self, verb, totals):
        """Begin a part of the work, such as 'making', with its totals."""
        with self._lock:
            self._verb, self._totals = verb, dict(totals)
            self._done.clear()
            self._show(force=True)

    def done(self, what):
        """Count one of the totals."""
        with self._lock:
            self._done[what] += 1
            complete = self._done[what] >= self._totals.get(what, 0)
            self._show(force=self._terminal or complete)

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

    def _show(self, force):
        now = time.monotonic()
        if (not force and now - self._shown_at < _INTERVAL
                or not self._totals):
            return
        self._shown_at = now
        counts = ', '.join(f'{self._done[what]}/{total} {what}'
                           for what, total in self._totals.items())
        seconds = int(now - self._began)
        line = f'{self._verb}: {counts} ({seconds // 60}:{seconds % 60:02})'
        # A line that wraps could not be erased.
        self._write(line[:shutil.get_terminal_size().columns - 1]
                    if self._terminal else f'{line}\n')
