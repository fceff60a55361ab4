# SPDX-License-Identifier: Apache-2.0
"""A host cloud and an Ironic for the benchmarks.

The Nova API is a real one. With many nodes its hypervisor is Nova's own fake
one: what is measured is the way to Nova and Nova itself, not the guests.
"""

import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'tools'))
sys.dont_write_bytecode = True

import nova_copies  # noqa: E402
from onebox import ironic  # noqa: E402
from onebox import lab  # noqa: E402
from onebox.minicloud import cloud as minicloud  # noqa: E402
from onebox.minicloud import database  # noqa: E402
from onebox.minicloud import settings  # noqa: E402
from onebox import processes  # noqa: E402
from onebox import progress  # noqa: E402
from onebox import system  # noqa: E402
import sushy_tools  # noqa: E402

REQUEST = re.compile(
    r'^(\S+ \S+) \d+ INFO nova\.api\.openstack\.requestlog .*?"(\w+) '
    r'(/v2\.1\S*)" status', re.MULTILINE)
THREADS = 32
# The share of its time that a quiet machine does nothing, and the seconds to
# wait for that at the most.
QUIET = 0.85
QUIET_PATIENCE = 10
# Servers that are asked for at once, which Nova builds one by one, and how
# many of them are built: more than these are copies.
BATCH = 50
MOST_BUILT = 100

# Of an Ironic that has nodes without any hardware, too.
IDLE_LINES = (
    'enabled_hardware_types = quintupleo,fake-hardware',
    'enabled_power_interfaces = quintupleo,fake',
    'enabled_management_interfaces = quintupleo,fake')

# With SQLite a standalone Ironic needs no client of MariaDB.
DATABASE_CLIENT = 'PyMySQL==1.1.*'
DATABASE_CONF = """
[database]
connection = mysql+pymysql://{name}:{name}@localhost/{name}?unix_socket={socket}
"""

# All nodes of an Ironic straight into its database, as it would have them long
# after they were enrolled.
SET_NODES = """
import json, sys
from ironic.common import context, service
from ironic import objects
from oslo_utils import uuidutils
service.prepare_service(['benchmark', '--config-file', sys.argv[1]])
admin = context.get_admin_context()
for node in objects.Node.list(admin):
    node.destroy()
driver, driver_infos = json.load(sys.stdin)
# What the first pass of power sync writes otherwise, for minutes.
known = {'properties': {'vendor': 'openstack foundation'}, 'boot_mode': 'bios',
         'health': 'OK'} if driver == 'quintupleo' else {}
for driver_info in driver_infos:
    objects.Node(
        admin, uuid=uuidutils.generate_uuid(),
        driver='fake-hardware' if driver == 'fake' else driver,
        driver_info=driver_info, power_state='power on', **known,
        provision_state='available', boot_interface='pxe',
        deploy_interface='direct', network_interface='noop',
        power_interface=driver, management_interface=driver).create()
"""


class Process:
    """A process tree, as the kernel counts what it uses."""

    def __init__(self, pids):
        self._pids = pids

    def cpu_seconds(self):
        """Processor time in seconds, of the user and of the kernel."""
        ticks = 0
        for pid in self._pids:
            words = pathlib.Path(f'/proc/{pid}/stat').read_text()
            words = words.rpartition(')')[2].split()
            ticks += int(words[11]) + int(words[12])
        return ticks / os.sysconf('SC_CLK_TCK')

    def memory(self):
        """Resident memory in bytes."""
        return sum(
            int(pathlib.Path(f'/proc/{pid}/statm').read_text().split()[1])
            for pid in self._pids) * os.sysconf('SC_PAGE_SIZE')

    def threads(self):
        """How many threads there are."""
        return sum(len(list(pathlib.Path(f'/proc/{pid}/task').iterdir()))
                   for pid in self._pids)


class Conductor:
    """A process of :mod:`conductor`."""

    def __init__(self, process, log):
        self._process = process
        self._log = log

    def ask(self, order, nodes):
        """Give an order for nodes; return its answer without errors.

        :raises: system.Error with the first error.
        """
        self._process.stdin.write(
            json.dumps({'order': order, 'nodes': nodes}) + '\n')
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise system.Error('The conductor has ended.', self._log)
        answer = json.loads(answer)
        errors = answer.pop('errors')
        if errors:
            raise system.Error(f'{len(errors)} nodes failed: {errors[0]}',
                               self._log)
        return answer


class Lab:
    """Servers of a minicloud and an Ironic that has them as nodes.

    :ivar cloud: the tenant's openstacksdk connection.
    :ivar nodes: the :class:`lab.Nodes` of Ironic.
    """

    def __init__(self, state, driver_options, *lines, peer=None):
        """Start an Ironic beside a minicloud that is up.

        :param state: state folder of ``minicloud up``.
        :param driver_options: more options of [quintupleo], as a dict.
        :param lines: more lines of its configuration.
        :param peer: what to install as :mod:`sushy_tools` to start it, too.
        """
        state = pathlib.Path(state)
        if not (state / 'clouds.yaml').exists():
            raise system.Error(f'No cloud is up in {state}: run '
                               '"tools/benchmark", which brings one up.')
        self.log = state / 'logs' / 'nova-api.log'
        self.servers = []
        processes.undo_when_ended()
        with contextlib.ExitStack() as undo:
            self._make(state, driver_options, lines, peer, undo)
            self._undo = undo.pop_all()

    def _make(self, state, driver_options, lines, peer, undo):
        """Make all of it.

        :param undo: a contextlib.ExitStack, which is told what to undo.
        """
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix='quintupleo-'))
        undo.callback(shutil.rmtree, self._folder)
        self._service = ironic.Ironic(
            state=self._folder, api_port=processes.free_port(),
            venv=os.environ.get('QUINTUPLEO_IRONIC_VENV'))
        system.make_dir(self._service.logs)
        if peer:
            lines += sushy_tools.IRONIC_LINES
            self._service = ironic.Ironic(
                state=self._folder, api_port=self._service.api_port,
                venv=sushy_tools.ironic_venv(self._service.cache,
                                             self._service.logs))
        shutil.copy(state / 'clouds.yaml', self._folder)
        self._service.install()
        self._service.configure('lo', {'cloud': lab.CLOUD, **driver_options})
        self._write_database(settings.Settings(state))
        undo.callback(self._drop_database)
        with open(self._service.conf, 'a') as conf:
            # Sections may be there before; what comes last counts.
            conf.write('\n'.join(['', *lines, '']))
        self._make_tables()
        undo.callback(self._service.stop)
        self._start()
        tenant = lab.HostCloud(self._service)
        self.cloud = tenant.connection
        undo.callback(self._delete_servers)
        if self.cloud.image.find_image('quintupleo-rescue-bios') is None:
            tenant.create_images(self._empty_iso())
        self.peer = peer and sushy_tools.Emulator(
            peer, self._service.cache, self._folder,
            self._service.environment())
        if peer:
            undo.callback(self.peer.close)
        self.nodes = lab.Nodes(self._service, images=None)
        # Ironic's API closes connections that are idle for ten seconds,
        # sometimes just when the next request is on its way.
        self.nodes.connection.session.additional_headers[
            'Connection'] = 'close'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Remove what was made."""
        self._undo.close()

    def _delete_servers(self):
        each(lambda server: self.cloud.compute.delete_server(server),
             self.servers)

    def _drop_database(self):
        database.sql(self._cloud, (
            f'DROP DATABASE {self._schema};'
            f"DROP USER '{self._schema}'@'localhost';"))

    def _empty_iso(self):
        """Make what Glance takes for an ISO 9660 file system."""
        path = self._folder / 'rescue.iso'
        content = bytearray(64 * 1024)
        content[32768:32775] = b'\x01CD001\x01'
        content[34816:34823] = b'\xffCD001\x01'
        path.write_bytes(content)
        return path

    def _write_database(self, cloud):
        """Use the cloud's database server: in SQLite many nodes block all."""
        system.run([self._service.venv / 'bin' / 'pip', 'install', '--quiet',
                    '--disable-pip-version-check', DATABASE_CLIENT],
                   log=self.ironic_log)
        self._cloud, self._schema = cloud, f'ironic_{secrets.token_hex(4)}'
        # The account is the database's name and password in one.
        database.sql(cloud, (
            f'CREATE DATABASE {self._schema};'
            f"GRANT ALL ON {self._schema}.* TO '{self._schema}'@'localhost' "
            f"IDENTIFIED BY '{self._schema}';"))
        with open(self._service.conf, 'a') as conf:
            conf.write(DATABASE_CONF.format(
                name=self._schema,
                socket=cloud.run / 'mariadb' / 'socket'))

    def _make_tables(self):
        system.run([self._service.venv / 'bin' / 'ironic-dbsync',
                    '--config-file', self._service.conf, 'create_schema'],
                   log=self.ironic_log, env=self._service.environment())

    def _start(self):
        with progress.Progress('benchmark').stage('Ironic') as stage:
            self._service.start(stage, api_only=True)

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
            self.servers.append(server)
            server = compute.wait_for_server(server, interval=1, wait=600)
            node = self.nodes.connection.baremetal.create_node(
                name=server.name, driver='quintupleo',
                driver_info={'quintupleo_server': server.id})
            self.nodes.connection.baremetal.set_node_provision_state(
                node, 'manage', wait=True, timeout=600)
            return server, node

        return each(make, range(number))

    def add_idle_nodes(self, number):
        """Make nodes of Ironic's fake hardware; return them."""
        return [self.nodes.connection.baremetal.create_node(
            name=f'idle-{index}', driver='fake-hardware')
            for index in range(number)]

    def add_servers(self, number):
        """Make servers; those beyond the first are copies of them.

        :returns: list of UUIDs.
        """
        built = min(number, max(0, MOST_BUILT - len(self.servers)))
        made = [server.id for server in self.build_servers(built)]
        copied = number - len(made)
        if copied:
            made += nova_copies.make(
                self._cloud, [server.id for server in self.servers], copied)
            self._undo.callback(nova_copies.remove, self._cloud)
        return made

    def build_servers(self, number):
        """Make servers, in batches.

        :returns: list of servers.
        """
        compute = self.cloud.compute
        image = self.cloud.image.find_image('quintupleo-empty-bios',
                                            ignore_missing=False)
        flavor = compute.find_flavor('tiny', ignore_missing=False)
        made = []
        while len(made) < number:
            count = min(BATCH, number - len(made))
            name = f'benchmark-{time.time():.0f}'
            compute.create_server(
                name=name, image_id=image.id, flavor_id=flavor.id,
                networks='none', min_count=count, max_count=count)
            made += self._built(name, count)
        self.servers += made
        return made

    def _built(self, name, count):
        deadline = time.monotonic() + 600
        while True:
            found = list(self.cloud.compute.servers(name=f'^{name}'))
            failed = [server for server in found if server.status == 'ERROR']
            if failed:
                raise system.Error(f'{failed[0].name}: {failed[0].fault}')
            if sum(server.status == 'ACTIVE' for server in found) == count:
                return found
            if time.monotonic() > deadline:
                raise system.Error(f'{name}: {count} servers are not built.')
            time.sleep(2)

    def set_nodes(self, driver, driver_infos):
        """Start Ironic anew, with other nodes than it had.

        :param driver: their hardware type.
        :param driver_infos: that of each.
        """
        self._service.stop()
        system.run(
            [self._service.venv / 'bin' / 'python', '-c', SET_NODES,
             self._service.conf], log=self.ironic_log,
            env=self._service.environment(),
            input=json.dumps([driver, driver_infos]))
        self._start()

    @contextlib.contextmanager
    def conductor(self):
        """Have Ironic's conductor code alone, without its API.

        :returns: a :class:`Conductor`.
        """
        self._service.stop()
        try:
            with subprocess.Popen(
                    [self._service.venv / 'bin' / 'python',
                     pathlib.Path(__file__).with_name('conductor.py'),
                     self._service.conf], text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    env={**os.environ,
                         **self._service.environment()}) as process:
                yield Conductor(process, self.ironic_log)
                process.stdin.close()
        finally:
            self._start()

    def versions(self):
        """Tell what was measured; {what: its release}."""
        found = {'Nova': system.release(self._cloud.venv, 'nova'),
                 'Ironic': system.release(self._service.venv, 'ironic')}
        if self.peer:
            found['sushy-tools'] = self.peer.version
        return found

    @property
    def ironic_log(self):
        """What Ironic writes."""
        return self._service.logs / 'ironic.log'

    def wait_quiet(self):
        """Wait until the machine has little to do, such as guests that boot.

        What is measured next does not pay for what was measured before.
        """
        deadline = time.monotonic() + QUIET_PATIENCE
        while time.monotonic() < deadline:
            processors = Processors()
            time.sleep(0.4)
            if processors.idle() >= QUIET:
                return

    def process(self):
        """The process of Ironic.

        :returns: a :class:`Process`.
        """
        return Process(self._service._daemons['ironic'].family())

    def requests(self):
        """Collect the requests that Nova's API answers meanwhile.

        See :func:`requests`.
        """
        return requests(self.log)


@contextlib.contextmanager
def requests(log):
    """Collect the requests that Nova's API answers meanwhile.

    :param log: path of what it writes.
    :returns: a list of (time, method, path) that is filled at the end, as a
        context.
    """
    position, found = log.stat().st_size, []
    yield found
    with open(log, errors='replace') as source:
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


@contextlib.contextmanager
def apart(state):
    """Give the host cloud a processor, and the others to whoever uses it.

    That is to this process and to what it starts meanwhile. A tenant never
    shares processors with the services of its cloud.

    :param state: state folder of ``minicloud up``.
    :raises: system.Error if there is one processor only.
    """
    every = os.sched_getaffinity(0)
    its_own = {min(every)}
    if every == its_own:
        raise system.Error('There is one processor only: run it without '
                           '"--apart".')
    cloud = settings.Settings(state)
    _pin(minicloud.pids(cloud), its_own)
    _pin([os.getpid()], every - its_own)
    try:
        yield
    finally:
        _pin([os.getpid(), *minicloud.pids(cloud)], every)


def _pin(pids, processors):
    for pid in pids:
        # What has ended needs none.
        with contextlib.suppress(FileNotFoundError):
            for task in os.listdir(f'/proc/{pid}/task'):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task), processors)


class Processors:
    """How the machine's processors spend their time from now on."""

    def __init__(self):
        self._begun = self._read()

    @staticmethod
    def _read():
        with open('/proc/stat') as source:
            return [int(word) for word in source.readline().split()[1:9]]

    def _share(self, *places):
        spent = [now - then for now, then in zip(
            self._read(), self._begun, strict=True)]
        return sum(spent[place] for place in places) / max(sum(spent), 1)

    def idle(self):
        """The share of their time that they do nothing, of 1."""
        # Waiting for disks, too.
        return self._share(3, 4)

    def stolen(self):
        """The share of it that a hypervisor below gives to others, of 1."""
        return self._share(7)
