# SPDX-License-Identifier: Apache-2.0
"""The machine: folders, locks, commands, Debian packages, Python venvs."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess

STATE_DIR = '/var/lib/quintupleo'
CACHE_DIR = '/var/cache/quintupleo'
UV = 'uv==0.13.*'
PIP_INSTALL = ('--disable-pip-version-check', 'install', '--no-input')
# A file in a Python environment that has all that it is to have.
COMPLETE = '.complete'
POLICY = pathlib.Path('/usr/sbin/policy-rc.d')
POLICY_TEXT = '''#!/bin/sh
# Made for the time of one package installation: no daemon is started by it.
exit 101
'''


class Error(Exception):
    """An expected failure, told in a sentence.

    :param message: what is wrong and what to do.
    :param log: path of a log whose end shows more.
    """

    def __init__(self, message, log=None):
        super().__init__(message)
        self.log = pathlib.Path(log) if log else None

    def report(self, lines=15):
        """The message, where the log is and how the log ends."""
        text = str(self)
        if self.log:
            text += '\nIts log is %s' % self.log
            end = tail(self.log, lines)
            if end:
                text += ', which ends:\n    ' + '\n    '.join(end)
        return text


def state_dir():
    """The folder of all state."""
    return pathlib.Path(os.environ.get('QUINTUPLEO_STATE_DIR', STATE_DIR))


def cache_dir():
    """The folder of all that can be made again, as tools/images have it."""
    folder = pathlib.Path(CACHE_DIR)
    if os.geteuid():
        folder = pathlib.Path(os.environ.get('XDG_CACHE_HOME')
                              or pathlib.Path.home() / '.cache') / folder.name
    return pathlib.Path(os.environ.get('QUINTUPLEO_CACHE_DIR') or folder)


def require_root():
    """Refuse to go on without root's rights.

    :raises: Error when the user is not root.
    """
    if os.geteuid() != 0:
        raise Error('This needs root: it installs Debian packages, makes '
                    'network devices and starts daemons. Run it with sudo.')


def make_dir(path, mode=0o755, user=None):
    """Make a folder with this mode and owner, and return its path."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    if user:
        shutil.chown(path, user, user)
    path.chmod(mode)
    return path


def write_file(path, text, mode=0o600, user=None):
    """Replace a file at once, never readable by others on the way."""
    path = pathlib.Path(path)
    if path.exists() and path.read_text() == text:
        return
    new = path.with_name(path.name + '.new')
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, 'w') as target:
        target.write(text)
    if user:
        shutil.chown(new, user, user)
    new.rename(path)


def link(path, target):
    """Make a symbolic link, or let it point to another target."""
    path = pathlib.Path(path)
    if path.is_symlink() and path.readlink() == pathlib.Path(target):
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def tail(path, lines=15):
    """Return the last lines of a file; none if it cannot be read."""
    try:
        with open(path, 'rb') as source:
            source.seek(0, os.SEEK_END)
            source.seek(max(source.tell() - 16384, 0))
            text = source.read().decode(errors='replace')
    except OSError:
        return []
    return [line[:300] for line in text.splitlines()[-lines:]]


@contextlib.contextmanager
def lock(path, what):
    """Hold a lock that ends with the process, however that ends.

    :param path: the lock file.
    :param what: what only one process may do at a time.
    :raises: Error when another process holds it.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'a+') as holder:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder.seek(0)
            raise Error('%s is already running (process %s). Wait for it '
                        'or stop it.' % (what, holder.read().strip() or '?'))
        holder.truncate(0)
        holder.write('%d\n' % os.getpid())
        holder.flush()
        yield


def run(argv, check=True, log=None, timeout=None, **kwargs):
    """Run a command that asks nothing, and return its result.

    :param argv: the command.
    :param check: whether a failure is an error.
    :param log: file that its output is appended to.
    :param timeout: seconds after which it is killed.
    :raises: Error when it fails or does not end.
    """
    argv = [str(word) for word in argv]
    kwargs.setdefault('stdin', subprocess.DEVNULL)
    if 'input' in kwargs:
        del kwargs['stdin']
    name = shlex.join(argv[:4])
    try:
        if log:
            with open(log, 'a') as output:
                result = subprocess.run(
                    argv, stdout=output, stderr=subprocess.STDOUT, text=True,
                    timeout=timeout, **kwargs)
        else:
            result = subprocess.run(argv, capture_output=True, text=True,
                                    timeout=timeout, **kwargs)
    except FileNotFoundError:
        raise Error('The command %s is not installed.' % argv[0])
    except subprocess.TimeoutExpired:
        raise Error('"%s" did not end within %d s.' % (name, timeout), log)
    if check and result.returncode:
        said = (result.stderr or result.stdout or '').strip()
        raise Error('"%s" failed with exit code %d%s' % (
            name, result.returncode,
            ': ' + said[-1500:] if said else '.'), log)
    return result


def missing_packages(names):
    """Return those of the Debian packages that are not installed."""
    result = run(['dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n',
                  *names], check=False, env={**os.environ, 'LC_ALL': 'C'})
    installed = {line.split()[0] for line in result.stdout.splitlines()
                 if line.endswith(' installed')}
    return [name for name in names if name not in installed]


def install_packages(names, log):
    """Install Debian packages without starting the daemons in them.

    Other apt sources of the machine may be broken; that alone is no error.

    :param names: names of Debian packages.
    :param log: file for the output of apt-get.
    :raises: Error when a package cannot be installed.
    """
    if not missing_packages(names):
        return
    # One at a time: the policy is removed with the first that ends.
    with _turn(cache_dir() / 'packages.lock'):
        _install_missing(missing_packages(names), log)


def _install_missing(missing, log):
    if not missing:
        return
    apt = ['apt-get', '-o', 'DPkg::Lock::Timeout=300']
    environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive',
                   'LC_ALL': 'C'}
    run([*apt, 'update'], check=False, log=log, env=environment)
    with _no_daemons():
        result = run([*apt, 'install', '--yes', '--no-install-recommends',
                      '-o', 'Dpkg::Options::=--force-confold', *missing],
                     check=False, log=log, env=environment)
    if result.returncode:
        raise Error('apt-get could not install %s.' % ' '.join(missing), log)
    _leave_disabled(missing, log)


def _leave_disabled(packages, log):
    """Keep systemd from starting at boot what was installed for us.

    Our daemons are private ones; those of the machine that were there before
    are not touched.
    """
    if not pathlib.Path('/run/systemd/system').is_dir():
        return
    files = run(['dpkg-query', '--listfiles', *packages]).stdout
    units = {pathlib.Path(line).name for line in files.splitlines()
             if '/systemd/system/' in line and '@' not in line
             and line.endswith(('.service', '.socket', '.timer'))}
    if units:
        run(['systemctl', 'disable', *sorted(units)], check=False, log=log)


@contextlib.contextmanager
def _no_daemons():
    """Keep packages from starting daemons, as policy-rc.d is there for."""
    if POLICY.exists() and POLICY.read_text() != POLICY_TEXT:
        # The machine has a policy of its own: it decides.
        yield
        return
    POLICY.write_text(POLICY_TEXT)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def digest(*texts):
    """A short name for these texts together."""
    return hashlib.sha256('\0'.join(texts).encode()).hexdigest()[:12]


def make_venv(path, requirements, log, constraints=None,
              python='/usr/bin/python3'):
    """Make a Python environment, unless it is there and complete.

    :param path: where; its name should change when its content should.
    :param requirements: arguments for pip install.
    :param log: file for the output of pip.
    :param constraints: a pip constraints file.
    :param python: the interpreter.
    :raises: Error when it cannot be made.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _turn(path.with_name(path.name + '.lock')):
        if (path / COMPLETE).exists():
            return
        shutil.rmtree(path, ignore_errors=True)
        run([python, '-m', 'venv', path], log=log)
        install(path, requirements, log, [constraints] if constraints else [])
        (path / COMPLETE).touch()


def add_to_venv(path, name, requirements, log, constraints=()):
    """Add packages to a complete Python environment, once.

    :param path: where it is.
    :param name: a name for what is added.
    :param requirements: arguments for pip install.
    :param log: file for the output of pip.
    :param constraints: pip constraints files.
    :raises: Error when that cannot be done.
    """
    complete = pathlib.Path(path) / (COMPLETE + '-' + digest(
        name, *requirements, *(each.read_text() for each in constraints)))
    if not complete.exists():
        install(path, requirements, log, constraints)
        complete.touch()


def uv(log):
    """Return the path of uv, which installs in a quarter of pip's time.

    :param log: file for the output of pip, which installs it.
    :raises: Error when it cannot be installed.
    """
    path = cache_dir() / ('uv-' + digest(UV))
    with _turn(path.with_name(path.name + '.lock')):
        if not (path / COMPLETE).exists():
            shutil.rmtree(path, ignore_errors=True)
            run(['/usr/bin/python3', '-m', 'venv', path], log=log)
            run([path / 'bin' / 'pip', *PIP_INSTALL, UV], log=log)
            (path / COMPLETE).touch()
    return path / 'bin' / 'uv'


def release(venv, package):
    """Tell which release of a package a Python environment has."""
    return run([pathlib.Path(venv) / 'bin' / 'pip', 'show', package]
               ).stdout.split('Version: ')[1].split()[0]


def install(path, requirements, log, constraints=()):
    """Install packages into a Python environment.

    :param path: where it is.
    :param requirements: arguments for pip install.
    :param log: file for the output of pip.
    :param constraints: pip constraints files.
    :raises: Error when that cannot be done.
    """
    options = [word for each in constraints for word in ('--constraint', each)]
    pip = path / 'bin' / 'pip'
    settings = run([pip, 'config', 'list']).stdout
    # uv does not read pip's configuration: where that names another index or
    # a way to it, only pip finds the packages.
    if re.search(r'\.(index-url|no-index|proxy|client-cert|trusted-host)=',
                 settings):
        command, variables = [pip, *PIP_INSTALL, '--prefer-binary'], {}
    else:
        command = [uv(log), 'pip', 'install', '--python', path,
                   '--cache-dir', cache_dir() / 'uv', '--compile-bytecode']
        certificates = re.search(r"\.cert='(.*)'", settings)
        variables = ({'SSL_CERT_FILE': certificates[1]} if certificates
                     else {'UV_NATIVE_TLS': '1'})
    run([*command, *options, *requirements], log=log, env={
        **os.environ, **variables,
        # pbr asks git, and a checkout may be of the user who called sudo.
        'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_KEY_0': 'safe.directory',
        'GIT_CONFIG_VALUE_0': '*'})


@contextlib.contextmanager
def _turn(path):
    """Wait until no other process or thread does what this file is for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w') as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield
