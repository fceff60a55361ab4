# SPDX-License-Identifier: Apache-2.0
"""Faults of the host cloud on the way between the driver and a real Nova.

QUINTUPLEO_FAULTS=all runs each fault at each step of each sequence, which
takes an hour and a half; a number is the seed of the sample that is run
otherwise, and <sequence>/<step>/<occurrence>/<fault> is one case.
"""

import collections
import contextlib
import os
import random
import uuid

from ironic.common import faults
from ironic.common import states
import pytest

from tests.functional import conftest
from tests.functional import fault_cases

MACHINES = 8
SAMPLE = 40


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


@pytest.fixture
def each_pass_asks():
    fault_cases.CONF.set_override('server_list_max_age', 0, 'quintupleo')
    yield
    fault_cases.CONF.clear_override('server_list_max_age', 'quintupleo')


@pytest.mark.parametrize('fault', [
    '401', '409', '429, come back next year', '500', '503', 'cut before',
    'HTML', 'a list', 'missing keys', 'wrong types', 'truncated'])
def test_power_sync_rides_out_a_short_outage(machines, each_pass_asks, fault):
    machine = machines[0]
    machine.bring('ACTIVE')
    machine.proxy.clear()
    machine.forget_failure()
    # That was past Ironic, which would force what it has recorded.
    machine.record(states.POWER_ON)
    assert machine.sync(0) == 0
    before = machine.rows()
    machine.proxy.inject(fault, 'server', times=10 ** 6)
    failures = 0
    while failures < fault_cases.CONF.conductor.power_state_sync_max_retries:
        failures = machine.sync(failures)
        machine.node.refresh()
        assert not machine.node.maintenance
        assert machine.node.power_state == states.POWER_ON
    assert failures and machine.proxy.injected
    machine.proxy.clear()
    assert machine.sync(failures) == 0
    assert machine.rows() == before


@pytest.fixture(scope='module')
def remote(deployment):
    """A node of a real Ironic that leaves it alone between requests.

    Power sync would contradict how the server is brought into its state.
    """
    with _remote(deployment, NEVER) as machine:
        yield machine


@pytest.fixture
def watched(deployment):
    """A node of a real Ironic that looks at it all the time."""
    with _remote(deployment, SYNC_INTERVAL) as machine:
        yield machine


@contextlib.contextmanager
def _remote(deployment, interval):
    _restart(deployment, {'timeout': fault_cases.PATIENCE,
                          'server_list_max_age': 0},
             sync_power_state_interval=interval,
             power_failure_recovery_interval=interval)
    # A name of its own: the conductor may still look at the one before.
    machine = fault_cases.RemoteMachine(
        deployment, f'faults-{uuid.uuid4().hex[:8]}')
    try:
        machine.enroll()
        yield machine
    finally:
        machine.close()
        _restart(deployment, {})


def _restart(deployment, driver_options, **conductor_options):
    deployment.ironic.stop()
    deployment.ironic.configure(
        'lo', {'cloud': conftest.lab.CLOUD, **driver_options})
    path = deployment.ironic.conf
    text = path.read_text()
    for name, value in conductor_options.items():
        lines = [line for line in text.splitlines()
                 if not line.startswith(f'{name} =')]
        lines.insert(lines.index('[conductor]') + 1, f'{name} = {value}')
        text = '\n'.join(lines) + '\n'
    conftest.system.write_file(path, text)
    with conftest.progress.Progress('test').stage('Ironic') as stage:
        deployment.ironic.start(stage, api_only=True)


SYNC_INTERVAL, NEVER = 2, 3600

# The last ones only in a full run: the campaign has their kinds as well.
REMOTE = [
    ('reboot', 'action', 'cut after'),
    ('off', 'action', 'HTML'),
    ('reboot', 'record', '503'),
    ('reboot to PXE', 'action', '502 after it was done'),
    ('reboot from PXE to PXE', 'action', '500'),
    ('off', 'action', '409'),
    ('on', 'action', 'token revoked, Keystone busy'),
    *(pytest.param(*case, marks=pytest.mark.full) for case in (
        ('reboot', 'action', 'cut before'),
        ('reboot', 'action', 'timeout after'),
        ('soft reboot', 'action', '504 after it was done'),
        ('soft reboot', 'action', 'token revoked'),
        ('off out of PXE', 'action', '429, come back in seconds'),
        ('on to PXE', 'action', 'truncated'),
        ('reboot', 'record', 'away'))),
]


@pytest.mark.parametrize(('sequence', 'step', 'fault'), REMOTE)
def test_real_ironic_gets_there_all_the_same(remote, sequence, step, fault):
    outcome = remote.run(fault_cases.Case(sequence, step, 0, fault))
    assert outcome.injected
    assert outcome.error is None
    assert outcome.wrong is None


# What nobody can tell, or what is over too soon to be ridden out: then it is
# refused, with a sentence that says what to do.
REFUSED = [
    ('reboot', 'action', 'HTML', 'openstack server event list'),
    ('reboot out of PXE', 'server', 'away', 'cannot be reached'),
]


@pytest.mark.parametrize(('sequence', 'step', 'fault', 'told'), REFUSED)
def test_real_ironic_gets_there_or_says_why_not(
        remote, sequence, step, fault, told):
    # So that no reboot of an earlier case comes right before this one's.
    remote.bring('SHUTOFF')
    outcome = remote.run(fault_cases.Case(sequence, step, 0, fault))
    assert outcome.injected
    if outcome.error is None:
        assert outcome.wrong is None
    else:
        sentence = getattr(outcome.error, 'details', None) or outcome.error
        assert told in str(sentence)
    # Nothing was done twice.
    assert [action for _, action in remote.rows()][-2:] != ['reboot'] * 2


def _wait(deployment, machine, check, what):
    deployment.wait_for(lambda: check(machine.now()), what)


def test_real_ironic_rides_out_a_short_outage(deployment, watched):
    watched.bring('ACTIVE')
    watched.proxy.clear()
    _wait(deployment, watched,
          lambda node: node.power_state == states.POWER_ON,
          'power sync to see the server')
    before = watched.rows()
    # One look at the server is three reads, and one while it fails.
    watched.proxy.inject('cut before', 'server', times=4)
    deployment.wait_for(
        lambda: (watched.proxy.injected == 4
                 and watched.proxy.seen[-1] == ('server', None)),
        'power sync to see the server again')
    node = watched.now()
    assert not node.is_maintenance
    assert node.power_state == states.POWER_ON
    assert watched.rows() == before


@pytest.mark.full
def test_real_ironic_returns_from_a_long_outage(deployment, watched):
    watched.bring('ACTIVE')
    before = watched.rows()
    watched.proxy.go_away(3600)
    _wait(deployment, watched, lambda node: node.is_maintenance,
          'power sync to give the node up')
    node = watched.now()
    assert node.fault == faults.POWER_FAILURE
    assert 'cannot be reached' in node.maintenance_reason
    watched.proxy.clear()
    _wait(deployment, watched,
          lambda node: (not node.is_maintenance
                        and node.power_state == states.POWER_ON),
          'Ironic to find the node again')
    assert watched.rows() == before
