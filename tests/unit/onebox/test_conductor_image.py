# SPDX-License-Identifier: Apache-2.0
"""What configures the Ironic of an environment, and enrols its servers."""

import configparser
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import bcrypt
from ironic.conf import opts as ironic_opts
import openstack
import pytest

from onebox import ironic_files

ROOT = (pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'images'
        / 'conductor' / 'root')
SETTINGS = {
    'environment': 'lab',
    'cloud': {'auth_type': 'v3applicationcredential', 'auth': {
        'auth_url': 'https://cloud.example.test/v3',
        'application_credential_id': 'an-id',
        'application_credential_secret': 'a-secret'},
        'region_name': 'RegionOne', 'interface': 'public', 'verify': True},
    'cacert': None,
    'api': {'username': 'admin', 'password': 'a-password',
            'certificate': 'a certificate', 'key': 'a key',
            'url': 'https://203.0.113.7:6385'},
    'provision': {'address': '192.0.2.10/24', 'mac': '52:54:00:00:00:02',
                  'gateway': None, 'dns': [], 'default_route': False},
    'redfish': False}


def _load(name, monkeypatch):
    """Return a program of the image as a module."""
    monkeypatch.setitem(sys.modules, 'ironic_files', ironic_files)
    loader = importlib.machinery.SourceFileLoader(
        name.replace('-', '_'), str(ROOT / 'usr/local/sbin' / name))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def configure(monkeypatch, tmp_path):
    module = _load('quintupleo-configure', monkeypatch)
    monkeypatch.setattr(module, 'CLASS_NET', tmp_path / 'net')
    return module


def _ironic_conf(files):
    found = configparser.ConfigParser(interpolation=None)
    found.read_string(files['ironic.conf'])
    return found


def test_ironic_has_the_credentials_and_wants_a_password(configure):
    files = configure.files(SETTINGS, 'ens4')
    ironic = _ironic_conf(files)
    assert ironic['DEFAULT']['auth_strategy'] == 'http_basic'
    assert ironic['quintupleo']['cloud'] == configure.HOST_CLOUD
    assert ironic['quintupleo']['fault_injection'] == 'false'
    assert (ironic['glance']['application_credential_secret']
            == 'a-secret')
    # A tenant's server reaches no other.
    assert ironic['glance']['valid_interfaces'] == 'public'
    assert ironic['deploy']['http_url'] == 'http://192.0.2.10:8088'
    name, _, hashed = files['passwords'].strip().partition(':')
    assert name == 'admin'
    assert bcrypt.checkpw(b'a-password', hashed.encode())


def test_nothing_is_written_elsewhere(configure):
    conf = _ironic_conf(configure.files(SETTINGS, 'ens4'))
    for group, options in ironic_opts.list_opts():
        # Another service, which does not run here.
        if group == 'ironic_networking':
            continue
        for option in options:
            if str(option.default).startswith(('/var/lib', '/httpboot',
                                               '/tftpboot')):
                value = conf[group].get(option.name, '')
                assert str(configure.STATE) in value, (group, option.name)


def test_clients_know_both_clouds(configure, tmp_path):
    text = configure.files({**SETTINGS, 'cacert': 'a CA'}, 'ens4')[
        'clouds.yaml']
    path = tmp_path / 'clouds.yaml'
    path.write_text(text)
    known = openstack.config.OpenStackConfig(
        config_files=[str(path)], load_envvars=False)
    host_cloud = known.get_one(configure.HOST_CLOUD)
    assert host_cloud.get_auth_args()[
        'application_credential_id'] == 'an-id'
    assert host_cloud.config['cacert'] == str(
        configure.ETC / 'host-cloud.pem')
    assert known.get_one(configure.IRONIC).get_endpoint(
        'baremetal') == f'http://127.0.0.1:{configure.API_PORT}'


def test_machines_get_the_addresses_of_neutron_alone(configure):
    conf = configure.files(SETTINGS, 'ens4')['dnsmasq.conf']
    assert 'dhcp-range=192.0.2.0,static,255.255.255.0,12h\n' in conf
    assert '\ninterface=ens4\n' in conf
    # Without a router machines get no default route.
    assert '\ndhcp-option=option:router\n' in conf


def test_machines_are_told_the_way_out(configure):
    conf = configure.files({**SETTINGS, 'provision': {
        **SETTINGS['provision'], 'gateway': '192.0.2.1',
        'dns': ['192.0.2.53']}}, 'ens4')['dnsmasq.conf']
    assert '\ndhcp-option=option:router,192.0.2.1\n' in conf
    assert '\ndhcp-option=option:dns-server,192.0.2.53\n' in conf


def test_api_is_there_by_https_only(configure):
    conf = configure.files(SETTINGS, 'ens4')['nginx.conf']
    listens = [line.split()[1:] for line in conf.splitlines()
               if line.split()[:1] == ['listen']]
    assert listens == [['192.0.2.10:8088;'], ['6385', 'ssl;']]
    assert conf.count('{') == conf.count('}')


def test_redfish_is_there_where_it_is_asked_for(configure):
    assert 'redfish.conf' not in configure.files(SETTINGS, 'ens4')
    conf = configure.files({**SETTINGS, 'redfish': True}, 'ens4')[
        'redfish.conf']
    values = {}
    exec(conf, values)  # noqa: S102 - Flask reads it so
    assert values['SUSHY_EMULATOR_IRONIC_CLOUD'] == configure.IRONIC


def test_card_is_found_by_its_address(configure, tmp_path):
    for name, mac in (('lo', '00:00:00:00:00:00'),
                      ('ens4', '52:54:00:00:00:02')):
        (tmp_path / 'net' / name).mkdir(parents=True)
        (tmp_path / 'net' / name / 'address').write_text(mac + '\n')
    assert configure.device_of('52:54:00:00:00:02') == 'ens4'
    with pytest.raises(SystemExit, match='52:54:00:00:00:03'):
        configure.device_of('52:54:00:00:00:03')


class _Ironic:
    """A stand-in for openstacksdk's baremetal proxy."""

    def __init__(self):
        self.known = {}
        self.asked = []

    def add(self, name, state='enroll', **more):
        node = types.SimpleNamespace(
            id=f'id-{name}', name=name, provision_state=state,
            target_provision_state=None, is_maintenance=False,
            maintenance_reason=None, last_error=None, instance_id=None,
            extra={'quintupleo_environment': 'lab'},
            driver_info={'quintupleo_server': f'server-{name}'})
        vars(node).update(more)
        self.known[name] = node
        return node

    def nodes(self, **_):
        return list(self.known.values())

    def set_node_provision_state(self, node, verb):
        self.asked.append((node.name, verb))

    def patch_node(self, node, patch):
        for each in patch:
            node.extra[each['path'].split('/')[-1]] = each['value']

    def set_node_maintenance(self, node, reason):
        node.is_maintenance = True

    def delete_node(self, node):
        assert node.is_maintenance
        del self.known[node.name]


class _Environments:

    def __init__(self, ironic):
        self.servers = []
        self.incomplete = []
        self._ironic = ironic

    def get(self, name):
        return types.SimpleNamespace(all=lambda kind: [
            types.SimpleNamespace(id=f'server-{each}')
            for each in (*self.servers, *self.incomplete)])

    def describe(self, name):
        return types.SimpleNamespace(
            addresses={f'52:54:00:00:00:{number:02x}': f'192.0.2.{number}'
                       for number, _ in enumerate(self.servers, 20)},
            nodes=[{'name': each, 'driver_info': {
                'quintupleo_server': f'server-{each}'}}
                for each in self.servers])

    def enroll(self, described, baremetal, tag_servers):
        assert tag_servers
        for each in described:
            node = self._ironic.add(each['name'], extra=each['extra'])
            yield types.SimpleNamespace(name=node.name, id=node.id,
                                        outcome='enrolled')


@pytest.fixture
def enroll(monkeypatch, tmp_path):
    module = _load('quintupleo-enroll', monkeypatch)
    monkeypatch.setattr(module, 'DHCP_HOSTS', tmp_path / 'nodes')
    return module


@pytest.fixture
def lab(enroll):
    """An enroller with its Ironic, its environment and what it told."""
    ironic = _Ironic()
    told = {}
    environments = _Environments(ironic)
    made = enroll.Enroller('lab', environments, ironic, told.update)
    return types.SimpleNamespace(
        enroller=made, ironic=ironic, told=told,
        environment=environments, module=enroll)


def _status(lab):
    return lab.told['quintupleo_ironic'], lab.told['quintupleo_ironic_nodes']


def test_servers_become_available_nodes(lab):
    lab.environment.servers = ['node-0', 'node-1']
    lab.enroller.run_once()
    assert sorted(lab.ironic.known) == ['node-0', 'node-1']
    assert _status(lab) == ('enrolling', 'enroll 2')
    assert lab.module.DHCP_HOSTS.read_text() == (
        '52:54:00:00:00:14,192.0.2.20\n52:54:00:00:00:15,192.0.2.21\n')
    for node in lab.ironic.known.values():
        node.provision_state = 'manageable'
    lab.enroller.run_once()
    assert lab.ironic.asked == [('node-0', 'manage'), ('node-1', 'manage'),
                                ('node-0', 'provide'), ('node-1', 'provide')]
    lab.ironic.known['node-0'].provision_state = 'available'
    lab.ironic.known['node-1'].provision_state = 'clean wait'
    lab.ironic.known['node-1'].target_provision_state = 'available'
    lab.enroller.run_once()
    assert _status(lab) == ('enrolling', 'available 1, clean wait 1')
    lab.ironic.known['node-1'].provision_state = 'available'
    lab.ironic.known['node-1'].target_provision_state = None
    lab.enroller.run_once()
    assert _status(lab) == ('ready', 'available 2')
    assert lab.told['quintupleo_ironic_seen'] == '2'


def test_node_that_was_available_is_its_users(lab):
    lab.environment.servers = ['node-0']
    lab.ironic.add('node-0', 'available')
    lab.enroller.run_once()
    lab.ironic.known['node-0'].provision_state = 'manageable'
    lab.enroller.run_once()
    assert not lab.ironic.asked
    assert _status(lab) == ('ready', 'manageable 1')


def test_failure_is_told_after_some_attempts(lab):
    lab.environment.servers = ['node-0']
    lab.ironic.add('node-0', 'clean failed', last_error='no agent')
    for _ in range(lab.module.ATTEMPTS):
        lab.enroller.run_once()
        assert lab.told['quintupleo_ironic'] == 'enrolling'
    lab.enroller.run_once()
    assert _status(lab) == ('failed', 'node-0 is clean failed: no agent')
    assert len(lab.ironic.asked) == lab.module.ATTEMPTS


def test_node_of_a_server_that_is_gone_goes(lab):
    lab.ironic.add('node-0', 'available')
    lab.ironic.add('other', 'available', extra={})
    lab.enroller.run_once()
    assert list(lab.ironic.known) == ['other']


def test_node_of_a_server_that_has_lost_a_port_stays(lab):
    lab.ironic.add('node-0', 'available')
    lab.environment.incomplete = ['node-0']
    lab.enroller.run_once()
    assert list(lab.ironic.known) == ['node-0']


@pytest.mark.parametrize('state, instance', [
    ('active', 'an-instance'), ('active', None), ('rescue', None)])
def test_node_that_is_in_use_stays(lab, state, instance):
    lab.ironic.add('node-0', state, instance_id=instance)
    lab.enroller.run_once()
    assert list(lab.ironic.known) == ['node-0']
    status, nodes = _status(lab)
    assert status == 'failed'
    assert nodes.startswith('the server of node-0 is gone')


def test_node_that_is_cleaned_stays_until_that_ends(lab):
    node = lab.ironic.add('node-0', 'cleaning',
                          target_provision_state='available')
    lab.enroller.run_once()
    assert list(lab.ironic.known) == ['node-0']
    node.target_provision_state = None
    node.provision_state = 'clean failed'
    lab.enroller.run_once()
    assert not lab.ironic.known


def test_long_problems_fit_into_metadata(lab):
    lab.environment.servers = ['node-0']
    lab.ironic.add('node-0', 'enroll', is_maintenance=True,
                   maintenance_reason='x' * 500)
    lab.enroller.run_once()
    assert len(lab.told['quintupleo_ironic_nodes']) == 255


def test_units_name_programs_that_are_there():
    for unit in (ROOT / 'etc/systemd/system').glob('*.service'):
        for line in unit.read_text().splitlines():
            if line.startswith('ExecStart=/usr/local'):
                assert (ROOT / line.partition('=/')[2].split()[0]).exists()
