# SPDX-License-Identifier: Apache-2.0
"""A call whose result many threads share."""

from collections import abc
from concurrent import futures
import threading
import time
import typing

from quintupleo_power.host_cloud import time_limit

# Seconds between two runs, at least, of a call that has pauses.
SHORTEST_PAUSE = 0.3


class SharedCall:
    """A function that runs once for all who ask for it before it begins.

    It runs in one thread of its own: each thread that decodes a long answer
    keeps megabytes of memory for the next one, and Ironic asks with many.
    """

    def __init__(self, function: abc.Callable[[], typing.Any], name: str,
                 longest_pause: float = 0.0):
        """Share a function, with pauses that are as long as its last run."""
        self._function = function
        self._longest_pause, self._rests_until = longest_pause, float('-inf')
        self._executor = futures.ThreadPoolExecutor(
            1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._current: futures.Future | None = None
        self._next: futures.Future | None = None

    def __call__(self, join: bool = False) -> typing.Any:
        """Return the result of a run that begins after this was called.

        :param join: whether a run that has begun before will do.
        """
        with self._lock:
            if join and self._current:
                call = self._current
            else:
                if self._next is None:
                    self._next = self._executor.submit(self._run)
                call = self._next
        return time_limit.wait(call)

    def _run(self):
        time.sleep(max(0.0, self._rests_until - time.monotonic()))
        with self._lock:
            self._current, self._next = self._next, None
        begun = time.monotonic()
        try:
            return self._function()
        finally:
            took = time.monotonic() - begun
            self._rests_until = time.monotonic() + min(
                max(took, SHORTEST_PAUSE), self._longest_pause)
            with self._lock:
                self._current = None
