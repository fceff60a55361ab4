# SPDX-License-Identifier: Apache-2.0
"""The tests in tiers, with all that they need installed first."""

import argparse
import collections
from concurrent import futures
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from onebox import debian
from onebox import images
from onebox import ironic
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import nova
from onebox.minicloud import settings
from onebox import packages
from onebox import preparation
from onebox import processes
from onebox import progress
from onebox import quickstart
from onebox import releases
from onebox import reports
from onebox import system
from onebox import tempest

REPOSITORY = ironic.REPOSITORY
MINICLOUD = REPOSITORY / 'tools' / 'minicloud'
TEST_REQUIREMENTS = REPOSITORY / 'test-requirements.txt'
# What tox has for the documentation, and what builds this checkout.
DOC_REQUIREMENTS = (REPOSITORY / 'requirements.txt',
                    REPOSITORY / 'doc' / 'requirements.txt')
DOC_COMPANIONS = ('setuptools<81', 'wheel')
# They test the tools, which do not run on Ironic's libraries.
TESTS_OF_TOOLS = REPOSITORY / 'tests' / 'unit' / 'onebox'
LINTERS = ('ruff==0.17.*', 'hacking==8.1.0', 'bashate==2.1.1',
           'bandit==1.9.4', 'mypy==2.4.*', 'codespell==2.4.*',
           # Of tools/check-prose.
           'docutils==0.22.*')
# What bandit does not look for in tools, which nobody runs with input of
# others: programs that are run (B404, B603, B607: never through a shell),
# passwords (B105: of clouds that listen on loopback), XML (B314, B405: of our
# own pytest), SQL (B608: of our own names). The driver has no exception.
TOOLS_MAY = 'B105,B314,B404,B405,B603,B607,B608'
# The commands of lint, which are those of .pre-commit-config.yaml, and what
# they get: all files, or those of a language, or folders.
CHECKS = (('ruff check', 'python'),
          ('flake8 --select H', 'python'),
          # E043 takes "(( a == b )) || die" for a mistake.
          ('bashate --ignore E006,E043', 'shell'),
          ('shellcheck --external-sources', 'shell'),
          ('bandit --quiet', 'quintupleo_power'),
          (f'bandit --quiet --skip {TOOLS_MAY}', 'tools benchmarks'),
          ('mypy', 'its own'),
          ('tools/check-prose', 'its own'),
          ('codespell', 'all'))
DESCRIPTION = '''\
Runs the tests: lint (style of Python, shell and pages, spelling), unit
(a model of Nova), packages (sdist and wheel, Kolla's template), functional (a
real Nova API with a fake hypervisor) and e2e (real guests). All of them by
default, in half an hour on two cores. images tries the images in plain
QEMU, tempest has Tempest deploy a node of quickstart's, and debian-13 runs
quickstart and these tests on Debian 13. Installs what it needs, and leaves
nothing running.
'''
TIERS = ('lint', 'unit', 'packages', 'functional', 'e2e')
ON_REQUEST = ('images', 'tempest', debian.TIER)
# What a full run has more of, by the tests' own variables.
FULL = {'QUINTUPLEO_FAULTS': 'all', 'QUINTUPLEO_INTERRUPTIONS': '20',
        'QUINTUPLEO_MODEL_HOURS': '0.5',
        'QUINTUPLEO_HISTORY_MINUTES': '20'}
# Those that are run with more than one release of Ironic.
WITH_RELEASES = ('unit', 'functional')
# Those that keep the processors busy while functional tests wait.
BESIDE_FUNCTIONAL = ('unit', 'packages')
# Functional tests that are run beside the others, in a network namespace with
# a cloud of its own: half of the time, and nothing that fetches anything.
# All faults of a full run take as long as what is long in the first half: the
# model, histories and environments.
SECOND_HALF = ('test_check.py', 'test_conductors.py',
               'test_fault_injection.py', 'test_faults.py', 'test_power.py',
               'test_secrets.py', 'test_table.py')
MOST_FAILURES = 10
# pytest's exit code when no test was chosen.
NO_TESTS = 5
# What a line of a service's log has that tells of trouble.
COMPLAINTS = (' ERROR ', ' CRITICAL ', '[ERROR]', '[error]',
              'MessagingTimeout')


@dataclasses.dataclass(frozen=True)
class Lane:
    """Where tests are run that follow each other.

    :ivar state: folder of their state.
    :ivar shown: the :class:`progress.Progress`.
    :ivar output: file for what is printed; None for standard output.
    :ivar prefix: words before each command.
    """

    state: pathlib.Path
    shown: progress.Progress
    output: object = None
    prefix: tuple = ()


class Tests:
    """The tests of this checkout.

    The clouds of the tests have a state folder of their own, so that one of
    the user's is left alone.

    :ivar state: folder of their state.
    :ivar outcomes: an :class:`reports.Outcome` for each tier and release.
    :ivar failures: the errors of the tiers that failed.
    """

    def __init__(self, shown, arguments, choice):
        """Prepare to run them.

        :param shown: the :class:`progress.Progress`.
        :param arguments: arguments for pytest.
        :param choice: the :class:`Choice` of the command line.
        """
        self.outcomes = []
        self.failures = []
        self._shown = shown
        self._arguments = arguments
        self._choice = choice
        self.state = pathlib.Path(os.environ.get(
            'QUINTUPLEO_STATE_DIR', system.STATE_DIR + '-tests'))
        self._cache = system.cache_dir()
        self._kept = reports.kept()
        self._logs = self.state / 'logs'
        self._lane = Lane(self.state, shown)
        self._lanes = [self._lane]
        # A checkout is put into each but once: others may run from it.
        self._environments = {}
        self._preparation = None
        system.make_dir(self.state)
        system.make_dir(self._logs, 0o700)
        system.make_dir(self._kept)

    @contextlib.contextmanager
    def prepared(self, tiers):
        """Have what these tiers need fetched and built beside the first ones.

        A developer's choice of tests builds what it lacks by itself.

        :param tiers: names of the tiers that will run.
        :returns: a context in which they run.
        """
        with self._shown.stage('Debian packages'):
            system.install_packages(preparation.packages(tiers),
                                    self._logs / 'packages.log')
        if self._arguments:
            yield
            return
        self._preparation = preparation.Preparation(
            tiers, self.state / 'preparation')
        try:
            yield
        finally:
            self._preparation.end()

    def stages(self):
        """Return the stages of all lanes.

        Those of the first lane come last: of two that have the same name, its
        time is the one to keep.
        """
        return [stage for lane in reversed(self._lanes)
                for stage in lane.shown.stages]

    def run(self, tiers):
        """Run tiers, though one of them fails.

        :param tiers: their names.
        """
        beside = [tier for tier in BESIDE_FUNCTIONAL if tier in tiers
                  and 'functional' in tiers and not self._arguments]
        for tier in tiers:
            if tier == 'functional' and beside:
                self._attempt(self._beside_functional, beside)
            elif tier not in beside:
                self._attempt(self._run, tier, self._lane)

    def _attempt(self, job, *words):
        """Do something; keep and print the error that it raises."""
        try:
            job(*words)
        except system.Error as error:
            self.failures.append(error)
            print(f'\n{error.report()}', file=sys.stderr)

    def _beside_functional(self, tiers):
        """Run functional tests, and these tiers beside them."""
        # They share the environments, which only one thread may make.
        self._prepared()

        def others(lane):
            for tier in tiers:
                self._attempt(self._run, tier, lane)

        self._two_at_once(
            'unit', ' and '.join(tiers),
            functools.partial(self._attempt, self._run, 'functional'), others)

    def _run(self, tier, lane):
        """Run one tier.

        :raises: Error if a test fails or cannot be run.
        """
        if self._preparation and self._preparation.awaited(tier):
            with self._shown.stage(f'{tier}: what it needs'):
                self._preparation.wait(tier)
        if tier == 'lint':
            if not self._repeats_failures:
                self._lint()
        elif tier == 'unit':
            self._unit(lane)
        elif tier == 'packages':
            self._packages(lane)
        elif tier == 'functional':
            self._functional()
        elif tier == 'tempest':
            self._tempest()
        elif tier == debian.TIER:
            self._debian()
        else:
            if tier == 'images':
                self._build_images()
            self._pytest(self._lane, tier, releases.NEWEST)

    def require_any(self):
        """Check that the arguments for pytest have chosen a test.

        :raises: Error if no tier had one, as with a misspelt name.
        """
        if self.outcomes and not self._repeats_failures and not any(
                each.passed or each.failed or each.skipped
                for each in self.outcomes):
            raise system.Error('No test was chosen by "%s".'
                               % ' '.join(self._arguments))

    def _unit(self, lane):
        """Run the unit tests."""
        _each(functools.partial(self._pytest, lane, 'unit', release)
              for release in self._prepared())

    def _functional(self):
        """Run the functional tests, two halves at once: they mostly wait."""
        chosen = self._prepared()

        def run(part, lane):
            if self._repeats_failures and not any(
                    self._is_wanted('functional', release, part)
                    for release in chosen):
                return
            with self._cloud(lane) as cloud:
                _each(functools.partial(
                    self._pytest, lane, 'functional', release, cloud, part)
                    for release in chosen)

        def second(lane):
            with namespace(f'{self.state.name}-2') as prefix:
                run(2, dataclasses.replace(lane, prefix=prefix))

        if 'QUINTUPLEO_TEST_CLOUD' in os.environ or (
                self._arguments and not self._repeats_failures):
            run(None, self._lane)
        else:
            # In a namespace nothing can be fetched.
            self._minicloud(self._lane, 'install',
                            *self._kind_of_cloud(self._lane))
            self._two_at_once('second', 'functional: the second half',
                              functools.partial(run, 1), second)

    def _prepared(self):
        """The chosen releases, when all have their environments."""
        for release in self._choice.releases:
            self._environment(release)
        return self._choice.releases

    def _two_at_once(self, name, title, first, second):
        """Do two things at once; the lines of the second begin with a mark.

        :param name: folder for the state of the second one.
        :param title: what the second one is.
        :param first: function of a :class:`Lane`.
        :param second: another one.
        :raises: Error if one of them fails; the other is done all the same.
        """
        ours, theirs = os.pipe()

        def show():
            with open(ours, errors='replace') as lines:
                for line in lines:
                    self._shown.line('| ' + line.rstrip('\n'))

        showing = threading.Thread(target=show, daemon=True)
        showing.start()
        try:
            # The other one undoes things when this thread has to end.
            with (open(theirs, 'w') as output,
                  futures.ThreadPoolExecutor(1) as pool):
                lane = Lane(self.state / name,
                            progress.Progress(title, stream=output), output)
                self._lanes.append(lane)
                other = pool.submit(second, lane)

                def end():
                    with self._shown.stage(title):
                        other.result()

                _each([functools.partial(first, self._lane), end])
        finally:
            # Not for what a killed process has left, which may hold the pipe.
            showing.join(10)

    def _pytest(self, lane, tier, release, cloud=None, part=None):
        """Run the tests of a tier in the environment of a release.

        :param part: 1 or 2 for one half of them.
        """
        if not self._is_wanted(tier, release, part):
            return
        title = f'{tier}, Ironic {release.name}'
        venv = self._environment(release)
        name = f'{tier} {part}/2' if part else tier
        report = self._logs / f'{_key(tier, release, part)}.xml'
        report.unlink(missing_ok=True)
        command = [*self._pytest_command(venv, report.stem, name),
                   *self._paths(tier, part), '--junit-xml', report,
                   '-m', self._marks(tier, release)]
        if (tier == 'unit' and release == releases.NEWEST
                and not self._arguments):
            # Workers do not go with the Eventlet of older releases.
            command += ['--numprocesses', os.cpu_count(),
                        '--dist', 'worksteal']
        elif tier != 'unit':
            # Guests and clouds come up for minutes, which is worth watching.
            command.append('--capture=no')
        if tier == 'functional':
            # A cloud that has broken would let each test wait in vain.
            command.append(f'--maxfail={MOST_FAILURES}')
        if release != releases.NEWEST:
            command += ['--ignore', TESTS_OF_TOOLS]
        variables = {'QUINTUPLEO_IRONIC_VENV': venv}
        if self._is_full(tier, release):
            variables.update({name: os.environ.get(name, value)
                              for name, value in FULL.items()})
        if cloud:
            variables.update(
                QUINTUPLEO_TEST_CLOUD=cloud.state,
                QUINTUPLEO_STATE_DIR=lane.state / f'ironic-{release.name}')
        with lane.shown.stage(title):
            code = self._call([*command, *self._arguments], lane, **variables)
            if report.exists():
                outcome = reports.Outcome.read(
                    name, release, cloud.nova if cloud else '', report)
                if outcome.failed:
                    outcome.complaints.extend(
                        reports.last_errors(lane.state / 'logs'))
                self.outcomes.append(outcome)
            self._require(code == 0 or self._is_empty_choice(code), title)

    def _pytest_command(self, venv, key, title):
        """Return pytest's words, with the plugin that shows where it is.

        :param venv: path of the Python environment.
        :param key: name for what is kept of these tests until the next run.
        :param title: what they are together.
        """
        return [venv / 'bin' / 'python', '-m', 'pytest', '-q', '-ra',
                '-p', 'onebox.pytest_progress', '--run-title', title,
                '--run-times', self._kept / f'{key}.json',
                '--override-ini', f'cache_dir={self._kept / key}']

    def _is_full(self, tier, release):
        """Return whether tests with the mark ``full`` are run."""
        return self._choice.full and not (
            tier == 'functional' and release in self._choice.default_only)

    def _marks(self, tier, release):
        """Return the expression that chooses tests by their marks."""
        left_out = []
        if not self._is_full(tier, release) and '-k' not in self._arguments:
            left_out.append('not full')
        if release != releases.NEWEST:
            left_out.append('not newest')
        return ' and '.join(left_out)

    @property
    def _repeats_failures(self):
        """Whether only the tests are to be run that failed in the last run."""
        return '--last-failed' in self._arguments or '--lf' in self._arguments

    def _is_wanted(self, tier, release, part=None):
        """Return whether there is anything to run."""
        return not self._repeats_failures or (
            self._kept / _key(tier, release, part) / 'v' / 'cache'
            / 'lastfailed').exists()

    def _is_empty_choice(self, code):
        """Return whether a developer has chosen no test of a tier."""
        return code == NO_TESTS and bool(self._arguments)

    def _paths(self, tier, part):
        folder = REPOSITORY / 'tests' / tier
        if part == 1:
            return [folder, *(f'--ignore={folder / name}'
                              for name in SECOND_HALF)]
        return [folder / name for name in SECOND_HALF] if part else [folder]

    def _environment(self, release):
        """The Python environment of a release, with this checkout in it."""
        if release not in self._environments:
            release.require_python()
            name = f'ironic-{release.name}'
            with self._shown.stage(f'Ironic {release.name}: environment'):
                system.install_packages(release.packages,
                                        self._logs / 'packages.log')
                venv = self._venv(
                    name, (*release.requirements, '-r',
                           str(TEST_REQUIREMENTS)), release.constraints)
                ironic.install_checkout(venv,
                                        self._logs / f'python-{name}.log')
            self._environments[release] = venv
        return self._environments[release]

    def _venv(self, name, requirements, constraints=None):
        version = system.run([ironic.PYTHON, '--version']).stdout
        # For any checkout of the same content.
        texts = [version, ' '.join(requirements).replace(str(REPOSITORY), ''),
                 TEST_REQUIREMENTS.read_text(),
                 releases.REQUIREMENTS.read_text()]
        if constraints:
            texts.append(constraints.read_text())
        path = self._cache / 'tests' / f'{name}-{system.digest(*texts)}'
        system.make_venv(path, requirements,
                         self._logs / f'python-{name}.log', constraints,
                         ironic.PYTHON)
        return path

    @contextlib.contextmanager
    def _cloud(self, lane):
        """A cloud with a fake hypervisor, for all releases of Ironic.

        :returns: its :class:`settings.Settings`, as a context.
        """
        given = os.environ.get('QUINTUPLEO_TEST_CLOUD')
        if given:
            yield settings.Settings(given)
            return
        if settings.Settings(lane.state).exists():
            # A run was interrupted here: none of it is to be met again.
            self._minicloud(lane, 'down')
        try:
            self._minicloud(lane, 'up', *self._kind_of_cloud(lane))
            yield settings.Settings(lane.state)
        except system.Error:
            _print_trouble(settings.Settings(lane.state), lane.output)
            raise
        finally:
            self._minicloud(lane, 'down')

    def _kind_of_cloud(self, lane):
        # Volumes take longer to come up, and only tests of a full run, none
        # of them in the second half, have any.
        volumes = (['--volumes']
                   if self._choice.full and lane.state == self.state else [])
        return '--hypervisor', 'fake', '--nova', self._choice.nova, *volumes

    def _minicloud(self, lane, *words):
        title = f'minicloud {words[0]}'
        with lane.shown.stage(title):
            self._require(self._call([MINICLOUD, *words], lane,
                                     undoes=words[0] == 'down') == 0, title)

    def _build_images(self):
        built = images.Images(self._cache, self._logs)
        for title in (*images.USUAL, 'iPXE network-first image'):
            built.build(title)

    def _packages(self, lane):
        """Test what is built of this checkout."""
        with lane.shown.stage('packages: environment'):
            venv = self._venv('packages', packages.REQUIREMENTS)
        if not self._is_wanted('packages', releases.NEWEST):
            return
        report = self._logs / f'{_key("packages", releases.NEWEST)}.xml'
        report.unlink(missing_ok=True)
        with lane.shown.stage('packages'):
            code = self._call(
                [*self._pytest_command(venv, report.stem, 'packages'),
                 REPOSITORY / 'tests' / 'packages', '--junit-xml', report,
                 '-m', self._marks('packages', releases.NEWEST),
                 *self._arguments], lane)
            if report.exists():
                self.outcomes.append(reports.Outcome.read(
                    'packages', releases.NEWEST, '', report))
            self._require(code == 0 or self._is_empty_choice(code),
                          'packages')

    def _tempest(self):
        """Have Tempest deploy a node."""
        with self._shown.stage('tempest: environment'):
            venv = self._venv('tempest', tempest.REQUIREMENTS)
            ironic.install_checkout(venv, self._logs / 'python-tempest.log')
        with quickstart.for_tests(self._shown, self.state) as lab:
            with self._shown.stage('a node is made available') as stage:
                lab.nodes.provision('bios-0', 'manage', 'manageable', stage,
                                    120)
                lab.nodes.provision('bios-0', 'provide', 'available', stage,
                                    900)
            with self._shown.stage('tempest'):
                begun = time.monotonic()
                counts = tempest.run(lab, venv, self._logs / 'tempest')
                self.outcomes.append(reports.Outcome(
                    'tempest', releases.NEWEST.name, lab.cloud.nova,
                    seconds=time.monotonic() - begun, **counts))
                self._require(counts['passed'] and not counts['failed']
                              and not counts['skipped'], 'tempest')

    def _debian(self):
        """Run quickstart and the default tests on another Debian."""
        log = self._logs / 'packages.log'
        tree = self.state / debian.TIER
        cache = system.make_dir(self._cache / debian.TIER)
        commands = ([('tools/run-tests', '--', *self._arguments)]
                    if self._arguments else debian.COMMANDS)
        name = f'{self.state.name}-{debian.TIER}'
        with (namespace(name) as prefix,
              debian.connected(name, self._logs / f'{debian.TIER}.log')):
            with contextlib.ExitStack() as stack:
                with self._shown.stage(f'{debian.TIER}: made of packages'):
                    stack.enter_context(debian.made(tree, self._logs))
                for words in commands:
                    title = f'{debian.TIER}: {" ".join(words)}'
                    with self._shown.stage(title):
                        self._require(self._call(
                            [*prefix, *debian.command(
                                tree, cache, words, log)]) == 0, title)

    def _lint(self):
        with self._shown.stage('lint: environment'):
            venv = self._venv('lint', LINTERS)
        listed = system.run(
            ['git', '-c', f'safe.directory={REPOSITORY}', '-C', REPOSITORY,
             'ls-files']).stdout.split()
        files = {
            'python': [name for name in listed
                       if _speaks(name, 'py', 'python')],
            'shell': [name for name in listed if _speaks(name, 'sh', 'bash')],
            # Those of pyproject.toml, or of the program.
            'its own': [],
            'all': listed}
        with self._shown.stage('lint'):
            results = [
                self._call([*command.split(), *files.get(
                    what, ('--recursive', *what.split()))],
                    PATH=f'{venv / "bin"}:{os.environ["PATH"]}')
                for command, what in CHECKS]
            self._require(not any(results), 'lint')
        self._documentation()

    def _documentation(self):
        """Build the documentation, whose warnings are errors."""
        with self._shown.stage('documentation: environment'):
            venv = self._venv('docs', (
                *DOC_COMPANIONS,
                *(line for path in DOC_REQUIREMENTS
                  for line in path.read_text().splitlines()
                  if line and not line.startswith('#'))))
            # The options are found by the package's entry point.
            ironic.install_checkout(venv, self._logs / 'python-docs.log')
        with self._shown.stage('documentation'):
            built = self._call(
                [venv / 'bin' / 'sphinx-build', '-W', '--keep-going', '-q',
                 '-E', '-b', 'html', REPOSITORY / 'doc' / 'source',
                 self.state / 'documentation'],
                # The theme asks git; the clone may be somebody else's.
                GIT_CONFIG_COUNT=1, GIT_CONFIG_KEY_0='safe.directory',
                GIT_CONFIG_VALUE_0=REPOSITORY)
            self._require(built == 0, 'documentation')

    def _require(self, passed, title):
        if not passed:
            raise system.Error(f'{title} failed, see above. Logs of what it '
                               f'ran: {self._logs}')

    def _call(self, command, lane=None, undoes=False, **variables):
        lane = lane or self._lane
        (lane.output or sys.stdout).flush()
        return processes.call(
            [str(word) for word in (*lane.prefix, *command)], undoes,
            cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=lane.output,
            stderr=lane.output and subprocess.STDOUT,
            env={**os.environ, 'QUINTUPLEO_STATE_DIR': str(lane.state),
                 # Of the plugin that shows where pytest is.
                 'PYTHONPATH': str(REPOSITORY / 'tools'),
                 'PYTHONDONTWRITEBYTECODE': '1', 'PYTHONWARNINGS': 'ignore',
                 # Ironic's own limit, a minute, ends pytest by a signal.
                 'BASE_TEST_TIMEOUT': '600',
                 **{name: str(value) for name, value in variables.items()}})


def _key(tier, release, part=None):
    """Return the name of the files of some tests."""
    return f'{tier}-{part}-{release.name}' if part else (
        f'{tier}-{release.name}')


def _each(jobs):
    """Do one thing after the other, though one of them fails.

    :param jobs: functions.
    :raises: Error that was raised first.
    """
    failures = []
    for job in jobs:
        try:
            job()
        except system.Error as error:
            failures.append(error)
    if failures:
        raise failures[0]


@contextlib.contextmanager
def namespace(name):
    """A network namespace that has loopback and nothing else.

    :param name: its name; what an interrupted run left under it is removed.
    :returns: the words that let a command run in it, as a context.
    """
    system.run(['ip', 'netns', 'delete', name], check=False)
    system.run(['ip', 'netns', 'add', name])
    try:
        system.run(['ip', '-n', name, 'link', 'set', 'lo', 'up'])
        yield 'ip', 'netns', 'exec', name
    finally:
        system.run(['ip', 'netns', 'delete', name])


def _print_trouble(cloud, output):
    """Print which services of a cloud are ill, and their last complaints."""
    def tell(text):
        print(text, file=output)

    if not cloud.exists():
        return
    tell('\nThe cloud of the tests:')
    for name, pid, healthy, _, log in minicloud.examine(cloud):
        tell(f"  {name}: process {pid}, {'well' if healthy else 'ILL'}")
        path = pathlib.Path(log)
        if path.is_file():
            with open(path, errors='replace') as lines:
                last = collections.deque(
                    (line for line in lines
                     if any(level in line for level in COMPLAINTS)), 3)
            for line in last:
                tell(f'    {line[:400].rstrip()}')


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
             'beside it in a full run')
    parser.add_argument(
        '--times', action='store_true',
        help='run nothing; print where the time of the last run went')
    parser.add_argument(
        '--full', action='store_true',
        help='run all tests of each TIER, by default of all that there are. '
             f'{" and ".join(WITH_RELEASES)} tests are run with the oldest '
             f'Ironic ({releases.OLDEST.name}), too. It takes hours')
    parser.add_argument(
        '--nova', metavar='RELEASE', choices=nova.RELEASES, default=nova.OWN,
        help='run functional tests with this release of Nova: '
             f'{nova.help_text()}')
    return parser


@dataclasses.dataclass(frozen=True)
class Choice:
    """What the command line asks for.

    :ivar tiers: the tiers.
    :ivar releases: the releases of Ironic for those that have more than one.
    :ivar default_only: those of them whose functional tests are those of the
        default run, also in a full run.
    :ivar nova: the release of Nova for the functional tests.
    :ivar full: whether to run the tests, too, that are marked as full.
    :ivar times: whether to print the times of the last run, and run nothing.
    """

    tiers: tuple
    releases: tuple
    default_only: tuple = ()
    nova: str = nova.OWN
    full: bool = False
    times: bool = False


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
    chosen = functools.partial(Choice, nova=arguments.nova,
                               full=arguments.full, times=arguments.times)
    if arguments.ironic:
        if set(arguments.tiers) - set(WITH_RELEASES):
            parser.error(f'--ironic is for {" and ".join(WITH_RELEASES)}')
        names = arguments.ironic
        return chosen(arguments.tiers or WITH_RELEASES, [
            release for release in releases.RELEASES
            if release.name in names or 'all' in names])
    if arguments.full:
        return chosen(arguments.tiers or TIERS + ON_REQUEST, [
            release for release in (releases.NEWEST, releases.OLDEST)
            if release.runs_here], default_only=[releases.OLDEST])
    return chosen(arguments.tiers or TIERS, [releases.NEWEST])


def main(argv=None):
    """Run the command; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    cut = argv.index('--') if '--' in argv else len(argv)
    choice = _choose(argv[:cut])
    if choice.times:
        print('\n'.join(reports.times()))
        return 0
    last_time = reports.last_time()
    shown = progress.Progress('run-tests', expected=last_time)
    whole = 'all of ' + ' '.join(argv)
    if whole in last_time:
        shown.line('This took %s the last time.'
                   % progress.elapsed(last_time[whole]))
    processes.undo_when_ended()
    try:
        system.require_root()
        tests = Tests(shown, argv[cut + 1:], choice)
        with system.lock(tests.state / 'lock', 'A run of these tests'):
            with tests.prepared(choice.tiers):
                tests.run(choice.tiers)
            tests.require_any()
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('\nInterrupted. What the tests made is removed.',
              file=sys.stderr)
        return 130
    shown.summary()
    print('\n  ' + '\n  '.join(reports.table(tests.outcomes)))
    system.write_file(reports.kept() / 'stages.json', json.dumps({
        **last_time, whole: shown.now(),
        **{stage.name: stage.duration() for stage in tests.stages()
           if stage.outcome == 'done'}}))
    for error in tests.failures:
        print(f'\n{error}', file=sys.stderr)
    # What CI keeps of a long output is its end.
    for outcome in tests.outcomes:
        for complaint in outcome.complaints:
            print(f'\n{outcome.tier}, Ironic {outcome.ironic}: {complaint}',
                  file=sys.stderr)
    return 1 if tests.failures else 0
