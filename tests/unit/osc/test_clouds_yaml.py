# SPDX-License-Identifier: Apache-2.0
"""The commands of an environment with an Ironic of its own."""

import json
import os
import stat
from unittest import mock

import openstack
from requests import exceptions
import requests_mock
import yaml

from tests.unit.environments import fake_connection
from tests.unit.environments import test_conductor
from tests.unit.osc import base

OTHER = {'auth': {'auth_url': 'https://other.example', 'password': 'mine'}}


class LabCommandTestCase(test_conductor.LabTestCase, base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.lab = self.write('lab.yaml', test_conductor.FILE)
        self.clouds = os.path.join(self.folder, 'clouds.yaml')

    def entries(self):
        with open(self.clouds) as source:
            return yaml.safe_load(source)['clouds']

    def make(self, *words):
        self.succeed('CreateEnvironment', self.lab, '--name', 'env', '--wait',
                     *words)


class CloudsFileTestCase(LabCommandTestCase):

    def test_create(self):
        self.make('--clouds-yaml', self.clouds, '-f', 'json')
        shown = json.loads(self.out)
        self.assertEqual(
            ('https://203.0.113.9:6385', 'ready: available 2', 'COMPLETE'),
            (shown['ironic_url'], shown['ironic_status'], shown['status']))
        certificate = os.path.join(self.folder, 'env.pem')
        api = self.content()['api']
        self.assertEqual({'env': {
            'auth_type': 'http_basic',
            'auth': {'endpoint': api['url'], 'username': 'admin',
                     'password': api['password']},
            'baremetal_endpoint_override': api['url'],
            'cacert': certificate}}, self.entries())
        with open(certificate) as source:
            self.assertEqual(api['certificate'], source.read())
        for path in (certificate, self.clouds):
            self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))
        for secret in self.secrets():
            self.assertNotIn(secret, self.out + self.err)

    def test_openstacksdk_can_use_it(self):
        self.make('--clouds-yaml', self.clouds)
        found = openstack.config.OpenStackConfig(
            config_files=[self.clouds], load_envvars=False).get_one('env')
        self.assertEqual(
            ('https://203.0.113.9:6385', os.path.join(self.folder, 'env.pem')),
            (found.get_endpoint('baremetal'),
             found.get_requests_verify_args()[0]))
        self.assertEqual(self.content()['api']['password'],
                         found.get_auth().password)

    def test_show(self):
        self.make()
        self.write('clouds.yaml', yaml.safe_dump({
            'clouds': {'other': OTHER}, 'cache': {'class': 'x'}}))
        for _ in range(2):
            self.succeed('ShowEnvironment', 'env', '--clouds-yaml',
                         self.clouds, '-f', 'json')
        self.assertEqual({'other', 'env'}, set(self.entries()))
        self.assertEqual(OTHER, self.entries()['other'])
        with open(self.clouds) as source:
            self.assertEqual({'class': 'x'}, yaml.safe_load(source)['cache'])
        self.assertEqual({'clouds.yaml', 'env.pem', 'env.yaml', 'lab.yaml'},
                         set(os.listdir(self.folder)))

    def test_file_of_comments(self):
        self.make()
        self.write('clouds.yaml', '# mine\n')
        self.succeed('ShowEnvironment', 'env', '--clouds-yaml', self.clouds)
        self.assertEqual(['env'], list(self.entries()))

    def test_entry_of_another_cloud_stays(self):
        text = yaml.safe_dump({'clouds': {'env': OTHER}})
        self.write('clouds.yaml', text)
        self.fail_with('CreateEnvironment', self.lab, '--name', 'env',
                       '--clouds-yaml', self.clouds,
                       says='has an entry "env" that is not of an')
        self.assertEqual([], self.added())
        with open(self.clouds) as source:
            self.assertEqual(text, source.read())

    def test_file_that_cannot_be_used(self):
        self.make()
        for text in ('- a', 'clouds: []', 'clouds: {env: x}', 'a: [secret',
                     '\xff: {'):
            self.write('clouds.yaml', text)
            self.fail_with('ShowEnvironment', 'env', '--clouds-yaml',
                           self.clouds, says='clouds.yaml')
            self.assertNotIn('secret', self.err)
        self.fail_with('ShowEnvironment', 'env', '--clouds-yaml', self.folder,
                       says='cannot be read')
        self.fail_with('ShowEnvironment', 'env', '--clouds-yaml',
                       '/nowhere/clouds.yaml', says='cannot be written')

    def test_full_disk(self):
        self.make()
        # Such an error has no name of a file.
        with mock.patch('pathlib.Path.write_text', autospec=True,
                        side_effect=OSError(28, 'No space left on device')):
            self.fail_with(
                'ShowEnvironment', 'env', '--clouds-yaml', self.clouds,
                says=f'{self.clouds} cannot be written: No space left')

    def test_environment_without_ironic(self):
        self.succeed('CreateEnvironment', self.write('x.yaml', 'roles: {}'),
                     '--name', 'env', '-f', 'json')
        self.assertEqual(('', ''), tuple(json.loads(self.out)[name] for name
                         in ('ironic_url', 'ironic_status')))
        self.fail_with('ShowEnvironment', 'env', '--clouds-yaml', self.clouds,
                       says='has no server of kind ironic')
        for option in ('--clouds-yaml', '--ironic-os-cloud'):
            self.fail_with('CreateEnvironment', self.path, '--name', 'other',
                           option, self.clouds,
                           says='env.yaml has no role of kind ironic')
        self.assertFalse(os.path.exists(self.clouds))
        self.assertEqual([], self.cloud.all('server'))

    def test_other_credentials(self):
        self.write('clouds.yaml', yaml.safe_dump({'clouds': {'other': {
            'auth_type': 'v3applicationcredential', 'auth': {
                'auth_url': fake_connection.AUTH_URL,
                'application_credential_id': 'a',
                'application_credential_secret': 'b'}}}}))
        with mock.patch.dict(os.environ, {
                'OS_CLIENT_CONFIG_FILE': self.clouds}):
            self.make('--ironic-os-cloud', 'other')
            self.assertEqual('b', self.content()['cloud']['auth'][
                'application_credential_secret'])
            self.fail_with('CreateEnvironment', self.lab, '--name', 'env',
                           '--ironic-os-cloud', 'absent',
                           says='--ironic-os-cloud: Cloud absent was not')


class LogsOfIronicTestCase(LabCommandTestCase):

    def setUp(self):
        super().setUp()
        self.make()
        self.api = requests_mock.Mocker()
        self.api.start()
        self.addCleanup(self.api.stop)
        self.url = self.content()['api']['url']
        self.saved = os.path.join(self.folder, 'logs')

    def save(self):
        self.succeed('EnvironmentLogs', 'env', '--output', self.saved)
        return set(os.listdir(self.saved))

    def test_log_and_nodes_with_their_history(self):
        self.api.get(f'{self.url}/ironic.log', text='a line\n')
        self.api.get(f'{self.url}/v1/nodes', json={
            'nodes': [{'uuid': 'u1', 'name': 'env-node-0'}]})
        self.api.get(f'{self.url}/v1/nodes/u1/history?detail=true', json={
            'history': [{'event': 'Timeout reached'}]})
        names = self.save()
        self.assertLess({'env-undercloud-0.log', 'env-undercloud-0.ironic.log',
                         'env-undercloud-0.nodes.json'}, names)
        with open(f'{self.saved}/env-undercloud-0.ironic.log') as source:
            self.assertEqual('a line\n', source.read())
        with open(f'{self.saved}/env-undercloud-0.nodes.json') as source:
            self.assertEqual(
                [{'uuid': 'u1', 'name': 'env-node-0',
                  'history': [{'event': 'Timeout reached'}]}],
                json.load(source))
        for request in self.api.request_history:
            self.assertTrue(request.headers['Authorization'])
        self.assertNotIn('driver_info', self.api.request_history[1].url)

    def test_nodes_that_are_no_json(self):
        self.api.get(f'{self.url}/ironic.log', text='a line\n')
        self.api.get(f'{self.url}/v1/nodes', text='<html>')
        names = self.save()
        self.assertIn('env-undercloud-0.ironic.log', names)
        self.assertNotIn('env-undercloud-0.nodes.json', names)
        self.assertIn('did not give all', self.err)

    def test_ironic_that_does_not_answer(self):
        self.api.get(f'{self.url}/ironic.log',
                     exc=exceptions.ConnectTimeout)
        names = self.save()
        self.assertIn('env-undercloud-0.log', names)
        self.assertNotIn('env-undercloud-0.ironic.log', names)
        self.assertIn(f'The Ironic at {self.url} did not give all', self.err)
        for secret in self.secrets():
            self.assertNotIn(secret, self.out + self.err)
