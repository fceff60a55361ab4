# SPDX-License-Identifier: Apache-2.0
"""Daemons: started, found again, stopped."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from onebox import processes
from onebox import system

ENVIRONMENT = {'PATH': os.environ['PATH']}
# A daemon with a child that leaves its session.
PARENT = '''
import os, subprocess, sys, time
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],
                 start_new_session=True)
print('ready', flush=True)
time.sleep(600)
'''


@pytest.fixture
def daemon(tmp_path):
    made = processes.Daemon('example', tmp_path, tmp_path)
    yield made
    made.stop()


def _start(daemon):
    daemon.start([sys.executable, '-c', PARENT], ENVIRONMENT)
    processes.wait_for(lambda: 'ready' in daemon.log.read_text(), 20,
                       'the example')


def test_start_and_stop(daemon):
    _start(daemon)
    pid = daemon.pid()
    assert daemon.start(['false'], ENVIRONMENT) is False
    assert daemon.pid() == pid
    family = daemon.family()
    assert pid in family
    assert len(family) == 2
    daemon.stop()
    assert daemon.pid() is None
    assert daemon.family() == []
    assert all(processes.start_time(each) is None for each in family)


def test_what_a_killed_daemon_left_is_found(daemon):
    _start(daemon)
    os.kill(daemon.pid(), signal.SIGKILL)
    processes.wait_for(lambda: daemon.pid() is None, 10, 'the kill')
    assert len(daemon.family()) == 1
    daemon.stop()
    assert daemon.family() == []


def test_pid_of_another_process_is_not_taken(daemon):
    daemon.pid_file.write_text('%d 1 %s\n' % (os.getpid(),
                                              processes.boot_id()))
    assert daemon.pid() is None


def test_pid_file_of_an_earlier_boot(daemon):
    daemon.pid_file.write_text('%d %d another-boot\n' % (
        os.getpid(), processes.start_time(os.getpid())))
    assert daemon.pid() is None


def test_end_at_once_is_told_with_the_log(daemon):
    daemon.start([sys.executable, '-c', 'print("no such option")'],
                 ENVIRONMENT)
    with pytest.raises(system.Error) as caught:
        processes.wait_for(lambda: False, 20, 'the example',
                           stop=daemon.require_alive)
    assert 'no such option' in caught.value.report()
    assert str(daemon.log) in caught.value.report()


def test_wait_in_vain():
    with pytest.raises(system.Error, match='in vain for the moon'):
        processes.wait_for(lambda: False, 0.02, 'the moon', interval=0.01)


def test_free_port_is_free():
    port = processes.free_port()
    assert port in range(*processes.FREE_PORTS)
    assert not processes.listening(port)
    with socket.create_server(('127.0.0.1', port)):
        assert processes.listening(port)


def test_port_that_is_taken_is_not_free(monkeypatch):
    taken = processes.free_port()
    with socket.create_server(('127.0.0.1', taken)):
        free = processes.free_port()
        chosen = iter((taken, taken, free))
        monkeypatch.setattr(processes.secrets, 'choice',
                            lambda _: next(chosen))
        assert processes.free_port() == free


ENDS = '''
import signal, sys, time
sys.path.insert(0, sys.argv[1])
from onebox import processes
# A job in the background inherits that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
processes.undo_when_ended()
try:
    {}
finally:
    time.sleep(float(sys.argv[2]))
    print('undone in', sys.argv[2], flush=True)
'''
WAITS = "print('begun', flush=True); time.sleep(60)"


def _ends(does, end=subprocess.Popen.terminate, undoing='0.1'):
    """Start a program, and end it once it says that it has begun.

    :param end: function of it that does so.
    :param undoing: seconds that what it calls takes to undo its work.
    :returns: (its exit code, what it printed).
    """
    tools = str(pathlib.Path(processes.__file__).resolve().parents[1])
    with subprocess.Popen(
            [sys.executable, '-c', ENDS.format(does), tools, '0', undoing],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True) as process:
        begun = process.stdout.readline()
        end(process)
        return process.wait(20), begun + process.stdout.read()


def test_sigterm_lets_a_process_undo():
    assert _ends(WAITS) == (128 + signal.SIGTERM, 'begun\nundone in 0\n')


INNER = ENDS.format(WAITS)
CALLS = (f'processes.call([sys.executable, "-c", {INNER!r}, sys.argv[1], '
         'sys.argv[3]])')


def test_sigterm_lets_what_was_called_undo_first():
    assert _ends(CALLS) == (128 + signal.SIGTERM,
                            'begun\nundone in 0.1\nundone in 0\n')


def _interrupt(process):
    """Press Ctrl-C in the terminal of a process."""
    os.killpg(process.pid, signal.SIGINT)


def _interrupt_it_alone(process):
    process.send_signal(signal.SIGINT)


def _twice(interrupt):
    def both(process):
        interrupt(process)
        # What it calls takes longer than that to undo its work.
        time.sleep(0.3)
        interrupt(process)
    return both


@pytest.mark.parametrize('end', [
    _interrupt, _interrupt_it_alone, _twice(_interrupt),
    _twice(_interrupt_it_alone)])
def test_interrupt_lets_what_was_called_undo_first(end):
    # Longer than Popen waits for it.
    assert _ends(f"{CALLS}; print('never')", end, undoing='1')[1] == (
        'begun\nundone in 1\nundone in 0\n')


TEST = '''
import time
import pytest

@pytest.fixture
def made():
    yield
    print('undoing', flush=True)
    # The second signal comes meanwhile.
    time.sleep(1)
    print('undone', flush=True)

def test_of_something(made):
    print('begun', flush=True)
    try:
        # The first signal ends it.
        time.sleep(60)
    except Exception:
        pass

def test_never():
    print('never', flush=True)
'''


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_second_signal_does_not_stop_the_undoing_of_tests(tmp_path, number):
    path = tmp_path / 'test_ended.py'
    path.write_text(TEST)
    root = pathlib.Path(__file__).resolve().parents[3]
    with subprocess.Popen(
            [sys.executable, '-m', 'pytest', '-q', '--capture=no',
             '-p', 'no:cacheprovider', '-p', 'tests.conftest',
             '--rootdir', tmp_path, '-c', os.devnull, path],
            stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, 'PYTHONPATH': f'{root}:{root / "tools"}'}
            ) as process:
        for line in ('begun\n', 'undoing\n'):
            while not process.stdout.readline().endswith(line):
                assert process.poll() is None
            process.send_signal(number)
        printed = process.stdout.read()
        assert 'undone' in printed and 'never' not in printed
        assert process.wait(20) in (pytest.ExitCode.INTERRUPTED,
                                    128 + number)


IN_A_THREAD = f'''
from concurrent import futures
def other():
    {CALLS}
    print('ends' if processes.ends.is_set() else 'goes on', flush=True)
with futures.ThreadPoolExecutor(1) as pool:
    pool.submit(other).result()
'''.replace('\n', '\n    ')


@pytest.mark.parametrize('end', [
    subprocess.Popen.terminate, _interrupt, _interrupt_it_alone])
def test_what_another_thread_called_undoes_first(end):
    assert _ends(IN_A_THREAD, end)[1] == (
        'begun\nundone in 0.1\nends\nundone in 0\n')


def test_what_is_called_after_the_end_is_ended():
    waits = [sys.executable, '-c', 'import time; time.sleep(60)']
    try:
        processes.ends.set()
        assert processes.call(waits) == -signal.SIGTERM
    finally:
        processes.ends.clear()


def test_what_undoes_is_not_ended():
    assert _ends("processes.call([sys.executable, '-c', 'import time; "
                 "print(\"begun\", flush=True); time.sleep(1); "
                 "print(\"removed\", flush=True)'], undoes=True)")[1] == (
        'begun\nremoved\nundone in 0\n')


def test_call_gives_the_exit_code():
    assert processes.call([sys.executable, '-c', 'raise SystemExit(3)']) == 3
