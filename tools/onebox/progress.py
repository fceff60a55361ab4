# SPDX-License-Identifier: Apache-2.0
"""Progress as a person wants to see it: stages, time, what is waited for."""

import contextlib
import sys
import threading
import time


def elapsed(seconds):
    """Format a duration: ``0.4 s``, ``12 s`` or ``3 min 05 s``."""
    if seconds < 9.95:
        return '%.1f s' % seconds
    if seconds < 59.5:
        return '%.0f s' % seconds
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return '%d min %02d s' % (minutes, rest)


class Stage:
    """One stage of the work, with steps that may run at the same time."""

    def __init__(self, progress, number, name, expected=None):
        self.name = name
        self.expected = expected
        self.started = progress.now()
        self.ended = None
        self.outcome = 'running'
        self.label = progress.label(number)
        self._progress = progress
        self._running = []
        self._waiting = ''

    def duration(self):
        """Seconds from the start to the end, or to now."""
        return (self.ended or self._progress.now()) - self.started

    def note(self, text):
        """Print a line that stays."""
        self._progress.line('      ' + text)

    def waiting(self, text):
        """Say what the stage waits for from now on."""
        if text != self._waiting:
            self._waiting = text
            self._progress.changed('      waiting for %s' % text)

    @contextlib.contextmanager
    def step(self, name):
        """Run a named part of the stage."""
        started = self._progress.now()
        self._running.append(name)
        try:
            yield self
        except BaseException:
            self._running.remove(name)
            raise
        self._running.remove(name)
        self.note('%-28s %8s' % (
            name, elapsed(self._progress.now() - started)))

    def status_line(self):
        """The line that a terminal shows while the stage runs."""
        busy = self._waiting or ', '.join(self._running)
        return '%s %s  %s%s  %s' % (
            self.label, self.name, elapsed(self.duration()),
            ' of about %s' % elapsed(self.expected) if self.expected else '',
            busy)


class Progress:
    """Named stages with the time they took.

    On a terminal the running stage is a line that is updated in place;
    elsewhere each stage, step and wait is a line of its own.

    :param title: what the stages make together.
    :param total: how many stages there will be, if that is known.
    :param stream: where to print; standard output by default.
    :param clock: function that returns seconds.
    :param expected: seconds that stages took the last time, by their names.
    """

    REFRESH = 0.25

    def __init__(self, title, total=None, stream=None, clock=time.monotonic,
                 expected=None):
        self.title = title
        self._expected = expected or {}
        self.stages = []
        self._total = total
        self._stream = stream or sys.stdout
        self._clock = clock
        self._lock = threading.RLock()
        self._started = clock()
        self._terminal = self._stream.isatty()
        self._current = None

    def now(self):
        """Seconds since the work began."""
        return self._clock() - self._started

    def label(self, number):
        """The number of a stage as it is printed."""
        if self._total:
            return '[%d/%d]' % (number, self._total)
        return '[%d]' % number

    @contextlib.contextmanager
    def stage(self, name):
        """Run a stage; a failure in it is shown and raised again."""
        stage = Stage(self, len(self.stages) + 1, name,
                      self._expected.get(name))
        self.stages.append(stage)
        stop = threading.Event()
        ticker = self._begin(stage, stop)
        outcome = 'failed'
        try:
            yield stage
            outcome = 'done'
        except KeyboardInterrupt:
            outcome = 'interrupted'
            raise
        finally:
            stop.set()
            if ticker:
                ticker.join()
            self._end(stage, outcome)

    def line(self, text):
        """Print a line that stays."""
        with self._lock:
            self._clear()
            self._stream.write(text + '\n')
            self._stream.flush()

    def changed(self, text):
        """Show a change; a terminal sees it in the line being updated."""
        if not self._terminal:
            self.line(text)

    def table(self):
        """Return lines that say when each stage began and how long."""
        width = max([len(stage.name) for stage in self.stages] + [5])
        lines = ['%-*s  %12s  %12s  %s' % (
            width, 'Stage', 'began at', 'took', 'outcome')]
        for stage in self.stages:
            lines.append('%-*s  %12s  %12s  %s' % (
                width, stage.name, elapsed(stage.started),
                elapsed(stage.duration()), stage.outcome))
        lines.append('%-*s  %12s  %12s' % (
            width, 'total', '', elapsed(self.now())))
        return lines

    def summary(self):
        """Print the table of stages."""
        self.line('')
        for line in self.table():
            self.line('  ' + line)

    def _begin(self, stage, stop):
        if not self._terminal:
            self.line('%s %s%s' % (
                stage.label, stage.name, ' (%s the last time)' % elapsed(
                    stage.expected) if stage.expected else ''))
            return None
        self._current = stage
        ticker = threading.Thread(target=self._tick, args=(stop,),
                                  daemon=True)
        ticker.start()
        return ticker

    def _tick(self, stop):
        while not stop.wait(self.REFRESH):
            with self._lock:
                self._clear()
                self._stream.write(self._current.status_line()[:self._width()])
                self._stream.flush()

    def _end(self, stage, outcome):
        stage.ended = self.now()
        stage.outcome = outcome
        self._current = None
        self.line('%s %s: %s, %s' % (
            stage.label, stage.name, outcome, elapsed(stage.duration())))

    def _clear(self):
        if self._terminal:
            self._stream.write('\r\033[K')

    @staticmethod
    def _width():
        import shutil
        return max(shutil.get_terminal_size().columns - 1, 20)
