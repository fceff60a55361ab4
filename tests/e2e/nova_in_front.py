# SPDX-License-Identifier: Apache-2.0
"""A Nova in front of quickstart's Ironic, beside the one of the host cloud.

Of Keystone, Placement, Glance, Neutron, RabbitMQ and MariaDB it uses the host
cloud's. Its databases, its virtual host in RabbitMQ and its ports are its own.
"""

from concurrent import futures
import contextlib
import json
import urllib.parse

import openstack
import yaml

from onebox import lab as labs
from onebox.minicloud import config
from onebox.minicloud import database
from onebox.minicloud import nova
from onebox.minicloud import services
from onebox.minicloud import settings
from onebox import processes
from onebox import progress
from onebox import system

# Also the shard of the nodes that it has; other tests have the others.
NAME = 'nova-in-front'
RELEASE = nova.NEWEST
DATABASES = API, CELL, CELL0 = (
    'nova_in_front_api', 'nova_in_front', 'nova_in_front_cell0')
SERVICES = ('nova-conductor', 'nova-scheduler', 'nova-compute',
            'nova-novncproxy', 'nova-serialproxy')
# As in the host cloud's Nova.
SHARED = ('keystone_authtoken', 'service_user', 'placement', 'neutron',
          'glance', 'conductor', 'scheduler', 'quota')
# Seconds; the guests may be emulated.
PATIENCE = 240


class NovaInFront:
    """The Nova whose compute service has the ironic driver.

    :ivar tenant: connection of the host cloud's tenant, to this Nova.
    :ivar admin: the administrator's.
    :ivar proxy_url: the page of its noVNC proxy.
    """

    def __init__(self, lab, folder):
        """Choose its ports, and write its configuration.

        :param lab: the :class:`quickstart.Quickstart`, with everything up.
        :param folder: for its files.
        """
        self._lab = lab
        self._cloud = lab.cloud
        self._folder = folder
        self._venv = nova.venv_path(RELEASE, self._cloud.cache,
                                    self._cloud.venv)
        self._port, self._proxy_port, self._serial_port = (
            processes.free_port() for _ in range(3))
        self.proxy_url = (
            f'http://{settings.ADDRESS}:{self._proxy_port}/vnc_lite.html')
        self._daemons = {
            name: processes.Daemon(f'{NAME}-{name}', folder, lab.ironic.logs)
            for name in ('nova-api', *SERVICES)}
        self.tenant = self.admin = None

    def _sections(self):
        return {
            'DEFAULT': {
                'use_stderr': True,
                'host': NAME,
                'my_ip': settings.ADDRESS,
                'state_path': self._folder,
                'transport_url': config.transport(self._cloud) + NAME,
                'compute_driver': 'ironic.IronicDriver',
                # A machine that others load heavily is late, not down.
                'service_down_time': 600,
                'rpc_response_timeout': 180,
            },
            'api_database': config.storage(self._cloud, API),
            'database': config.storage(self._cloud, CELL),
            **{name: section for name, section in config.nova(
                self._cloud).items() if name in SHARED},
            'oslo_concurrency': {'lock_path': self._folder / 'locks'},
            'ironic': {'auth_type': 'none',
                       'endpoint_override': self._lab.ironic.api_url,
                       'shard': NAME,
                       'status_code_retries': 5,
                       'serial_console_state_timeout': 60},
            'vnc': {'enabled': True,
                    'novncproxy_host': settings.ADDRESS,
                    'novncproxy_port': self._proxy_port,
                    'novncproxy_base_url': self.proxy_url},
            'serial_console': {
                'enabled': True,
                'serialproxy_host': settings.ADDRESS,
                'serialproxy_port': self._serial_port,
                'base_url': f'ws://{settings.ADDRESS}:{self._serial_port}/'},
        }

    def _uwsgi(self):
        sections = config.uwsgi(self._cloud, 'nova', nova.application(RELEASE),
                                venv=self._venv)
        sections['uwsgi']['http-socket'] = f'{settings.ADDRESS}:{self._port}'
        return sections

    def _write_files(self):
        system.make_dir(self._folder / 'locks')
        for name, text in (
                ('nova.conf', config.render(self._sections())),
                ('uwsgi.ini', config.render(self._uwsgi())),
                ('api-paste.ini', (self._venv / 'etc' / 'nova'
                                   / 'api-paste.ini').read_text()),
                ('clouds.yaml', yaml.safe_dump({'clouds': {
                    name: {**entry, 'compute_endpoint_override':
                           f'http://{settings.ADDRESS}:{self._port}/v2.1'}
                    for name, entry in yaml.safe_load(
                        self._cloud.clouds_yaml.read_text())['clouds'].items()
                    if name in (labs.CLOUD, labs.ADMIN)}}))):
            system.write_file(self._folder / name, text)

    def _connection(self, entry):
        return openstack.connection.Connection(
            config=openstack.config.OpenStackConfig(
                config_files=[str(self._folder / 'clouds.yaml')],
                load_envvars=False).get_one(entry))

    def _environment(self):
        return {**self._cloud.environment(),
                'OS_NOVA_CONFIG_DIR': str(self._folder)}

    def _manage(self, *words):
        system.run(
            [self._venv / 'bin' / 'nova-manage', '--config-file',
             self._folder / 'nova.conf', *words],
            log=self._lab.ironic.logs / f'{NAME}-nova-manage.log',
            env=self._environment())

    def _rabbitmqctl(self, *words):
        """Run RabbitMQ's own command as its server runs."""
        service = services.by_name('rabbitmq')
        values = self._cloud.words()
        system.run(
            ['/usr/lib/rabbitmq/bin/rabbitmqctl', *words],
            user=service.user, group=service.user, extra_groups=[], cwd='/',
            env={**self._cloud.environment(),
                 **{name: value.format(**values)
                    for name, value in service.environment.items()}})

    def _prepare(self):
        """Make the virtual host and the databases with their tables."""
        self._rabbitmqctl('add_vhost', NAME)
        self._rabbitmqctl('set_permissions', '--vhost', NAME,
                          settings.RABBIT_USER, '.*', '.*', '.*')
        database.sql(self._cloud, '\n'.join(
            f'CREATE DATABASE {name}; '
            f'GRANT ALL ON {name}.* TO minicloud@localhost;'
            for name in DATABASES))
        self._manage('api_db', 'sync')
        self._manage('cell_v2', 'map_cell0', '--database_connection',
                     config.database(self._cloud, CELL0))
        self._manage('db', 'sync')
        self._manage('cell_v2', 'create_cell', '--name', 'cell1')

    def start(self, stage):
        """Install, start and connect it.

        :param stage: the stage of the progress.
        """
        with stage.step(f'Nova {RELEASE}'):
            nova.install(RELEASE, self._venv,
                         self._lab.ironic.logs / 'python-nova.log')
        self._write_files()
        with stage.step('databases'):
            self._prepare()
        binaries = self._venv / 'bin'
        self._daemons['nova-api'].start(
            [binaries / 'uwsgi', '--ini', self._folder / 'uwsgi.ini'],
            self._environment())
        for name in SERVICES:
            self._daemons[name].start(
                [binaries / name, '--config-file',
                 self._folder / 'nova.conf'], self._environment())
        self.tenant = self._connection(labs.CLOUD)
        self.admin = self._connection(labs.ADMIN)
        with stage.step('services'):
            for port in (self._port, self._proxy_port, self._serial_port):
                self._wait_for(lambda port=port: processes.listening(port),
                               f'port {port} of the Nova in front')
            self._wait_for(self._services_are_up, 'its services')
        self._manage('cell_v2', 'discover_hosts', '--by-service')

    def _wait_for(self, check, what):
        def stop():
            for daemon in self._daemons.values():
                daemon.require_alive()

        return processes.wait_for(check, PATIENCE, what, stop=stop)

    def _services_are_up(self):
        up = {service.binary for service in self.admin.compute.services()
              if service.state == 'up'}
        return up >= {'nova-conductor', 'nova-scheduler', 'nova-compute'}

    def stop(self):
        """End it, and remove what it had of the host cloud's services."""
        for daemon in reversed(self._daemons.values()):
            daemon.stop()
        database.sql(self._cloud, '\n'.join(
            f'DROP DATABASE IF EXISTS {name};' for name in DATABASES))
        self._rabbitmqctl('delete_vhost', NAME)

    def create_server(self, name, image_id, resource_class):
        """Ask for a server on the only node of a resource class.

        :param name: name of the server, and of its flavor.
        :param image_id: UUID of its image in the host cloud's Glance.
        :param resource_class: as Placement has it.
        :returns: the server, as openstacksdk has it.
        """
        self._wait_for(
            lambda: self.admin.placement.get(
                f'/allocation_candidates?resources={resource_class}:1',
                microversion='1.29').json()['allocation_requests'],
            f'{resource_class} in Placement')
        flavor = self.admin.compute.create_flavor(
            name=name, vcpus=1, ram=1024, disk=6)
        self.admin.compute.create_flavor_extra_specs(flavor, {
            'resources:VCPU': '0', 'resources:MEMORY_MB': '0',
            'resources:DISK_GB': '0', f'resources:{resource_class}': '1'})
        return self.tenant.compute.create_server(
            name=name, image_id=image_id, flavor_id=flavor.id,
            networks='none')

    def wait_for_server(self, server):
        """Wait until a server is active."""
        def active():
            found = self.tenant.compute.get_server(server.id)
            if found.status == 'ERROR':
                raise system.Error(
                    f'{server.name}: {found.fault}',
                    self._daemons['nova-compute'].log)
            return found.status == 'ACTIVE'

        self._wait_for(active, f'{server.name} to be active')

    def delete_server(self, server):
        """Delete a server and wait until it is gone."""
        self.tenant.compute.delete_server(server)
        self.tenant.compute.wait_for_delete(server, interval=1, wait=PATIENCE)

    def console_url(self, server, kind='--novnc'):
        """Return the URL of a console, as a user of this Nova gets it."""
        return json.loads(system.run(
            [self._lab.ironic.venv / 'bin' / 'openstack', '--os-cloud',
             labs.CLOUD, 'console', 'url', 'show', kind, server.id,
             '--format', 'json'], env={
                **self._lab.ironic.environment(), 'OS_CLIENT_CONFIG_FILE':
                str(self._folder / 'clouds.yaml')}).stdout)['url']

    def token(self, url):
        """Return what this Nova knows of the token of a URL.

        :returns: UUID of the server, host and port of its VNC server, as
            texts; None if it does not know it.
        """
        path = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)['path']
        token = urllib.parse.parse_qs(
            urllib.parse.urlsplit(path[0]).query)['token'][0]
        rows = database.sql(
            self._cloud, 'SELECT instance_uuid, host, port FROM '
            f"{CELL}.console_auth_tokens WHERE token_hash = SHA2('{token}', "
            '256);').splitlines()
        return rows[1].split('\t') if rows else None


@contextlib.contextmanager
def running(lab, folder, nodes):
    """Run a Nova in front of some nodes, as a context.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    :param folder: for its files.
    :param nodes: names of nodes of its shard, which are made available.
    :returns: the :class:`NovaInFront`.
    """
    found = NovaInFront(lab, folder)
    with (progress.Progress(NAME).stage('Nova in front of Ironic') as stage,
          contextlib.ExitStack() as stack):
        stack.callback(found.stop)
        with futures.ThreadPoolExecutor() as pool:
            for made in [pool.submit(_make_available, lab, stage, name)
                         for name in nodes]:
                made.result()
        found.start(stage)
        stopping = stack.pop_all()
    with stopping:
        yield found


def _make_available(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    lab.nodes.provision(name, 'provide', 'available', stage, 300)
