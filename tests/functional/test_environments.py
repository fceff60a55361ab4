# SPDX-License-Identifier: Apache-2.0
"""Environments in a real Keystone, Glance, Neutron and Nova.

QUINTUPLEO_INTERRUPTIONS tells how many creations are killed, and
QUINTUPLEO_SEED when.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import textwrap
import threading
import time

from openstack import exceptions
import pytest

from onebox import lab
from quintupleo_power.environments import ownership
from tests import projects

pytestmark = pytest.mark.newest

INTERRUPTIONS = int(os.environ.get('QUINTUPLEO_INTERRUPTIONS', 4))
EXTERNAL = 'environments-external'
NAME = 'functional'
FILE = f'''
networks:
  provision:
    physical_network: physnet1
    subnets: [{{cidr: 192.0.2.0/24, gateway: false}}]
  tenant:
    mtu: 1400
    port_security: true
    subnets:
    - {{cidr: 198.51.100.0/24, gateway: 198.51.100.1, dhcp: true}}
    - {{cidr: '2001:db8::/64', dhcp: true, ipv6_mode: dhcpv6-stateful}}
routers:
  edge: {{networks: [tenant], external_network: {EXTERNAL}}}
roles:
  control:
    kind: server
    image: quintupleo-empty-bios
    flavor: tiny
    user_data: boot.sh
    nics:
    - {{network: tenant, floating_ip: {EXTERNAL}, mac: 0a:00:27}}
  compute:
    count: 2
    flavor: {{vcpus: 1, ram: 64, disk: 1}}
    boot_mode: uefi
    server_group: soft-anti-affinity
    resource_class: quick
    capabilities: {{profile: compute}}
    nics:
    - network: provision
      trunk: [{{network: tenant, segmentation_id: 5}}]
    - {{network: tenant, fixed_ip: release}}
virtual_ips:
  api: {{network: tenant, roles: [control], address: 198.51.100.99}}
ports:
  undercloud: {{network: provision, address: 192.0.2.9}}
'''


# The same with an Ironic of its own in the place of the other server.
LAB_FILE = FILE.replace("""\
    kind: server
    image: quintupleo-empty-bios
""", """\
    kind: ironic
""").replace("""\
    user_data: boot.sh
""", "").replace("""mac: 0a:00:27}
""", """mac: 0a:00:27}
    - {network: provision}
""")


class Report(threading.Thread):
    """Reports what the Ironic of a lab would: no guest runs here."""

    VALUES = {'quintupleo_ironic': 'ready', 'quintupleo_ironic_seen': '2'}

    def __init__(self, project):
        super().__init__(daemon=True)
        self._project = project
        self._ends = threading.Event()

    def run(self):
        """Report for each server that comes."""
        compute = self._project.cloud.compute
        while not self._ends.wait(0.5):
            server = self._project.servers().get(f'{NAME}-control-0')
            if server and not server.metadata.keys() >= self.VALUES.keys():
                # It may be deleted meanwhile.
                with contextlib.suppress(exceptions.SDKException):
                    compute.set_server_metadata(server.id, **self.VALUES)

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self._ends.set()
        self.join()


class Project:
    """The tenant of the host cloud, and the commands.

    :ivar cloud: its openstacksdk connection.
    """

    def __init__(self, deployment, folder):
        self.deployment = deployment
        self.cloud = deployment.cloud
        self._folder = pathlib.Path(folder)
        self.path = self.write('environment.yaml', FILE)
        self.write('boot.sh', '#!/bin/sh\n')

    def write(self, name, text):
        """Write a file beside the environment's."""
        path = self._folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def run(self, *words, check=True, cloud=lab.CLOUD):
        """Run a command; what it prints is JSON."""
        done = self.deployment.host_cloud.client(
            'quintupleo', 'environment', *words, cloud=cloud, check=check)
        if not check:
            assert 'Traceback' not in done.stderr, done.stderr
            return done
        return json.loads(done.stdout) if '-f' in words else done.stdout

    def create(self, *words, path=None, **kwargs):
        """Run "environment create"."""
        return self.run('create', path or self.path, '--name', NAME,
                        '--wait', '-f', 'json', *words, **kwargs)

    def things(self, name=NAME):
        """What of the project carries the environment's mark, by kind."""
        neutron = self.cloud.network
        project = self.cloud.current_project_id
        return {what: [
            each for each in getattr(neutron, what)(project_id=project)
            if (ownership.parse(each.description)
                or (None,))[0] == name]
            for what in ('networks', 'ports', 'trunks', 'routers', 'ips')}

    def servers(self):
        """The servers by name."""
        return {server.name: server
                for server in self.cloud.compute.servers()
                if (ownership.parse(server.metadata)
                    or (None,))[0] == NAME}


@pytest.fixture
def project(deployment, tmp_path):
    """A project that has to hold in the end what it held before."""
    admin = deployment.admin.network
    external = admin.find_network(EXTERNAL)
    if external is None:
        external = admin.create_network(
            name=EXTERNAL, is_router_external=True,
            is_port_security_enabled=False)
        admin.create_subnet(network_id=external.id, ip_version=4,
                            cidr='203.0.113.0/24', is_dhcp_enabled=False)
    found = Project(deployment, tmp_path)
    before = deployment.holdings()
    yield found
    found.run('delete', NAME, '--ignore-missing')
    assert projects.holdings(found.cloud) == before
    admin.delete_network(external.id)


def test_life(project):
    plan = project.create('--dry-run')
    assert f'{NAME}-compute-1' in next(
        row['names'] for row in plan['to_make'] if row['what'] == 'servers')
    assert {row['what']: row['needed'] for row in plan['quota']}[
        'servers'] == 3
    assert not project.servers()

    made = project.create()
    assert made['status'] == 'COMPLETE'
    assert {each['name']: each['status'] for each in made['servers']} == {
        f'{NAME}-control-0': 'ACTIVE', f'{NAME}-compute-0': 'SHUTOFF',
        f'{NAME}-compute-1': 'SHUTOFF'}
    _check_networking(project)

    again = project.create()
    assert [each['id'] for each in again['servers']] == [
        each['id'] for each in made['servers']]
    assert project.run('list', '-f', 'json')[0]['Status'] == 'COMPLETE'

    more = project.run('scale', NAME, 'compute', '3', '--wait', '-f', 'json')
    assert len(more['servers']) == 4
    project.run('scale', NAME, 'compute', '1', '--wait', '-f', 'json')
    assert set(project.servers()) == {f'{NAME}-control-0',
                                      f'{NAME}-compute-0'}
    assert len(project.things()['trunks']) == 1
    # What Nova's fake driver has for any server.
    assert f'{NAME}-control-0 | FAKE CONSOLE OUTPUT' in project.run(
        'logs', NAME)


def _check_networking(project):
    """Compare what Neutron has with the file."""
    ports = {port.name: port for port in project.things()['ports']}
    networks = {each.name: each for each in project.things()['networks']}
    assert networks[f'{NAME}-tenant'].mtu == 1400
    assert networks[f'{NAME}-tenant'].is_port_security_enabled
    assert not networks[f'{NAME}-provision'].is_port_security_enabled
    control, pxe, quiet, vlan = (ports[f'{NAME}-{name}'] for name in (
        'control-0-0', 'compute-0-0', 'compute-0-1', 'compute-0-0-5'))
    assert control.mac_address.startswith('0a:00:27')
    assert {pair['ip_address'] for pair in control.allowed_address_pairs} == {
        address['ip_address'] for address in ports[f'{NAME}-api'].fixed_ips}
    assert not pxe.is_port_security_enabled
    assert pxe.mac_address.startswith('52:54:00')
    assert vlan.mac_address == pxe.mac_address
    assert not quiet.fixed_ips
    trunk = next(each for each in project.things()['trunks']
                 if each.port_id == pxe.id)
    assert [(each['port_id'], each['segmentation_id'])
            for each in trunk.sub_ports] == [(vlan.id, 5)]
    assert [address['ip_address'] for address
            in ports[f'{NAME}-undercloud'].fixed_ips] == ['192.0.2.9']
    floating, = project.things()['ips']
    assert floating.port_id == control.id
    router, = project.things()['routers']
    assert project.cloud.network.find_port(
        control.id) and router.external_gateway_info


@pytest.mark.full
def test_enrolment(project):
    project.create()
    nodes = project.deployment.api
    words = ('enroll', NAME, '--os-baremetal-endpoint',
             project.deployment.ironic.api_url, '--host-cloud', lab.CLOUD,
             '-f', 'json')
    try:
        first = project.run(*words)
        assert {row['Outcome'] for row in first} == {'enrolled'}
        assert [row['Name'] for row in first] == [f'{NAME}-compute-0',
                                                  f'{NAME}-compute-1']
        assert {row['Outcome'] for row in project.run(*words)} == {
            'already enrolled'}
        node = nodes.get_node(first[0]['UUID'])
        assert node.driver_info == {
            'quintupleo_server': project.servers()[node.name].id,
            'quintupleo_cloud': lab.CLOUD}
        assert (node.driver, node.resource_class) == ('quintupleo', 'quick')
        assert node.properties['capabilities'] == (
            'boot_mode:uefi,profile:compute')
        ports = {port.address: port for port in nodes.ports(
            node=node.id, details=True)}
        macs = {port.mac_address for port in project.things()['ports']
                if port.name in (f'{NAME}-compute-0-0',
                                 f'{NAME}-compute-0-1')}
        assert set(ports) == macs
        assert sorted((port.is_pxe_enabled, port.physical_network)
                      for port in ports.values()) == [
            (False, None), (True, 'physnet1')]
        # The driver finds all that it needs in it.
        project.deployment.manage(node)
        assert nodes.get_node(node.id).power_state == 'power off'
    finally:
        for node in nodes.nodes():
            if node.name.startswith(NAME):
                nodes.delete_node(node.id)


@pytest.mark.full
def test_server_enroll(project):
    """Servers of the project are described by what the cloud tells."""
    project.create(path=project.write('one.yaml', '''
        networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
        roles: {a: {flavor: tiny, nics: [{network: one}]}}
        '''))
    port, = project.things()['ports']
    server, = project.servers().values()
    words = ('quintupleo', 'server', 'enroll', '-o', '-', '-f', 'value')
    done = project.deployment.openstack(
        *words, server.name, '--host-cloud', lab.CLOUD, '--physical-network',
        f'{NAME}-one=physnet1')
    node, = json.loads(done.stdout)['nodes']
    assert node['driver_info'] == {'quintupleo_server': server.id,
                                   'quintupleo_cloud': lab.CLOUD}
    assert node['ports'] == [{'address': port.mac_address,
                              'physical_network': 'physnet1'}]
    failed = project.deployment.openstack(*words, server.id, 'absent',
                                          check=False)
    assert failed.returncode == 1
    assert "No server is named 'absent'" in failed.stderr
    assert 'nodes' not in failed.stdout


@pytest.mark.full
def test_two_projects(project):
    """One name in two projects is two environments."""
    path = project.write('small.yaml', '''
        networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
        roles: {}
        ports: {mine: {network: one}}
        ''')
    admin = project.deployment.admin
    before = projects.holdings(admin)
    project.create(path=path)
    project.create(path=path, cloud=lab.ADMIN)
    project.run('delete', NAME, cloud=lab.ADMIN)
    assert projects.holdings(admin) == before
    assert project.run('show', NAME, '-f', 'json')['status'] == 'COMPLETE'


def test_quota(project):
    admin, tenant = project.deployment.admin, project.cloud
    before = projects.holdings(tenant)
    used = len(list(tenant.network.ports(
        project_id=tenant.current_project_id)))
    quota = admin.network.get_quota(tenant.current_project_id)
    admin.network.update_quota(tenant.current_project_id, ports=used + 3)
    try:
        for words in ((), ('--dry-run',)):
            failed = project.create(*words, check=False)
            assert failed.returncode == 1
            assert (f'the quota of ports does not suffice: 11 more are '
                    f'needed, and {used} of {used + 3} are in use'
                    in failed.stderr)
            assert projects.holdings(tenant) == before
    finally:
        admin.network.update_quota(tenant.current_project_id,
                                   ports=quota.ports)


def test_server_that_cannot_be_built(project):
    admin = project.deployment.admin.compute
    flavor = admin.create_flavor(name='environments-huge', vcpus=999999,
                                 ram=64, disk=1)
    try:
        failed = project.create(path=project.write('huge.yaml', '''
            roles: {a: {flavor: environments-huge}}
            '''), check=False)
        assert failed.returncode == 1
        assert (f'Nova did not build server {NAME}-a-0' in failed.stderr
                and 'No valid host was found' in failed.stderr)
        assert project.run('list', '-f', 'json')[0]['Status'] == 'INCOMPLETE'
    finally:
        admin.delete_flavor(flavor)


def test_network_without_subnets(project):
    """This Neutron does not tell Nova that a port is to have no address."""
    before = projects.holdings(project.cloud)
    failed = project.create(path=project.write('bare.yaml', '''
        networks: {one: {}}
        roles: {a: {flavor: tiny, nics: [{network: one}]}}
        '''), check=False)
    assert 'network "one" has no subnets' in failed.stderr
    assert projects.holdings(project.cloud) == before


@pytest.mark.full
def test_somebody_elses_port_stays(project):
    project.create(path=project.write('small.yaml', '''
        networks: {one: {}}
        roles: {}
        '''))
    network, = project.things()['networks']
    mine = project.cloud.network.create_port(network_id=network.id,
                                             name='mine')
    try:
        failed = project.run('delete', NAME, '--timeout', '3', check=False)
        assert failed.returncode == 1
        assert (f'Not removed: network {NAME}-one ({network.id})'
                in failed.stderr)
        assert project.cloud.network.get_port(mine.id)
    finally:
        project.cloud.network.delete_port(mine)


def test_sweep(project):
    project.create(path=project.write('small.yaml', 'roles: {}\n'))
    project.run('delete', '--older-than', '1h', '--yes')
    assert project.run('show', NAME, '-f', 'json')['name'] == NAME
    assert 'deleted' in project.run('delete', '--older-than', '0s',
                                    '--prefix', NAME, '--yes')
    assert 'does not exist in this project' in project.run(
        'show', NAME, check=False).stderr


@pytest.mark.full
def test_interruptions(project):
    """A creation that is killed at any moment is gone on with, or removed."""
    _interrupt(project)


@pytest.mark.full
def test_interruptions_of_a_lab(project):
    """Nothing is double, nor left, of its Ironic and its credentials."""
    project.write(project.path.name, LAB_FILE)
    image = project.path.with_name('conductor.qcow2')
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', image, '1M'],
                   check=True)
    client = project.deployment.host_cloud.client
    client('quintupleo', 'image', 'create', '--conductor-image', image)
    try:
        with Report(project):
            _interrupt(project)
    finally:
        client('image', 'delete', 'quintupleo-conductor')


def _interrupt(project):
    seed = int(os.environ.get('QUINTUPLEO_SEED', random.randrange(10 ** 6)))
    chosen = random.Random(seed)
    before = projects.holdings(project.cloud)
    began = time.monotonic()
    project.create()
    whole = time.monotonic() - began
    project.run('delete', NAME, '--ignore-missing')
    told = []
    for number in range(INTERRUPTIONS):
        delay = chosen.uniform(0.2, whole)
        _create_and_kill(project, delay)
        left = sum(len(things) for things in project.things().values())
        then = chosen.choice(['create', 'delete'])
        told.append(f'killed after {delay:.1f} s with {left} things in '
                    f'Neutron, then {then}')
        print(f'QUINTUPLEO_SEED={seed}, {number}: {told[-1]}')
        if then == 'create':
            assert project.create()['status'] == 'COMPLETE', told
            assert len(project.servers()) == 3, told
            _check_networking(project)
            _check_access(project)
        project.run('delete', NAME, '--ignore-missing')
        assert projects.holdings(project.cloud) == before, told


def _check_access(project):
    """One credential and one access belong to an Ironic that there is."""
    server = project.servers()[f'{NAME}-control-0']
    image = server.metadata.get('quintupleo_access')
    assert [each.id for each in project.cloud.image.images(
        tag='quintupleo_access')] == list(filter(None, [image]))
    assert [each.name[-8:] for each
            in project.cloud.identity.application_credentials(
                project.cloud.current_user_id)] == [
        each[:8] for each in filter(None, [image])]


def _create_and_kill(project, delay):
    """Run "environment create", and end it with SIGKILL."""
    service = project.deployment.ironic
    with subprocess.Popen(
            [service.venv / 'bin' / 'openstack', '--os-cloud', lab.CLOUD,
             'quintupleo', 'environment', 'create', project.path, '--name',
             NAME, '--wait'], env=service.environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True) as client:
        try:
            client.wait(delay)
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)


@pytest.mark.full
def test_what_a_server_has_lost_it_gets_again(project):
    path = project.write('two.yaml', '''
        networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
        roles: {a: {flavor: tiny, nics: [{network: one},
                                         {network: one, fixed_ip: release}]}}
        ''')
    project.create(path=path)
    server, = project.servers().values()
    project.cloud.network.delete_port(next(
        port for port in project.things()['ports']
        if port.name == f'{NAME}-a-0-1'))
    assert project.run('show', NAME, '-f', 'json')['status'] == 'INCOMPLETE'
    assert project.create(path=path)['status'] == 'COMPLETE'
    ports = {port.name: port for port in project.cloud.network.ports(
        device_id=server.id)}
    assert set(ports) == {f'{NAME}-a-0-0', f'{NAME}-a-0-1'}
    assert not ports[f'{NAME}-a-0-1'].fixed_ips


@pytest.mark.full
def test_hypervisor_type(project):
    """Nova's scheduler takes the images' word for it."""
    path = project.write('kind.yaml', 'roles: {a: {flavor: tiny, '
                         'hypervisor_type: fake}}\n')
    missing = project.create(path=path, check=False)
    assert ('image create --iso <file> --hypervisor-type fake'
            in missing.stderr)
    images = project.cloud.image
    try:
        for kind in ('fake', 'lxc', 'lxc'):
            project.deployment.openstack(
                'quintupleo', 'image', 'create', '--boot-mode', 'bios',
                '--iso', str(project.deployment.iso), '--hypervisor-type',
                kind)
        assert project.create(path=path)['status'] == 'COMPLETE'
        project.run('delete', NAME, '--ignore-missing')
        refused = project.create(path=project.write(
            'kind.yaml', 'roles: {a: {flavor: tiny, hypervisor_type: lxc}}'),
            check=False)
        assert 'No valid host was found' in refused.stderr
    finally:
        project.run('delete', NAME, '--ignore-missing')
        for kind in ('fake', 'lxc'):
            image = images.find_image(f'quintupleo-empty-bios-{kind}')
            if image:
                images.delete_image(image)
