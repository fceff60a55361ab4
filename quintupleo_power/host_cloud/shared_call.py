# SPDX-License-Identifier: Apache-2.0
"""A call whose result many threads share."""

from collections import abc
from concurrent import futures
import threading
import time
import typing

from quintupleo_power.host_cloud import time_limit


class SharedCall:
    """A function that runs once for all who ask for it before it begins.

    It runs in one thread of its own: each thread that decodes a long answer
    keeps megabytes of memory for the next one, and Ironic asks with many.
    """

    def __init__(self, function: abc.Callable[[], typing.Any], name: str,
                 pause: abc.Callable[[float], float] = lambda took: 0.0):
        """Share a function, which runs in a thread of a name.

        :param pause: function of the seconds that the last run took. It
            returns how long the next one waits for others who ask.
        """
        self._function = function
        self._pause, self._took = pause, 0.0
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
        time.sleep(self._pause(self._took))
        with self._lock:
            self._current, self._next = self._next, None
        begun = time.monotonic()
        try:
            return self._function()
        finally:
            self._took = time.monotonic() - begun
            with self._lock:
                self._current = None
