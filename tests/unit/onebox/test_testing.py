# SPDX-License-Identifier: Apache-2.0
"""Tests of how the tests are run."""

import contextlib
import io
import signal
import subprocess
import sys
import threading
from unittest import mock

import pytest
import yaml

from onebox import progress
from onebox import releases
from onebox import reports
from onebox import system
from onebox import testing

FUNCTIONAL = testing.REPOSITORY / 'tests' / 'functional'


@pytest.fixture
def tests(tmp_path, monkeypatch):
    monkeypatch.setenv('QUINTUPLEO_STATE_DIR', str(tmp_path / 'state'))
    monkeypatch.setenv('QUINTUPLEO_CACHE_DIR', str(tmp_path / 'cache'))
    return testing.Tests(progress.Progress('tests', stream=io.StringIO()), [],
                         testing._choose([]))


def _chosen(paths):
    """The test files that pytest would take."""
    words = [str(path) for path in paths]
    left_out = [word.removeprefix('--ignore=') for word in words
                if word.startswith('--ignore=')]
    found = set()
    for path in paths:
        if path == FUNCTIONAL:
            found |= {str(each) for each in FUNCTIONAL.glob('test_*.py')}
        elif str(path).startswith(str(FUNCTIONAL)):
            found.add(str(path))
    return found - set(left_out)


def test_two_halves_are_the_whole(tests):
    halves = [_chosen(tests._paths('functional', part))
              for part in (1, 2)]
    whole = _chosen(tests._paths('functional', None))
    assert whole == {str(path) for path in FUNCTIONAL.glob('test_*.py')}
    assert halves[0] | halves[1] == whole
    assert halves[1] and not halves[0] & halves[1]


def test_lines_of_the_second_half_are_marked(tests, capfd):
    said = threading.Event()

    def first(lane):
        # What the second says is printed while the first goes on.
        assert said.wait(60)
        tests._call(['echo', 'one'], lane)

    def second(lane):
        tests._call(['echo', 'two'], lane)
        tests._call(['sh', '-c', 'echo three $QUINTUPLEO_STATE_DIR >&2'], lane)
        said.set()

    tests._two_at_once('other', 'both', first, second)
    assert capfd.readouterr().out == 'one\n'
    assert [line for line in _shown(tests) if line[0] == '|'] == [
        '| two', f'| three {tests.state}/other']


def test_second_half_undoes_things_when_the_first_is_ended(tests):
    begun, undone = threading.Event(), []

    def first(lane):
        assert begun.wait(60)
        raise SystemExit

    def second(lane):
        begun.set()
        with lane.shown.stage('undo'):
            undone.append(tests._call(['echo', 'undone'], lane, undoes=True))

    with pytest.raises(SystemExit):
        tests._two_at_once('other', 'both', first, second)
    assert undone == [0]


def _shown(tests):
    return tests._shown._stream.getvalue().splitlines()


@pytest.mark.parametrize('failing', [(1, 0), (0, 1), (1, 1)])
def test_each_half_is_run_though_the_other_fails(tests, capfd, failing):
    def half(number):
        def run(lane):
            tests._call(['echo', f'half {number}'], lane)
            if failing[number]:
                raise system.Error(f'{number} failed')
        return run

    with pytest.raises(system.Error, match=f'{failing.index(1)} failed'):
        tests._two_at_once('other', 'both', half(0), half(1))
    assert capfd.readouterr().out == 'half 0\n'
    assert '| half 1' in _shown(tests)


def test_cloud_is_installed_before_two_are_made(tests, monkeypatch):
    begun = []

    @contextlib.contextmanager
    def cloud(lane):
        begun.append('up')
        yield

    @contextlib.contextmanager
    def namespace(name):
        yield ()

    monkeypatch.setattr(tests, '_prepared', lambda: [])
    monkeypatch.setattr(tests, '_cloud', cloud)
    monkeypatch.setattr(testing, 'namespace', namespace)
    monkeypatch.setattr(tests, '_minicloud',
                        lambda lane, word, *words: begun.append(word))
    tests._functional()
    assert begun == ['install', 'up', 'up']


def _tiers_run(tests, monkeypatch, failing=()):
    """Return what each tier of a default run was begun beside."""
    running, beside = set(), {}

    def run(tier, lane):
        running.add(tier)
        if tier in ('functional', 'unit') and not tests._arguments:
            met.wait(60)
        beside[tier] = {*running} - {tier}
        if tier in failing:
            raise system.Error(f'{tier} failed')
        running.discard(tier)

    met = threading.Barrier(2)
    monkeypatch.setattr(tests, '_prepared', lambda: [])
    monkeypatch.setattr(tests, '_run', run)
    tests.run(testing.TIERS)
    return beside


def test_unit_tests_are_run_beside_functional_ones(tests, monkeypatch):
    beside = _tiers_run(tests, monkeypatch)
    assert beside.keys() == {*testing.TIERS} and not tests.failures
    assert not beside['lint'] and not beside['e2e']
    assert 'unit' in beside['functional'] or 'functional' in beside['unit']


def test_chosen_tests_are_run_one_after_the_other(tests, monkeypatch):
    tests._arguments = ['-k', 'power']
    beside = _tiers_run(tests, monkeypatch)
    assert list(beside) == [*testing.TIERS] and not tests.failures
    assert not any(beside.values())


@pytest.mark.parametrize('failing', [
    ('functional',), ('unit',), ('lint', 'unit', 'packages', 'functional')])
def test_each_tier_is_run_though_others_fail(tests, monkeypatch, capsys,
                                             failing):
    beside = _tiers_run(tests, monkeypatch, failing)
    assert beside.keys() == {*testing.TIERS}
    assert {str(error) for error in tests.failures} == {
        f'{tier} failed' for tier in failing}
    said = capsys.readouterr().err
    assert all(str(error) in said for error in tests.failures)


def test_tiers_that_share_an_environment_fail_with_it(tests, monkeypatch):
    def refuse():
        raise system.Error('no such version')

    ran = []
    monkeypatch.setattr(tests, '_prepared', refuse)
    monkeypatch.setattr(tests, '_run', lambda tier, lane: ran.append(tier))
    tests.run(testing.TIERS)
    assert ran == ['lint', 'e2e']
    assert [str(error) for error in tests.failures] == ['no such version']


@pytest.mark.parametrize('arguments', [[], ['-k', 'wipe']])
def test_packages_of_the_tiers_are_installed(tests, monkeypatch, arguments):
    installed = []
    monkeypatch.setattr(system, 'install_packages',
                        lambda names, log: installed.extend(names))
    monkeypatch.setattr(testing.preparation, 'Preparation', mock.Mock())
    tests._arguments = arguments
    with tests.prepared(['e2e']):
        assert 'libvirt-daemon-system' in installed
        assert bool(tests._preparation) is not bool(arguments)


def test_default_run_leaves_out_what_only_a_full_one_has(tests):
    assert tests._marks('unit', releases.NEWEST) == 'not full'
    assert tests._choice.tiers == testing.TIERS
    assert tests._choice.releases == [releases.NEWEST]


def test_full_run_has_everything(tests):
    tests._choice = testing._choose(['--full'])
    assert tests._marks('unit', releases.NEWEST) == ''
    assert tests._marks('functional', releases.NEWEST) == ''
    assert tests._marks('unit', releases.OLDEST) == 'not newest'
    assert tests._marks(
        'functional', releases.OLDEST) == 'not full and not newest'
    assert set(tests._choice.tiers) == {*testing.TIERS, *testing.ON_REQUEST}
    assert tests._choice.releases == [
        release for release in (releases.NEWEST, releases.OLDEST)
        if release.runs_here]


def test_test_that_is_named_is_run_whatever_its_marks(tests):
    tests._arguments = ['-k', 'test_power']
    assert tests._marks('unit', releases.NEWEST) == ''


def test_only_what_failed_is_repeated(tests):
    tests._arguments = ['--last-failed']
    assert not tests._is_wanted('functional', releases.NEWEST, 1)
    failed = tests._kept / 'functional-2-39' / 'v' / 'cache' / 'lastfailed'
    failed.parent.mkdir(parents=True)
    failed.touch()
    assert not tests._is_wanted('functional', releases.NEWEST, 1)
    assert tests._is_wanted('functional', releases.NEWEST, 2)


@pytest.mark.parametrize('passed', [0, 1])
def test_name_that_no_test_has_is_an_error(tests, passed):
    tests._arguments = ['-k', 'misspelt']
    tests.outcomes.append(reports.Outcome(
        'unit', '39', '', passed, failed=0, skipped=0, seconds=1.0))
    with (contextlib.nullcontext() if passed else pytest.raises(
            system.Error, match='No test was chosen by "-k misspelt"')):
        tests.require_any()


def test_times_of_the_last_run(tests, capsys):
    (tests._kept / 'stages.json').write_text('{"e2e, Ironic 39": 600}')
    (tests._kept / 'e2e-39.json').write_text(
        '{"tests/e2e/test_a.py::test_x": 90, "tests/e2e/test_a.py::test_y": 5}'
    )
    assert testing.main(['--times']) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ['e2e,', 'Ironic', '39', '10', 'min', '00', 's'] in lines
    assert ['e2e/test_a.py', '1', 'min', '35', 's'] in lines
    assert ['e2e/test_a.py::test_x', '1', 'min', '30', 's'] in lines


def test_a_second_run_is_refused(tests, capsys, monkeypatch):
    monkeypatch.setattr(system, 'require_root', lambda: None)
    with system.lock(tests.state / 'lock', 'A run of these tests'):
        assert testing.main(['lint']) == 1
    assert 'A run of these tests is already running' in capsys.readouterr().err


REPORT = '''<testsuites><testsuite time="2.5">
<testcase classname="tests.e2e.test_life" name="test_boot[uefi]">
<failure message="Error: no &#10; such host">trace</failure></testcase>
<testcase classname="tests.e2e.test_life" name="test_off"/>
<testcase classname="tests.e2e.test_life" name="test_on"><skipped/></testcase>
</testsuite></testsuites>'''


def test_outcome_tells_what_failed_tests_say(tmp_path):
    (tmp_path / 'report.xml').write_text(REPORT)
    outcome = reports.Outcome.read('e2e', releases.NEWEST, '',
                                   tmp_path / 'report.xml')
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 1, 1)
    assert outcome.complaints == [
        'tests.e2e.test_life test_boot[uefi]: Error: no such host']


def test_what_many_tests_say_is_told_once(tmp_path):
    failed = ('<testcase classname="life" name="step%d">'
              '<error message="no volume"/></testcase>')
    (tmp_path / 'report.xml').write_text(
        '<testsuites><testsuite time="5">'
        + ''.join(failed % number for number in range(3))
        + '</testsuite></testsuites>')
    outcome = reports.Outcome.read('e2e', releases.NEWEST, '',
                                   tmp_path / 'report.xml')
    assert outcome.complaints == ['life step0 and 2 more: no volume']


def test_last_error_of_each_log(tmp_path):
    (tmp_path / 'cinder.log').write_text(
        '1 ERROR x\n2 INFO y\n3 ERROR no such pool\n4 INFO z\n')
    (tmp_path / 'nova.log').write_text('1 INFO well\n')
    assert list(reports.last_errors(tmp_path)) == [
        'cinder.log: 3 ERROR no such pool']


WAITING_TEST = '''
import time

import pytest


@pytest.fixture(scope='session')
def made():
    yield
    print('undone', flush=True)


def test_waits(made):
    try:
        print('begun', flush=True)
        time.sleep(60)
    except Exception:
        if {swallows}:
            return
        raise


def test_other():
    print('never', flush=True)
'''


@pytest.mark.parametrize('swallows', [False, True])
def test_sigterm_lets_tests_undo(tmp_path, swallows):
    path = tmp_path / 'test_waiting.py'
    path.write_text(WAITING_TEST.format(swallows=swallows))
    with subprocess.Popen(
            [sys.executable, '-m', 'pytest', '--capture=no', '--quiet',
             '-p', 'tests.conftest', '--rootdir', tmp_path, path],
            cwd=testing.REPOSITORY, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True) as process:
        said = iter(process.stdout.readline, 'begun\n')
        assert '' not in said
        process.terminate()
        rest = process.stdout.read()
    # Where a test has kept the exception to itself it is pytest's own code.
    assert process.returncode == (2 if swallows else 128 + signal.SIGTERM)
    assert 'undone' in rest and 'never' not in rest


def test_hooks_of_pre_commit_are_those_of_lint():
    path = testing.REPOSITORY / '.pre-commit-config.yaml'
    repository, = yaml.safe_load(path.read_text())['repos']
    hooks = repository['hooks']

    assert [hook['entry'] for hook in hooks] == [
        command for command, _files in testing.CHECKS]
    assert {version for hook in hooks
            for version in hook.get('additional_dependencies', ())} == {
                *testing.LINTERS}
