# SPDX-License-Identifier: Apache-2.0
"""What is shared between nodes, against a real Nova.

A server has to look the same in a list, among what has changed of late, and
by itself.
"""

import concurrent.futures
import time

import pytest

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import server_cache
from quintupleo_power import transitions
from tests.functional import conftest

Action = transitions.Action

# Seconds.
MAX_AGE = 30.0


@pytest.fixture(scope='module')
def servers(deployment):
    """Three servers."""
    return [deployment.server().id for _ in range(3)]


class Requests:
    """A compute service that keeps what it was asked for."""

    def __init__(self, compute):
        self._compute = compute
        self.reads = []
        self.microversion = compute.microversion
        self.post = compute.post

    @property
    def clock_ahead(self):
        return self._compute.clock_ahead

    def get(self, path, *args, **query):
        self.reads.append((path, *query))
        return self._compute.get(path, *args, **query)


@pytest.fixture
def host(deployment, monkeypatch):
    """The host cloud as a conductor has it, and what it reads of servers."""
    monkeypatch.setenv('OS_CLIENT_CONFIG_FILE', str(deployment.clouds_yaml))
    compute, *others = connection.connect(
        connection.Credentials(cloud=conftest.lab.CLOUD))
    requests = Requests(compute)
    return cloud.HostCloud(requests, *others), requests.reads


def test_a_pass_costs_one_list(host, servers):
    host, reads = host
    for server_id in servers:
        host.servers.get_cached(server_id, MAX_AGE)
    assert reads == [(f'/servers/{servers[0]}',), ('/servers/detail',)]
    seen = [host.servers.get_cached(server_id, MAX_AGE)
            for server_id in servers]
    assert len(reads) == 2
    assert seen == [host.servers.get(server_id) for server_id in servers]


def test_later_pass_costs_one_list_of_changes(host, servers, deployment):
    host, reads = host
    for server_id in servers:
        host.servers.get_cached(server_id, MAX_AGE)
    compute = deployment.cloud.compute
    compute.stop_server(servers[1])
    compute.wait_for_server(compute.get_server(servers[1]), 'SHUTOFF')
    reads.clear()
    # As if a minute had passed.
    seen = [host.servers.get_cached(server_id, 0.001)
            for server_id in servers]
    assert set(reads) == {('/servers/detail', 'changes-since')}
    assert seen == [host.servers.get(server_id) for server_id in servers]
    assert seen[1].state.vm_state == 'stopped'
    compute.start_server(servers[1])
    compute.wait_for_server(compute.get_server(servers[1]))


def test_action_makes_one_server_stale_and_no_other(host, servers):
    host, reads = host
    for server_id in servers:
        host.servers.get_cached(server_id, MAX_AGE)
    host.actions.run(host.servers.get(servers[0]), Action.STOP,
                     time.monotonic() + 60)
    reads.clear()
    seen = [host.servers.get_cached(server_id, MAX_AGE)
            for server_id in servers]
    assert reads == [(f'/servers/{servers[0]}',)]
    assert [server.state.vm_state for server in seen] == [
        'stopped', 'active', 'active']
    host.actions.run(seen[0], Action.START, time.monotonic() + 60)


def test_many_wait_with_one_list(host, servers, monkeypatch):
    host, reads = host
    # With any two of them waiting the third must not be done yet.
    monkeypatch.setattr(server_cache, 'SHARED_FROM', 1)
    before = [host.servers.get(server_id) for server_id in servers]
    for action in (Action.STOP, Action.START, Action.HARD_REBOOT):
        reads.clear()
        begun_in = before[0].state.vm_state
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
            before = [future.result() for future in [
                pool.submit(host.actions.run, server, action,
                            time.monotonic() + 60)
                for server in before]]
        assert all(transitions.reached(action, server.state, begun_in)
                   for server in before)
        assert set(reads) - {
            (path,) for path, *_ in reads if 'instance-actions' in path} == {
                ('/servers/detail', 'changes-since')}
    assert before == [host.servers.get(server_id) for server_id in servers]
