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
import collections
import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from xml.etree import ElementTree

from onebox import images
from onebox import ironic
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import nova
from onebox.minicloud import settings
from onebox import progress
from onebox import quickstart
from onebox import releases
from onebox import system
from onebox import tempest

REPOSITORY = ironic.REPOSITORY
TEST_REQUIREMENTS = REPOSITORY / 'test-requirements.txt'
# They test the tools, which do not run on Ironic's libraries.
TESTS_OF_TOOLS = REPOSITORY / 'tests' / 'unit' / 'onebox'
LINTERS = ('ruff==0.17.*', 'hacking==8.1.0', 'bashate==2.1.1',
           'bandit==1.9.4')
# What bandit does not look for in tools, which nobody runs with input of
# others: programs that are run (B404, B603, B607: never through a shell),
# passwords (B105: of clouds that listen on loopback), XML (B314, B405: of our
# own pytest), SQL (B608: of our own names). The driver has no exception.
TOOLS_MAY = 'B105,B314,B404,B405,B603,B607,B608'
DESCRIPTION = '''\
Runs the tests: lint (style of Python and shell), unit (seconds), functional
(a real Nova API with a fake hypervisor) and e2e (real guests; minutes). All of
them by default. On request, images tries the rescue image in plain QEMU, and
tempest has Tempest deploy a node of quickstart's.
Installs what it needs, and leaves nothing running.
'''
TIERS = ('lint', 'unit', 'functional', 'e2e')
ON_REQUEST = ('images', 'tempest')
# Those that are run with more than one release of Ironic.
WITH_RELEASES = ('unit', 'functional')
# What goes through a whole Ironic: the least that is run with a release. The
# other functional tests have the driver in their own process, and take long.
ESSENTIAL = ('test_bad_input.py', 'test_credentials.py', 'test_power.py')
MOST_FAILURES = 10
# What a line of a service's log has that tells of trouble.
COMPLAINTS = (' ERROR ', ' CRITICAL ', '[ERROR]', '[error]',
              'MessagingTimeout')


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How the tests of one tier went with one release."""

    tier: str
    ironic: str
    nova: str
    passed: int
    failed: int
    skipped: int
    seconds: float

    @classmethod
    def read(cls, tier, release, nova_release, report):
        """Read pytest's report in the format of JUnit."""
        suite = ElementTree.parse(report).getroot().find('testsuite')
        # The suite's own numbers count each subtest, pytest's last line
        # does not.
        cases = [{child.tag for child in case}
                 for case in suite.iter('testcase')]
        failed = sum(bool(tags & {'failure', 'error'}) for tags in cases)
        skipped = sum('skipped' in tags for tags in cases)
        return cls(tier, release.name, nova_release,
                   len(cases) - failed - skipped, failed, skipped,
                   float(suite.get('time')))


class Tests:
    """The tests of this checkout.

    The clouds of the tests have a state folder of their own, so that one of
    the user's is left alone.

    :param shown: the :class:`progress.Progress`.
    :param arguments: arguments for pytest.
    :param choice: the :class:`Choice` of the command line.
    """

    def __init__(self, shown, arguments, choice):
        self.outcomes = []
        self._shown = shown
        self._arguments = arguments
        self._choice = choice
        self._state = pathlib.Path(os.environ.get(
            'QUINTUPLEO_STATE_DIR', system.STATE_DIR + '-tests'))
        self._cache = system.cache_dir()
        self._logs = self._state / 'logs'
        system.make_dir(self._state)
        system.make_dir(self._logs, 0o700)

    def run(self, tier):
        """Run one tier.

        :raises: Error if a test fails or cannot be run.
        """
        if tier == 'lint':
            self._lint()
        elif tier == 'unit':
            self._each_release(tier)
        elif tier == 'functional':
            with self._cloud() as cloud:
                self._each_release(tier, cloud)
        elif tier == 'tempest':
            self._tempest()
        else:
            if tier == 'images':
                self._ipxe_images()
            self._pytest(tier, releases.NEWEST)

    def _each_release(self, tier, cloud=None):
        """Run a tier with all releases, though one of them fails."""
        failures = []
        for release in self._choice.releases:
            try:
                self._pytest(tier, release, cloud)
            except system.Error as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _pytest(self, tier, release, cloud=None):
        """Run the tests of a tier in the environment of a release."""
        variables = {}
        title = f'{tier}, Ironic {release.name}'
        with self._shown.stage(f'{title}: environment'):
            venv = self._environment(release)
        report = self._logs / f'{tier}-{release.name}.xml'
        report.unlink(missing_ok=True)
        command = [venv / 'bin' / 'python', '-m', 'pytest', '-ra',
                   *self._paths(tier, release), '--junit-xml', report]
        if tier != 'unit':
            # What is brought up for minutes is worth watching.
            command += ['--capture=no', '--verbose']
        if tier == 'e2e':
            # A test goes on where the one before it ended.
            command += ['--exitfirst']
        elif tier == 'functional':
            # A cloud that has broken would let each test wait in vain.
            command += [f'--maxfail={MOST_FAILURES}']
        if release != releases.NEWEST:
            command += ['-m', 'not newest', '--ignore', TESTS_OF_TOOLS]
        if cloud:
            variables = {
                'QUINTUPLEO_TEST_CLOUD': cloud.state,
                'QUINTUPLEO_IRONIC_VENV': venv,
                'QUINTUPLEO_STATE_DIR': self._state / f'ironic-{release.name}'}
        with self._shown.stage(title):
            passed = self._call([*command, *self._arguments], **variables)
            if report.exists():
                self.outcomes.append(Outcome.read(
                    tier, release, cloud.nova if cloud else '', report))
            self._require(passed, title)

    def _paths(self, tier, release):
        folder = REPOSITORY / 'tests' / tier
        if tier == 'functional' and release in self._choice.essential:
            return [folder / name for name in ESSENTIAL]
        return [folder]

    def _environment(self, release):
        """The Python environment of a release, with this checkout in it."""
        name = f'ironic-{release.name}'
        system.install_packages(release.packages, self._logs / 'packages.log')
        venv = self._venv(
            name, (*release.requirements, '-r', str(TEST_REQUIREMENTS)),
            release.constraints)
        ironic.install_checkout(venv, self._logs / f'python-{name}.log')
        return venv

    def _venv(self, name, requirements, constraints=None):
        version = system.run([ironic.PYTHON, '--version']).stdout
        texts = [version, ' '.join(requirements),
                 TEST_REQUIREMENTS.read_text()]
        if constraints:
            texts.append(constraints.read_text())
        path = self._cache / 'tests' / f'{name}-{system.digest(*texts)}'
        system.install_packages(['python3-venv', 'git'],
                                self._logs / 'packages.log')
        system.make_venv(path, requirements,
                         self._logs / f'python-{name}.log', constraints,
                         ironic.PYTHON)
        return path

    @contextlib.contextmanager
    def _cloud(self):
        """A cloud with a fake hypervisor, for all releases of Ironic.

        :returns: its :class:`settings.Settings`, as a context.
        """
        given = os.environ.get('QUINTUPLEO_TEST_CLOUD')
        if given:
            yield settings.Settings(given)
            return
        with minicloud.lock(settings.Settings(self._state)):
            cloud = settings.Settings(self._state)
            if cloud.exists():
                # A run was interrupted here: none of it is to be met again.
                minicloud.down(cloud, self._shown)
                cloud = settings.Settings(self._state)
            try:
                minicloud.up(cloud, self._shown, 'fake',
                             nova_release=self._choice.nova)
                yield cloud
            except system.Error:
                _print_trouble(cloud)
                raise
            finally:
                minicloud.down(cloud, self._shown)

    def _ipxe_images(self):
        system.install_packages(['qemu-system-x86', 'ovmf'],
                                self._logs / 'packages.log')
        built = images.Images(self._cache, self._logs)
        for title in ('iPXE rescue image', 'iPXE network-first image'):
            built.build(title)

    def _tempest(self):
        """Have Tempest deploy a node."""
        with self._shown.stage('tempest: environment'):
            system.install_packages(tempest.PACKAGES,
                                    self._logs / 'packages.log')
            venv = self._venv('tempest', tempest.REQUIREMENTS)
            ironic.install_checkout(venv, self._logs / 'python-tempest.log')
        with quickstart.for_tests(self._shown, self._state) as lab:
            with self._shown.stage('a node is made available') as stage:
                lab.nodes.provision('bios-0', 'manage', 'manageable', stage,
                                    120)
                lab.nodes.provision('bios-0', 'provide', 'available', stage,
                                    900)
            with self._shown.stage('tempest'):
                begun = time.monotonic()
                counts = tempest.run(lab, venv, self._logs / 'tempest')
                self.outcomes.append(Outcome(
                    'tempest', releases.NEWEST.name, lab.cloud.nova,
                    seconds=time.monotonic() - begun, **counts))
                self._require(counts['passed'] and not counts['failed']
                              and not counts['skipped'], 'tempest')

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
                self._call(['shellcheck', '--external-sources', *shell]),
                self._call([venv / 'bin' / 'bandit', '--quiet',
                            '--recursive', 'quintupleo_power']),
                self._call([venv / 'bin' / 'bandit', '--quiet', '--skip',
                            TOOLS_MAY, '--recursive', 'tools',
                            'benchmarks'])]
            self._require(all(results), 'lint')

    def _require(self, passed, title):
        if not passed:
            raise system.Error(f'{title} failed, see above. Logs of what it '
                               f'ran: {self._logs}')

    def _call(self, command, **variables):
        sys.stdout.flush()
        return subprocess.run(
            [str(word) for word in command], cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            env={**os.environ, 'QUINTUPLEO_STATE_DIR': str(self._state),
                 'PYTHONDONTWRITEBYTECODE': '1', 'PYTHONWARNINGS': 'ignore',
                 # Ironic's own limit, a minute, ends pytest by a signal.
                 'BASE_TEST_TIMEOUT': '600',
                 **{name: str(value) for name, value in variables.items()}}
            ).returncode == 0


def _print_trouble(cloud):
    """Print which services of a cloud are ill, and their last complaints."""
    print('\nThe cloud of the tests:')
    for name, pid, healthy, _, log in minicloud.examine(cloud):
        print(f"  {name}: process {pid}, {'well' if healthy else 'ILL'}")
        path = pathlib.Path(log)
        if path.is_file():
            with open(path, errors='replace') as lines:
                last = collections.deque(
                    (line for line in lines
                     if any(level in line for level in COMPLAINTS)), 3)
            print(''.join(f'    {line[:400].rstrip()}\n' for line in last),
                  end='')


def _speaks(name, suffix, interpreter):
    path = REPOSITORY / name
    if not path.is_file():
        return False
    if path.suffix:
        return path.suffix == f'.{suffix}'
    with open(path, 'rb') as source:
        first = source.readline()
    return first.startswith(b'#!') and interpreter.encode() in first


def _parser():
    parser = argparse.ArgumentParser(
        prog='run-tests', description=DESCRIPTION,
        epilog='What follows -- goes to pytest.')
    known = ', '.join(release.name for release in releases.RELEASES)
    parser.add_argument('tiers', nargs='*', metavar='TIER',
                        help=f"{', '.join(TIERS)} (these by default), "
                             f"{', '.join(ON_REQUEST)}")
    parser.add_argument(
        '--ironic', metavar='RELEASE', action='append',
        choices=('all', *(release.name for release in releases.RELEASES)),
        help=f'run {" and ".join(WITH_RELEASES)} tests with this release of '
             f'Ironic and the libraries of its time: {known}, or all. '
             f'By default {releases.NEWEST.name}, and {releases.OLDEST.name} '
             'beside it where no TIER is given')
    parser.add_argument(
        '--nova', metavar='RELEASE', choices=nova.RELEASES, default=nova.OWN,
        help='run functional tests with this release of Nova: '
             f'{nova.OWN} (the default), {nova.NEWEST}, the newest, or '
             f'{nova.DEBIAN}, from the packages of Debian 12')
    return parser


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the command line asks for.

    :ivar tiers: the tiers.
    :ivar releases: the releases of Ironic for those that have more than one.
    :ivar essential: those of them that run the essential functional tests.
    :ivar nova: the release of Nova for the functional tests.
    """

    tiers: tuple
    releases: tuple
    essential: tuple = ()
    nova: str = nova.OWN


def _choose(argv):
    """Understand the command line.

    :returns: a :class:`Choice`.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    for tier in arguments.tiers:
        if tier not in TIERS + ON_REQUEST:
            parser.error(f"there is no tier '{tier}', only "
                         f"{', '.join(TIERS + ON_REQUEST)}")
    if arguments.nova != nova.OWN and arguments.tiers != ['functional']:
        parser.error('--nova is for functional tests: name that tier alone')
    if arguments.ironic:
        if set(arguments.tiers) - set(WITH_RELEASES):
            parser.error(f'--ironic is for {" and ".join(WITH_RELEASES)}')
        names = arguments.ironic
        return Choice(arguments.tiers or WITH_RELEASES, [
            release for release in releases.RELEASES
            if release.name in names or 'all' in names], nova=arguments.nova)
    if arguments.tiers:
        return Choice(arguments.tiers, [releases.NEWEST],
                      nova=arguments.nova)
    return Choice(TIERS, [releases.NEWEST, releases.OLDEST],
                  essential=[releases.OLDEST])


def _table(outcomes):
    """Lines that tell how each tier went with each release."""
    row = '{:<12} {:<8} {:<6} {:>6} {:>6} {:>7} {:>12}'
    return [row.format('Tests', 'Ironic', 'Nova', 'passed', 'failed',
                       'skipped', 'took'),
            *(row.format(each.tier, each.ironic, each.nova, each.passed,
                         each.failed, each.skipped,
                         progress.elapsed(each.seconds))
              for each in outcomes)]


def main(argv=None):
    """Run the command; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    cut = argv.index('--') if '--' in argv else len(argv)
    choice = _choose(argv[:cut])
    shown = progress.Progress('run-tests')
    try:
        system.require_root()
        tests = Tests(shown, argv[cut + 1:], choice)
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        return 1
    failures = []
    for tier in choice.tiers:
        try:
            tests.run(tier)
        except system.Error as error:
            failures.append(error)
            print(f'\n{error.report()}', file=sys.stderr)
    shown.summary()
    print('\n  ' + '\n  '.join(_table(tests.outcomes)))
    for error in failures:
        print(f'\n{error}', file=sys.stderr)
    return 1 if failures else 0
