# SPDX-License-Identifier: Apache-2.0
"""Ceph: one monitor and one store in a sparse file, for Cinder's volumes.

Each object is kept once and there is no manager daemon: what a volume needs,
and no more.
"""

import json
import pathlib
import shutil

from onebox.minicloud import settings
from onebox import system

PYTHON_MODULES = pathlib.Path('/usr/lib/python3/dist-packages')


def _conf(cloud):
    return '--conf=%s' % (cloud.etc / 'ceph' / 'ceph.conf')


def _ceph(cloud, *words, check=True):
    """Run a command of the ceph client."""
    return system.run(['ceph', _conf(cloud), '--connect-timeout=30', *words],
                      check=check, timeout=60)


def _status(cloud, daemon, command):
    """Ask a daemon itself, by its socket; {} if it does not answer."""
    answer = system.run(
        ['ceph', _conf(cloud), 'daemon',
         str(cloud.run / 'ceph' / (daemon + '.socket')), command],
        check=False, timeout=60)
    return {} if answer.returncode else json.loads(answer.stdout)


def add_to_venv(venv):
    """Let the environment use Debian's Python bindings of Ceph.

    They fit the installed Ceph, and PyPI does not have them.
    """
    target = next(venv.glob('lib/python3*/site-packages'))
    for name in ('rados', 'rbd'):
        for source in PYTHON_MODULES.glob(name + '*'):
            system.link(target / source.name, source)


def _folder(cloud, service, name):
    system.make_dir(cloud.run / 'ceph', 0o700, service.user)
    system.make_dir(cloud.data / 'ceph', 0o700, service.user)
    return cloud.data / 'ceph' / name


def prepare_monitor(cloud, service):
    """Make the monitor's database, with the keys of all parties in it."""
    folder = _folder(cloud, service, 'mon')
    if not (folder / 'done').exists():
        shutil.rmtree(folder, ignore_errors=True)
        members = cloud.etc / 'ceph' / 'monitors'
        # Only a list of monitors can name a port that is not the usual one.
        system.run(['monmaptool', '--create', '--clobber',
                    '--fsid', cloud.values['ceph']['cluster'],
                    '--addv', 'minicloud', '[v2:%s:%d]' % (
                        settings.ADDRESS, settings.PORTS['ceph']), members])
        shutil.chown(members, service.user)
        _make(cloud, service, folder, 'ceph-mon', '--id=minicloud',
              '--monmap=%s' % members,
              '--keyring=%s' % (cloud.etc / 'ceph' / 'mon.keyring'))


def prepare_store(cloud, service):
    """Make the store and tell the monitor of it."""
    folder = _folder(cloud, service, 'osd')
    if not (folder / 'done').exists():
        shutil.rmtree(folder, ignore_errors=True)
        storage = cloud.values['ceph']['storage']
        _ceph(cloud, 'osd', 'new', storage, '0')
        _make(cloud, service, folder, 'ceph-osd', '--id=0',
              '--osd-uuid=' + storage)


def _make(cloud, service, folder, program, *words):
    system.make_dir(folder, 0o700, service.user)
    system.run([program, _conf(cloud), '--mkfs', '--setuser', service.user,
                '--setgroup', service.user, *words],
               log=cloud.logs / (service.name + '.log'))
    (folder / 'done').touch()


def monitor_ready(cloud, service):
    """The monitor leads, and so answers everybody's questions."""
    return _status(cloud, 'mon.minicloud', 'mon_status').get(
        'state') == 'leader'


def store_ready(cloud, service):
    """The store has joined the cluster."""
    return _status(cloud, 'osd.0', 'status').get('state') == 'active'


def make_pool(cloud):
    """Make the pool that Cinder keeps volumes in."""
    _ceph(cloud, 'osd', 'pool', 'create', settings.VOLUME_POOL, '8')
    system.run(['rbd', _conf(cloud), 'pool', 'init', settings.VOLUME_POOL],
               timeout=120)
