# SPDX-License-Identifier: Apache-2.0
"""Another Debian: what is run in it, and that nothing of it is left."""

import contextlib
import io
import os
import subprocess
import time

import pytest

from onebox import debian
from onebox import progress
from onebox import system
from onebox import testing

# No other process on this machine has it.
SLEEP = f'sleep 987.{os.getpid()}'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What the tier ran, and how each command ends."""
    monkeypatch.setenv('QUINTUPLEO_STATE_DIR', str(tmp_path / 'state'))
    monkeypatch.setenv('QUINTUPLEO_CACHE_DIR', str(tmp_path / 'cache'))
    events, codes = [], {}

    def named(what, value=None):
        @contextlib.contextmanager
        def context(*arguments):
            events.append(what)
            yield value
            events.append(f'no {what}')
        return context

    def call(tests, command):
        words = [str(word) for word in command]
        begin = words.index(debian.CHECKOUT) + 1
        assert words[0] == 'in' and str(tests.state) in words[begin - 3]
        events.append(' '.join(words[begin:]))
        return codes.get(events[-1], 0)

    monkeypatch.setattr(testing, 'namespace', named('namespace', ['in']))
    monkeypatch.setattr(debian, 'connected', named('network'))
    monkeypatch.setattr(debian, 'made', named('system'))
    monkeypatch.setattr(debian, 'command',
                        lambda tree, cache, words, log: [
                            tree, cache, debian.CHECKOUT, *words])
    monkeypatch.setattr(testing.Tests, '_call', call)

    def tier(*arguments, **ends):
        codes['tools/run-tests'] = ends.get('tests', 0)
        tests = testing.Tests(progress.Progress('tests', stream=io.StringIO()),
                              arguments, testing._choose([debian.TIER]))
        tests._run(debian.TIER, tests._lane)
        return events

    return tier


def test_quickstart_and_the_default_tests_are_run(run):
    assert run() == ['namespace', 'network', 'system', 'tools/quickstart',
                     'tools/quickstart --down', 'tools/run-tests',
                     'no system', 'no network', 'no namespace']


def test_chosen_tests_are_run_alone(run):
    assert run('-k', 'test_power')[3:-3] == [
        'tools/run-tests -- -k test_power']


def test_failure_there_is_one_here(run):
    with pytest.raises(system.Error, match='debian-13: tools/run-tests fail'):
        run(tests=1)


def test_only_a_full_run_has_it():
    assert debian.TIER in testing._choose(['--full']).tiers
    assert debian.TIER not in testing._choose([]).tiers


def test_command_is_run_without_the_variables_of_these_tests(
        tmp_path, monkeypatch):
    def pip(argv, **kwargs):
        return subprocess.CompletedProcess(argv, 0, 'https://index.test\n', '')

    monkeypatch.setenv('QUINTUPLEO_STATE_DIR', '/here')
    monkeypatch.setattr(system, 'uv', lambda log: tmp_path / 'uv')
    monkeypatch.setattr(system, 'run', pip)
    monkeypatch.setattr(debian, 'ISOLATED', ())
    monkeypatch.setattr(debian, 'ENTER', 'shift 3; exec "$@"')
    words = debian.command('/tree', '/cache', ['env'], '/log')
    said = subprocess.run(words, check=True, capture_output=True, text=True,
                          env={'PATH': '/usr/bin:/bin', 'KEPT': 'yes',
                               'PYTHONPATH': '/tools',
                               'QUINTUPLEO_STATE_DIR': '/here'}).stdout
    assert 'KEPT=yes' in said and 'PIP_INDEX_URL=https://index.test' in said
    assert 'QUINTUPLEO' not in said and 'PYTHONPATH' not in said


def test_what_is_left_is_its_logs(tmp_path, monkeypatch):
    tree, logs, commands = tmp_path / 'tree', tmp_path / 'logs', []
    left = tree / 'left' / 'behind'
    left.mkdir(parents=True)

    def run(argv, **kwargs):
        words = [str(word) for word in argv]
        commands.append(words)
        if 'mmdebstrap' in words:
            assert tree.exists() and not left.exists()
            for name in ('etc', 'var/cache', 'var/lib/quintupleo-tests/logs'):
                (tree / name).mkdir(parents=True)
        return subprocess.CompletedProcess(argv, 0, 'deb mirror trixie\n', '')

    monkeypatch.setattr(system, 'run', run)
    with pytest.raises(system.Error), debian.made(tree, logs):
        assert 'deb mirror trixie' in commands[1]
        assert (tree / 'var/cache/quintupleo').is_dir()
        assert debian.NAME_SERVER in (tree / 'etc/resolv.conf').read_text()
        (tree / 'var/lib/quintupleo-tests/logs/x.log').write_text('failed')
        raise system.Error('a test failed')
    assert not tree.exists()
    assert (logs / debian.TIER / 'quintupleo-tests/x.log'
            ).read_text() == 'failed'


def test_network_ends_with_its_use(tmp_path, monkeypatch):
    started = []

    def popen(argv, **kwargs):
        started.append(popen.real(['sleep', '60'], **kwargs))
        assert '/run/netns/some' in argv
        return started[0]

    popen.real = subprocess.Popen
    monkeypatch.setattr(subprocess, 'Popen', popen)
    monkeypatch.setattr(system, 'run', lambda argv, **kwargs:
                        subprocess.CompletedProcess(argv, 0, 'default', ''))
    with debian.connected('some', tmp_path / 'log'):
        assert started[0].poll() is None
    assert started[0].poll() is not None


def test_daemons_end_with_what_started_them():
    # In a namespace that any user may make.
    shell, first, *rest = debian.ISOLATED
    script = rest[0].replace('--mount', '--mount --map-root-user')
    with subprocess.Popen(
            [shell, first, script, *rest[1:], 'sh', '-c',
             f'setsid {SLEEP} & {SLEEP}'], stderr=subprocess.PIPE,
            text=True) as process:
        if not _wait(lambda: len(_sleepers()) == 2):
            process.terminate()
            pytest.skip(f'no namespaces here: {process.stderr.read()}')
        process.terminate()
        assert _wait(lambda: not _sleepers())


def _sleepers():
    return subprocess.run(['pgrep', '-fx', SLEEP], capture_output=True,
                          text=True).stdout.split()


def _wait(check):
    end = time.monotonic() + 10
    while not check() and time.monotonic() < end:
        time.sleep(0.05)
    return check()
