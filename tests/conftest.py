# SPDX-License-Identifier: Apache-2.0
"""What all tests have in common."""

import gc
import signal

import pytest

from onebox import processes


def pytest_sessionstart(session):
    """Make the first SIGTERM or SIGINT end the tests, with their teardown."""
    def end(number):
        # A test that catches every exception ends by itself.
        session.shouldstop = f'told to end by {signal.Signals(number).name}'
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        pytest.exit(session.shouldstop, returncode=128 + number)

    processes.at_first_signal(end)


def pytest_collection_finish(session):
    """Keep what was imported out of each garbage collection.

    With Ironic that is a million objects, which cost an eighth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50000, 20, 100)
