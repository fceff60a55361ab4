# SPDX-License-Identifier: Apache-2.0
"""An environment from one file, with real guests, from nothing to nothing.

Machines for Ironic, of which one has its life by PXE, beside two servers that
take a virtual IP from each other with keepalived.
"""

from concurrent import futures
import contextlib
import hashlib
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import threading

import pytest

from onebox.minicloud import network
from onebox.minicloud import settings
from onebox import processes
from onebox import system
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment
from tests import projects

NAME = 'env'
IMAGE = 'environment-keepalived'
GROUP = 'environment-vrrp'
VIRTUAL_IP = '10.250.77.100'
OURS = '10.250.77.200/24'
VRRP, SSH = '112', 22
PATIENCE = 600
FILE = f'''
name: {NAME}
networks:
  provision: {{existing: quintupleo-provision, physical_network: physnet1}}
  service:
    port_security: true
    subnets: [{{cidr: 10.250.77.0/24, gateway: false}}]
  storage:
    subnets: [{{cidr: 10.250.78.0/24, gateway: false}}]
roles:
  compute: &machine
    count: 2
    flavor: baremetal-one-cpu
    disks: [{{size: 1}}]
    server_group: soft-anti-affinity
    nics: &nics
    - {{network: provision, mac: 20:57:f8, fixed_ip: release}}
    - network: service
      trunk: [{{network: storage, segmentation_id: 20}}]
  storage:
    <<: *machine
    count: 1
    boot_mode: uefi
  control:
    kind: server
    count: 2
    flavor: {{vcpus: 1, ram: 256, disk: 1}}
    image: {IMAGE}
    user_data: control.sh
    config_drive: true
    nics: [{{network: service, security_groups: [{GROUP}]}}]
virtual_ips:
  api: {{network: service, roles: [control], address: {VIRTUAL_IP}}}
ports:
  undercloud: {{network: service}}
'''
# The device has the address that Neutron gave the port: it is on the config
# drive.
USER_DATA = f'''#!/bin/sh
# On a busy machine it comes later than the image waits for it.
while [ -z "$device" ]; do
    sleep 1
    device=$(ip -o -4 address show to 10.250.77.0/24 | cut -d ' ' -f 2)
done
cat >/etc/keepalived/keepalived.conf <<EOF
vrrp_instance api {{
    state BACKUP
    interface $device
    virtual_router_id 5
    priority 100
    advert_int 1
    virtual_ipaddress {{
        {VIRTUAL_IP}/24
    }}
}}
EOF
systemctl restart keepalived
'''


# Held while resources of the project are compared, or made by another life.
ALONE = threading.Lock()
VOLUMES = 'volumes'
# Three, for Nova may list them in the order of their UUIDs.
VOLUMES_FILE = '''
roles:
  machine: {flavor: tiny, disks: [{size: 1}, {size: 1}, {size: 1}]}
'''


class Environment:
    """The environment, made by the commands for a tenant.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    """

    def __init__(self, lab):
        self._lab = lab
        self.cloud = lab.host_cloud.connection
        self.before = None
        self.moved = None

    def make(self):
        """Make it, and all that its user has for it.

        :returns: what the command tells of it.
        """
        self._lab.host_cloud.client(
            'image', 'create', IMAGE,
            '--file', str(self._lab.images.keepalived),
            '--disk-format', 'raw', '--container-format', 'bare',
            '--property', 'os_shutdown_timeout=0', '--min-disk', '1')
        group = self.cloud.network.create_security_group(name=GROUP)
        for rule in ({'protocol': VRRP},
                     {'protocol': 'tcp', 'port_range_min': SSH,
                      'port_range_max': SSH}):
            self.cloud.network.create_security_group_rule(
                security_group_id=group.id, direction='ingress', **rule)
        with ALONE:
            self.before = _holdings(self.cloud)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'environment.yaml'
            path.write_text(FILE)
            path.with_name('control.sh').write_text(USER_DATA)
            return self.run('create', path, '--wait', '-f', 'json')

    def run(self, *words):
        """Run "openstack quintupleo environment ..." and read its JSON."""
        done = self._lab.host_cloud.client(
            'quintupleo', 'environment', *words)
        return json.loads(done.stdout) if '-f' in words else done.stdout


def it_is_made_and_enrolled(lab, stage, name):
    environment = lab.environment = Environment(lab)
    _check_machines(environment.cloud, environment.make())
    enrolled = environment.run(
        'enroll', NAME, '--os-baremetal-endpoint', lab.ironic.api_url,
        '-f', 'json')
    assert {row['Outcome'] for row in enrolled} == {'enrolled'}
    assert len(enrolled) == 3
    lab.nodes.connection.baremetal.update_node(name, rescue_interface='agent')
    # The machine does not wait for servers that boot.
    environment.moved = futures.ThreadPoolExecutor(1).submit(
        _move_virtual_ip, lab, stage)


def its_virtual_ip_moved(lab, stage, name):
    lab.environment.moved.result()


def nothing_of_it_is_left(lab, stage, name):
    environment, nodes = lab.environment, lab.nodes.connection.baremetal
    for node in nodes.nodes():
        if node.name.startswith(f'{NAME}-'):
            nodes.set_node_maintenance(node)
            nodes.delete_node(node)
    environment.run('delete', NAME, '--ignore-missing')
    with ALONE:
        assert _holdings(environment.cloud) == environment.before
    assert environment.run('list', '-f', 'json') == []


def _holdings(cloud):
    """What the project has, but for the images of other lives."""
    found = projects.holdings(cloud)
    del found['images']
    return found


def _check_machines(cloud, made):
    assert made['status'] == 'COMPLETE'
    assert {each['name']: each['status'] for each in made['servers']} == {
        f'{NAME}-compute-0': 'SHUTOFF', f'{NAME}-compute-1': 'SHUTOFF',
        f'{NAME}-storage-0': 'SHUTOFF', f'{NAME}-control-0': 'ACTIVE',
        f'{NAME}-control-1': 'ACTIVE'}
    for each in made['servers']:
        server = cloud.compute.get_server(each['id'])
        machine = each['role'] != 'control'
        assert len(server.attached_volumes) == (1 if machine else 0)
        assert len(list(cloud.network.ports(device_id=server.id))) == (
            2 if machine else 1)
    assert len([trunk for trunk in cloud.network.trunks()
                if trunk.name.startswith(NAME)]) == 3


def _move_virtual_ip(lab, stage):
    """See the address answer, take its owner away, and see it move."""
    cloud = lab.host_cloud.connection
    with _on_network(lab) as device:
        stage.waiting('keepalived')
        ports = {port.mac_address: port for port in cloud.network.ports()
                 if port.name.startswith(f'{NAME}-control-')}
        try:
            first = _wait_for_owner(device, ports)
            cloud.compute.stop_server(first.device_id)
            stage.waiting('the other one')
            second = _wait_for_owner(device, {
                mac: port for mac, port in ports.items() if port != first})
        except system.Error:
            for number in (0, 1):
                machine_lives.keep_console(lab, f'{NAME}-control-{number}')
            raise
        stage.note(f'{VIRTUAL_IP} went from {first.name} to {second.name}')


@contextlib.contextmanager
def _on_network(lab):
    """Have this machine on the servers' network."""
    name = f'{NAME}-service'
    device = network.plug_network(lab.cloud, name, OURS)
    try:
        yield device
    finally:
        network.unplug_network(lab.cloud, name)


def _wait_for_owner(device, ports):
    """Wait until one of the ports answers at the virtual IP."""
    def owner():
        subprocess.run(['ip', 'neighbour', 'flush', 'dev', device],
                       check=True)
        try:
            socket.create_connection((VIRTUAL_IP, SSH), timeout=2).close()
        except OSError:
            return None
        known = subprocess.run(
            ['ip', 'neighbour', 'show', VIRTUAL_IP, 'dev', device],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        found = re.search('lladdr ([0-9a-f:]+)', known)
        return found and ports.get(found[1])

    return processes.wait_for(owner, PATIENCE, f'a server at {VIRTUAL_IP}',
                              interval=1)


def _rbd(lab, *words):
    return subprocess.run(
        ['rbd', '--conf', lab.cloud.etc / 'ceph' / 'ceph.conf', *words],
        check=True, stdout=subprocess.PIPE).stdout


def _write(lab, volume, pattern):
    _rbd(lab, 'bench', '--io-type', 'write', '--io-size', '1M', '--io-total',
         '8M', '--io-pattern', pattern,
         f'{settings.VOLUME_POOL}/volume-{volume}')


def _content(lab, volume):
    return hashlib.sha256(_rbd(
        lab, 'export', '--no-progress',
        f'{settings.VOLUME_POOL}/volume-{volume}', '-')).hexdigest()


def _command(lab, *words):
    return lab.host_cloud.client('quintupleo', 'environment', *words).stdout


def _volumes(lab):
    """UUIDs of the machine's volumes, in the order of its devices."""
    server, = (each for each in lab.host_cloud.connection.compute.servers()
               if each.name == f'{VOLUMES}-machine-0')
    assert server.status == 'SHUTOFF'
    found = lab.host_cloud.connection.compute.volume_attachments(server.id)
    return [each.volume_id for each in sorted(
        found, key=lambda each: each.device)]


def volumes_go_back_to_a_snapshot(lab, stage, name):
    with ALONE, tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'volumes.yaml'
        path.write_text(VOLUMES_FILE)
        try:
            _command(lab, 'create', path, '--name', VOLUMES, '--wait')
            volumes = _volumes(lab)
            for volume in volumes:
                _write(lab, volume, 'seq')
            before = [_content(lab, volume) for volume in volumes]
            stage.waiting('snapshots')
            _command(lab, 'snapshot', VOLUMES, 'start')
            for volume in volumes:
                _write(lab, volume, 'rand')
            assert before != [_content(lab, volume) for volume in volumes]
            stage.waiting('their return')
            _command(lab, 'restore', VOLUMES, 'start')
            assert _volumes(lab) == volumes
            assert before == [_content(lab, volume) for volume in volumes]
        finally:
            _command(lab, 'delete', VOLUMES, '--ignore-missing')


LIVES = {f'{NAME}-compute-0': (
    it_is_made_and_enrolled, *test_deployment.UNTIL_UNDEPLOYED,
    test_deployment.undeployed_node_is_available_without_cleaning,
    its_virtual_ip_moved, nothing_of_it_is_left),
    VOLUMES: (volumes_go_back_to_a_snapshot,)}


@pytest.mark.parametrize('name, step', machine_lives.parameters(LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
