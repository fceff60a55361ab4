# SPDX-License-Identifier: Apache-2.0
"""Cleaning and deployment: by PXE, by virtual media, and by rebuild.

The same node of ``tools/quickstart``, with the same image, goes through each
way in turn: deployed until its system has said on its console that it is up,
then undeployed with automated cleaning until it is available again. The
first deployment by rebuild, which uploads the image, has a row of its own.
At the end the step wipe_disk and a script's bare rebuild take turns. Run it
with ``tools/benchmark clean_and_deploy``.
"""

import argparse
import dataclasses
import statistics
import sys
import time

import nova_lab
import report
import wipe

from onebox import progress
from onebox import quickstart
from onebox import system

PATIENCE = 1200
# Nova's API has written of a request by then.
LOGGED = 0.5
# Rounds of the step that do not count.
FIRST_ROUNDS = 3
COLUMNS = ('deploy', 'boot', 'clean', 'requests')


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to clean and to deploy.

    :ivar title: what the table calls it.
    :ivar deploy: the deploy interface.
    :ivar boot: the boot interface.
    """

    title: str
    deploy: str
    boot: str


FIRST = Way('rebuild, first time', 'quintupleo-rebuild', 'ipxe')
WAYS = (Way('PXE and agent', 'direct', 'ipxe'),
        Way('virtual media and agent', 'direct', 'quintupleo-virtual-media'),
        Way('rebuild and wipe_disk', 'quintupleo-rebuild', 'ipxe'))


@dataclasses.dataclass(frozen=True)
class Round:
    """What one round took.

    :ivar deploy: seconds until Ironic says active.
    :ivar boot: seconds from then until the system is up.
    :ivar clean: seconds from undeploy until the node is available.
    :ivar requests: how many Nova's API has answered meanwhile.
    """

    deploy: float
    boot: float
    clean: float
    requests: int


def measure(lab, name, way):
    """Send a node that is available once through a way."""
    shown = progress.Progress('benchmark')
    lab.nodes.connection.baremetal.update_node(
        name, deploy_interface=way.deploy, boot_interface=way.boot)
    with nova_lab.requests(lab.cloud.logs / 'nova-api.log') as requests:
        moments = [time.monotonic()]
        with shown.stage(f'{way.title}: deployment') as stage:
            lab.nodes.deploy(name, stage, PATIENCE)
            moments.append(time.monotonic())
            lab.wait_for_system(name, stage, PATIENCE)
            moments.append(time.monotonic())
        with shown.stage(f'{way.title}: cleaning') as stage:
            lab.nodes.provision(name, 'deleted', 'available', stage,
                                PATIENCE)
        moments.append(time.monotonic())
        # Nova's API has written of a request by then.
        time.sleep(LOGGED)
    return Round(*(later - earlier for earlier, later in zip(
        moments, moments[1:], strict=False)), len(requests))


def turns(lab, name, rounds):
    """Let the step and the bare rebuild take turns.

    :returns: {side: seconds of each round}.
    """
    with progress.Progress('benchmark').stage('wipe_disk') as stage:
        lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
        compute = lab.host_cloud.connection.compute
        server = compute.get_server(compute.find_server(name).id)
        sides = (wipe.Bare(compute, server),
                 wipe.Step(lab.nodes.connection.baremetal,
                           lab.nodes.node(name)))
        found = {side.title: [] for side in sides}
        # The driver learns in the first ones how long a rebuild takes.
        for number in range(-FIRST_ROUNDS, rounds):
            for side in sides:
                begun = time.monotonic()
                side.wipe()
                if number >= 0:
                    found[side.title].append(time.monotonic() - begun)
    return found


def medians(rows):
    """Make one round of several."""
    return Round(*(statistics.median(getattr(row, column) for row in rows)
                   for column in COLUMNS))


def table(results):
    """Lines of the table of whole deployments.

    :param results: {way: list of :class:`Round`}.
    """
    lines = [[f'median of {max(map(len, results.values()))} rounds',
              'deployment: seconds', 'until the system is up: seconds',
              'undeploy and cleaning: seconds', 'requests to Nova']]
    for title, rows in results.items():
        row = medians(rows)
        lines.append([title, *(round(value, 1) for value in (
            row.deploy, row.boot, row.clean)), round(row.requests)])
    return lines


def table_of_wipes(wipes):
    """Lines of the table of the step alone.

    :param wipes: what :func:`turns` gave.
    """
    rounds = len(next(iter(wipes.values())))
    bare, step = (statistics.median(seconds) for seconds in wipes.values())
    return [[f'median of {rounds} rounds',
             *(f'{side}: seconds' for side in wipes),
             'times the bare rebuild'],
            ['the whole disk', round(bare, 2), round(step, 2),
             round(step / bare, 2)]]


def run(lab, name, rounds):
    """Measure all of it; return ({way: rounds}, what :func:`turns` gave)."""
    with progress.Progress('benchmark').stage('available') as stage:
        lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
        lab.nodes.provision(name, 'provide', 'available', stage, PATIENCE)
    results = {FIRST.title: [measure(lab, name, FIRST)]}
    for number in range(1, rounds + 1):
        print(f'round {number} of {rounds}', flush=True)
        for way in WAYS:
            results.setdefault(way.title, []).append(
                measure(lab, name, way))
    return results, turns(lab, name, rounds)


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--node', default='bios-0')
    parser.add_argument('--rounds', type=int, default=3)
    report.add_arguments(parser)
    arguments = parser.parse_args()
    try:
        lab = quickstart.Quickstart(progress.Progress('benchmark'))
        lab.attach()
        results, wipes = run(lab, arguments.node, arguments.rounds)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    versions = {'Nova': system.release(lab.cloud.nova_venv, 'nova'),
                'Ironic': system.release(lab.ironic.venv, 'ironic')}
    samples = {**{title: [dataclasses.asdict(row) for row in rows]
                  for title, rows in results.items()}, **wipes}
    report.write(arguments, 'clean-and-deploy', versions, table(results),
                 samples)
    report.write(arguments, 'wipe-disk', versions, table_of_wipes(wipes),
                 samples)
    return 0


if __name__ == '__main__':
    sys.exit(main())
