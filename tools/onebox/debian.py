# SPDX-License-Identifier: Apache-2.0
"""Another Debian than this machine's, made of its packages for one test run.

What runs in it has network, mount and PID namespaces of its own, so that
nothing outlives it.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

from onebox import processes
from onebox import system

TIER = 'debian-13'
RELEASE = 'trixie'
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# What makes it; the last one is the network of a namespace, which needs no
# rule and no device of this machine.
PACKAGES = ('debian-archive-keyring', 'git', 'mmdebstrap', 'slirp4netns')
# What is on a machine that a clone of this repository was made on.
INCLUDED = 'ca-certificates,git,python3'
CHECKOUT = '/srv/quintupleo_power'
COMMANDS = (('tools/quickstart',), ('tools/quickstart', '--down'),
            ('tools/run-tests',))
# As on this machine: the certificates and names of its network, and what
# guests and the switch use.
COPIED = ('etc/hosts', 'etc/ssl/certs/ca-certificates.crt', 'dev/kvm',
          'dev/net/tun')
# slirp4netns answers there, with what this machine's own server says.
NAME_SERVER = '10.0.2.3'
# Variables of these tests, and folders that are not there.
UNSET = ('DEVSTACK_DIR', 'PYTHONPATH', 'QUINTUPLEO_CACHE_DIR',
         'QUINTUPLEO_IRONIC_VENV', 'QUINTUPLEO_STATE_DIR',
         'QUINTUPLEO_TEST_CLOUD', 'TMPDIR')

# Words before a command: when it or the shell ends, all that it started does.
# The shell is there because unshare itself ignores SIGTERM.
ISOLATED = ('bash', '-c', 'setpriv --pdeathsig KILL unshare --mount --pid '
            '--fork --kill-child "$@" & wait $!', 'isolated')
# A change of root, not chroot: libvirt makes namespaces of its own from it.
ENTER = '''\
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount --bind dev dev
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount --bind "$2" var/cache/quintupleo
pivot_root . mnt
umount --lazy mnt
cd "$3"
shift 3
# The shell stays, as the first process of the namespace: libvirt waits until
# somebody has collected the programs that it has ended.
code=0
"$@" || code=$?
exit $code
'''


@contextlib.contextmanager
def made(tree, logs):
    """Have a newly installed Debian with a clone of this checkout.

    :param tree: folder for it, which is removed in the end.
    :param logs: folder for what its commands and making it log.
    """
    _remove(tree)
    try:
        _make(tree, logs)
        yield
    finally:
        for each in (tree / 'var' / 'lib').glob('quintupleo*/logs'):
            shutil.copytree(each, logs / TIER / each.parent.name,
                            symlinks=True, dirs_exist_ok=True)
        _remove(tree)


def _make(tree, logs):
    tree.mkdir(parents=True)
    sources = system.run(
        ['bash', '-c', 'source "$0" && debian_sources "$1"',
         REPOSITORY / 'tools' / 'images' / 'common.sh', RELEASE]
    ).stdout.splitlines()
    system.run([*ISOLATED, 'mmdebstrap', '--variant=important',
                '--dpkgopt=force-unsafe-io', f'--include={INCLUDED}',
                RELEASE, tree, *sources],
               log=logs / f'{TIER}.log')
    # What it is of this machine, and may be a link.
    (tree / 'etc' / 'resolv.conf').unlink(missing_ok=True)
    (tree / 'etc' / 'resolv.conf').write_text(f'nameserver {NAME_SERVER}\n')
    system.run(['cp', '--archive', '--dereference', '--parents',
                *(name for name in COPIED if os.path.exists(f'/{name}')),
                tree], cwd='/')
    system.run(['git', '-c', 'safe.directory=*', 'clone', '--quiet',
                REPOSITORY, f'{tree}{CHECKOUT}'])
    (tree / 'var' / 'cache' / 'quintupleo').mkdir()


def _remove(tree):
    """Remove it, when the last of its processes has ended."""
    processes.wait_for(
        lambda: shutil.rmtree(tree, ignore_errors=True) or not tree.exists(),
        60, f'{tree} to be removed')


@contextlib.contextmanager
def connected(namespace, log):
    """Let what runs in a network namespace reach what this machine reaches.

    :param namespace: its name.
    :param log: file for what slirp4netns says.
    """
    with open(log, 'a') as output, subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'slirp4netns', '--configure',
             '--disable-host-loopback', '--mtu=65520', '--netns-type=path',
             f'/run/netns/{namespace}', 'tap0'], stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT) as network:
        try:
            processes.wait_for(
                lambda: system.run(['ip', '-n', namespace, 'route', 'show',
                                    'default']).stdout,
                20, f'slirp4netns to connect a namespace; its log is {log}')
            yield
        finally:
            network.terminate()


def command(tree, cache, words, log):
    """Return the words that run a command in the checkout in a Debian.

    :param tree: its folder.
    :param cache: folder for its cache.
    :param words: the command.
    :param log: file for what installing pip's peer logs.
    """
    # Whatever pip asks here, and in which file that is written.
    index = system.run([system.uv(log).with_name('pip'), 'config', 'get',
                        'global.index-url'], check=False).stdout.strip()
    return ['env', *(f'--unset={name}' for name in UNSET),
            *([f'PIP_INDEX_URL={index}'] if index else []),
            *ISOLATED, 'sh', '-c', ENTER, 'enter', tree, cache, CHECKOUT,
            *words]
