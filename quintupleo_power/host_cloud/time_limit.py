# SPDX-License-Identifier: Apache-2.0
"""A limit for the time that a thread waits for host clouds."""

from collections import abc
from concurrent import futures
import contextlib
import threading
import time
import typing
import weakref

from quintupleo_power.host_cloud import errors

# Seconds between two blocks up to which they share their time.
_GAP = 5.0

_local = threading.local()


@contextlib.contextmanager
def within(seconds: float, owner: typing.Any) -> abc.Iterator[None]:
    """Limit what this thread waits for host clouds in a block.

    :param owner: what the block is for: blocks for the same one that follow
        one another have these seconds together.
    """
    before = getattr(_local, 'limit', None)
    last = getattr(_local, 'last', None)
    limit = (seconds, time.monotonic() + seconds)
    if last and last[0]() is owner and time.monotonic() - last[2] < _GAP:
        limit = last[1]
    _local.limit = limit
    try:
        yield
    finally:
        _local.limit = before
        _local.last = weakref.ref(owner), limit, time.monotonic()


def is_over() -> bool:
    """Return whether this thread is to wait no longer."""
    limit = getattr(_local, 'limit', None)
    return limit is not None and time.monotonic() >= limit[1]


def run(function: abc.Callable, *args: typing.Any,
        **kwargs: typing.Any) -> typing.Any:
    """Call a function, in another thread if this one has a limit.

    So it counts whatever a request waits for: a name, a lock, or an answer
    that comes byte by byte. The other thread ends by its own timeouts.

    :raises: CloudUnreachable if the time is over, or what the function
        raises.
    """
    if getattr(_local, 'limit', None) is None:
        return function(*args, **kwargs)
    # Not one for all calls: a cloud that is away would keep it busy.
    executor = futures.ThreadPoolExecutor(1, 'quintupleo-limited')
    try:
        return wait(executor.submit(function, *args, **kwargs))
    finally:
        executor.shutdown(wait=False)


def wait(future: futures.Future) -> typing.Any:
    """Return the result of a future, or raise what it raises.

    :raises: CloudUnreachable if the time is over.
    """
    limit = getattr(_local, 'limit', None)
    if limit is None:
        return future.result()
    futures.wait([future], max(0.0, limit[1] - time.monotonic()))
    if future.done():
        return future.result()
    raise errors.CloudUnreachable(
        f'The host cloud has not answered within {limit[0]:g} s, and a '
        'validation waits no longer')
