# SPDX-License-Identifier: Apache-2.0
"""A cloud that accepts connections and says nothing, over real sockets.

benchmarks/dead_cloud.py has the figures of a whole conductor.
"""

import queue
import threading
import time

from ironic.common import exception
from ironic.common import faults
from ironic.common import states
from ironic.conductor import task_manager
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

from quintupleo_power.host_cloud import cloud
from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit import socket_cloud

# As [conductor]sync_power_state_workers.
WORKERS = 8
SILENT, HEALTHY = 40, 4


class SilentCloudTestCase(base.DriverTestCase):
    """Nodes of a cloud that falls silent, and those of another one."""

    def make_host_cloud(self):
        return socket_cloud.SilentHostCloud()

    def setUp(self):
        super().setUp()
        self.healthy = self.useFixture(socket_cloud.SilentHostCloud())
        path = self.create_tempfiles([('clouds', f"""
clouds:
  healthy:
    auth:
      auth_url: {self.healthy.auth_url}
      username: operator
      password: {host_cloud_fixture.SECRET}
      project_name: machines
      user_domain_name: Default
      project_domain_name: Default
""")], ext='.yaml')[0]
        self.useFixture(host_cloud_fixture.CloudsYaml(path))
        self.tasks = queue.Queue()
        self.took = {}
        # Ironic looks at nodes first that did not answer.
        for number in range(SILENT + HEALTHY):
            self.tasks.put(self.make_task(number >= SILENT))

    def make_task(self, is_healthy):
        """Return a task of power sync for a node of one of the clouds."""
        host = self.healthy if is_healthy else self.host_cloud
        node = objects_utils.create_test_node(
            self.context, uuid=uuidutils.generate_uuid(),
            driver='quintupleo', driver_internal_info={},
            power_state=states.POWER_ON, driver_info={
                'quintupleo_server': host.add_server().id,
                **({'quintupleo_cloud': 'healthy'} if is_healthy else {})})
        task = task_manager.acquire(self.context, node.uuid, shared=True)
        self.addCleanup(task.release_resources)
        return task

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

    def run_pass(self):
        """Look at all nodes; return what was found of the healthy ones."""
        threads = [threading.Thread(target=self.work, daemon=True)
                   for _ in range(WORKERS)]
        healthy = [task.node.uuid for task in self.tasks.queue
                   if task.node.driver_info.get('quintupleo_cloud')]
        self.begun = time.monotonic()
        for thread in threads:
            thread.start()
        while not set(healthy) <= self.took.keys() and (
                time.monotonic() - self.begun < 30):
            time.sleep(0.05)
        self.addCleanup(lambda: [thread.join() for thread in threads])
        self.addCleanup(self.host_cloud.answers.set)
        return [self.took.get(each, (None, 30)) for each in healthy]

    def test_healthy_nodes_wait_two_seconds_at_most(self):
        self.host_cloud.answers.clear()
        for found, took in self.run_pass():
            self.assertEqual(states.POWER_ON, found)
            self.assertLess(took, cloud.READER_TIMEOUT + 2)
        # Half of the workers wait for the whole timeout, the others do not.
        said = [found for found, _ in self.took.values()
                if found != states.POWER_ON]
        self.assertEqual(SILENT - WORKERS // 2, len(said))
        for text in said:
            self.assertIn('has not answered for 2 s', text)

    def test_all_are_looked_at_where_it_answers(self):
        self.run_pass()
        self.assertEqual({states.POWER_ON},
                         {found for found, _ in self.took.values()})


class RecoveryTestCase(base.DriverTestCase):
    """Ironic validates each node in maintenance after a power failure."""

    def test_one_waits_for_all(self):
        self.node.fault = faults.POWER_FAILURE
        self.node.save()
        self.host_cloud.fail('POST', '/auth/tokens$', 401, times=99)
        for _ in range(20):
            self.assertRaises(exception.InvalidParameterValue, self.validate)
        self.assertLessEqual(len(self.host_cloud.requests), 3)
