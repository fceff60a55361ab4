# SPDX-License-Identifier: Apache-2.0
"""What later tiers need, fetched and built while the first ones run."""

import concurrent.futures
import os
import subprocess
import sys

from onebox import debian
from onebox import images
from onebox import ironic
from onebox.minicloud import services
from onebox import processes
from onebox import system
from onebox import tempest

LIBVIRT_TIERS = ('e2e', 'tempest')
CLOUD_TIERS = ('functional', *LIBVIRT_TIERS)


def packages(tiers):
    """Return the Debian packages of these tiers, each once.

    :param tiers: names of tiers.
    """
    # One of the unit tests makes a ramdisk with cpio.
    names = ['python3-venv', 'git', 'cpio']
    if 'lint' in tiers:
        names.append('shellcheck')
    if 'functional' in tiers:
        # Ironic makes ISOs here, too.
        names += [*services.packages('fake'), *ironic.PACKAGES]
    if set(tiers) & set(LIBVIRT_TIERS):
        names += [*services.packages('libvirt', volumes=True),
                  *ironic.PACKAGES]
    if 'images' in tiers:
        names += ['qemu-system-x86', 'ovmf', 'xorriso', 'mtools']
    if 'tempest' in tiers:
        names += tempest.PACKAGES
    if debian.TIER in tiers:
        names += debian.PACKAGES
    return sorted(set(names))


class Preparation:
    """Commands of this repository that run beside the tests.

    One that fails is not an error here: the tier that needs its result runs
    it again, and says what is wrong.

    :param tiers: names of the tiers to come.
    :param state: folder for the state and the logs of the commands.
    """

    def __init__(self, tiers, state):
        self._state = state
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        tools = ironic.REPOSITORY / 'tools'
        self._commands = []
        if set(tiers) & set(CLOUD_TIERS):
            self._commands.append(self._pool.submit(
                self._run, tools / 'minicloud', 'install', '--hypervisor',
                'fake'))
        if set(tiers) & set(LIBVIRT_TIERS):
            titles = [*images.USUAL]
            if 'e2e' in tiers:
                titles += images.OF_TESTS
            self._commands.append(self._pool.submit(
                self._run, sys.executable, '-m', 'onebox.images', *titles))

    def awaited(self, tier):
        """Return the commands that a tier waits for.

        Functional tests wait for the images of later tiers, too: they have
        limits of time, and unit tests beside them already.
        """
        return [command for command in self._commands
                if tier in CLOUD_TIERS and not command.done()]

    def wait(self, tier):
        """Wait until what a tier needs is there."""
        concurrent.futures.wait(self.awaited(tier))

    def end(self):
        """Let none of it run on."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, *command):
        system.make_dir(self._state)
        with open(self._state / 'preparation.log', 'a') as log:
            processes.call(
                [str(word) for word in command], stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, env={
                    **os.environ, 'QUINTUPLEO_STATE_DIR': str(self._state),
                    'PYTHONPATH': str(ironic.REPOSITORY / 'tools'),
                    'PYTHONDONTWRITEBYTECODE': '1'})
