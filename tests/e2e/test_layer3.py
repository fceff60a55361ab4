# SPDX-License-Identifier: Apache-2.0
"""Routers and floating IPs of a minicloud, and what its guests reach.

The cloud is one of its own, without an Ironic. At its end the agent of the
routers is killed first, and the machine has to be as before all the same.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import urllib.parse

import openstack
import pytest

from onebox import images
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import network
from onebox.minicloud import settings
from onebox import processes
from onebox import progress
from onebox import system
from onebox import testing

pytestmark = pytest.mark.full
# What conftest.py goes by: two clouds cannot be up at a time.
OWN_CLOUD = True

CIDR = '10.250.80.0/24'
NEIGHBOURS = '10.250.81.1', '10.250.81.2'
# Enough for a wrong checksum, or a wrong size of packets, to show.
PAYLOAD = 4 << 20
SSH = ('ssh', '-o', 'StrictHostKeyChecking=no', '-o', 'ConnectTimeout=10',
       '-o', 'UserKnownHostsFile=/dev/null', '-o', 'LogLevel=ERROR')
# What a guest does to have its address from DHCP once more.
NEW_ADDRESS = b'''
card=$(ls /sys/class/net | grep -v lo)
ip address flush dev "$card"
networkctl reconfigure "$card"
until ip -4 address show dev "$card" | grep -q inet; do sleep 1; done
touch address-is-new
'''


@dataclasses.dataclass
class Guest:
    """A server of the cloud, reached by SSH.

    :ivar server: UUID of the server.
    :ivar address: its fixed address.
    :ivar floating_ip: the floating IP, as openstacksdk has it.
    :ivar key: path of the private key.
    """

    server: str
    address: str
    floating_ip: openstack.resource.Resource
    key: pathlib.Path

    def words(self, address=None, through=None):
        """Return the words of a command that runs what follows there.

        :param address: one that is not its floating IP.
        :param through: another :class:`Guest` to go through.
        """
        words = [*SSH, '-i', str(self.key)]
        if through:
            way = ' '.join([*through.words()[:-1], '-W', '%h:%p',
                            through.words()[-1]])
            words += ['-o', f'ProxyCommand={way}']
        address = address or self.floating_ip.floating_ip_address
        return [*words, f'root@{address}']

    def run(self, *command, data=b'', **way):
        """Run a command in it, and return what it printed."""
        return subprocess.run([*self.words(**way), *command], input=data,
                              stdout=subprocess.PIPE, check=True,
                              timeout=120).stdout

    def http(self, url, body=None, **way):
        """Make a request from within it; there is nothing but bash for that.

        :returns: the status code and the content.
        """
        parts = urllib.parse.urlsplit(url)
        data = b'' if body is None else json.dumps(body).encode()
        head = (f"{'POST' if data else 'GET'} {parts.path or '/'} HTTP/1.0",
                f'Host: {parts.netloc}', 'Content-Type: application/json',
                f'Content-Length: {len(data)}', '', '')
        answer = self.run(
            f"bash -c 'exec 3<>/dev/tcp/{parts.hostname}/{parts.port};"
            " cat >&3; cat <&3'", data='\r\n'.join(head).encode() + data,
            **way)
        head, _, content = answer.partition(b'\r\n\r\n')
        return int(head.split()[1]), json.loads(content)


@pytest.fixture(scope='module')
def cloud(users_own):
    """Bring the cloud up, and down again at the end."""
    shown = progress.Progress('layer 3')
    made = settings.Settings()
    with minicloud.lock(made):
        made = settings.Settings()
        if made.exists():
            # A run was interrupted here: none of it is to be met again.
            minicloud.down(made, shown)
            made = settings.Settings()
        try:
            minicloud.up(made, shown, 'libvirt', layer3=True)
            yield made
        finally:
            _kill(made, 'neutron-l3-agent')
            minicloud.down(made, shown)


def _kill(cloud, service):
    pid = processes.Daemon(service, cloud.run, cloud.logs).pid()
    if pid:
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope='module')
def connection(cloud):
    """The tenant's connection, to the addresses that clients find."""
    return openstack.connection.Connection(
        config=openstack.config.OpenStackConfig(
            config_files=[str(cloud.clouds_yaml)],
            load_envvars=False).get_one('minicloud'))


@pytest.fixture(scope='module')
def guests(cloud, connection, tmp_path_factory):
    """Two servers behind a router, with a floating IP each."""
    key = tmp_path_factory.mktemp('key') / 'key'
    system.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key])
    connection.compute.create_keypair(
        name='layer3', public_key=key.with_suffix('.pub').read_text())
    external = connection.network.find_network(
        settings.EXTERNAL_NETWORK, ignore_missing=False)
    inner = connection.network.create_network(name='layer3')
    subnet = connection.network.create_subnet(
        network_id=inner.id, name='layer3', ip_version=4, cidr=CIDR)
    router = connection.network.create_router(
        name='layer3', external_gateway_info={'network_id': external.id})
    connection.network.add_interface_to_router(router, subnet_id=subnet.id)
    connection.network.create_security_group_rule(
        security_group_id=connection.network.find_security_group(
            'default').id, direction='ingress', protocol='tcp',
        port_range_min=22, port_range_max=22, remote_ip_prefix='0.0.0.0/0')
    image = _image(cloud, connection)
    servers = [connection.compute.create_server(
        name=f'layer3-{number}', image_id=image.id, config_drive=True,
        flavor_id=connection.compute.find_flavor('tiny').id,
        key_name='layer3', networks=[{'uuid': inner.id}])
        for number in range(2)]
    made = []
    for server in servers:
        connection.compute.wait_for_server(server, wait=300)
        port = next(connection.network.ports(device_id=server.id))
        made.append(Guest(
            server.id, port.fixed_ips[0]['ip_address'],
            connection.network.create_ip(floating_network_id=external.id,
                                         port_id=port.id), key))
    for guest in made:
        _wait_for_ssh(guest)
    return made


def _image(cloud, connection):
    built = images.Images(cloud.cache, cloud.logs)
    built.build('Debian disk image')
    return connection.image.create_image(
        name='layer3', filename=str(built.disk), disk_format='raw',
        container_format='bare', wait=True)


def _wait_for_ssh(guest, command='true'):
    processes.wait_for(
        lambda: system.run(['timeout', '60', *guest.words(), command],
                           check=False).returncode == 0,
        600, f'SSH of {guest.address}', interval=2)


def test_floating_ips_lead_to_their_guests(guests):
    for number, guest in enumerate(guests):
        assert guest.run('hostname').decode().strip() == f'layer3-{number}'


def test_nothing_is_lost_on_the_way(guests):
    payload = os.urandom(PAYLOAD)
    assert guests[0].run('cat >payload; cat payload', data=payload) == payload


def test_guests_use_the_apis_by_their_public_addresses(
        cloud, connection, guests):
    entry = connection.config.get_auth_args()
    assert entry['auth_url'] == cloud.public_url('keystone', '/v3')
    domain = {'name': entry['user_domain_name']}
    order = {'auth': {
        'identity': {'methods': ['password'], 'password': {'user': {
            'name': entry['username'], 'password': entry['password'],
            'domain': domain}}},
        'scope': {'project': {'name': entry['project_name'],
                              'domain': domain}}}}
    for guest in guests:
        code, answer = guest.http(entry['auth_url'] + '/auth/tokens', order)
        assert code == 201
        urls = {(each['interface'], urllib.parse.urlsplit(each['url']))
                for service in answer['token']['catalog']
                for each in service['endpoints']}
        assert len(urls) == 10
        for interface, url in urls:
            if interface == 'internal':
                assert url.hostname == settings.ADDRESS
                continue
            assert url.hostname == cloud.public_address
            code, _ = guest.http(f'http://{url.netloc}/')
            assert code in (200, 300)


def test_guest_without_a_floating_ip_reaches_the_apis(
        cloud, connection, guests):
    other, guest = guests
    ip = connection.network.update_ip(guest.floating_ip, port_id=None)
    try:
        processes.wait_for(
            lambda: connection.network.get_ip(ip.id).status == 'DOWN', 60,
            'Neutron to take the floating IP away')
        code, _ = guest.http(cloud.public_url('keystone', '/v3'),
                             address=guest.address, through=other)
        assert code == 200
    finally:
        connection.network.update_ip(ip, port_id=next(
            connection.network.ports(device_id=guest.server)).id)
    _wait_for_ssh(guest)


@contextlib.contextmanager
def _neighbour(cloud):
    """Have somebody on a wire to this machine who knows the way to the cloud.

    :returns: the words that let a command run there, as a context.
    """
    here, there = NEIGHBOURS
    with testing.namespace('layer3-neighbour') as prefix:
        system.run(['ip', 'link', 'add', 'layer3-here', 'type', 'veth',
                    'peer', 'name', 'there', 'netns', prefix[-1]])
        try:
            system.run(['ip', 'address', 'add', f'{here}/24', 'dev',
                        'layer3-here'])
            system.run(['ip', 'link', 'set', 'layer3-here', 'up'])
            inside = ['ip', '-n', prefix[-1]]
            system.run([*inside, 'address', 'add', f'{there}/24', 'dev',
                        'there'])
            system.run([*inside, 'link', 'set', 'there', 'up'])
            system.run([*inside, 'route', 'add', str(cloud.public_network),
                        'via', here])
            yield prefix
        finally:
            system.run(['ip', 'link', 'delete', 'layer3-here'])


def _reaches(prefix, address, port):
    return system.run(
        [*prefix, 'timeout', '5', 'bash'], check=False,
        input=f'exec 3<>/dev/tcp/{address}/{port}').returncode == 0


def test_neighbours_do_not_reach_the_apis(cloud, guests):
    with socket.create_server(('0.0.0.0', 0)) as server:
        port = server.getsockname()[1]
        with _neighbour(cloud) as prefix:
            assert _reaches(prefix, NEIGHBOURS[0], port)
            assert not _reaches(prefix, cloud.public_address, port)
            assert not _reaches(prefix, cloud.public_address,
                                settings.PORTS['keystone'])
        assert _reaches((), cloud.public_address, port)
        assert _reaches(guests[0].words(), cloud.public_address, port)


def test_killed_daemons_are_made_good(cloud, guests):
    _kill(cloud, 'ovs-vswitchd')
    _kill(cloud, 'neutron-l3-agent')
    minicloud.up(cloud, progress.Progress('layer 3, once more'))
    for guest in guests:
        _wait_for_ssh(guest)
        code, _ = guest.http(cloud.public_url('keystone', '/v3'))
        assert code == 200
    # The DHCP agent has its device again, too.
    guests[0].run('cat >script; nohup sh script >/dev/null 2>&1 &',
                  data=NEW_ADDRESS)
    _wait_for_ssh(guests[0], 'test -e address-is-new')


def test_deleted_guest_leaves_its_floating_ip(connection, guests):
    guest = guests.pop()
    connection.compute.delete_server(guest.server)
    connection.compute.wait_for_delete(
        connection.compute.get_server(guest.server))
    connection.network.delete_ip(guest.floating_ip)
    address = guest.floating_ip.floating_ip_address
    processes.wait_for(lambda: not _reaches((), address, 22), 60,
                       f'{address} to lead nowhere')
    assert guests[0].run('hostname')
    assert len(network.router_namespaces()) == 1
