# SPDX-License-Identifier: Apache-2.0
"""Make constraints files: the package index as it was on a day.

What is held to one version is exempt from the day. What the ramdisk is made of
is pinned with hashes.
"""

import argparse
import datetime
import pathlib
import shutil
import sys
import tempfile

from onebox import releases
from onebox import system

DESCRIPTION = '''\
Makes the constraints file of a release: of each package the newest version
that the index had on the day of the release. Only the package itself, such as
Ironic, is taken with its later fixes.

For "agent": tools/images/agent/requirements.txt, with the hash of each file.
Versions that are there stay, but for those of requirements.in and what they
need; remove the file to renew all of them.
'''

AGENT = 'agent'
AGENT_FOLDER = pathlib.Path(__file__).parents[1] / 'images' / AGENT
# That of Debian 12, and the newest platform of tools/build-agent-ramdisk; the
# hashes are those of all files of a version.
AGENT_PYTHON = '3.11'
AGENT_PLATFORM = 'x86_64-manylinux_2_34'


def pin(release, log):
    """Write the constraints file of a release.

    :param release: the :class:`releases.Release`.
    :param log: file for the output of the tools.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted = pathlib.Path(folder) / 'wanted.txt'
        wanted.write_text('\n'.join(
            (*release.requirements, *release.held, *_lowest(release))))
        exempt = [release.package, *(
            name for name, equal, _ in (
                each.partition('==') for each in release.held) if equal)]
        until = [] if release.day == 'today' else [
            '--exclude-newer', release.day,
            *(f'--exclude-newer-package={name}=2100-01-01'
              for name in exempt)]
        text = system.run(
            [system.uv(log), 'pip', 'compile', '--quiet', '--no-header',
             '--no-annotate', '--no-config', '--python', releases.PYTHON,
             *until, wanted]).stdout
    day = str(datetime.date.today()) if release.day == 'today' else release.day
    note = ', the lowest of requirements.txt' if release.lowest else ''
    release.constraints.write_text(
        f'# Made by tools/pin-releases {release.constraints.stem}: '
        f'the libraries of {day}{note}.\n{text}')


def pin_agent(log):
    """Write the requirements of the ramdisk, and return their file.

    :param log: file for the output of the tools.
    """
    target = AGENT_FOLDER / 'requirements.txt'
    with tempfile.TemporaryDirectory() as folder:
        # uv keeps the versions that it finds in its output.
        output = pathlib.Path(folder) / target.name
        if target.exists():
            shutil.copy(target, output)
        system.run(
            [system.uv(log), 'pip', 'compile', '--quiet', '--no-header',
             '--no-annotate', '--no-config', '--generate-hashes',
             '--only-binary', ':all:', '--python-version', AGENT_PYTHON,
             # Nothing of the ramdisk is built in it.
             '--no-emit-package', 'setuptools',
             '--python-platform', AGENT_PLATFORM, '--output-file', output,
             AGENT_FOLDER / 'requirements.in'])
        text = output.read_text()
    target.write_text(f'# Made by tools/pin-releases {AGENT}.\n{text}')
    return target


def _lowest(release):
    if not release.lowest:
        return []
    return [f'{name}=={version}'
            for name, version in releases.lower_bounds().items()]


def main(argv=None):
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog='pin-releases',
                                     description=DESCRIPTION)
    parser.add_argument('releases', nargs='+', metavar='RELEASE',
                        help=f'a constraints file, such as ironic-24.1, or '
                             f'{AGENT}')
    log = system.make_dir(system.cache_dir()) / 'pins.log'
    try:
        for name in parser.parse_args(argv).releases:
            if name == AGENT:
                print(pin_agent(log))
                continue
            release = releases.by_file(name)
            pin(release, log)
            print(release.constraints)
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        return 1
    return 0
