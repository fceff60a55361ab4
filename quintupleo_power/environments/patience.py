# SPDX-License-Identifier: Apache-2.0
"""Requests to a cloud that is busy, slow or away for a moment."""

import threading
import time

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions
import tenacity

from quintupleo_power.environments import failures

CONCURRENCY = 10
# A request is tried again for this many seconds.
LONGEST = 120
_AGAIN = (429, 500, 502, 503, 504)
# Neutron's answers to what cannot be there twice.
_IN_THE_WAY = (exceptions.ConflictException, exceptions.BadRequestException)
_WAIT = tenacity.wait_random_exponential(multiplier=0.5, max=15)


class Patience:
    """Sends requests again where that helps, and slower where asked for.

    All threads share one, so that a cloud that asks one of them to wait
    (HTTP 429) is left alone by all.

    :ivar stop: event that ends all waiting.
    """

    def __init__(self, concurrency=CONCURRENCY, longest=LONGEST):
        """Start.

        :param concurrency: how many requests may be under way at once.
        :param longest: seconds for which one request is tried again.
        """
        self.stop = threading.Event()
        self._slots = threading.BoundedSemaphore(concurrency)
        self._longest = longest
        self._quiet_until = 0.0

    def wait(self, seconds):
        """Wait.

        :param seconds: how long.
        :raises: failures.Stopped if everything is to end.
        """
        if self.stop.wait(max(0.0, seconds)):
            raise failures.Stopped('stopped before it was done')

    def call(self, function, *args, **kwargs):
        """Send a request that does no harm if it is sent twice.

        :param function: what sends it.
        :param args: its arguments.
        :param kwargs: its keyword arguments.
        :returns: what that returns.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        return self._retrying(_may_pass)(self._send, function, *args,
                                         **kwargs)

    def make(self, find, function, *args, **kwargs):
        """Send a request that makes something, once.

        After an answer that leaves open whether it was made, it is looked
        for; after a refusal, too, as a killed command's last request may
        have been served since.

        :param find: function that returns what was made, or None.
        :param function: what sends the request.
        :param args: its arguments.
        :param kwargs: its keyword arguments.
        :returns: what that returns, or what was found.
        :raises: one of failures.CLOUD_ERRORS, or failures.Stopped.
        """
        tried = []

        def make():
            found = find() if tried else None
            if found is not None:
                return found
            tried.append(True)
            try:
                return self._send(function, *args, **kwargs)
            except _IN_THE_WAY:
                found = find()
                if found is None:
                    raise
                return found

        return self._retrying(_may_pass)(make)

    def _retrying(self, condition):
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(condition), wait=_WAIT,
            stop=tenacity.stop_after_delay(self._longest),
            sleep=self.wait, reraise=True)

    def _send(self, function, *args, **kwargs):
        # Others may prolong it meanwhile.
        while (pause := self._quiet_until - time.monotonic()) > 0:
            self.wait(pause)
        try:
            with self._slots:
                self.wait(0)
                return function(*args, **kwargs)
        except failures.CLOUD_ERRORS as exc:
            if failures.status(exc) == 429:
                self._quiet_until = max(
                    self._quiet_until, time.monotonic() + _retry_after(exc))
            raise


def _may_pass(exc):
    """Whether a request may succeed a little later."""
    if not isinstance(exc, failures.CLOUD_ERRORS):
        return False
    code = failures.status(exc)
    if code is None:
        return isinstance(exc, _NO_ANSWER)
    return code in _AGAIN


_NO_ANSWER = (ks_exceptions.ConnectFailure,
              ks_exceptions.DiscoveryFailure)


def _retry_after(exc):
    """Seconds for which the cloud asks not to be asked."""
    answer = getattr(exc, 'response', None)
    headers = getattr(answer, 'headers', None) or {}
    try:
        return min(60.0, max(0.0, float(headers.get('Retry-After', 1))))
    except ValueError:
        return 1.0
