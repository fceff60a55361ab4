# SPDX-License-Identifier: Apache-2.0
"""Requests of the commands while the cloud is busy or away."""

import threading
import unittest
from unittest import mock

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import retry
from quintupleo_power.environments import task_graph


def http(code, **headers):
    answer = mock.Mock(headers={name.replace('_', '-'): value
                                for name, value in headers.items()})
    return exceptions.HttpException('x', response=None, http_status=code) \
        if not headers else _with(exceptions.HttpException(
            'x', http_status=code), answer)


def _with(exc, answer):
    exc.response = answer
    return exc


class RetrierTestCase(unittest.TestCase):

    def setUp(self):
        wait = mock.patch.object(retry, '_BACKOFF', lambda retry_state: 0)
        wait.start()
        self.addCleanup(wait.stop)
        self.retrier = retry.Retrier()

    def test_passing_trouble(self):
        for exc in (http(429, Retry_After='0'), http(500), http(502),
                    http(503), http(504), ks_exceptions.ConnectFailure('x')):
            request = mock.Mock(side_effect=[exc, exc, 'done'])
            self.assertEqual('done', self.retrier.call(request, 1, a=2))
            request.assert_called_with(1, a=2)

    def test_what_does_not_pass(self):
        for exc in (http(400), http(403), http(404), http(409),
                    ks_exceptions.MissingAuthPlugin('x'), KeyError('x')):
            request = mock.Mock(side_effect=exc)
            with self.assertRaises(type(exc)):
                self.retrier.call(request)
            request.assert_called_once_with()

    def test_timeout(self):
        request = mock.Mock(side_effect=http(503))
        with self.assertRaises(exceptions.HttpException):
            retry.Retrier(timeout=0).call(request)

    def test_made_or_not(self):
        find = mock.Mock(side_effect=[None, 'found'])
        request = mock.Mock(side_effect=http(502))
        self.assertEqual('found', self.retrier.create(find, request))
        self.assertEqual(2, request.call_count)

    def test_not_looked_for_without_need(self):
        find = mock.Mock()
        self.assertEqual(1, self.retrier.create(find, lambda: 1))
        find.assert_not_called()

    def test_busy_cloud_is_left_alone_as_long_as_it_asks(self):
        for asked, seconds in (('20', 20.0), ('3600', 60.0),
                               ('Wed, 21 Oct', 0)):
            request = mock.Mock(side_effect=[http(429, Retry_After=asked),
                                             'done'])
            with mock.patch.object(self.retrier, 'sleep',
                                   autospec=True) as sleep:
                self.assertEqual('done', self.retrier.call(request))
            sleep.assert_any_call(seconds)

    def test_requests_at_once(self):
        counted = retry.Retrier(concurrency=2)
        running, most = [], []
        # Nobody goes on before another one is there.
        pairs = threading.Barrier(2, timeout=60)

        def request():
            running.append(1)
            most.append(len(running))
            pairs.wait()
            running.pop()

        task_graph.run([task_graph.Task(str(number), lambda: counted.call(
            request)) for number in range(10)], counted.stop)
        self.assertEqual(2, max(most))

    def test_stopped(self):
        self.retrier.stop.set()
        with self.assertRaises(errors.EnvironmentsError):
            self.retrier.call(mock.Mock())
