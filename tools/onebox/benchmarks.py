# SPDX-License-Identifier: Apache-2.0
"""The benchmarks, with all that they need installed and started first."""

import argparse
import contextlib
import os
import subprocess
import sys

from onebox import ironic
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import settings
from onebox import processes
from onebox import progress
from onebox import system

FOLDER = ironic.REPOSITORY / 'benchmarks'
QUICKSTART = ironic.REPOSITORY / 'tools' / 'quickstart'
REQUIREMENTS = ('openstacksdk==4.*', 'jsonschema==4.*', 'tenacity==9.*',
                'oslo.log>=8', 'oslo.utils>=9')
# The hypervisor of the cloud that each runs in, None for tools/quickstart.
HYPERVISORS = {
    'clean_and_deploy': None,
    'deployment': None,
    'environments': 'fake',
    'one_node': 'libvirt',
    'power_off_window': 'libvirt',
    'power_sync': 'fake',
    'many_to_pxe': 'fake',
}
DESCRIPTION = '''\
Brings a host cloud up, measures in it, prints a table and removes the cloud.
What follows the name goes to the benchmark: "--write" keeps the table in
benchmarks/results.json, which the documentation shows; "--help" has the rest.
'''


def _parser():
    parser = argparse.ArgumentParser(prog='benchmark', description=DESCRIPTION)
    parser.add_argument('name', choices=HYPERVISORS)
    parser.add_argument('arguments', nargs=argparse.REMAINDER)
    return parser


def _measure(chosen, cloud, shown):
    with shown.stage('Packages'):
        system.make_dir(cloud.state)
        system.make_dir(cloud.logs, 0o700)
        system.install_packages(['python3-venv'], cloud.apt_log)
        venv = (system.cache_dir() / 'benchmarks'
                / f'python-{system.digest(*REQUIREMENTS)}')
        system.make_venv(venv, REQUIREMENTS,
                         cloud.logs / 'python-benchmarks.log')
    variables = {**os.environ, 'QUINTUPLEO_STATE_DIR': str(cloud.state),
                 'PYTHONDONTWRITEBYTECODE': '1'}
    command = [venv / 'bin' / 'python', FOLDER / f'{chosen.name}.py',
               *chosen.arguments]
    if {'-h', '--help'} & set(chosen.arguments):
        return subprocess.run(command).returncode
    with _host(HYPERVISORS[chosen.name], cloud, shown, variables):
        return processes.call(command, env=variables)


@contextlib.contextmanager
def _host(hypervisor, cloud, shown, variables):
    """Have a cloud meanwhile."""
    if hypervisor is None:
        try:
            if subprocess.run([QUICKSTART, '--no-deploy'],
                              env=variables).returncode:
                raise system.Error('tools/quickstart failed, see above.')
            yield
        finally:
            subprocess.run([QUICKSTART, '--down'], env=variables)
        return
    with minicloud.lock(cloud):
        try:
            minicloud.up(cloud, shown, hypervisor)
            yield
        finally:
            minicloud.down(cloud, shown)


def main(argv=None):
    """Run the command; return its exit code."""
    chosen = _parser().parse_args(argv)
    cloud = settings.Settings(os.environ.get(
        'QUINTUPLEO_STATE_DIR', system.STATE_DIR + '-benchmarks'))
    processes.undo_when_ended()
    try:
        system.require_root()
        return _measure(chosen, cloud, progress.Progress('benchmark'))
    except system.Error as error:
        print(f'\n{error.report()}', file=sys.stderr)
        return 1
