# SPDX-License-Identifier: Apache-2.0
"""Console logs of failures, with Ironic's own handlers of failures."""

import contextlib
import datetime
import logging
import pathlib
import tarfile
from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.drivers.modules import deploy_utils
from ironic.drivers.modules.inspector import interface as inspector
from ironic.drivers.modules import pxe_base
from ironic.drivers import utils as driver_utils
from oslo_utils import timeutils

from quintupleo_power import boot_log
from tests.unit import base
from tests.unit import nova_model

PANIC = '[    1.337] Kernel panic - not syncing: VFS: Unable to mount root fs'
OFF, ON = states.POWER_OFF, states.POWER_ON
SOFT_OFF = states.SOFT_POWER_OFF


class BootLogTestCase(base.DriverTestCase):
    """A node whose ramdisk has panicked."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.config(deploy_logs_local_path=str(self.folder), group='agent')
        # Ironic calls them in its handlers; they have nothing to do here.
        for name in ('clean_up_ramdisk', 'clean_up_instance'):
            self.useFixture(fixtures.MockPatchObject(
                pxe_base.PXEBaseMixin, name, autospec=True))
        self.set_server('rescued', nova_model.RUNNING)
        self.server.console_log = PANIC
        # As Ironic saves a node that is created by its API.
        self.addCleanup(boot_log._held.clear)
        self.node.power_interface = 'quintupleo'
        self.node.network_interface = 'noop'
        self.node.save()

    def put(self, provision_state, **fields):
        """Put the node into a provision state."""
        self.node.provision_state = provision_state
        for name, value in fields.items():
            setattr(self.node, name, value)
        self.node.save()

    def node_now(self):
        """The node as it is in the database."""
        self.node.refresh()
        return self.node

    def time_out(self, handler):
        """Do what ``_fail_if_in_state`` of the conductor does."""
        with self.acquire() as task:
            task.process_event('fail')
            # The handler of a deployment fails it a second time, of which
            # nobody hears.
            with contextlib.suppress(exception.InvalidState):
                handler(task)

    def read(self):
        """How often the console log was read."""
        return len([body for body in self.host_cloud.bodies
                    if 'getConsoleOutput' in body])

    def kept(self):
        """What was kept: (label, text) of each archive, the oldest first."""
        found = []
        for path in sorted(self.folder.iterdir(),
                           key=lambda path: path.stat().st_mtime_ns):
            with tarfile.open(path, 'r:gz') as archive:
                self.assertEqual(['console.log'], archive.getnames())
                text = archive.extractfile('console.log').read().decode()
            uuid, label, _time = path.name.split('_')
            self.assertEqual(self.node.uuid, uuid)
            found.append((label, text))
        return found

    def assert_kept(self, *labels):
        """Check what was kept, that it is once, and before any action."""
        self.node.refresh()
        self.assertEqual([(label, PANIC) for label in labels], self.kept())
        self.assertEqual(len(labels), self.read())

    def assert_kept_before(self, *sent):
        """Check that no action came before the log was read."""
        self.assertEqual(list(sent), self.host_cloud.sent)
        posts = [body for body in self.host_cloud.bodies
                 if body and 'auth' not in body]
        self.assertIn('getConsoleOutput', posts[0])

    def assert_held(self, label):
        """Check that what was read before a power off is kept by and by."""
        self.assertEqual([], self.kept())
        self.server.console_log = 'Nothing of the failure'
        self.assertTrue(self.run_periodic('_keep_boot_logs'))
        self.assert_kept(label)
        self.assert_kept_before('unrescue', 'stop')
        self.assertFalse(self.run_periodic('_keep_boot_logs'))


class DeploymentTestCase(BootLogTestCase):

    def test_failure_that_powers_the_machine_off(self):
        self.put(states.DEPLOYWAIT)
        with self.acquire() as task:
            deploy_utils.set_failed_state(task, 'No', collect_logs=False)
        self.assertEqual(states.DEPLOYFAIL, self.node_now().provision_state)
        self.assert_kept('deploy-console')
        self.assert_kept_before('unrescue', 'stop')
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_machine_that_is_rebooted_after_a_failure(self):
        self.put(states.DEPLOYFAIL)
        with self.acquire() as task:
            task.driver.power.reboot(task)
            task.node.save()
        self.assert_kept('deploy-console')
        self.assert_kept_before('unrescue')

    def test_timeout_that_no_action_follows(self):
        self.put(states.DEPLOYWAIT)
        self.time_out(conductor_utils.cleanup_after_timeout)
        self.assertEqual(states.DEPLOYFAIL, self.node_now().provision_state)
        self.assert_kept()
        self.assertTrue(self.run_periodic('_keep_boot_logs'))
        self.assert_kept('deploy-console')
        self.assertFalse(self.run_periodic('_keep_boot_logs'))
        self.assertEqual([], self.host_cloud.sent)

    def test_node_that_is_undeployed_at_once(self):
        self.put(states.DEPLOYFAIL)
        with self.acquire() as task:
            task.process_event('delete')
            task.driver.deploy.tear_down(task)
            task.driver.power.set_power_state(task, ON)
            task.node.save()
        self.assert_kept('deploy-console')
        self.assert_kept_before('unrescue', 'stop', 'start')

    def test_node_that_is_undeployed_later(self):
        self.put(states.DEPLOYFAIL)
        self.run_periodic('_keep_boot_logs')
        with self.acquire() as task:
            task.process_event('delete')
            task.driver.deploy.tear_down(task)
        self.assert_kept('deploy-console')

class CleaningTestCase(BootLogTestCase):

    def test_timeout(self):
        self.put(states.CLEANWAIT)
        self.time_out(conductor_utils.cleanup_cleanwait_timeout)
        self.assert_kept('cleaning-console')
        self.assert_kept_before('unrescue', 'stop')
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_error_before_the_first_step(self):
        self.put(states.CLEANING)
        with self.acquire() as task:
            try:
                raise exception.NodeCleaningFailure('No steps')
            except exception.NodeCleaningFailure:
                conductor_utils.cleaning_error_handler(task, 'No')
        self.assertEqual(states.CLEANFAIL, self.node_now().provision_state)
        self.assert_held('cleaning-console')

    def test_step_that_failed_leaves_the_machine_on(self):
        self.put(states.CLEANWAIT, clean_step={'step': 'erase_devices'})
        with self.acquire() as task:
            conductor_utils.cleaning_error_handler(task, 'No')
        self.assertTrue(self.node_now().maintenance)
        self.assert_kept()
        self.assertTrue(self.run_periodic('_keep_boot_logs'))
        self.assert_kept('cleaning-console')
        self.assertEqual([], self.host_cloud.sent)

    def test_step_that_failed_with_power_off_wished_for(self):
        self.config(poweroff_in_cleanfail=True, group='conductor')
        self.put(states.CLEANWAIT, clean_step={'step': 'erase_devices'})
        with self.acquire() as task:
            conductor_utils.cleaning_error_handler(task, 'No')
        self.assert_held('cleaning-console')


class OtherActivitiesTestCase(BootLogTestCase):

    def test_hook_of_an_inspection(self):
        self.put(states.INSPECTING, driver_internal_info={
            'inspector_manage_boot': True})
        with self.acquire() as task:
            try:
                raise exception.HardwareInspectionFailure(error='No')
            except exception.HardwareInspectionFailure:
                inspector.inspection_error_handler(task, 'No')
        self.assertEqual(states.INSPECTFAIL, self.node_now().provision_state)
        self.assert_held('inspect-console')

    def test_inspection_that_is_aborted(self):
        self.put(states.INSPECTWAIT)
        with self.acquire() as task:
            task.driver.power.set_power_state(task, OFF)
            task.process_event('abort')
        self.assert_held('inspect-console')

    def test_inspection_that_ends_with_two_power_offs(self):
        self.put(states.INSPECTWAIT)
        with self.acquire() as task:
            task.driver.power.set_power_state(task, SOFT_OFF)
            task.driver.power.set_power_state(task, OFF)
            task.process_event('abort')
        self.assert_held('inspect-console')

    def test_inspection_that_timed_out(self):
        self.put(states.INSPECTWAIT)
        self.time_out(lambda task: None)
        self.run_periodic('_keep_boot_logs')
        self.assert_kept('inspect-console')

    def test_rescue(self):
        self.put(states.RESCUING)
        with self.acquire() as task:
            try:
                raise exception.InstanceRescueFailure(
                    instance='-', node='-', reason='No')
            except exception.InstanceRescueFailure:
                conductor_utils.rescuing_error_handler(task, 'No')
        self.assertEqual(states.RESCUEFAIL, self.node_now().provision_state)
        self.assert_held('rescue-console')

    def test_rescue_that_timed_out(self):
        self.put(states.RESCUEWAIT)
        self.time_out(conductor_utils.cleanup_rescuewait_timeout)
        self.assert_kept('rescue-console')

    def test_service(self):
        self.config(poweroff_in_servicefail=True, group='conductor')
        self.put(states.SERVICEWAIT, service_step={'step': 'update'})
        with self.acquire() as task:
            conductor_utils.servicing_error_handler(task, 'No')
        self.assertEqual(states.SERVICEFAIL, self.node_now().provision_state)
        self.assert_held('service-console')


class NothingFailedTestCase(BootLogTestCase):

    def test_host_cloud_is_asked_for_no_log(self):
        for state in (states.AVAILABLE, states.ACTIVE, states.MANAGEABLE,
                      states.DEPLOYING, states.DEPLOYWAIT, states.CLEANING,
                      states.CLEANWAIT, states.INSPECTING, states.DELETING,
                      states.RESCUING, states.SERVICING, states.ADOPTFAIL):
            self.put(state)
            with self.acquire() as task:
                for target in (ON, states.SOFT_REBOOT):
                    task.driver.power.set_power_state(task, target)
                task.driver.power.reboot(task)
                task.node.save()
            self.assertFalse(self.run_periodic('_keep_boot_logs'))
        self.assert_kept()

    def test_power_off_at_the_end_of_a_cleaning(self):
        self.put(states.CLEANING)
        with self.acquire() as task:
            task.driver.deploy.tear_down_cleaning(task)
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)
        self.assertEqual([], self.kept())

    def test_log_of_a_cleaning_is_not_that_of_a_later_failure(self):
        self.put(states.CLEANING)
        with self.acquire() as task:
            task.driver.deploy.tear_down_cleaning(task)
            task.driver.power.set_power_state(task, ON)
            task.node.save()
        self.server.console_log = 'Of the deployment'
        self.put(states.DEPLOYFAIL)
        self.run_periodic('_keep_boot_logs')
        self.assertEqual([('deploy-console', 'Of the deployment')],
                         self.kept())

    def test_host_cloud_that_fails_before_a_power_off(self):
        self.host_cloud.fail('POST', '/action$', 503)
        self.put(states.CLEANING)
        with self.acquire() as task:
            task.driver.power.set_power_state(task, OFF)
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)


class OnceTestCase(BootLogTestCase):

    def power(self, *targets):
        with self.acquire() as task:
            for target in targets:
                task.driver.power.set_power_state(task, target)
                task.node.save()
        self.node.refresh()

    def test_requests_in_the_state_of_failure(self):
        self.put(states.DEPLOYFAIL)
        self.power(OFF, ON, OFF)
        self.run_periodic('_keep_boot_logs')
        self.assertEqual(1, self.read())

    def test_requests_after_the_periodic_task(self):
        self.put(states.DEPLOYFAIL)
        self.run_periodic('_keep_boot_logs')
        self.power(OFF, ON)
        self.assertEqual(1, self.read())

    def test_next_failure_is_another_one(self):
        self.put(states.DEPLOYFAIL)
        self.power(OFF)
        self.put(states.AVAILABLE)
        self.power(ON)
        self.put(states.DEPLOYFAIL)
        self.power(OFF)
        self.assertEqual(2, self.read())

    def test_next_failure_of_an_agent_that_still_runs(self):
        self.put(states.DEPLOYFAIL)
        self.run_periodic('_keep_boot_logs')
        self.put(states.DEPLOYWAIT)
        self.put(states.DEPLOYFAIL)
        self.run_periodic('_keep_boot_logs')
        self.assertEqual(2, self.read())


class StorageTestCase(BootLogTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        # Ironic's database setup switches loggers off.
        self.useFixture(fixtures.MockPatchObject(
            boot_log.LOG.logger, 'disabled', False))
        self.put(states.DEPLOYFAIL)

    def power_off(self):
        with self.acquire() as task:
            task.driver.power.set_power_state(task, OFF)
            task.node.save()
        self.assertEqual(['unrescue', 'stop'], self.host_cloud.sent)

    def assert_warns(self, *parts):
        """Check that the request goes on, and what is said."""
        self.power_off()
        for part in (self.node.uuid, 'failed deploy', *parts):
            self.assertIn(part, self.log.output)
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_operator_who_wants_no_logs(self):
        self.config(deploy_logs_collect='never', group='agent')
        self.power_off()
        self.assertFalse(self.run_periodic('_keep_boot_logs'))
        self.assertEqual(0, self.read())

    def test_operator_who_wants_all_logs(self):
        self.config(deploy_logs_collect='always', group='agent')
        self.power_off()
        self.assert_kept('deploy-console')

    def test_log_that_is_empty(self):
        self.server.console_log = ''
        self.power_off()
        self.assertEqual([], self.kept())
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_log_with_what_is_no_character(self):
        self.server.console_log = 'half \ud800 é'
        self.power_off()
        self.assertEqual([('deploy-console', 'half \ufffd é')], self.kept())

    def test_host_cloud_that_does_not_tell(self):
        self.server.console_log = None
        self.assert_warns('has no console log')

    def test_host_cloud_that_fails(self):
        self.host_cloud.fail('POST', '/action$', 500)
        self.assert_warns('answered 500')

    def test_setting_that_is_wrong(self):
        self.set_driver_info(quintupleo_server=None)
        with self.acquire() as task:
            self.assertRaises(
                exception.MissingParameterValue,
                task.driver.power.set_power_state, task, OFF)
        self.assertIn('is not kept', self.log.output)

    def test_folder_that_is_none(self):
        file = self.folder / 'file'
        file.touch()
        self.config(deploy_logs_local_path=str(file), group='agent')
        self.assert_warns(str(file))

    def test_store_that_fails(self):
        for error in (exception.SwiftOperationError(operation='PUT',
                                                    error='Full'),
                      RuntimeError('Full')):
            self.host_cloud.sent.clear()
            self.set_server('rescued', nova_model.RUNNING)
            self.put(states.DEPLOYWAIT)
            self.put(states.DEPLOYFAIL)
            with mock.patch.object(driver_utils, 'store_ramdisk_logs',
                                   autospec=True, side_effect=error):
                self.assert_warns('Full')


class PeriodicTestCase(BootLogTestCase):

    def setUp(self):
        super().setUp()
        self.put(states.INSPECTFAIL)

    def test_tries_again_what_did_not_succeed(self):
        self.host_cloud.fail('POST', '/action$', 503)
        self.assertTrue(self.run_periodic('_keep_boot_logs'))
        self.assertEqual([], self.kept())
        self.assertTrue(self.run_periodic('_keep_boot_logs'))
        self.assertEqual([('inspect-console', PANIC)], self.kept())
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_leaves_failures_alone_that_are_long_ago(self):
        long_ago = timeutils.utcnow() - datetime.timedelta(seconds=1000)
        with mock.patch.object(timeutils, 'utcnow', autospec=True,
                               return_value=long_ago):
            self.put(states.MANAGEABLE)
            self.put(states.INSPECTFAIL)
        self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_leaves_nodes_alone_that_others_look_after(self):
        self.assertFalse(boot_log.is_missing(mock.Mock(
            power_interface='redfish', provision_state=states.DEPLOYFAIL,
            driver_internal_info={},
            provision_updated_at=timeutils.utcnow())))

    def test_leaves_nodes_alone_that_are_locked(self):
        with self.acquire():
            self.assertFalse(self.run_periodic('_keep_boot_logs'))

    def test_node_that_has_left_the_state_meanwhile(self):
        self.put(states.MANAGEABLE)
        with self.acquire() as task:
            boot_log.keep_missing(task)
        self.assertEqual(0, self.read())
