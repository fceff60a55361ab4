# SPDX-License-Identifier: Apache-2.0
"""Lives of machines beside each other, whose steps the tests ask for.

A guest waits for half of its life, for timers and for what Nova notices late,
and keeps a core busy for the other half.
"""

import collections
import concurrent.futures
import hashlib
import threading

import pytest

from onebox import progress

# Machines that live at the same time: enough to keep two cores busy.
AT_ONCE = 3


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


def machine(name, boot_mode, disks='image'):
    """Return a :class:`lab.Machine` that lives beside others.

    Its MAC address is that of its name, so that no two have the same.
    """
    from onebox import lab
    number = hashlib.sha256(name.encode()).digest()
    return lab.Machine(name, boot_mode,
                       '20:57:f8:{:02x}:{:02x}:{:02x}'.format(*number[:3]),
                       disks, 'baremetal-one-cpu')


def make_servers(lab, machines, names, network_id=None, **node):
    """Make servers and enroll them.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    :param machines: list of :class:`lab.Machine`.
    :param names: names of those that are wanted.
    :param network_id: UUID of their network; None for the usual one.
    :param node: attributes of their nodes.
    """
    network_id = network_id or lab.host_cloud.create_network()
    wanted = [each for each in machines if each.name in names]
    with (progress.Progress('servers').stage(', '.join(names)) as stage,
          concurrent.futures.ThreadPoolExecutor() as pool):
        for each, server in [(each, pool.submit(
                lab.host_cloud.create_server, each, network_id, stage))
                for each in wanted]:
            lab.nodes.enroll(each, server.result())
            if node:
                lab.nodes.connection.baremetal.update_node(each.name, **node)


def keep_console(lab, name):
    """Keep the console log of a server with which a test failed."""
    logs = lab.ironic.logs
    kept = logs / f'console-{name}.log'
    try:
        kept.write_text(lab.host_cloud.console_log(name))
    except Exception as exc:  # noqa: BLE001 the test's failure counts
        print(f'No console of {name}: {exc}', flush=True)
        return
    print(f'Console of {name}: {kept}; Ironic, Nova and the others: {logs}',
          flush=True)


class Lives:
    """The steps of some machines' lives, with how each ended.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    """

    def __init__(self, lab):
        self._lab = lab
        self._ends = collections.defaultdict(collections.deque)
        self._slots = threading.Semaphore(AT_ONCE)

    def begin(self, name, steps):
        """Start the life of a machine.

        :param name: name of the machine.
        :param steps: see :func:`parameters`.
        """
        ends = [concurrent.futures.Future() for _ in steps]
        # A step may come more than once.
        for step, end in zip(steps, ends, strict=True):
            self._ends[name, step].append(end)
        # A life that a failed test no longer waits for ends with pytest.
        threading.Thread(target=self._live, args=(name, steps, ends),
                         name=name, daemon=True).start()

    def went_well(self, name, step):
        """Wait for a step's next end and raise what it raised."""
        ends = self._ends[name, step]
        # A step may come twice in a life, and be asked for again at the end.
        (ends.popleft() if len(ends) > 1 else ends[0]).result()

    def _live(self, name, steps, ends):
        with self._slots:
            shown = progress.Progress(name)
            failed = None
            for step, end in zip(steps, ends, strict=True):
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
                    keep_console(self._lab, name)
                else:
                    end.set_result(None)
