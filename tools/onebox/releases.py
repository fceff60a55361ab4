# SPDX-License-Identifier: Apache-2.0
"""The releases of Ironic and Nova that the driver is tested with.

Each is installed with the libraries of its time, by a constraints file of its
own. OpenStack's own constraints are no package, so that these are derived:
what the package index had on the day of the release. ``tools/pin-releases``
makes them. With the oldest release, what the driver itself requires is as old
as ``requirements.txt`` permits.
"""

import dataclasses
import pathlib
import re
import sys

from onebox import system

CONSTRAINTS = pathlib.Path(__file__).with_name('constraints')
REQUIREMENTS = pathlib.Path(__file__).parents[2] / 'requirements.txt'
PYTHON = '/usr/bin/python3'
# The clients of Ironic and of the cloud, and what this checkout requires; the
# last three build it.
IRONIC_COMPANIONS = ('python-ironicclient', 'python-openstackclient',
                     f'--requirement={REQUIREMENTS}',
                     'setuptools<81', 'wheel', 'pbr')
# For MariaDB, memcached and the API server.
NOVA_COMPANIONS = ('PyMySQL', 'python-memcached', 'pyuwsgi')


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of Ironic or Nova.

    :ivar name: its own version, such as '24.1'.
    :ivar openstack: the release of OpenStack that it is part of.
    :ivar day: when that was released.
    :ivar held: requirements for what OpenStack held back at that time.
    :ivar packages: Debian packages for building what has no wheels for
        today's Python.
    :ivar package: its name in the package index.
    :ivar companions: what is installed beside it.
    :ivar lowest: whether what the driver requires is at its lower bound, and
        not of that day.
    :ivar last_python: the last Python 3 that those libraries run on.
    """

    name: str
    openstack: str
    day: str
    held: tuple = ()
    packages: tuple = ()
    package: str = 'ironic'
    companions: tuple = IRONIC_COMPANIONS
    lowest: bool = False
    last_python: int = 99

    @property
    def runs_here(self):
        """Whether it runs on the Python of this machine."""
        return sys.version_info.minor <= self.last_python

    def require_python(self):
        """Refuse a Python that the libraries of its time do not run on.

        :raises: system.Error.
        """
        if not self.runs_here:
            raise system.Error(
                f'{self.package} {self.name} and the libraries of its time '
                f'run on Python 3.{self.last_python} at most, and this '
                f'machine has 3.{sys.version_info.minor}: take Debian 12, or '
                'a later release.')

    @property
    def requirements(self):
        """What pip installs: the newest fixes of it, and its companions."""
        return (f'{self.package}=={self.name}.*', *self.companions)

    @property
    def constraints(self):
        """The file that fixes the versions of everything else."""
        return CONSTRAINTS / f'{self.package}-{self.name}.txt'


RELEASES = (
    Release('24.1', '2024.1', '2024-04-03', (
        'SQLAlchemy<2', 'urllib3<2',
        # Earlier ones do not run in pytest 9, later ones not in Eventlet.
        'testtools==2.7.2'), packages=('gcc', 'python3-dev'), lowest=True,
        # greenlet 3.0.3 and eventlet 0.36.1.
        last_python=12),
    Release('26.1', '2024.2', '2024-10-02', ('urllib3<2',)),
    Release('29', '2025.1', '2025-04-02', ('urllib3<2',)),
    Release('32', '2025.2', '2025-10-01', ('urllib3<2',)),
    Release('35', '2026.1', '2026-04-01'),
    # In between: where restore_interface is still the agent's alone.
    Release('38', '2026.2', '2026-07-30'),
    # The newest goes with the newest of everything.
    Release('39', '2026.2', 'today'),
)
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]


# Minicloud's own and Debian's packages are not among them.
NEWEST_NOVA = Release('34', '2026.2', 'today', package='nova',
                      companions=NOVA_COMPANIONS)


def lower_bounds():
    """The lowest versions that ``requirements.txt`` permits.

    :returns: a dict of versions by name.
    """
    lines = (line.partition('#')[0].strip()
             for line in REQUIREMENTS.read_text().splitlines())
    return dict(line.split('>=') for line in lines if line)


def nearest(version):
    """Return the release whose libraries go with a version of Ironic.

    :param version: such as '35.0'.
    :returns: the newest :class:`Release` that is not later, with that version.
    :raises: system.Error if it is none, or older than what is supported.
    """
    if not re.fullmatch(r'\d+(\.\d+)*', version):
        raise system.Error(f'"{version}" is no version of Ironic, such as '
                           f'{NEWEST.name}.')
    earlier = [release for release in RELEASES
               if _numbers(release.name) <= _numbers(version)]
    if not earlier:
        raise system.Error(f'Ironic {version} is too old: the driver needs '
                           f'{OLDEST.name} or later.')
    return earlier[-1]


def _numbers(version):
    return [int(number) for number in version.split('.')]


def by_file(name):
    """The release whose constraints are in the file of this name.

    :param name: such as 'ironic-24.1'.
    :raises: system.Error when it is none that is known here.
    """
    known = {release.constraints.stem: release
             for release in (*RELEASES, NEWEST_NOVA)}
    if name not in known:
        raise system.Error(f'There is no release {name}, only '
                           f'{", ".join(known)}.')
    return known[name]
