# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Faults of the host cloud on the way between the driver and a real Nova.

QUINTUPLEO_FAULTS=all runs each fault at each step of each sequence, which
takes most of an hour; a number is the seed of the sample that is run
otherwise, and <sequence>/<step>/<occurrence>/<fault> is one case.
"""

import collections
import os
import random

import pytest

from tests.functional import fault_cases

MACHINES = 8
SAMPLE = 400


@pytest.fixture(scope='module')
def machines(deployment, tmp_path_factory):
    """Nodes of an Ironic in this process, each behind a proxy."""
    folder = tmp_path_factory.mktemp('conductor')
    with fault_cases.conductor(folder), fault_cases.machines(
            deployment, folder, MACHINES) as made:
        yield made


def _cases(machines):
    wanted = os.environ.get('QUINTUPLEO_FAULTS', '')
    if wanted.count('/') == 3:
        sequence, step, occurrence, fault = (
            word.strip() for word in wanted.split('/'))
        return [fault_cases.Case(sequence, step, int(occurrence), fault)]
    cases = fault_cases.product(fault_cases.steps_of_all(machines))
    if wanted == 'all':
        return cases
    seed = int(wanted or random.randrange(10 ** 6))
    print(f'\nSample of {len(cases)} cases with QUINTUPLEO_FAULTS={seed}')
    return fault_cases.sample(cases, seed, SAMPLE)


def _report(outcomes):
    failed = collections.Counter(
        (outcome.case.fault, outcome.case.step) for outcome in outcomes
        if outcome.error)
    for (fault, step), count in sorted(failed.items()):
        print(f'refused: {fault} at {step}: {count}')
    injected = [outcome for outcome in outcomes if outcome.injected]
    print(f'{sum(outcome.injected for outcome in outcomes)} faults injected '
          f'in {len(injected)} cases: '
          f'{len({outcome.case.fault for outcome in injected})} faults, '
          f'{len({outcome.case.step for outcome in injected})} steps, '
          f'{len({outcome.case.sequence for outcome in injected})} sequences;'
          f' {sum(not outcome.error for outcome in injected)} succeeded, '
          f'{sum(bool(outcome.error) for outcome in injected)} were refused;'
          f' {len(outcomes) - len(injected)} cases ended before their fault')


def test_no_fault_makes_a_wrong_success_or_an_action_too_many(machines):
    outcomes = fault_cases.Campaign(
        machines, _cases(machines),
        verbose='QUINTUPLEO_FAULTS' in os.environ).run()
    _report(outcomes)
    wrong = [f'{outcome.case}: {outcome.wrong}' for outcome in outcomes
             if outcome.wrong]
    assert not wrong, '\n' + '\n'.join(wrong)
    # Too few would mean that the proxy is passed by.
    assert sum(bool(outcome.injected) for outcome in outcomes) > (
        0.8 * len(outcomes))
