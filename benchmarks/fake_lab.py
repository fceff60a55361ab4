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

"""A fake-hypervisor cloud and an Ironic for the benchmarks with many nodes.

The Nova API is a real one, its hypervisor is Nova's own fake one: what is
measured is the way to Nova and Nova itself, not the guests.
"""

import concurrent.futures
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
sys.dont_write_bytecode = True

from onebox import ironic  # noqa: E402
from onebox import lab  # noqa: E402
from onebox import progress  # noqa: E402
from onebox import system  # noqa: E402

REQUEST = re.compile(
    r'^(\S+ \S+) \d+ INFO nova\.api\.openstack\.requestlog .*?"(\w+) '
    r'(/v2\.1\S*)" status', re.MULTILINE)
THREADS = 32


class Lab:
    """Servers of a minicloud and an Ironic that has them as nodes.

    :ivar cloud: the tenant's openstacksdk connection.
    :ivar nodes: the :class:`lab.Nodes` of Ironic.
    """

    def __init__(self, state, driver_options):
        """Start an Ironic beside a minicloud that is up.

        :param state: state folder of ``minicloud up --hypervisor fake``.
        :param driver_options: more options of [quintupleo], as a dict.
        """
        state = pathlib.Path(state)
        if not (state / 'clouds.yaml').exists():
            raise system.Error(f'No cloud is up in {state}: run '
                               '"tools/minicloud up --hypervisor fake".')
        self.log = state / 'logs' / 'nova-api.log'
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix='quintupleo-'))
        self._service = ironic.Ironic(
            state=self._folder, api_port=_free_port(),
            venv=os.environ.get('QUINTUPLEO_IRONIC_VENV'))
        system.make_dir(self._service.logs)
        shutil.copy(state / 'clouds.yaml', self._folder)
        self._service.install()
        self._service.configure('lo', {'cloud': lab.CLOUD, **driver_options})
        with progress.Progress('benchmark').stage('Ironic') as stage:
            self._service.start(stage, api_only=True)
        self.cloud = lab.HostCloud(self._service).connection
        self.nodes = lab.Nodes(self._service, images=None)
        self._servers = []

    def close(self):
        """Remove what was made."""
        each(lambda server: self.cloud.compute.delete_server(server),
             self._servers)
        self._service.stop()
        shutil.rmtree(self._folder)

    def add(self, number):
        """Make servers, and nodes that Ironic manages.

        :returns: list of (server, node).
        """
        compute = self.cloud.compute
        image = self.cloud.image.find_image('quintupleo-empty-bios',
                                            ignore_missing=False)
        flavor = compute.find_flavor('tiny', ignore_missing=False)

        def make(index):
            server = compute.create_server(
                name=f'benchmark-{time.time():.0f}-{index}',
                image_id=image.id, flavor_id=flavor.id, networks='none')
            self._servers.append(server)
            server = compute.wait_for_server(server, interval=1, wait=600)
            node = self.nodes.connection.baremetal.create_node(
                name=server.name, driver='quintupleo',
                driver_info={'quintupleo_server': server.id})
            self.nodes.connection.baremetal.set_node_provision_state(
                node, 'manage', wait=True, timeout=600)
            return server, node

        return each(make, range(number))

    @contextlib.contextmanager
    def requests(self):
        """Collect the requests that Nova's API answers meanwhile.

        :returns: a list of (time, method, path) that is filled at the end.
        """
        position, found = self.log.stat().st_size, []
        yield found
        with open(self.log, errors='replace') as source:
            source.seek(position)
            found += [
                (datetime.datetime.fromisoformat(moment), method, path)
                for moment, method, path in REQUEST.findall(source.read())]


def each(function, items):
    """Run a function with each of some items, many at a time.

    :returns: list of what it returned.
    """
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


def _free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]
