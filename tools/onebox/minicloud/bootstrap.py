# SPDX-License-Identifier: Apache-2.0
"""Users, endpoints, flavors and the tenant: check, then create."""

from onebox.minicloud import api
from onebox.minicloud import settings
from onebox import system

ENDPOINTS = (
    # name, type, path
    ('glance', 'image', ''),
    ('placement', 'placement', ''),
    ('neutron', 'network', ''),
    ('nova', 'compute', '/v2.1'),
)
VOLUME_ENDPOINT = ('cinder', 'volumev3', '/v3')
FLAVORS = (
    # An agent ramdisk wants 3 GiB, most of all where it is emulated.
    {'name': 'baremetal-small', 'vcpus': 2, 'ram': 3072, 'disk': 6},
    # Where many live at once: emulated CPUs that wait for each other spin.
    {'name': 'baremetal-one-cpu', 'vcpus': 1, 'ram': 3072, 'disk': 6},
    {'name': 'tiny', 'vcpus': 1, 'ram': 256, 'disk': 1},
)


def keystone(cloud):
    """Make the first administrator, before there is anyone to ask."""
    system.run(
        [cloud.venv / 'bin/keystone-manage',
         '--config-file=%s' % (cloud.etc / 'keystone/keystone.conf'),
         'bootstrap',
         '--bootstrap-region-id', settings.REGION,
         '--bootstrap-public-url', cloud.public_url('keystone', '/v3'),
         '--bootstrap-internal-url', cloud.url('keystone', '/v3')],
        log=cloud.logs / 'keystone-bootstrap.log',
        # By the environment: a command line can be read by anyone.
        env={**cloud.environment(),
             'OS_BOOTSTRAP_PASSWORD': cloud.password('admin')})


def _ensure(client, kind, kinds, body):
    """Return what is there under this name, or make it."""
    for found in client.get('keystone', '/v3/%s?name=%s' % (
            kinds, body['name']))[kinds]:
        return found
    return client.post('keystone', '/v3/' + kinds, {kind: body})[kind]


def _grant(client, project, user, role):
    client.put('keystone', '/v3/projects/%s/users/%s/roles/%s' % (
        project['id'], user['id'], role['id']))


def accounts(cloud):
    """Make service users, endpoints and the tenant."""
    client = api.admin(cloud)
    roles = {role['name']: role
             for role in client.get('keystone', '/v3/roles')['roles']}
    project = _ensure(client, 'project', 'projects',
                      {'name': 'service', 'domain_id': 'default'})
    for name in settings.SERVICE_USERS:
        _service_user(client, cloud, name, project, roles)
    for name, kind, path in ENDPOINTS:
        _endpoint(client, cloud, name, kind, path)
    project = _ensure(client, 'project', 'projects', {
        'name': settings.TENANT_PROJECT, 'domain_id': 'default'})
    user = _ensure(client, 'user', 'users', {
        'name': settings.TENANT_USER, 'domain_id': 'default',
        'password': cloud.password('tenant')})
    _grant(client, project, user, roles['member'])


def volume_accounts(cloud):
    """Make the service user and the endpoint of the volume service."""
    client = api.admin(cloud)
    roles = {role['name']: role
             for role in client.get('keystone', '/v3/roles')['roles']}
    project = _ensure(client, 'project', 'projects',
                      {'name': 'service', 'domain_id': 'default'})
    _service_user(client, cloud, settings.VOLUME_USER, project, roles)
    _endpoint(client, cloud, *VOLUME_ENDPOINT)


def _service_user(client, cloud, name, project, roles):
    user = _ensure(client, 'user', 'users', {
        'name': name, 'domain_id': 'default',
        'password': cloud.password(name)})
    for role in ('admin', 'service'):
        _grant(client, project, user, roles[role])


def _endpoint(client, cloud, name, kind, path):
    service = _ensure(client, 'service', 'services',
                      {'name': name, 'type': kind})
    present = {each['interface'] for each in client.get(
        'keystone', '/v3/endpoints?service_id=' + service['id'])['endpoints']}
    for interface, url in (('public', cloud.public_url),
                           ('internal', cloud.url)):
        if interface not in present:
            client.post('keystone', '/v3/endpoints', {'endpoint': {
                'service_id': service['id'], 'interface': interface,
                'region_id': settings.REGION, 'url': url(name, path)}})


def flavors(cloud):
    """Make the flavors."""
    client = api.admin(cloud)
    present = {each['name'] for each in client.get(
        'nova', '/v2.1/flavors')['flavors']}
    for flavor in FLAVORS:
        if flavor['name'] not in present:
            client.post('nova', '/v2.1/flavors', {'flavor': flavor})


def hosts(cloud):
    """Tell Nova's scheduler of the compute host."""
    system.run([cloud.nova_venv / 'bin/nova-manage',
                '--config-file=%s' % (cloud.etc / 'nova/nova.conf'),
                'cell_v2', 'discover_hosts', '--by-service'],
               log=cloud.logs / 'nova-discover.log', env=cloud.environment())


def clouds_yaml(cloud):
    """Write the clients' configuration: the tenant and the admin."""
    lines = ['# The tenant is an ordinary member; the driver is to use it.',
             'clouds:']
    for entry, user, password, project in (
            ('minicloud', settings.TENANT_USER, 'tenant',
             settings.TENANT_PROJECT),
            ('minicloud-admin', 'admin', 'admin', 'admin')):
        lines += [
            '  %s:' % entry,
            '    auth:',
            '      auth_url: %s' % cloud.public_url('keystone', '/v3'),
            '      username: %s' % user,
            '      password: %s' % cloud.password(password),
            '      project_name: %s' % project,
            '      user_domain_name: Default',
            '      project_domain_name: Default',
            '    region_name: %s' % settings.REGION,
            '    identity_api_version: 3']
    system.write_file(cloud.clouds_yaml, '\n'.join(lines) + '\n')
