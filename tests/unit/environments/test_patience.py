# SPDX-License-Identifier: Apache-2.0
"""Requests of the commands while the cloud is busy or away."""

import io
import threading
import time
import unittest
from unittest import mock

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.environments import failures
from quintupleo_power.environments import parallel
from quintupleo_power.environments import patience
from quintupleo_power.environments import progress


def http(code, **headers):
    answer = mock.Mock(headers={name.replace('_', '-'): value
                                for name, value in headers.items()})
    return exceptions.HttpException('x', response=None, http_status=code) \
        if not headers else _with(exceptions.HttpException(
            'x', http_status=code), answer)


def _with(exc, answer):
    exc.response = answer
    return exc


class PatienceTestCase(unittest.TestCase):

    def setUp(self):
        wait = mock.patch.object(patience, '_WAIT', lambda retry_state: 0)
        wait.start()
        self.addCleanup(wait.stop)
        self.patience = patience.Patience()

    def test_passing_trouble(self):
        for exc in (http(429, Retry_After='0'), http(500), http(502),
                    http(503), http(504), ks_exceptions.ConnectFailure('x')):
            request = mock.Mock(side_effect=[exc, exc, 'done'])
            self.assertEqual('done', self.patience.call(request, 1, a=2))
            request.assert_called_with(1, a=2)

    def test_what_does_not_pass(self):
        for exc in (http(400), http(403), http(404), http(409),
                    ks_exceptions.MissingAuthPlugin('x'), KeyError('x')):
            request = mock.Mock(side_effect=exc)
            with self.assertRaises(type(exc)):
                self.patience.call(request)
            request.assert_called_once_with()

    def test_patience_ends(self):
        request = mock.Mock(side_effect=http(503))
        with self.assertRaises(exceptions.HttpException):
            patience.Patience(longest=0).call(request)

    def test_made_or_not(self):
        find = mock.Mock(side_effect=[None, 'found'])
        request = mock.Mock(side_effect=http(502))
        self.assertEqual('found', self.patience.make(find, request))
        self.assertEqual(2, request.call_count)

    def test_not_looked_for_without_need(self):
        find = mock.Mock()
        self.assertEqual(1, self.patience.make(find, lambda: 1))
        find.assert_not_called()

    def test_all_leave_a_busy_cloud_alone(self):
        hasty = patience.Patience(longest=0)
        began = time.monotonic()
        with self.assertRaises(exceptions.HttpException):
            hasty.call(mock.Mock(side_effect=http(429, Retry_After='0.3')))
        hasty.call(mock.Mock())
        self.assertGreaterEqual(time.monotonic() - began, 0.29)

    def test_retry_after_that_is_no_number(self):
        self.assertEqual(1.0, patience._retry_after(
            http(429, Retry_After='Wed, 21 Oct')))
        self.assertEqual(1.0, patience._retry_after(http(429)))

    def test_requests_at_once(self):
        counted = patience.Patience(concurrency=2)
        running, most = [], []
        # Nobody goes on before another one is there.
        pairs = threading.Barrier(2, timeout=60)

        def request():
            running.append(1)
            most.append(len(running))
            pairs.wait()
            running.pop()

        parallel.run([parallel.Task(str(number), lambda: counted.call(
            request)) for number in range(10)], counted.stop)
        self.assertEqual(2, max(most))

    def test_stopped(self):
        self.patience.stop.set()
        with self.assertRaises(failures.Stopped):
            self.patience.call(mock.Mock())


class ParallelTestCase(unittest.TestCase):

    def run_tasks(self, *tasks, ended=None):
        self.stop = threading.Event()
        parallel.run([parallel.Task(*task) for task in tasks], self.stop,
                     ended)

    def test_order(self):
        done = []
        ended = []
        self.run_tasks(
            ('c', lambda: done.append('c'), ('b', 'before')),
            ('b', lambda: done.append('b'), ('a',)),
            ('a', lambda: done.append('a')), ended=ended.append)
        self.assertEqual(['a', 'b', 'c'], done)
        self.assertEqual(['a', 'b', 'c'], [task.name for task in ended])

    def test_failure_ends_it(self):
        done = []
        with self.assertRaisesRegex(failures.Failure, '^a: no$'):
            self.run_tasks(
                ('a', mock.Mock(side_effect=exceptions.SDKException('no'))),
                ('b', lambda: done.append('b'), ('a',)))
        self.assertEqual([], done)

    def test_same_failure_is_told_once(self):
        fail = mock.Mock(side_effect=failures.Failure('same'))
        with self.assertRaisesRegex(failures.Failure, '^same$'):
            self.run_tasks(('a', fail), ('b', fail))

    def test_interrupt(self):
        with self.assertRaises(KeyboardInterrupt):
            self.run_tasks(('a', mock.Mock(side_effect=KeyboardInterrupt)))
        self.assertTrue(self.stop.is_set())

    def test_mistake_of_ours(self):
        with self.assertRaises(ZeroDivisionError):
            self.run_tasks(('a', lambda: 1 / 0))

    def test_many(self):
        done = []
        self.run_tasks(*((str(number), lambda: done.append(1))
                         for number in range(3 * parallel.THREADS)))
        self.assertEqual(3 * parallel.THREADS, len(done))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTestCase(unittest.TestCase):

    def test_terminal(self):
        stream = Terminal()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 2})
        shown.done('ports')
        shown.note('A sentence.')
        shown.end()
        text = stream.getvalue()
        self.assertIn('\rmaking: 1/2 ports (0:00)', text.replace(
            '\r' + ' ' * 25, ''))
        self.assertIn('A sentence.\n', text)
        self.assertEqual(1, text.count('\n'))

    def test_narrow_terminal(self):
        stream = Terminal()
        with mock.patch.dict('os.environ', COLUMNS='20'):
            progress.Progress(stream).begin('making', {'ports': 200,
                                                       'servers': 100})
        self.assertEqual('making: 0/200 ports', stream.getvalue())

    def test_lines(self):
        stream = io.StringIO()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 3, 'servers': 1})
        shown.done('ports')
        shown.done('ports')
        shown.done('ports')
        shown.end()
        self.assertEqual(
            ['making: 0/3 ports, 0/1 servers (0:00)',
             'making: 3/3 ports, 0/1 servers (0:00)'],
            stream.getvalue().splitlines())

    def test_now_and_then(self):
        stream = io.StringIO()
        shown = progress.Progress(stream)
        shown.begin('making', {'ports': 3})
        with mock.patch('time.monotonic', autospec=True,
                        return_value=time.monotonic() + 75):
            shown.done('ports')
        self.assertIn('making: 1/3 ports (1:15)', stream.getvalue())

    def test_nothing_to_do(self):
        stream = io.StringIO()
        progress.Progress(stream).begin('making', {})
        self.assertEqual('', stream.getvalue())
