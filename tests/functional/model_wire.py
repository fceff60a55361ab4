# SPDX-License-Identifier: Apache-2.0
"""What lies between the driver and the host cloud, and what goes wrong there.

It sits in this process below the driver's HTTP session, so that a certain
request of the driver is hit, and again in the next run.
"""

import contextlib
import io

import requests
from requests import adapters
import urllib3


class Killed(BaseException):
    """The conductor process ends here, as by kill -9."""


class Wire:
    """What lies between the driver and the host cloud."""

    def __init__(self):
        """Get between; nothing is disturbed yet."""
        self._disturbance = None
        self._listening = False
        self.requests = []
        send = adapters.HTTPAdapter.send

        def through(adapter, request, *args, **kwargs):
            def deliver():
                return send(adapter, request, *args, **kwargs)
            return (self._pass(request, deliver) if self._listening
                    else deliver())

        adapters.HTTPAdapter.send = through

    def _pass(self, request, deliver):
        # What the disturbance itself asks of the cloud is not the driver's.
        self._listening = False
        try:
            self.requests.append(f'{request.method} {request.path_url}')
            if self._disturbance is None:
                return deliver()
            return self._disturbance.pass_on(request, deliver)
        finally:
            self._listening = True

    @contextlib.contextmanager
    def driver(self, disturbance=None):
        """Let the driver work, with a :class:`Disturbance` or without."""
        self._disturbance = disturbance
        self.requests.clear()
        self._listening = True
        try:
            yield
        finally:
            self._listening = False
            self._disturbance = None


class Disturbance:
    """Something that happens around the n-th request of the driver."""

    def __init__(self, at, of_actions, times=1):
        """Wait for a request.

        :param at: how many to let pass before.
        :param of_actions: whether only server actions count.
        :param times: how many in a row it happens to.
        """
        self._at = at
        self._of_actions = of_actions
        self._times = times
        self.struck = False

    def pass_on(self, request, deliver):
        """Deliver a request or do something else."""
        if self._of_actions and not (request.method == 'POST'
                                     and request.url.endswith('/action')):
            return deliver()
        if self._at > 0:
            self._at -= 1
            return deliver()
        if not self._times:
            return deliver()
        self._times -= 1
        self.struck = True
        return self.strike(request, deliver)

    def strike(self, request, deliver):
        """Do it."""
        raise NotImplementedError


class Fault(Disturbance):
    """The cloud or the way to it fails."""

    def __init__(self, kind, *args, **kwargs):
        """Fail in one way.

        :param kind: a key of :data:`FAULTS`.
        """
        super().__init__(*args, **kwargs)
        self._kind = kind

    def strike(self, request, deliver):
        """Fail."""
        return FAULTS[self._kind](request, deliver)


def _answer(status, reached=False, request_id=None):
    def fail(request, deliver):
        if reached:
            deliver()
        answer = requests.Response()
        answer.status_code = status
        answer.request = request
        answer.url = request.url
        answer.headers['Content-Type'] = 'text/html'
        if request_id:
            answer.headers['x-openstack-request-id'] = request_id
        if status == 429:
            answer.headers['Retry-After'] = '0'
        answer.raw = urllib3.HTTPResponse(
            io.BytesIO(b'<html><body>It did not go well</body></html>'),
            status=status, preload_content=False)
        return answer
    return fail


def _cut(error, reached):
    def fail(request, deliver):
        if reached:
            deliver()
        raise error('Connection aborted.', request=request)
    return fail


def _garbage(request, deliver):
    answer = deliver()
    answer._content = answer.content[:len(answer.content) // 2]
    return answer


FAULTS = {
    **{f'answer {status}': _answer(status, request_id='req-1')
       for status in (401, 409, 429, 500, 503)},
    **{f'answer {status} of a proxy': _answer(status)
       for status in (403, 404, 405, 502, 504)},
    'answer 502 to what was carried out': _answer(502, reached=True),
    'connection cut before': _cut(requests.exceptions.ConnectionError, False),
    'connection cut after': _cut(requests.exceptions.ConnectionError, True),
    'no answer in time': _cut(requests.exceptions.ReadTimeout, True),
    'answer cut short': _garbage,
}


class Meddle(Disturbance):
    """Somebody goes past Ironic in the middle of a request of it."""

    def __init__(self, meddle, *args, **kwargs):
        """Call a function.

        :param meddle: the function; it takes nothing.
        """
        super().__init__(*args, **kwargs)
        self._meddle = meddle

    def strike(self, request, deliver):
        """Meddle, then go on."""
        self._meddle()
        return deliver()


class Kill(Disturbance):
    """The conductor dies."""

    def __init__(self, reached, *args, **kwargs):
        """Die before a request or after it was sent."""
        super().__init__(*args, **kwargs)
        self._reached = reached

    def strike(self, request, deliver):
        """Die."""
        if self._reached:
            deliver()
        raise Killed
