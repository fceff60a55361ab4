# SPDX-License-Identifier: Apache-2.0
"""Commands, files, locks and Python environments."""

from concurrent import futures
import os
import stat
import subprocess
import sys
import threading

import pytest

from onebox import system


def test_files_are_private(tmp_path):
    path = tmp_path / 'secret'
    system.write_file(path, 'one')
    system.write_file(path, 'two')
    assert path.read_text() == 'two'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ['secret']


def test_unchanged_file_is_left_alone(tmp_path):
    path = tmp_path / 'file'
    system.write_file(path, 'same')
    before = path.stat().st_ino
    system.write_file(path, 'same')
    assert path.stat().st_ino == before


def test_lock_is_held_by_one(tmp_path):
    with system.lock(tmp_path / 'lock', 'minicloud'):
        with pytest.raises(system.Error, match='already running'):
            with system.lock(tmp_path / 'lock', 'minicloud'):
                pass
    with system.lock(tmp_path / 'lock', 'minicloud'):
        pass


def test_run_tells_what_failed():
    with pytest.raises(system.Error, match='exit code 3: bad option'):
        system.run([sys.executable, '-c',
                    'import sys; sys.stderr.write("bad option"); sys.exit(3)'])


def test_run_names_a_missing_command():
    with pytest.raises(system.Error, match='no-such-command is not inst'):
        system.run(['no-such-command'])


def test_run_in_time():
    with pytest.raises(system.Error, match='did not end within'):
        system.run(['sleep', '60'], timeout=0.05)


def test_report_has_the_end_of_the_log(tmp_path):
    log = tmp_path / 'log'
    log.write_text(''.join('line %d\n' % number for number in range(99)))
    report = system.Error('nova-api failed.', log).report()
    assert report.startswith('nova-api failed.\nIts log is %s' % log)
    assert report.endswith('line 98')
    assert 'line 83' not in report


def test_report_without_log(tmp_path):
    report = system.Error('Failed.', tmp_path / 'none').report()
    assert report == 'Failed.\nIts log is %s' % (tmp_path / 'none')


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Commands that install, with their variables; nothing is run."""
    monkeypatch.setenv('QUINTUPLEO_CACHE_DIR', str(tmp_path / 'cache'))
    def run(argv, log=None, env=None):
        words = [str(word) for word in argv]
        if words[1:3] == ['config', 'list']:
            return subprocess.CompletedProcess(
                argv, 0, ''.join(commands.settings), '')
        if 'venv' in words:
            os.makedirs(words[-1])
        else:
            commands.append((words, env))

    class Commands(list):
        settings = ()

    commands = Commands()
    monkeypatch.setattr(system, 'run', run)
    return commands


def test_half_made_venv_is_made_again(tmp_path, installed):
    path = tmp_path / 'venv'
    (path / 'bin').mkdir(parents=True)
    (path / 'bin' / 'half').touch()
    system.make_venv(path, ['nova'], tmp_path / 'log', constraints='c.txt')
    assert not (path / 'bin' / 'half').exists()
    assert installed[0][0][-1] == system.UV
    words, env = installed[1]
    assert words[1:5] == ['pip', 'install', '--python', str(path)]
    assert words[-3:] == ['--constraint', 'c.txt', 'nova']
    system.make_venv(path, ['nova'], tmp_path / 'log')
    assert len(installed) == 2


def test_packages_are_added_to_an_environment_once(tmp_path, installed):
    constraints = tmp_path / 'constraints.txt'
    constraints.write_text('a==1\n')
    (tmp_path / 'venv').mkdir()

    def add():
        system.add_to_venv(tmp_path / 'venv', 'more', ('a',),
                           tmp_path / 'log', (constraints,))

    add()
    add()
    assert [words[-3:] for words, _ in installed[1:]] == [
        ['--constraint', str(constraints), 'a']]
    constraints.write_text('a==2\n')
    add()
    assert len(installed) == 3


@pytest.mark.parametrize('line', [
    "global.index-url='https://mirror.example/simple'\n",
    ":env:.proxy='http://proxy.example:3128'\n"])
def test_pip_installs_where_only_its_settings_say_how(
        tmp_path, installed, line):
    installed.settings = ["global.timeout='60'\n", line]
    system.make_venv(tmp_path / 'venv', ['nova'], tmp_path / 'log')
    [(words, _)] = installed
    assert words[0] == str(tmp_path / 'venv' / 'bin' / 'pip')
    assert words[-1] == 'nova'


def test_certificates_of_pips_settings_are_uvs(tmp_path, installed):
    installed.settings = ["global.cert='/etc/ssl/own.pem'\n"]
    system.make_venv(tmp_path / 'venv', ['nova'], tmp_path / 'log')
    assert installed[-1][1]['SSL_CERT_FILE'] == '/etc/ssl/own.pem'


def test_one_at_a_time_makes_an_environment(tmp_path, installed, monkeypatch):
    run, begun = system.run, threading.Event()

    def slow(argv, **kwargs):
        if argv[-1] == tmp_path / 'venv':
            begun.set()
            assert not other.done()
        return run(argv, **kwargs)

    monkeypatch.setattr(system, 'run', slow)

    def make():
        system.make_venv(tmp_path / 'venv', ['nova'], tmp_path / 'log')

    def make_later():
        assert begun.wait(60)
        make()

    with futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(make_later)
        make()
        other.result()
    assert [words[-1] for words, _ in installed] == [system.UV, 'nova']
