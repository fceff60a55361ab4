# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the services, as sections and options."""

from onebox.minicloud import libvirt
from onebox.minicloud import nova as releases
from onebox.minicloud import settings as names

# What Nova and Neutron do as root they do in privsep daemons, started here
# without sudo: the services are root already.
NOVA_PRIVSEP = ('nova_sys_admin', 'vif_plug_ovs_privileged',
                'vif_plug_linux_bridge_privileged', 'privsep_osbrick')
CINDER_PRIVSEP = ('cinder_sys_admin', 'privsep_osbrick')
NEUTRON_PRIVSEP = ('privsep', 'privsep_namespace', 'privsep_dhcp_release',
                   'privsep_ovs_vsctl', 'privsep_conntrack', 'privsep_link')


def render(sections):
    """Return the text of an INI file.

    :param sections: {section: {option: value}}; a list is an option that
        is given several times, None one that is left out.
    """
    lines = []
    for section, options in sections.items():
        if lines:
            lines.append('')
        lines.append('[%s]' % section)
        for option, value in options.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            lines += ['%s = %s' % (option, _text(each))
                      for each in values if each is not None]
    return '\n'.join(lines) + '\n'


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def database(cloud, name):
    """The URL of a database; the server listens on a socket only."""
    return ('mysql+pymysql://minicloud:%s@localhost/%s?charset=utf8'
            '&unix_socket=%s' % (cloud.password('database'), name,
                                 cloud.run / 'mariadb' / 'socket'))


def transport(cloud):
    """The URL of the message queue."""
    return 'rabbit://%s:%s@%s:%d/' % (
        names.RABBIT_USER, cloud.password('rabbitmq'), names.ADDRESS,
        names.PORTS['rabbitmq'])


def memcached(cloud):
    """Where the cache of tokens listens: a socket for root only."""
    return 'unix:%s' % (cloud.run / 'memcached' / 'socket')


def credentials(cloud, user):
    """Options by which a service signs in as this service user."""
    return {
        'auth_type': 'password',
        'auth_url': cloud.url('keystone', '/v3'),
        'username': user,
        'password': cloud.password(user),
        'project_name': 'service',
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
        'region_name': names.REGION,
        'valid_interfaces': 'internal',
    }


def token_check(cloud, user):
    """Options by which an API checks its callers' tokens."""
    return {
        **credentials(cloud, user),
        'valid_interfaces': None,
        'interface': 'internal',
        'www_authenticate_uri': cloud.public_url('keystone', '/v3'),
        'service_token_roles': 'service',
        'service_token_roles_required': True,
        'memcached_servers': memcached(cloud),
    }


def storage(cloud, name):
    """The options of a database section."""
    return {'connection': database(cloud, name), 'max_pool_size': 4}


def privsep(venv, groups, *files):
    """Sections that start privsep's helpers without sudo."""
    command = '%s/bin/privsep-helper' % venv
    command += ''.join(' --config-file %s' % path for path in files)
    return {group: {'helper_command': command} for group in groups}


def uwsgi(cloud, port, module, processes=1, arguments=None,
          venv=None):
    """An API server: a WSGI application on a loopback port.

    With layer 3 it listens on the external network, too.
    """
    addresses = [names.ADDRESS]
    if cloud.layer3:
        addresses.append(cloud.public_address)
    return {'uwsgi': {
        # The address may come later than the server, with its bridge.
        'freebind': cloud.layer3 or None,
        'http-socket': ['%s:%d' % (address, names.PORTS[port])
                        for address in addresses],
        'module': module if ':' in module else module + ':application',
        'pyargv': arguments and arguments.format(**cloud.words()),
        'virtualenv': venv or cloud.venv,
        'processes': processes,
        'master': True,
        'die-on-term': True,
        'enable-threads': True,
        'lazy-apps': True,
        'need-app': True,
        'no-orphans': True,
        'thunder-lock': True,
        'buffer-size': 65535,
        # Nova uploads images in parts of 1 MiB, which with their ends are
        # more than uWSGI takes by itself; and a machine may be busy.
        'chunked-input-limit': 4 * 1024 ** 2,
        'chunked-input-timeout': 60,
        'add-header': 'Connection: close',
        # Stop at once, for workers may wait in their own event loop.
        'hook-master-start': 'unix_signal:15 gracefully_kill_them_all',
        'worker-reload-mercy': 5,
    }}


def mariadb(cloud):
    """MariaDB: reached by a socket, tuned for a small machine."""
    return {'mariadbd': {
        'user': 'mysql',
        'datadir': cloud.data / 'mariadb',
        'socket': cloud.run / 'mariadb' / 'socket',
        'pid-file': cloud.run / 'mariadb' / 'pid',
        'skip-networking': True,
        'skip-name-resolve': True,
        'character-set-server': 'utf8mb4',
        'collation-server': 'utf8mb4_general_ci',
        'default-storage-engine': 'innodb',
        'performance-schema': False,
        'max-connections': 400,
        'innodb-buffer-pool-size': '128M',
        'innodb-log-file-size': '32M',
        # A power failure may cost a second of this cloud's memory.
        'innodb-flush-log-at-trx-commit': 2,
        # On by default from 11.6.2: of two requests that update a row at once
        # one fails (bug 2116186 of Nova). Older ones may not know it.
        'loose-innodb-snapshot-isolation': False,
        'aria-log-file-size': '8M',
    }}


def keystone(cloud):
    """Keystone's options."""
    keys = cloud.etc / 'keystone' / 'fernet-keys'
    return {
        'DEFAULT': {'use_stderr': True},
        'database': storage(cloud, 'keystone'),
        'token': {'provider': 'fernet', 'expiration': 43200},
        'fernet_tokens': {'key_repository': keys},
        'fernet_receipts': {'key_repository': keys},
        'credential': {
            'key_repository': cloud.etc / 'keystone' / 'credential-keys'},
        # Without it Keystone makes 400 queries to check one token.
        'cache': {'enabled': True, 'backend': 'dogpile.cache.memcached',
                  'memcache_servers': memcached(cloud)},
        # The passwords are random and long: slow hashes protect nothing.
        'identity': {'password_hash_rounds': 4},
    }


def glance(cloud):
    """Glance's options: images are files."""
    return {
        'DEFAULT': {
            'use_stderr': True,
            'enabled_backends': 'files:file',
            'image_cache_dir': cloud.data / 'glance' / 'cache',
        },
        'database': storage(cloud, 'glance'),
        'glance_store': {'default_backend': 'files'},
        'files': {
            'filesystem_store_datadir': cloud.data / 'glance' / 'images'},
        'os_glance_staging_store': {
            'filesystem_store_datadir': cloud.data / 'glance' / 'staging'},
        'os_glance_tasks_store': {
            'filesystem_store_datadir': cloud.data / 'glance' / 'tasks'},
        'keystone_authtoken': token_check(cloud, 'glance'),
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': cloud.venv / 'etc/glance/glance-api-paste.ini',
        },
        'oslo_concurrency': {'lock_path': cloud.run / 'locks'},
    }


def placement(cloud):
    """Placement's options."""
    return {
        'DEFAULT': {'use_stderr': True},
        'api': {'auth_strategy': 'keystone'},
        'placement_database': storage(cloud, 'placement'),
        'keystone_authtoken': token_check(cloud, 'placement'),
    }


def neutron(cloud):
    """Neutron's options, for the API, the RPC server and the agent."""
    path = cloud.etc / 'neutron' / 'neutron.conf'
    return {
        'DEFAULT': {
            'use_stderr': True,
            'host': names.HOST,
            'state_path': cloud.data / 'neutron',
            'transport_url': transport(cloud),
            'api_paste_config': cloud.venv / 'etc/neutron/api-paste.ini',
            'core_plugin': 'ml2',
            # Without layer 3 there are routers in the API only.
            'service_plugins': 'router,trunk',
            'enable_metadata_proxy': False if cloud.layer3 else None,
            'rpc_workers': 1,
            'rpc_state_report_workers': 0,
            'dhcp_agent_notification': cloud.hypervisor == 'libvirt',
            'interface_driver': 'openvswitch',
            'dhcp_confs': cloud.dhcp,
            'agent_down_time': 600,
            'rpc_response_timeout': 180,
            'notify_nova_on_port_status_changes': True,
        },
        'database': storage(cloud, 'neutron'),
        'keystone_authtoken': token_check(cloud, 'neutron'),
        'nova': credentials(cloud, 'nova') | {'endpoint_type': 'internal',
                                              'valid_interfaces': None},
        'oslo_concurrency': {'lock_path': cloud.run / 'locks'},
        'ml2': {
            'type_drivers': 'local,flat,vlan',
            # All guests are on this machine: no tunnels, no VLANs.
            'tenant_network_types': 'local',
            'mechanism_drivers': 'openvswitch',
            'extension_drivers': 'port_security',
        },
        **({'ml2_type_flat': {'flat_networks': names.EXTERNAL_NETWORK}}
           if cloud.layer3 else {}),
        'ovs': {
            'integration_bridge': names.BRIDGE,
            'bridge_mappings': '%s:%s' % (
                names.EXTERNAL_NETWORK, names.EXTERNAL_BRIDGE)
            if cloud.layer3 else None,
            'datapath_type': 'netdev',
            'ovsdb_connection': ovsdb(cloud),
            'of_listen_address': names.ADDRESS,
            'of_listen_port': names.PORTS['openflow'],
        },
        'agent': {'root_helper': '', 'root_helper_daemon': None},
        'securitygroup': {
            # The userspace datapath loses a guest's tap after a rescue;
            # behind a bridge and a veth pair the guest stays connected.
            'firewall_driver': 'iptables_hybrid',
            'enable_ipset': True,
        },
        'quotas': dict.fromkeys(
            ('default_quota', 'quota_network', 'quota_subnet', 'quota_port',
             'quota_security_group', 'quota_security_group_rule'), -1),
        **privsep(cloud.venv, NEUTRON_PRIVSEP, path),
    }


def ovsdb(cloud):
    """Where the Open vSwitch database listens."""
    return 'unix:%s' % (cloud.run / 'ovs' / 'db.sock')


def nova(cloud):
    """Nova's options, for all of its services."""
    path = cloud.etc / 'nova' / 'nova.conf'
    fake = cloud.hypervisor == 'fake'
    return {
        'DEFAULT': {
            'use_stderr': True,
            'host': names.HOST,
            'my_ip': names.ADDRESS,
            'state_path': cloud.data / 'nova',
            'instances_path': cloud.instances,
            'transport_url': transport(cloud),
            'compute_driver': 'minicloud_fake.FakeDriver' if fake
                              else 'libvirt.LibvirtDriver',
            'reserved_host_memory_mb': 256,
            # For placement a machine that is off uses as much as one that
            # is on.
            'initial_cpu_allocation_ratio': 32.0,
            'initial_ram_allocation_ratio': 20.0,
            'initial_disk_allocation_ratio': 20.0,
            # A rescued server stays so: it is what the driver relies on.
            'rescue_timeout': 0,
            # A machine that others load heavily is late, not down.
            'service_down_time': 600,
            'rpc_response_timeout': 180,
            'vif_plugging_timeout': 60,
            # There is no other host.
            'allow_resize_to_same_host': True,
        },
        'api_database': storage(cloud, 'nova_api'),
        'database': storage(cloud, 'nova'),
        'keystone_authtoken': token_check(cloud, 'nova'),
        'service_user': {**credentials(cloud, 'nova'),
                         'send_service_user_token': True},
        'placement': credentials(cloud, 'nova'),
        'neutron': credentials(cloud, 'nova'),
        'glance': {'valid_interfaces': 'internal',
                   'region_name': names.REGION},
        'cinder': {**credentials(cloud, 'nova'), 'valid_interfaces': None,
                   'region_name': None, 'os_region_name': names.REGION},
        'conductor': {'workers': 1},
        'scheduler': {'workers': 1},
        'quota': {'instances': -1, 'cores': -1, 'ram': -1,
                  'server_groups': -1, 'server_group_members': -1,
                  'key_pairs': 1000},
        'oslo_concurrency': {'lock_path': cloud.run / 'locks'},
        'os_vif_ovs': {'ovsdb_connection': ovsdb(cloud)},
        'vnc': {
            # Fake consoles can be asked for; nobody answers behind them.
            'enabled': True,
            'server_listen': names.ADDRESS,
            'server_proxyclient_address': names.ADDRESS,
            'novncproxy_host': names.ADDRESS,
            'novncproxy_port': names.PORTS['novnc'],
            # Nova's default is a page of noVNC's past; this one connects at
            # once and shows the screen as it is.
            'novncproxy_base_url': cloud.url('novnc', '/vnc_lite.html'),
        },
        'serial_console': {
            # Not in each cloud, as Nova gives a server in rescue no serial
            # port then, and so no console log.
            'enabled': cloud.layer3,
            'proxyclient_address': names.ADDRESS,
            'serialproxy_host': names.ADDRESS,
            'serialproxy_port': names.PORTS['serial'],
            'base_url': cloud.url('serial', '/').replace('http', 'ws', 1),
        },
        'libvirt': {
            'connection_uri': None if fake else libvirt.uri(cloud),
            'virt_type': cloud.values.get('virt_type', 'qemu'),
            'cpu_mode': 'host-passthrough'
                        if cloud.values.get('virt_type') == 'kvm' else 'none',
            'images_type': 'qcow2',
            # Guests' disks are worth nothing: never wait for the disk.
            'disk_cachemodes': 'file=unsafe,network=writeback',
            # Emulation would take 1 GiB a guest for translated code.
            'tb_cache_size': 256
                             if cloud.values.get('virt_type') == 'qemu'
                             else None,
        },
        **privsep(cloud.nova_venv, NOVA_PRIVSEP, path),
    }


def cinder(cloud):
    """Cinder's options: volumes are in the storage cluster."""
    path = cloud.etc / 'cinder' / 'cinder.conf'
    return {
        'DEFAULT': {
            'use_stderr': True,
            'host': names.HOST,
            'my_ip': names.ADDRESS,
            'state_path': cloud.data / 'cinder',
            'transport_url': transport(cloud),
            'api_paste_config': cloud.venv / 'etc/cinder/api-paste.ini',
            'resource_query_filters_file':
                cloud.venv / 'etc/cinder/resource_filters.json',
            'enabled_backends': 'ceph',
            'image_conversion_dir': cloud.data / 'cinder' / 'conversion',
            'allowed_direct_url_schemes': None,
        },
        'ceph': {
            'volume_driver': 'cinder.volume.drivers.minicloud_rbd.RBDDriver',
            'volume_backend_name': 'ceph',
            'rbd_pool': names.VOLUME_POOL,
            'rbd_ceph_conf': cloud.etc / 'ceph' / 'ceph.conf',
            'rbd_user': 'cinder',
            'rbd_secret_uuid': cloud.values['ceph']['secret'],
        },
        'database': storage(cloud, names.VOLUME_DATABASE),
        'keystone_authtoken': token_check(cloud, 'cinder'),
        'service_user': {**credentials(cloud, 'cinder'),
                         'send_service_user_token': True},
        'nova': credentials(cloud, 'cinder') | {'interface': 'internal',
                                                'valid_interfaces': None},
        'coordination': {
            'backend_url': 'file://%s' % (
                cloud.data / 'cinder' / 'coordination')},
        'oslo_concurrency': {'lock_path': cloud.run / 'locks'},
        'quota': dict.fromkeys(
            ('quota_volumes', 'quota_snapshots', 'quota_gigabytes'), -1),
        **privsep(cloud.venv, CINDER_PRIVSEP, path),
    }


def ceph(cloud):
    """The storage cluster: one monitor, one store, each thing kept once."""
    keyrings = cloud.etc / 'ceph'
    return {
        'global': {
            'fsid': cloud.values['ceph']['cluster'],
            'mon_host': '[v2:%s:%d]' % (names.ADDRESS, names.PORTS['ceph']),
            'public_addr': names.ADDRESS,
            'cluster_addr': names.ADDRESS,
            'ms_bind_msgr1': False,
            'auth_cluster_required': 'cephx',
            'auth_service_required': 'cephx',
            'auth_client_required': 'cephx',
            'auth_allow_insecure_global_id_reclaim': False,
            'admin_socket': '%s/$name.socket' % (cloud.run / 'ceph'),
            'run_dir': cloud.run / 'ceph',
            # What is wrong goes to the standard error output: the log.
            'log_file': '',
            'osd_pool_default_size': 1,
            'osd_pool_default_min_size': 1,
            'osd_crush_chooseleaf_type': 0,
            'mon_allow_pool_size_one': True,
        },
        'mon': {
            'keyring': keyrings / 'mon.keyring',
            'mon_data': cloud.data / 'ceph' / 'mon',
            'mon_cluster_log_file': '',
            # How full a developer's disk is, is the developer's affair.
            'mon_data_avail_warn': 1,
            'mon_data_avail_crit': 1,
        },
        'osd': {
            'keyring': keyrings / 'osd.0.keyring',
            'osd_data': cloud.data / 'ceph' / 'osd',
            # A sparse file: what is not written takes no space.
            'bluestore_block_size': 64 << 30,
            # As little memory as it takes.
            'osd_memory_target': 939524096,
            'ms_bind_port_min': names.PORTS['ceph'] + 1,
            'ms_bind_port_max': names.PORTS['ceph'] + 99,
        },
        'client.admin': {'keyring': keyrings / 'client.admin.keyring'},
        'client.cinder': {'keyring': keyrings / 'client.cinder.keyring'},
    }


# What each party in the storage cluster may do.
CEPH_RIGHTS = {
    'mon.': {'mon': 'allow *'},
    'osd.0': {'mon': 'allow profile osd', 'osd': 'allow *'},
    'client.admin': {'mon': 'allow *', 'osd': 'allow *'},
    'client.cinder': {
        'mon': 'profile rbd',
        'osd': 'profile rbd pool=%s' % names.VOLUME_POOL},
}


def keyring(cloud, *parties):
    """A file of keys with the rights that go with them."""
    return {party: {
        'key': cloud.password(party),
        **{'caps ' + what: '"%s"' % rights
           for what, rights in CEPH_RIGHTS[party].items()},
    } for party in parties}


def nova_paste(cloud):
    """The pipeline of Nova's API, as Nova ships it."""
    return (cloud.nova_venv / 'etc/nova/api-paste.ini').read_text()


def nova_uwsgi(cloud):
    """The server for Nova's API."""
    return uwsgi(cloud, 'nova', releases.application(cloud.nova), 2,
                 venv=cloud.nova_venv)


def libvirtd(cloud):
    """The options of libvirtd, which has no sections."""
    return {
        'auth_unix_rw': '"none"',
        'unix_sock_rw_perms': '"0700"',
        'log_outputs': '"2:stderr"',
    }


def virtlogd(cloud):
    """The options of virtlogd: keep whole console logs."""
    return {'log_outputs': '"2:stderr"'}


def rabbitmq(cloud):
    """The options of RabbitMQ, which has no sections either."""
    return {
        'listeners.tcp.1': '%s:%d' % (names.ADDRESS,
                                      names.PORTS['rabbitmq']),
        'default_user': names.RABBIT_USER,
        'default_pass': cloud.password('rabbitmq'),
        'loopback_users': 'none',
        'log.console': 'true',
        'log.console.level': 'warning',
        'log.file': 'false',
    }


def plain(options):
    """Return the text of a file of options without sections."""
    return ''.join('%s = %s\n' % item for item in options.items())
