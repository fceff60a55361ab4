# SPDX-License-Identifier: Apache-2.0
"""From nothing to a deployed virtual baremetal node, on one machine."""

import argparse
import concurrent.futures
import contextlib
import os
import shutil
import site
import sys

from onebox import cloud_quickstart
from onebox import images as image_files
from onebox import ironic
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import network
from onebox.minicloud import services
from onebox.minicloud import settings
from onebox import processes
from onebox import progress
from onebox import releases
from onebox import system

DESCRIPTION = '''\
Makes a host cloud on this machine (minicloud), two virtual baremetal servers
in it and an Ironic that deploys the first of them, then says how to go on.
With "--os-cloud" both are in a cloud of yours: a lab of two servers and one
that runs their Ironic. Run it again to go on from where it was; "--down"
removes everything but the cache and the logs.
'''
UP_LINE = 'quintupleo: deployed Debian system is up'


class Quickstart:
    """All parts together.

    :param shown: the :class:`progress.Progress`.
    :param state: folder of all state.
    :param venv: see :class:`ironic.Ironic`.
    :param agent: path of a checkout of ironic-python-agent for the ramdisk;
        None for the one that is built into it.
    :param ironics: further arguments of :class:`ironic.Ironic`.
    """

    def __init__(self, shown, state=None, venv=None, agent=None, **ironics):
        self.cloud = settings.Settings(state)
        self.ironic = ironic.Ironic(state, venv=venv, **ironics)
        self._agent = agent
        self.images = image_files.Images(system.cache_dir(),
                                         self.ironic.logs)
        self._shown = shown
        self.host_cloud = None
        self.nodes = None

    def prepare(self, network_first=False, images=(), layer3=False):
        """Install, build, and start all services.

        What can be built without the cloud is, while the cloud comes up.

        :param network_first: whether to have what network-first servers
            need, too: volumes and an image.
        :param images: titles of further images to build.
        :param layer3: whether the cloud has routers and floating IPs.
        """
        titles = [*image_files.USUAL, *images]
        if network_first:
            titles.append('iPXE network-first image')
        with self._shown.stage('Debian packages'):
            system.make_dir(self.ironic.logs, 0o700)
            system.install_packages(
                ['python3-venv',
                 *services.packages('libvirt', network_first, layer3),
                 *ironic.PACKAGES], self.cloud.apt_log)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            built = {title: pool.submit(work) for title, work in (
                ('Ironic and its clients', self.ironic.install),
                *((title, lambda title=title: self.images.build(title))
                  for title in titles))}
            try:
                minicloud.up(self.cloud, self._shown, 'libvirt',
                             volumes=network_first, layer3=layer3)
                with self._shown.stage('Images and Ironic') as stage:
                    for title, future in built.items():
                        stage.waiting(title)
                        with stage.step(title):
                            future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def furnish(self, machines=None):
        """Make images, network and servers, and start Ironic beside them.

        :param machines: list of :class:`lab.Machine`; None for the usual
            ones.
        """
        lab = self._lab()
        if machines is None:
            machines = lab.MACHINES
        with self._shown.stage('Images and servers in the cloud') as stage:
            with stage.step('images'):
                self.host_cloud.create_images(self.images.rescue)
            with stage.step('network'):
                network_id = self.host_cloud.create_network()
                device = network.plug_network(
                    self.cloud, lab.NETWORK,
                    f'{self.ironic.address}/{self.ironic.network.prefixlen}')
            server_ids = {}
            for machine in machines:
                with stage.step(f'server {machine.name}'):
                    server_ids[machine] = self.host_cloud.create_server(
                        machine, network_id, stage)
        with self._shown.stage('Ironic') as stage:
            self.ironic.configure(
                device, {'cloud': lab.CLOUD},
                glance=self.host_cloud.password_options())
            self._link_images()
            self.ironic.start(stage)
            self.ironic.add_to(self.cloud.clouds_yaml)
            self.nodes = lab.Nodes(self.ironic, self.images)
            for machine, server_id in server_ids.items():
                self.nodes.enroll(machine, server_id)

    def attach(self):
        """Use what an earlier run left running."""
        if not self.cloud.exists() or not self.ironic.conf.exists():
            raise system.Error('Nothing of quickstart is here: run '
                               'tools/quickstart first.')
        lab = self._lab()
        self.nodes = lab.Nodes(self.ironic, self.images)

    def _lab(self):
        """Import what needs openstacksdk, which is in Ironic's venv."""
        for packages in (self.ironic.venv / 'lib').glob(
                'python3*/site-packages'):
            others = sys.path[:]
            site.addsitedir(str(packages))
            # The machine's own packages may be too old for it.
            sys.path[:] = [*sys.path[len(others):], *others]
        from onebox import lab
        self.host_cloud = lab.HostCloud(self.ironic)
        return lab

    def _link_images(self):
        """Put the images where the agents fetch them from."""
        for path in (self.images.agent_kernel, self.images.agent_ramdisk,
                     self.images.disk, self.images.esp):
            target = self.ironic.images / path.name
            if self._agent and path == self.images.agent_ramdisk:
                target.unlink(missing_ok=True)
                self.images.write_ramdisk(self._agent, target)
                continue
            if target.exists() and target.samefile(path):
                continue
            target.unlink(missing_ok=True)
            try:
                os.link(path, target)
            except OSError:
                # The cache is on another file system.
                shutil.copyfile(path, target)

    def deploy(self, name):
        """Bring a node from where it is to active, and see it boot."""
        state = self.nodes.node(name).provision_state
        if state == 'enroll':
            with self._shown.stage(f'{name}: manageable') as stage:
                self.nodes.provision(name, 'manage', 'manageable', stage, 120)
        if state in ('enroll', 'manageable'):
            with self._shown.stage(
                    f'{name}: available, with cleaning') as stage:
                self.nodes.provision(name, 'provide', 'available', stage, 900)
        if state != 'active':
            with self._shown.stage(f'{name}: active') as stage:
                self.nodes.deploy(name, stage)
        with self._shown.stage(f'{name}: boots from its disk') as stage:
            self.wait_for_system(name, stage)

    def wait_for_system(self, name, stage, timeout=300):
        """Wait until the console of a node shows the deployed system.

        :returns: the line that the system prints when it is up.
        """
        stage.waiting('the system on its console')

        def line():
            for text in self.host_cloud.console_log(name).splitlines():
                if UP_LINE in text:
                    return text.strip()

        found = processes.wait_for(
            line, timeout, f'the console of {name} to show the deployed '
            f'system (openstack --os-cloud minicloud console log show {name})',
            interval=1)
        stage.note(found)
        return found

    def down(self):
        """Remove everything but the cache and the logs."""
        with self._shown.stage('Ironic'):
            self.ironic.stop()
        minicloud.down(self.cloud, self._shown)
        self.ironic.remove()


@contextlib.contextmanager
def for_tests(shown, state=None, machines=None, **preparation):
    """Bring all of it up with nothing deployed, and down again at the end.

    :param shown: the :class:`progress.Progress`.
    :param state: folder of all state.
    :param machines: see :meth:`Quickstart.furnish`.
    :param preparation: arguments of :meth:`Quickstart.prepare`.
    :returns: the :class:`Quickstart`, as a context.
    """
    everything = Quickstart(shown, state,
                            os.environ.get('QUINTUPLEO_IRONIC_VENV'))
    with minicloud.lock(everything.cloud):
        everything.cloud = settings.Settings(state)
        if everything.cloud.exists() or everything.ironic.root.exists():
            # A run was interrupted here: none of it is to be met again.
            everything.down()
            everything.cloud = settings.Settings(state)
        try:
            everything.prepare(**preparation)
            everything.furnish(machines)
            yield everything
        finally:
            everything.down()


def _checkout_of(package):
    """Return what argparse takes for the type of a checkout's path.

    :param package: the Python package that is in it.
    """
    def path(text):
        if not os.path.exists(os.path.join(text, package, '__init__.py')):
            raise argparse.ArgumentTypeError(
                f'there is no folder {package} with a Python package in '
                f'{text}')
        return text

    return path


def _parser():
    result = argparse.ArgumentParser(
        prog='quickstart', description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument('--down', action='store_true',
                        help='remove what quickstart made')
    result.add_argument(
        '--os-cloud', metavar='NAME',
        help='use this cloud of your clouds.yaml, and change nothing here '
             'but the cache')
    result.add_argument(
        '--ironic-os-cloud', metavar='NAME',
        help='with --os-cloud: the Ironic there gets the credentials of this '
             'entry of your clouds.yaml, if you may make no application '
             'credential')
    result.add_argument('--no-deploy', action='store_true',
                        help='stop when the nodes are enrolled')
    chosen = result.add_mutually_exclusive_group()
    chosen.add_argument(
        '--ironic', metavar='PATH', type=_checkout_of('ironic'),
        help='run this checkout of Ironic; again after a change to it')
    chosen.add_argument(
        '--ironic-version', metavar='VERSION',
        help=f'run this release of Ironic, such as 35.0, instead of '
             f'{releases.NEWEST.name}; {releases.OLDEST.name} or later')
    result.add_argument(
        '--agent', metavar='PATH', type=_checkout_of('ironic_python_agent'),
        help='have this checkout of ironic-python-agent in the ramdisk; again '
             'after a change to it')
    return result


def _parse(argv):
    """Return the arguments; an error ends the process."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.os_cloud and (arguments.agent or arguments.ironic
                               or arguments.ironic_version):
        parser.error('--os-cloud runs what is in the conductor image: build '
                     'one with "tools/build-conductor-image --ironic VERSION"')
    if arguments.ironic_os_cloud and not arguments.os_cloud:
        parser.error('--ironic-os-cloud goes with --os-cloud only')
    return arguments


def main(argv=None):
    """Run the command; return its exit code."""
    arguments = _parse(argv)
    command = 'tools/quickstart' + (
        f' --os-cloud {arguments.os_cloud}' if arguments.os_cloud else '')
    shown = progress.Progress(
        'quickstart', 1 + minicloud.STAGES_DOWN
        if arguments.down and not arguments.os_cloud else None)
    try:
        if arguments.os_cloud:
            return _in_cloud(arguments, shown)
        system.require_root()
        everything = Quickstart(
            shown, agent=arguments.agent, checkout=arguments.ironic,
            version=arguments.ironic_version)
        with minicloud.lock(everything.cloud):
            everything.cloud = settings.Settings()
            if arguments.down:
                everything.down()
                return 0
            everything.prepare()
            everything.furnish()
            if not arguments.no_deploy:
                everything.deploy('bios-0')
    except system.Error as error:
        shown.summary()
        print(f'\nquickstart stopped: {error.report()}\n'
              'Run it again to go on from here, or with --down to remove '
              'what it made.', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f'\nInterrupted. What runs was left running: "{command}" goes '
              f'on, "{command} --down" removes it.', file=sys.stderr)
        return 130
    shown.summary()
    _farewell(everything, deployed=not arguments.no_deploy)
    return 0


def _in_cloud(arguments, shown):
    """Run the command for a cloud of the user's."""
    everything = cloud_quickstart.CloudQuickstart(
        shown, arguments.os_cloud, UP_LINE, arguments.ironic_os_cloud)
    if arguments.down:
        everything.down()
        return 0
    everything.up(deploy=not arguments.no_deploy)
    shown.summary()
    print(cloud_quickstart.farewell(everything,
                                    deployed=not arguments.no_deploy))
    return 0


def _farewell(everything, deployed):
    if deployed:
        print('\nWhat Nova did to server bios-0, all of it as an ordinary '
              'tenant:')
        for when, action, message in everything.host_cloud.actions('bios-0'):
            print(f'  {when}  {action:<10} {message}')
    print(f'''
Go on with:
    export PATH={everything.ironic.venv}/bin:$PATH
    export OS_CLIENT_CONFIG_FILE={everything.cloud.clouds_yaml}
    export OS_CLOUD={ironic.CLOUD}
    baremetal node list
    baremetal node {'undeploy' if deployed else 'manage'} bios-0
and for the host cloud:
    openstack --os-cloud minicloud server list
    openstack --os-cloud minicloud console log show bios-0
It all goes with:
    tools/quickstart --down''')
