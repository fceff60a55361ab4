# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The releases of Ironic that the driver is tested with.

Each is installed with the libraries of its time, by a constraints file of its
own. OpenStack's own constraints are no package, so that these are derived:
what the package index had on the day of the release. ``tools/pin-releases``
makes them.
"""

import dataclasses
import pathlib
import typing

from onebox import system

CONSTRAINTS = pathlib.Path(__file__).with_name('constraints')
PYTHON = '/usr/bin/python3'
# What runs beside Ironic; the last three build this checkout.
COMPANIONS = ('python-ironicclient', 'python-openstackclient',
              'setuptools<81', 'wheel', 'pbr')


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of Ironic.

    :ivar name: Ironic's own version, such as '24.1'.
    :ivar openstack: the release of OpenStack that it is part of.
    :ivar day: when that was released.
    :ivar held: requirements for what OpenStack held back at that time.
    """

    name: str
    openstack: str
    day: str
    held: tuple = ()
    #: Debian packages for building what has no wheels for today's Python.
    packages: tuple = ()
    package: typing.ClassVar = 'ironic'

    @property
    def requirements(self):
        """What pip installs: the newest fixes of Ironic and the clients."""
        return (f'ironic=={self.name}.*', *COMPANIONS)

    @property
    def constraints(self):
        """The file that fixes the versions of everything else."""
        return CONSTRAINTS / f'ironic-{self.name}.txt'


RELEASES = (
    Release('24.1', '2024.1', '2024-04-03', (
        'SQLAlchemy<2', 'urllib3<2',
        # Earlier ones do not run in pytest 9, later ones not in Eventlet.
        'testtools==2.7.2'), packages=('gcc', 'python3-dev')),
    Release('26.1', '2024.2', '2024-10-02', ('urllib3<2',)),
    Release('29', '2025.1', '2025-04-02', ('urllib3<2',)),
    Release('32', '2025.2', '2025-10-01', ('urllib3<2',)),
    Release('35', '2026.1', '2026-04-01'),
    # The newest goes with the newest of everything.
    Release('39', '2026.2', 'today'),
)
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]


def by_name(name):
    """The release of this name.

    :raises: system.Error when it is none that is known here.
    """
    for release in RELEASES:
        if release.name == name:
            return release
    raise system.Error(
        f"There is no constraints file for Ironic {name}, only for "
        f"{', '.join(release.name for release in RELEASES)}.")
