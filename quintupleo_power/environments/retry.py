# SPDX-License-Identifier: Apache-2.0
"""Requests to a cloud that is busy, slow or unreachable for a moment."""

import threading

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions
import tenacity

from quintupleo_power.environments import errors
from quintupleo_power.host_cloud import answers

CONCURRENCY = 10
# Seconds for which one request is tried again.
TIMEOUT = 120
# Seconds between two reads of what is under way.
INTERVAL = 2.0
_STATUS_CODES = (429, 500, 502, 503, 504)
_NO_RESPONSE = (ks_exceptions.ConnectFailure, ks_exceptions.DiscoveryFailure)
# What Neutron raises for a resource that cannot exist twice.
_CONFLICTS = (exceptions.ConflictException, exceptions.BadRequestException)
_BACKOFF = tenacity.wait_random_exponential(multiplier=0.5, max=15)


class Retrier:
    """Sends requests again after errors that pass.

    All threads share one, which limits how many requests they send at once.
    Requests raise errors.CLOUD_ERRORS.

    :ivar stop: event that ends all waiting, with EnvironmentsError.
    """

    def __init__(self, concurrency=CONCURRENCY, timeout=TIMEOUT):
        """Allow so many requests at once, each tried for some seconds."""
        self.stop = threading.Event()
        self._slots = threading.BoundedSemaphore(concurrency)
        self._timeout = timeout

    def sleep(self, seconds):
        """Wait for some seconds, or raise if the work is to end."""
        if self.stop.wait(max(0.0, seconds)):
            raise errors.EnvironmentsError('stopped before it was done')

    def call(self, function, *args, **kwargs):
        """Send a request that does no harm if it is sent twice."""
        return self._retrying_requests()(
            self._send, function, *args, **kwargs)

    def read_all(self, function, **filters):
        """Return a list of what one of openstacksdk's generators yields."""
        return self.call(lambda: list(function(**filters)))

    def create(self, find, function, *args, **kwargs):
        """Send a request that creates a resource, once.

        Look for the resource after an error that leaves open whether it was
        created. Do so after a refusal, too: the last request of a command
        that was killed may have been served meanwhile.

        :param find: function that returns the resource, or None.
        """
        tried = []

        def create():
            resource = find() if tried else None
            if resource is not None:
                return resource
            tried.append(True)
            try:
                return self._send(function, *args, **kwargs)
            except _CONFLICTS:
                resource = find()
                if resource is None:
                    raise
                return resource

        return self._retrying_requests()(create)

    def retry_on(self, exception_types, timeout, function, *args):
        """Call a function again while it raises errors of some types."""
        return self._retrying(
            tenacity.retry_if_exception_type(exception_types), timeout,
            tenacity.wait_fixed(INTERVAL))(function, *args)

    def poll(self, read, is_done, timeout):
        """Read something until it is done; return what was read last."""
        return self._retrying(tenacity.retry_if_not_result(is_done), timeout,
                              tenacity.wait_fixed(INTERVAL))(read)

    def _retrying(self, condition, timeout, wait):
        return tenacity.Retrying(
            retry=condition, stop=tenacity.stop_after_delay(timeout),
            wait=wait, sleep=self.sleep,
            retry_error_callback=lambda state: state.outcome.result())

    def _retrying_requests(self):
        return self._retrying(tenacity.retry_if_exception(_is_retriable),
                              self._timeout, _wait)

    def _send(self, function, *args, **kwargs):
        with self._slots:
            self.sleep(0)
            return function(*args, **kwargs)


def _is_retriable(exc):
    # openstacksdk's name, and keystoneauth's.
    status = getattr(exc, 'status_code', getattr(exc, 'http_status', None))
    return isinstance(exc, _NO_RESPONSE) or (
        isinstance(exc, errors.CLOUD_ERRORS) and status in _STATUS_CODES)


def _wait(retry_state):
    """Return the seconds to the next attempt, at least those asked for."""
    # Older releases of tenacity pass the state by that name.
    response = getattr(retry_state.outcome.exception(), 'response', None)
    asked = 0.0 if response is None else answers.retry_after(response)
    return max(min(60.0, asked), _BACKOFF(retry_state))
