# SPDX-License-Identifier: Apache-2.0

"""Whole flows of Ironic, by the conductor's own methods for its API."""

import contextlib
from unittest import mock

import fixtures
import futurist
from ironic.common import states
from ironic.conductor import manager
from ironic import objects
from ironic.tests.unit.objects import utils as objects_utils
import oslo_messaging

from quintupleo_power import compat
from quintupleo_power.rebuild import server_fields
from tests.unit.contract import installed
from tests.unit.interfaces import test_deploy
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
REBUILD = 'quintupleo-rebuild'
DRIVE = {'user_data': 'secret', 'meta_data': {
    'public_keys': {'a': test_deploy.KEY}, 'meta': {'a': 'b'}}}
ERASE = {'interface': 'deploy', 'step': 'erase_devices_metadata',
         'priority': 99, 'reboot_requested': False, 'abortable': True}


class FlowTestCase(test_deploy.DeployTestCase):
    """A node that is available, and a conductor that works in this thread."""

    def setUp(self):
        super().setUp()
        self.manager = manager.ConductorManager('test-host', 'test-topic')
        self.manager.dbapi = self.dbapi
        self.manager.conductor = objects.Conductor.register(
            self.context, 'test-host', ['quintupleo'], '')
        self.manager._executor = futurist.SynchronousExecutor()
        self.manager._reserved_executor = None
        # It goes on with the steps of an agent by RPC in Ironic 24.1.
        for name, effect in (
                ('get_topic_for', lambda api, node: 'test-topic'),
                ('continue_node_clean', lambda api, context, node_id, topic:
                    self.manager.continue_node_clean(context, node_id))):
            self.useFixture(fixtures.MockPatch(
                f'ironic.conductor.rpcapi.ConductorAPI.{name}', effect))
        self.config(group='service_catalog',
                    endpoint_override='http://ironic.test')
        self.set_instance(image_type='whole-disk')
        self.set_node(provision_state=states.AVAILABLE)

    def set_node(self, **values):
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def add_instance_info(self, **values):
        self.set_node(instance_info={**self.node.instance_info, **values})

    def request(self, method, *args, **kwargs):
        """Ask the conductor as the API does; return its refusal, if any."""
        try:
            method(self.context, self.node.uuid, *args, **kwargs)
        except oslo_messaging.ExpectedException as exc:
            return exc.exc_info[1]
        finally:
            self.node.refresh()

    def deploy(self, drive=None, steps=None):
        return self.request(self.manager.do_node_deploy, rebuild=False,
                            configdrive=drive, deploy_steps=steps)

    def undeploy(self):
        return self.request(self.manager.do_node_tear_down)

    def do(self, verb):
        return self.request(self.manager.do_provisioning_action, verb)

    def assert_in(self, provision_state, *parts):
        self.assertEqual(provision_state, self.node.provision_state,
                         self.node.last_error)
        for part in parts:
            self.assertIn(part, self.node.last_error)

    def run_instance(self):
        """Deploy the node with all that an instance may have."""
        self.assertIsNone(self.deploy(DRIVE))
        self.assert_in(states.ACTIVE)
        self.assertNotEqual('', self.server.content)
        self.host_cloud.forget_requests()

    def assert_clean(self):
        """Check that the node is available, and empty."""
        self.assert_in(states.AVAILABLE)
        self.assertEqual(
            ('', None, None, {}),
            (self.server.content, self.server.user_data, self.server.key,
             self.server.metadata))
        self.assert_server_is('stopped', SHUTDOWN)

    def assert_not_clean(self, *parts):
        """Check that the node is not available with what it has."""
        self.assertNotEqual('', self.server.content)
        self.assert_in(states.CLEANFAIL, *parts)


class AgentFixture(fixtures.Fixture):
    """An agent that erases disks, and what boots it.

    :ivar executed: names of the steps that it ran.
    """

    def __init__(self, case):
        self.case = case
        self.executed = []

    def _setUp(self):
        for name in ('prepare_ramdisk', 'clean_up_ramdisk',
                     'clean_up_instance', 'prepare_instance', 'validate'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.pxe_base.PXEBaseMixin.{name}'))
        for name in ('get_clean_steps', 'execute_clean_step',
                     'get_commands_status'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.drivers.modules.agent_client.AgentClient.{name}',
                getattr(self, f'_{name}')))

    def _get_clean_steps(self, node, ports):
        return {'command_result': {
            'clean_steps': {'GenericHardwareManager': [ERASE]},
            'hardware_manager_version': {'generic': '1'}}}

    def _execute_clean_step(self, step, node, ports):
        self.executed.append(step['step'])
        self.case.server.content = ''
        return {'command_status': 'RUNNING'}

    def _get_commands_status(self, node, **kwargs):
        return [{'command_name': 'execute_clean_step', 'id': 'a',
                 'command_status': 'SUCCEEDED', 'command_error': None,
                 'command_result': {
                     'clean_result': None, 'clean_step': ERASE}}]

    def heartbeat(self):
        with self.case.acquire(shared=True) as task:
            task.driver.deploy.heartbeat(task, 'http://agent.test', '9.0')
        self.case.node.refresh()


class InterfaceOfTheTaskTestCase(FlowTestCase):
    """The interface that a task runs is not always the node's own."""

    def setUp(self):
        super().setUp()
        self.agent = self.useFixture(AgentFixture(self))

    def deploy_by_override(self):
        self.set_node(deploy_interface='direct')
        self.add_instance_info(deploy_interface=REBUILD)
        self.run_instance()

    def test_disk_of_an_instance_that_overrides_the_interface_is_wiped(self):
        self.deploy_by_override()
        self.undeploy()
        self.assert_clean()
        self.assert_sent('stop', 'rebuild')

    def test_rescue_is_asked_for_where_an_agent_deploys(self):
        del self.host_cloud.images[self.rescue_image['id']]
        self.deploy_by_override()
        self.set_node(deploy_interface=REBUILD)
        self.add_instance_info(deploy_interface='direct')
        self.assertIn('rescue image', str(self.undeploy()))

    def test_rescue_image_is_not_asked_for_where_virtual_media_boot(self):
        del self.host_cloud.images[self.rescue_image['id']]
        self.set_node(deploy_interface='direct')
        self.add_instance_info(boot_interface='quintupleo-virtual-media')
        self.validate()


class NothingIsLeftTestCase(FlowTestCase):
    """Automated cleaning removes an instance, or the node is not available."""

    def setUp(self):
        super().setUp()
        self.agent = self.useFixture(AgentFixture(self))

    def clean_by_agent(self):
        """Let the agent boot, be asked for its steps and run the last one."""
        self.assert_in(states.CLEANWAIT)
        for _ in range(2):
            self.agent.heartbeat()
        self.assertEqual(['erase_devices_metadata'], self.agent.executed)
        self.agent.executed.clear()

    def test_interface_that_was_changed_while_the_node_was_active(self):
        self.run_instance()
        self.set_node(deploy_interface='direct')
        self.undeploy()
        self.clean_by_agent()
        self.assert_clean()

    def test_conductor_that_died_between_tear_down_and_cleaning(self):
        self.set_node(deploy_interface='direct')
        self.add_instance_info(deploy_interface=REBUILD)
        self.run_instance()
        with mock.patch('ironic.conductor.cleaning.do_node_clean',
                        autospec=True):
            self.undeploy()
        self.assert_in(states.CLEANING)
        # What the next one does with it, and then the operator.
        with self.acquire() as task:
            task.process_event('fail')
        self.do('manage')
        self.do('provide')
        self.clean_by_agent()
        self.assert_clean()

    def test_tear_down_that_failed_has_forgotten_the_override(self):
        self.set_node(deploy_interface='direct')
        self.add_instance_info(deploy_interface=REBUILD)
        self.run_instance()
        with mock.patch(
                'ironic.drivers.modules.network.noop.NoopNetwork.'
                'unconfigure_tenant_networks', autospec=True,
                side_effect=test_deploy.exception.NetworkError('down')), (
                contextlib.suppress(test_deploy.exception.NetworkError)):
            self.undeploy()
        self.assert_in(states.ERROR)
        self.undeploy()
        self.clean_by_agent()
        self.assert_clean()

    def test_override_of_the_interface_that_has_no_agent(self):
        self.run_instance()
        self.add_instance_info(deploy_interface='direct')
        self.undeploy()
        # Ironic forgets the override before the agent is there.
        self.assert_in(states.CLEANWAIT)
        with mock.patch('ironic.drivers.modules.network.noop.NoopNetwork.'
                        'remove_cleaning_network', autospec=True) as remove:
            self.agent.heartbeat()
        remove.assert_called_once()
        self.assert_clean()

    def test_server_with_a_volume_that_an_agent_has_erased(self):
        self.run_instance()
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.undeploy()
        self.assert_not_clean('cannot be wiped', 'detach')
        self.set_node(deploy_interface='direct', maintenance=False)
        self.do('manage')
        self.do('provide')
        self.clean_by_agent()
        self.assert_clean()

    def test_image_that_was_made_a_network_first_one(self):
        self.run_instance()
        self.host_cloud.images[self.server.image][
            'quintupleo_boot'] = 'network-first'
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.forget_clouds()
        self.undeploy()
        self.assert_not_clean('beside the CD')

    def test_step_that_fails_after_the_agent(self):
        self.run_instance()
        self.set_node(deploy_interface='direct')
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.undeploy()
        self.clean_by_agent()
        self.assert_in(states.CLEANFAIL, 'clear_instance_data',
                       'Out of rabbits')
        self.set_node(maintenance=False)
        self.do('manage')
        self.do('provide')
        self.clean_by_agent()
        self.assert_clean()
        self.assertNotIn(server_fields.KEY, self.node.driver_internal_info)

    def test_node_that_no_rebuild_deployed_is_the_agents_alone(self):
        self.set_node(deploy_interface='direct', instance_info={},
                      provision_state=states.MANAGEABLE)
        self.do('provide')
        self.clean_by_agent()
        self.assert_in(states.AVAILABLE)
        self.assertNotIn('rebuild', self.host_cloud.sent)

    def test_operator_who_forgoes_it(self):
        self.config(group='conductor', clean_step_priority_override=[
            {'management.wipe_disk': '0'}])
        self.run_instance()
        self.undeploy()
        self.assert_in(states.AVAILABLE)
        self.assert_sent('stop')

    def test_step_by_hand_of_a_server_that_has_nothing(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.request(self.manager.do_node_clean, [
            {'interface': 'management', 'step': 'clear_instance_data'}])
        self.assert_in(states.MANAGEABLE)
        self.assert_sent()


class RunbookTestCase(FlowTestCase):
    """Automated cleaning by a runbook, and steps that Ironic leaves out."""

    pytestmark = installed.since('32')

    def setUp(self):
        super().setUp()
        self.agent = self.useFixture(AgentFixture(self))

    def set_runbook(self, step, args=None, **values):
        self.config(group='conductor', automated_cleaning_step_source='hybrid',
                    automated_cleaning_runbook='CUSTOM_CLEAN',
                    automated_cleaning_runbook_validate_traits=False)
        objects_utils.create_test_runbook(
            self.context, name='CUSTOM_CLEAN', steps=[
                {'interface': 'management', 'step': step,
                 'args': args or {}, 'order': 1}], **values)

    def test_that_leaves_the_disk(self):
        self.set_runbook('delete_snapshot', {'name': 'a'},
                         disable_ramdisk=True)
        self.run_instance()
        self.undeploy()
        self.assert_not_clean(self.node.uuid, 'management.wipe_disk',
                              'runbook')
        self.assert_sent('stop')

    def test_that_leaves_it_to_an_agent(self):
        self.set_runbook('delete_snapshot', {'name': 'a'})
        self.run_instance()
        self.set_node(deploy_interface='direct')
        self.undeploy()
        if self.node.provision_state == states.CLEANWAIT:
            # Ironic 32 looks at the steps when the agent is there.
            self.agent.heartbeat()
        self.assert_not_clean('management.clear_instance_data', 'runbook')
        self.assertNotIn('rebuild', self.host_cloud.sent)

    def test_that_wipes(self):
        self.set_runbook('wipe_disk', disable_ramdisk=True)
        self.set_node(deploy_interface='direct')
        self.add_instance_info(deploy_interface=REBUILD)
        self.run_instance()
        self.undeploy()
        self.assert_clean()

    def test_step_that_is_left_out(self):
        self.config(group='api',
                    disallow_clean_steps=['management.wipe_disk'])
        self.run_instance()
        self.undeploy()
        self.assert_not_clean('[api]disallow_clean_steps')


class DeployStepsTestCase(FlowTestCase):
    """Steps that are asked for beside the deployment itself."""

    UNKNOWN = {'interface': 'deploy', 'step': 'write_poetry', 'args': {},
               'priority': 50}

    def setUp(self):
        super().setUp()
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_ON)

    def assert_refused(self, *parts):
        """Check that the deployment failed before anything was done."""
        self.assert_in(states.DEPLOYFAIL, *parts)
        self.assert_sent()
        self.assert_server_is('active', RUNNING)

    def set_template(self, **step):
        objects_utils.create_test_deploy_template(
            self.context, name='CUSTOM_POETRY',
            steps=[{**self.UNKNOWN, **step}])
        self.add_instance_info(traits=['CUSTOM_POETRY'])
        objects.TraitList.create(self.context, self.node.id,
                                 ['CUSTOM_POETRY'])

    def test_step_that_only_an_agent_could_know(self):
        for step in (self.UNKNOWN, {**self.UNKNOWN, 'priority': 150},
                     {**self.UNKNOWN, 'interface': 'power',
                      'step': 'set_power_state'}):
            self.deploy(steps=[step])
            self.assert_refused(step['step'])

    def test_step_of_raid_by_an_agent(self):
        self.config(enabled_raid_interfaces=['no-raid', 'agent'])
        self.set_node(raid_interface='agent')
        self.deploy(steps=[{
            'interface': 'raid', 'step': 'apply_configuration',
            'args': {'raid_config': {}}, 'priority': 50}])
        self.assert_refused('apply_configuration')

    def test_nonsense_in_place_of_the_deployment(self):
        self.deploy(steps=[self.UNKNOWN, {
            'interface': 'deploy', 'step': 'deploy', 'args': {},
            'priority': 0}])
        self.assert_refused()

    def test_deploy_template(self):
        self.set_template()
        for steps in (None, [{**self.UNKNOWN, 'priority': 60}]):
            self.assertIn('write_poetry', str(self.deploy(steps=steps)))
            self.assert_in(states.AVAILABLE)
            self.assert_sent()

    def test_deploy_template_that_was_changed_since(self):
        with mock.patch('quintupleo_power.interfaces.deploy.'
                        'QuintupleoRebuildDeploy.'
                        'prepare', autospec=True,
                        side_effect=lambda *args: self.set_template()):
            self.deploy()
        self.assert_refused('write_poetry')

    def test_next_request_does_without(self):
        self.deploy(steps=[self.UNKNOWN])
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.assert_sent('stop', 'rebuild', 'start')


class NoopTestCase(FlowTestCase):
    """Interfaces of Ironic's that do nothing."""

    def setUp(self):
        super().setUp()
        self.config(enabled_management_interfaces=['quintupleo', 'noop'])

    def power(self):
        """What the API says of the power interface."""
        return self.manager.validate_driver_interfaces(
            self.context, self.node.uuid)['power']

    def enable_no_deploy(self):
        if not compat.NO_DEPLOY:
            self.skipTest('Before Ironic 33.0')
        self.config(enabled_deploy_interfaces=[REBUILD, 'direct', 'noop'])

    def test_management_of_a_server_that_asks_the_network_first(self):
        self.set_node(management_interface='noop', deploy_interface='direct')
        self.assertIn('sets no boot device', self.power()['reason'])
        self.server.image = self.host_cloud.add_image(
            'iso', quintupleo_boot='network-first')['id']
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.assertEqual({'result': True}, self.power())

    def test_management_with_a_rebuild_is_refused(self):
        self.set_node(management_interface='noop')
        self.assertIn('does not wipe', self.power()['reason'])
        self.assertIn('does not wipe', str(self.deploy()))
        self.assert_in(states.AVAILABLE)
        self.assert_sent()

    def test_management_with_virtual_media_is_refused(self):
        self.set_node(management_interface='noop', deploy_interface='direct',
                      boot_interface='quintupleo-virtual-media')
        with self.acquire(shared=True) as task:
            error = self.assertRaises(
                test_deploy.exception.InvalidParameterValue,
                task.driver.boot.validate, task)
        self.assertIn('boot device cdrom', str(error))

    def test_instance_that_overrides_the_management_is_not_left(self):
        self.run_instance()
        self.add_instance_info(management_interface='noop')
        self.assertIn('remove instance_info/management_interface',
                      str(self.undeploy()))
        self.assert_in(states.ACTIVE)
        self.assert_sent()
        self.set_node(instance_info={
            key: value for key, value in self.node.instance_info.items()
            if key != 'management_interface'})
        self.assertIsNone(self.undeploy())
        self.assert_clean()

    def test_deployment_that_does_nothing(self):
        self.enable_no_deploy()
        self.host_cloud.images.pop(self.rescue_image['id'])
        self.set_node(deploy_interface='noop', instance_info={})
        self.assertEqual({'result': True}, self.power())
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.assert_sent()

    def test_instance_whose_deployment_was_changed_to_it_is_wiped(self):
        self.enable_no_deploy()
        self.run_instance()
        self.set_node(deploy_interface='noop')
        self.assertIsNone(self.undeploy())
        self.assert_clean()


class ServiceStepsTestCase(FlowTestCase):
    """Steps that are asked for of an instance that runs."""

    def setUp(self):
        super().setUp()
        self.run_instance()

    def service(self, interface, step, **args):
        return self.request(self.manager.do_node_service, [
            {'interface': interface, 'step': step, 'args': args}])

    def test_what_is_no_step_is_not_called(self):
        for interface, step, args in (
                ('power', 'set_power_state', {'power_state': 'power off'}),
                ('deploy', 'tear_down', {}), ('deploy', 'deploy', {}),
                ('management', 'inject_nmi', {}), ('deploy', 'nonsense', {}),
                ('management', 'clear_instance_data', {})):
            self.service(interface, step, **args)
            self.assert_in(states.SERVICEFAIL, step)
        self.assert_sent()
        self.assert_server_is('active', RUNNING)

    def test_arguments(self):
        for step, args in (('snapshot', {}), ('wipe_disk', {'name': 'a'})):
            self.service('management', step, **args)
            self.assert_in(states.SERVICEFAIL, 'argument')
        self.assert_sent()

    def test_steps_that_there_are(self):
        self.service('management', 'wipe_disk')
        self.assert_in(states.ACTIVE)
        self.assert_sent('rebuild', 'stop')

    def test_one_that_needs_an_agent(self):
        with self.acquire(shared=True) as task:
            step = {'interface': 'deploy', 'step': 'burn',
                    'priority': 0, 'abortable': False, 'argsinfo': None,
                    'requires_ramdisk': True}
            self.useFixture(fixtures.MockPatchObject(
                task.driver.deploy, 'service_steps', [step]))
        with self.acquire() as task:
            task.node.set_driver_internal_info('service_steps', [
                {'interface': 'deploy', 'step': 'burn'}])
            error = self.assertRaises(
                test_deploy.exception.InvalidParameterValue,
                task.driver.deploy.prepare_service, task)
        self.assertIn('ramdisk', str(error))

    def test_manual_cleaning(self):
        self.set_node(provision_state=states.MANAGEABLE)
        for interface, step in (('power', 'reboot_now'),
                                ('power', 'set_power_state'),
                                ('deploy', 'tear_down'),
                                ('deploy', 'erase_devices_metadata')):
            self.request(self.manager.do_node_clean, [
                {'interface': interface, 'step': step}])
            self.assert_in(states.CLEANFAIL, step)
            self.do('manage')
        # As after each cleaning that fails at its beginning.
        self.assert_sent('stop')
