# SPDX-License-Identifier: Apache-2.0
"""A conductor is killed in the middle of a request; others take over.

Each kill is a SIGKILL to all processes of a conductor, at a point where a
request of it to Nova or to the database, or the answer, is held. One kill can
hit several nodes.
"""

import concurrent.futures
import contextlib
import os
import uuid

from openstack import exceptions
import pytest

from onebox import lab
from onebox import processes
from tests.functional import conductors
from tests.functional import relay
from tests.functional import web

# Five minutes are enough for one release.
pytestmark = pytest.mark.newest

OFF, ON = 'power off', 'power on'
REBOOT, SOFT_REBOOT = 'rebooting', 'soft rebooting'
REQUEST, ANSWER = relay.Held.REQUEST, relay.Held.ANSWER

# What is asked of Nova, by a word of the request's body.
STOP, START = '"os-stop"', '"os-start"'
HARD, SOFT = '"HARD"', '"SOFT"'
RESCUE, UNRESCUE = '"rescue"', '"unrescue"'

PXE_ONCE, PXE, DISK = ('pxe', False), ('pxe', True), ('disk', True)

# Name: (what comes before, the request, status of the server at the end, all
# actions that Nova has done for the request by then).
REQUESTS = {
    'stop': ([], [OFF], 'SHUTOFF', ['stop']),
    'start': ([OFF], [ON], 'ACTIVE', ['start']),
    'hard reboot': ([], [REBOOT], 'ACTIVE', ['reboot']),
    'soft reboot': ([], [SOFT_REBOOT], 'ACTIVE', ['reboot']),
    'rescue': ([DISK], [PXE_ONCE, REBOOT], 'RESCUE', ['rescue']),
    'rescue from off': ([DISK, OFF], [PXE_ONCE, ON], 'RESCUE', ['rescue']),
    'unrescue': (
        [PXE, REBOOT], [DISK, REBOOT], 'ACTIVE', ['unrescue']),
    'unrescue, stop': (
        [PXE, REBOOT], [OFF], 'SHUTOFF', ['unrescue', 'stop']),
    'unrescue, rescue': (
        [PXE, REBOOT], [REBOOT], 'RESCUE', ['unrescue', 'rescue']),
}

# Requests of as many nodes, the action at which they are, and whether that is
# on its way to Nova or on its way back.
# A default run has a reboot, which must not be sent twice, and requests of two
# actions, each on both ways.
KILLS = [
    pytest.param(held, requests, id=' and '.join(
        f'{name} at {word}' for name, word in requests.items())
        + f' {held.name}', marks=[] if usual is held else [pytest.mark.full])
    for requests, usual in (
        ({'stop': STOP, 'start': START}, None),
        ({'hard reboot': HARD, 'soft reboot': SOFT}, ANSWER),
        ({'rescue': RESCUE, 'rescue from off': RESCUE}, None),
        ({'unrescue': UNRESCUE, 'unrescue, stop': UNRESCUE,
          'unrescue, rescue': UNRESCUE}, None),
        ({'unrescue, stop': STOP, 'unrescue, rescue': RESCUE}, ANSWER))
    for held in (REQUEST, ANSWER)]

ABORTED_BY_IRONIC = (
    'Pending power operation was aborted due to conductor take over')


class Cluster:
    """Two conductors and what the tests ask of them.

    :ivar pair: the :class:`conductors.Pair`.
    :ivar api: Ironic's API.
    :ivar compute: Nova's API, past the relay.
    """

    def __init__(self, deployment, pair):
        self.pair = pair
        self.deployment = deployment
        self.compute = deployment.cloud.compute
        self._nodes = lab.Nodes(pair, images=None)
        self.api = self._nodes.connection.baremetal
        self.kills = 0
        # Nova makes servers while the tests wait for a take-over.
        self._pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._ahead = [self._pool.submit(deployment.server)
                       for _ in range(2)]

    def server(self):
        """The UUID of a new server."""
        self._ahead.append(self._pool.submit(self.deployment.server))
        return self._ahead.pop(0).result().id

    def close(self):
        """Delete the servers that nobody has used."""
        for ahead in self._ahead:
            self.compute.delete_server(ahead.result())
        self._pool.shutdown()

    def reach(self, node_id, steps):
        """Ask for boot devices and power states, and wait for each."""
        for step in steps:
            if isinstance(step, tuple):
                self.api.set_node_boot_device(node_id, *step)
            else:
                self._nodes.set_power_state(
                    node_id, step, OFF if step == OFF else ON)

    def begin(self, node_id, steps):
        """Ask for the same, but do not wait for the last."""
        self.reach(node_id, [step for step in steps[:-1]])
        self.api.set_node_power_state(node_id, steps[-1])

    def kill_conductor_of(self, node_id, replace=True):
        """Kill the conductor that holds a node's lock.

        :returns: the :class:`conductors.Conductor`, dead.
        """
        self.kills += 1
        return self.pair.kill(
            self.api.get_node(node_id).reservation, replace)

    def wait_at_rest(self, node_id, provision_state='manageable'):
        """Wait until nothing goes on with a node and the API can reach it."""
        processes.wait_for(
            lambda: self._is_at_rest(node_id, provision_state), 120,
            f'the end of what was asked of node {node_id}')

    def _is_at_rest(self, node_id, provision_state):
        node = self.api.get_node(node_id)
        # The API may know later than the other conductor that one is dead.
        return (node.conductor in {conductor.host
                                   for conductor in self.pair.conductors}
                and not node.reservation and not node.target_power_state
                and 'quintupleo_request' not in node.driver_internal_info
                and node.provision_state == provision_state)

    def history(self, node_id):
        """What Ironic has recorded of a node, in one text."""
        answer = self.api.get(f'/nodes/{node_id}/history?detail=True',
                              microversion='1.78')
        exceptions.raise_from_response(answer)
        return '\n'.join(entry['event'] for entry in answer.json()['history'])


class Machine:
    """A node that Ironic manages, and its server.

    :ivar node: UUID of the node.
    :ivar server: UUID of the server.
    """

    def __init__(self, cluster, host, server):
        """Enroll the node.

        :param cluster: the :class:`Cluster`.
        :param host: name of the conductor that is to have the node; None for
            any.
        :param server: UUID of the server.
        """
        self._cluster = cluster
        self._api = cluster.api
        self.server = server
        self.node = self._enroll(host)
        self._done_before = 0

    def _enroll(self, host):
        while True:
            node = processes.wait_for(
                self._create, 60, 'an API that knows which conductors live')
            # Ironic spreads nodes by their UUID.
            if host in (None, self.conductor(node.id)):
                return node.id
            self._api.delete_node(node.id)

    def _create(self):
        try:
            return self._api.create_node(
                name=f'node-{uuid.uuid4()}', driver='quintupleo',
                driver_info={'quintupleo_server': self.server})
        except exceptions.HttpException as exc:
            # One that was killed is in the hash ring for some seconds more.
            if 'Unable to establish connection' not in str(exc):
                raise
            return None

    def conductor(self, node_id=None):
        """The name of the conductor that has the node."""
        return self._api.get_node(node_id or self.node,
                                  fields=['conductor']).conductor

    def manage(self):
        """Let Ironic take control."""
        self._api.set_node_provision_state(self.node, 'manage')
        self._cluster.wait_at_rest(self.node)

    def remember(self):
        """Let :meth:`actions` begin now."""
        self._done_before = len(self.actions())

    def actions(self):
        """What Nova has done with the server."""
        return self._cluster.deployment.actions(
            self.server)[self._done_before:]

    @property
    def status(self):
        """The server's status."""
        return self._cluster.compute.get_server(self.server).status

    def device(self):
        """What the node boots from next."""
        return self._api.get_node_boot_device(self.node)['boot_device']

    def assert_ended(self, power_state, status, *actions):
        """Check that all is as asked for, in Ironic and in Nova."""
        node = self._api.get_node(self.node)
        assert (node.power_state, self.status, self.actions()) == (
            power_state, status, list(actions))
        assert (node.last_error, node.is_maintenance) == (None, False)

    def remove(self):
        """Delete both."""
        self._api.delete_node(self.node)
        self._cluster.compute.delete_server(self.server)


@pytest.fixture(scope='module')
def cluster(deployment):
    """Two conductors."""
    with web.serve(deployment.ironic.images.parent) as published:
        pair = conductors.Pair(deployment.ironic, published,
                               os.environ.get('QUINTUPLEO_TEST_CLOUD'))
        try:
            pair.start()
            found = Cluster(deployment, pair)
            yield found
            found.close()
            print(f'\n{found.kills} conductors were killed')
        finally:
            pair.remove()


@pytest.fixture
def iso(deployment):
    """URL of an ISO, on a web server."""
    with web.serve(deployment.iso.parent) as url:
        yield f'{url}/{deployment.iso.name}'


@pytest.fixture
def machines(cluster):
    """A function that makes machines of one conductor."""
    with contextlib.ExitStack() as made:
        def make(number=1):
            servers = [cluster.server() for _ in range(number)]
            cluster.pair.wait_started()
            found = []
            for server in servers:
                found.append(Machine(
                    cluster, found[0].conductor() if found else None, server))
                made.callback(found[-1].remove)
            for machine in found:
                machine.manage()
            return found

        yield make


@pytest.mark.parametrize('held,requests', KILLS)
def test_request_is_finished_by_others(cluster, machines, held, requests):
    found = dict(zip(requests, machines(len(requests)), strict=True))
    points = [relay.Point(held, found[name].server, word)
              for name, word in requests.items()]
    for name, machine in found.items():
        cluster.reach(machine.node, REQUESTS[name][0])
        machine.remember()
    with cluster.pair.nova.hold(*points):
        for name, machine in found.items():
            cluster.begin(machine.node, REQUESTS[name][1])
        for point in points:
            point.wait_reached()
        # The same has all of them.
        cluster.kill_conductor_of(machine.node)
    _assert_finished(cluster, found)


def _assert_finished(cluster, found):
    for machine in found.values():
        cluster.wait_at_rest(machine.node)
    # It neither changes its mind nor forces anything back.
    cluster.pair.wait_started()
    cluster.pair.wait_power_sync()
    for name, machine in found.items():
        _, steps, status, actions = REQUESTS[name]
        machine.assert_ended(OFF if steps[-1] == OFF else ON, status,
                             *actions)
        if PXE_ONCE in steps:
            # It has booted from there.
            assert machine.device() == 'disk'


def test_request_that_was_done_and_not_recorded(cluster, machines):
    found = dict(zip(('stop', 'rescue'), machines(2), strict=True))
    for name, machine in found.items():
        cluster.reach(machine.node, REQUESTS[name][0])
        machine.remember()
    # Ironic's own write of the result.
    points = [relay.Point(REQUEST, 'UPDATE nodes', 'target_power_state=NULL')
              for _ in found]
    with cluster.pair.database.hold(*points):
        for name, machine in found.items():
            cluster.begin(machine.node, REQUESTS[name][1])
        for point in points:
            point.wait_reached()
        cluster.kill_conductor_of(machine.node)
    _assert_finished(cluster, found)


@pytest.mark.full
def test_request_that_the_driver_had_no_time_to_keep(cluster, machines):
    machine, = machines()
    point = relay.Point(REQUEST, 'UPDATE nodes', 'quintupleo_request')
    with cluster.pair.database.hold(point):
        cluster.begin(machine.node, [OFF])
        point.wait_reached()
        cluster.kill_conductor_of(machine.node)
    cluster.wait_at_rest(machine.node)
    cluster.pair.wait_started()
    cluster.pair.wait_power_sync()
    # Nothing was done, and that is what Ironic says.
    machine.assert_ended(ON, 'ACTIVE')
    assert ABORTED_BY_IRONIC in cluster.history(machine.node)


def test_iso_that_was_uploaded_and_not_recorded(cluster, machines, iso):
    machine, = machines()
    images = cluster.deployment.cloud.image

    def media():
        return list(images.images(
            tag=f'quintupleo-virtual-media-{machine.node}'))

    # The second write of it, with the image's UUID.
    point = relay.Point(REQUEST, 'UPDATE nodes', 'image\\": \\"')
    with cluster.pair.database.hold(point):
        answer = cluster.api.post(
            f'/nodes/{machine.node}/vmedia', microversion='1.89', json={
                'device_type': 'cdrom', 'image_url': iso,
                'image_download_source': 'http'})
        exceptions.raise_from_response(answer)
        point.wait_reached()
        assert len(media()) == 1
        cluster.kill_conductor_of(machine.node)
    processes.wait_for(lambda: not media(), 60, 'the ISO to be removed')
    cluster.wait_at_rest(machine.node)
    machine.assert_ended(ON, 'ACTIVE')


@pytest.mark.full
def test_request_of_long_ago_is_named(cluster, machines):
    machine, = machines()
    cluster.reach(machine.node, [PXE, REBOOT])
    machine.remember()
    point = relay.Point(ANSWER, machine.server, UNRESCUE)
    with cluster.pair.nova.hold(point):
        cluster.begin(machine.node, [OFF])
        point.wait_reached()
        victim = cluster.kill_conductor_of(machine.node)
        cluster.pair.sql(
            'UPDATE nodes SET driver_internal_info = JSON_SET('
            "driver_internal_info, '$.quintupleo_request.begun_at', 0) "
            f"WHERE uuid = '{machine.node}'")
    cluster.wait_at_rest(machine.node)
    cluster.pair.wait_started()
    cluster.pair.wait_power_sync()
    # Recorded as it is, not forced to anything.
    machine.assert_ended(ON, 'ACTIVE', 'unrescue')
    history = cluster.history(machine.node)
    assert f'"power off" of node {machine.node}' in history
    assert victim.host in history
    assert 'is ACTIVE' in history


@pytest.mark.full
@pytest.mark.parametrize('name,word', [
    ('hard reboot', HARD), ('unrescue, stop', UNRESCUE)])
def test_request_is_finished_by_the_same_conductor(cluster, machines, name,
                                                   word):
    machine, = machines()
    before, steps, _, _ = REQUESTS[name]
    cluster.reach(machine.node, before)
    machine.remember()
    point = relay.Point(ANSWER, machine.server, word)
    with cluster.pair.nova.hold(point):
        cluster.begin(machine.node, steps)
        point.wait_reached()
        # Back before the others miss it.
        cluster.kill_conductor_of(machine.node, replace=False).start()
    _assert_finished(cluster, {name: machine})


@pytest.mark.full
def test_conductor_that_finishes_dies_too(cluster, machines):
    machine, = machines()
    name = 'unrescue, rescue'
    before, steps, _, _ = REQUESTS[name]
    cluster.reach(machine.node, before)
    machine.remember()
    first = relay.Point(ANSWER, machine.server, UNRESCUE)
    with cluster.pair.nova.hold(first):
        cluster.begin(machine.node, steps)
        first.wait_reached()
        cluster.kill_conductor_of(machine.node)
    second = relay.Point(ANSWER, machine.server, RESCUE)
    with cluster.pair.nova.hold(second):
        second.wait_reached()
        cluster.kill_conductor_of(machine.node)
    _assert_finished(cluster, {name: machine})


@pytest.mark.full
@pytest.mark.parametrize('held', [REQUEST, ANSWER],
                         ids=lambda held: held.name)
def test_boot_device(cluster, machines, held):
    machine, = machines()
    cluster.reach(machine.node, [DISK])
    point = relay.Point(held, 'UPDATE nodes', 'quintupleo_boot_device')
    with (concurrent.futures.ThreadPoolExecutor() as pool,
          cluster.pair.database.hold(point)):
        asked = pool.submit(cluster.api.set_node_boot_device, machine.node,
                            *PXE)
        point.wait_reached()
        cluster.kill_conductor_of(machine.node)
    cluster.wait_at_rest(machine.node)
    # Whoever asked was told, or it was asked for again on the way.
    assert machine.device() == ('disk' if asked.exception() else 'pxe')
    cluster.pair.wait_started()
    cluster.reach(machine.node, [PXE])
    assert machine.device() == 'pxe'


@pytest.mark.full
def test_look_of_power_sync(cluster, machines):
    machine, = machines()
    # At this server, or at the list of all if others were watched of late.
    point = relay.Point(REQUEST, 'GET', '/servers/')
    with cluster.pair.nova.hold(point):
        point.wait_reached()
        # It holds no lock while it looks.
        cluster.pair.kill(machine.conductor())
        cluster.kills += 1
    cluster.wait_at_rest(machine.node)
    cluster.pair.wait_started()
    cluster.pair.wait_power_sync()
    machine.assert_ended(ON, 'ACTIVE')


@pytest.mark.full
@pytest.mark.parametrize('held', [REQUEST, ANSWER],
                         ids=lambda held: held.name)
def test_power_sync_that_restores_a_state(cluster, machines, held):
    machine, = machines()
    point = relay.Point(held, machine.server, START)
    with cluster.pair.nova.hold(point):
        cluster.compute.stop_server(machine.server)
        point.wait_reached()
        cluster.kill_conductor_of(machine.node)
    cluster.wait_at_rest(machine.node)
    cluster.pair.wait_started()
    cluster.pair.wait_power_sync()
    machine.assert_ended(ON, 'ACTIVE', 'stop', 'start')


@pytest.mark.full
def test_verification(cluster):
    machine = Machine(cluster, None, cluster.server())
    cluster.pair.wait_started()
    point = relay.Point(REQUEST, 'GET', machine.server)
    with cluster.pair.nova.hold(point):
        cluster.api.set_node_provision_state(machine.node, 'manage')
        point.wait_reached()
        # One that starts just then would have Ironic end it in "enroll".
        victim = cluster.kill_conductor_of(machine.node, replace=False)
    cluster.wait_at_rest(machine.node)
    machine.assert_ended(ON, 'ACTIVE')
    machine.remove()
    victim.start()
