# SPDX-License-Identifier: Apache-2.0
"""What a run of tests shows of where it is."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from onebox import testing

TESTS = '''
import unittest

import pytest


class Some(unittest.TestCase):
    def test_passes(self):
        for number in range(3):
            with self.subTest(number):
                pass


def test_fails():
    assert 1 == 2, 'the reason'


@pytest.fixture
def broken():
    raise ValueError('of the fixture')


def test_is_not_set_up(broken):
    pass


@pytest.mark.skip(reason='not here')
def test_is_skipped():
    pass
'''

# Those that are set up, whose times are kept.
SET_UP = {f'test_some.py::{name}' for name in (
    'Some::test_passes', 'test_fails', 'test_is_skipped')}


@pytest.fixture
def command(tmp_path):
    """The words that run some tests as tools/run-tests does."""
    path = tmp_path / 'test_some.py'
    path.write_text(TESTS)
    return [sys.executable, '-m', 'pytest', '-q', '-ra',
            '-p', 'onebox.pytest_progress', '--run-title', 'some',
            '--run-times', tmp_path / 'times.json',
            '-p', 'no:cacheprovider', '--rootdir', tmp_path, path]


def _run(command, *words):
    return subprocess.run(
        [str(word) for word in (*command, *words)], cwd=testing.REPOSITORY,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, 'PYTHONPATH': str(testing.REPOSITORY / 'tools')})


def test_failures_are_shown_when_they_happen_and_once(command):
    said = _run(command).stdout
    for failed, when, why in (
            ('test_fails', 'call', "AssertionError: the reason"),
            ('test_is_not_set_up', 'setup', 'ValueError: of the fixture')):
        title = re.search(
            rf'_ \S*::{failed} failed in its {when} _', said)
        # Before the run is over, and its traceback not again after that.
        assert title.start() < said.index(why) < said.index('some 4/4')
        assert said.count('Traceback') + said.count(f'E       {why}') <= 1
    assert '1 failed, 1 passed, 1 skipped, 1 error' in said


def _expect_30_seconds_of_each(tmp_path):
    (tmp_path / 'times.json').write_text(json.dumps(
        dict.fromkeys([*SET_UP, 'test_some.py::test_is_not_set_up'], 30)))


def test_time_is_expected_by_the_last_run(command, tmp_path):
    said = _run(command).stdout
    assert re.search(r'some 4/4, [\d.]+ s: test_some.py::test_is_skip', said)
    # A run on a machine that lacks what all of them need takes no time.
    assert SET_UP == set(json.loads((tmp_path / 'times.json').read_text()))
    _expect_30_seconds_of_each(tmp_path)
    assert 'of about 2 min 00 s: ' in _run(command).stdout


def test_workers_share_the_expected_time(command, tmp_path):
    _expect_30_seconds_of_each(tmp_path)
    said = _run(command, '--numprocesses', '2').stdout
    assert 'some 4/4' in said and 'of about 1 min 00 s: ' in said
    assert '1 failed, 1 passed, 1 skipped, 1 error' in said


def test_terminal_has_one_line_that_changes(command):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
            [str(word) for word in (*command, '-k', 'passes')],
            cwd=testing.REPOSITORY, stdout=theirs, stderr=theirs,
            env={**os.environ, 'TERM': 'xterm',
                 'PYTHONPATH': str(testing.REPOSITORY / 'tools')}) as process:
        os.close(theirs)
        said = b''
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:
            # The other side is closed.
            pass
    os.close(ours)
    assert process.returncode == 0
    assert re.search(rb'\rsome 1/1, [\d.]+ s: test_some.py::Some::', said)
