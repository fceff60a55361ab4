# SPDX-License-Identifier: Apache-2.0
"""Checks of a real Keystone, Glance, Neutron and Nova, as their tenant."""

import contextlib
import json

import pytest
import yaml

from onebox import lab
from onebox import system
from tests import projects

pytestmark = pytest.mark.newest

FLAVOR = 'tiny'
# What a cloud or a project without machines cannot prove, or is small.
MAY_WARN = {'flavor', 'rescue', 'port security', 'MAC addresses',
            'quota: images'}
RESCUE = 'rescue image bios'


class Project:
    """The tenant of the host cloud, and the command.

    :ivar cloud: its openstacksdk connection.
    """

    def __init__(self, deployment):
        self.deployment = deployment
        self.cloud = deployment.cloud

    def check(self, *words, cloud=lab.CLOUD):
        """Run the command; return (exit code, rows by their names)."""
        done = self.deployment.host_cloud.client(
            'quintupleo', 'check', *words, '-f', 'json', cloud=cloud,
            check=False)
        assert 'Traceback' not in done.stderr, done.stderr
        assert done.returncode in (0, 1) and done.stdout, done.stderr
        return done.returncode, {row['Check']: row
                                 for row in json.loads(done.stdout)}

    def fails(self, name, *words, says='', **kwargs):
        """Check that one row fails, and return all."""
        code, rows = self.check(*words, **kwargs)
        assert code == 1
        assert rows[name]['Result'] == 'fail', rows[name]
        assert says in rows[name]['Found']
        assert rows[name]['What To Do']
        return rows

    @contextlib.contextmanager
    def port(self, network, **attributes):
        """Make a port, and remove it at the end."""
        neutron = self.cloud.network
        port = neutron.create_port(network_id=network.id, **attributes)
        try:
            yield port
        finally:
            neutron.delete_port(port)


@pytest.fixture
def project(deployment):
    """A project that has to hold in the end what it held before."""
    found = Project(deployment)
    before = deployment.holdings()
    yield found
    assert projects.holdings(found.cloud) == before


@pytest.fixture
def network(project):
    """A network of the project with a subnet and port security."""
    neutron = project.cloud.network
    made = neutron.create_network(name='check',
                                  is_port_security_enabled=True)
    neutron.create_subnet(network_id=made.id, ip_version=4,
                          cidr='198.51.100.0/24', is_dhcp_enabled=False)
    yield made
    neutron.delete_network(made)


def _not_passed(rows):
    return {name: row for name, row in rows.items()
            if row['Result'] != 'pass'}


def test_tenant(project):
    code, rows = project.check('--flavor', FLAVOR)
    left = _not_passed(rows)
    assert code == 0 and set(left) <= MAY_WARN, left
    assert 'member' in rows['credentials']['Found']
    assert rows['empty image bios']['Result'] == 'pass'


def test_conductor(project):
    code, rows = project.check('--config-file',
                               project.deployment.ironic.conf)
    assert code == 0 and set(_not_passed(rows)) <= MAY_WARN, rows
    assert {'conductor: hardware type', 'conductor: interfaces',
            'conductor: times'} <= set(rows)


@pytest.mark.full
def test_conductor_with_mistakes(project, tmp_path):
    text = project.deployment.ironic.conf.read_text()
    path = tmp_path / 'ironic.conf'
    path.write_text(
        text.replace('enabled_hardware_types = quintupleo',
                     'enabled_hardware_types = redfish')
        .replace('enabled_power_interfaces = quintupleo',
                 'enabled_power_interfaces = redfish')
        + '\n[quintupleo]\nrescue_image_bios = nothing\n')
    rows = project.fails('conductor: hardware type', '--config-file', path)
    assert rows['conductor: interfaces']['Result'] == 'fail'
    assert rows[RESCUE]['Result'] == 'warn'


@pytest.mark.full
def test_administrator(project):
    _code, rows = project.check(cloud=lab.ADMIN)
    assert rows['credentials']['Result'] == 'warn'


def test_trial(project):
    code, rows = project.check('--try', '--flavor', FLAVOR)
    left = _not_passed(rows)
    assert code == 0, left
    # The memory of that flavor is too small for an agent.
    assert set(left) <= {'flavor', 'quota: images'}, left
    assert rows['rescue']['Found'].startswith('rescued in')


@pytest.mark.full
def test_trial_for_a_conductor(project):
    """Its credentials make the machine."""
    code, rows = project.check('--config-file',
                               project.deployment.ironic.conf, '--try',
                               '--flavor', FLAVOR)
    assert code == 0, rows
    assert rows['trial removal']['Result'] == 'pass'


@pytest.mark.full
def test_trial_with_a_flavor_that_does_not_fit(project):
    admin = project.deployment.admin.compute
    flavor = admin.create_flavor(name='check-huge', vcpus=999999, ram=64,
                                 disk=1)
    try:
        rows = project.fails('trial machine', '--try', '--flavor',
                             'check-huge', says='No valid host was found')
        assert rows['rescue']['Result'] == 'skipped'
        assert rows['trial removal']['Result'] == 'pass'
    finally:
        admin.delete_flavor(flavor)


def test_wrong_password(project):
    path = project.deployment.clouds_yaml
    before = path.read_text()
    content = yaml.safe_load(before)
    wrong = yaml.safe_load(before)['clouds'][lab.CLOUD]
    wrong['auth']['password'] = 'hidden-word'
    content['clouds']['wrong'] = wrong
    system.write_file(path, yaml.safe_dump(content))
    try:
        rows = project.fails('credentials', cloud='wrong')
    finally:
        system.write_file(path, before)
    assert {row['Result'] for name, row in rows.items()
            if name != 'credentials'} == {'skipped'}
    assert 'hidden-word' not in json.dumps(rows)


@pytest.mark.full
def test_image_property_that_is_missing(project):
    image = project.cloud.image.find_image('quintupleo-rescue-bios')
    words = ('image', 'unset', '--property', 'hw_rescue_bus', image.id)
    project.deployment.openstack(*words)
    try:
        rows = project.fails(RESCUE, says='hw_rescue_bus')
        assert image.id in rows[RESCUE]['What To Do']
    finally:
        project.deployment.openstack(
            'image', 'set', '--property', 'hw_rescue_bus=sata', image.id)
    assert project.check()[1][RESCUE]['Result'] == 'pass'


@pytest.mark.full
def test_quota_of_nothing(project):
    admin, tenant = project.deployment.admin, project.cloud
    name = tenant.current_project_id
    quota = admin.compute.get_quota_set(name)
    admin.compute.update_quota_set(name, instances=0, force=True)
    try:
        project.fails('quota: servers', says='of 0 in use')
    finally:
        admin.compute.update_quota_set(name, instances=quota.instances)


def test_network(project, network):
    name = f'network {network.id}'
    _code, rows = project.check('--network', network.id)
    assert rows[f'{name}: DHCP']['Result'] == 'pass'
    assert rows[f'{name}: port security']['Result'] == 'warn'
    neutron = project.cloud.network
    neutron.update_network(network, is_port_security_enabled=False)
    subnet, = neutron.subnets(network_id=network.id)
    neutron.update_subnet(subnet, is_dhcp_enabled=True)
    _code, rows = project.check('--network', network.id)
    assert rows[f'{name}: DHCP']['Result'] == 'warn'
    assert rows[f'{name}: port security']['Result'] == 'pass'


def test_server(project, network):
    """A server that is wrong in all, and what is then put right."""
    compute = project.cloud.compute
    with project.port(network) as port:
        server = compute.create_server(
            name='check', networks=[{'port': port.id}],
            image_id=project.cloud.image.find_image(
                'quintupleo-empty-bios').id,
            flavor_id=compute.find_flavor(FLAVOR).id)
        try:
            project.deployment.host_cloud.wait_for_server(server)
            name = f'server {server.id}'
            rows = project.fails(f'{name}: MAC addresses', '--server',
                                 server.id, says='fa:')
            assert rows[f'{name}: port security']['Result'] == 'fail'
            assert rows[name]['Result'] == 'pass'
            assert rows[f'{name}: network boot']['Result'] == 'pass'
            assert rows[f'{name}: console']['Result'] == 'pass'
            project.cloud.network.update_port(
                port, is_port_security_enabled=False,
                security_group_ids=[])
            _code, rows = project.check('--server', server.id)
            assert rows[f'{name}: port security']['Result'] == 'pass'
        finally:
            compute.delete_server(server)
            compute.wait_for_delete(server)


@pytest.mark.full
def test_environment(project, tmp_path):
    path = tmp_path / 'environment.yaml'
    path.write_text('''
        networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
        roles: {a: {flavor: tiny, count: 2, nics: [{network: one}]}}
        ''')
    client = project.deployment.openstack
    client('quintupleo', 'environment', 'create', str(path), '--name',
           'check', '--wait')
    try:
        code, rows = project.check('--environment', 'check')
        assert code == 0, _not_passed(rows)
        for server in ('server check-a-0', 'server check-a-1'):
            assert rows[f'{server}: MAC addresses']['Result'] == 'pass'
            assert rows[f'{server}: port security']['Result'] == 'pass'
            # They are switched off.
            assert rows[f'{server}: console']['Result'] == 'warn'
    finally:
        client('quintupleo', 'environment', 'delete', 'check')
    project.fails('environment check', '--environment', 'check')
