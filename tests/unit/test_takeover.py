# SPDX-License-Identifier: Apache-2.0
"""Requests whose conductor died."""

from unittest import mock

import futurist
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic import objects

from quintupleo_power.host_cloud import service
from quintupleo_power.node import pending_request
from quintupleo_power import takeover
from tests.unit import base
from tests.unit import nova_model

OFF, ON = states.POWER_OFF, states.POWER_ON
RUNNING = nova_model.RUNNING


class DeathError(Exception):
    """The conductor ends; it is in no way handled by the driver."""


class InterruptedTestCase(base.DriverTestCase):
    """What the tests have in common: a conductor that dies."""

    # How often a look that fails is made again.
    READS = service.Service.ATTEMPTS

    def setUp(self):
        super().setUp()
        # Otherwise a request follows the reading of the server within the
        # second that Nova's times are exact to.
        self.clock.now += 5
        self.node.power_state = ON
        self.node.provision_state = states.MANAGEABLE
        self.node.save()

    def begin(self, power_state, method='POST', path='/action$', skip=0,
              carried_out=False):
        """Ask for a power state; the conductor dies at that request.

        The lock and the target are gone then, as Ironic's take-over does.
        """
        self.host_cloud.fail(method, path, DeathError(), skip=skip,
                             carried_out=carried_out)
        with self.acquire() as task:
            power = task.driver.power
            if power_state == states.REBOOT:
                self.assertRaises(DeathError, power.reboot, task)
            else:
                self.assertRaises(DeathError, power.set_power_state, task,
                                  power_state)
        self.clock.now += 60
        self.node.refresh()

    def take_over(self):
        """Do what the periodic task of the survivor does."""
        with self.acquire() as task:
            takeover.run(task)
        self.node.refresh()

    def wish(self, device, persistent=True):
        """Set the boot device."""
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, device, persistent)

    def request(self):
        """What is kept of the request, now."""
        return self.node.driver_internal_info.get(pending_request.KEY)

    def change_request(self, **values):
        """Change what is kept of the request."""
        self.node.set_driver_internal_info(
            pending_request.KEY, self.request() | values)
        self.node.save()

    def history(self):
        """The events that Ironic has recorded of the node, oldest first."""
        return [entry.event for entry in objects.NodeHistory.list_by_node_id(
            self.context, self.node.id)]

    def assert_finished(self, power_state, *sent):
        """Check that the request ended well, and what Nova was asked."""
        self.assertIsNone(self.request())
        self.assertEqual(
            (power_state, None, None),
            (self.node.power_state, self.node.target_power_state,
             self.node.last_error))
        self.assertEqual(list(sent), self.host_cloud.sent)


class FinishTestCase(InterruptedTestCase):

    def test_stop_that_was_not_sent(self):
        self.begin(OFF)
        self.take_over()
        self.assert_finished(OFF, 'stop')
        self.assertIn('"power off" of node', self.history()[-1])

    def test_stop_that_was_sent(self):
        self.begin(OFF, carried_out=True)
        self.take_over()
        self.assert_finished(OFF, 'stop')

    def test_reboot_that_was_not_sent(self):
        self.begin(states.REBOOT)
        self.take_over()
        self.assert_finished(ON, 'hard reboot')

    def test_reboot_that_was_sent_is_not_sent_twice(self):
        for power_state, action in ((states.REBOOT, 'hard reboot'),
                                    (states.SOFT_REBOOT, 'soft reboot')):
            self.host_cloud.sent.clear()
            self.begin(power_state, carried_out=True)
            self.take_over()
            self.assert_finished(ON, action)

    def test_what_else_was_done_with_the_server_does_not_matter(self):
        self.begin(states.REBOOT, carried_out=True)
        self.host_cloud.events['req-lock'] = {
            'action': 'lock', 'instance_uuid': self.server.id,
            'start_time': '2026-01-02T00:00:00.000000', 'message': None}
        self.take_over()
        self.assert_finished(ON, 'hard reboot')

    def test_reboot_that_failed_is_sent_again(self):
        self.host_cloud.fail_action('hard reboot', 'No space left',
                                    vm_state='error')
        self.begin(states.REBOOT, carried_out=True)
        self.take_over()
        self.assert_finished(ON, 'hard reboot', 'hard reboot')

    def test_reboot_of_an_outsider_before_is_not_taken_for_it(self):
        with self.acquire() as task:
            conductor_utils.node_power_action(task, states.REBOOT)
        self.clock.now += 5
        self.begin(states.REBOOT)
        self.take_over()
        self.assert_finished(ON, 'hard reboot', 'hard reboot')

    def test_pxe_once_that_was_booted_is_not_booted_again(self):
        self.wish(boot_devices.DISK)
        self.wish(boot_devices.PXE, persistent=False)
        self.begin(states.REBOOT, carried_out=True)
        self.take_over()
        self.assert_finished(ON, 'rescue')
        with self.acquire(shared=True) as task:
            self.assertEqual('disk', task.driver.management.get_boot_device(
                task)['boot_device'])

    def test_other_device_wished_since_then_is_booted(self):
        self.wish(boot_devices.PXE, persistent=False)
        self.begin(states.REBOOT)
        self.wish(boot_devices.DISK)
        self.take_over()
        self.assert_finished(ON, 'hard reboot')

    def test_wish_since_then_is_kept_when_all_was_done(self):
        self.begin(states.REBOOT, carried_out=True)
        self.wish(boot_devices.PXE, persistent=False)
        self.take_over()
        self.assert_finished(ON, 'hard reboot')
        with self.acquire(shared=True) as task:
            self.assertEqual('pxe', task.driver.management.get_boot_device(
                task)['boot_device'])

    def test_off_out_of_pxe_interrupted_in_between(self):
        self.set_server('rescued', RUNNING)
        self.begin(OFF, skip=1)
        self.take_over()
        self.assert_finished(OFF, 'unrescue', 'stop')

    def test_reboot_to_pxe_out_of_pxe(self):
        for skip, carried_out in ((0, False), (0, True), (1, False),
                                  (1, True)):
            self.host_cloud.sent.clear()
            self.wish(boot_devices.PXE)
            self.set_server('rescued', RUNNING)
            self.begin(states.REBOOT, skip=skip, carried_out=carried_out)
            self.take_over()
            self.assert_finished(ON, 'unrescue', 'rescue')

    def test_power_on_to_pxe_that_had_come_through_the_disk(self):
        self.wish(boot_devices.PXE)
        self.set_server('rescued', nova_model.SHUTDOWN)
        self.begin(ON, carried_out=True)
        self.assertEqual(['unrescue'], self.host_cloud.sent)
        self.take_over()
        self.assert_finished(ON, 'unrescue', 'rescue')

    def test_device_of_a_newer_release_is_not_taken_for_booted(self):
        self.begin(states.REBOOT, carried_out=True)
        self.change_request(boot_device='floppy')
        self.take_over()
        self.assert_finished(ON, 'hard reboot', 'hard reboot')

    def test_request_is_finished_by_the_third_conductor(self):
        self.begin(states.REBOOT, carried_out=True)
        self.host_cloud.fail('GET', 'os-instance-actions$', DeathError())
        self.assertRaises(DeathError, self.take_over)
        self.node.refresh()
        self.take_over()
        self.assert_finished(ON, 'hard reboot')

    def test_failure_is_told_by_ironic_and_ends_the_request(self):
        self.begin(OFF)
        self.host_cloud.fail_action('stop', 'No route to host')
        self.take_over()
        self.assertIsNone(self.request())
        self.assertIn('No route to host', self.node.last_error)

    def test_cloud_that_cannot_be_asked_yet(self):
        self.begin(OFF)
        self.host_cloud.fail('GET', f'/servers/{self.server.id}$', 503,
                             times=self.READS)
        self.take_over()
        self.assertEqual(OFF, self.request()['power_state'])
        self.take_over()
        self.assert_finished(OFF, 'stop')

    def test_request_whose_server_was_never_read(self):
        self.begin(states.REBOOT, 'GET', f'/servers/{self.server.id}$',
                   skip=0)
        self.assertIsNone(self.request())
        self.take_over()
        self.assertEqual([], self.host_cloud.sent)


class GiveUpTestCase(InterruptedTestCase):

    def assert_given_up(self, power_state, *said):
        self.assertIsNone(self.request())
        self.assertEqual((power_state, None), (
            self.node.power_state, self.node.target_power_state))
        self.assert_says(self.node.last_error, self.node.uuid, *said)
        self.assertEqual(self.node.last_error, self.history()[-1])

    def test_request_of_long_ago(self):
        self.begin(OFF)
        self.change_request(begun_at=self.clock.time() - 1000)
        self.take_over()
        self.assert_given_up(ON, '"power off"', 'more than 15 minutes ago',
                             self.server.id, 'ACTIVE')
        self.assertEqual([], self.host_cloud.sent)

    def test_request_that_was_done_long_ago(self):
        self.begin(OFF, carried_out=True)
        self.change_request(begun_at=self.clock.time() - 1000)
        self.take_over()
        self.assert_given_up(OFF, '"power off"', 'SHUTOFF')

    def test_request_of_long_ago_with_a_cloud_that_is_gone(self):
        self.begin(OFF)
        self.change_request(begun_at=self.clock.time() - 1000)
        self.host_cloud.fail('GET', '/servers/', 503, times=self.READS)
        self.take_over()
        self.assert_given_up(ON, '"power off"', '503')

    def test_request_of_a_deployment_that_ironic_has_failed(self):
        self.node.provision_state = states.DEPLOYING
        self.node.save()
        self.wish(boot_devices.PXE)
        self.begin(states.REBOOT)
        self.take_over()
        # Ironic has not come to it yet.
        self.assertEqual('rebooting', self.request()['power_state'])
        self.node.provision_state = states.DEPLOYFAIL
        self.node.save()
        self.take_over()
        self.assert_given_up(ON, '"rebooting" from pxe', '"deploying"',
                             '"deploy failed"')
        self.assertEqual([], self.host_cloud.sent)


class LookTestCase(InterruptedTestCase):

    def power_state(self, shared=True):
        with self.acquire(shared=shared) as task:
            return task.driver.power.get_power_state(task)

    def test_power_sync_gets_no_state_to_restore(self):
        self.begin(OFF, carried_out=True)
        error = self.assertRaises(exception.DriverOperationError,
                                  self.power_state)
        self.assert_says(error, '"power off"', 'interrupted')

    def test_power_sync_in_maintenance_gets_one(self):
        self.begin(OFF)
        self.node.maintenance = True
        self.node.save()
        self.assertEqual(ON, self.power_state())

    def test_look_while_the_request_goes_on(self):
        self.begin(OFF)
        self.node.reservation = 'conductor-1'
        self.node.save()
        self.assertEqual(ON, self.power_state())

    def test_newer_request_that_needs_nothing_ends_the_older(self):
        self.begin(OFF)
        with self.acquire() as task:
            # As the conductor does for a request that comes by its API.
            task.node.target_power_state = ON
            task.node.save()
            conductor_utils.node_power_action(task, ON)
        self.node.refresh()
        self.assert_finished(ON)

    def test_newer_request_replaces_the_older(self):
        self.begin(states.REBOOT, carried_out=True)
        with self.acquire() as task:
            conductor_utils.node_power_action(task, states.REBOOT)
        self.node.refresh()
        self.assert_finished(ON, 'hard reboot', 'hard reboot')

    def test_request_without_a_death_leaves_nothing(self):
        with self.acquire() as task, mock.patch.object(
                objects.Node, 'save', autospec=True,
                side_effect=objects.Node.save) as save:
            conductor_utils.node_power_action(task, OFF)
        # Ironic's two, and one of the driver.
        self.assertEqual(3, save.call_count)
        self.node.refresh()
        self.assert_finished(OFF, 'stop')

    def test_request_that_needs_no_action_writes_nothing(self):
        with self.acquire() as task, mock.patch.object(
                objects.Node, 'save', autospec=True,
                side_effect=objects.Node.save) as save:
            task.driver.power.set_power_state(task, ON)
        save.assert_not_called()

    def test_request_is_kept_while_a_task_ends(self):
        self.server.task = ('rebooting', 1)
        with mock.patch.object(objects.Node, 'save', autospec=True,
                               side_effect=self.save_and_die):
            with self.acquire() as task:
                self.assertRaises(DeathError, task.driver.power.reboot, task)
        self.node.refresh()
        self.assertIsNotNone(self.request()['server_updated'])

    def test_failure_leaves_nothing(self):
        self.host_cloud.fail_action('stop', 'No route to host')
        with self.acquire() as task:
            self.assertRaises(exception.DriverOperationError,
                              conductor_utils.node_power_action, task, OFF)
        self.node.refresh()
        self.assertIsNone(self.request())

    _save = staticmethod(objects.Node.save)

    def save_and_die(self, node):
        """Do what it does, and no more."""
        self._save(node)
        raise DeathError()

    def test_request_is_kept_while_the_cloud_cannot_be_read(self):
        self.host_cloud.fail('GET', f'/servers/{self.server.id}$', 503,
                             times=self.READS)
        with mock.patch.object(objects.Node, 'save', autospec=True,
                               side_effect=self.save_and_die):
            with self.acquire() as task:
                self.assertRaises(DeathError, task.driver.power.reboot, task)
        self.node.refresh()
        self.assertIsNone(self.request()['server_updated'])
        self.take_over()
        self.assert_finished(ON, 'hard reboot')


class PeriodicTestCase(InterruptedTestCase):

    def run_periodic(self, node=None):
        """Run the periodic task as a conductor does."""
        node = node or self.node
        manager = mock.Mock()
        manager._spawn_worker.side_effect = (
            futurist.SynchronousExecutor().submit)
        listed = [(node.uuid, node.driver, node.conductor_group,
                   node.driver_internal_info, node.provision_state,
                   node.target_power_state)]
        manager.iter_nodes.return_value = listed
        with self.acquire(shared=True) as task:
            power = task.driver.power
        power._take_over(manager, self.context)
        self.assertEqual(
            {'reserved': False, 'maintenance': False},
            manager.iter_nodes.call_args.kwargs['filters'])
        self.node.refresh()
        return manager._spawn_worker.called

    def test_finds_what_was_interrupted(self):
        self.begin(OFF)
        self.assertTrue(self.run_periodic())
        self.assert_finished(OFF, 'stop')

    def test_leaves_nodes_alone_that_have_no_request(self):
        self.assertFalse(self.run_periodic())

    def test_waits_until_ironic_has_cleared_the_target(self):
        self.begin(OFF)
        self.node.target_power_state = OFF
        self.node.save()
        self.assertFalse(self.run_periodic())

    def test_waits_for_ironic_no_longer_than_for_anything(self):
        self.begin(OFF)
        self.node.target_power_state = OFF
        self.change_request(begun_at=self.clock.time() - 1000)
        self.assertTrue(self.run_periodic())
        self.assertIn('15 minutes', self.node.last_error)
        self.assertIsNone(self.node.target_power_state)

    def test_request_that_another_has_finished_meanwhile(self):
        self.begin(OFF)
        listed = objects.Node.get_by_uuid(self.context, self.node.uuid)
        self.take_over()
        self.assertTrue(self.run_periodic(listed))
        self.assert_finished(OFF, 'stop')

    def test_verification_is_done_anew(self):
        self.node.provision_state = states.VERIFYING
        self.node.target_provision_state = states.MANAGEABLE
        self.node.power_state = None
        self.node.save()
        self.assertTrue(self.run_periodic())
        self.assertEqual((states.MANAGEABLE, ON), (
            self.node.provision_state, self.node.power_state))
