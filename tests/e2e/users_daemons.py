# SPDX-License-Identifier: Apache-2.0
"""What a user's machine runs before quickstart does, and has after it.

A libvirt with a guest, which is paused so that it takes no processor, and an
Open vSwitch. Both are the machine's own, in Debian's folders.
"""

import contextlib
import pathlib
import re
import shutil

from onebox import processes
from onebox import system

VIRSH = ('virsh', '--connect', 'qemu:///system', '--quiet')
NAME = 'users-guest'
GUEST = f'''
<domain type='qemu'>
  <name>{NAME}</name>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
</domain>
'''
OVS = pathlib.Path('/run/openvswitch')
SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
FOLDERS = ('/etc/libvirt', '/var/lib/libvirt', '/run/libvirt',
           '/run/openvswitch', '/etc/apparmor.d/libvirt')
SYSCTLS = ('net/ipv4/ip_forward', 'net/ipv6/conf/all/forwarding',
           'net/bridge/bridge-nf-call-iptables',
           'net/bridge/bridge-nf-call-ip6tables')


class UsersDaemons:
    """The user's daemons and guest.

    :param folder: a folder for pid files, logs and the switch's database.
    """

    def __init__(self, folder):
        self._folder = folder
        self._daemons = []
        self._made = []

    def start(self):
        """Start all of it, but what the machine runs already."""
        if not pathlib.Path('/run/libvirt/libvirt-sock').exists():
            self._made.append(system.make_dir('/run/libvirt'))
            self._start('virtlogd', 'virtlogd')
            # Where nobody but root may use KVM, libvirtd tries QEMU again
            # and again if QEMU is not root's.
            settings = self._folder / 'qemu.conf'
            settings.write_text('user = "root"\ngroup = "root"\n')
            self._start('libvirtd', 'unshare', '--mount',
                        '--propagation=slave', 'sh', '-ec',
                        'mount --bind "$1" "$2"; exec libvirtd', 'sh',
                        settings, '/etc/libvirt/qemu.conf')
        processes.wait_for(
            lambda: self._virsh('version', check=False).returncode == 0,
            60, "the machine's libvirt")
        definition = self._folder / 'guest.xml'
        definition.write_text(GUEST)
        self._virsh('create', str(definition), '--paused')
        if not (OVS / 'db.sock').exists():
            self._made.append(system.make_dir(OVS))
            database = self._folder / 'conf.db'
            system.run(['ovsdb-tool', 'create', database, SCHEMA])
            self._start('ovsdb-server', 'ovsdb-server', database,
                        f'--remote=punix:{OVS}/db.sock')
            self._start('ovs-vswitchd', 'ovs-vswitchd',
                        f'unix:{OVS}/db.sock')
        system.run(['ovs-vsctl', '--timeout=60', '--retry', 'init'])

    def stop(self):
        """End the guest and what was started."""
        with contextlib.suppress(system.Error):
            self._virsh('destroy', NAME, check=False)
        for daemon in reversed(self._daemons):
            daemon.stop()
        for place in self._made:
            shutil.rmtree(place)

    def _virsh(self, *words, check=True):
        return system.run([*VIRSH, *words], check=check, timeout=60)

    def _start(self, name, *words):
        daemon = processes.Daemon(name, self._folder, self._folder)
        daemon.start(words, {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'})
        self._daemons.append(daemon)

    def state(self):
        """Return all that has to be the same when quickstart is gone."""
        return {
            'daemons': [(daemon.name, daemon.pid())
                        for daemon in self._daemons],
            'guests': self._virsh('list', '--all').stdout,
            'guest': [self._virsh(what, NAME).stdout
                      for what in ('domstate', 'domuuid', 'domid')],
            'secrets': self._virsh('secret-list').stdout,
            'networks': self._virsh('net-list', '--all').stdout,
            'switch': system.run(['ovs-vsctl', 'show']).stdout,
            'devices': _names(system.run(['ip', '-o', 'link']).stdout),
            'namespaces': system.run(['ip', 'netns', 'list']).stdout,
            'mounts': _mounts(),
            'rules': _rules(),
            'files': [str(path) for folder in FOLDERS
                      for path in sorted(pathlib.Path(folder).rglob('*'))],
            'settings': {path: value.read_text() for path in SYSCTLS
                         if (value := pathlib.Path('/proc/sys', path)
                             ).exists()},
        }


def _names(listed):
    return sorted(line.split(': ')[1] for line in listed.splitlines())


def _mounts():
    """Return where things are mounted.

    /run/netns is iproute2's, from a machine's first namespace on.
    """
    return sorted({line.split()[1] for line in pathlib.Path(
        '/proc/self/mounts').read_text().splitlines()} - {'/run/netns'})


def _rules():
    """Return rules and chains of a user; empty tables are the kernel's."""
    return [line for command in ('iptables-save', 'ip6tables-save')
            for line in system.run([command], check=False).stdout.splitlines()
            if line.startswith('-') or re.match(r':\S+ - ', line)]


@contextlib.contextmanager
def kept(folder):
    """Have daemons of the user's, and check that they are the same at the end.

    :param folder: see :class:`UsersDaemons`.
    """
    daemons = UsersDaemons(folder)
    try:
        daemons.start()
        before = daemons.state()
        yield
        # A device whose program has just ended takes a moment to go.
        with contextlib.suppress(system.Error):
            processes.wait_for(lambda: daemons.state() == before, 10,
                               "the user's daemons to be as before")
        after = daemons.state()
        changed = {name: (before[name], after[name]) for name in before
                   if before[name] != after[name]}
        assert not changed, f'before and after: {changed}'
    finally:
        daemons.stop()
