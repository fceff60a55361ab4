# SPDX-License-Identifier: Apache-2.0
"""What a person sees while an environment is made or removed."""

import collections
import shutil
import threading
import time

# Seconds between two lines where there is no terminal.
_PAUSE = 10


class Progress:
    """Counts what is done: one line that changes, or a line now and then."""

    def __init__(self, stream):
        """Show it.

        :param stream: where to; a terminal or anything else.
        """
        self._stream = stream
        self._terminal = stream.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._shown_at = self._began
        self._totals = {}
        self._done = collections.Counter()
        self._verb = ''
        self._width = 0

    def begin(self, verb, totals):
        """Begin a part of the work.

        :param verb: what is done, such as 'making'.
        :param totals: dict of numbers by what they count.
        """
        with self._lock:
            self._verb, self._totals = verb, dict(totals)
            self._done.clear()
            self._show(force=True)

    def done(self, what):
        """Count one.

        :param what: what it counts as, of the totals.
        """
        with self._lock:
            self._done[what] += 1
            complete = self._done[what] >= self._totals.get(what, 0)
            self._show(force=self._terminal or complete)

    def note(self, sentence):
        """Show a line that stays.

        :param sentence: the line.
        """
        with self._lock:
            self._clear()
            self._stream.write(f'{sentence}\n')
            self._stream.flush()

    def end(self):
        """Leave the terminal as it was."""
        with self._lock:
            self._clear()
            self._stream.flush()

    def _clear(self):
        if self._terminal and self._width:
            self._stream.write('\r' + ' ' * self._width + '\r')
            self._width = 0

    def _show(self, force):
        now = time.monotonic()
        if not force and now - self._shown_at < _PAUSE or not self._totals:
            return
        self._shown_at = now
        counts = ', '.join(f'{self._done[what]}/{total} {what}'
                           for what, total in self._totals.items())
        seconds = int(now - self._began)
        line = f'{self._verb}: {counts} ({seconds // 60}:{seconds % 60:02})'
        if self._terminal:
            self._clear()
            # What wraps could not be taken back.
            line = line[:shutil.get_terminal_size().columns - 1]
            self._width = len(line)
            self._stream.write(line)
        else:
            self._stream.write(f'{line}\n')
        self._stream.flush()
