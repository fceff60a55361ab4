# SPDX-License-Identifier: Apache-2.0
"""Commands, files, locks and Python environments."""

import os
import stat
import subprocess
import sys

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


def test_half_made_venv_is_made_again(tmp_path, monkeypatch):
    path = tmp_path / 'venv'
    (path / 'bin').mkdir(parents=True)
    (path / 'bin' / 'half').touch()
    calls = []

    def run(argv, **kwargs):
        calls.append(argv)
        (path / 'bin').mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(argv, 0, '', '')

    monkeypatch.setattr(system, 'run', run)
    system.make_venv(path, ['nova'], tmp_path / 'log', constraints='c.txt')
    assert not (path / 'bin' / 'half').exists()
    assert len(calls) == 2
    assert calls[1][-3:] == ['--constraint', 'c.txt', 'nova']
    system.make_venv(path, ['nova'], tmp_path / 'log')
    assert len(calls) == 2


def test_packages_are_added_to_an_environment_once(monkeypatch, tmp_path):
    (tmp_path / 'constraints.txt').write_text('a==1\n')
    commands = []
    monkeypatch.setattr(system, 'run',
                        lambda argv, log: commands.append(argv))

    def add():
        system.add_to_venv(tmp_path, 'more', ('a',), tmp_path / 'log',
                           (tmp_path / 'constraints.txt',))

    add()
    add()
    assert [argv[-3:] for argv in commands] == [
        ['--constraint', tmp_path / 'constraints.txt', 'a']]
    (tmp_path / 'constraints.txt').write_text('a==2\n')
    add()
    assert len(commands) == 2
