# SPDX-License-Identifier: Apache-2.0
"""Tasks that run at the same time, each after those that it depends on."""

import collections
import concurrent.futures

from quintupleo_power.environments import errors

# Most of them wait; retry.Retrier limits the requests at the same time.
THREADS = 64
# A function by a unique name, which errors use, and the names of the tasks to
# end before; those that are not in the same run count as ended.
Task = collections.namedtuple('Task', 'name action after', defaults=[()])


def run(tasks, stop, ended=None):
    """Run all tasks; after an error, begin no other one.

    :param tasks: list in which each comes after those that it depends on.
        They begin in that order, so that no thread waits for one that no
        thread is left for.
    :param stop: event to set when the tasks that still run are to give up.
    :param ended: function that gets each task that has ended without error.
    :raises: EnvironmentsError with a line for each task that failed.
    """
    running, problems = {}, []

    def run_one(task):
        for name in task.after:
            if name in running:
                running[name].result()
        if problems:
            return
        try:
            with errors.translated(task.name):
                task.action()
        except errors.EnvironmentsError as exc:
            problems.append(str(exc))
        else:
            if ended:
                ended(task)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        try:
            for task in tasks:
                running[task.name] = threads.submit(run_one, task)
            for future in running.values():
                future.result()
        except BaseException:
            # Such as the user's interrupt.
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    if problems:
        raise errors.EnvironmentsError('\n'.join(dict.fromkeys(problems)))
