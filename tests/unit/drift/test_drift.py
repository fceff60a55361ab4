# SPDX-License-Identifier: Apache-2.0
"""What is told of a server that somebody else than Ironic changed."""

import logging
import unittest
from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.conductor import manager
from ironic.conductor import utils as conductor_utils
from ironic import objects
from oslo_utils import uuidutils

from quintupleo_power import compat
from quintupleo_power.drift import baseline
from quintupleo_power.drift import compare
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import snapshots
from quintupleo_power import transitions
from tests.unit import base


def server(vm_state='active', task_state=None, **values):
    return servers.Server(**{
        'id': 'one', 'name': 'm', 'status': vm_state.upper(),
        'state': transitions.ServerState(vm_state, 1, task_state),
        'launched_at': '1', 'updated': '1', 'image_id': 'i', 'flavor': 'f',
        **values})


class FindTestCase(unittest.TestCase):
    """The pure part."""

    def find(self, now, deployed=True, actions=(), before=None, lost=None):
        found = compare.find(compare.Baseline.of(before or server(), lost),
                             now, deployed, lambda: actions)
        if found:
            self.assertTrue(found.sentence.startswith(
                (f'Server {now.id} ', "'m' is server")))
        return found and found.kind

    def test_nothing(self):
        self.assertIsNone(self.find(server()))
        self.assertIsNone(self.find(server('stopped')))
        self.assertIsNone(self.find(server(updated='9')))

    def test_record_is_not_read_without_a_new_launch(self):
        compare.find(compare.Baseline.of(server()), server('stopped'), True,
                   lambda: self.fail('It was read'))

    def test_replaced(self):
        now = server(id='two')
        self.assertIs(compare.Kind.REPLACED, self.find(now))
        self.assertIsNone(self.find(now, deployed=False))

    def test_rebuilt(self):
        now = server(launched_at='2')
        for action in ('rebuild', 'evacuate'):
            self.assertIs(compare.Kind.DISK_LOST,
                          self.find(now, actions=[('start', '3'),
                                                  (action, '2')]))
        self.assertIsNone(self.find(now, deployed=False,
                                    actions=[('rebuild', '2')]))

    def test_rebuilt_from_another_image_where_no_record_tells(self):
        self.assertIs(compare.Kind.DISK_LOST, self.find(
            server(launched_at='2', image_id='j'), actions=None))

    def test_launched_anew_where_no_record_tells(self):
        self.assertIs(compare.Kind.MAYBE_DISK_LOST,
                      self.find(server(launched_at='2'), actions=None))

    def test_launched_anew_without_loss(self):
        for action in ('migrate', 'unshelve', 'rescue'):
            self.assertIsNone(self.find(server(launched_at='2'),
                                        actions=[(action, '2')]))

    def test_restored(self):
        for actions in ([('rebuild', '2')], None):
            found = compare.find(
                compare.Baseline.of(server()),
                server(launched_at='2', image_id='j'), True,
                lambda actions=actions: actions, lambda: 'start')
            self.assertIs(compare.Kind.RESTORED, found.kind)
            self.assertFalse(found.kind.severe)

    def test_evacuated_from_what_was_restored_before(self):
        found = compare.find(
            compare.Baseline.of(server()), server(launched_at='2'), True,
            lambda: [('evacuate', '2')], lambda: 'start')
        self.assertIs(compare.Kind.DISK_LOST, found.kind)

    def test_lost_before_ironic_acted_again(self):
        self.assertIs(compare.Kind.DISK_LOST, self.find(server(), lost=(
            'Server one was rebuilt')))
        self.assertIsNone(self.find(server(), lost='x', deployed=False))

    def test_resized(self):
        now = server(launched_at='2', flavor='g')
        for deployed in (True, False):
            self.assertIs(compare.Kind.RESIZED, self.find(
                now, deployed, actions=[('resize', '2')]))

    def test_rescue_ended(self):
        before = server('rescued')
        for vm_state in ('active', 'stopped', 'paused'):
            self.assertIs(compare.Kind.RESCUE_ENDED, self.find(
                server(vm_state), deployed=False, before=before))
        self.assertIsNone(self.find(server('error'), before=before))

    def test_rescued(self):
        self.assertIs(compare.Kind.RESCUED, self.find(
            server('rescued', launched_at='2'), actions=[('rescue', '2')]))

    def test_network_first_servers_have_no_device_of_their_own(self):
        self.assertIsNone(self.find(
            server(network_first=True),
            before=server('rescued', network_first=True)))

    def test_task_in_progress_may_be_ironics_own(self):
        self.assertIsNone(self.find(
            server('rescued', 'rescuing', launched_at='2'), actions=None))


class WatchTestCase(base.DriverTestCase):
    """What Ironic shows."""

    def setUp(self):
        super().setUp()
        baseline._reported.clear()
        baseline._actions.clear()
        self.set_driver_info(quintupleo_server=self.server.name)
        # Otherwise validation warns of slow power offs, where it may log.
        self.host_cloud.images[self.server.image]['os_shutdown_timeout'] = '0'
        self.logger = self.useFixture(
            fixtures.FakeLogger(level=logging.WARNING))
        log = baseline.LOG.logger
        self.useFixture(fixtures.MockPatchObject(log, 'disabled', False))
        self.deploy()

    def deploy(self):
        """Let Ironic act as at the end of a deployment."""
        self.set_node(provision_state=states.DEPLOYING, power_state='power on')
        with self.acquire() as task:
            self.reboot(task)
        self.set_node(provision_state=states.ACTIVE)
        self.later()

    @staticmethod
    def reboot(task):
        """Reboot, and save the node as the conductor does then."""
        task.driver.power.reboot(task)
        task.node.save()

    def set_node(self, **values):
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def kept(self):
        """What is kept of the server with the node."""
        self.node.refresh()
        return self.node.driver_internal_info[baseline.KEY]

    def later(self):
        self.clock.sleep(60)
        self.host_cloud.forget_requests()

    def sync(self, count=0):
        """Synchronise the power state as the conductor does."""
        with self.acquire(shared=True) as task:
            return manager.do_sync_power_state(task, count)

    def health(self):
        with self.acquire(shared=True) as task:
            return task.driver.management.get_node_health(task).value

    def history(self):
        return [entry.event for entry in objects.NodeHistory.list_by_node_id(
            self.context, self.node.id)]

    def says(self, *parts, health='Warning'):
        """Check that each surface tells the same sentence."""
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, *parts)
        sentence = str(error).partition(': ')[2]
        self.later()
        self.assertEqual(0, self.sync())
        self.assertIn(sentence, self.logger.output)
        self.assertIn(sentence, self.history())
        if compat.health_states:
            self.assertEqual(health, self.health())
            self.node.refresh()
            self.assertEqual(health, self.node.health)
        return sentence

    def test_nothing(self):
        self.validate()
        self.assertEqual(0, self.sync())
        self.assertEqual('', self.logger.output)
        if compat.health_states:
            self.assertEqual('OK', self.health())

    def test_power_sync_makes_one_request(self):
        self.sync()
        self.host_cloud.forget_requests()
        self.later()
        self.assertEqual(0, self.sync())
        self.assertEqual(1, len(self.host_cloud.requests))

    def test_drift_that_was_told_costs_no_request_more(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.sync()
        self.later()
        self.sync()
        self.assertEqual(1, len(self.host_cloud.requests))
        self.assertEqual(1, self.logger.output.count('was rebuilt'))
        self.assertEqual(1, len([event for event in self.history()
                                 if 'was rebuilt' in event]))

    def test_malformed_records_end_no_power_sync(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        for row in ({}, {'action': 'rebuild'}, {'start_time': 'x'},
                    {'action': 'rebuild', 'start_time': None}):
            baseline._actions.clear()
            self.host_cloud.fail('GET', 'os-instance-actions$',
                                 {'instanceActions': [row]})
            self.later()
            self.host_cloud.forget_requests()
            self.assertEqual(0, self.sync())
            self.assertTrue(any('os-instance-actions' in request
                                for request in self.host_cloud.requests))

    def test_rebuilt(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.says(self.server.id, 'was rebuilt at 2026-01-02T00:00:00',
                  'deploy the node again', health='Critical')

    def restore_behind(self):
        """Let somebody bring the server back to a snapshot."""
        image = self.host_cloud.add_image(
            snapshots.title('start', self.server.id), **{
                snapshots.NAME: 'start', snapshots.SERVER: self.server.id})
        self.host_cloud.change_behind(self.server, 'rebuild',
                                      image=image['id'])

    def test_restored(self):
        self.restore_behind()
        self.says(self.server.id, 'was restored at 2026-01-02T00:00:00',
                  'snapshot "start"', 'reboot the node')

    def test_restored_is_taken_so_by_the_next_power_request(self):
        self.restore_behind()
        with self.acquire() as task:
            self.reboot(task)
        self.later()
        self.validate()

    def test_restored_that_was_told_costs_no_request_more(self):
        self.restore_behind()
        self.sync()
        self.later()
        self.sync()
        self.assertEqual(1, len(self.host_cloud.requests))

    def test_rebuilt_where_nothing_tells_from_what(self):
        self.restore_behind()
        self.host_cloud.fail('GET', '/images/', 403, times=9)
        self.sync()
        self.assertTrue(any('was rebuilt at' in event
                            for event in self.history()))

    def test_rebuilt_in_the_second_of_a_reboot(self):
        """Nova tells no fractions of a second."""
        for known in (True, False):
            with self.subTest(request_is_known=known):
                self.deploy()
                if not known:
                    del self.host_cloud.events[self.kept()['request_id']]
                self.host_cloud.change_behind(
                    self.server, 'rebuild', f'{self.server.updated}.000000')
                self.says(f'was rebuilt at {self.server.updated}',
                          health='Critical')

    def test_launched_anew_after_a_rebuild_before_the_reboot(self):
        self.set_node(provision_state=states.DEPLOYING)
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.deploy()
        # All of it in one second.
        for row in self.host_cloud.events.values():
            row['start_time'] = f'{self.server.updated}.000000'
        self.host_cloud.change_behind(
            self.server, 'rescue', '2026-01-03T00:00:00.000000')
        self.validate()

    def test_rebuilt_stays_told_after_power_requests(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        with self.acquire() as task:
            task.driver.power.validate(task)
            self.reboot(task)
        self.later()
        self.says('was rebuilt', health='Critical')
        self.deploy()
        self.validate()

    def test_rebuilt_just_before_a_power_request(self):
        self.set_driver_info(quintupleo_server=self.server.id)
        self.deploy()
        self.sync()
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.host_cloud.forget_requests()
        with self.acquire() as task:
            task.driver.power.set_power_state(task, states.POWER_OFF)
            task.node.save()
        self.assertEqual('stop', self.host_cloud.sent[-1])
        self.set_node(power_state=states.POWER_OFF)
        self.later()
        self.says('was rebuilt', health='Critical')

    def test_rebuilt_when_nothing_was_deployed(self):
        self.set_node(provision_state=states.AVAILABLE)
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.validate()
        self.assertEqual(0, self.sync())
        self.assertEqual('', self.logger.output)

    def test_record_that_cannot_be_read(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.host_cloud.fail('GET', 'os-instance-actions', 403, times=99)
        self.says('was launched again', 'does not say why')

    def test_record_that_cannot_be_read_now(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.host_cloud.fail('GET', 'os-instance-actions', 503, times=99)
        self.sync()
        self.assertFalse(any('was launched again' in event
                             for event in self.history()))
        self.host_cloud.stop_failing()
        self.later()
        self.says('was rebuilt at', health='Critical')

    def test_resized(self):
        self.host_cloud.change_behind(self.server, 'resize', flavor='large')
        self.says("from flavor 'tiny' to 'large'", 'inspect the node again')

    def test_rescued(self):
        self.host_cloud.change_behind(self.server, 'rescue',
                                      vm_state='rescued')
        self.says('was rescued, not by Ironic')

    def test_unrescued(self):
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, 'pxe')
            self.reboot(task)
        self.later()
        self.validate()
        self.server.vm_state = 'active'
        self.later()
        self.says('was booted from the network by Ironic and is ACTIVE now')

    def test_replaced(self):
        self.host_cloud.servers.clear()
        other = self.host_cloud.add_server(name=self.server.name)
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, f'is server {other.id} now',
                         f'was server {self.server.id}')
        self.assertEqual(1, self.sync())
        if compat.health_states:
            self.assertEqual('Critical', self.health())
        with self.acquire() as task:
            error = self.assertRaises(exception.DriverOperationError,
                                      task.driver.power.reboot, task)
            self.assert_says(error, f'is server {other.id} now')
        self.assertEqual([], self.host_cloud.sent)
        # The ways out: another deployment, or the right server.
        self.deploy()
        self.validate()

    def test_replaced_puts_the_node_into_maintenance_with_the_reason(self):
        self.host_cloud.servers.clear()
        other = self.host_cloud.add_server(name=self.server.name)
        self.config(power_state_sync_max_retries=0, group='conductor')
        self.sync()
        self.node.refresh()
        self.assertTrue(self.node.maintenance)
        for text in (self.node.maintenance_reason, self.node.last_error):
            self.assertIn(f'is server {other.id} now', text)

    def test_deleted(self):
        self.host_cloud.servers.clear()
        self.config(power_state_sync_max_retries=0, group='conductor')
        self.sync()
        self.node.refresh()
        self.assertIn("No server is named 'machine-0'",
                      self.node.maintenance_reason)

    def test_another_server_that_the_operator_chose(self):
        other = self.host_cloud.add_server(name='machine-1')
        self.set_node(provision_state=states.AVAILABLE,
                      driver_info={'quintupleo_server': other.id})
        self.validate()
        with self.acquire() as task:
            self.reboot(task)
        self.later()
        self.validate()

    def test_ironics_own_action_meanwhile_is_no_drift(self):
        """A shared lock does not keep others from acting."""
        self.validate()
        self.node.refresh()
        with self.acquire(shared=True) as shared:
            with self.acquire() as task:
                task.driver.management.set_boot_device(task, 'pxe')
                self.reboot(task)
                self.clock.sleep(60)
                shared.driver.power.validate(shared)
            shared.driver.power.validate(shared)
            self.assertEqual(states.POWER_ON,
                             shared.driver.power.get_power_state(shared))
        self.assertEqual('', self.logger.output)

    def test_own_action_that_was_lost_sight_of_is_no_drift(self):
        self.config(action_timeout=1, group='quintupleo')
        self.host_cloud.reads_per_task = 99
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, 'pxe')
            self.assertRaises(exception.DriverOperationError,
                              task.driver.power.reboot, task)
        self.server.task = (None, 0)
        self.set_server('rescued')
        self.server.launched_at = '2026-01-03T00:00:00.000000'
        self.later()
        self.validate()

    def test_node_of_another_release_of_the_driver(self):
        self.set_node(driver_internal_info={
            baseline.KEY: {'server': self.server.id, 'colour': 'green'}})
        self.assertRaises(exception.InvalidParameterValue, self.validate)
        self.set_node(driver_internal_info={})
        self.validate()

    def test_soft_deleted(self):
        self.set_server('soft-delete')
        self.config(power_state_sync_max_retries=0, group='conductor')
        self.sync()
        self.node.refresh()
        self.assertIn('openstack server restore',
                      self.node.maintenance_reason)
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, 'openstack server restore')

    def test_resize_that_waits_to_be_confirmed(self):
        self.host_cloud.change_behind(self.server, 'resize', flavor='large',
                                      vm_state='resized')
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, 'cannot be used')
        self.sync()
        self.assertIn("to 'large'", self.logger.output)


class OlderIronicTestCase(base.DriverTestCase):

    def test_health_is_not_supported(self):
        patch = mock.patch.object(compat, 'health_states', None)
        patch.start()
        self.addCleanup(patch.stop)
        with self.acquire(shared=True) as task:
            self.assertRaises(exception.UnsupportedDriverExtension,
                              task.driver.management.get_node_health, task)

    def test_history_records_take_what_is_passed(self):
        conductor_utils.node_history_record(
            self.node, event=uuidutils.generate_uuid(),
            event_type=states.MONITORING)
        self.node.refresh()
        self.assertIsNone(self.node.last_error)
