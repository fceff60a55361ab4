# SPDX-License-Identifier: Apache-2.0
"""Clouds that accept connections and say nothing, over real sockets.

benchmarks/dead_cloud.py has the figures of a whole conductor.
"""

import queue
import threading
import time

import fixtures
from ironic.common import exception
from ironic.common import faults
from ironic.common import states
from ironic.conductor import task_manager
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit import socket_cloud

# Nodes of each cloud: silent and trickling ones, and healthy ones.
SILENT, HEALTHY = 40, 4


class SilentCloudsTestCase(base.DriverTestCase):
    """Nodes of clouds that fall silent, and those of another one."""

    def make_host_cloud(self):
        return socket_cloud.SilentHostCloud()

    def setUp(self):
        super().setUp()
        self.clouds = {'silent': self.host_cloud, **{
            name: self.useFixture(socket_cloud.SilentHostCloud())
            for name in ('trickling', 'healthy')}}
        self.clouds['trickling'].trickles = True
        path = self.create_tempfiles(
            [('clouds', socket_cloud.clouds_yaml(self.clouds))],
            ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))
        self.tasks = queue.Queue()
        # By node: what was found of it, and after how many seconds.
        self.took = {}

    def add_tasks(self, name, count, **driver_info):
        """Queue tasks of power sync for new nodes of a cloud.

        :returns: the UUIDs of the nodes.
        """
        found = []
        for number in range(count):
            node = objects_utils.create_test_node(
                self.context, uuid=uuidutils.generate_uuid(),
                driver='quintupleo', driver_internal_info={},
                power_state=states.POWER_ON, driver_info={
                    'quintupleo_server': self.clouds[name].add_server().id,
                    **({key: value % number
                        for key, value in driver_info.items()}
                       or {'quintupleo_cloud': name})})
            task = task_manager.acquire(self.context, node.uuid, shared=True)
            self.addCleanup(task.release_resources)
            self.tasks.put(task)
            found.append(node.uuid)
        return found

    def work(self):
        while True:
            try:
                task = self.tasks.get_nowait()
            except queue.Empty:
                return
            try:
                found = task.driver.power.get_power_state(task)
            except exception.DriverOperationError as exc:
                found = str(exc)
            self.took[task.node.uuid] = found, time.monotonic() - self.begun

    def run_pass(self, workers, *silent):
        """Look at all nodes, while some clouds do not answer.

        :returns: what was found of the healthy nodes, which come last, as
            Ironic looks at nodes first that did not answer.
        """
        self.config(sync_power_state_workers=workers, group='conductor')
        healthy = self.add_tasks('healthy', HEALTHY)
        threads = [threading.Thread(target=self.work, daemon=True)
                   for _ in range(workers)]
        for name in silent:
            self.clouds[name].answers.clear()
        self.begun = time.monotonic()
        for thread in threads:
            thread.start()
        while not set(healthy) <= self.took.keys() and (
                time.monotonic() - self.begun < 30):
            time.sleep(0.05)
        self.addCleanup(lambda: [thread.join() for thread in threads])
        for host in self.clouds.values():
            self.addCleanup(host.answers.set)
        return [self.took.get(each, (None, 30)) for each in healthy]

    def assert_found(self, found, seconds):
        """Check that healthy nodes were seen within a time."""
        for power_state, took in found:
            self.assertEqual(states.POWER_ON, power_state)
            self.assertLess(took, seconds)

    def test_healthy_nodes_wait_two_seconds_at_most(self):
        self.add_tasks('silent', SILENT)
        self.assert_found(self.run_pass(8, 'silent'),
                          cloud.READER_TIMEOUT + 2)
        # Half of the workers wait for the whole timeout, the others do not.
        said = [found for found, _ in self.took.values()
                if found != states.POWER_ON]
        self.assertEqual(SILENT - 4, len(said))
        for text in said:
            self.assertIn('has not answered for 2 s', text)

    def test_two_clouds_of_three_leave_workers_to_the_other(self):
        for workers, nodes in ((8, SILENT), (128, 3 * SILENT)):
            with self.subTest(workers=workers):
                for name in 'silent', 'trickling':
                    self.add_tasks(name, nodes)
                self.assert_found(
                    self.run_pass(workers, 'silent', 'trickling'),
                    2 * cloud.READER_TIMEOUT + 4)

    def test_nodes_with_credentials_of_their_own(self):
        self.config(allowed_auth_urls=[self.clouds['silent'].auth_url],
                    group='quintupleo')
        self.add_tasks(
            'silent', SILENT,
            quintupleo_auth_url=self.clouds['silent'].auth_url + '%.0s',
            quintupleo_application_credential_id='credential-%d',
            quintupleo_application_credential_secret='secret-%d')
        self.assert_found(self.run_pass(8, 'silent'),
                          cloud.READER_TIMEOUT + 2)

    def test_all_are_looked_at_where_they_answer(self):
        for name in 'silent', 'trickling':
            self.add_tasks(name, SILENT)
        self.run_pass(8)
        self.assertEqual({states.POWER_ON},
                         {found for found, _ in self.took.values()})

    def test_all_are_looked_at_where_a_list_takes_long(self):
        exchange = self.host_cloud.exchange

        def exchange_slowly(method, url, *args):
            if '/servers/detail' in url:
                time.sleep(cloud.READER_TIMEOUT + 1)
            return exchange(method, url, *args)

        self.useFixture(fixtures.MockPatchObject(
            self.host_cloud, 'exchange', exchange_slowly))
        # In later passes nothing was answered for long before the list.
        for _ in range(2):
            self.add_tasks('silent', SILENT)
            self.run_pass(8)
            self.assertEqual({states.POWER_ON},
                             {found for found, _ in self.took.values()})
            self.took.clear()
            connection.last_answers.clear()
            for _credentials, host in cloud.in_use():
                host.servers._listed_at = float('-inf')
                host.servers._refreshed_at = float('-inf')


class RecoveryTestCase(base.DriverTestCase):
    """Ironic validates each node in maintenance after a power failure."""

    def test_one_waits_for_all(self):
        self.node.fault = faults.POWER_FAILURE
        self.node.save()
        self.host_cloud.fail('POST', '/auth/tokens$', 401, times=99)
        for _ in range(20):
            self.assertRaises(exception.InvalidParameterValue, self.validate)
        self.assertLessEqual(len(self.host_cloud.requests), 3)
