# SPDX-License-Identifier: Apache-2.0
"""Daemons in the background: started, found again, stopped with their kin.

A daemon leads a session of its own, and its environment carries a mark. Both
are inherited, so whatever it starts can be found later, by another process
and after its leader was killed.
"""

import contextlib
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

from onebox import system

MARK = 'ONEBOX_DAEMON'
# Set while work is given up, so that nobody goes on waiting for the rest.
give_up = threading.Event()
# Set once this process has to end and only undoes what it has made.
ends = threading.Event()
# What "call" runs now.
_called = set()
# Below those of net.ipv4.ip_local_port_range.
FREE_PORTS = 30000, 32768


def start_time(pid):
    """When a process began, in ticks since boot; None if it is gone.

    Together with the pid it names one process for as long as the machine is
    up, though pids are used again.
    """
    fields = _stat(pid)
    if not fields or fields[0] == 'Z':
        return None
    return int(fields[19])


def _stat(pid):
    """Fields of /proc/PID/stat from the state on."""
    try:
        text = pathlib.Path('/proc/%d/stat' % pid).read_text()
    except (OSError, ValueError):
        return None
    return text.rpartition(')')[2].split()


def boot_id():
    """A name for the time since the machine was booted."""
    return pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()


def all_pids():
    """The pids of all processes but this one."""
    return [int(entry) for entry in os.listdir('/proc')
            if entry.isdigit() and int(entry) != os.getpid()]


def mark_of(pid):
    """The mark that a process carries, or an empty text."""
    try:
        environment = pathlib.Path('/proc/%d/environ' % pid).read_bytes()
    except OSError:
        return ''
    for entry in environment.split(b'\0'):
        name, _, value = entry.partition(b'=')
        if name == MARK.encode():
            return value.decode(errors='replace')
    return ''


def command_line(pid):
    """The words of a process's command line."""
    try:
        words = pathlib.Path('/proc/%d/cmdline' % pid).read_bytes()
    except OSError:
        return []
    return words.decode(errors='replace').split('\0')


def memory(pids):
    """Bytes of memory of these processes, shared pages counted once."""
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path('/proc/%d/smaps_rollup' % pid).read_text()
        except OSError:
            continue
        for line in lines.splitlines():
            if line.startswith('Pss:'):
                total += int(line.split()[1]) * 1024
    return total


def kill(pids, grace=10):
    """End processes: ask first, insist after ``grace`` seconds."""
    identities = {pid: start_time(pid) for pid in pids}
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5)):
        for pid in _alive(identities):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + patience
        while _alive(identities):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def at_first_signal(end):
    """Set a function that handles the first SIGTERM or SIGINT.

    Later ones have no effect: they must not stop the cleanup. A child does
    not inherit that.

    :param end: function of the signal's number.
    """
    # A job in the background ignores SIGINT.
    caught = [each for each in (signal.SIGTERM, signal.SIGINT)
              if signal.getsignal(each) is not signal.SIG_IGN]

    def first(number, frame):
        for each in caught:
            signal.signal(each, lambda *_: None)
        end(number)

    for each in caught:
        signal.signal(each, first)


def undo_when_ended():
    """Make SIGTERM and SIGINT end this process as an exit does.

    They end the commands of :func:`call`, too: only a terminal sends SIGINT
    to all of them.
    """
    def end(number):
        ends.set()
        for process in tuple(_called):
            process.terminate()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    at_first_signal(end)


def call(command, undoes=False, **kwargs):
    """Run a command, which is let end by itself when this process has to.

    What is called later than that is ended at once, if it does not undo.

    :param command: its words.
    :param undoes: whether it only removes what there is, and may go on.
    :param kwargs: for subprocess.Popen.
    :returns: its exit code.
    """
    with subprocess.Popen(command, **kwargs) as process:
        try:
            if not undoes:
                _called.add(process)
                if ends.is_set():
                    process.terminate()
            return process.wait()
        except BaseException:
            if not undoes:
                process.terminate()
            # At KeyboardInterrupt Popen waits for a quarter of a second.
            process.wait()
            raise
        finally:
            _called.discard(process)


def _alive(identities):
    return [pid for pid, began in identities.items()
            if began is not None and start_time(pid) == began]


def listening(port, host='127.0.0.1'):
    """Whether something accepts connections on a TCP port."""
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((host, port)) == 0


def free_port():
    """A TCP port of loopback that nobody listens on.

    None of those that the kernel gives to connections, one of which could have
    it before the service that it is for.
    """
    while True:
        port = secrets.choice(range(*FREE_PORTS))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('127.0.0.1', port))
            return port


def wait_for(check, timeout, what, stop=None, interval=0.2):
    """Wait until ``check`` is true, and return what it returned.

    :param check: function that returns a true value when all is well.
    :param timeout: seconds to wait at most.
    :param what: what is waited for, in words.
    :param stop: function that raises when waiting is in vain.
    :raises: Error when the time is over.
    """
    deadline = time.monotonic() + timeout
    while True:
        result = check()
        if result:
            return result
        if stop:
            stop()
        if give_up.is_set():
            raise system.Error('Gave up waiting for %s.' % what)
        if time.monotonic() > deadline:
            raise system.Error('Waited %d s in vain for %s.' % (timeout, what))
        time.sleep(interval)


class Daemon:
    """A process in the background, known by its pid file.

    :param name: its name, used for its pid file and log.
    :param run_dir: folder of pid files.
    :param log_dir: folder of logs.
    """

    def __init__(self, name, run_dir, log_dir):
        self.name = name
        self.mark = '%s:%s' % (run_dir, name)
        self.pid_file = pathlib.Path(run_dir) / (name + '.pid')
        self.log = pathlib.Path(log_dir) / (name + '.log')

    def _recorded(self):
        """The pid and start time last recorded, if of this boot."""
        try:
            pid, began, boot = self.pid_file.read_text().split()
        except (OSError, ValueError):
            return None, None
        if boot != boot_id():
            return None, None
        return int(pid), int(began)

    def pid(self):
        """The pid of the running daemon, or None."""
        pid, began = self._recorded()
        if pid and start_time(pid) == began:
            return pid
        return None

    def family(self):
        """All processes that this daemon started, itself included."""
        leader, began = self._recorded()
        members = []
        for pid in all_pids():
            fields = _stat(pid)
            if not fields or fields[0] == 'Z':
                continue
            in_session = (leader and int(fields[3]) == leader
                          and int(fields[19]) >= began)
            if in_session or mark_of(pid) == self.mark:
                members.append(pid)
        return members

    def start(self, argv, environment, user=None, directory='/'):
        """Start it, unless it runs; what an earlier one left is ended.

        :param argv: the command, which stays in the foreground.
        :param environment: its whole environment.
        :param user: the user it runs as.
        :param directory: its working directory.
        :returns: whether it was started now.
        """
        if self.pid():
            return False
        kill(self.family())
        identity = {}
        if user:
            identity = {'user': user, 'group': user, 'extra_groups': []}
        with open(self.log, 'a') as output:
            child = subprocess.Popen(
                [str(word) for word in argv], cwd=directory,
                env={**environment, MARK: self.mark},
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, **identity)
        # A parent that outlives its children must not warn about them.
        child.returncode = 0
        system.write_file(self.pid_file, '%d %d %s\n' % (
            child.pid, start_time(child.pid) or 0, boot_id()), 0o644)
        return True

    def require_alive(self):
        """Raise an error if the daemon has ended.

        :raises: Error that names its log.
        """
        pid = self.pid()
        if pid is None:
            raise system.Error('%s ended just after its start.' % self.name,
                               self.log)

    def stop(self, grace=10):
        """End it and all that it started."""
        kill(self.family(), grace)
        self.pid_file.unlink(missing_ok=True)
