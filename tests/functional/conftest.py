# SPDX-License-Identifier: Apache-2.0
"""A real Ironic and a real Nova API with a fake hypervisor.

A cloud is made for the tests and removed after them. A developer who runs
them often lets them use one that is up: QUINTUPLEO_TEST_CLOUD names the state
folder of a ``minicloud up --hypervisor fake``. QUINTUPLEO_IRONIC_VENV names a
Python environment whose Ironic is to be tested, instead of the newest.
"""

import contextlib
import copy
import os
import pathlib
import shutil
import signal
import sys
import uuid

from openstack import exceptions
import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox import ironic  # noqa: E402
from onebox import lab  # noqa: E402
from onebox.minicloud import cloud as minicloud  # noqa: E402
from onebox.minicloud import settings  # noqa: E402
from onebox import processes  # noqa: E402
from onebox import progress  # noqa: E402
from onebox import system  # noqa: E402
from tests import projects  # noqa: E402


class Deployment:
    """What the tests talk to.

    :ivar minicloud: the :class:`settings.Settings` of the host cloud.
    :ivar clouds_yaml: path of the file that names it and its users.
    :ivar cloud: the tenant's openstacksdk connection.
    :ivar admin: the administrator's.
    :ivar nodes: the :class:`lab.Nodes` of Ironic.
    :ivar ironic: the :class:`ironic.Ironic`.
    """

    def __init__(self, service, cloud):
        self.minicloud = cloud
        self.clouds_yaml = service.state / 'clouds.yaml'
        self.ironic = service
        self.host_cloud = lab.HostCloud(service)
        self.cloud = self.host_cloud.connection
        self.admin = self.host_cloud.connect(lab.ADMIN)
        self.nodes = lab.Nodes(service, images=None)
        self.api = self.nodes.connection.baremetal

    def openstack(self, *words, check=True):
        """Run the openstack client as the tenant."""
        return self.host_cloud.client(*words, check=check)

    def holdings(self):
        """What its project holds, when nothing is on its way out any more.

        Tests do not wait for the end of the servers that they delete.
        """
        def rests():
            return not any(server.task_state == 'deleting'
                           for server in self.cloud.compute.servers())

        self.wait_for(rests, 'the servers of other tests to be gone')
        return projects.holdings(self.cloud)

    def add_cloud(self, name, auth_url):
        """Add an entry to the conductor's clouds.yaml, like the tenant's."""
        path = self.ironic.state / 'clouds.yaml'
        content = yaml.safe_load(path.read_text())
        entry = copy.deepcopy(content['clouds'][lab.CLOUD])
        entry['auth']['auth_url'] = auth_url
        content['clouds'][name] = entry
        system.write_file(path, yaml.safe_dump(content))

    @contextlib.contextmanager
    def section_credentials(self):
        """Let [quintupleo] itself name the cloud, not clouds.yaml."""
        self._restart(self.host_cloud.password_options())
        try:
            yield
        finally:
            self._restart({'cloud': lab.CLOUD})

    @contextlib.contextmanager
    def options(self, *lines, credentials=None):
        """Give Ironic more lines of configuration.

        :param lines: sections and options.
        :param credentials: of [quintupleo], instead of the usual ones.
        """
        self._restart(credentials or {'cloud': lab.CLOUD}, *lines)
        try:
            yield
        finally:
            self._restart({'cloud': lab.CLOUD})

    def reconfigure(self):
        """Give Ironic its usual configuration again."""
        self._restart({'cloud': lab.CLOUD})

    def _restart(self, credentials, *lines):
        self.ironic.stop()
        self.ironic.configure('lo', credentials)
        with open(self.ironic.conf, 'a') as conf:
            # Sections may be there before; what comes last counts.
            conf.write('\n'.join(['', *lines, '']))
        with progress.Progress('test').stage('Ironic') as stage:
            self.ironic.start(stage, api_only=True)

    def server(self, boot_mode='bios', name=None, disks='image'):
        """Make a server that is ACTIVE.

        :param disks: what it has, a key of lab.DISKS.
        """
        compute = self.cloud.compute
        purpose, make = lab.DISKS[disks]
        server = compute.create_server(
            name=name or f'test-{uuid.uuid4()}',
            **make(self.cloud.image.find_image(
                f'quintupleo-{purpose}-{boot_mode}',
                ignore_missing=False).id),
            flavor_id=compute.find_flavor('tiny', ignore_missing=False).id,
            networks='none')
        return self.host_cloud.wait_for_server(server)

    def node(self, server_id, **driver_info):
        """Enroll a node for a server."""
        if server_id:
            driver_info['quintupleo_server'] = server_id
        return self.api.create_node(
            name=f'node-{uuid.uuid4()}', driver='quintupleo',
            driver_info=driver_info)

    def manage(self, node):
        """Let Ironic take control of a node."""
        with progress.Progress('test').stage('manage') as stage:
            self.nodes.provision(node.id, 'manage', 'manageable', stage, 60)

    def boot_device(self, node, path=''):
        """What Ironic tells of a node's boot device.

        Not by openstacksdk, whose calls of the day of Ironic 24.1 fail.

        :param path: '/supported' for those that there are.
        """
        answer = self.api.get(
            f'/nodes/{node}/management/boot_device{path}')
        exceptions.raise_from_response(answer)
        return answer.json()

    def actions(self, server_id):
        """The names of all actions of a server since it was made."""
        return [action for _, action, _
                in self.host_cloud.actions(server_id)][1:]

    @contextlib.contextmanager
    def compute_host_down(self):
        """Let the hypervisor's nova-compute not answer for a while."""
        family = processes.Daemon('nova-compute', self.minicloud.run,
                                  self.minicloud.logs).family()
        assert family
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in family:
                os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def soft_deleting_api(self, etc):
        """Run a second compute API, one that keeps what it deletes.

        :param etc: folder for its configuration.
        :returns: its address.
        """
        port = processes.free_port()
        own = self.minicloud.etc / 'nova'
        shutil.copytree(own, etc, dirs_exist_ok=True)
        content = (own / 'nova.conf').read_text()
        system.write_file(etc / 'nova.conf', content.replace(
            '[DEFAULT]\n', '[DEFAULT]\nreclaim_instance_interval = 3600\n'))
        content = (own / 'uwsgi.ini').read_text()
        system.write_file(etc / 'uwsgi.ini', content.replace(
            f":{settings.PORTS['nova']}\n", f':{port}\n'))
        daemon = processes.Daemon('nova-api-soft-delete', etc,
                                  self.minicloud.logs)
        daemon.start([self.minicloud.nova_venv / 'bin' / 'uwsgi', '--ini',
                      etc / 'uwsgi.ini'],
                     {**self.minicloud.environment(),
                      'OS_NOVA_CONFIG_DIR': str(etc)})
        try:
            self.wait_for(lambda: processes.listening(port),
                          'the second compute API')
            yield f'http://127.0.0.1:{port}/v2.1'
        finally:
            daemon.stop()

    def wait_for(self, check, what):
        """Wait until something is true."""
        return processes.wait_for(check, 60, what)


@contextlib.contextmanager
def _own_cloud(service, shown):
    """Bring a cloud up, and down again at the end."""
    with minicloud.lock(settings.Settings()):
        cloud = settings.Settings()
        try:
            minicloud.up(cloud, shown, 'fake')
            yield cloud
        finally:
            service.remove()
            minicloud.down(cloud, shown)


@contextlib.contextmanager
def _given_cloud(service, state):
    """Use a cloud that is up, with what the tests change of it copied."""
    service.remove()
    system.make_dir(service.state)
    system.make_dir(service.logs)
    shutil.copy(pathlib.Path(state) / 'clouds.yaml', service.state)
    try:
        yield settings.Settings(state)
    finally:
        service.remove()


@pytest.fixture(scope='session')
def deployment(tmp_path_factory):
    """A host cloud and an Ironic."""
    shown = progress.Progress('functional tests')
    given = os.environ.get('QUINTUPLEO_TEST_CLOUD')
    service = ironic.Ironic(
        api_port=processes.free_port(),
        venv=os.environ.get('QUINTUPLEO_IRONIC_VENV'))
    with (_given_cloud(service, given) if given
          else _own_cloud(service, shown)) as cloud:
        service.install()
        service.configure('lo', {'cloud': lab.CLOUD})
        with shown.stage('Ironic') as stage:
            service.start(stage, api_only=True)
        found = Deployment(service, cloud)
        found.iso = tmp_path_factory.mktemp('images') / 'rescue.iso'
        _fake_iso(found.iso)
        if found.cloud.image.find_image('quintupleo-rescue-bios') is None:
            found.openstack('quintupleo', 'image', 'create', '--iso',
                            str(found.iso))
        yield found


@pytest.fixture(scope='module')
def agent(deployment):
    """Files for the conductor to make ISOs of, which nothing ever boots."""
    files = [deployment.ironic.images / name
             for name in ('agent.kernel', 'agent.ramdisk', 'esp.img')]
    for path in files:
        path.write_bytes(b'nothing to be run' * 1024)
    yield
    for path in files:
        path.unlink()


def _fake_iso(path):
    """Write what Glance takes for an ISO 9660 file system."""
    content = bytearray(64 * 1024)
    # Primary volume descriptor: type 1, then the standard's identifier.
    content[32768:32775] = b'\x01CD001\x01'
    content[34816:34823] = b'\xffCD001\x01'
    path.write_bytes(content)
