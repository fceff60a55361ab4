# SPDX-License-Identifier: Apache-2.0
"""Work of many parts, each after those that it needs, some at a time."""

import concurrent.futures
import dataclasses

from quintupleo_power.environments import failures

# Most of them wait; how many send requests is patience.Patience's affair.
THREADS = 64


@dataclasses.dataclass(frozen=True)
class Task:
    """A part of the work.

    :ivar name: what it is called in errors and by others' ``after``.
    :ivar action: function without arguments that does it.
    :ivar after: names of the tasks that have to have ended before.
    """

    name: str
    action: object
    after: tuple[str, ...] = ()


def run(tasks, stop, ended=None):
    """Do all tasks; after a failure begin no further ones.

    :param tasks: the :class:`Task` to do; what they come after and is not
        among them counts as done.
    :param stop: event that is set when the rest is to give up.
    :param ended: function that is told each task that has ended well.
    :raises: failures.Failure with a line for each that failed.
    """
    waiting = {task.name: task for task in tasks}
    problems = []
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        running = {}
        try:
            while True:
                if not problems:
                    for task in _ready(waiting, running):
                        running[threads.submit(task.action)] = task
                if not running:
                    break
                done, _ = concurrent.futures.wait(
                    running,
                    return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    problem = _problem(task, future)
                    if problem:
                        problems.append(problem)
                    elif ended:
                        ended(task)
        except BaseException:
            # Such as the user's interrupt: those under way end soon.
            stop.set()
            raise
    if problems:
        raise failures.Failure(
            '\n'.join(dict.fromkeys(problems)))


def _ready(waiting, running):
    """Take the tasks that can begin, as many as there are threads for."""
    unfinished = {*waiting, *(task.name for task in running.values())}
    ready = [task for task in waiting.values()
             if not unfinished.intersection(task.after)]
    ready = ready[:THREADS - len(running)]
    for task in ready:
        del waiting[task.name]
    return ready


def _problem(task, future):
    exc = future.exception()
    if exc is None:
        return None
    if isinstance(exc, failures.CLOUD_ERRORS):
        return f'{task.name}: {failures.explain(exc)}'
    if isinstance(exc, failures.Failure):
        return str(exc)
    raise exc
