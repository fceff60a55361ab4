# SPDX-License-Identifier: Apache-2.0
"""The images that the machines boot, each built once and kept."""

import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile

from onebox import processes
from onebox import system

TOOLS = pathlib.Path(__file__).resolve().parents[1]

# Builder, its --output below the cache, the files that it makes there.
BUILDERS = {
    'iPXE rescue image': (('build-ipxe-image',), 'ipxe.iso', ('ipxe.iso',)),
    'iPXE network-first image': (
        ('build-ipxe-image', '--network-first'), 'ipxe-network-first.iso',
        ('ipxe-network-first.iso',)),
    'EFI boot loader': (('build-esp-image',), 'esp.img', ('esp.img',)),
    'agent ramdisk': (('build-agent-ramdisk',), '.',
                      ('agent.kernel', 'agent.ramdisk')),
    'Debian disk image': (('build-disk-image',), 'debian.raw',
                          ('debian.raw',)),
    'Debian image with keepalived': (
        ('build-disk-image', '--package', 'keepalived'),
        'debian-keepalived.raw', ('debian-keepalived.raw',)),
    'Debian image with GRUB': (
        ('build-disk-image', *itertools.chain.from_iterable(
            ('--package', each) for each in (
                'grub2-common', 'grub-pc-bin', 'grub-efi-amd64-bin'))),
        'debian-grub.raw', ('debian-grub.raw',)),
    'conductor image': (('build-conductor-image',), 'conductor.qcow2',
                        ('conductor.qcow2',)),
}
# What each of them is made of, below the repository; all have common.sh.
SOURCES = {
    'build-ipxe-image': ('tools/images/ipxe',),
    'build-agent-ramdisk': ('tools/images/agent',),
    'build-disk-image': ('tools/images/disk.sh', 'tools/images/debian',
                         'tools/images/disk'),
    'build-esp-image': (),
    'build-conductor-image': (
        'tools/images/disk.sh', 'tools/images/debian',
        'tools/images/conductor', 'tools/images/agent',
        'tools/build-agent-ramdisk', 'tools/onebox/ironic_files.py',
        'tools/onebox/constraints', 'quintupleo_power', 'setup.cfg')}
# Images that are in others.
PARTS = {'conductor image': ('agent ramdisk', 'EFI boot loader')}
# What a rescue, virtual media and a deployment take.
USUAL = ('iPXE rescue image', 'EFI boot loader', 'agent ramdisk',
         'Debian disk image')
# Where another ironic-python-agent is in the ramdisk, and what says so.
AGENT_FOLDER = '/opt/ironic-python-agent'
AGENT_SETTING = ('/etc/systemd/system/ironic-python-agent.service.d/'
                 'checkout.conf')
OF_TESTS = ('iPXE network-first image', 'Debian image with keepalived')


class Images:
    """The images of this machine's cache.

    :param cache: folder of what can be made again.
    :param logs: folder of logs.
    """

    def __init__(self, cache, logs):
        self.folder = pathlib.Path(cache) / 'images'
        self._logs = pathlib.Path(logs)
        self.rescue = self.folder / 'ipxe.iso'
        self.network_first = self.folder / 'ipxe-network-first.iso'
        self.esp = self.folder / 'esp.img'
        self.agent_kernel = self.folder / 'agent.kernel'
        self.agent_ramdisk = self.folder / 'agent.ramdisk'
        self.disk = self.folder / 'debian.raw'
        self.keepalived = self.folder / 'debian-keepalived.raw'
        self.conductor = self.folder / 'conductor.qcow2'

    def build(self, title):
        """Build what a builder makes, unless its recipe did not change.

        :param title: a key of ``BUILDERS``.
        :raises: Error that names the builder's log.
        """
        for part in PARTS.get(title, ()):
            self.build(part)
        builder, output, made = BUILDERS[title]
        name = ''.join(builder)
        mark = self.folder / (name + '.recipe')
        recipe = self._recipe(builder[0])
        system.make_dir(self.folder)
        if (mark.exists() and mark.read_text() == recipe
                and all((self.folder / name).exists() for name in made)):
            return
        log = self._logs / (name + '.log')
        mark.unlink(missing_ok=True)
        with open(log, 'w') as said:
            code = processes.call(
                [TOOLS / builder[0], *builder[1:], '--output',
                 self.folder / output],
                stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT)
        if code:
            raise system.Error(f'{builder[0]} failed with exit code {code}.',
                               log)
        system.write_file(mark, recipe, 0o644)

    def write_ramdisk(self, agent, target):
        """Write the agent ramdisk with another ironic-python-agent in it.

        The kernel unpacks what follows an archive over it.

        :param agent: path of a checkout of ironic-python-agent.
        :param target: path of the ramdisk that is written.
        """
        package = pathlib.Path(agent) / 'ironic_python_agent'
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(
                package, folder + AGENT_FOLDER + '/ironic_python_agent',
                ignore=shutil.ignore_patterns('tests', '__pycache__'))
            setting = pathlib.Path(folder + AGENT_SETTING)
            setting.parent.mkdir(parents=True)
            setting.write_text(
                f'[Service]\nEnvironment=PYTHONPATH={AGENT_FOLDER}\n')
            shutil.copyfile(self.agent_ramdisk, target)
            with open(target, 'ab') as ramdisk:
                # An archive begins at a multiple of four bytes.
                ramdisk.write(bytes(-ramdisk.tell() % 4))
                ramdisk.flush()
                names = [str(path.relative_to(folder))
                         for path in sorted(pathlib.Path(folder).rglob('*'))]
                subprocess.run(
                    ['cpio', '--quiet', '--create', '--format=newc',
                     '--owner=0:0'], cwd=folder, check=True, text=True,
                    input='\n'.join(names), stdout=ramdisk)

    @staticmethod
    def _recipe(builder):
        sources = [TOOLS / builder, TOOLS / 'images' / 'common.sh']
        for name in SOURCES[builder]:
            path = TOOLS.parent / name
            sources += sorted(
                each for each in (path, *path.rglob('*'))
                if each.is_file() and each.suffix != '.pyc')
        return system.digest(*(path.read_text() for path in sources))


def main(titles):
    """Build images.

    :param titles: keys of ``BUILDERS``.
    """
    processes.undo_when_ended()
    logs = system.make_dir(system.state_dir() / 'logs', 0o700)
    for title in titles:
        Images(system.cache_dir(), logs).build(title)


if __name__ == '__main__':
    main(sys.argv[1:])
