# SPDX-License-Identifier: Apache-2.0
"""The releases of Nova that a minicloud can have.

The first is of the same release of OpenStack as all other services. The others
run beside these, in a Python environment of their own, and only with the fake
hypervisor: the newest does not start UEFI guests on Debian 12's libvirt, and
the libvirt of Python is in minicloud's own environment.
"""

import pathlib
import platform
import shlex
import shutil

from onebox import releases
from onebox import system

OWN = '32'
NEWEST = releases.NEWEST_NOVA.name
#: From Debian's own packages instead of the package index, by its release.
OF_DEBIAN = {'12': '26', '13': '31'}

# Their scripts, and through them all that Nova needs in Python.
DEBIAN_PACKAGES = ('nova-common', 'nova-api', 'nova-conductor',
                   'nova-scheduler', 'nova-compute', 'python3-nova',
                   'python3-pymysql', 'python3-memcache')
# The server for its API is no part of it.
UWSGI = 'pyuwsgi==2.0.30.post1'
SCRIPTS = ('nova-compute', 'nova-conductor', 'nova-manage', 'nova-scheduler',
           'privsep-helper')


def packaged():
    """Return the release that this Debian has in packages; None elsewhere."""
    try:
        system_release = platform.freedesktop_os_release()
    except OSError:
        return None
    if system_release['ID'] != 'debian':
        return None
    return OF_DEBIAN.get(system_release.get('VERSION_ID'))


DEBIAN = packaged()
RELEASES = (OWN, NEWEST, *([DEBIAN] if DEBIAN else []))


def help_text():
    """Return what the releases are, for the help of a command."""
    text = f'{OWN} with the rest of its OpenStack (the default), {NEWEST}'
    if DEBIAN:
        return f'{text} or {DEBIAN}, from the packages of this Debian'
    return text


def application(release):
    """The module that holds Nova's API, and what makes the application.

    :param release: release of Nova.
    """
    if int(release) < 31:
        # Before the modules that only hold the application.
        return 'nova.api.openstack.compute.wsgi:init_application()'
    return 'nova.wsgi.osapi_compute'


def venv_path(release, cache, own):
    """Where the Python environment of a release belongs.

    :param release: release of Nova.
    :param cache: folder of what can be made again.
    :param own: the environment of the other services.
    """
    if release == OWN:
        return own
    texts = [system.run([releases.PYTHON, '--version']).stdout, UWSGI]
    if release == DEBIAN:
        texts += DEBIAN_PACKAGES
    else:
        texts.append(releases.NEWEST_NOVA.constraints.read_text())
    return pathlib.Path(cache) / 'minicloud' / (
        f'nova-{release}-{system.digest(*texts)}')


def install(release, venv, log):
    """Make the environment of a release that is not minicloud's own.

    :param release: release of Nova.
    :param venv: its path.
    :param log: file for the output of the tools.
    """
    if release == DEBIAN:
        _unpack(venv, log)
    else:
        system.make_venv(venv, releases.NEWEST_NOVA.requirements, log,
                         releases.NEWEST_NOVA.constraints, releases.PYTHON)


def virt_folder(venv):
    """Where the Nova of an environment looks for hypervisors."""
    return next(folder for pattern in ('lib/*/site-packages/nova/virt',
                                       'debian/**/dist-packages/nova/virt')
                for folder in venv.glob(pattern))


def _unpack(venv, log):
    """Put Debian's packages into an environment, and nothing elsewhere.

    Installed as usual they would start daemons, and change the machine.
    """
    complete = venv / '.unpacked'
    if complete.exists():
        return
    system.make_venv(venv, [UWSGI], log, python=releases.PYTHON)
    tree = venv / 'debian'
    packages = venv / 'packages'
    for folder in (tree, packages):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    names = _closure(DEBIAN_PACKAGES)
    system.run(['apt-get', 'download', *names], log=log, cwd=packages)
    for path in sorted(packages.iterdir()):
        system.run(['dpkg-deb', '--extract', path, tree], log=log)
    shutil.rmtree(packages)
    site = next(venv.glob('lib/python3*/site-packages'))
    (site / 'debian.pth').write_text(
        f'{tree}/usr/lib/python3/dist-packages\n')
    for name in SCRIPTS:
        _script(tree / 'usr' / 'bin' / name, venv)
    # Where the package index's Nova has it.
    system.link(system.make_dir(venv / 'etc' / 'nova') / 'api-paste.ini',
                tree / 'usr' / 'share' / 'nova-common' / 'api-paste.ini')
    complete.touch()


def _closure(names):
    """All Python packages that these need, with themselves."""
    found, new = set(), set(names)
    while new:
        found |= new
        listed = system.run(
            ['apt-cache', 'depends', '--no-recommends', '--no-suggests',
             '--no-conflicts', '--no-breaks', '--no-replaces',
             '--no-enhances', *sorted(new)]).stdout.splitlines()
        wanted, skipped = set(), False
        for line in listed:
            kind, depends, name = line.strip().partition('Depends: ')
            if not depends:
                # A package, or what provides the virtual one above it.
                name = kind if line.startswith('    ') else ''
            # Of alternatives, marked by "|", the first one is enough.
            if not skipped and name.startswith('python3-'):
                wanted.add(name)
            skipped = kind.startswith('|')
        new = wanted - found
    return sorted(found)


def _script(source, venv):
    """Let a script of Debian's run in the environment."""
    text = source.read_text()
    first, _, rest = text.partition('\n')
    target = venv / 'bin' / source.name
    target.unlink(missing_ok=True)
    target.write_text(f'#!{shlex.quote(str(venv))}/bin/python3\n{rest}')
    target.chmod(0o755)
