# SPDX-License-Identifier: Apache-2.0
"""Tasks that run at the same time, each after those that it depends on."""

import collections
import concurrent.futures
import graphlib

from quintupleo_power.environments import errors

# Most of them wait; retry.Retrier limits the requests at the same time.
THREADS = 64
# A function by a unique name, which errors use, and the names of the tasks to
# end before; those that are not in the same run count as ended.
Task = collections.namedtuple('Task', 'name action after', defaults=[()])


def run(tasks, stop, ended=None):
    """Run all tasks; after an error, begin no other one.

    :param stop: event to set when the tasks that still run are to give up.
    :param ended: function that gets each task that has ended without error.
    :raises: EnvironmentsError with a line for each task that failed.
    """
    by_name = {task.name: task for task in tasks}
    graph = graphlib.TopologicalSorter({
        task.name: [name for name in task.after if name in by_name]
        for task in tasks})
    graph.prepare()
    problems = []
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        try:
            running = {}
            while graph.is_active():
                if not problems:
                    running.update(
                        (threads.submit(by_name[name].action), by_name[name])
                        for name in graph.get_ready())
                if not running:
                    break
                for future in concurrent.futures.wait(
                        running, return_when=(
                            concurrent.futures.FIRST_COMPLETED)).done:
                    task = running.pop(future)
                    graph.done(task.name)
                    problem = _problem(task, future)
                    if problem:
                        problems.append(problem)
                        running = {future: task for future, task
                                   in running.items() if not future.cancel()}
                    elif ended:
                        ended(task)
        except BaseException:
            # Such as the user's interrupt.
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    if problems:
        raise errors.EnvironmentsError('\n'.join(dict.fromkeys(problems)))


def _problem(task, future):
    """Return what failed in a task, or None; raise errors of this code."""
    try:
        with errors.translated(task.name):
            future.result()
    except errors.EnvironmentsError as exc:
        return str(exc)
    return None
