# SPDX-License-Identifier: Apache-2.0
"""The cloud as a whole: up, status, down."""

import functools
import pathlib
import shutil
import socket

from onebox.minicloud import bootstrap
from onebox.minicloud import ceph
from onebox.minicloud import database
from onebox.minicloud import kvm
from onebox.minicloud import layer3 as external
from onebox.minicloud import libvirt
from onebox.minicloud import network
from onebox.minicloud import nova
from onebox.minicloud import services
from onebox.minicloud import settings
from onebox.minicloud import tasks
from onebox import processes
from onebox import system

FAKE_DRIVER = pathlib.Path(__file__).with_name('fakevirt') / (
    'minicloud_fake.py')
VOLUME_DRIVER = pathlib.Path(__file__).with_name('storage') / (
    'minicloud_rbd.py')
STAGES_INSTALL = 1
STAGES_UP = 3
STAGES_DOWN = 4
# A Unix socket's path may have 107 characters.
LONGEST_STATE_PATH = 60


def lock(cloud):
    """Keep two runs from working on one cloud."""
    return system.lock(cloud.state / 'minicloud.lock', 'minicloud')


def daemon(cloud, service):
    """The process of a service."""
    return processes.Daemon(service.name, cloud.run, cloud.logs)


def install(cloud, progress, hypervisor=None, volumes=False,
            nova_release=None, layer3=False):
    """Fetch and install what the cloud runs on, and nothing else.

    :param cloud: the settings.
    :param progress: where to show what happens.
    :param hypervisor: ``libvirt`` or ``fake``; None for what it has, or
        libvirt.
    :param volumes: whether it is to have a volume service; one that has it
        keeps it.
    :param nova_release: release of Nova; None for what it has, or minicloud's
        own.
    :param layer3: whether routers and floating IPs are to work; a cloud where
        they do keeps that.
    :returns: the last four as they are chosen, as a tuple.
    :raises: Error when something fails; a later one goes on from there.
    """
    nova_release = nova_release or cloud.nova
    hypervisor = _check(cloud, hypervisor, nova_release, layer3)
    volumes = volumes or cloud.volumes
    layer3 = layer3 or cloud.layer3
    _folders(cloud)
    with progress.stage('Debian packages and Python environment') as stage:
        _software(cloud, hypervisor, volumes, nova_release, layer3, stage)
    return hypervisor, volumes, nova_release, layer3


def up(cloud, progress, hypervisor=None, volumes=False, nova_release=None,
       layer3=False):
    """Make the cloud, or as much of it as is missing.

    :param cloud: the settings.
    :param progress: where to show what happens.
    :param hypervisor: see :func:`install`.
    :param volumes: see :func:`install`.
    :param nova_release: see :func:`install`.
    :param layer3: see :func:`install`.
    :raises: Error when something fails; a later ``up`` goes on from there.
    """
    chosen = install(cloud, progress, hypervisor, volumes, nova_release,
                     layer3)
    with progress.stage('Settings') as stage:
        _settings(cloud, *chosen, stage)
    with progress.stage('Services') as stage:
        tasks.run(_tasks(cloud, stage), stage)
        bootstrap.clouds_yaml(cloud)


def _check(cloud, hypervisor, nova_release, layer3):
    """Refuse what cannot work, before anything is changed."""
    if len(str(cloud.state)) > LONGEST_STATE_PATH:
        raise system.Error(
            'The path of the state folder, %s, is too long for the sockets '
            'in it: set QUINTUPLEO_STATE_DIR to one of at most %d '
            'characters.' % (cloud.state, LONGEST_STATE_PATH))
    if nova_release != nova.OWN and (
            hypervisor or cloud.values.get('hypervisor')) != 'fake':
        raise system.Error(
            'Nova %s runs with the fake hypervisor only: add "--hypervisor '
            'fake".' % nova_release)
    if layer3 and (hypervisor or cloud.values.get('hypervisor')) == 'fake':
        raise system.Error('Layer 3 is for guests that run: leave out '
                           '"--layer3" or "--hypervisor fake".')
    if not cloud.exists():
        return hypervisor or 'libvirt'
    if layer3 and not cloud.layer3:
        raise system.Error(
            'There is a minicloud without layer 3 already. Run '
            '"tools/minicloud down" first, which deletes it.')
    if nova_release != cloud.nova:
        raise system.Error(
            'There is a minicloud with Nova %s already. Run "tools/minicloud '
            'down" first, which deletes it.' % cloud.nova)
    if hypervisor and hypervisor != cloud.hypervisor:
        raise system.Error(
            'There is a minicloud with the %s hypervisor already. Run '
            '"tools/minicloud down" first, which deletes it.'
            % cloud.hypervisor)
    if cloud.venv != settings.venv_path(cloud.cache):
        raise system.Error(
            'The minicloud that is there was made of other versions. Run '
            '"tools/minicloud down" first, which deletes it.')
    return cloud.hypervisor


def _folders(cloud):
    """Make the folders that are there before any service's own."""
    system.make_dir(cloud.state)
    system.make_dir(cloud.logs, 0o700)
    if not cloud.exists():
        for log in cloud.logs.glob('*.log'):
            if log.stem in _log_names():
                log.unlink()
    # Guests' processes run as a user of their own and must get through.
    for path in (cloud.root, cloud.data, cloud.run, cloud.etc):
        system.make_dir(path, 0o711)


def _log_names():
    return {service.name for service in services.SERVICES} | {
        'packages', 'python', 'python-nova', 'keystone-bootstrap',
        'nova-discover'} | {
        service.name + '-schema' for service in services.SERVICES}


def _software(cloud, hypervisor, volumes, nova_release, layer3, stage):
    """Install Debian packages and the Python environment."""
    venv = settings.venv_path(cloud.cache)
    nova_venv = nova.venv_path(nova_release, cloud.cache, venv)
    install = functools.partial(system.install_packages, log=cloud.apt_log)
    tasks.run([
        tasks.Task('python3-venv', lambda: install(['python3-venv'])),
        tasks.Task('Debian packages',
                   lambda: install(services.packages(hypervisor, volumes,
                                                     layer3)),
                   after=('python3-venv',)),
        tasks.Task('Python environment',
                   lambda: system.make_venv(
                       venv, settings.REQUIREMENTS, cloud.pip_log,
                       constraints=settings.CONSTRAINTS,
                       python=settings.PYTHON),
                   after=('python3-venv',)),
        *([] if nova_venv == venv else [tasks.Task(
            'Nova ' + nova_release,
            lambda: nova.install(nova_release, nova_venv,
                                 cloud.logs / 'python-nova.log'),
            after=('python3-venv',))]),
    ], stage)
    if hypervisor == 'libvirt':
        libvirt.add_to_venv(venv)
    else:
        # Nova looks for drivers in this package only.
        system.link(nova.virt_folder(nova_venv) / FAKE_DRIVER.name,
                    FAKE_DRIVER)
    if volumes:
        with stage.step('Python environment, volumes'):
            system.add_to_venv(
                venv, 'volumes', settings.VOLUME_REQUIREMENTS, cloud.pip_log,
                (settings.CONSTRAINTS, settings.VOLUME_CONSTRAINTS))
        ceph.add_to_venv(venv)
        system.link(next(venv.glob(
            'lib/*/site-packages/cinder/volume/drivers'))
            / VOLUME_DRIVER.name, VOLUME_DRIVER)
    _link_venv(cloud, venv)


def _link_venv(cloud, venv):
    """Give the Python environment a name that people can remember.

    Environments of earlier versions that nothing runs from are removed.
    """
    system.link(cloud.venv_link, venv)
    used = ' '.join(word for pid in processes.all_pids()
                    for word in processes.command_line(pid))
    for other in venv.parent.glob('venv-*'):
        if other != venv and str(other) not in used:
            shutil.rmtree(other, ignore_errors=True)


def _settings(cloud, hypervisor, volumes, nova_release, layer3, stage):
    """Choose the hypervisor, look at the ports, write configuration."""
    _end_orphans(cloud)
    _check_ports(cloud, services.chosen(hypervisor, volumes, layer3))
    if not cloud.exists():
        cloud.create(hypervisor, nova_release,
                     external.choose() if layer3 else None)
    if volumes and not cloud.volumes:
        cloud.add_volumes()
    if hypervisor == 'libvirt':
        _choose_virtualization(cloud, stage)
    _write_files(cloud)


def _choose_virtualization(cloud, stage):
    if 'virt_type' not in cloud.values:
        with stage.step('boot in KVM, tried'):
            works, reason = kvm.probe()
        cloud.values['virt_type'] = 'kvm' if works else 'qemu'
        cloud.values['virt_reason'] = reason
        cloud.save()
    mode = kvm.open_for_guests()
    if mode is not None:
        cloud.values.setdefault('kvm_mode', mode)
        cloud.save()
    stage.note('guests: %s' % virtualization(cloud))


def virtualization(cloud):
    """How guests run, and why, in words."""
    if cloud.hypervisor == 'fake':
        return 'none, the hypervisor is fake'
    how = {'kvm': 'KVM', 'qemu': 'emulation (slow)'}
    return '%s: %s' % (how[cloud.values['virt_type']],
                       cloud.values['virt_reason'])


def _end_orphans(cloud):
    """End what services that were killed have left."""
    for service in services.SERVICES:
        process = daemon(cloud, service)
        if not process.pid():
            process.stop()


def _check_ports(cloud, chosen):
    """Refuse ports that others use.

    :raises: Error that names each of them.
    """
    busy = []
    for service in chosen:
        if not daemon(cloud, service).pid():
            busy += ['%d (%s)' % (settings.PORTS[name], service.name)
                     for name in service.ports
                     if not _free(settings.PORTS[name])]
    if busy:
        raise system.Error(
            'These ports on 127.0.0.1 are needed and in use by another '
            'program: %s. Stop it (ss -ltnp shows which it is) and try '
            'again.' % ', '.join(busy))


def _free(port):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((settings.ADDRESS, port))
        except OSError:
            return False
    return True


def _write_files(cloud):
    """Write the services' configuration, readable by their users only."""
    for path in ('nova', 'nova/instances'):
        system.make_dir(cloud.data / path, 0o711)
    for path in ('glance', 'neutron'):
        system.make_dir(cloud.data / path, 0o700)
    system.make_dir(cloud.run / 'locks', 0o700)
    for service in _services(cloud):
        for name, function in service.files.items():
            path = cloud.etc / name
            system.make_dir(path.parent, 0o700, service.user)
            system.write_file(path, function(cloud), 0o600, service.user)


def _tasks(cloud, stage):
    """All that is to be done for the services to run, in any order."""
    chosen = _services(cloud)
    work = [tasks.Task(service.name,
                       functools.partial(start, cloud, service),
                       service.after) for service in chosen]
    once = [
        tasks.Task('keystone bootstrap',
                   functools.partial(bootstrap.keystone, cloud),
                   ('mariadb',)),
        tasks.Task('accounts', functools.partial(bootstrap.accounts, cloud),
                   ('keystone', 'keystone bootstrap')),
        tasks.Task('flavors', functools.partial(bootstrap.flavors, cloud),
                   ('nova-api', 'accounts')),
        tasks.Task('compute host', functools.partial(bootstrap.hosts, cloud),
                   ('nova-compute',)),
    ]
    if cloud.volumes:
        once += _once_for_volumes(cloud)
        if cloud.hypervisor == 'libvirt':
            work.append(tasks.Task(
                'volume secret',
                functools.partial(libvirt.define_secret, cloud),
                ('libvirtd',)))
    if cloud.layer3:
        work.append(tasks.Task(
            'public bridge', functools.partial(external.connect, cloud),
            ('ovs-vswitchd',)))
        once.append(tasks.Task(
            'public network', functools.partial(external.make_network, cloud),
            ('neutron-api', 'accounts')))
    if not cloud.done('databases'):
        work[0].after += ('databases',)
        work.append(tasks.Task('databases', functools.partial(
            _databases, cloud, chosen, stage)))
    work += [tasks.Task(task.name, functools.partial(_once, cloud, task),
                        task.after)
             for task in once if not cloud.done(task.name)]
    return work


def _once_for_volumes(cloud):
    return [
        tasks.Task('volume database',
                   functools.partial(_volume_database, cloud), ('mariadb',)),
        tasks.Task('volume accounts',
                   functools.partial(bootstrap.volume_accounts, cloud),
                   ('accounts',)),
        tasks.Task('volume pool', functools.partial(ceph.make_pool, cloud),
                   ('ceph-osd',)),
    ]


def _once(cloud, task):
    task.action()
    cloud.set_done(task.name)


def start(cloud, service):
    """Start a service unless it runs, and wait until it is ready.

    :raises: Error that names the service and its log.
    """
    process = daemon(cloud, service)
    try:
        if not process.pid() and service.prepare:
            service.prepare(cloud, service)
        started = process.start(
            cloud.fill(service.command), _environment(cloud, service),
            service.user)
        processes.wait_for(
            functools.partial(service.ready, cloud, service),
            service.timeout, '%s to be ready' % service.name,
            stop=process.require_alive)
        if started and service.name == 'mariadb':
            database.create(cloud)
    except system.Error as error:
        raise system.Error('%s failed: %s' % (service.name, error),
                           error.log or process.log)


def _environment(cloud, service):
    words = cloud.words()
    return {**cloud.environment(),
            **{name: value.format(**words)
               for name, value in service.environment.items()}}


def _databases(cloud, chosen, stage):
    """Make all databases, from the copy of an earlier cloud's if any."""
    mariadb = services.by_name('mariadb')
    schemas = {service.name: service.schema for service in chosen
               if service.schema and not service.volumes}
    daemon(cloud, mariadb).stop()
    database.wipe(cloud)
    copy = database.copy_path(cloud, schemas)
    with database.copying(copy):
        if copy.exists():
            database.restore(cloud, copy)
        else:
            database.install(cloud, mariadb)
            start(cloud, mariadb)
            tasks.run([tasks.Task(
                'schema of ' + name,
                functools.partial(_schema, cloud, name, commands))
                for name, commands in schemas.items()], stage)
            daemon(cloud, mariadb).stop(60)
            database.save(cloud, copy)
    cloud.set_done('databases')


def _volume_database(cloud):
    """Make it by itself: others may be in use for long."""
    database.create_for_volumes(cloud)
    for service in _services(cloud):
        if service.volumes:
            _schema(cloud, service.name, service.schema)


def _services(cloud):
    return services.chosen(cloud.hypervisor, cloud.volumes, cloud.layer3)


def _schema(cloud, name, commands):
    log = cloud.logs / (name + '-schema.log')
    for command in commands:
        system.run(cloud.fill(command), log=log, env=cloud.environment())


def examine(cloud):
    """Return rows of name, pid, health, ports and log for each service."""
    rows = []
    for service in _services(cloud):
        process = daemon(cloud, service)
        pid = process.pid()
        healthy = bool(pid) and bool(service.ready(cloud, service))
        ports = ', '.join(str(settings.PORTS[name])
                          for name in service.ports)
        rows.append((service.name, pid or '-', healthy, ports,
                     str(process.log)))
    return rows


def memory(cloud):
    """Bytes that the services use, and those that the guests use."""
    return (processes.memory(pids(cloud)),
            processes.memory(libvirt.guest_pids(cloud)))


def pids(cloud):
    """All processes of all services, whatever state they are in."""
    found = set()
    for service in services.SERVICES:
        found.update(daemon(cloud, service).family())
    return found


def down(cloud, progress):
    """Stop and delete the cloud; what can be made again stays cached.

    :param cloud: the settings.
    :param progress: where to show what happens.
    """
    # Guests can only end while their volumes can be written to.
    system_services = ('mariadb', 'rabbitmq', 'memcached', 'ovsdb-server',
                       'ovs-vswitchd', 'virtlogd', 'libvirtd', 'ceph-mon',
                       'ceph-osd')
    with progress.stage('OpenStack services'):
        _stop(cloud, [service for service in services.SERVICES
                      if service.name not in system_services])
    with progress.stage('Guests'):
        libvirt.remove_guests(cloud)
    with progress.stage('Networks'):
        network.remove_dhcp(cloud)
        network.remove_routers(cloud)
        network.remove_links(cloud)
        network.remove_agents_rules()
        network.remove_rules(external.CHAINS)
    with progress.stage('Databases, queue, state'):
        _stop(cloud, services.SERVICES)
        libvirt.remove_folder(cloud)
        _unmount(cloud)
        mode = cloud.values.get('kvm_mode')
        if mode is not None and kvm.DEVICE.exists():
            kvm.DEVICE.chmod(mode)
        cloud.clouds_yaml.unlink(missing_ok=True)
        shutil.rmtree(cloud.root, ignore_errors=True)


def _stop(cloud, chosen):
    """End services with all their processes, all at the same time.

    They get little time for it: what they might save is deleted anyway.
    """
    doomed = set()
    for service in chosen:
        doomed.update(daemon(cloud, service).family())
    processes.kill(doomed, grace=3)
    for service in chosen:
        daemon(cloud, service).stop()


def _unmount(cloud):
    """Unmount what may be mounted in the state folder."""
    mounts = pathlib.Path('/proc/mounts').read_text().splitlines()
    for line in reversed(mounts):
        place = line.split()[1]
        if place.startswith(str(cloud.root) + '/'):
            system.run(['umount', '--lazy', place], check=False)
