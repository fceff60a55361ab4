# SPDX-License-Identifier: Apache-2.0
"""No secret in anything that an Ironic writes, answers or sends.

A real Ironic with every log at debug level and its notifications written to
the log; a real Keystone, whose tokens are recorded on their way, and a real
Nova. Each way to say which cloud goes through each kind of request, and each
kind of failure; then everything is searched for every secret.
"""

import contextlib
import json
import pathlib
import threading
from urllib import parse
from urllib import request
import uuid

from openstack import exceptions
import pytest
import yaml

from onebox import lab
from onebox import system
from tests.functional import recorder as recording

OFF, ON = 'power off', 'power on'

# Rows of the database, which SQLAlchemy shows at debug level, have all of
# driver_info in them: that is Ironic's to decide.
LOUD = '''
[DEFAULT]
debug = true
log_file = {log}
default_log_levels = sqlalchemy=WARNING,root=DEBUG
notification_level = debug

[oslo_messaging_notifications]
driver = log

[conductor]
sync_power_state_interval = 2
power_state_sync_max_retries = 0

[quintupleo]
allowed_auth_urls = {recorder}/identity
'''

WRONG = 'swordfish-' + uuid.uuid4().hex


class Stage:
    """What the tests here share.

    :ivar secrets: all that must be found nowhere.
    :ivar texts: (where it was found, text) of what has been seen.
    """

    def __init__(self, deployment, recorder, log):
        self.deployment = deployment
        self.recorder = recorder
        self.log = log
        self.texts = []
        self.nodes = []
        self.auth = deployment.cloud.config.get_auth_args()
        self.identity = f'{recorder.url}/identity/v3'
        self.secrets = {WRONG, self.auth['password']}
        self._read = {}

    def entry(self, name, **auth):
        """Add an entry to the conductor's clouds.yaml."""
        path = self.deployment.ironic.state / 'clouds.yaml'
        content = yaml.safe_load(path.read_text())
        content['clouds'][name] = {
            'auth': {**self.auth, 'auth_url': self.identity, **auth},
            'compute_endpoint_override': f'{self.recorder.url}/compute/v2.1'}
        system.write_file(path, yaml.safe_dump(content))
        return {'quintupleo_cloud': name}

    def own_credential(self):
        """Make an application credential with a secret that is known."""
        secret = 'mackerel-' + uuid.uuid4().hex
        self.secrets.add(secret)
        identity = self.deployment.cloud.identity
        made = identity.create_application_credential(
            self.deployment.cloud.current_user_id, name=secret[:20],
            secret=secret)
        return made, {'quintupleo_auth_url': self.identity,
                      'quintupleo_application_credential_id': made.id,
                      'quintupleo_application_credential_secret': secret}

    def node(self, server_id, **driver_info):
        """Enroll a node."""
        node = self.deployment.node(server_id, **driver_info)
        self.nodes.append(node)
        return node

    def validate(self, node):
        """Validate a node; keep and return what Ironic answers."""
        return self.get(f'/v1/nodes/{node.id}/validate')['power']

    def power(self, node, target, wanted):
        """Change power; keep what goes wrong."""
        try:
            self.deployment.nodes.set_power_state(node.id, target, wanted)
        except (system.Error, exceptions.SDKException) as error:
            self.texts.append(('the error of a power request', str(error)))
            return str(error)
        return None

    def get(self, path):
        """Ask Ironic's API; keep what it answers."""
        asked = request.Request(
            self.deployment.ironic.api_url + path,
            headers={'X-OpenStack-Ironic-API-Version': 'latest'})
        with request.urlopen(asked, timeout=60) as answer:
            text = answer.read().decode()
        self.texts.append((f'GET {path}', text))
        return json.loads(text)

    def look_at_everything(self):
        """Keep all that Ironic's API tells of the nodes, and the log."""
        self.get('/v1/nodes/detail')
        for node in self.nodes:
            for part in ('', '/states', '/validate', '/history?detail=true',
                         '/management/boot_device'):
                with contextlib.suppress(request.HTTPError):
                    self.get(f'/v1/nodes/{node.id}{part}')
        for path in self.deployment.ironic.logs.glob('*.log'):
            with open(path, errors='replace') as log:
                log.seek(self._read.get(path, 0))
                self.texts.append((str(path), log.read()))
                self._read[path] = log.tell()

    def assert_no_secret(self):
        """Search what was kept."""
        self.secrets |= self.recorder.tokens
        for where, text in self.texts:
            for secret in self.secrets:
                # A beginning would be enough to find the rest.
                found = text.find(secret[:24])
                assert found < 0, (
                    f'{where}: ...{text[max(0, found - 300):found]}(SECRET)')


@pytest.fixture(scope='module')
def stage(deployment):
    """The deployment with an Ironic that tells all it knows."""
    entry = deployment.cloud.config
    catalog = deployment.cloud.session.auth.get_access(
        deployment.cloud.session).service_catalog
    compute = parse.urlsplit(catalog.url_for(service_type='compute',
                                             interface='public'))
    identity = parse.urlsplit(entry.get_auth_args()['auth_url'])
    recorder = recording.Recorder(
        f'{identity.scheme}://{identity.netloc}',
        f'{compute.scheme}://{compute.netloc}')
    log = deployment.ironic.logs / 'ironic-loud.log'
    log.unlink(missing_ok=True)
    found = Stage(deployment, recorder, log)
    with deployment.options(
            LOUD.format(log=log, recorder=recorder.url), credentials={
                'auth_type': 'password', **entry.get_auth_args(),
                'auth_url': found.identity,
                # All nodes have one server.
                'allow_shared_servers': True,
                'endpoint_override': f'{recorder.url}/compute/v2.1'}):
        yield found
    recorder.close()


@pytest.fixture(scope='module')
def server(deployment):
    found = deployment.server()
    yield found.id
    deployment.cloud.compute.delete_server(found.id)


@pytest.fixture(autouse=True)
def search(stage):
    """Let each test end with a search of all that there is."""
    stage.texts.clear()
    stage.nodes.clear()
    with _processes_watched(stage.texts):
        yield
    stage.look_at_everything()
    for node in stage.nodes:
        stage.deployment.api.delete_node(node.id)
    stage.assert_no_secret()


@contextlib.contextmanager
def _processes_watched(texts):
    """Keep the command lines of all processes."""
    ended = threading.Event()
    seen = set()

    def watch():
        while True:
            for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
                with contextlib.suppress(OSError):
                    seen.add(path.read_bytes())
            if ended.wait(0.1):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    assert any(b'ironic' in line for line in seen)
    texts.extend(('a process', line.decode(errors='replace'))
                 for line in seen)


def _use(stage, node):
    """Go through what a node does in its life."""
    assert stage.validate(node)['result'] is True
    stage.deployment.manage(node)
    assert stage.power(node, OFF, OFF) is None
    stage.deployment.nodes.set_boot_device(node.id, 'pxe', False)
    assert stage.power(node, ON, ON) is None
    assert stage.power(node, 'rebooting', ON) is None


def test_options_of_the_section(stage, server):
    node = stage.node(server)
    _use(stage, node)
    assert stage.power(node, 'soft power off', OFF) is None
    assert stage.power(node, 'soft rebooting', ON) is None
    log = stage.log.read_text()
    for sign in ('keystoneauth.session', 'REQ: curl -g -i -X GET',
                 '{SHA256}', 'urllib3.connectionpool',
                 'oslo.messaging.notification',
                 'baremetal.node.power_set.end', node.id):
        assert sign in log, sign
    assert stage.recorder.tokens


def test_entry_of_clouds_yaml(stage, server):
    _use(stage, stage.node(server, **stage.entry('recorded')))


def test_application_credential_of_the_node(stage, server):
    made, driver_info = stage.own_credential()
    node = stage.node(server, **driver_info)
    _use(stage, node)
    answer = stage.get(f'/v1/nodes/{node.id}')['driver_info']
    assert answer['quintupleo_application_credential_secret'] == '******'
    # From here on power sync meets it.
    stage.deployment.api.patch_node(node.id, [{
        'op': 'replace', 'value': WRONG, 'path':
        '/driver_info/quintupleo_application_credential_secret'}])
    stage.deployment.wait_for(
        lambda: stage.get(f'/v1/nodes/{node.id}')['maintenance'],
        'power sync to give the node up')
    reason = stage.get(f'/v1/nodes/{node.id}')['maintenance_reason']
    assert 'does not accept the credentials' in reason
    stage.deployment.cloud.identity.delete_application_credential(
        stage.deployment.cloud.current_user_id, made)


def test_wrong_secrets(stage, server):
    made, driver_info = stage.own_credential()
    driver_info['quintupleo_application_credential_secret'] = WRONG
    for wrong in (driver_info, stage.entry('wrong', password=WRONG)):
        node = stage.node(server, **wrong)
        reason = stage.validate(node)['reason']
        assert 'does not accept the credentials' in reason
    assert 'does not accept' in stage.power(node, 'rebooting', ON)
    stage.deployment.cloud.identity.delete_application_credential(
        stage.deployment.cloud.current_user_id, made)


def test_password_that_is_a_number(stage, server):
    stage.secrets.add('92837465019283')
    node = stage.node(server, **stage.entry(
        'number', password=92837465019283))
    assert stage.validate(node)['result'] is False


def test_clouds_yaml_that_is_broken(stage, server):
    node = stage.node(server, quintupleo_cloud='broken')
    path = stage.deployment.ironic.state / 'clouds.yaml'
    before = path.read_text()
    try:
        for text in (f'clouds: {{broken: {{auth: {{password: *{WRONG}',
                     f'clouds:\n  broken: !{WRONG} x', WRONG,
                     f'clouds: {{broken: {{auth: {WRONG}}}}}'):
            system.write_file(path, text)
            assert 'clouds.yaml' in stage.validate(node)['reason']
    finally:
        system.write_file(path, before)


def test_addresses_where_no_cloud_is(stage, server):
    for name, auth_url in (
            ('nowhere', f'{stage.recorder.url}/identity/nowhere/v3'),
            ('unreachable', 'http://127.0.0.1:9/v3'),
            ('userinfo', stage.identity.replace(
                '//', f'//tenant:{WRONG}@'))):
        node = stage.node(server, **stage.entry(name, auth_url=auth_url))
        assert stage.validate(node)['result'] is False
        assert stage.power(node, 'rebooting', ON)


@pytest.fixture
def answer(stage):
    """Let requests of a kind fail, with what was sent in the answer."""
    yield stage.recorder.answer
    stage.recorder.answer()


@pytest.mark.parametrize('status', (400, 401, 403, 404, 409))
def test_nova_repeats_the_request(stage, server, answer, status):
    node = stage.node(server, **stage.entry(f'nova-{status}'))
    assert stage.validate(node)['result'] is True
    for method, path in (('POST', 'compute/.*/action'),
                         ('GET', 'compute/.*/servers')):
        if (method, status) == ('GET', 409):
            # No answer to a read: the driver would wait until it passes.
            continue
        answer(method, path, status)
        error = stage.power(node, 'rebooting', ON)
        assert 'X-Auth-Token: ***' in error or status == 404
    assert stage.validate(node)['result'] is (status == 409)


def test_keystone_repeats_the_request(stage, server, answer):
    for status in (400, 401, 403, 500):
        answer('POST', 'identity/v3/auth/tokens', status)
        made, driver_info = stage.own_credential()
        for wrong in (driver_info, stage.entry(f'keystone-{status}')):
            reason = stage.validate(stage.node(server, **wrong))['reason']
            assert '***' in reason
        stage.deployment.cloud.identity.delete_application_credential(
            stage.deployment.cloud.current_user_id, made)


def test_keystone_sends_elsewhere(stage, server, answer):
    elsewhere = recording.Recorder(stage.recorder.url, stage.recorder.url)
    answer('POST', 'auth/tokens', 307,
           headers={'Location': elsewhere.url + '/identity/v3/auth/tokens'})
    made, driver_info = stage.own_credential()
    try:
        for wrong in (driver_info, stage.entry('elsewhere')):
            reason = stage.validate(stage.node(server, **wrong))['reason']
            assert 'which is not followed' in reason
        assert elsewhere.requests == []
    finally:
        elsewhere.close()
        stage.deployment.cloud.identity.delete_application_credential(
            stage.deployment.cloud.current_user_id, made)


def test_token_that_is_not_accepted_any_more(stage, server, answer):
    node = stage.node(server, **stage.entry('expired'))
    assert stage.validate(node)['result'] is True
    known = set(stage.recorder.tokens)
    answer('GET', 'compute/.*/servers', 401)
    assert stage.power(node, 'rebooting', ON)
    # A new one was asked for before giving up.
    assert stage.recorder.tokens - known
    answer()
    assert stage.power(node, 'rebooting', ON) is None


def test_command_line(stage, deployment):
    made, driver_info = stage.own_credential()
    path = deployment.ironic.state / 'clouds.yaml'
    content = yaml.safe_load(path.read_text())
    secret = driver_info['quintupleo_application_credential_secret']
    for name, given in (('cli', secret), ('cli-wrong', WRONG)):
        content['clouds'][name] = {
            'auth_type': 'v3applicationcredential',
            'auth': {'auth_url': stage.identity,
                     'application_credential_id': made.id,
                     'application_credential_secret': given}}
    system.write_file(path, yaml.safe_dump(content))
    for name in ('cli', 'cli-wrong', lab.CLOUD):
        result = deployment.host_cloud.client(
            '--debug', 'quintupleo', 'image', 'create', '--iso',
            str(deployment.iso), cloud=name, check=False)
        assert (result.returncode == 0) == (name != 'cli-wrong'), result
        assert 'REQ: curl' in result.stderr or name == 'cli-wrong'
        stage.texts += [('stdout', result.stdout), ('stderr', result.stderr)]
    deployment.cloud.identity.delete_application_credential(
        deployment.cloud.current_user_id, made)
