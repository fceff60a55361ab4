# SPDX-License-Identifier: Apache-2.0
"""What all tests have in common."""

import gc
import signal

import pytest


def pytest_sessionstart(session):
    """Let SIGTERM end tests as Ctrl-C does, which undoes what they made."""
    def end(number, frame):
        # A second one must not stop the undoing, nor be ignored by a child.
        signal.signal(number, lambda *_: None)
        # A test that catches every exception ends by itself.
        session.shouldstop = 'told to end by SIGTERM'
        pytest.exit(session.shouldstop, returncode=128 + number)

    signal.signal(signal.SIGTERM, end)


def pytest_collection_finish(session):
    """Keep what was imported out of each garbage collection.

    With Ironic that is a million objects, which cost an eighth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50000, 20, 100)
