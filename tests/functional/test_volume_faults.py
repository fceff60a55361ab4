# SPDX-License-Identifier: Apache-2.0
"""Faults of Cinder, which says what servers with volumes boot from.

A network-first server is never rescued, and any other server whose disk is a
volume is, whatever an answer was that came in between. QUINTUPLEO_FAULTS is as
in test_faults.py, but for single cases.
"""

import dataclasses
import os
import random

from ironic.common import states
import pytest

from tests.functional import fault_cases

MACHINES = 4
SAMPLE = 60
# A request that power requests do not make: a case of it is not harmed.
NOWHERE = 'upload'


class VolumeMachine(fault_cases.Machine):
    """A machine whose server has volumes.

    :cvar disks: what it has, a key of lab.DISKS.
    """

    def _create(self, deployment, name):
        return deployment.server(name=name, disks=self.disks).id

    def run(self, case):
        """Run one case, and then the same request with nothing harmed."""
        outcome = super().run(case)
        after = super().run(dataclasses.replace(case, step=NOWHERE))
        if after.error or after.wrong:
            outcome.wrong = (f'{outcome.wrong or "right"}, and then: '
                             f'{after.wrong or after.error}')
        return outcome


class NetworkFirst(VolumeMachine):
    """A machine whose server asks the network before its disk."""

    disks = 'network-first, all volumes'
    sequences = {
        'on to PXE': fault_cases.Sequence(
            'SHUTOFF', fault_cases.PXE, states.POWER_ON, ('start',),
            'ACTIVE'),
        'reboot to PXE': fault_cases.Sequence(
            'ACTIVE', fault_cases.PXE, states.REBOOT, ('reboot',), 'ACTIVE'),
        'off': fault_cases.SEQUENCES['off'],
    }


class VolumeBacked(VolumeMachine):
    """A machine whose disk is a volume, and whose PXE is a rescue."""

    disks = 'volume'
    sequences = {name: fault_cases.SEQUENCES[name] for name in (
        'on to PXE', 'reboot to PXE', 'reboot from PXE to PXE')}


@pytest.fixture(params=(NetworkFirst, VolumeBacked))
def machines(request, deployment, tmp_path):
    if not deployment.minicloud.volumes:
        pytest.fail('This cloud has no volumes: run the tests with --full')
    deployment.openstack('quintupleo', 'image', 'create', '--iso',
                         str(deployment.iso), '--network-first-iso',
                         str(deployment.iso))
    with fault_cases.conductor(tmp_path), fault_cases.machines(
            deployment, tmp_path, MACHINES, make=request.param) as made:
        yield made


@pytest.mark.full
def test_no_fault_of_cinder_lets_a_server_boot_otherwise(machines):
    cases = [case for case
             in fault_cases.product(fault_cases.steps_of_all(machines))
             if case.step.startswith('volume')]
    assert {case.sequence for case in cases} == set(machines[0].sequences)
    wanted = os.environ.get('QUINTUPLEO_FAULTS', '')
    if wanted != 'all':
        seed = int(wanted or random.randrange(10 ** 6))
        print(f'\nSample of {len(cases)} cases with QUINTUPLEO_FAULTS={seed}')
        cases = fault_cases.sample(cases, seed, SAMPLE)
    outcomes = fault_cases.Campaign(machines, cases).run()
    print(f'{sum(outcome.injected for outcome in outcomes)} faults in '
          f'{len(outcomes)} cases, '
          f'{sum(bool(outcome.error) for outcome in outcomes)} refused')
    wrong = [f'{outcome.case}: {outcome.wrong}' for outcome in outcomes
             if outcome.wrong]
    assert not wrong, '\n' + '\n'.join(wrong)
    assert all(outcome.injected for outcome in outcomes)
