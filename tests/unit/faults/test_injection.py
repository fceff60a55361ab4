# SPDX-License-Identifier: Apache-2.0
"""Faults that happen to requests, through Ironic's conductor."""

from unittest import mock

from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic import objects

from quintupleo_power.faults import injection
from quintupleo_power.faults import kinds
from quintupleo_power.node import internal_info
from quintupleo_power.node import pending_request
from tests.unit.contract import lab
from tests.unit import nova_model

OFF, ON, REBOOT = states.POWER_OFF, states.POWER_ON, states.REBOOT
RUNNING, SHUTDOWN = nova_model.RUNNING, nova_model.SHUTDOWN


class FaultTestCase(lab.LabTestCase):
    """A node that Ironic manages, whose server runs."""

    def setUp(self):
        super().setUp()
        self.config(fault_injection=True, group='quintupleo')
        self.set_node(provision_state=states.MANAGEABLE, power_state=ON,
                      boot_interface='pxe', inspect_interface='quintupleo')
        self.set_server('active', RUNNING)
        self.host_cloud.forget_requests()

    def passthru(self, http_method, **arguments):
        """Call the vendor passthru as the API does."""
        return self.manager.vendor_passthru(
            self.context, self.node.uuid, 'faults', http_method,
            arguments)['return']['faults']

    def create(self, kind, **arguments):
        fault, = self.passthru('POST', kind=kind, **arguments)
        return fault

    def faults(self):
        return self.passthru('GET')

    def power(self, target, timeout=None):
        """Ask for a power state; return what went wrong, if anything."""
        refusal = self.request(self.manager.change_node_power_state, target,
                               timeout)
        self.assertIsNone(refusal)
        return self.node.last_error

    def wish(self, device, persistent=True):
        self.assertIsNone(self.request(self.manager.set_boot_device, device,
                                       persistent))

    def read_power(self, shared=True):
        with self.acquire(shared=shared) as task:
            return task.driver.power.get_power_state(task)

    def history(self):
        return [entry.event for entry in objects.NodeHistory.list_by_node_id(
            self.context, self.node.id)
            if entry.event_type == 'fault injection']

    def assert_sent(self, *actions):
        self.assertEqual(list(actions), self.host_cloud.sent)


class PassthruTestCase(FaultTestCase):

    def refused(self, http_method, **arguments):
        return self.request(
            lambda context, uuid, *args: self.manager.vendor_passthru(
                context, uuid, *args), 'faults', http_method, arguments)

    def test_fault_is_kept_and_shown(self):
        created = self.create('power-late', seconds='30', times='2')
        self.assertEqual(
            {'kind': 'power-late', 'seconds': 30, 'times': 2, 'draws': 0,
             'injected': 0, 'probability': 1.0},
            {name: value for name, value in created.items()
             if name not in ('id', 'seed')})
        self.assertEqual([created], self.faults())

    def test_wrong_fault(self):
        error = self.refused('POST', kind='fire')
        self.assertIsInstance(error, exception.InvalidParameterValue)
        self.assert_says(error, self.node.uuid, "'kind' must be one of")
        self.assertEqual([], self.faults())

    def test_one_of_several_is_deleted(self):
        first, second = (self.create('power-fails') for _ in range(2))
        self.assertEqual([first], self.passthru('DELETE', id=first['id']))
        self.assertEqual([second], self.faults())
        self.assertEqual([second], self.passthru('DELETE'))
        self.assertEqual([], self.passthru('DELETE'))

    def test_fault_to_delete_that_does_not_exist(self):
        fault = self.create('power-fails')
        for arguments in ({'id': 'abc'}, {'id': ''}, {'id': None},
                          {'fault': fault['id']},
                          {'id': fault['id'], 'kind': 'power-fails'}):
            error = self.refused('DELETE', **arguments)
            self.assertIsInstance(error, exception.InvalidParameterValue)
            self.assert_says(error, self.node.uuid, 'fault does not exist')
        self.assertEqual([fault], self.faults())

    def test_changes_need_the_lock(self):
        self.config(node_locked_retry_attempts=0, group='conductor')
        with self.acquire():
            for http_method in ('POST', 'DELETE'):
                self.assertIsInstance(
                    self.refused(http_method, kind='power-fails'),
                    exception.NodeLocked)
            self.assertEqual([], self.faults())

    def test_fault_of_another_release_is_left_alone(self):
        fault = self.create('power-fails', probability=1)
        self.node.refresh()
        self.node.set_driver_internal_info(
            internal_info.FAULTS,
            [{**fault, 'kind': 'fire', 'smoke': 'black'}])
        self.node.save()
        self.assertIsNone(self.power(REBOOT))
        self.assertEqual(['fire'], [each['kind'] for each in self.faults()])


class PowerTestCase(FaultTestCase):

    def test_fails(self):
        fault = self.create('power-fails')
        error = self.power(OFF)
        for part in (self.node.uuid, '"power off" failed', fault['id'],
                     'openstack quintupleo fault list'):
            self.assertIn(part, error)
        self.assert_sent()
        self.assertEqual((ON, None), (self.node.power_state,
                                      self.node.target_power_state))
        self.assertIsNone(self.power(OFF))
        self.assert_sent('stop')

    def test_failure_is_that_of_a_bmc(self):
        self.create('power-fails')
        with self.acquire() as task:
            self.assertRaises(exception.PowerStateFailure,
                              task.driver.power.reboot, task)

    def test_fails_as_often_as_it_says(self):
        self.create('power-fails', times=2)
        self.assertIn('failed', self.power(OFF))
        self.assertEqual((1, 1), (self.faults()[0]['times'],
                                  self.faults()[0]['injected']))
        self.assertIn('failed', self.power(OFF))
        self.assertEqual([], self.faults())
        self.assertIsNone(self.power(OFF))

    def test_fails_until_it_is_deleted(self):
        fault = self.create('power-fails', probability=1)
        for _ in range(3):
            self.assertIn('failed', self.power(OFF))
        self.passthru('DELETE', id=fault['id'])
        self.assertIsNone(self.power(OFF))

    def test_hangs_and_is_done(self):
        self.create('power-hangs', seconds=20)
        self.assertIsNone(self.power(OFF))
        self.assertEqual(20, self.clock.slept[0])
        self.assert_sent('stop')

    def test_hangs_for_no_longer_than_ironic_waits(self):
        self.config(group='conductor', power_state_change_timeout=60)
        self.create('power-hangs', seconds=3600, times=2)
        self.assertIn('not answered within 60 s', self.power(OFF))
        self.assertEqual([60], self.clock.slept)
        self.assertIn('not answered within 15 s', self.power(OFF, 15))
        self.assertEqual([60, 15], self.clock.slept)
        self.assert_sent()

    def test_rest_of_the_time_is_what_a_request_has_after_it_hung(self):
        self.create('power-hangs', seconds=20)
        with mock.patch('quintupleo_power.executor.run', autospec=True) as run:
            self.power(OFF, 50)
        self.assertEqual(30, run.call_args.args[2])

    def test_is_answered_and_not_done(self):
        self.create('power-ignored')
        self.assertIsNone(self.power(OFF))
        self.assertEqual(OFF, self.node.power_state)
        self.assert_sent()
        # As with a real one, power sync brings it there.
        with self.acquire(shared=True) as task:
            conductor_manager.do_sync_power_state(task, 0)
        self.assert_sent('stop')

    def test_does_not_come_back(self):
        for target in (REBOOT, states.SOFT_REBOOT):
            self.set_server('active', RUNNING)
            self.create('reboot-stays-off')
            self.assertIsNone(self.power(target))
            self.assertEqual(ON, self.node.power_state)
            self.assert_server_is('stopped', SHUTDOWN)

    def test_comes_back_from_anything_but_a_reboot(self):
        self.create('reboot-stays-off')
        self.power(OFF)
        self.power(ON)
        self.assert_server_is('active', RUNNING)
        self.assertEqual(0, self.faults()[0]['draws'])

    def test_oldest_fault_is_the_one_that_happens(self):
        self.create('power-ignored')
        self.create('power-fails')
        self.assertIsNone(self.power(REBOOT))
        self.assert_sent()
        self.assertIn('failed', self.power(REBOOT))

    def test_nothing_is_pending_after_a_fault(self):
        for kind in ('power-fails', 'power-ignored', 'reboot-stays-off'):
            self.create(kind)
            self.power(REBOOT)
            self.assertIsNone(pending_request.get(self.node))

    def test_same_requests_meet_the_same_faults(self):
        def outcomes():
            self.create('power-fails', probability=0.4, seed=11)
            found = [self.power(REBOOT) is None for _ in range(12)]
            self.assertEqual(12, self.faults()[0]['draws'])
            self.passthru('DELETE')
            return found

        first = outcomes()
        self.assertEqual({True, False}, {*first})
        self.assertEqual(first, outcomes())


class LateTestCase(FaultTestCase):

    def test_is_done_when_its_time_has_come(self):
        self.create('power-late', seconds=30)
        self.assertIsNone(self.power(OFF))
        self.assertEqual(OFF, self.node.power_state)
        self.run_periodic('_finish_late')
        self.assert_sent()
        self.clock.now += 31
        self.run_periodic('_finish_late')
        self.assert_sent('stop')
        self.assertIsNone(pending_request.get(self.node))
        self.run_periodic('_finish_late')
        self.assert_sent('stop')
        self.assertIn('The late "power off" is carried out', self.history())

    def test_meets_no_other_fault(self):
        self.create('power-late', seconds=30)
        self.create('power-fails', probability=1)
        self.power(OFF)
        self.clock.now += 31
        self.run_periodic('_finish_late')
        self.assert_sent('stop')

    def test_boots_from_what_is_wished(self):
        self.create('power-late', seconds=30)
        self.wish(boot_devices.PXE, persistent=False)
        self.power(REBOOT)
        self.clock.now += 31
        self.run_periodic('_finish_late')
        self.assert_sent('rescue')
        self.assertNotIn('quintupleo_boot_device_once',
                         self.node.driver_internal_info)

    def test_failure_is_the_last_of_it(self):
        self.create('power-late', seconds=30)
        self.power(OFF)
        self.clock.now += 31
        self.host_cloud.fail('POST', '/action$', (403, 'Not for you'))
        self.run_periodic('_finish_late')
        self.run_periodic('_finish_late')
        self.assert_sent()
        self.assertIsNone(pending_request.get(self.node))
        self.assertIn('Not for you', self.history()[-1])

    def carry_out_if_kept(self):
        """Do what is due in a minute; nothing was sent before."""
        self.host_cloud.forget_requests()
        self.clock.now += 60
        self.run_periodic('_finish_late')

    def test_newer_request_supersedes_it(self):
        for target in (OFF, REBOOT, states.SOFT_REBOOT):
            self.set_server('active', RUNNING)
            self.create('power-late', seconds=30)
            self.assertIsNone(self.power(OFF))
            self.assertIsNone(self.power(target))
            self.carry_out_if_kept()
            self.assert_sent()

    def test_newer_late_request_supersedes_it(self):
        self.create('power-late', seconds=30)
        self.power(OFF)
        self.create('power-late', seconds=40)
        self.power(REBOOT)
        self.clock.now += 35
        self.run_periodic('_finish_late')
        self.assert_sent()
        self.carry_out_if_kept()
        self.assert_sent('hard reboot')

    def test_newer_request_that_is_not_done_supersedes_it(self):
        for kind in ('power-ignored', 'power-fails'):
            self.create('power-late', seconds=30)
            self.power(OFF)
            self.create(kind)
            self.power(REBOOT)
            self.carry_out_if_kept()
            self.assert_sent()

    def test_request_with_nothing_to_do_does_not_supersede_it(self):
        self.create('power-late', seconds=30)
        self.power(OFF)
        # Ironic reads that it is on, and sends nothing.
        self.assertIsNone(self.power(ON))
        self.assertEqual(ON, self.node.power_state)
        self.carry_out_if_kept()
        self.assert_sent('stop')

    def test_is_not_done_after_all_were_deleted(self):
        self.create('power-late', seconds=30)
        self.power(OFF)
        self.passthru('DELETE')
        self.clock.now += 31
        self.run_periodic('_finish_late')
        self.assert_sent()

    def test_is_not_done_where_faults_are_not_permitted(self):
        self.create('power-late', seconds=30)
        self.power(OFF)
        self.clock.now += 31
        self.config(fault_injection=False, group='quintupleo')
        self.run_periodic('_finish_late')
        self.assert_sent()


class PowerStateTestCase(FaultTestCase):

    def test_lies(self):
        self.create('power-state-lies', times=2)
        self.assertEqual(OFF, self.read_power())
        self.assertEqual(OFF, self.read_power(shared=False))
        self.assertEqual(ON, self.read_power())

    def test_lies_about_what_is_off(self):
        self.set_server('stopped', SHUTDOWN)
        self.create('power-state-lies')
        self.assertEqual(ON, self.read_power())

    def test_server_that_is_neither_is_reported_as_it_is(self):
        self.set_server('building')
        self.create('power-state-lies')
        self.assertRaises(exception.DriverOperationError, self.read_power)

    def test_ironic_acts_on_it(self):
        self.create('power-state-lies')
        with self.acquire(shared=True) as task:
            conductor_manager.do_sync_power_state(task, 0)
        # It was on: the start that Ironic asks for has nothing to do.
        self.assert_sent()
        self.node.refresh()
        self.assertEqual(ON, self.node.power_state)

    def test_reading_beside_a_request_is_true_and_not_counted(self):
        self.create('power-state-lies')
        with self.acquire():
            self.assertEqual(ON, self.read_power())
        self.assertEqual(0, self.faults()[0]['draws'])
        self.assertEqual(OFF, self.read_power())

    def test_two_readings_at_once_use_one_count_once(self):
        self.create('power-state-lies')
        # Both have read the node before either counts.
        with self.acquire(shared=True) as first, (
                self.acquire(shared=True)) as second:
            found = [task.driver.power.get_power_state(task)
                     for task in (first, second)]
        self.assertEqual([OFF, ON], found)

    def test_reading_leaves_the_node_free(self):
        self.create('power-state-lies')
        self.read_power()
        self.node.refresh()
        self.assertIsNone(self.node.reservation)


class BootDeviceTestCase(FaultTestCase):

    def test_is_ignored(self):
        self.create('boot-device-ignored')
        self.wish(boot_devices.PXE)
        self.power(REBOOT)
        self.assert_sent('hard reboot')
        self.wish(boot_devices.PXE)
        self.power(REBOOT)
        self.assert_sent('hard reboot', 'rescue')

    def test_is_lost_after_one_boot(self):
        self.create('boot-device-lost')
        self.wish(boot_devices.PXE)
        self.power(REBOOT)
        self.assert_sent('rescue')
        self.power(REBOOT)
        self.assert_sent('rescue', 'unrescue')

    def test_one_boot_of_a_device_cannot_be_lost(self):
        self.create('boot-device-lost')
        self.wish(boot_devices.PXE, persistent=False)
        self.assertEqual(0, self.faults()[0]['draws'])


class VirtualMediaTestCase(FaultTestCase):

    def setUp(self):
        super().setUp()
        self.set_node(boot_interface='quintupleo-virtual-media',
                      provision_state=states.DEPLOYING)
        self.prepare_ramdisk()
        self.create('virtual-media-lost')

    def test_is_gone_when_the_machine_is_to_boot_from_it(self):
        self.power(REBOOT)
        self.assert_sent('hard reboot')
        self.assertEqual([], self.media())
        self.assertEqual([], self.faults())

    def test_is_there_while_the_machine_is_powered_off(self):
        self.power(OFF)
        self.assertEqual(1, len(self.media()))

    def test_machine_that_boots_its_disk_has_none_to_lose(self):
        self.wish(boot_devices.DISK)
        self.wish(boot_devices.DISK, persistent=False)
        self.power(REBOOT)
        self.assertEqual(1, len(self.media()))


class ConsoleAndNmiTestCase(FaultTestCase):

    def test_console_is_away(self):
        fault = self.create('console-away', times=2)
        self.request(self.manager.set_console_mode, True)
        self.assertFalse(self.node.console_enabled)
        self.assertIn('its console cannot be reached', self.node.last_error)
        with self.acquire(shared=True) as task:
            error = self.assertRaises(
                exception.DriverOperationError,
                task.driver.console.get_console, task)
            self.assert_says(error, self.node.uuid, fault['id'])
            self.assertEqual('vnc', task.driver.console.get_console(task)[
                'type'])

    def test_console_that_is_enabled_is_kept_when_a_conductor_starts(self):
        self.create('console-away')
        self.set_node(console_enabled=True)
        with self.acquire() as task:
            task.driver.console.start_console(task)
        self.assertEqual(0, self.faults()[0]['draws'])

    def test_nmi_is_ignored(self):
        self.create('nmi-ignored')
        self.assertIsNone(self.request(self.manager.inject_nmi))
        self.assert_sent()
        self.assertIsNone(self.request(self.manager.inject_nmi))
        self.assert_sent('trigger_crash_dump')


class DeploymentTestCase(FaultTestCase):
    """All kinds together, in a deployment without an agent."""

    def test_ends_well_or_says_why(self):
        ends = []
        for seed in (5, 6, 9):
            self.set_node(provision_state=states.AVAILABLE,
                          network_interface='noop',
                          target_provision_state=None, last_error=None)
            for number, kind in enumerate(kinds.KINDS):
                self.create(kind, probability=0.3, seed=100 * seed + number,
                            **({'seconds': 2} if kind in kinds.TAKE_SECONDS
                               else {}))
            self.assertIsNone(self.deploy())
            ends.append(self.node.provision_state)
            if ends[-1] == states.DEPLOYFAIL:
                self.assertTrue(self.node.last_error)
            self.passthru('DELETE')
            self.assertIsNone(self.node.reservation)
            self.set_node(provision_state=states.DEPLOYFAIL)
            self.assertIsNone(self.deploy())
            self.assert_in(states.ACTIVE)
            self.assert_server_is('active', RUNNING)
        self.assertEqual({states.ACTIVE, states.DEPLOYFAIL}, {*ends})


class ShownTestCase(FaultTestCase):

    def validation(self):
        return self.manager.validate_driver_interfaces(
            self.context, self.node.uuid)

    def test_history_has_its_life(self):
        fault = self.create('power-ignored', times=3)
        self.power(REBOOT)
        self.passthru('DELETE', id=fault['id'])
        name = fault['id']
        self.assertEqual([
            f'Fault {name} is set',
            f'Fault {name} happens: a power request is answered and not done',
            f'Fault {name} is deleted'], self.history())

    def test_log_has_what_happens(self):
        with mock.patch.object(injection.LOG, 'info', autospec=True) as info:
            self.create('power-ignored')
            self.power(REBOOT)
        self.assertEqual(2, info.call_count)
        for call in info.call_args_list:
            self.assertEqual(self.node.uuid, call.args[1]['node'])

    def test_last_error_stays(self):
        self.create('power-ignored')
        self.node.refresh()
        self.assertIsNone(self.node.last_error)

    def test_validation_of_inspect_says_so(self):
        before = self.validation()
        self.assertTrue(before['inspect']['result'])
        fault = self.create('power-fails', probability=0.5)
        after = self.validation()
        self.assertFalse(after['inspect']['result'])
        self.assert_says(
            after['inspect']['reason'], self.node.uuid, fault['id'],
            f'fault delete {self.node.uuid} --all')
        del before['inspect'], after['inspect']
        self.assertEqual(before, after)

    def test_fault_keeps_nobody_from_inspecting(self):
        self.create('power-fails')
        with self.acquire() as task:
            task.driver.inspect.validate(task)

    def test_recovery_of_a_node_goes_on(self):
        self.create('console-away')
        with self.acquire(shared=True) as task:
            for kind in ('power', 'management', 'console', 'vendor'):
                getattr(task.driver, kind).validate(task)


class PermissionTestCase(FaultTestCase):
    """Without the option, nothing of it is within reach."""

    def setUp(self):
        super().setUp()
        for kind in kinds.KINDS:
            self.create(kind, probability=1,
                        **({'seconds': 30} if kind in kinds.TAKE_SECONDS
                           else {}))
        self.node.refresh()
        self.node.set_driver_internal_info(
            internal_info.LATE_REQUEST,
            {'power_state': OFF, 'due_at': self.clock.now})
        self.node.save()
        self.kept = self.node.driver_internal_info
        self.config(fault_injection=False, group='quintupleo')

    def test_passthru_refuses_in_a_sentence(self):
        for http_method, arguments in (
                ('GET', {}), ('DELETE', {}),
                ('POST', {'kind': 'power-fails'})):
            error = self.request(
                lambda context, uuid, *args: self.manager.vendor_passthru(
                    context, uuid, *args), 'faults', http_method, arguments)
            self.assertIsInstance(error, exception.InvalidParameterValue)
            self.assert_says(error, self.node.uuid, 'takes no faults',
                             '[quintupleo]fault_injection')

    def test_faults_that_are_kept_have_no_effect(self):
        self.clock.now += 60
        self.run_periodic('_finish_late')
        self.assert_sent()
        self.assertEqual(ON, self.read_power())
        self.assertEqual(ON, self.read_power(shared=False))
        self.wish(boot_devices.PXE)
        self.assertIsNone(self.power(REBOOT))
        self.assertIsNone(self.power(REBOOT))
        self.assert_sent('rescue', 'unrescue', 'rescue')
        self.assertIsNone(self.request(self.manager.inject_nmi))
        with self.acquire(shared=True) as task:
            self.assertIn('url', task.driver.console.get_console(task))
            task.driver.inspect.validate(task)
        self.node.refresh()
        self.assertEqual(
            self.kept[internal_info.FAULTS],
            self.node.driver_internal_info[internal_info.FAULTS])
        # What was asked for since supersedes it.
        self.assertNotIn(internal_info.LATE_REQUEST,
                         self.node.driver_internal_info)
        self.assertEqual(len(kinds.KINDS), len(self.history()))

    def test_kept_faults_are_not_even_read(self):
        with mock.patch.object(injection, 'get', autospec=True) as get:
            self.power(REBOOT)
            self.read_power()
        get.assert_not_called()

    def test_no_periodic_task_runs(self):
        with self.acquire(shared=True) as task:
            periodic = task.driver.power._finish_late
        self.assertFalse(periodic._is_periodic)
