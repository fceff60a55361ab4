# SPDX-License-Identifier: Apache-2.0
"""What is shown of stages and steps."""

import io

import pytest

from onebox import progress


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


class Terminal(io.StringIO):

    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize('seconds, text', [
    (0, '0.0 s'), (9.94, '9.9 s'), (9.96, '10 s'), (59.4, '59 s'),
    (59.6, '1 min 00 s'), (125.4, '2 min 05 s'), (3725, '62 min 05 s')])
def test_elapsed(seconds, text):
    assert progress.elapsed(seconds) == text


def test_lines_of_a_stage(clock):
    stream = io.StringIO()
    shown = progress.Progress('up', total=2, stream=stream, clock=clock)
    with shown.stage('Services') as stage:
        with stage.step('mariadb'):
            clock.seconds += 2
        stage.waiting('keystone')
        stage.waiting('keystone')
        clock.seconds += 1
    lines = stream.getvalue().splitlines()
    assert lines[0] == '[1/2] Services'
    assert lines[1].split() == ['mariadb', '2.0', 's']
    assert lines[2].strip() == 'waiting for keystone'
    assert lines[3] == '[1/2] Services: done, 3.0 s'
    assert len(lines) == 4


def test_failure_is_shown_and_goes_on(clock):
    stream = io.StringIO()
    shown = progress.Progress('up', stream=stream, clock=clock)
    with pytest.raises(ValueError):
        with shown.stage('Services') as stage:
            with stage.step('nova'):
                raise ValueError()
    assert '[1] Services: failed' in stream.getvalue()
    assert ' nova ' not in stream.getvalue()
    assert shown.stages[0].outcome == 'failed'


def test_interruption_is_no_failure(clock):
    shown = progress.Progress('up', stream=io.StringIO(), clock=clock)
    with pytest.raises(KeyboardInterrupt):
        with shown.stage('Services'):
            raise KeyboardInterrupt()
    assert shown.stages[0].outcome == 'interrupted'


def test_table(clock):
    shown = progress.Progress('up', stream=io.StringIO(), clock=clock)
    with shown.stage('One'):
        clock.seconds += 65
    with shown.stage('Another'):
        clock.seconds += 3
    table = [line.split() for line in shown.table()]
    assert table[1] == ['One', '0.0', 's', '1', 'min', '05', 's', 'done']
    assert table[2] == ['Another', '1', 'min', '05', 's', '3.0', 's', 'done']
    assert table[3] == ['total', '1', 'min', '08', 's']


def test_terminal_shows_one_line(clock):
    stream = Terminal()
    shown = progress.Progress('up', total=1, stream=stream, clock=clock)
    with shown.stage('Services') as stage:
        stage.waiting('nova-compute')
        clock.seconds += 4
        assert stage.status_line() == '[1/1] Services  4.0 s  nova-compute'
    assert 'waiting for' not in stream.getvalue()
    assert stream.getvalue().endswith('[1/1] Services: done, 4.0 s\n')


def test_status_line_names_running_steps(clock):
    shown = progress.Progress('up', stream=io.StringIO(), clock=clock)
    with shown.stage('Services') as stage:
        with stage.step('a'), stage.step('b'):
            assert stage.status_line().endswith('a, b')
