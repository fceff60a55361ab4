# SPDX-License-Identifier: Apache-2.0
"""Nodes saved in the course of requests, of which there may be many at once.

All threads of a conductor share one interpreter, and to save a node is mostly
work of that. Many at once take turns in the midst of it and all end late; a
few at a time end one after the other, and their machines are on their way
meanwhile.
"""

import threading

# Enough to keep the interpreter busy while the database answers.
AT_ONCE = 5

# Two lines: a request that is about to be sent is not behind nodes that are
# only told what to boot from next.
_of_boot_devices = threading.Semaphore(AT_ONCE)
_of_requests = threading.Semaphore(AT_ONCE)


def save_boot_device(node):
    """Save what a node is wished to boot from, if that is new.

    :param node: an Ironic node.
    """
    _save(node, _of_boot_devices)


def save_request(node):
    """Save what was noted of a request for a node, if anything is new.

    :param node: an Ironic node.
    """
    _save(node, _of_requests)


def _save(node, turns):
    if node.obj_what_changed():
        with turns:
            node.save()
