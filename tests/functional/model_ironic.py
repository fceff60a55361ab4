# SPDX-License-Identifier: Apache-2.0
"""Ironic's own conductor code with the driver, in this process.

There is no API and no periodic task: what those would call is called here.
"""

import queue
from unittest import mock

import futurist
from ironic.common import driver_factory
from ironic.common import rpc
from ironic.conductor import manager
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic import objects
from ironic.tests.unit.db import base
from ironic.tests.unit.objects import utils as objects_utils
from oslo_config import cfg
from oslo_utils import uuidutils

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.node import pending_request
from quintupleo_power import takeover
from tests.functional import model_wire

CONF = cfg.CONF


class Conductor(base.DbTestCase):
    """A conductor with its database, which is in memory.

    Used as a fixture: :meth:`setUp` at the beginning and :meth:`doCleanups`
    at the end.
    """

    # Seconds for all Nova actions of a request together.
    ACTION_TIMEOUT = 15

    block_execute = False

    def runTest(self):
        """Test nothing; unittest wants this method."""

    def setUp(self):
        """Make the database and configure the driver."""
        # oslo.db replaces a connection after an hour, and a database in
        # memory goes with it.
        CONF.set_default('connection_recycle_time', -1, group='database')
        super().setUp()
        self.config(enabled_hardware_types=['quintupleo'],
                    enabled_power_interfaces=['quintupleo'],
                    enabled_management_interfaces=['quintupleo'],
                    enabled_boot_interfaces=['pxe'],
                    enabled_deploy_interfaces=['direct'])
        self.config(cloud='minicloud', poll_interval=0.5,
                    action_timeout=self.ACTION_TIMEOUT, group='quintupleo')
        self.take_over()

    def take_over(self):
        """Let another conductor do the work: nothing in memory remains."""
        cloud._clouds.clear()
        self.forget_failures()
        driver_factory.HardwareTypesFactory._extension_manager = None
        for factory in driver_factory._INTERFACE_LOADERS.values():
            factory._extension_manager = None
        with mock.patch.object(rpc, 'get_sensors_notifier', autospec=True):
            self._manager = manager.ConductorManager(CONF.host, 'model')

    def die(self):
        """Do what a conductor does at its start after an unclean end."""
        self.dbapi.clear_node_target_power_state(CONF.host)
        self.dbapi.clear_node_reservations_for_conductor(CONF.host)
        self.take_over()

    def configure(self, server_list_max_age, force):
        """Choose how power sync is to work.

        :param server_list_max_age: the driver's option.
        :param force: Ironic's option force_power_state_during_sync.
        """
        # As if many asked at once, who may share readings.
        server_cache.SHARED_FROM = 1 if server_list_max_age else 3
        self.config(server_list_max_age=server_list_max_age,
                    group='quintupleo')
        self.config(force_power_state_during_sync=force, group='conductor')

    @property
    def sync_retries(self):
        """How often a power sync may fail before maintenance."""
        return CONF.conductor.power_state_sync_max_retries

    def enroll(self, server_id):
        """Make a node for a server.

        :returns: its UUID.
        """
        return objects_utils.create_test_node(
            self.context, uuid=uuidutils.generate_uuid(),
            driver='quintupleo', driver_internal_info={},
            driver_info={'quintupleo_server': server_id}).uuid

    def node(self, uuid):
        """Read a node from the database."""
        return objects.Node.get_by_uuid(self.context, uuid)

    def update(self, uuid, **values):
        """Change a node as its owner does."""
        with task_manager.acquire(self.context, uuid, shared=False) as task:
            for name, value in values.items():
                setattr(task.node, name, value)
            task.node.save()

    def _call(self, uuid, shared, function):
        task = task_manager.TaskManager(self.context, uuid, shared=shared)
        try:
            return function(task)
        except model_wire.Killed:
            # The dead release no locks.
            task = None
            raise
        finally:
            if task is not None:
                task.release_resources()

    def request(self, uuid, power_state, timeout=None):
        """Ask for a power state; returns when all is done.

        This is ConductorManager.change_node_power_state without its thread.
        """
        def change(task):
            task.driver.power.validate(task)
            task.node.target_power_state = (
                conductor_utils._calculate_target_state(power_state))
            task.node.last_error = None
            task.node.save()
            conductor_utils.node_power_action(task, power_state, timeout)
        self._call(uuid, False, change)

    def set_boot_device(self, uuid, device, persistent):
        """Ask for a boot device."""
        self._call(uuid, False, lambda task: conductor_utils.
                   node_set_boot_device(task, device, persistent))

    def get_boot_device(self, uuid):
        """Read the boot device.

        :returns: (device, whether it is persistent).
        """
        found = self._call(
            uuid, True,
            lambda task: task.driver.management.get_boot_device(task))
        return found['boot_device'], found['persistent']

    def forget_failures(self):
        """Let half a minute pass: a cloud that has failed is asked again."""
        cloud._failures.clear()

    def get_power_state(self, uuid):
        """Read the power state."""
        return self._call(uuid, True, lambda task: task.driver.power.
                          get_power_state(task))

    def validate(self, uuid):
        """Validate the power interface."""
        self._call(uuid, True,
                   lambda task: task.driver.power.validate(task))

    def sync(self, uuid):
        """Run Ironic's periodic power sync over one node.

        :returns: how often in a row it has failed by now.
        """
        for _credentials, host in cloud.in_use():
            # As if another node had been asked for before.
            host.servers._asked.put('', True)
        node = self.node(uuid)
        nodes = queue.Queue()
        nodes.put((node.uuid, node.driver, node.conductor_group, node.id))
        self._manager._sync_power_state_nodes_task(self.context, nodes)
        return self._manager.power_state_sync_count.get(uuid, 0)

    def interrupted(self, uuid):
        """Read the request that a conductor left unfinished.

        :returns: (power state, boot device), or None.
        """
        request = self.node(uuid).driver_internal_info.get(pending_request.KEY)
        return (request['power_state'],
                request['boot_device']) if request else None

    def finish(self, uuid):
        """Run the driver's periodic task over one node."""
        node = self.node(uuid)
        conductor = mock.Mock()
        conductor._spawn_worker.side_effect = (
            futurist.SynchronousExecutor().submit)
        conductor.iter_nodes.return_value = [
            (node.uuid, node.driver, node.conductor_group,
             node.driver_internal_info, node.provision_state,
             node.target_power_state)]
        power = self._call(uuid, True, lambda task: task.driver.power)
        power._take_over(conductor, self.context)
        for call in conductor._spawn_worker.call_args_list:
            assert call.args[0] is takeover.run
