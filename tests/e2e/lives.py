# SPDX-License-Identifier: Apache-2.0
"""Lives of machines beside each other, whose steps the tests ask for.

A guest waits for half of its life, for timers and for what Nova notices late,
and keeps a core busy for the other half.
"""

import concurrent.futures
import threading

import pytest

from onebox import progress

# Machines that live at the same time: enough for two busy cores.
AT_ONCE = 4


def parameters(lives, full=()):
    """Return pytest's parameters ``name`` and ``step`` for some lives.

    :param lives: the steps of each machine by its name: functions of the lab,
        a stage of the progress, and the name.
    :param full: names of the machines that only a full run has.
    :returns: list of pytest parameters.
    """
    return [pytest.param(name, step, id=f'{name}-{step.__name__}',
                         marks=[pytest.mark.full] if name in full else [])
            for name, steps in lives.items() for step in steps]


class Lives:
    """The steps of some machines' lives, with how each ended.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    """

    def __init__(self, lab):
        self._lab = lab
        self._ends = {}
        self._slots = threading.Semaphore(AT_ONCE)

    def begin(self, name, steps):
        """Start the life of a machine.

        :param name: name of the machine.
        :param steps: see :func:`parameters`.
        """
        for step in steps:
            self._ends[name, step] = concurrent.futures.Future()
        # A life that a failed test no longer waits for ends with pytest.
        threading.Thread(target=self._live, args=(name, steps),
                         name=name, daemon=True).start()

    def went_well(self, name, step):
        """Wait for a step's end and raise what it raised."""
        self._ends[name, step].result()

    def _live(self, name, steps):
        with self._slots:
            shown = progress.Progress(name)
            failed = None
            for step in steps:
                end = self._ends[name, step]
                if failed:
                    end.set_exception(AssertionError(
                        f'{name} did not get there: {failed} failed'))
                    continue
                try:
                    with shown.stage(f'{name}: {step.__name__}') as stage:
                        step(self._lab, stage, name)
                except BaseException as exc:  # noqa: BLE001 the test raises it
                    failed = step.__name__
                    end.set_exception(exc)
                    self._keep_console(name)
                else:
                    end.set_result(None)

    def _keep_console(self, name):
        """Keep the console log of a machine whose step failed."""
        logs = self._lab.ironic.logs
        kept = logs / f'console-{name}.log'
        try:
            kept.write_text(self._lab.host_cloud.console_log(name))
        except Exception as exc:  # noqa: BLE001 the step's failure counts
            print(f'No console of {name}: {exc}', flush=True)
            return
        print(f'Console of {name}: {kept}; Ironic, Nova and the others: '
              f'{logs}', flush=True)
