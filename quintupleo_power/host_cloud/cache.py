# SPDX-License-Identifier: Apache-2.0

"""A cache whose entries have an age, and whose size has a bound."""

import threading
import time


class Cache:
    """Values by key, each with the time at which it was put here."""

    # More than the servers that one conductor has.
    MAX_SIZE = 10000

    def __init__(self, max_age):
        """Make an empty cache.

        :param max_age: seconds after which a value is dropped.
        """
        self._max_age = max_age
        self._values = {}
        self._lock = threading.Lock()

    def put(self, key, value):
        """Set a value; the oldest one goes where there are too many.

        :param key: what it is found by.
        :param value: the value.
        """
        with self._lock:
            # Dictionaries keep the order in which keys came.
            self._values.pop(key, None)
            self._values[key] = (time.monotonic(), value)
            while len(self._values) > self.MAX_SIZE:
                del self._values[next(iter(self._values))]

    def get(self, key):
        """Get a value.

        :param key: what it is found by.
        :returns: the value; None if it is missing or too old.
        """
        with self._lock:
            put_at, value = self._values.get(key, (None, None))
            if put_at is None:
                return None
            if time.monotonic() - put_at >= self._max_age:
                del self._values[key]
                return None
            return value

    def drop(self, key):
        """Remove a value, if there is one.

        :param key: what it is found by.
        """
        with self._lock:
            self._values.pop(key, None)

    def clear(self):
        """Remove all values."""
        with self._lock:
            self._values.clear()
