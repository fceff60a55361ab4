# SPDX-License-Identifier: Apache-2.0
"""A whole deployment, stage by stage: who takes the time.

A node of ``tools/quickstart`` is deployed while Ironic is asked ten times a
second what it does. A power request is Nova's and the driver's time, which
``one_node`` tells apart: Nova's records have whole seconds. Until the agent is
off it is the guest's, and Nova's, which notices that 15 seconds later. Run it
with ``tools/benchmark deployment``.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import sys
import time

import nova_lab  # noqa: F401 (finds the tools)
import report

from onebox import progress
from onebox import quickstart
from onebox import system

PAUSE = 0.1
POWER, GUEST, IRONIC = WHO = ('Nova and the driver', 'the guest', 'Ironic')
# Ironic waits for the guest to power itself off.
SHUTDOWN = 'tear_down_agent'


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a node did at a moment.

    :ivar moment: seconds since the epoch.
    :ivar stage: provision state and deploy step.
    :ivar waits: whether Ironic waits for the guest.
    :ivar switches: whether a power request is under way.
    """

    moment: float
    stage: str
    waits: bool
    switches: bool

    @classmethod
    def of(cls, node):
        """Read it from Ironic's node."""
        step = (node.deploy_step or {}).get('step')
        return cls(time.time(),
                   node.provision_state + (f', {step}' if step else ''),
                   (node.provision_state == 'wait call-back'
                    or step == SHUTDOWN),
                   bool(node.target_power_state))


def sample_deployment(lab, name):
    """Deploy a node; return the samples."""
    shown, samples = progress.Progress('benchmark'), []
    with shown.stage('deployment') as stage, (
            concurrent.futures.ThreadPoolExecutor(1)) as pool:
        deployment = pool.submit(lab.nodes.deploy, name, stage)
        while not deployment.done():
            samples.append(Sample.of(lab.nodes.node(name)))
            time.sleep(PAUSE)
        deployment.result()
        samples.append(Sample(time.time(), 'active, boots from its disk',
                              True, False))
        lab.wait_for_system(name, stage)
        samples.append(Sample(time.time(), '', False, False))
    return [sample for sample in samples if sample.stage != 'available']


def shares(samples):
    """Tell who took the time; return {stage: {who: seconds}}."""
    found = collections.defaultdict(lambda: dict.fromkeys(WHO, 0.0))
    for sample, following in zip(samples, samples[1:], strict=False):
        who = (POWER if sample.switches else
               GUEST if sample.waits else IRONIC)
        found[sample.stage][who] += following.moment - sample.moment
    return found


def table(found):
    """Lines of the table."""
    lines = [['stage', *(f'{who}: seconds' for who in WHO), 'together']]
    for stage, seconds in [*found.items(), ('all', {
            who: sum(each[who] for each in found.values()) for who in WHO})]:
        lines.append([stage, *(round(value, 1) for value in (
            *seconds.values(), sum(seconds.values())))])
    return lines


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--node', default='bios-0')
    report.add_arguments(parser)
    arguments = parser.parse_args()
    try:
        lab = quickstart.Quickstart(progress.Progress('benchmark'))
        lab.attach()
        with progress.Progress('benchmark').stage('cleaning') as stage:
            lab.nodes.provision(arguments.node, 'manage', 'manageable', stage,
                                120)
            lab.nodes.provision(arguments.node, 'provide', 'available', stage,
                                900)
        samples = sample_deployment(lab, arguments.node)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    found = shares(samples)
    report.write(
        arguments, 'deployment',
        {'Nova': system.release(lab.cloud.nova_venv, 'nova'),
         'Ironic': system.release(lab.ironic.venv, 'ironic')},
        table(found), found)
    return 0


if __name__ == '__main__':
    sys.exit(main())
