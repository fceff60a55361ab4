# SPDX-License-Identifier: Apache-2.0
"""Power requests of an Ironic in this process, harmed on their way to Nova.

Ironic's own TaskManager, database layer and ``node_power_action`` drive the
driver here; the host cloud behind the proxy is real, and what really happened
is asked of it directly.
"""

import collections
from concurrent import futures
import contextlib
import dataclasses
import queue
import random
import threading
import time
import uuid

from ironic.common import boot_devices
from ironic.common import config as ironic_config
from ironic.common import context as ironic_context
from ironic.common import driver_factory
from ironic.common import exception
from ironic.common import states
from ironic.conductor import manager
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic.db.sqlalchemy import migration
from ironic import objects
from keystoneauth1 import exceptions as ks_exceptions
from openstack import config as sdk_config
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_db.sqlalchemy import enginefacade
import yaml

from quintupleo_power.host_cloud import cloud as host_cloud
from quintupleo_power.host_cloud import connection
from tests.functional import fault_proxy

CONF = cfg.CONF

# Seconds: how long the driver waits for an answer, for an action, and for one
# that it cannot get.
PATIENCE = 4
ACTION_TIMEOUT = 60
SHORT_TIMEOUT = 8
POLL_INTERVAL = 0.3

# A cloud that is known has these behind it, so that they are reached only
# when the driver has forgotten the cloud.
COLD = {'identity versions', 'token', 'compute versions', 'image versions',
        'image', 'volume versions', 'volume'}

# How Ironic may not be told of a fault: the request is not over.
NEVER_ENDS = 'away for good'


@dataclasses.dataclass(frozen=True)
class Sequence:
    """A request, and what Nova has to be asked for it.

    :ivar start: state of the server before it, a key of ``_INTO``.
    :ivar device: boot device that is wished before it, or None.
    :ivar target: the power state that is asked for.
    :ivar actions: the names of the actions in Nova's records.
    :ivar status: status of the server after it.
    :ivar validates: whether the node is validated first, as when a user asks
        for it.
    """

    start: str
    device: str | None
    target: str
    actions: tuple
    status: str
    validates: bool = False


PXE, DISK = boot_devices.PXE, boot_devices.DISK

SEQUENCES = {
    'on': Sequence('SHUTOFF', None, states.POWER_ON, ('start',), 'ACTIVE'),
    'on to PXE': Sequence(
        'SHUTOFF', PXE, states.POWER_ON, ('rescue',), 'RESCUE'),
    'on that is validated': Sequence(
        'SHUTOFF', None, states.POWER_ON, ('start',), 'ACTIVE', True),
    'off': Sequence('ACTIVE', None, states.POWER_OFF, ('stop',), 'SHUTOFF'),
    'soft off': Sequence(
        'ACTIVE', None, states.SOFT_POWER_OFF, ('stop',), 'SHUTOFF'),
    'reboot': Sequence('ACTIVE', None, states.REBOOT, ('reboot',), 'ACTIVE'),
    'soft reboot': Sequence(
        'ACTIVE', None, states.SOFT_REBOOT, ('reboot',), 'ACTIVE'),
    'reboot to PXE': Sequence(
        'ACTIVE', PXE, states.REBOOT, ('rescue',), 'RESCUE'),
    'off out of PXE': Sequence(
        'RESCUE', None, states.POWER_OFF, ('unrescue', 'stop'), 'SHUTOFF'),
    'reboot out of PXE': Sequence(
        'RESCUE', DISK, states.REBOOT, ('unrescue',), 'ACTIVE'),
    'reboot from PXE to PXE': Sequence(
        'RESCUE', PXE, states.REBOOT, ('unrescue', 'rescue'), 'RESCUE'),
    'reboot from PXE to PXE that is validated': Sequence(
        'RESCUE', PXE, states.REBOOT, ('unrescue', 'rescue'), 'RESCUE', True),
    'on to disk after the agent': Sequence(
        'RESCUE, guest off', DISK, states.POWER_ON, ('unrescue',), 'ACTIVE'),
    'on to PXE after the agent': Sequence(
        'RESCUE, guest off', PXE, states.POWER_ON, ('unrescue', 'rescue'),
        'RESCUE'),
    'reboot out of ERROR': Sequence(
        'ERROR', None, states.REBOOT, ('reboot',), 'ACTIVE'),
    'reboot to PXE out of ERROR': Sequence(
        'ERROR', PXE, states.REBOOT, ('rescue',), 'RESCUE'),
    'off from paused': Sequence(
        'PAUSED', None, states.POWER_OFF, ('unpause', 'stop'), 'SHUTOFF'),
    'reboot to PXE from paused': Sequence(
        'PAUSED', PXE, states.REBOOT, ('unpause', 'rescue'), 'RESCUE'),
    'on from suspended': Sequence(
        'SUSPENDED', None, states.POWER_ON, ('reboot',), 'ACTIVE'),
    'on to PXE from suspended': Sequence(
        'SUSPENDED', PXE, states.POWER_ON, ('reboot', 'rescue'), 'RESCUE'),
}

# The ways between ACTIVE and each other state, as bodies of server actions.
_NMI = {'trigger_crash_dump': None}
_INTO = {
    'ACTIVE': (),
    'SHUTOFF': ({'os-stop': None},),
    'RESCUE': ({'rescue': {}},),
    # The fake hypervisor's guest answers an NMI by switching itself off.
    'RESCUE, guest off': ({'rescue': {}}, _NMI),
    'ERROR': ({'os-resetState': {'state': 'error'}},),
    'PAUSED': ({'pause': None},),
    'SUSPENDED': ({'suspend': None},),
}
_OUT_OF = {
    'SHUTOFF': {'os-start': None},
    'RESCUE': {'unrescue': None},
    'RESCUE, guest off': {'unrescue': None},
    'ERROR': {'reboot': {'type': 'HARD'}},
    'PAUSED': {'unpause': None},
    'SUSPENDED': {'resume': None},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One fault at the n-th request of a step of a sequence."""

    sequence: str
    step: str
    occurrence: int
    fault: str

    def __str__(self):
        return (f'{self.sequence} / {self.step} {self.occurrence} / '
                f'{self.fault}')


@dataclasses.dataclass
class Outcome:
    """What became of a case.

    :ivar error: what Ironic raised, None for a success.
    :ivar wrong: why the outcome is not acceptable, None if it is.
    """

    case: Case
    injected: int
    seconds: float
    error: Exception | None = None
    wrong: str | None = None


class Machine:
    """A server, its node and a proxy before the cloud.

    :param neighbour: a machine whose proxy and credentials it shares; without
        one it has its own.
    :ivar sequences: dict of each :class:`Sequence` that it can go through.
    """

    sequences = SEQUENCES

    def __init__(self, deployment, name, neighbour=None):
        self._compute = deployment.cloud.compute
        # To put a server into ERROR is an administrator's right.
        self._administrator = deployment.admin.compute
        self._image = deployment.cloud.image.find_image(
            'quintupleo-rescue-bios', ignore_missing=False).id
        self.name = neighbour.name if neighbour else name
        self._has_own_proxy = neighbour is None
        self.proxy = neighbour.proxy if neighbour else fault_proxy.FaultProxy(
            _upstreams(deployment.cloud), PATIENCE)
        self.server = self._create(deployment, name)
        self.node = None

    def _create(self, deployment, name):
        return deployment.server(name=name).id

    def close(self):
        if self._has_own_proxy:
            self.proxy.close()
        self._compute.delete_server(self.server)

    def entry(self, original):
        """Make the entry of clouds.yaml that leads through the proxy."""
        return {**original, 'auth': {
            **original['auth'], 'auth_url': self.proxy.urls['identity'] +
            '/v3'}}

    def enroll(self):
        """Make the node in the database of this process."""
        self.node = objects.Node(
            ironic_context.get_admin_context(), uuid=str(uuid.uuid4()),
            driver='quintupleo', driver_info={
                'quintupleo_server': self.server,
                'quintupleo_cloud': self.name},
            provision_state=states.MANAGEABLE, properties={},
            driver_internal_info={}, instance_info={}, extra={},
            **driver_factory_defaults())
        self.node.create()
        self.node_uuid = self.node.uuid

    # What the host cloud itself says, asked directly.

    def read(self):
        """The server as it is."""
        return self._compute.get(
            f'/servers/{self.server}', microversion='2.90').json()['server']

    def settled(self):
        """The server when nothing is under way any more."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            server = self.read()
            if server['OS-EXT-STS:task_state'] is None:
                return server
            time.sleep(POLL_INTERVAL)
        raise AssertionError(f"{server['OS-EXT-STS:task_state']} of server "
                             f'{self.server} does not end')

    def rows(self):
        """Request identifiers and names of the server's actions, in order."""
        return [(row['request_id'], row['action']) for row in reversed(
            self._compute.get(
                f'/servers/{self.server}/os-instance-actions',
                params={'limit': 20}, microversion='2.58').json()[
                    'instanceActions'])]

    def state(self):
        """The state that the server is in, as a key of ``_INTO``."""
        server = self.settled()
        off = server['OS-EXT-STS:power_state'] == 4
        if server['status'] == 'RESCUE' and off:
            return 'RESCUE, guest off'
        return server['status']

    def bring(self, wanted):
        """Bring the server into a state, past the driver."""
        now = self.state()
        if now == wanted:
            return
        if now != 'ACTIVE':
            self._act(_OUT_OF[now])
        for body in _INTO[wanted]:
            self._act(body)
        end = time.monotonic() + 60
        while self.state() != wanted:
            assert time.monotonic() < end, (
                f'{self.server} is {self.state()} and not {wanted}')
            time.sleep(POLL_INTERVAL)

    def let_a_second_begin(self):
        """Wait until the server's last change was in an earlier second.

        Nova's records know whole seconds: a reboot of which no answer came
        is not told apart from what was done in the same one.
        """
        changed = self.settled()['updated']
        while time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()) <= changed:
            time.sleep(0.05)

    def _act(self, body):
        if 'rescue' in body:
            body = {'rescue': {'rescue_image_ref': self._image}}
        compute = (self._administrator if 'os-resetState' in body
                   else self._compute)
        compute.post(f'/servers/{self.server}/action', json=body,
                     microversion='2.90').raise_for_status()
        self.settled()

    # What Ironic does.

    def forget_cloud(self):
        """Know nothing of the cloud, as a conductor that has just begun."""
        host_cloud._clouds.drop(connection.Credentials(cloud=self.name))
        self.forget_failure()

    def forget_failure(self):
        """Let no failure of the last case speak for the requests to come."""
        host_cloud._failures.drop(connection.Credentials(cloud=self.name))

    @contextlib.contextmanager
    def task(self, shared=False):
        """Take the node as a conductor does."""
        with task_manager.acquire(ironic_context.get_admin_context(),
                                  self.node_uuid, shared=shared,
                                  purpose='fault') as task:
            yield task

    def sync(self, failures):
        """Let power sync look at the node once.

        :param failures: how often it failed in a row before.
        :returns: how often it has failed in a row now.
        """
        with self.task(shared=True) as task:
            return manager.do_sync_power_state(task, failures)

    def record(self, power_state):
        """Let Ironic know a power state."""
        with self.task() as task:
            task.node.power_state = power_state
            task.node.save()

    def request(self, sequence, timeout=ACTION_TIMEOUT):
        """Carry a sequence's request out as a conductor does."""
        with self.task() as task:
            if sequence.validates:
                # As Ironic's change_node_power_state does it; the others are
                # as in a deployment.
                task.driver.power.validate(task)
                task.node.target_power_state = (
                    states.POWER_OFF if sequence.status == 'SHUTOFF'
                    else states.POWER_ON)
                task.node.save()
            conductor_utils.node_power_action(task, sequence.target, timeout)

    def wish(self, device):
        """Wish a boot device for the next boot alone."""
        with self.task() as task:
            for key in ('quintupleo_boot_device_once',
                        'quintupleo_boot_device'):
                task.node.del_driver_internal_info(key)
            task.node.save()
            if device:
                task.driver.management.set_boot_device(task, device)

    def run(self, case):
        """Run one case and judge it."""
        sequence = self.sequences[case.sequence]
        self.bring(sequence.start)
        self.wish(sequence.device)
        self.forget_failure()
        if case.step in COLD:
            self.forget_cloud()
        before = self.rows()
        if set(sequence.actions) == {'reboot'}:
            self.let_a_second_begin()
        self.proxy.clear()
        self.proxy.inject(case.fault, case.step, case.occurrence)
        begun = time.monotonic()
        error = None
        try:
            self.request(sequence, SHORT_TIMEOUT if case.fault == NEVER_ENDS
                         else ACTION_TIMEOUT)
        except Exception as exc:  # noqa: BLE001 (judged below)
            error = exc
        seconds = time.monotonic() - begun
        server = None if error else self.read()
        self.proxy.drain()
        injected = self.proxy.injected
        self.proxy.clear()
        known = {request for request, _ in before}
        self.settled()
        done = tuple(action for request, action in self.rows()
                     if request not in known)
        wrong = (_wrong_failure(self, sequence, error, done) if error
                 else _wrong_success(sequence, server, done))
        return Outcome(case, injected, seconds, error, wrong)

    def steps(self, sequence):
        """Which requests a sequence makes, as (step, occurrence)."""
        self.bring(sequence.start)
        self.wish(sequence.device)
        self.forget_cloud()
        self.proxy.clear()
        self.request(sequence)
        counted = collections.Counter()
        found = []
        for step, _ in self.proxy.seen:
            # Of many looks the first ones stand for all.
            if step and counted[step] < 6:
                found.append((step, counted[step]))
            counted[step] += 1
        return found


def _wrong_success(sequence, server, done):
    if server['OS-EXT-STS:task_state'] or (
            server['status'] != sequence.status):
        return (f"success, and the server is {server['status']} "
                f"{server['OS-EXT-STS:task_state']}")
    if (server['OS-EXT-STS:power_state'] == 4) != (
            sequence.status == 'SHUTOFF'):
        return f"success, power state {server['OS-EXT-STS:power_state']}"
    if done != sequence.actions:
        return f'success, and Nova did {done}'
    return None


def unclear(machine, error):
    """Return what is unclear about an error of a request, or None."""
    text = str(error)
    if not isinstance(error, exception.IronicException):
        return f'{type(error).__name__} is no exception of Ironic: {text}'
    if machine.node_uuid not in text or '\n' in text or 'Traceback' in text:
        return f'no clear sentence: {text}'
    return None


def _wrong_failure(machine, sequence, error, done):
    if wrong := unclear(machine, error):
        return wrong
    if done != sequence.actions[:len(done)]:
        return f'failure ({error}), and Nova did {done}'
    return None


def driver_factory_defaults():
    """The interfaces of a node of this process."""
    return {f'{kind}_interface': name for kind, name in (
        ('power', 'quintupleo'), ('management', 'quintupleo'),
        ('boot', 'pxe'), ('deploy', 'direct'), ('bios', 'no-bios'),
        ('console', 'no-console'), ('firmware', 'no-firmware'),
        ('inspect', 'no-inspect'), ('network', 'noop'),
        ('raid', 'no-raid'), ('rescue', 'no-rescue'), ('storage', 'noop'),
        ('vendor', 'no-vendor'))}


def _upstreams(cloud):
    """Scheme, host and port of each service, as the catalog has them."""
    found = {}
    for service in ('identity', 'compute', 'image', 'network',
                    'block-storage'):
        # Few clouds of these tests have volumes.
        with contextlib.suppress(ks_exceptions.EndpointNotFound):
            url = cloud.session.get_endpoint(service_type=service,
                                             interface='public')
            found[service] = '/'.join(url.split('/')[:3])
    return found


@contextlib.contextmanager
def conductor(folder):
    """Let this process be an Ironic conductor with a database of its own."""
    fixture = config_fixture.Config(CONF)
    fixture.setUp()
    # Other tests of this process have a database in memory.
    forget_database = enginefacade._context_manager.patch_factory(
        enginefacade.transaction_context())
    try:
        ironic_config.parse_args([], default_config_files=[])
        fixture.config(connection=f'sqlite:///{folder}/ironic.sqlite',
                       group='database')
        fixture.config(host='faults', rpc_transport='none')
        fixture.config(enabled_hardware_types=['quintupleo'])
        for option, value in driver_factory_defaults().items():
            fixture.config(**{f'enabled_{option}s': [value],
                              f'default_{option}': value})
        fixture.config(enabled_network_interfaces=['noop', 'quintupleo'])
        fixture.config(timeout=PATIENCE, poll_interval=POLL_INTERVAL,
                       action_timeout=ACTION_TIMEOUT, group='quintupleo')
        migration.create_schema()
        objects.register_all()
        driver_factory.HardwareTypesFactory()
        objects.Conductor.register(ironic_context.get_admin_context(),
                                   'faults', ['quintupleo'], '')
        yield
    finally:
        forget_database()
        fixture.cleanUp()


@contextlib.contextmanager
def machines(deployment, folder, count, together=False, make=Machine):
    """Make machines behind proxies.

    :param make: function that makes a :class:`Machine`, as the class does.
    :param together: whether all share one proxy and its credentials.
    """
    original = yaml.safe_load(
        (deployment.ironic.state / 'clouds.yaml').read_text())['clouds']
    made = []
    path = folder / 'clouds.yaml'
    files = sdk_config.loader.CONFIG_FILES
    try:
        for number in range(count):
            made.append(make(
                deployment, f'faults-{uuid.uuid4().hex[:6]}-{number}',
                made[0] if together and made else None))
        path.write_text(yaml.safe_dump({'clouds': {
            machine.name: machine.entry(original['minicloud'])
            for machine in made}}))
        path.chmod(0o600)
        sdk_config.loader.CONFIG_FILES = [str(path)]
        for machine in made:
            machine.enroll()
        yield made
    finally:
        sdk_config.loader.CONFIG_FILES = files
        for machine in made:
            machine.close()


class RemoteMachine(Machine):
    """A machine whose node is one of a real Ironic process."""

    def __init__(self, deployment, name):
        super().__init__(deployment, name)
        self._deployment = deployment

    def enroll(self):
        """Let Ironic manage the node."""
        self._deployment.add_cloud(
            self.name, f"{self.proxy.urls['identity']}/v3")
        self.node = self._deployment.node(
            self.server, quintupleo_cloud=self.name)
        self.node_uuid = self.node.id
        self._deployment.manage(self.node)

    def close(self):
        self._deployment.api.delete_node(self.node)
        super().close()

    def forget_cloud(self):
        """Leave the conductor as it is: it is another process."""

    def now(self):
        """The node as Ironic's API shows it."""
        return self._deployment.api.get_node(self.node.id)

    def wish(self, device):
        """Wish a boot device for the next boot alone."""
        self._deployment.nodes.set_boot_device(
            self.node.id, device or DISK, False)

    def request(self, sequence, timeout=None):
        """Ask Ironic's API."""
        self._deployment.nodes.set_power_state(
            self.node.id, sequence.target,
            states.POWER_OFF if sequence.status == 'SHUTOFF'
            else states.POWER_ON)


class Campaign:
    """Cases shared out among machines."""

    def __init__(self, machines, cases, verbose=False):
        self._machines = machines
        self._verbose = verbose
        self._lock = threading.Lock()
        self._waiting = collections.defaultdict(list)
        for case in cases:
            start = machines[0].sequences[case.sequence].start
            self._waiting[start].append(case)
        self.outcomes = []

    def _next(self, machine):
        """Give a case that begins where the machine is, if one is left."""
        try:
            now = machine.state()
        except AssertionError:
            now = None
        with self._lock:
            waiting = [start for start, cases in self._waiting.items()
                       if cases]
            if not waiting:
                return None
            start = now if now in waiting else max(
                waiting, key=lambda name: len(self._waiting[name]))
            return self._waiting[start].pop()

    def _work(self, machine):
        while True:
            case = self._next(machine)
            if case is None:
                return
            try:
                outcome = machine.run(case)
            except Exception as exc:  # noqa: BLE001 (a thread's last word)
                outcome = Outcome(case, 1, 0.0, exc,
                                  f'the test itself failed: {exc!r}')
            self.outcomes.append(outcome)
            if self._verbose or outcome.wrong:
                print(f'{outcome.case}: {outcome.seconds:.1f} s, '
                      f'{outcome.wrong or outcome.error or "succeeded"}',
                      flush=True)

    def run(self):
        """Run all cases."""
        threads = [threading.Thread(target=self._work, args=(machine,))
                   for machine in self._machines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.outcomes


def steps_of_all(machines):
    """Which steps each sequence has, found by running it once unharmed."""
    names = queue.SimpleQueue()
    sequences = machines[0].sequences
    for name in sequences:
        names.put(name)

    def work(machine):
        found = {}
        with contextlib.suppress(queue.Empty):
            while True:
                name = names.get_nowait()
                found[name] = machine.steps(sequences[name])
        return found

    with futures.ThreadPoolExecutor(len(machines)) as pool:
        return {name: steps for found in pool.map(work, machines)
                for name, steps in found.items()}


def product(steps):
    """All cases: each fault at each step of each sequence."""
    return [Case(sequence, step, occurrence, fault)
            for sequence, found in steps.items()
            for step, occurrence in found
            for fault in fault_proxy.FAULTS]


def sample(cases, seed, size):
    """Choose cases that cover each fault, step and sequence, then any.

    :param seed: of the choice, to be printed.
    :param size: how many there are to be at least.
    """
    cases = list(cases)
    random.Random(seed).shuffle(cases)
    chosen, rest, covered = [], [], set()
    for case in cases:
        shown = {case.fault, case.step, case.sequence}
        (rest if shown <= covered else chosen).append(case)
        covered |= shown
    return chosen + rest[:max(0, size - len(chosen))]
