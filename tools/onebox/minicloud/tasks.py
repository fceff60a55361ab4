# SPDX-License-Identifier: Apache-2.0
"""Work on many things at a time, in the order that they need."""

import concurrent.futures
import dataclasses
import graphlib
import typing

from onebox import processes


@dataclasses.dataclass
class Task:
    """Something to do.

    :param name: its name.
    :param action: function without arguments that does it.
    :param after: names of tasks to finish first; those that are not in
        the same run are taken as finished.
    """

    name: str
    action: typing.Callable
    after: tuple = ()


def in_order(tasks):
    """Return the tasks so that each comes after those it needs.

    :raises: ValueError when they need each other in a circle.
    """
    by_name = {task.name: task for task in tasks}
    graph = graphlib.TopologicalSorter({
        task.name: [name for name in task.after if name in by_name]
        for task in tasks})
    try:
        return [by_name[name] for name in graph.static_order()]
    except graphlib.CycleError as exc:
        raise ValueError('These need each other: %s'
                         % ', '.join(sorted(set(exc.args[1]))))


def run(tasks, stage, workers=16):
    """Do the tasks, as many at a time as their order permits.

    :param tasks: what to do.
    :param stage: the stage of the progress that they are steps of.
    :param workers: how many are done at a time.
    :raises: what the first task to fail raised. Those under way are told to
        wait no longer, and no other is begun.
    """
    waiting = in_order(tasks)
    names = {task.name for task in waiting}
    finished = set()
    running = {}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            while waiting or running:
                for task in list(waiting):
                    if finished.issuperset(names.intersection(task.after)):
                        waiting.remove(task)
                        running[pool.submit(_do, task, stage)] = task
                done, _ = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    finished.add(running.pop(future).name)
                    future.result()
        except BaseException:
            processes.give_up.set()
            pool.shutdown(cancel_futures=True)
            processes.give_up.clear()
            raise


def _do(task, stage):
    with stage.step(task.name):
        task.action()
