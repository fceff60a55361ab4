# SPDX-License-Identifier: Apache-2.0
"""Where minicloud keeps things, its ports, names and passwords."""

import ipaddress
import json
import pathlib
import secrets
import uuid

from onebox.minicloud import keys
from onebox.minicloud import nova
from onebox import system

HOST = 'minicloud'
REGION = 'RegionOne'
ADDRESS = '127.0.0.1'
BRIDGE = 'br-minicloud'
EXTERNAL_BRIDGE = 'br-mc-public'
# In Neutron, as a network and as what the bridge is to it.
EXTERNAL_NETWORK = 'public'
TENANT_USER = 'tenant'
TENANT_PROJECT = 'quintupleo'
RABBIT_USER = 'minicloud'
SERVICE_USERS = ('glance', 'neutron', 'nova', 'placement')
VOLUME_USER = 'cinder'
VOLUME_DATABASE = 'cinder'
VOLUME_POOL = 'volumes'
# The parties in the storage cluster, each with a key of its own.
CEPH_NAMES = ('mon.', 'osd.0', 'client.admin', 'client.cinder')
DATABASES = ('keystone', 'glance', 'placement', 'neutron', 'nova_api',
             'nova', 'nova_cell0')

# The API ports are OpenStack's usual ones. The others are not the usual
# ones, so that a RabbitMQ or Open vSwitch of the machine is left alone. All
# are below those that connections get (net.ipv4.ip_local_port_range).
PORTS = {
    'keystone': 5000,
    'glance': 9292,
    'placement': 8778,
    'neutron': 9696,
    'nova': 8774,
    'novnc': 6080,
    'serial': 6083,
    'cinder': 8776,
    'rabbitmq': 25682,
    'erlang': 25683,
    'epmd': 24369,
    'openflow': 26633,
    'ceph': 23300,
}

REQUIREMENTS = (
    'keystone==28.*',
    'glance==31.*',
    'openstack-placement==14.*',
    'neutron==27.*',
    # Later releases cannot run UEFI guests on the libvirt of Debian 12.
    f'nova=={nova.OWN}.*',
    'PyMySQL',
    'python-memcached',
    'pyuwsgi',
    'python-openstackclient',
)
CONSTRAINTS = pathlib.Path(__file__).with_name('constraints.txt')
# Only for clouds with volumes, beside the others: what a cloud without them
# is made of stays the same.
VOLUME_REQUIREMENTS = ('cinder==27.*',)
VOLUME_CONSTRAINTS = CONSTRAINTS.with_name('constraints-volumes.txt')
PYTHON = '/usr/bin/python3'


class Settings:
    """Paths, and what is decided once for the life of a cloud."""

    def __init__(self, state=None, cache=None):
        self.state = pathlib.Path(state or system.state_dir())
        self.cache = pathlib.Path(cache or system.cache_dir())
        self.root = self.state / 'minicloud'
        self.logs = self.state / 'logs'
        self.etc = self.root / 'etc'
        self.run = self.root / 'run'
        self.data = self.root / 'data'
        self.instances = self.data / 'nova' / 'instances'
        # Each dnsmasq reads it again as nobody.
        self.dhcp = self.data / 'dhcp'
        self.clouds_yaml = self.state / 'clouds.yaml'
        self.venv_link = self.cache / 'minicloud' / 'venv'
        self.apt_log = self.logs / 'packages.log'
        self.pip_log = self.logs / 'python.log'
        self._file = self.root / 'settings.json'
        self.values = {}
        if self._file.exists():
            self.values = json.loads(self._file.read_text())

    def exists(self):
        """Whether there is a cloud, be it running or not."""
        return bool(self.values)

    def create(self, hypervisor, nova_release=nova.OWN,
               external_network=None):
        """Decide what stays the same until the cloud is deleted.

        :param hypervisor: ``libvirt`` or ``fake``.
        :param nova_release: release of Nova.
        :param external_network: its range of addresses, if routers and
            floating IPs are to work.
        """
        venv = venv_path(self.cache)
        names = ('admin', 'tenant', 'database', 'rabbitmq') + SERVICE_USERS
        self.values = {
            'hypervisor': hypervisor,
            'venv': str(venv),
            'nova': nova_release,
            'nova_venv': str(nova.venv_path(nova_release, self.cache, venv)),
            'passwords': {name: secrets.token_hex(16) for name in names},
            'cookie': secrets.token_hex(20),
            'done': [],
        }
        if external_network:
            self.values['layer3'] = {'network': external_network}
        self.save()

    def add_volumes(self):
        """Decide what the volumes of this cloud need decided."""
        passwords = self.values['passwords']
        passwords[VOLUME_USER] = secrets.token_hex(16)
        passwords.update({name: keys.cephx() for name in CEPH_NAMES})
        self.values['ceph'] = {name: str(uuid.uuid4()) for name in (
            'cluster', 'storage', 'secret')}
        self.values['volumes'] = True
        self.save()

    def save(self):
        """Write the settings, for their owner's eyes only."""
        system.write_file(self._file, json.dumps(self.values, indent=1))

    def password(self, name):
        """The generated password of a user."""
        return self.values['passwords'][name]

    def done(self, step):
        """Whether a step that is done once in a cloud's life was done."""
        return step in self.values['done']

    def set_done(self, step):
        """Remember that such a step was done."""
        self.values['done'].append(step)
        self.save()

    @property
    def hypervisor(self):
        """``libvirt`` or ``fake``."""
        return self.values['hypervisor']

    @property
    def volumes(self):
        """Whether the cloud has a volume service."""
        return self.values.get('volumes', False)

    @property
    def layer3(self):
        """Whether routers and floating IPs work."""
        return 'layer3' in self.values

    @property
    def public_network(self):
        """The external network's range of addresses."""
        return ipaddress.ip_network(self.values['layer3']['network'])

    @property
    def public_address(self):
        """This machine's address on the external network."""
        return str(self.public_network[1])

    @property
    def venv(self):
        """The Python environment that the services run from."""
        return pathlib.Path(self.values.get('venv', '/usr'))

    @property
    def nova(self):
        """The release of Nova."""
        return self.values.get('nova', nova.OWN)

    @property
    def nova_venv(self):
        """The Python environment that Nova's services run from."""
        return pathlib.Path(self.values.get('nova_venv', self.venv))

    def url(self, service, path=''):
        """The address of an API, for what runs on this machine."""
        return 'http://%s:%d%s' % (ADDRESS, PORTS[service], path)

    def public_url(self, service, path=''):
        """The address of an API for everyone: guests, too, with layer 3."""
        if not self.layer3:
            return self.url(service, path)
        return 'http://%s:%d%s' % (self.public_address, PORTS[service], path)

    def words(self):
        """What the placeholders in commands stand for."""
        return {
            'bin': self.venv / 'bin',
            'nova_bin': self.nova_venv / 'bin',
            'etc': self.etc,
            'run': self.run,
            'data': self.data,
            'cache': self.cache,
            'address': ADDRESS,
            **{'port_' + name: port for name, port in PORTS.items()},
        }

    def fill(self, argv):
        """Replace the placeholders of a command."""
        words = self.words()
        return [word.format(**words) for word in argv]

    def environment(self):
        """The environment of services and of commands for them.

        It is made anew: proxies and credentials of the caller's have no
        business in it.
        """
        ovs = str(self.run / 'ovs')
        return {
            'PATH': '%s:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:'
                    '/sbin:/bin' % (self.venv / 'bin'),
            'HOME': str(self.root),
            'LC_ALL': 'C.UTF-8',
            'PYTHONWARNINGS': 'ignore',
            'PYTHONDONTWRITEBYTECODE': '1',
            'OS_KEYSTONE_CONFIG_DIR': str(self.etc / 'keystone'),
            'OS_GLANCE_CONFIG_DIR': str(self.etc / 'glance'),
            'OS_PLACEMENT_CONFIG_DIR': str(self.etc / 'placement'),
            'OS_NEUTRON_CONFIG_DIR': str(self.etc / 'neutron'),
            'OS_NEUTRON_CONFIG_FILES': 'neutron.conf',
            'OS_NOVA_CONFIG_DIR': str(self.etc / 'nova'),
            'OVS_RUNDIR': ovs,
            'OVS_DBDIR': str(self.data / 'ovs'),
            'OVS_LOGDIR': str(self.logs),
            'OVS_SYSCONFDIR': str(self.data / 'ovs'),
        }


def venv_path(cache):
    """Where the Python environment for today's constraints belongs."""
    version = system.run([PYTHON, '--version']).stdout
    key = system.digest(version, CONSTRAINTS.read_text(),
                        ' '.join(REQUIREMENTS))
    return pathlib.Path(cache) / 'minicloud' / ('venv-' + key)
