# SPDX-License-Identifier: Apache-2.0
"""When to poll a server whose action is under way."""

import collections
from collections import abc
import statistics
import threading


class PollSchedule:
    """The pauses between polls, learnt from how long actions took before."""

    # How many of the last times of an action count.
    REMEMBERED = 5
    # Seconds before the first poll where nothing is known of an action.
    FIRST = 0.4
    SHORTEST = 0.05
    # The first pause after the time that an action usually takes, as a share
    # of that time, and how much longer each one is than the one before.
    SHARE = 0.08
    GROWTH = 1.5
    # What counts of the times of an action when the first poll finds it over:
    # nobody knows for how long it has been.
    SOONER = 0.9

    def __init__(self, longest: float):
        """Start with no times, and at most so many seconds between polls."""
        self._longest = longest
        self._lock = threading.Lock()
        self._times: dict[str, collections.deque[float]] = {}

    def learn(self, name: str, seconds: float, polls: int) -> None:
        """Remember the seconds to the poll, of so many, that saw the end."""
        with self._lock:
            times = self._times.setdefault(
                name, collections.deque(maxlen=self.REMEMBERED))
            times.append(seconds)
            if polls == 1:
                for index, known in enumerate(times):
                    times[index] = min(known, seconds) * self.SOONER

    def pauses(self, name: str) -> abc.Iterator[float]:
        """Return the pauses in seconds before each poll of an action."""
        with self._lock:
            times = list(self._times.get(name, ()))
        usual = statistics.median_low(times) if times else None
        # A first poll that comes much too late would keep somebody waiting
        # who has an ordinary action after a few slow ones.
        pause = min(self.FIRST if usual is None else usual,
                    2 * self._longest)
        yield max(pause, self.SHORTEST)
        pause *= self.GROWTH if usual is None else self.SHARE
        while True:
            yield min(max(pause, self.SHORTEST), self._longest)
            pause *= self.GROWTH
