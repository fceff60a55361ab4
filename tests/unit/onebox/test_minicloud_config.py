# SPDX-License-Identifier: Apache-2.0
"""minicloud's configuration files and services."""

import base64
import configparser
import pathlib
import stat
import struct
import time

import pytest
import yaml

from onebox.minicloud import bootstrap
from onebox.minicloud import config
from onebox.minicloud import keys
from onebox.minicloud import services
from onebox.minicloud import settings
from onebox import processes


EXTERNAL_NETWORK = '198.18.7.0/24'


@pytest.fixture(params=['libvirt', 'libvirt with layer 3', 'fake',
                        'fake with volumes'])
def cloud(request, tmp_path):
    hypervisor, _, more = request.param.partition(' with ')
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    made.root.mkdir(parents=True)
    made.create(hypervisor, external_network=(
        EXTERNAL_NETWORK if more == 'layer 3' else None))
    if more == 'volumes':
        made.add_volumes()
    if hypervisor == 'libvirt':
        made.values['virt_type'] = 'qemu'
    paste = made.venv / 'etc' / 'nova' / 'api-paste.ini'
    paste.parent.mkdir(parents=True)
    paste.write_text('[composite:osapi_compute]\n')
    return made


def _chosen(cloud):
    return services.chosen(cloud.hypervisor, cloud.volumes, cloud.layer3)


def test_render():
    text = config.render({
        'DEFAULT': {'debug': True, 'left_out': None, 'workers': 2},
        'many': {'option': ['a', 'b']}})
    assert text == ('[DEFAULT]\ndebug = true\nworkers = 2\n\n'
                    '[many]\noption = a\noption = b\n')


def test_no_connection_gets_a_port_that_a_service_listens_on():
    # A hundred from that one on are for parts of the storage cluster.
    ports = {*settings.PORTS.values(), settings.PORTS['ceph'] + 99}
    assert max(ports) < processes.FREE_PORTS[0]
    first = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text()
    assert processes.FREE_PORTS[1] <= int(first.split()[0])


def test_plain():
    assert config.plain({'a': 1, 'b': '"c"'}) == 'a = 1\nb = "c"\n'


def test_all_files_are_rendered(cloud):
    for service in _chosen(cloud):
        for name, function in service.files.items():
            text = function(cloud)
            assert text
            if name.endswith('.conf') and text.startswith('['):
                parser = configparser.ConfigParser(interpolation=None)
                parser.read_string(text)


def test_two_cores_and_eight_gib_take_the_machines_of_a_full_run(cloud):
    # Those of all lives are made at once; most of them are off.
    machine = next(flavor for flavor in bootstrap.FLAVORS
                   if flavor['name'] == 'baremetal-one-cpu')
    options = config.nova(cloud)['DEFAULT']
    memory = 8 * 1024 - options['reserved_host_memory_mb']
    assert memory * options['initial_ram_allocation_ratio'] > (
        50 * machine['ram'])
    assert 2 * options['initial_cpu_allocation_ratio'] > 50 * machine['vcpus']


def test_all_commands_are_filled(cloud):
    for service in _chosen(cloud):
        for command in (service.command, *service.schema):
            cloud.fill(command)
        for value in service.environment.values():
            value.format(**cloud.words())


def test_no_password_in_commands(cloud):
    secrets = list(cloud.values['passwords'].values())
    for service in _chosen(cloud):
        for command in (service.command, *service.schema):
            words = ' '.join(cloud.fill(command))
            assert not any(secret in words for secret in secrets)


def test_cells_are_templates(cloud):
    nova = services.by_name('nova-api')
    words = cloud.fill(nova.schema[1])
    assert words[-1] == ('{scheme}://{username}:{password}@{hostname}/'
                         'nova_cell0?{query}')


def test_loopback_only(cloud):
    for port in ('keystone', 'glance', 'placement', 'neutron', 'nova',
                 'cinder'):
        options = config.uwsgi(cloud, port, 'module')['uwsgi']
        number = settings.PORTS[port]
        assert options['http-socket'] == (
            [f'127.0.0.1:{number}', f'198.18.7.1:{number}'] if cloud.layer3
            else [f'127.0.0.1:{number}'])
        # An API server may begin before the address is there.
        assert options['freebind'] is (True if cloud.layer3 else None)
    assert config.rabbitmq(cloud)['listeners.tcp.1'].startswith('127.0.0.1:')
    assert config.mariadb(cloud)['mariadbd']['skip-networking'] is True
    options = config.nova(cloud)['vnc']
    assert options['server_listen'] == '127.0.0.1'
    assert options['novncproxy_host'] == '127.0.0.1'
    options = config.nova(cloud)['serial_console']
    assert options['proxyclient_address'] == '127.0.0.1'
    assert options['serialproxy_host'] == '127.0.0.1'


def test_layer3(cloud):
    agent = services.by_name('neutron-l3-agent')
    assert (agent in _chosen(cloud)) == cloud.layer3
    assert set(agent.packages) <= set(services.packages(
        'libvirt', layer3=True))
    options = config.neutron(cloud)
    public = cloud.public_url('keystone', '/v3')
    if not cloud.layer3:
        assert public == cloud.url('keystone', '/v3')
        assert 'ml2_type_flat' not in options
        assert options['ovs']['bridge_mappings'] is None
        return
    assert cloud.url('keystone', '/v3') == 'http://127.0.0.1:5000/v3'
    assert public == 'http://198.18.7.1:5000/v3'
    assert options['ml2_type_flat'] == {'flat_networks': 'public'}
    assert options['ovs']['bridge_mappings'] == 'public:br-mc-public'
    # Services find each other where they always are.
    assert config.credentials(cloud, 'nova')['auth_url'] == cloud.url(
        'keystone', '/v3')
    assert settings.Settings(cloud.state, cloud.cache).public_address == (
        '198.18.7.1')


def test_clients_are_told_of_the_public_address(cloud):
    bootstrap.clouds_yaml(cloud)
    urls = [entry['auth']['auth_url'] for entry in yaml.safe_load(
        cloud.clouds_yaml.read_text())['clouds'].values()]
    assert urls == [cloud.public_url('keystone', '/v3')] * 2


def test_public_endpoints_of_the_catalog(cloud):
    client = KeystoneClient()
    bootstrap._endpoint(client, cloud, 'nova', 'compute', '/v2.1')
    assert {each['interface']: each['url'] for each in client.made} == {
        'public': cloud.public_url('nova', '/v2.1'),
        'internal': 'http://127.0.0.1:8774/v2.1'}
    bootstrap._endpoint(client, cloud, 'nova', 'compute', '/v2.1')
    assert len(client.made) == 2


class KeystoneClient:
    """Keystone with one service."""

    def __init__(self):
        self.made = []

    def get(self, service, path):
        return {'services': [{'id': '1'}], 'endpoints': self.made}

    def post(self, service, path, body):
        self.made.append(body['endpoint'])


def test_consoles(cloud):
    names = [service.name for service in _chosen(cloud)]
    # A fake guest has no screen.
    assert ('nova-novncproxy' in names) == (cloud.hypervisor == 'libvirt')
    # With serial ports at sockets, servers in rescue have no console log.
    assert ('nova-serialproxy' in names) == cloud.layer3
    options = config.nova(cloud)['serial_console']
    assert options['enabled'] == cloud.layer3
    assert options['base_url'] == (
        f"ws://127.0.0.1:{options['serialproxy_port']}/")
    options = config.nova(cloud)['vnc']
    assert options['novncproxy_base_url'] == (
        f"http://127.0.0.1:{options['novncproxy_port']}/vnc_lite.html")


def test_storage_cluster(cloud):
    if not cloud.volumes:
        assert not any(name.startswith('ceph') or name.startswith('cinder')
                       for service in _chosen(cloud)
                       for name in service.files)
        return
    options = config.ceph(cloud)['global']
    assert options['mon_host'] == '[v2:127.0.0.1:23300]'
    assert options['public_addr'] == options['cluster_addr'] == '127.0.0.1'
    # Each party reads its own key; only the monitor knows all of them.
    for party in config.CEPH_RIGHTS:
        text = config.render(config.keyring(cloud, party))
        assert 'key = %s\n' % cloud.password(party) in text
        assert text.count('key = ') == 1


def test_a_ceph_key_has_the_form_that_ceph_reads():
    first, second = (base64.b64decode(keys.cephx()) for _ in range(2))
    kind, seconds, _, length = struct.unpack('<HIIH', first[:12])
    assert (kind, length, len(first)) == (1, 16, 28)
    assert seconds <= time.time()
    assert first[12:] != second[12:]


@pytest.mark.parametrize('virt_type, cpu_mode, cache', [
    ('qemu', 'none', 256), ('kvm', 'host-passthrough', None)])
def test_virtualization(cloud, virt_type, cpu_mode, cache):
    cloud.values['virt_type'] = virt_type
    options = config.nova(cloud)['libvirt']
    assert options['virt_type'] == virt_type
    assert options['cpu_mode'] == cpu_mode
    assert options['tb_cache_size'] == cache


def test_settings_are_kept_and_private(cloud):
    again = settings.Settings(cloud.state, cloud.cache)
    assert again.values['passwords'] == cloud.values['passwords']
    cloud.set_done('databases')
    assert settings.Settings(cloud.state, cloud.cache).done('databases')
    path = cloud.root / 'settings.json'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_environment_is_made_anew(cloud, monkeypatch):
    monkeypatch.setenv('http_proxy', 'http://192.0.2.1')
    monkeypatch.setenv('OS_PASSWORD', 'secret')
    environment = cloud.environment()
    assert 'http_proxy' not in environment
    assert 'OS_PASSWORD' not in environment
