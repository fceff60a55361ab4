# SPDX-License-Identifier: Apache-2.0
"""Tasks in the order of their dependencies."""

import threading
import unittest
from unittest import mock

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import task_graph


class TaskGraphTestCase(unittest.TestCase):

    def run_tasks(self, *tasks, ended=None):
        self.stop = threading.Event()
        task_graph.run([task_graph.Task(*task) for task in tasks], self.stop,
                     ended)

    def test_order(self):
        done = []
        ended = []
        self.run_tasks(
            ('a', lambda: done.append('a')),
            ('b', lambda: done.append('b'), ('a',)),
            ('c', lambda: done.append('c'), ('b', 'before')),
            ended=ended.append)
        self.assertEqual(['a', 'b', 'c'], done)
        self.assertEqual(['a', 'b', 'c'], [task.name for task in ended])

    def test_failure_ends_it(self):
        done = []
        with self.assertRaisesRegex(errors.EnvironmentsError, '^a: no$'):
            self.run_tasks(
                ('a', mock.Mock(side_effect=exceptions.SDKException('no'))),
                ('b', lambda: done.append('b'), ('a',)))
        self.assertEqual([], done)

    def test_same_failure_is_told_once(self):
        fail = mock.Mock(side_effect=errors.EnvironmentsError('same'))
        with self.assertRaisesRegex(errors.EnvironmentsError, '^same$'):
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
                         for number in range(3 * task_graph.THREADS)))
        self.assertEqual(3 * task_graph.THREADS, len(done))

    def test_nothing_begins_after_a_failure(self):
        done = []
        with mock.patch.object(task_graph, 'THREADS', 1), \
                self.assertRaises(errors.EnvironmentsError):
            self.run_tasks(
                ('a', mock.Mock(side_effect=errors.EnvironmentsError('no'))),
                *((str(number), lambda: done.append(1))
                  for number in range(50)))
        self.assertEqual([], done)

    def test_nothing_depends_on_a_mistake_of_ours(self):
        done = []
        with self.assertRaises(ZeroDivisionError):
            self.run_tasks(('a', lambda: 1 / 0),
                           ('b', lambda: done.append('b'), ('a',)))
        self.assertEqual([], done)

    def test_one_thread_is_enough(self):
        done = []
        with mock.patch.object(task_graph, 'THREADS', 1):
            self.run_tasks(*(
                (str(number), lambda number=number: done.append(number),
                 tuple(map(str, range(number)))) for number in range(9)))
        self.assertEqual([*range(9)], done)
