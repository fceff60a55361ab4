# SPDX-License-Identifier: Apache-2.0
"""Nodes saved a few at a time."""

from concurrent import futures
import threading
import unittest

from quintupleo_power import saving


class Node:
    """What the module needs of an Ironic node."""

    def __init__(self, changed=('driver_internal_info',), save=None):
        self._changed = set(changed)
        self.save = save

    def obj_what_changed(self):
        return self._changed


class SaveTestCase(unittest.TestCase):

    def test_some_at_a_time(self):
        begun, go_on = threading.Semaphore(0), threading.Event()

        def save():
            begun.release()
            self.assertTrue(go_on.wait(60))

        number = 3 * saving.AT_ONCE
        with futures.ThreadPoolExecutor(number) as pool:
            saves = [pool.submit(saving.save_request, Node(save=save))
                     for _ in range(number)]
            try:
                for _ in range(saving.AT_ONCE):
                    self.assertTrue(begun.acquire(timeout=60))
                self.assertFalse(begun.acquire(timeout=0.1))
                # These stand in another line.
                saved = []
                saving.save_boot_device(Node(save=lambda: saved.append(1)))
                self.assertEqual([1], saved)
            finally:
                go_on.set()
            for each in saves:
                each.result()
        for _ in range(number - saving.AT_ONCE):
            self.assertTrue(begun.acquire(blocking=False))

    def test_failure_leaves_the_turn_to_the_next(self):
        def fail():
            raise ValueError('no database')

        for _ in range(saving.AT_ONCE):
            self.assertRaises(ValueError, saving.save_request, Node(save=fail))
        saved = []
        saving.save_request(Node(save=lambda: saved.append(True)))
        self.assertEqual([True], saved)

    def test_nothing_new_is_not_saved(self):
        saving.save_request(Node(changed=(), save=self.fail))
        saving.save_boot_device(Node(changed=(), save=self.fail))
