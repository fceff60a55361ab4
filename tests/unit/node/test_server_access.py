# SPDX-License-Identifier: Apache-2.0
"""A node uses its own server, and no other node's."""

import ast
from concurrent import futures
import pathlib
import threading

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.db.sqlalchemy import api as db_api
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

import quintupleo_power
from quintupleo_power.host_cloud import servers
from quintupleo_power.node import server_access
from tests.unit import base

PACKAGE = pathlib.Path(quintupleo_power.__file__).parent

OTHER_CLOUD = {'quintupleo_auth_url': 'http://keystone.example.test/v3',
               'quintupleo_application_credential_id': 'id',
               'quintupleo_application_credential_secret': 'secret'}

# By interface and method what works on a server, and with which arguments.
REQUESTS = [('power', 'set_power_state', states.POWER_OFF),
            ('power', 'reboot'),
            ('power', 'get_power_state'),
            ('console', 'get_console'),
            ('vendor', 'console_log', 'GET'),
            ('management', 'inject_nmi'),
            ('management', 'get_mac_addresses'),
            ('management', 'wipe_disk'),
            ('management', 'snapshot', 'mine'),
            ('management', 'restore', 'mine'),
            ('management', 'delete_snapshot', 'mine'),
            ('management', 'attach_virtual_media', 'cdrom', 'http://x/y.iso'),
            ('network', 'vif_attach', {'id': uuidutils.generate_uuid()}),
            ('inspect', 'inspect_hardware')]


class ServerAccessTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.config(enabled_inspect_interfaces=['quintupleo', 'no-inspect'])
        self.node.network_interface = 'quintupleo'
        self.node.inspect_interface = 'quintupleo'
        self.node.save()
        objects_utils.create_test_port(
            self.context, node_id=self.node.id, internal_info={}, extra={},
            local_link_connection={}, physical_network=None)

    def add_node(self, reference=None, **values):
        """Make a node that names the server, too."""
        return objects_utils.create_test_node(
            self.context, driver='quintupleo',
            uuid=uuidutils.generate_uuid(), driver_internal_info={},
            driver_info={'quintupleo_server': reference or self.server.id,
                         **values})

    def reboot(self):
        with self.acquire() as task:
            task.driver.power.reboot(task)
            # As Ironic does when a request is done.
            task.node.save()

    def refused(self, function, *says):
        """Call a function that has to be refused without an action."""
        self.host_cloud.forget_requests()
        self.host_cloud.sent.clear()
        error = self.assertRaises(exception.IronicException, function)
        self.assert_says(error, self.node.uuid, self.server.id, *says)
        self.assertEqual([], self.host_cloud.sent)
        self.assertFalse([each for each in self.host_cloud.requests
                          if not each.startswith('GET ')
                          and '/auth/tokens' not in each])
        return error

    def call(self, interface, method, *arguments):
        def function():
            with self.acquire() as task:
                getattr(getattr(task.driver, interface), method)(
                    task, *arguments)
        return function


class SharedTestCase(ServerAccessTestCase):
    """Nodes that name one server."""

    def test_nothing_works_on_the_server_of_another_node(self):
        other = self.add_node()
        for request in REQUESTS:
            self.refused(self.call(*request), other.uuid,
                         '[quintupleo]allow_shared_servers')

    def test_validation_tells(self):
        other = self.add_node()
        self.refused(self.validate, other.uuid)
        self.assertRaises(exception.InvalidParameterValue, self.validate)

    def test_option_permits_it(self):
        self.add_node()
        self.config(allow_shared_servers=True, group='quintupleo')
        self.validate()
        self.reboot()

    def test_node_that_has_used_it_keeps_it(self):
        self.reboot()
        self.node.refresh()
        owner, self.node = self.node, self.add_node()
        self.refused(self.call('power', 'reboot'), owner.uuid)
        self.refused(self.validate, owner.uuid)
        self.node = owner
        self.validate()
        self.reboot()

    def test_spelling_of_the_other(self):
        for reference in (self.server.id.upper(), f' {self.server.id} ',
                          self.server.id.replace('-', ''), 'machine-0'):
            other = self.add_node(reference)
            self.refused(self.call('power', 'reboot'), other.uuid)
            other.destroy()

    def test_name_of_the_other_that_was_resolved_elsewhere(self):
        self.config(allow_shared_servers=True, group='quintupleo')
        self.reboot()
        self.node.refresh()
        self.config(allow_shared_servers=False, group='quintupleo')
        self.node.driver_info = {'quintupleo_server': 'machine-0',
                                 'quintupleo_region_name': 'east'}
        self.node.save()
        owner, self.node = self.node, self.add_node()
        self.refused(self.call('power', 'reboot'), owner.uuid)

    def test_nodes_that_name_something_else(self):
        elsewhere = self.add_node('machine-0', **OTHER_CLOUD)
        moved = self.add_node(uuidutils.generate_uuid())
        moved.set_driver_internal_info('quintupleo_seen',
                                       {'server': self.server.id})
        moved.save()
        for wrong in (7, ['machine-0'], None, ''):
            other = self.add_node()
            other.driver_info = {'quintupleo_server': wrong}
            other.save()
        other = self.add_node()
        other.driver = 'fake-hardware'
        other.save()
        self.validate()
        self.reboot()
        self.assertNotEqual(elsewhere.uuid, self.node.uuid)

    def test_nodes_are_looked_through_once(self):
        read, queries = db_api.Connection.get_nodeinfo_list, []

        def get_nodeinfo_list(*args, **kwargs):
            queries.append(kwargs)
            return read(*args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            db_api.Connection, 'get_nodeinfo_list', get_nodeinfo_list))
        for _ in range(3):
            with self.acquire(shared=True) as task:
                task.driver.power.get_power_state(task)
                task.driver.management.get_boot_mode(task)
        self.assertEqual(0, len(queries))
        for _ in range(2):
            self.reboot()
            self.assertEqual(1, len(queries))

    def test_those_who_ask_at_once_share_a_list_of_nodes(self):
        read, queries = db_api.Connection.get_nodeinfo_list, []
        nodes_of, waiting = server_access._nodes_of, threading.Semaphore(0)

        def get_nodeinfo_list(*args, **kwargs):
            queries.append(kwargs)
            if len(queries) == 1:
                for _ in range(8):
                    self.assertTrue(waiting.acquire(timeout=60))
            return read(*args, **kwargs)

        def count(driver):
            waiting.release()
            return nodes_of(driver)

        self.useFixture(fixtures.MockPatchObject(
            db_api.Connection, 'get_nodeinfo_list', get_nodeinfo_list))
        self.useFixture(fixtures.MockPatchObject(
            server_access, '_nodes_of', count))
        other = self.add_node()
        with self.acquire() as task, futures.ThreadPoolExecutor(8) as pool:
            for found in [pool.submit(task.driver.power.validate, task)
                          for _ in range(8)]:
                self.refused(found.result, other.uuid)
        # 2, but for threads that are held up on their way.
        self.assertLess(len(queries), 8)


class MetadataTestCase(ServerAccessTestCase):
    """[quintupleo]require_server_metadata."""

    def setUp(self):
        super().setUp()
        self.config(require_server_metadata=True, group='quintupleo')

    def test_nothing_works_without_it(self):
        for metadata in ({}, {servers.NODE: uuidutils.generate_uuid()}):
            self.server.metadata = metadata
            for request in REQUESTS:
                self.refused(self.call(*request),
                             f'{servers.NODE}={self.node.uuid}',
                             '[quintupleo]require_server_metadata')
        self.refused(self.validate, servers.NODE)

    def test_power_sync_is_told(self):
        with self.acquire(shared=True) as task:
            error = self.assertRaises(exception.DriverOperationError,
                                      task.driver.power.get_power_state, task)
        self.assert_says(error, servers.NODE)

    def test_it_is_enough(self):
        self.server.metadata = {servers.NODE: self.node.uuid}
        self.validate()
        self.reboot()
        with self.acquire(shared=True) as task:
            self.assertEqual(states.POWER_ON,
                             task.driver.power.get_power_state(task))


def test_a_nodes_server_is_read_in_one_place():
    """A reading elsewhere would be of a server that may be another's."""
    found = {str(path.relative_to(PACKAGE))
             for path in PACKAGE.rglob('*.py')
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call)
             and ast.unparse(node.func).endswith(
                 ('.servers.get', '.servers.get_cached'))
             and 'info' in ast.unparse(node)}

    # It reads a server once more that it may act on.
    assert found <= {'node/server_access.py', 'executor.py'}
