# SPDX-License-Identifier: Apache-2.0
"""A history of requests under faults, and Nova's own database as the truth.

In the manner of Jepsen: clients ask for anything at the same time, each of
its own node, while a nemesis harms what goes to the host cloud. Of each answer
a judge says whether it fits what Nova has written down meanwhile.
"""

import contextlib
import dataclasses
import random
import threading
import time

from ironic.common import boot_devices
from ironic.common import states

from onebox.minicloud import database
from quintupleo_power.host_cloud import snapshots
from tests.functional import fault_cases
from tests.functional import fault_proxy

# Seconds between two faults at most, and between two requests of a client.
NEMESIS_PAUSE = CLIENT_PAUSE = 0.5
# Seconds that a fault waits for its request.
NEMESIS_PATIENCE = 4.0
# Of these the action was done, or is done later, and no answer comes: they
# are the hardest to tell.
LOST = ('500 after it was done', '502 after it was done',
        '504 after it was done', 'cut after', 'timeout after', 'late')
# The steps that change something, actions as often as all others together.
CHANGES = (*['action'] * 6, 'new image', 'removal', 'new port',
           'removal of a port', 'attachment', 'detachment')
SHUTDOWN = 4
# The name of the image of what is in a node's drive.
ISO = 'quintupleo-virtual-media-%s'
# What Nova may be asked for once in a request, as it cannot be done again.
ONCE = ('reboot', 'createImage')


@dataclasses.dataclass(frozen=True)
class Action:
    """An action of a server in Nova's database."""

    name: str
    succeeded: bool


@dataclasses.dataclass(frozen=True)
class State:
    """A server in Nova's database."""

    vm_state: str
    task_state: str
    power_state: int


class Truth:
    """Nova's and Neutron's databases, read past every service.

    :param cloud: the :class:`minicloud.settings.Settings` of the host cloud.
    """

    def __init__(self, cloud):
        self._cloud = cloud

    def _rows(self, query):
        return [line.split('\t') for line in database.sql(
            self._cloud, f'USE nova; {query};').splitlines()[1:]]

    def state(self, server):
        """Return the :class:`State` of a server."""
        (vm_state, task_state, power_state), = self._rows(
            "SELECT vm_state, IFNULL(task_state, ''), power_state "
            f"FROM instances WHERE uuid = '{server}'")
        return State(vm_state, task_state, int(power_state))

    def last(self, server):
        """Return the number of a server's last action."""
        (number,), = self._rows(
            'SELECT IFNULL(MAX(id), 0) FROM instance_actions '
            f"WHERE instance_uuid = '{server}'")
        return int(number)

    def ports(self, mac):
        """Return the ports with a MAC address, as [network, owner]."""
        return self._rows(
            "SELECT network_id, IFNULL(device_id, '') FROM neutron.ports "
            f"WHERE mac_address = '{mac}'")

    def since(self, server, number):
        """Return the actions after one, in order."""
        return [Action(name, message != 'Error' and results != ''
                       and set(results.split(',')) == {'Success'})
                for name, message, results in self._rows(
                    "SELECT action, IFNULL(a.message, ''), IFNULL("
                    "GROUP_CONCAT(IFNULL(e.result, 'none')), '') "
                    'FROM instance_actions a LEFT JOIN '
                    'instance_actions_events e ON e.action_id = a.id '
                    f"WHERE instance_uuid = '{server}' AND a.id > {number} "
                    'GROUP BY a.id ORDER BY a.id')]


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client may ask for.

    :ivar ask: function of the :class:`Client` that does.
    :ivar ends: the states (of :attr:`State.vm_state`) that a success ends
        in; empty if it changes none.
    :ivar on: whether the guest runs then; None if that does not matter.
    :ivar proof: the actions one of which a success takes; empty if it may
        take none.
    """

    ask: object
    ends: tuple = ()
    on: bool | None = None
    proof: tuple = ()


def _power(target, device=None):
    def ask(client):
        if device:
            client.machine.wish(device)
        client.machine.request(fault_cases.Sequence(
            '', device, target, (), ''))
    return ask


def _wipe(client):
    with client.machine.task() as task:
        task.driver.management.wipe_disk(task)


def _snapshot(client):
    client.snapshots += 1
    name = f'history-{client.snapshots}'
    with client.image(snapshots.title(name, client.machine.server), True):
        with client.machine.task() as task:
            task.driver.management.snapshot(task, name)


def _delete_snapshot(client):
    name = f'history-{client.snapshots}'
    with client.image(snapshots.title(name, client.machine.server), False):
        with client.machine.task() as task:
            task.driver.management.delete_snapshot(task, name)


def _insert(client):
    with client.image(ISO % client.machine.node_uuid, True):
        with client.machine.task() as task:
            task.driver.management.attach_virtual_media(
                task, 'cdrom', client.iso)


def _eject(client):
    # What Glance does not remove now is removed later.
    with client.image(ISO % client.machine.node_uuid, None):
        with client.machine.task() as task:
            task.driver.management.detach_virtual_media(task)


def _join_network(client):
    with client.card([[client.network, client.machine.server]]):
        with client.machine.task() as task:
            task.driver.network.add_cleaning_network(task)


def _leave_network(client):
    with client.card([]):
        with client.machine.task() as task:
            task.driver.network.remove_cleaning_network(task)


REQUESTS = {
    'power on': Request(_power(states.POWER_ON), ('active', 'rescued'), True),
    'power off': Request(_power(states.POWER_OFF), ('stopped', 'rescued'),
                         False),
    'soft power off': Request(_power(states.SOFT_POWER_OFF),
                              ('stopped', 'rescued'), False),
    'reboot': Request(
        _power(states.REBOOT, boot_devices.DISK), ('active',), True,
        ('reboot', 'unrescue', 'start')),
    'soft reboot': Request(
        _power(states.SOFT_REBOOT, boot_devices.DISK), ('active',), True,
        ('reboot', 'unrescue', 'start')),
    'reboot to PXE': Request(
        _power(states.REBOOT, boot_devices.PXE), ('rescued',), True,
        ('rescue',)),
    'wipe': Request(_wipe, ('stopped',), False, ('rebuild',)),
    'snapshot': Request(_snapshot, proof=('createImage',)),
    'removal of a snapshot': Request(_delete_snapshot),
    'ISO into the drive': Request(_insert),
    'ISO out of the drive': Request(_eject),
    'onto a network': Request(_join_network),
    'off the network': Request(_leave_network),
}


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a request ended.

    :ivar wrong: why the answer does not fit the truth, None if it does.
    """

    machine: str
    request: str
    seconds: float
    error: Exception | None
    wrong: str | None


class Client(threading.Thread):
    """One who asks for a machine's node, one request after the other.

    :ivar answers: list of :class:`Answer`.
    """

    def __init__(self, machine, mac, network, truth, images, iso, seed):
        """Ask of a machine.

        :param machine: the :class:`fault_cases.Machine`.
        :param mac: the MAC address of its card.
        :param network: UUID of the network that it may go onto.
        :param truth: the :class:`Truth`.
        :param images: function that returns all images of the project, past
            the proxy, as openstacksdk has them.
        :param iso: URL of an ISO.
        :param seed: of what is asked for.
        """
        super().__init__(daemon=True)
        self.machine = machine
        self.network = network
        self.iso = iso
        self.snapshots = 0
        # By the names of images: whether each has to be there.
        self._expected = {}
        self._mac = mac
        # As Truth.ports has them; None if it is not known.
        self._ports = []
        self.answers = []
        self.failure = None
        self._truth = truth
        self._images = images
        self._random = random.Random(seed)
        self._over = threading.Event()

    def run(self):
        """Ask until told to stop."""
        try:
            while not self._over.is_set():
                self._ask(self._random.choice(list(REQUESTS)))
                self._over.wait(self._random.uniform(0, CLIENT_PAUSE))
        except Exception as exc:  # noqa: BLE001 (a thread's last word)
            self.failure = exc

    def stop(self):
        """Ask for nothing more, and wait for the last answer."""
        self._over.set()
        self.join()

    def _ask(self, name):
        machine, request = self.machine, REQUESTS[name]
        # Nova's records know whole seconds, by which a lost reboot is found.
        machine.let_a_second_begin()
        machine.forget_failure()
        number = self._truth.last(machine.server)
        begun, error = time.monotonic(), None
        try:
            request.ask(self)
        except Exception as exc:  # noqa: BLE001 (judged)
            error = exc
        seconds = time.monotonic() - begun
        state = self._truth.state(machine.server)
        wrong = (fault_cases.unclear(machine, error) if error
                 else self._wrong_state(request, state))
        # A request that came too late for its answer is part of it, still.
        machine.proxy.drain()
        machine.settled()
        actions = self._truth.since(machine.server, number)
        wrong = wrong or _too_many(actions)
        if not error:
            wrong = (wrong or _unproved(request, actions)
                     or self._wrong_images() or self._wrong_ports())
        self.answers.append(Answer(machine.server, name, seconds, error,
                                   wrong and f'{wrong}: {state}, {actions}'))

    def _wrong_state(self, request, state):
        if request.ends and (
                state.vm_state not in request.ends or state.task_state
                or (state.power_state != SHUTDOWN) is not request.on):
            return 'success, and the server is elsewhere'
        return None

    @contextlib.contextmanager
    def image(self, name, is_there):
        """Expect an image, or none of a name, if a request succeeds.

        :param is_there: None if both are right, as they are after a failure.
        """
        self._expected.pop(name, None)
        yield
        if is_there is not None:
            self._expected[name] = is_there

    def _wrong_images(self):
        """Return which image is there or not against all answers, or None."""
        found = {image.name for image in self._images()
                 if image.status == 'active'}
        return next((f'success, and image {name} is '
                     + ('not there' if is_there else 'there')
                     for name, is_there in self._expected.items()
                     if (name in found) is not is_there), None)


    @contextlib.contextmanager
    def card(self, ports):
        """Expect these ports of the machine's card if a request succeeds."""
        self._ports = None
        yield
        self._ports = ports

    def _wrong_ports(self):
        found = self._truth.ports(self._mac)
        return (None if self._ports in (None, found) else
                f'success, and its ports are {found}, not {self._ports}')


def _unproved(request, actions):
    if request.proof and not any(
            action.name in request.proof and action.succeeded
            for action in actions):
        return 'success, and Nova did not do it'
    return None


def _too_many(actions):
    names = [action.name for action in actions]
    return next((f'Nova was asked for {name} twice' for name in ONCE
                 if names.count(name) > 1), None)


class Nemesis(threading.Thread):
    """What harms requests on their way through a proxy, one at a time.

    :ivar injected: how many faults took effect.
    """

    def __init__(self, proxy, seed):
        super().__init__(daemon=True)
        self.injected = 0
        self._proxy = proxy
        self._steps = [name for name, (service, _, _)
                       in fault_proxy.STEPS.items()
                       if service in proxy.upstreams]
        self._random = random.Random(seed)
        self._over = threading.Event()

    def run(self):
        """Do harm until told to stop."""
        while not self._over.is_set():
            self._proxy.clear()
            if self._random.random() < 1 / 3:
                self._proxy.inject(self._random.choice(LOST),
                                   self._random.choice(CHANGES))
            else:
                self._proxy.inject(
                    self._random.choice(list(fault_proxy.FAULTS)),
                    self._random.choice(self._steps),
                    times=self._random.choice((1, 1, 2, 5)))
            end = time.monotonic() + NEMESIS_PATIENCE
            while not self._proxy.injected and time.monotonic() < end:
                self._over.wait(0.1)
            self._over.wait(self._random.uniform(0, NEMESIS_PAUSE))
            self.injected += self._proxy.injected
        self._proxy.clear()

    def stop(self):
        """Inject no more faults, and wait for the end of the thread."""
        self._over.set()
        self.join()
