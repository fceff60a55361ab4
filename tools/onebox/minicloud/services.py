# SPDX-License-Identifier: Apache-2.0
"""The services of minicloud, a few lines of data each."""

import dataclasses
import typing

from onebox.minicloud import ceph
from onebox.minicloud import config
from onebox.minicloud import database
from onebox.minicloud import health
from onebox.minicloud import keys
from onebox.minicloud import libvirt
from onebox.minicloud import network

ALL = ('libvirt', 'fake')
# Placeholders in commands are those of Settings.words().
NOVA = '--config-file={etc}/nova/nova.conf'
NEUTRON = '--config-file={etc}/neutron/neutron.conf'
CINDER = '--config-file={etc}/cinder/cinder.conf'
CEPH = '--conf={etc}/ceph/ceph.conf'
CELL0 = '{{scheme}}://{{username}}:{{password}}@{{hostname}}/nova_cell0?' \
    '{{query}}'
CELL1 = '{{scheme}}://{{username}}:{{password}}@{{hostname}}/{{path}}?' \
    '{{query}}'
QUEUE = '{{scheme}}://{{username}}:{{password}}@{{hostname}}:{{port}}/{{path}}'


@dataclasses.dataclass(frozen=True)
class Service:
    """A daemon and all that is to be known to run it."""

    name: str
    command: tuple
    #: True when it answers as it should: function of cloud and service.
    ready: typing.Callable
    #: Names of services that must be ready before it is started.
    after: tuple = ()
    #: Debian packages.
    packages: tuple = ()
    #: {file below the configuration folder: function that renders it}.
    files: dict = dataclasses.field(default_factory=dict)
    #: Commands that make its database, in this order, once.
    schema: tuple = ()
    #: Function of the settings that makes what it needs before its start.
    prepare: typing.Callable = None
    #: The user it runs as, root by default.
    user: str = None
    #: What is added to the environment.
    environment: dict = dataclasses.field(default_factory=dict)
    hypervisors: tuple = ALL
    #: Whether only clouds with volumes have it.
    volumes: bool = False
    #: Whether only clouds with layer 3 have it.
    layer3: bool = False
    #: Ports it listens on, by the names in settings.PORTS.
    ports: tuple = ()
    timeout: int = 120


def _ini(function, *arguments):
    return lambda cloud: config.render(function(cloud, *arguments))


def _keyring(*parties):
    return _ini(config.keyring, *parties)


def _plain(function):
    return lambda cloud: config.plain(function(cloud))


SERVICES = (
    Service(
        name='mariadb',
        packages=('mariadb-server', 'mariadb-client'),
        user='mysql',
        files={'mariadb/my.cnf': _ini(config.mariadb)},
        prepare=database.prepare,
        command=('mariadbd', '--defaults-file={etc}/mariadb/my.cnf'),
        ready=database.ready,
    ),
    Service(
        name='rabbitmq',
        packages=('rabbitmq-server',),
        user='rabbitmq',
        ports=('rabbitmq', 'erlang', 'epmd'),
        files={'rabbitmq/rabbitmq.conf': _plain(config.rabbitmq),
               'rabbitmq/enabled_plugins': lambda cloud: '[].\n'},
        prepare=keys.erlang_cookie,
        # Debian's own wrapper in /usr/sbin insists on its system paths.
        command=('/usr/lib/rabbitmq/bin/rabbitmq-server',),
        environment={
            'HOME': '{data}/rabbitmq',
            'RABBITMQ_CONF_ENV_FILE': '/dev/null',
            'RABBITMQ_NODENAME': 'minicloud@localhost',
            'RABBITMQ_CONFIG_FILE': '{etc}/rabbitmq/rabbitmq.conf',
            'RABBITMQ_ENABLED_PLUGINS_FILE': '{etc}/rabbitmq/enabled_plugins',
            'RABBITMQ_MNESIA_BASE': '{data}/rabbitmq/mnesia',
            'RABBITMQ_LOG_BASE': '{data}/rabbitmq/log',
            'RABBITMQ_PID_FILE': '{data}/rabbitmq/pid',
            'RABBITMQ_DIST_PORT': '{port_erlang}',
            'ERL_EPMD_PORT': '{port_epmd}',
            'ERL_EPMD_ADDRESS': '{address}',
            # Loopback only; and no busy waiting, the machine may be small.
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS':
                '-kernel inet_dist_use_interface {{127,0,0,1}} '
                '+sbwt none +sbwtdcpu none +sbwtdio none',
        },
        ready=health.amqp,
    ),
    Service(
        name='memcached',
        packages=('memcached',),
        prepare=health.memcached_folder,
        command=('memcached', '-u', 'root', '-m', '32', '-a', '0700', '-s',
                 '{run}/memcached/socket'),
        ready=health.memcached,
    ),
    Service(
        name='keystone',
        ports=('keystone',),
        files={'keystone/keystone.conf': _ini(config.keystone),
               'keystone/uwsgi.ini': _ini(config.uwsgi, 'keystone',
                                          'keystone.wsgi.api', 2)},
        schema=(('keystone-manage',
                 '--config-file={etc}/keystone/keystone.conf', 'db_sync'),),
        prepare=keys.fernet,
        after=('mariadb', 'memcached'),
        command=('{bin}/uwsgi', '--ini', '{etc}/keystone/uwsgi.ini'),
        ready=health.http('keystone', '/v3'),
    ),
    Service(
        name='glance',
        packages=('qemu-utils',),
        ports=('glance',),
        files={'glance/glance-api.conf': _ini(config.glance),
               'glance/uwsgi.ini': _ini(config.uwsgi, 'glance',
                                        'glance.wsgi.api')},
        schema=(('glance-manage',
                 '--config-file={etc}/glance/glance-api.conf', 'db_sync'),),
        after=('mariadb',),
        command=('{bin}/uwsgi', '--ini', '{etc}/glance/uwsgi.ini'),
        ready=health.http('glance', '/'),
    ),
    Service(
        name='placement',
        ports=('placement',),
        files={'placement/placement.conf': _ini(config.placement),
               'placement/uwsgi.ini': _ini(config.uwsgi, 'placement',
                                           'placement.wsgi.api')},
        schema=(('placement-manage',
                 '--config-file={etc}/placement/placement.conf',
                 'db', 'sync'),),
        after=('mariadb',),
        command=('{bin}/uwsgi', '--ini', '{etc}/placement/uwsgi.ini'),
        ready=health.http('placement', '/'),
    ),
    Service(
        name='ovsdb-server',
        packages=('openvswitch-switch', 'iproute2'),
        prepare=network.prepare,
        command=('ovsdb-server', '{data}/ovs/conf.db',
                 '--remote=punix:{run}/ovs/db.sock',
                 '--unixctl={run}/ovs/ovsdb-server.ctl'),
        ready=network.database_ready,
    ),
    Service(
        name='ovs-vswitchd',
        prepare=network.prepare_switch,
        after=('ovsdb-server',),
        command=('ovs-vswitchd', 'unix:{run}/ovs/db.sock',
                 '--unixctl={run}/ovs/ovs-vswitchd.ctl'),
        ready=network.switch_ready,
    ),
    Service(
        name='neutron-api',
        ports=('neutron',),
        files={'neutron/neutron.conf': _ini(config.neutron),
               'neutron/uwsgi.ini': _ini(config.uwsgi, 'neutron',
                                         'neutron.wsgi.api')},
        schema=(('neutron-db-manage', NEUTRON, 'upgrade', 'heads'),),
        after=('mariadb', 'rabbitmq'),
        command=('{bin}/uwsgi', '--ini', '{etc}/neutron/uwsgi.ini'),
        ready=health.http('neutron', '/'),
    ),
    Service(
        name='neutron-rpc-server',
        after=('mariadb', 'rabbitmq'),
        command=('{bin}/neutron-rpc-server', NEUTRON),
        ready=health.neutron_rpc,
    ),
    Service(
        name='neutron-openvswitch-agent',
        packages=('iptables', 'ipset', 'ebtables', 'conntrack'),
        ports=('openflow',),
        # It ends at once where a bridge that it is told of is missing.
        after=('neutron-rpc-server', 'ovs-vswitchd', 'public bridge',
               'accounts'),
        command=('{bin}/neutron-openvswitch-agent', NEUTRON),
        ready=health.neutron_agent,
    ),
    Service(
        name='neutron-dhcp-agent',
        hypervisors=('libvirt',),
        packages=('dnsmasq-base', 'iproute2'),
        after=('neutron-rpc-server', 'ovs-vswitchd', 'accounts'),
        command=('{bin}/neutron-dhcp-agent', NEUTRON),
        ready=health.neutron_agent,
    ),
    Service(
        name='neutron-l3-agent',
        layer3=True,
        # It announces routers of IPv6 by radvd.
        packages=('iptables', 'conntrack', 'iproute2', 'radvd'),
        after=('neutron-rpc-server', 'ovs-vswitchd', 'accounts'),
        command=('{bin}/neutron-l3-agent', NEUTRON),
        ready=health.neutron_agent,
    ),
    Service(
        name='nova-api',
        ports=('nova',),
        files={'nova/nova.conf': _ini(config.nova),
               # The application looks for it beside nova.conf only.
               'nova/api-paste.ini': config.nova_paste,
               'nova/uwsgi.ini': _ini(config.nova_uwsgi)},
        schema=(('{nova_bin}/nova-manage', NOVA, 'api_db', 'sync'),
                ('{nova_bin}/nova-manage', NOVA, 'cell_v2', 'map_cell0',
                 '--database_connection', CELL0),
                ('{nova_bin}/nova-manage', NOVA, 'db', 'sync'),
                # Templates, so that no password is kept in the database.
                ('{nova_bin}/nova-manage', NOVA, 'cell_v2', 'create_cell',
                 '--name', 'cell1', '--database_connection', CELL1,
                 '--transport-url', QUEUE)),
        after=('mariadb', 'rabbitmq'),
        command=('{nova_bin}/uwsgi', '--ini', '{etc}/nova/uwsgi.ini'),
        ready=health.http('nova', '/'),
    ),
    Service(
        name='nova-conductor',
        after=('mariadb', 'rabbitmq', 'accounts'),
        command=('{nova_bin}/nova-conductor', NOVA),
        ready=health.nova_service,
    ),
    Service(
        name='nova-scheduler',
        after=('mariadb', 'rabbitmq', 'accounts'),
        command=('{nova_bin}/nova-scheduler', NOVA),
        ready=health.nova_service,
    ),
    Service(
        name='virtlogd',
        hypervisors=('libvirt',),
        files={'libvirt/virtlogd.conf': _plain(config.virtlogd)},
        prepare=libvirt.prepare,
        command=(*libvirt.OWN_FOLDERS, 'virtlogd',
                 '--config={etc}/libvirt/virtlogd.conf',
                 '--pid-file={run}/virtlogd.lock'),
        ready=libvirt.log_daemon_ready,
    ),
    Service(
        name='libvirtd',
        packages=('libvirt-daemon-system', 'libvirt-clients',
                  'python3-libvirt', 'qemu-system-x86', 'qemu-utils', 'ovmf',
                  'genisoimage'),
        hypervisors=('libvirt',),
        files={'libvirt/libvirtd.conf': _plain(config.libvirtd)},
        after=('virtlogd',),
        command=(*libvirt.OWN_FOLDERS, 'libvirtd',
                 '--config={etc}/libvirt/libvirtd.conf',
                 '--pid-file={run}/libvirtd.lock'),
        ready=libvirt.ready,
    ),
    Service(
        name='nova-compute',
        after=('rabbitmq', 'libvirtd', 'placement', 'accounts'),
        command=('{nova_bin}/nova-compute', NOVA),
        ready=health.nova_service,
    ),
    Service(
        name='nova-novncproxy',
        # The page, in /usr/share/novnc, where Nova looks for it.
        packages=('novnc',),
        hypervisors=('libvirt',),
        ports=('novnc',),
        after=('mariadb', 'rabbitmq'),
        command=('{nova_bin}/nova-novncproxy', NOVA),
        ready=health.http('novnc', '/vnc_lite.html'),
    ),
    Service(
        name='nova-serialproxy',
        layer3=True,
        ports=('serial',),
        after=('mariadb', 'rabbitmq'),
        command=('{nova_bin}/nova-serialproxy', NOVA),
        ready=health.http('serial', '/'),
    ),
    Service(
        name='ceph-mon',
        volumes=True,
        packages=('ceph-mon', 'ceph-common'),
        user='ceph',
        ports=('ceph',),
        files={'ceph/ceph.conf': _ini(config.ceph),
               'ceph/mon.keyring': _keyring(*config.CEPH_RIGHTS),
               'ceph/client.admin.keyring': _keyring('client.admin'),
               'ceph/client.cinder.keyring': _keyring('client.cinder')},
        prepare=ceph.prepare_monitor,
        command=('ceph-mon', CEPH, '--id=minicloud', '--foreground'),
        ready=ceph.monitor_ready,
    ),
    Service(
        name='ceph-osd',
        volumes=True,
        packages=('ceph-osd',),
        user='ceph',
        files={'ceph/osd.0.keyring': _keyring('osd.0')},
        after=('ceph-mon',),
        prepare=ceph.prepare_store,
        command=('ceph-osd', CEPH, '--id=0', '--foreground'),
        ready=ceph.store_ready,
    ),
    Service(
        name='cinder-api',
        volumes=True,
        ports=('cinder',),
        files={'cinder/cinder.conf': _ini(config.cinder),
               'cinder/uwsgi.ini': _ini(config.uwsgi, 'cinder',
                                        'cinder.wsgi.api', 1, CINDER)},
        schema=(('cinder-manage', CINDER, 'db', 'sync'),),
        after=('volume database', 'rabbitmq'),
        command=('{bin}/uwsgi', '--ini', '{etc}/cinder/uwsgi.ini'),
        ready=health.http('cinder', '/'),
    ),
    Service(
        name='cinder-scheduler',
        volumes=True,
        after=('volume database', 'rabbitmq', 'volume accounts'),
        command=('{bin}/cinder-scheduler', CINDER),
        ready=health.cinder_service,
    ),
    Service(
        name='cinder-volume',
        volumes=True,
        # QEMU's part is in this package too.
        packages=('python3-rados', 'python3-rbd', 'qemu-block-extra'),
        # It tells the scheduler of its pool once as it starts.
        after=('cinder-scheduler', 'volume pool'),
        command=('{bin}/cinder-volume', CINDER),
        ready=health.cinder_volume,
    ),
)


def chosen(hypervisor, volumes=False, layer3=False):
    """The services of a cloud with this hypervisor."""
    return [service for service in SERVICES
            if hypervisor in service.hypervisors
            and (volumes or not service.volumes)
            and (layer3 or not service.layer3)]


def packages(hypervisor, volumes=False, layer3=False):
    """The Debian packages that these services need, each once."""
    names = ['python3-venv']
    for service in chosen(hypervisor, volumes, layer3):
        names += [name for name in service.packages if name not in names]
    return names


def by_name(name):
    """The service of this name."""
    return next(each for each in SERVICES if each.name == name)
