# SPDX-License-Identifier: Apache-2.0
"""Flows of Ironic for a node that must never be off (disable_power_off)."""

from unittest import mock

import fixtures
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils
import pytest

from quintupleo_power.node import pending_request
from quintupleo_power import takeover
from tests.unit.interfaces import test_flows
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
SNAPSHOT = {'interface': 'management', 'step': 'snapshot',
            'args': {'name': 'a'}}
RESTORE = {**SNAPSHOT, 'step': 'restore'}
WIPE = {'interface': 'management', 'step': 'wipe_disk'}


class NeverOffTestCase(test_flows.FlowTestCase):
    """A node that is available and runs an empty disk."""

    pytestmark = pytest.mark.newest

    def setUp(self):
        super().setUp()
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_ON, disable_power_off=True)
        self.host_cloud.forget_requests()

    def tearDown(self):
        # Whatever a test does, that is what the flag is for.
        self.assertNotIn('stop', self.host_cloud.sent)
        super().tearDown()

    def assert_on(self, *actions):
        """Check what was sent, and that both sides know the node as on."""
        self.assertEqual(list(actions), self.host_cloud.sent)
        self.assert_server_is('active', RUNNING)
        self.assertEqual(states.POWER_ON, self.node.power_state)

    def run_instance(self):
        self.assertIsNone(self.deploy(test_flows.DRIVE))
        self.assert_in(states.ACTIVE)
        self.assert_on('rebuild')
        self.host_cloud.forget_requests()

    def manage(self):
        self.set_node(provision_state=states.MANAGEABLE)

    def clean(self, *steps):
        return self.request(self.manager.do_node_clean, list(steps))


class RebuildTestCase(NeverOffTestCase):
    """What needs no agent."""

    def test_life_of_an_instance(self):
        self.run_instance()
        self.assertNotEqual('', self.server.content)
        self.undeploy()
        self.assert_in(states.AVAILABLE)
        self.assertEqual(('', None), (
            self.server.content, self.server.user_data))
        # As after each cleaning of such a node.
        self.assert_on('rebuild', 'hard reboot')

    def test_machine_that_was_off(self):
        self.set_server('stopped', SHUTDOWN)
        self.set_node(power_state=states.POWER_OFF)
        self.deploy()
        self.assert_in(states.ACTIVE)
        self.assert_on('rebuild', 'start')

    def test_machine_in_a_rescue(self):
        for power_state in (RUNNING, SHUTDOWN):
            self.set_node(provision_state=states.AVAILABLE)
            self.set_server('rescued', power_state)
            self.host_cloud.forget_requests()
            self.deploy()
            self.assert_in(states.ACTIVE)
            self.assert_on('unrescue', 'rebuild')

    def test_deployment_that_fails(self):
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.deploy()
        self.assert_in(states.DEPLOYFAIL, 'Out of rabbits')

    def test_flag_that_was_set_since(self):
        self.set_node(disable_power_off=False)
        self.assertIsNone(self.deploy(test_flows.DRIVE))
        self.host_cloud.forget_requests()
        self.set_node(disable_power_off=True)
        self.undeploy()
        self.assert_in(states.AVAILABLE)
        self.assertEqual('', self.server.content)

    def test_wipe_by_hand(self):
        self.manage()
        for state, sent in ((('active', RUNNING), ['rebuild']),
                            (('stopped', SHUTDOWN), ['rebuild', 'start']),
                            (('rescued', RUNNING), ['unrescue', 'rebuild'])):
            self.set_server(*state)
            self.host_cloud.forget_requests()
            self.request(self.manager.do_node_clean, [WIPE],
                         disable_ramdisk=True)
            self.assert_in(states.MANAGEABLE)
            self.assertEqual('', self.server.content)
            self.assert_on(*sent)

    def test_wish_for_one_boot_outlives_a_wipe(self):
        self.wish(boot_devices.PXE)
        self.set_server('stopped', SHUTDOWN)
        with self.acquire() as task:
            task.driver.management.wipe_disk(task)
        self.assertEqual({'boot_device': 'pxe', 'persistent': False},
                         self.next_device())

    def test_service_steps(self):
        self.run_instance()
        self.request(self.manager.do_node_service, [WIPE])
        self.assert_in(states.ACTIVE)
        self.assert_on('rebuild')

    def test_snapshot_is_refused(self):
        self.run_instance()
        self.request(self.manager.do_node_service, [SNAPSHOT])
        self.assert_in(states.SERVICEFAIL, self.node.uuid,
                       'a snapshot takes a machine that is off',
                       'disable_power_off')
        self.assert_on()

    def test_restore(self):
        self.set_node(disable_power_off=False)
        with self.acquire() as task:
            task.driver.management.snapshot(task, 'a')
        self.set_node(disable_power_off=True, power_state=states.POWER_ON)
        self.set_server('active', RUNNING)
        self.manage()
        self.host_cloud.forget_requests()
        self.request(self.manager.do_node_clean, [RESTORE],
                     disable_ramdisk=True)
        self.assert_in(states.MANAGEABLE)
        self.assert_on('rebuild')

    def test_restore_of_volumes_is_refused(self):
        self.set_node(disable_power_off=False)
        self.server.volumes = (self.host_cloud.add_volume(),)
        with self.acquire() as task:
            task.driver.management.snapshot(task, 'a')
        self.set_node(disable_power_off=True)
        self.set_server('active', RUNNING)
        self.manage()
        self.host_cloud.forget_requests()
        self.request(self.manager.do_node_clean, [RESTORE],
                     disable_ramdisk=True)
        self.assert_in(states.CLEANFAIL, 'restoring volumes')
        self.assert_sent()

    def test_power_off_by_whatever_way(self):
        for power_state in (states.POWER_OFF, states.SOFT_POWER_OFF):
            error = self.refused(self.set_power, power_state)
            self.assert_says(error, self.server.id, 'disable_power_off')
        self.assert_on()

    def test_power_off_that_a_dead_conductor_has_left(self):
        self.set_node(driver_internal_info={pending_request.KEY: {
            'power_state': states.POWER_OFF, 'boot_device': 'disk',
            'provision_state': self.node.provision_state,
            'conductor': 'dead', 'begun_at': self.clock.time()}})
        with self.acquire() as task:
            takeover.run(task)
        self.node.refresh()
        self.assertNotIn(pending_request.KEY, self.node.driver_internal_info)
        self.assertIn('disable_power_off', self.node.last_error)
        self.assert_on()


class AgentFixture(test_flows.AgentFixture):
    """An agent that is booted by PXE and does what it is told."""

    def _setUp(self):
        super()._setUp()
        for name, device in (('prepare_ramdisk', boot_devices.PXE),
                             ('prepare_instance', boot_devices.DISK)):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.pxe_base.PXEBaseMixin.{name}',
                mock.Mock(side_effect=self._set(device))))
        for name in ('validate_rescue', 'validate_inspection'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.pxe_base.PXEBaseMixin.{name}'))
        for name in ('finalize_rescue', 'lockdown', 'sync'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.agent_client.AgentClient.{name}',
                return_value={'command_status': 'SUCCEEDED'}))
        for kind in ('deploy', 'service'):
            self.useFixture(fixtures.MockPatch(
                'ironic.drivers.modules.agent_client.AgentClient.'
                f'get_{kind}_steps', return_value={'command_result': {
                    f'{kind}_steps': {},
                    'hardware_manager_version': {'generic': '1'}}}))

    def _get_commands_status(self, node, **kwargs):
        # Nothing yet, as far as a deployment is concerned.
        return ([] if node.provision_state == states.DEPLOYWAIT else
                super()._get_commands_status(node, **kwargs))

    @staticmethod
    def _set(device):
        def effect(task, *args, **kwargs):
            conductor_utils.node_set_boot_device(
                task, device, persistent=device == boot_devices.DISK)
        return effect


class AgentBaseTestCase(NeverOffTestCase):

    def setUp(self):
        super().setUp()
        self.config(enabled_rescue_interfaces=['agent', 'no-rescue'],
                    enabled_inspect_interfaces=['agent', 'no-inspect'])
        self.agent = self.useFixture(AgentFixture(self))

    def set_interfaces(self, **values):
        self.set_node(**{f'{name}_interface': value
                         for name, value in values.items()})

    def rescue(self):
        return self.request(self.manager.do_node_rescue, 'secret')


class AgentTestCase(AgentBaseTestCase):
    """What Ironic's agent does, with the driver's power below it."""

    def test_deployment(self):
        self.set_interfaces(deploy='direct')
        for name in ('validate', 'write_image', '_update_instance_info'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.agent.AgentDeploy.{name}',
                return_value=None))
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.agent.AgentDeploy.prepare_instance_boot',
            mock.Mock(side_effect=lambda task: task.driver.boot
                      .prepare_instance(task))))
        self.assertIsNone(self.deploy())
        self.assert_in(states.DEPLOYWAIT)
        self.assert_sent('rescue')
        self.agent.heartbeat()
        self.assert_in(states.ACTIVE)
        self.assert_on('rescue', 'unrescue')

    def test_cleaning(self):
        self.set_interfaces(deploy='direct')
        self.manage()
        self.do('provide')
        self.assert_in(states.CLEANWAIT)
        for _ in range(2):
            self.agent.heartbeat()
        self.assert_in(states.AVAILABLE)
        # From whatever it boots next, as Ironic's own drivers leave it.
        self.assert_sent('rescue', 'unrescue')

    def test_rescue_of_an_instance_and_its_end(self):
        self.set_interfaces(rescue='agent')
        self.run_instance()
        self.assertIsNone(self.rescue())
        self.assert_in(states.RESCUEWAIT)
        self.assert_sent('rescue')
        self.agent.heartbeat()
        self.assert_in(states.RESCUE)
        self.request(self.manager.do_node_unrescue)
        self.assert_in(states.ACTIVE)
        self.assert_on('rescue', 'unrescue')

    def test_undeploy_of_a_rescued_instance(self):
        self.set_interfaces(rescue='agent')
        self.run_instance()
        self.rescue()
        self.agent.heartbeat()
        self.undeploy()
        self.assert_in(states.AVAILABLE)
        self.assertEqual('', self.server.content)
        self.assertEqual(['rescue', 'unrescue', 'rebuild'],
                         self.host_cloud.sent[:3])

    def test_snapshot_with_an_agent(self):
        self.set_interfaces(deploy='direct')
        self.manage()
        self.clean(SNAPSHOT)
        while self.node.provision_state == states.CLEANWAIT:
            self.agent.heartbeat()
        self.assert_in(states.CLEANFAIL, 'a snapshot takes a machine')

    def test_inspection(self):
        self.set_interfaces(inspect='agent')
        self.manage()
        self.assertIsNone(self.request(self.manager.inspect_hardware))
        self.assert_in(states.INSPECTWAIT)
        self.assert_sent('rescue')
        with self.acquire() as task:
            task.driver.inspect.abort(task)
        self.assertEqual('rescue', self.host_cloud.sent[0])


class NetworkTestCase(AgentBaseTestCase):
    """Network interface quintupleo, which needs machines that are off."""

    SENTENCE = ('disable_power_off of the node forbids', 'noop')

    def setUp(self):
        super().setUp()
        self.network = network = self.host_cloud.add_network('provision')
        self.config(group='quintupleo', provisioning_network='provision')
        self.host_cloud.add_port(self.server, '20:57:f8:00:00:01', network)
        objects_utils.create_test_port(
            self.context, node_id=self.node.id, address='20:57:f8:00:00:01',
            uuid=uuidutils.generate_uuid(), internal_info={}, extra={})
        self.set_interfaces(network='quintupleo', rescue='agent')

    def assert_refused(self, error=None):
        text = str(error or self.node.last_error)
        for part in (self.node.uuid, *self.SENTENCE):
            self.assertIn(part, text)
        self.assert_on()

    def test_validation(self):
        with self.acquire(shared=True) as task:
            for name in ('validate', 'validate_rescue', 'validate_inspection'):
                self.assert_refused(self.assertRaises(
                    exception.InvalidParameterValue,
                    getattr(task.driver.network, name), task))

    def test_deployment_by_rebuild(self):
        self.assert_refused(self.deploy())
        self.assert_in(states.AVAILABLE)

    def test_deployment_by_the_agent(self):
        self.set_interfaces(deploy='direct')
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.agent.AgentDeploy.validate'))
        self.deploy()
        self.assert_in(states.DEPLOYFAIL)
        self.assert_refused()

    def test_cleaning(self):
        self.set_interfaces(deploy='direct')
        self.manage()
        # What Ironic does after a cleaning of such a node that failed.
        with mock.patch('ironic.drivers.modules.deploy_utils.'
                        'tear_down_inband_cleaning', autospec=True):
            self.do('provide')
        self.assert_in(states.CLEANFAIL)
        self.assert_refused()

    def test_rescue(self):
        self.set_node(provision_state=states.ACTIVE)
        self.assert_refused(self.rescue())
        self.assert_in(states.ACTIVE)

    def test_inspection(self):
        self.set_interfaces(inspect='agent')
        self.manage()
        self.assert_refused(self.request(self.manager.inspect_hardware))
        self.assert_in(states.MANAGEABLE)

    def test_service(self):
        self.set_node(provision_state=states.ACTIVE)
        self.assert_refused(self.request(
            self.manager.do_node_service, [WIPE]))
        self.assert_in(states.ACTIVE)

    def test_flag_that_was_set_since(self):
        self.set_node(disable_power_off=False)
        vif = self.host_cloud.add_neutron_port(
            '20:57:f8:00:00:01', network_id=self.network['id'], fixed_ips=[])
        with self.acquire() as task:
            task.driver.network.vif_attach(task, {'id': vif['id']})
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.host_cloud.forget_requests()
        self.set_node(disable_power_off=True)
        self.undeploy()
        self.assert_in(states.CLEANFAIL)
        self.assertEqual([], self.host_cloud.ports)
        self.assert_sent('hard reboot')
