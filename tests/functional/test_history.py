# SPDX-License-Identifier: Apache-2.0
"""Any requests of three nodes at once, under faults: see :mod:`history`.

QUINTUPLEO_HISTORY_MINUTES is how long, QUINTUPLEO_SEED what is asked for and
what goes wrong.
"""

import collections
import os
import random
import time
import uuid

from ironic import objects
import pytest

from tests.functional import fault_cases
from tests.functional import history
from tests.functional import web

MACHINES = 3
MINUTES = 0.5
MAC = '52:54:00:00:19:%02x'


@pytest.fixture
def network(deployment):
    """The UUID of a network of the project's own."""
    neutron = deployment.cloud.network
    made = neutron.create_network(name=f'history-{uuid.uuid4()}').id
    neutron.create_subnet(network_id=made, ip_version=4,
                          is_dhcp_enabled=False, cidr='192.0.2.0/24')
    yield made
    for port in neutron.ports(network_id=made):
        neutron.delete_port(port)
    neutron.delete_network(made)


@pytest.fixture
def machines(deployment, network, tmp_path):
    """Nodes of an Ironic in this process, with the same credentials."""
    with fault_cases.conductor(tmp_path), fault_cases.machines(
            deployment, tmp_path, MACHINES, together=True) as made:
        for number, machine in enumerate(made):
            node = machine.node
            node.network_interface = 'quintupleo'
            node.driver_info = {**node.driver_info,
                                'cleaning_network': network}
            node.save()
            objects.Port(node._context, uuid=str(uuid.uuid4()),
                         node_id=node.id, address=MAC % number, extra={},
                         internal_info={}, local_link_connection={},
                         pxe_enabled=True).create()
        yield made


def _report(answers, nemesis):
    counted = collections.Counter(
        (each.request, 'refused' if each.error else 'done')
        for each in answers)
    for name in history.REQUESTS:
        print(f'{name}: {counted[name, "done"]} done, '
              f'{counted[name, "refused"]} refused')
    print(f'{len(answers)} answers, {nemesis.injected} faults, the longest '
          f'took {max(each.seconds for each in answers):.0f} s', flush=True)


def test_no_answer_differs_from_what_nova_has_written_down(
        deployment, network, machines):
    seed = int(os.environ.get('QUINTUPLEO_SEED')
               or random.randrange(10 ** 6))
    print(f'\nHistory with QUINTUPLEO_SEED={seed}')
    truth = history.Truth(deployment.minicloud)
    nemesis = history.Nemesis(machines[0].proxy, seed)
    with web.serve(deployment.iso.parent) as url:
        clients = [history.Client(
            machine, MAC % number, network, truth,
            lambda: deployment.cloud.image.images(
                owner=deployment.cloud.current_project_id),
            f'{url}/{deployment.iso.name}', f'{seed}-{number}')
            for number, machine in enumerate(machines)]
        for thread in (*clients, nemesis):
            thread.start()
        end = time.monotonic() + 60 * float(
            os.environ.get('QUINTUPLEO_HISTORY_MINUTES') or MINUTES)
        for client in clients:
            # One that has failed leaves the time to the others.
            client.join(max(0.0, end - time.monotonic()))
        for client in clients:
            client.stop()
        nemesis.stop()
    answers = [each for client in clients for each in client.answers]
    _report(answers, nemesis)
    assert not [client.failure for client in clients if client.failure]
    wrong = [f'{each.request} of {each.machine}, {each.error or "success"}: '
             f'{each.wrong}' for each in answers if each.wrong]
    assert not wrong, '\n' + '\n'.join(wrong)
    # Neither may all be refused, nor the proxy be passed by.
    assert sum(not each.error for each in answers) > len(answers) / 4
    assert nemesis.injected
    # What is known of each node in the end is true.
    for machine in machines:
        machine.forget_failure()
        machine.sync(0)
        machine.node.refresh()
        state = truth.state(machine.server)
        assert (machine.node.power_state == 'power on') is (
            state.power_state != history.SHUTDOWN)
