# SPDX-License-Identifier: Apache-2.0
"""libvirt: the machine's own where it runs, else one started by us."""

import pathlib
import shutil
import socket

from onebox import processes
from onebox import system

URI = 'qemu:///system'
SOCKET = '/run/libvirt/libvirt-sock'
LOG_SOCKET = '/run/libvirt/virtlogd-sock'
DEFINITIONS = pathlib.Path('/etc/libvirt/qemu')
OURS = ('virtlogd', 'libvirtd')
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


def virsh(*words, check=True):
    """Run a command of virsh's."""
    return system.run(['virsh', '--connect', URI, '--quiet', *words],
                      check=check, timeout=120)


def provided(cloud, service):
    """Whether the machine runs a libvirt that we did not start."""
    if any(processes.Daemon(name, cloud.run, cloud.logs).pid()
           for name in OURS):
        return False
    return _answers(SOCKET)


def prepare(cloud, service):
    """Make what libvirt's daemons expect of a booted system."""
    system.make_dir('/run/libvirt')


def log_daemon_ready(cloud, service):
    """virtlogd, which keeps the consoles' logs, can be reached."""
    return _answers(LOG_SOCKET)


def ready(cloud, service):
    """libvirtd answers."""
    return _answers(SOCKET) and virsh('version', check=False).returncode == 0


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
    virsh('secret-define', str(folder / 'secret.xml'))
    # By a file: a command line can be read by anyone.
    virsh('secret-set-value', secret, '--file', str(folder / 'secret'))


def remove_secret(cloud):
    """Take the key from libvirt again."""
    if cloud.volumes and shutil.which('virsh') and _answers(SOCKET):
        virsh('secret-undefine', cloud.values['ceph']['secret'], check=False)


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


def _definitions(cloud):
    return [path for path in DEFINITIONS.glob('*.xml')
            if str(cloud.instances) in path.read_text(errors='replace')]


def leftovers(cloud):
    """Whether there are guests of ours, running or defined."""
    return bool(guest_pids(cloud) or _definitions(cloud))


def remove_guests(cloud):
    """Destroy and undefine the guests of this cloud, and no others."""
    if shutil.which('virsh') and _answers(SOCKET):
        listed = virsh('list', '--all', '--uuid', check=False).stdout.split()
        for uuid in listed:
            described = virsh('dumpxml', uuid, check=False).stdout
            if str(cloud.instances) in described:
                virsh('destroy', uuid, check=False)
                virsh('undefine', uuid, '--nvram', '--managed-save',
                      '--snapshots-metadata', check=False)
    processes.kill(guest_pids(cloud))
