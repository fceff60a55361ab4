# SPDX-License-Identifier: Apache-2.0
"""What CI systems are told to run is there to be run."""

import configparser
import pathlib
import re
import unittest

import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TIERS = {'lint', 'unit', 'packages', 'functional', 'e2e'}
ON_REQUEST = {'images', 'tempest', 'debian-13'}
NIGHTLY = REPOSITORY / '.github' / 'workflows' / 'nightly.yaml'
# Jobs that openstack/openstack-zuul-jobs and openstack/ironic define.
ABOVE = re.compile('base|ironic-base|openstack-tox-(py3[0-9]+|pep8|docs)')


class ZuulTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        items = yaml.safe_load((REPOSITORY / '.zuul.yaml').read_text())
        self.jobs = {item['job']['name']: item['job']
                     for item in items if 'job' in item}
        self.project, = (item['project'] for item in items
                         if 'project' in item)

    def test_playbooks_are_there(self):
        named = []
        for job in self.jobs.values():
            for key in ('pre-run', 'run', 'post-run'):
                value = job.get(key, [])
                named += [value] if isinstance(value, str) else value
        self.assertIn('playbooks/tests/run.yaml', named)
        for name in named:
            plays = yaml.safe_load((REPOSITORY / name).read_text())
            self.assertTrue(plays and all(play['hosts'] for play in plays))

    def test_no_argument_is_missing(self):
        for path in (REPOSITORY / 'playbooks').rglob('*.yaml'):
            with self.subTest(path.name):
                # YAML takes a dash alone for null, and Ansible that for None.
                self.assertNotRegex(path.read_text(), r'(?m)^ *-$')

    def test_each_job_has_a_parent_that_is_known(self):
        for name, job in self.jobs.items():
            with self.subTest(job=name):
                self.assert_known(job['parent'])

    def test_pipelines_run_jobs_that_are_known(self):
        for pipeline in ('check', 'gate', 'periodic'):
            names = [next(iter(job)) if isinstance(job, dict) else job
                     for job in self.project[pipeline]['jobs']]
            for name in names:
                with self.subTest(pipeline=pipeline, job=name):
                    self.assert_known(name)
                    self.assertNotIn('abstract', self.jobs.get(name, {}))

    def test_everything_is_run_each_night(self):
        nightly = yaml.safe_load(NIGHTLY.read_text())['jobs']['full']
        self.assertEqual(
            [part.split() for part in nightly['strategy']['matrix']['part']],
            [self.jobs[name]['vars']['run_tests_tiers']
             for name in self.project['periodic']['jobs']])

    def test_what_is_merged_was_checked(self):
        checked = [job for job in self.project['check']['jobs']
                   if isinstance(job, str)]
        self.assertEqual(checked, self.project['gate']['jobs'])

    def test_tiers_are_there(self):
        named = [tier for job in self.jobs.values()
                 for tier in job.get('vars', {}).get('run_tests_tiers', [])]
        self.assertIn('functional', named)
        self.assertLessEqual(set(named), {*TIERS, '--full', *ON_REQUEST})
        for tier in (TIERS - {'lint'}) & set(named):
            self.assertTrue((REPOSITORY / 'tests' / tier).is_dir())

    def test_tox_environments_are_there(self):
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(REPOSITORY / 'tox.ini')
        jobs = self.project['gate']['jobs']
        for job in ('pep8', 'docs'):
            self.assertIn(f'openstack-tox-{job}', jobs)
            self.assertIn(f'testenv:{job}', tox)

    def test_unit_tests_run_with_each_python_that_is_supported(self):
        setup = (REPOSITORY / 'setup.cfg').read_text()
        versions = re.findall(r'Python :: (3)\.(\d+)', setup)
        self.assertEqual(
            [f'openstack-tox-py{major}{minor}' for major, minor in versions],
            [job for job in self.project['gate']['jobs']
             if job.startswith('openstack-tox-py3')])

    def assert_known(self, name):
        self.assertTrue(name in self.jobs or ABOVE.fullmatch(name), name)


class GitHubTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.workflows = {
            path.name: yaml.safe_load(path.read_text()) for path
            in (REPOSITORY / '.github' / 'workflows').glob('*.yaml')}

    def steps(self):
        for workflow in self.workflows.values():
            for job in workflow['jobs'].values():
                yield from job['steps']

    def test_runs_what_every_ci_runs(self):
        self.assertIn('.ci/run', [step.get('run') for step in self.steps()])
        self.assertTrue((REPOSITORY / '.ci' / 'run').stat().st_mode & 0o100)

    def test_everything_is_run_each_night(self):
        nightly = self.workflows[NIGHTLY.name]
        # PyYAML reads the key "on" as a boolean.
        self.assertIn('schedule', nightly[True])
        # tests/unit/onebox/test_releases.py reads the parts.
        self.assertIn('.ci/run ${{ matrix.part }}', [
            step.get('run') for step in nightly['jobs']['full']['steps']])

    def test_nothing_may_write(self):
        for workflow in self.workflows.values():
            self.assertEqual({}, workflow['permissions'])
            for job in workflow['jobs'].values():
                self.assertEqual({'contents': 'read'}, job['permissions'])

    def test_actions_are_of_a_known_version(self):
        used = [step['uses'] for step in self.steps() if 'uses' in step]
        self.assertTrue(used)
        for action in used:
            self.assertRegex(action, r'^actions/[a-z-]+@v[0-9]+$')

    def test_history_is_there_and_no_credentials_are(self):
        found = [step['with'] for step in self.steps()
                 if step.get('uses', '').startswith('actions/checkout')]
        self.assertTrue(found)
        for checkout in found:
            self.assertEqual((0, False), (checkout['fetch-depth'],
                                          checkout['persist-credentials']))
