# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The tests in tiers, with all that they need installed first."""

import argparse
import os
import pathlib
import subprocess
import sys

from onebox import images
from onebox import ironic
from onebox import progress
from onebox import system

REPOSITORY = ironic.REPOSITORY
REQUIREMENTS = (*ironic.REQUIREMENTS, '-r',
                str(REPOSITORY / 'test-requirements.txt'))
LINTERS = ('ruff==0.17.*', 'hacking==8.1.0', 'bashate==2.1.1')
DESCRIPTION = '''\
Runs the tests: lint (style of Python and shell), unit (seconds), functional
(a real Nova API with a fake hypervisor) and e2e (real guests; minutes). All of
them by default. On request, images tries the rescue image in plain QEMU.
Installs what it needs, and leaves nothing running.
'''
TIERS = ('lint', 'unit', 'functional', 'e2e')
ON_REQUEST = ('images',)


class Tests:
    """The tests of this checkout.

    The clouds of the tests have a state folder of their own, so that one of
    the user's is left alone.
    """

    def __init__(self, shown, arguments):
        self._shown = shown
        self._arguments = arguments
        self._state = pathlib.Path(os.environ.get(
            'QUINTUPLEO_STATE_DIR', system.STATE_DIR + '-tests'))
        self._cache = system.cache_dir()
        self._logs = self._state / 'logs'
        system.make_dir(self._state)
        system.make_dir(self._logs, 0o700)

    def _venv(self, name, requirements, constraints=None):
        version = system.run([ironic.PYTHON, '--version']).stdout
        texts = [version, ' '.join(requirements),
                 (REPOSITORY / 'test-requirements.txt').read_text()]
        if constraints:
            texts.append(constraints.read_text())
        path = self._cache / 'tests' / f'{name}-{system.digest(*texts)}'
        system.install_packages(['python3-venv', 'git'],
                                self._logs / 'packages.log')
        system.make_venv(path, requirements,
                         self._logs / f'python-{name}.log', constraints,
                         ironic.PYTHON)
        return path

    def run(self, tier):
        """Run one tier.

        :raises: Error if a test fails or cannot be run.
        """
        if tier == 'lint':
            self._lint()
            return
        with self._shown.stage(f'{tier}: environment'):
            venv = self._venv('ironic', REQUIREMENTS, ironic.CONSTRAINTS)
            ironic.install_checkout(venv, self._logs / 'python-ironic.log')
            if tier == 'images':
                self._rescue_image()
        command = [venv / 'bin' / 'python', '-m', 'pytest', '-ra',
                   REPOSITORY / 'tests' / tier, *self._arguments]
        if tier != 'unit':
            # What is brought up for minutes is worth watching.
            command += ['--capture=no', '--verbose']
        if tier == 'e2e':
            # A test goes on where the one before it ended.
            command += ['--exitfirst']
        with self._shown.stage(tier):
            self._require(self._call(command), tier)

    def _rescue_image(self):
        system.install_packages(['qemu-system-x86', 'ovmf'],
                                self._logs / 'packages.log')
        images.Images(self._cache, self._logs).build('iPXE rescue image')

    def _lint(self):
        with self._shown.stage('lint: environment'):
            venv = self._venv('lint', LINTERS)
            system.install_packages(['shellcheck', 'git'],
                                    self._logs / 'packages.log')
        listed = system.run(
            ['git', '-c', f'safe.directory={REPOSITORY}', '-C', REPOSITORY,
             'ls-files']).stdout.split()
        python = [name for name in listed if _speaks(name, 'py', 'python')]
        shell = [name for name in listed if _speaks(name, 'sh', 'bash')]
        with self._shown.stage('lint'):
            results = [
                self._call([venv / 'bin' / 'ruff', 'check', *python]),
                self._call([venv / 'bin' / 'flake8', '--select', 'H',
                            *python]),
                # E043 takes "(( a == b )) || die" for a mistake.
                self._call([venv / 'bin' / 'bashate', '--ignore',
                            'E006,E043', *shell]),
                self._call(['shellcheck', '--external-sources', *shell])]
            self._require(all(results), 'lint')

    def _require(self, passed, tier):
        if not passed:
            raise system.Error(f'{tier} failed, see above. Logs of what it '
                               f'ran: {self._logs}')

    def _call(self, command):
        sys.stdout.flush()
        return subprocess.run(
            [str(word) for word in command], cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            env={**os.environ, 'QUINTUPLEO_STATE_DIR': str(self._state),
                 'PYTHONDONTWRITEBYTECODE': '1',
                 'PYTHONWARNINGS': 'ignore'}).returncode == 0


def _speaks(name, suffix, interpreter):
    path = REPOSITORY / name
    if not path.is_file():
        return False
    if path.suffix:
        return path.suffix == f'.{suffix}'
    with open(path, 'rb') as source:
        first = source.readline()
    return first.startswith(b'#!') and interpreter.encode() in first


def main(argv=None):
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog='run-tests', description=DESCRIPTION,
        epilog='What follows -- goes to pytest.')
    parser.add_argument('tiers', nargs='*', metavar='TIER',
                        help=f"{', '.join(TIERS)} (these by default), "
                             f"{', '.join(ON_REQUEST)}")
    argv = sys.argv[1:] if argv is None else argv
    cut = argv.index('--') if '--' in argv else len(argv)
    own, rest = argv[:cut], argv[cut + 1:]
    tiers = parser.parse_args(own).tiers or list(TIERS)
    for tier in tiers:
        if tier not in TIERS + ON_REQUEST:
            parser.error(f"there is no tier '{tier}', only "
                         f"{', '.join(TIERS + ON_REQUEST)}")
    shown = progress.Progress('run-tests')
    try:
        system.require_root()
        tests = Tests(shown, rest)
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        return 1
    failures = []
    for tier in tiers:
        try:
            tests.run(tier)
        except system.Error as error:
            failures.append(error)
            print(f'\n{error.report()}', file=sys.stderr)
    shown.summary()
    for error in failures:
        print(f'\n{error}', file=sys.stderr)
    return 1 if failures else 0
