# SPDX-License-Identifier: Apache-2.0
"""A cache whose entries have an age, and whose size has a bound."""

from collections import abc
import threading
import time
import typing


class Cache:
    """Values by key, each with the time at which it was put here."""

    # More than the servers that one conductor has.
    MAX_SIZE = 10000

    def __init__(self, max_age: float):
        """Make an empty cache, which drops values after so many seconds."""
        self._max_age = max_age
        self._values: dict[abc.Hashable, tuple[float, typing.Any]] = {}
        self._lock = threading.Lock()

    def put(self, key: abc.Hashable, value: typing.Any) -> None:
        """Set a value; the oldest ones go where they are too old or many."""
        with self._lock:
            # Dictionaries keep the order in which keys came.
            self._values.pop(key, None)
            self._values[key] = (time.monotonic(), value)
            while (len(self._values) > self.MAX_SIZE
                   or self._is_old(next(iter(self._values.values())))):
                del self._values[next(iter(self._values))]

    def get(self, key: abc.Hashable) -> typing.Any:
        """Return a value; None if it is missing or too old."""
        with self._lock:
            found = self._values.get(key)
            return None if not found or self._is_old(found) else found[1]

    def items(self) -> list[tuple[typing.Any, typing.Any]]:
        """Return all keys and values."""
        with self._lock:
            return [(key, each[1]) for key, each in self._values.items()
                    if not self._is_old(each)]

    def _is_old(self, entry):
        return time.monotonic() - entry[0] >= self._max_age

    def drop(self, key: abc.Hashable) -> None:
        """Remove a value, if there is one."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
