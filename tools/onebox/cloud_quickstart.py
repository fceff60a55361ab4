# SPDX-License-Identifier: Apache-2.0
"""From a project in a cloud to a deployed virtual baremetal node in it.

Nothing of the machine changes but the cache.
"""

import json
import os
import re
import subprocess

from onebox import images as image_files
from onebox import ironic
from onebox import processes
from onebox import releases
from onebox import system

LAB = 'quickstart'
SAMPLE = ironic.REPOSITORY / 'etc' / 'quintupleo' / 'lab.yaml.sample'
NODE = f'{LAB}-node-0'
DISK_IMAGE = 'quintupleo-debian'
RESCUE = 'iPXE rescue image'
# Seconds; a cloud may emulate its servers.
TIMEOUT = 1800


class CloudQuickstart:
    """A lab in a project of the user's.

    :param shown: the :class:`progress.Progress`.
    :param cloud: entry of the user's clouds.yaml.
    :param up_line: what a deployed system says on its console.
    :param ironic_cloud: entry whose credentials the lab's Ironic gets; None to
        have an application credential made for it.
    """

    def __init__(self, shown, cloud, up_line, ironic_cloud=None):
        self._shown = shown
        self.cloud = cloud
        self._up_line = up_line
        self._ironic_cloud = ironic_cloud
        self.folder = system.cache_dir() / 'labs' / cloud
        self.clouds_yaml = self.folder / 'clouds.yaml'
        self._logs = self.folder / 'logs'
        self._images = image_files.Images(system.cache_dir(), self._logs)

    @property
    def venv(self):
        """The Python environment of the clients."""
        return system.cache_dir() / 'clients' / ('venv-' + system.digest(
            releases.NEWEST.constraints.read_text(),
            releases.REQUIREMENTS.read_text()))

    def up(self, deploy=True):
        """Make the lab, and deploy a node of it if wanted."""
        self._install()
        # The check judges servers by its small images.
        with self._shown.stage('Rescue image') as stage:
            self._upload(stage, [RESCUE], 'quintupleo-rescue-bios',
                         'quintupleo', 'image', 'create', '--iso',
                         self._images.rescue)
        with self._shown.stage('The cloud, checked'):
            self._show('quintupleo', 'check')
        with self._shown.stage('Images') as stage:
            self._upload(stage, [RESCUE, 'conductor image'],
                         'quintupleo-conductor',
                         'quintupleo', 'image', 'create', '--iso',
                         self._images.rescue, '--conductor-image',
                         self._images.conductor)
            # Private, as Ironic takes no shared one.
            self._upload(stage, ['Debian disk image'], DISK_IMAGE,
                         'image', 'create', DISK_IMAGE, '--file',
                         self._images.disk, '--disk-format', 'raw',
                         '--container-format', 'bare', '--private')
        with self._shown.stage('Lab: networks, servers, nodes'):
            self._create()
        if deploy:
            with self._shown.stage(f'{NODE}: active') as stage:
                self._deploy(stage)

    def down(self):
        """Remove the lab; the images stay in the project."""
        self._install()
        with self._shown.stage('Lab'):
            self._show('quintupleo', 'environment', 'delete',
                       '--ignore-missing', LAB)
        self.clouds_yaml.unlink(missing_ok=True)

    def _install(self):
        """Make the clients' environment, with this checkout as it is now."""
        for path in (self.folder, self._logs):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = self._logs / 'python.log'
        with self._shown.stage('Clients'):
            system.make_venv(
                self.venv, releases.NEWEST.companions, log,
                releases.NEWEST.constraints)
            ironic.install_checkout(self.venv, log)

    def _client(self, *words, cloud=None):
        """Return the words of a command, and its environment."""
        settings = {name: value for name, value in os.environ.items()
                    if not re.match(r'OS_(?!CLIENT_CONFIG_FILE)', name)
                    # Of the lab, as farewell() has it exported.
                    and value != str(self.clouds_yaml)}
        if cloud:
            settings['OS_CLIENT_CONFIG_FILE'] = str(self.clouds_yaml)
        return ([self.venv / 'bin' / 'openstack', '--os-cloud',
                 cloud or self.cloud, *map(str, words)], settings)

    def _read(self, *words, cloud=None):
        """Run the client, and return what it prints as JSON."""
        command, settings = self._client(*words, '-f', 'json', cloud=cloud)
        return json.loads(system.run(command, env=settings).stdout)

    def _run(self, *words, cloud=None):
        command, settings = self._client(*words, cloud=cloud)
        system.run(command, env=settings, timeout=TIMEOUT)

    def _show(self, *words):
        """Run the client with what it prints on the terminal."""
        command, settings = self._client(*words)
        if processes.call(command, env=settings, stdin=subprocess.DEVNULL):
            raise system.Error(
                f'"openstack --os-cloud {self.cloud} {" ".join(words)}" '
                'failed; see what it says above.')

    def _upload(self, stage, titles, name, *words):
        """Build and upload an image, unless the project has it.

        :param titles: keys of :data:`images.BUILDERS` that the command needs.
        :param name: name of the image, or of one that is uploaded with it.
        :param words: command that uploads it.
        """
        if name in {each['Name'] for each in self._read(
                'image', 'list', '--private')}:
            return
        for title in titles:
            stage.waiting(f'{title}: built')
            self._images.build(title)
        stage.waiting(f'{titles[-1]}: uploaded')
        with stage.step(titles[-1]):
            self._run(*words)

    def _create(self):
        path = self.folder / 'lab.yaml'
        path.write_text(lab_file(SAMPLE.read_text(), self._read(
            'network', 'list', '--external')))
        credentials = (['--ironic-os-cloud', self._ironic_cloud]
                       if self._ironic_cloud else [])
        self._show('quintupleo', 'environment', 'create', str(path), '--wait',
                   '--timeout', str(TIMEOUT), '--clouds-yaml',
                   str(self.clouds_yaml), *credentials)

    def _deploy(self, stage):
        image = self._read('image', 'show', DISK_IMAGE)['id']
        node = self._read('baremetal', 'node', 'show', NODE, cloud=LAB)
        if node['provision_state'] != 'active':
            self._run('baremetal', 'node', 'set', NODE, '--instance-info',
                      f'image_source={image}', cloud=LAB)
            self._run('baremetal', 'node', 'deploy', NODE, '--wait',
                      str(TIMEOUT), cloud=LAB)
        stage.waiting('the system on its console')
        command, settings = self._client('console', 'log', 'show', NODE)

        def line():
            for text in system.run(command, env=settings).stdout.splitlines():
                if self._up_line in text:
                    return text.strip()

        stage.note(processes.wait_for(
            line, TIMEOUT, f'the console of {NODE} to show the deployed '
            'system', interval=5))


def lab_file(sample, external_networks):
    """Return the file of a lab that is reached from outside of its cloud.

    :param sample: the sample, whose external network is "public".
    :param external_networks: those of the cloud, as the client lists them.
    :raises: Error when there is none.
    """
    names = sorted(each['Name'] for each in external_networks)
    if not names:
        raise system.Error(
            'This cloud has no external network, which the Ironic of the lab '
            'would be reached by. Copy etc/quintupleo/lab.yaml.sample, name a '
            'network that you reach, and run "openstack quintupleo '
            'environment create" with it.')
    name = 'public' if 'public' in names else names[0]
    text = re.sub(r'\bpublic\b(?!")', json.dumps(name), sample)
    return re.sub(r'^name: .*$', f'name: {LAB}', text, flags=re.MULTILINE)


def farewell(quickstart, deployed):
    """Return how to go on."""
    return f'''
Go on with:
    export PATH={quickstart.venv}/bin:$PATH
    export OS_CLIENT_CONFIG_FILE={quickstart.clouds_yaml}
    export OS_CLOUD={LAB}
    baremetal node list
    baremetal node {'undeploy' if deployed else 'show'} {NODE}
It all goes with:
    tools/quickstart --os-cloud {quickstart.cloud} --down'''
