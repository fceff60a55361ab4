# SPDX-License-Identifier: Apache-2.0
"""libvirt of minicloud's own, beside the one that the machine may run.

Its daemons have libvirt's folders to themselves: Nova starts on no host with
guests that it did not make.
"""

import contextlib
import os
import pathlib
import socket

from onebox import processes
from onebox import system

# libvirt's folders, which it has no options for, by those of ours in their
# place. What it has found out of QEMU takes a minute and stays in the cache.
FOLDERS = {'/run/libvirt': '{data}/libvirt/run',
           '/etc/libvirt': '{data}/libvirt/etc',
           '/var/lib/libvirt': '{data}/libvirt/lib',
           '/var/log/libvirt': '{data}/libvirt/log',
           '/var/cache/libvirt': '{cache}/libvirt'}
# Words before a command that has them. Mounts of this machine get in, for the
# cloud's disks may be on one, and ours do not get out.
OWN_FOLDERS = (
    'unshare', '--mount', '--propagation=slave', 'sh', '-ec',
    'while [ "$1" != -- ]; do mount --bind "$2" "$1"; shift 2; done; '
    'shift; exec "$@"', 'sh',
    *(word for pair in FOLDERS.items() for word in pair), '--')
SECRET = '''\
<secret ephemeral='yes' private='yes'>
  <uuid>%s</uuid>
  <usage type='ceph'><name>minicloud</name></usage>
</secret>
'''


def _answers(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def _socket(cloud, name):
    return str(cloud.data / 'libvirt' / 'run' / name)


def uri(cloud):
    """Return the URI by which clients reach this cloud's libvirt."""
    return f'qemu+unix:///system?socket={_socket(cloud, "libvirt-sock")}'


def virsh(cloud, *words, check=True):
    """Run a command of virsh's."""
    return system.run(['virsh', '--connect', uri(cloud), '--quiet', *words],
                      check=check, timeout=120)


def prepare(cloud, service):
    """Make the folders that libvirt's daemons have to themselves."""
    for place, ours in FOLDERS.items():
        os.makedirs(place, exist_ok=True)
        system.make_dir(*cloud.fill([ours]))
    # Profiles of AppArmor would be files of the machine's.
    system.write_file(cloud.data / 'libvirt' / 'etc' / 'qemu.conf',
                      'security_driver = "none"\n', 0o644)


def log_daemon_ready(cloud, service):
    """virtlogd, which keeps the consoles' logs, can be reached."""
    return _answers(_socket(cloud, 'virtlogd-sock'))


def ready(cloud, service):
    """libvirtd answers."""
    return (_answers(_socket(cloud, 'libvirt-sock'))
            and virsh(cloud, 'version', check=False).returncode == 0)


def add_to_venv(venv):
    """Let the environment use Debian's Python binding of libvirt.

    It fits the installed libvirt, and nothing must be compiled.
    """
    target = next(venv.glob('lib/python3*/site-packages'))
    for source in pathlib.Path('/usr/lib/python3/dist-packages').glob(
            'libvirt*'):
        system.link(target / source.name, source)


def define_secret(cloud):
    """Give libvirt the key to the volumes, to be kept in memory only."""
    secret = cloud.values['ceph']['secret']
    folder = cloud.etc / 'ceph'
    system.write_file(folder / 'secret.xml', SECRET % secret)
    system.write_file(folder / 'secret', cloud.password('client.cinder'))
    virsh(cloud, 'secret-define', str(folder / 'secret.xml'))
    # By a file: a command line can be read by anyone.
    virsh(cloud, 'secret-set-value', secret, '--file', str(folder / 'secret'))


def guest_pids(cloud):
    """QEMU processes of our guests.

    Their disks are in our folder, or they have none but volumes and are known
    by the folders that Nova makes for each of them, named after its UUID.
    """
    place = str(cloud.instances)
    uuids = {path.name for path in cloud.instances.glob('*-*-*-*-*')}
    found = []
    for pid in processes.all_pids():
        words = processes.command_line(pid)
        if (words and 'qemu-system' in words[0]
                and (uuids.intersection(words)
                     or any(place in word for word in words))):
            found.append(pid)
    return found


def remove_guests(cloud):
    """Destroy the guests of this cloud, running or not."""
    if _answers(_socket(cloud, 'libvirt-sock')):
        listed = virsh(cloud, 'list', '--uuid', check=False).stdout.split()
        for uuid in listed:
            virsh(cloud, 'destroy', uuid, check=False)
    processes.kill(guest_pids(cloud))


def remove_folder(cloud):
    """Remove the folder for libvirt's sockets, if nobody has anything there.

    Ours are mounted there; the machine has it while a libvirt of its own runs.
    """
    if (cloud.data / 'libvirt').exists():
        with contextlib.suppress(OSError):
            os.rmdir('/run/libvirt')
