# SPDX-License-Identifier: Apache-2.0
"""Flows in which an agent works, by virtual media, on networks of ours."""

import contextlib
import types

import fixtures
from ironic.common import states
from ironic.drivers.modules import inspect_utils

from tests.unit.contract import agent
from tests.unit.contract import installed
from tests.unit.contract import lab
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
WAITING = (states.DEPLOYWAIT, states.CLEANWAIT, states.RESCUEWAIT,
           states.SERVICEWAIT)


class AgentFlowTestCase(lab.LabTestCase):

    def setUp(self):
        super().setUp()
        self.agent = self.useFixture(agent.Agent(self))
        self.useFixture(fixtures.MockPatch(
            'ironic.common.image_service.HttpImageService.validate_href',
            lambda service, href, *args, **kwargs:
                types.SimpleNamespace(
                    url=href, headers={'Content-Length': '1000'})))
        self.set_node(deploy_interface='direct', rescue_interface='agent',
                      inspect_interface='agent')

    def heartbeat_until(self, state):
        """Let the agent live until Ironic has done all that it does."""
        for _ in range(5):
            if self.node.provision_state not in WAITING:
                break
            self.agent.heartbeat()
        self.assert_in(state)

    def deploy_by_agent(self):
        self.attach_vif()
        self.assertIsNone(self.deploy())
        self.assert_in(states.DEPLOYWAIT)
        self.assertEqual(['provision'], self.networks())
        self.heartbeat_until(states.ACTIVE)

    def assert_instance_runs(self):
        self.assert_server_is('active', RUNNING)
        self.assertEqual(['tenant'], self.networks())
        self.assertEqual([], self.media())
        self.assertEqual('a deployed system', self.server.content)
        self.assertEqual(states.POWER_ON, self.node.power_state)
        self.assertFalse(self.node.maintenance)

    def assert_off(self, state):
        """Check that nothing runs, or is left of an agent."""
        self.assert_in(state)
        self.assert_server_is('stopped', SHUTDOWN)
        self.assertEqual(([], []), (self.networks(), self.media()))
        self.assertEqual(states.POWER_OFF, self.node.power_state)
        self.assertFalse(self.node.maintenance)


class LifeTestCase(AgentFlowTestCase):

    @installed.since('26.1')
    def test_service(self):
        self.deploy_by_agent()
        self.agent.forget()
        self.request(self.manager.do_node_service, [
            {'interface': 'deploy', 'step': 'burnin_cpu'}])
        self.assert_in(states.SERVICEWAIT)
        self.assertEqual(['provision'], self.networks())
        self.heartbeat_until(states.ACTIVE)
        self.assertEqual(['burnin_cpu'], self.agent.executed)
        self.assert_instance_runs()

    def test_deploy_and_undeploy(self):
        self.deploy_by_agent()
        self.assert_instance_runs()
        self.assertIn('write_image', self.agent.executed)

        self.agent.forget()
        self.assertIsNone(self.undeploy())
        self.assert_in(states.CLEANWAIT)
        self.assertEqual(['provision'], self.networks())
        self.heartbeat_until(states.AVAILABLE)
        self.assertEqual(['erase_devices_metadata'], self.agent.executed)
        self.assert_off(states.AVAILABLE)
        self.assertEqual('', self.server.content)

    def test_rescue_and_unrescue(self):
        self.deploy_by_agent()
        self.assertIsNone(self.request(self.manager.do_node_rescue, 'open'))
        self.assert_in(states.RESCUEWAIT)
        self.assertEqual(['provision'], self.networks())
        self.heartbeat_until(states.RESCUE)
        self.assertIn('finalize_rescue', self.agent.executed)
        self.assert_server_is('rescued', RUNNING)
        self.assertIsNone(self.request(self.manager.do_node_unrescue))
        self.assert_in(states.ACTIVE)
        self.assert_instance_runs()

    def test_manual_cleaning(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.request(self.manager.do_node_clean, [
            {'interface': 'deploy', 'step': 'erase_devices_metadata'}])
        self.assert_in(states.CLEANWAIT)
        self.heartbeat_until(states.MANAGEABLE)
        self.assert_off(states.MANAGEABLE)
        self.assertEqual(['erase_devices_metadata'], self.agent.executed)


class FirmwareTestCase(AgentFlowTestCase):
    """Deployments and cleanings of other firmware than the server has."""

    def setUp(self):
        super().setUp()
        self.config(group='conductor', bootloader='file:///esp.img')
        for name, properties in (
                ('uefi', {'hw_firmware_type': 'uefi'}),
                ('secure-boot', {'hw_firmware_type': 'uefi',
                                 'os_secure_boot': 'required'})):
            self.host_cloud.add_empty_image(f'quintupleo-empty-{name}',
                                            **properties)

    def deploy_with(self, **capabilities):
        self.add_instance_info(capabilities=capabilities)
        self.host_cloud.forget_requests()
        self.deploy_by_agent()
        self.assert_instance_runs()

    def undeploy_by_agent(self):
        self.agent.forget()
        self.assertIsNone(self.undeploy())
        self.heartbeat_until(states.AVAILABLE)
        self.assert_off(states.AVAILABLE)
        self.agent.forget()
        self.set_instance(image_type='whole-disk')
        self.set_node(driver_internal_info={
            **self.node.driver_internal_info, 'is_whole_disk_image': True})

    def image(self):
        return self.host_cloud.images[self.server.image]['name']

    def test_deployments_there_and_back(self):
        for mode in ('uefi', 'bios'):
            self.deploy_with(boot_mode=mode)
            self.assertEqual(('rebuild', f'quintupleo-empty-{mode}', mode), (
                self.host_cloud.sent[0], self.image(), self.node.boot_mode))
            self.assertEqual(1, self.host_cloud.sent.count('rebuild'))
            self.undeploy_by_agent()
            # Nothing asks for what it was before.
            self.assertEqual(1, self.host_cloud.sent.count('rebuild'))

    def test_secure_boot_comes_before_the_agent_and_stays(self):
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = 'uefi'
        self.deploy_with(secure_boot='true')
        self.assertEqual(('quintupleo-empty-secure-boot', True),
                         (self.image(), self.node.secure_boot))
        self.undeploy_by_agent()
        self.assertEqual(1, self.host_cloud.sent.count('rebuild'))

    def test_secure_boot_of_a_bios_server_is_one_rebuild(self):
        self.deploy_with(secure_boot='true')
        self.assertEqual('quintupleo-empty-secure-boot', self.image())
        self.assertEqual(1, self.host_cloud.sent.count('rebuild'))

    def test_cleaning_of_a_node_with_another_capability(self):
        self.set_node(provision_state=states.MANAGEABLE,
                      properties={'capabilities': 'boot_mode:uefi'})
        self.do('provide')
        self.heartbeat_until(states.AVAILABLE)
        self.assertEqual('quintupleo-empty-uefi', self.image())
        self.agent.forget()
        self.deploy_with()
        self.assertNotIn('rebuild', self.host_cloud.sent)

    def test_missing_image_is_told_before_anything_is_done(self):
        self.host_cloud.images = {
            key: image for key, image in self.host_cloud.images.items()
            if image['name'] != 'quintupleo-empty-uefi'}
        self.add_instance_info(capabilities={'boot_mode': 'uefi'})
        self.assertIn('empty_image_uefi', str(self.deploy()))
        self.assert_in(states.AVAILABLE)
        self.assertEqual([], self.host_cloud.sent)


class InspectionTestCase(AgentFlowTestCase):

    def setUp(self):
        super().setUp()
        self.set_node(provision_state=states.MANAGEABLE)
        with contextlib.suppress(AttributeError):
            self.config(group='inspector', hooks='ramdisk-error,architecture')

    def test_by_the_agent(self):
        self.assertIsNone(self.request(self.manager.inspect_hardware))
        self.assert_in(states.INSPECTWAIT)
        self.assertEqual(['provision'], self.networks())
        self.assert_server_is('rescued', RUNNING)
        self.agent.inspect()
        self.assert_off(states.MANAGEABLE)
        self.assertEqual('x86_64', self.node.properties['cpu_arch'])
        found = inspect_utils.get_inspection_data(self.node, self.context)
        self.assertEqual(agent.INVENTORY['disks'],
                         found['inventory']['disks'])

    def test_without_an_agent(self):
        self.set_node(inspect_interface='quintupleo')
        self.assertIsNone(self.request(self.manager.inspect_hardware))
        self.assert_off(states.MANAGEABLE)
        self.assertEqual(2, self.node.properties['cpus'])


class AbortTestCase(AgentFlowTestCase):
    """What Ironic gives up while an agent boots."""

    def abort(self):
        self.assertIsNone(self.do('abort'))

    def test_cleaning(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.do('provide')
        self.assert_in(states.CLEANWAIT)
        self.abort()
        self.assert_in(states.CLEANFAIL, 'abort')

    def test_inspection(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.request(self.manager.inspect_hardware)
        self.assert_in(states.INSPECTWAIT)
        self.abort()
        self.assert_off(states.INSPECTFAIL)

    def test_deployment_that_is_deleted(self):
        self.attach_vif()
        self.deploy()
        self.assert_in(states.DEPLOYWAIT)
        self.assertIsNone(self.undeploy())
        self.heartbeat_until(states.AVAILABLE)
        self.assert_off(states.AVAILABLE)

    def test_rescue_and_service(self):
        self.deploy_by_agent()
        self.request(self.manager.do_node_rescue, 'open')
        self.assert_in(states.RESCUEWAIT)
        self.abort()
        self.assert_in(states.RESCUEFAIL)
        self.assertIsNone(self.request(self.manager.do_node_unrescue))
        self.assert_instance_runs()

        self.request(self.manager.do_node_service, [
            {'interface': 'deploy', 'step': 'burnin_cpu'}])
        self.assert_in(states.SERVICEWAIT)
        self.abort()
        self.assertIn(self.node.provision_state,
                      (states.ACTIVE, states.SERVICEFAIL))


class FastTrackTestCase(AgentFlowTestCase):
    """An agent that goes on running after one flow for the next one."""

    def setUp(self):
        super().setUp()
        self.config(group='deploy', fast_track=True)
        self.set_node(provision_state=states.MANAGEABLE)

    def test_deployment_after_cleaning(self):
        self.do('provide')
        self.heartbeat_until(states.AVAILABLE)
        self.assert_server_is('rescued', RUNNING)
        self.agent.heartbeat()
        self.host_cloud.forget_requests()
        self.attach_vif()
        self.assertIsNone(self.deploy())
        self.heartbeat_until(states.ACTIVE)
        self.assert_instance_runs()
        # No boot of another agent.
        self.assertNotIn('rescue', self.host_cloud.sent)
