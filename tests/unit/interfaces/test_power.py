# SPDX-License-Identifier: Apache-2.0
"""The power interface, against a host cloud that can fail."""

import dataclasses
import functools
import itertools

import fixtures
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils
import requests

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power import executor
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import servers
from quintupleo_power.interfaces import power
from quintupleo_power.node import boot_device
from quintupleo_power import transitions
from tests.unit import base
from tests.unit import host_cloud_fixture
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN


class PowerTestCase(base.DriverTestCase):
    """What the tests of power requests have in common."""

    def wish(self, device, persistent=False):
        with self.acquire() as task:
            task.driver.management.set_boot_device(task, device, persistent)

    def set_power(self, power_state, timeout=None):
        with self.acquire() as task:
            self.as_ironic_does(task, task.driver.power.set_power_state,
                                power_state, timeout)

    def reboot(self, timeout=None):
        with self.acquire() as task:
            self.as_ironic_does(task, task.driver.power.reboot, timeout)

    @staticmethod
    def as_ironic_does(task, call, *args):
        """Save the node after a request, however it ended."""
        try:
            call(task, *args)
        finally:
            task.node.save()

    def get_power(self):
        with self.acquire(shared=True) as task:
            return task.driver.power.get_power_state(task)

    def next_device(self):
        with self.acquire(shared=True) as task:
            return task.driver.management.get_boot_device(task)

    def refused(self, call, *args, **kwargs):
        """Call; expect the exception that Ironic's RPC layer passes on."""
        return self.assertRaises(exception.DriverOperationError, call,
                                 *args, **kwargs)

    def assert_sent(self, *actions):
        self.assertEqual(list(actions), self.host_cloud.sent)

    def assert_server_is(self, vm_state, power_state):
        self.assertEqual((vm_state, power_state, None), (
            self.server.vm_state, self.server.power_state,
            self.server.task[0]))


class InterfaceTestCase(PowerTestCase):

    def test_supports_every_power_request_of_ironic(self):
        with self.acquire(shared=True) as task:
            self.assertEqual(
                {states.POWER_ON, states.POWER_OFF, states.REBOOT,
                 states.SOFT_POWER_OFF, states.SOFT_REBOOT},
                set(task.driver.power.get_supported_power_states(task)))

    def test_properties_name_the_required_key_as_required(self):
        with self.acquire(shared=True) as task:
            properties = task.driver.power.get_properties()
        self.assertIn('Required', properties['quintupleo_server'])
        self.assertEqual(8, len(properties))

    def test_unknown_power_state_is_refused_before_any_request(self):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.set_power, 'hibernate')
        self.assert_says(error, self.node.uuid, "'hibernate'")
        self.assertEqual([], self.host_cloud.requests)

    def test_node_is_locked_for_changes(self):
        with self.acquire(shared=True) as task:
            self.assertRaises(exception.ExclusiveLockRequired,
                              task.driver.power.reboot, task)
            self.assertRaises(exception.ExclusiveLockRequired,
                              task.driver.power.set_power_state, task,
                              states.POWER_ON)

    def test_ironic_picks_this_driver_for_power_and_management(self):
        self.assertEqual('quintupleo', self.node.driver)
        with self.acquire(shared=True) as task:
            self.assertIsInstance(task.driver.power, power.QuintupleoPower)
            self.assertEqual('quintupleo', task.node.get_interface(
                'management'))


class RequestsTestCase(PowerTestCase):
    """Each request from the states that it usually meets."""

    def test_power_off_stops(self):
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')
        self.assert_server_is('stopped', SHUTDOWN)

    def test_soft_power_off_stops_with_novas_clean_shutdown(self):
        self.set_power(states.SOFT_POWER_OFF)
        self.assert_sent('stop')
        self.assert_server_is('stopped', SHUTDOWN)

    def test_power_on_starts_from_disk_when_nothing_was_wished(self):
        self.set_server('stopped', SHUTDOWN)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')
        self.assert_server_is('active', RUNNING)

    def test_power_on_of_a_running_node_does_nothing(self):
        self.set_power(states.POWER_ON)
        self.assert_sent()

    def test_power_off_of_a_node_that_is_off_does_nothing(self):
        self.set_server('stopped', SHUTDOWN)
        self.set_power(states.POWER_OFF)
        self.assert_sent()

    def test_reboot_is_hard(self):
        self.reboot()
        self.assert_sent('hard reboot')

    def test_reboot_as_a_power_state_is_hard_too(self):
        self.set_power(states.REBOOT)
        self.assert_sent('hard reboot')

    def test_soft_reboot_is_soft(self):
        self.set_power(states.SOFT_REBOOT)
        self.assert_sent('soft reboot')

    def test_reboot_of_a_node_that_is_off_powers_it_on(self):
        self.set_server('stopped', SHUTDOWN)
        self.reboot()
        self.assert_sent('start')

    def test_server_in_error_is_rebooted(self):
        self.set_server('error', 0)
        self.set_power(states.POWER_ON)
        self.assert_sent('hard reboot')

    def test_server_by_name(self):
        self.set_driver_info(quintupleo_server='machine-0')
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_rescue_names_the_image_of_the_servers_boot_mode(self):
        uefi = self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = 'uefi'
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertIn(uefi['id'], self.bodies_of_actions()[0])

    def test_rescue_names_the_image_of_the_node(self):
        own = self.host_cloud.add_rescue_image('my-own')
        self.set_driver_info(quintupleo_rescue_image='my-own')
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertIn(own['id'], self.bodies_of_actions()[0])

    def test_volume_backed_server_boots_as_the_node_says(self):
        uefi = self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')
        self.server.image = None
        self.node.properties = {'capabilities': 'boot_mode:uefi'}
        self.node.save()
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertIn(uefi['id'], self.bodies_of_actions()[0])

    def test_boot_mode_that_is_none_is_refused(self):
        self.server.image = None
        self.node.properties = {'capabilities': 'boot_mode:legacy'}
        self.node.save()
        self.wish(boot_devices.PXE)
        for call in (self.validate, self.reboot):
            error = self.assertRaises(exception.InvalidParameterValue, call)
            for part in (self.node.uuid, "boot mode is 'legacy'", 'uefi'):
                self.assertIn(part, str(error))
        self.assert_sent()

    def bodies_of_actions(self):
        return [body for body in self.host_cloud.bodies if 'rescue' in body]


class SequencesTestCase(PowerTestCase):
    """What Ironic asks for, one after the other."""

    def test_deployment(self):
        # Ironic: boot the ramdisk.
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assert_server_is('rescued', RUNNING)
        # The image is written: boot the disk from now on, off and on again.
        self.wish(boot_devices.DISK, persistent=True)
        self.assert_server_is('rescued', RUNNING)
        self.server.power_state = SHUTDOWN
        self.assertEqual(states.POWER_OFF, self.get_power())
        self.set_power(states.POWER_OFF)
        self.set_power(states.POWER_ON)
        self.assert_server_is('active', RUNNING)
        self.assert_sent('rescue', 'unrescue')
        self.assertEqual({'boot_device': 'disk', 'persistent': True},
                         self.next_device())

    def test_cleaning_starts_and_ends_with_the_node_off(self):
        self.set_server('stopped', SHUTDOWN)
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assert_server_is('rescued', RUNNING)
        self.set_power(states.POWER_OFF)
        self.assert_server_is('stopped', SHUTDOWN)
        self.assert_sent('rescue', 'unrescue', 'stop')

    def test_operator_boots_the_network_again_and_again(self):
        self.wish(boot_devices.PXE, persistent=True)
        self.reboot()
        self.reboot()
        self.set_power(states.POWER_OFF)
        self.set_power(states.POWER_ON)
        self.assert_server_is('rescued', RUNNING)
        self.assert_sent('rescue', 'unrescue', 'rescue', 'unrescue', 'stop',
                         'rescue')

    def test_ramdisk_that_reboots_into_the_disk(self):
        self.set_server('rescued', RUNNING)
        self.wish(boot_devices.DISK, persistent=True)
        self.reboot()
        self.assert_sent('unrescue')
        self.assert_server_is('active', RUNNING)


class OneTimeDeviceTestCase(PowerTestCase):

    def test_is_consumed_by_the_boot_that_used_it(self):
        self.wish(boot_devices.PXE)
        self.reboot()
        self.reboot()
        self.assert_sent('rescue', 'unrescue')

    def test_gives_way_to_the_persistent_device(self):
        self.wish(boot_devices.PXE, persistent=True)
        self.wish(boot_devices.DISK)
        self.reboot()
        self.assert_sent('hard reboot')
        self.assertEqual({'boot_device': 'pxe', 'persistent': True},
                         self.next_device())

    def test_is_kept_by_power_off(self):
        self.wish(boot_devices.PXE)
        self.set_power(states.POWER_OFF)
        self.assertEqual({'boot_device': 'pxe', 'persistent': False},
                         self.next_device())

    def test_is_kept_when_nothing_had_to_boot(self):
        self.wish(boot_devices.PXE)
        self.set_power(states.POWER_ON)
        self.assert_sent()
        self.assertEqual({'boot_device': 'pxe', 'persistent': False},
                         self.next_device())

    def test_is_kept_when_the_boot_failed(self):
        self.wish(boot_devices.PXE)
        self.host_cloud.fail_action('rescue', 'No space left on device')
        self.refused(self.reboot)
        self.assertEqual({'boot_device': 'pxe', 'persistent': False},
                         self.next_device())

    def test_survives_a_restart_of_the_conductor(self):
        self.wish(boot_devices.PXE)
        self.forget_clouds()
        self.node.refresh()
        self.reboot()
        self.assert_sent('rescue')


class NetworkFirstTestCase(PowerTestCase):
    """A server that asks the network at each boot is never rescued."""

    def setUp(self):
        super().setUp()
        read = servers.Server.from_body
        self.useFixture(fixtures.MockPatchObject(
            servers.Server, 'from_body',
            lambda *args: dataclasses.replace(read(*args),
                                              network_first=True)))

    def test_pxe_is_a_boot_like_any_other(self):
        self.set_server('stopped', SHUTDOWN)
        self.wish(boot_devices.PXE)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')
        self.assertIsNone(self.next_device()['persistent'])

    def test_reboot_whose_answer_was_lost_is_not_repeated(self):
        self.set_server('stopped', SHUTDOWN)
        self.wish(boot_devices.PXE)
        self.host_cloud.fail('POST', '/action$', 503, carried_out=True)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')

    def test_needs_no_rescue_image(self):
        self.host_cloud.images.pop(self.rescue_image['id'])
        self.validate()

    def test_boots_from_the_network_when_nothing_was_wished(self):
        self.assertEqual({'boot_device': 'pxe', 'persistent': None},
                         self.next_device())


class TroubleTestCase(PowerTestCase):
    """What a host cloud does on worse days."""

    def test_conflict_is_planned_anew_from_the_state_as_it_is_then(self):
        self.host_cloud.fail('POST', '/action$', (
            409, "Cannot 'reboot' instance while it is in vm_state stopped"))
        self.reboot()
        self.assert_sent('hard reboot')

    def test_lasting_conflict_ends_with_novas_own_sentence(self):
        self.host_cloud.fail('POST', '/action$', (
            409, f'Instance {self.server.id} is not ready'), times=99)
        self.server.fault = 'No valid host was found'
        self.assert_says(self.refused(self.reboot), self.node.uuid, '409',
                         'is not ready', 'No valid host was found')
        self.assertEqual(2, self.posts())

    def test_conflicts_in_ever_other_states_come_to_an_end(self):
        self.host_cloud.fail('POST', '/action$', 409, times=99)
        vm_states = itertools.cycle(('active', 'error'))
        serve = self.host_cloud._server_body

        def body(server):
            server.vm_state = next(vm_states)
            return serve(server)

        self.host_cloud._server_body = body
        self.refused(self.reboot)
        self.assertEqual(executor.MAX_CONFLICTS, self.posts())

    def test_lock_is_named_at_once_with_its_reason(self):
        self.server.locked, self.server.locked_reason = True, 'in use'
        self.host_cloud.fail('POST', '/action$', (
            409, f'Instance {self.server.id} is locked'), times=99)
        self.assert_says(self.refused(self.reboot), self.node.uuid,
                         self.server.id, 'locked ("in use")',
                         'openstack server unlock')
        self.assertEqual(1, self.posts())

    def test_lock_does_not_stop_what_nova_permits(self):
        # As an administrator, or where nothing is to be done.
        self.server.locked = True
        self.set_power(states.POWER_ON)
        self.assert_sent()
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_conflict_in_the_middle_is_finished_from_there(self):
        self.set_server('rescued', RUNNING)
        self.host_cloud.fail('POST', '/action$', 409, skip=1)
        self.set_power(states.POWER_OFF)
        self.assert_sent('unrescue', 'stop')
        self.assert_server_is('stopped', SHUTDOWN)

    def test_unrescue_that_ends_in_error_is_finished_from_there(self):
        for target, actions, ends_in in (
                (states.POWER_OFF, ('unrescue', 'stop'), 'stopped'),
                (states.REBOOT, ('unrescue', 'hard reboot'), 'active')):
            with self.subTest(target):
                self.set_server('rescued', RUNNING)
                self.host_cloud.forget_requests()
                self.host_cloud.fail_action(
                    'unrescue', 'Address already in use', vm_state='error',
                    power_state=SHUTDOWN)
                self.set_power(target)
                self.assert_sent(*actions)
                self.assertEqual(ends_in, self.server.vm_state)

    def test_unrescue_that_leaves_the_server_in_rescue_is_told_of(self):
        self.set_server('rescued', RUNNING)
        self.host_cloud.fail_action('unrescue', 'No route to host')
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         self.node.uuid, 'No route to host')
        self.assert_sent('unrescue')

    def test_power_on_that_stumbles_after_unrescue_still_boots_pxe(self):
        self.set_server('rescued', SHUTDOWN)
        self.wish(boot_devices.PXE)
        self.host_cloud.fail('POST', '/action$', 409, skip=1)
        self.set_power(states.POWER_ON)
        self.assert_sent('unrescue', 'rescue')
        self.assert_one_time_device_is_consumed()

    def test_power_on_that_stumbles_after_hard_reboot_still_boots_pxe(self):
        self.set_server('suspended', 7)
        self.wish(boot_devices.PXE)
        self.host_cloud.fail('POST', '/action$', 409, skip=1)
        self.set_power(states.POWER_ON)
        self.assert_sent('hard reboot', 'rescue')
        self.assert_one_time_device_is_consumed()

    def test_server_error_on_an_action_is_tried_again_after_a_pause(self):
        self.host_cloud.fail('POST', '/action$', 503, times=2)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')
        # The first may be on its way for some seconds.
        self.assertEqual([3.0, 4.0], self.clock.slept[:2])

    def test_lasting_server_error_ends_with_novas_own_sentence(self):
        self.host_cloud.fail('POST', '/action$', (500, 'Out of rabbits'),
                             times=99)
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         self.node.uuid, '500', 'Out of rabbits')
        self.assertLess(3, self.posts())

    def test_server_error_is_outlasted_for_as_long_as_the_request_has(self):
        begun = self.clock.now
        self.host_cloud.fail('POST', '/action$', 503, times=9)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')
        self.assertLess(120, self.clock.now - begun)
        pauses = self.clock.slept
        self.assertGreaterEqual(executor.LONGEST_PAUSE, max(pauses))

    def test_unrescue_that_never_arrived_is_no_reboot_to_pxe(self):
        self.set_server('rescued', RUNNING)
        self.wish(boot_devices.PXE)
        self.host_cloud.fail('POST', '/action$', 503)
        self.reboot()
        self.assert_sent('unrescue', 'rescue')

    def test_too_many_requests_is_tried_again(self):
        self.host_cloud.fail('POST', '/action$', (429, 'Slow down'))
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_rescue_that_a_proxy_lost_the_answer_of_is_not_sent_twice(self):
        for call in (self.reboot, lambda: self.set_power(states.POWER_ON)):
            self.set_server('stopped', SHUTDOWN)
            self.host_cloud.forget_requests()
            self.wish(boot_devices.PXE)
            self.host_cloud.fail('POST', '/action$', 504, carried_out=True)
            call()
            self.assert_sent('rescue')
            self.assert_one_time_device_is_consumed()

    def test_start_that_a_proxy_lost_the_answer_of_is_not_sent_twice(self):
        self.set_server('stopped', SHUTDOWN)
        self.host_cloud.fail('POST', '/action$', 504, carried_out=True)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')

    def test_stop_that_a_proxy_lost_the_answer_of_is_not_sent_twice(self):
        self.host_cloud.fail('POST', '/action$', 504, carried_out=True)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')
        self.assert_server_is('stopped', SHUTDOWN)

    def test_bad_request_is_not_tried_again(self):
        self.host_cloud.fail('POST', '/action$', (400, 'Not like that'),
                             times=99)
        self.assert_says(self.refused(self.reboot), 'Not like that')
        self.assertEqual(1, self.posts())

    def test_forbidden_action_is_not_tried_again(self):
        self.host_cloud.fail('POST', '/action$', (
            403, 'Policy does not allow os_compute_api:servers:reboot'))
        self.assert_says(self.refused(self.reboot), '403', 'Policy')
        self.assertEqual(1, self.posts())

    def test_rescue_image_that_vanished_is_looked_up_anew(self):
        self.wish(boot_devices.PXE, persistent=True)
        self.reboot()
        del self.host_cloud.images[self.rescue_image['id']]
        self.host_cloud.add_rescue_image()
        self.set_server('active', RUNNING)
        self.reboot()
        self.assert_server_is('rescued', RUNNING)

    def test_missing_rescue_image_leaves_the_server_as_it_was(self):
        self.set_server('rescued', SHUTDOWN)
        self.host_cloud.images.clear()
        self.wish(boot_devices.PXE)
        self.assert_says(self.refused(self.set_power, states.POWER_ON),
                         '[quintupleo]rescue_image_bios',
                         "No image is named 'quintupleo-rescue-bios'")
        self.assert_sent()

    def test_read_that_fails_while_an_action_goes_on_is_passed_over(self):
        self.host_cloud.fail('GET', f'/servers/{self.server.id}$', 503,
                             skip=1, times=2)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_lost_connection_while_an_action_goes_on_is_passed_over(self):
        self.host_cloud.fail('GET', f'/servers/{self.server.id}$',
                             requests.exceptions.ConnectTimeout('gone'),
                             skip=1, times=2)
        self.set_power(states.POWER_OFF)
        self.assert_sent('stop')

    def test_unfinished_event_is_read_again(self):
        self.host_cloud.fail('GET', '/os-instance-actions/', 503, times=2)
        self.reboot()
        self.assertEqual(3, self.count('/os-instance-actions/'))

    def test_cloud_that_shows_no_records_is_judged_by_the_server(self):
        self.host_cloud.fail('GET', '/os-instance-actions', 403, times=99)
        self.set_power(states.POWER_OFF)
        self.assert_server_is('stopped', SHUTDOWN)
        self.host_cloud.fail_action('start', 'not shown')
        self.assert_says(self.refused(self.set_power, states.POWER_ON),
                         'was SHUTOFF with power state 4 after start')

    def test_action_that_nova_gave_up_tells_novas_reason(self):
        self.host_cloud.fail_action('stop', 'Libvirt is not in the mood')
        self.assert_says(
            self.refused(self.set_power, states.POWER_OFF), self.node.uuid,
            f'Nova could not stop server {self.server.id}',
            'Libvirt is not in the mood')
        self.assert_sent('stop')

    def test_action_that_ends_in_error_tells_the_servers_fault(self):
        self.host_cloud.fail_action(
            'hard reboot', 'Exception', vm_state='error', power_state=0,
            fault='No valid host was found')
        self.assert_says(self.refused(self.reboot),
                         'No valid host was found')

    def test_guest_that_died_at_once_is_not_called_on(self):
        self.set_server('stopped', SHUTDOWN)
        serve = self.host_cloud._end_task

        def end_task(server):
            serve(server)
            server.power_state = SHUTDOWN

        self.host_cloud._end_task = end_task
        self.assert_says(self.refused(self.set_power, states.POWER_ON),
                         'was ACTIVE with power state 4 after start')

    def test_action_that_never_ends_is_given_up_in_time(self):
        self.host_cloud.reads_per_task = 10 ** 6
        begun = self.clock.now
        self.assert_says(
            self.refused(self.set_power, states.POWER_OFF, timeout=30),
            '"stop" of server', 'did not end within the time',
            'powering-off')
        self.assertLessEqual(30, self.clock.now - begun)
        self.assertGreater(40, self.clock.now - begun)
        self.assert_sent('stop')

    def test_without_a_timeout_the_configured_one_counts(self):
        self.config(action_timeout=60, group='quintupleo')
        self.host_cloud.reads_per_task = 10 ** 6
        begun = self.clock.now
        self.refused(self.reboot)
        self.assertLessEqual(60, self.clock.now - begun)
        self.assertGreater(70, self.clock.now - begun)

    def test_time_is_for_all_actions_of_a_request_together(self):
        self.set_server('rescued', RUNNING)
        self.host_cloud.reads_per_task = 10
        self.refused(self.set_power, states.POWER_OFF, timeout=20)
        self.assert_sent('unrescue', 'stop')

    def test_task_of_somebody_else_is_waited_for(self):
        self.host_cloud.begin_task(self.server, 'powering-off', 3,
                                   'stopped', SHUTDOWN)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')

    def test_task_that_already_leads_there_is_all_that_is_needed(self):
        self.host_cloud.begin_task(self.server, 'powering-off', 3,
                                   'stopped', SHUTDOWN)
        self.set_power(states.POWER_OFF)
        self.assert_sent()

    def test_task_of_somebody_else_that_never_ends_is_given_up(self):
        self.host_cloud.begin_task(self.server, 'image_snapshot', 10 ** 6,
                                   'active', RUNNING)
        self.assert_says(self.refused(self.reboot), 'image_snapshot')
        self.assert_sent()

    def test_server_that_permits_no_action_is_refused_with_what_helps(self):
        for vm_state, sentence in (('shelved_offloaded', 'unshelve'),
                                   ('resized', 'resize confirm'),
                                   ('building', 'still being built'),
                                   ('soft-delete', 'restore')):
            self.set_server(vm_state)
            self.assert_says(self.refused(self.reboot), self.server.id,
                             'a reboot is refused', sentence)
        self.assert_sent()

    def test_server_deleted_in_the_middle_is_said_to_be_gone(self):
        serve = self.host_cloud._begin

        def begin(server, *args):
            serve(server, *args)
            server.vm_state = 'deleted'

        self.host_cloud._begin = begin
        self.assert_says(self.refused(self.reboot), self.server.id,
                         'does not exist')

    def posts(self):
        return self.count('/action', 'POST')

    def count(self, path, method='GET'):
        return sum(1 for request in self.host_cloud.requests
                   if path in request and request.startswith(method))

    def assert_one_time_device_is_consumed(self):
        self.node.refresh()
        self.assertNotIn(boot_device.ONCE_KEY, self.node.driver_internal_info)


class GetPowerStateTestCase(PowerTestCase):

    def test_of_each_state(self):
        for vm_state, power_state, expected in (
                ('active', RUNNING, states.POWER_ON),
                ('active', SHUTDOWN, states.POWER_OFF),
                ('stopped', SHUTDOWN, states.POWER_OFF),
                ('rescued', RUNNING, states.POWER_ON),
                ('rescued', SHUTDOWN, states.POWER_OFF),
                ('paused', 3, states.POWER_ON),
                ('suspended', 7, states.POWER_OFF),
                ('shelved', SHUTDOWN, states.POWER_OFF),
                ('shelved_offloaded', SHUTDOWN, states.POWER_OFF),
                ('resized', RUNNING, states.POWER_ON)):
            self.forget_clouds()
            self.set_server(vm_state, power_state)
            self.assertEqual(expected, self.get_power(), vm_state)

    def test_task_in_progress_counts_as_its_target(self):
        for task, vm_state, power_state, expected in (
                ('powering-on', 'stopped', SHUTDOWN, states.POWER_ON),
                ('powering-off', 'active', RUNNING, states.POWER_OFF),
                ('rescuing', 'stopped', SHUTDOWN, states.POWER_ON),
                ('unrescuing', 'rescued', SHUTDOWN, states.POWER_ON),
                ('rebooting_hard', 'active', SHUTDOWN, states.POWER_ON)):
            self.forget_clouds()
            self.set_server(vm_state, power_state)
            self.host_cloud.begin_task(self.server, task, 9, vm_state,
                                       power_state)
            self.assertEqual(expected, self.get_power(), task)

    def test_error_tells_novas_fault(self):
        self.set_server('error', 0)
        self.server.fault = 'Guest burnt down'
        self.assert_says(self.refused(self.get_power), self.server.id,
                         'ERROR', 'neither on nor off', 'Guest burnt down')

    def test_states_that_are_neither_on_nor_off_are_errors(self):
        for vm_state, word in (('building', 'BUILD'),
                               ('soft-delete', 'SOFT_DELETED'),
                               ('rusty', 'UNKNOWN')):
            self.forget_clouds()
            self.set_server(vm_state)
            self.assert_says(self.refused(self.get_power), word)

    def test_is_read_anew_before_a_change(self):
        # Found by the model-based test: a server that had been stopped past
        # Ironic a moment ago was not started, as it was still known as on.
        self.assertEqual(states.POWER_ON, self.get_power())
        self.set_server('stopped', SHUTDOWN)
        self.assertEqual(states.POWER_ON, self.get_power())
        with self.acquire() as task:
            # As each request for a power state begins.
            task.driver.power.validate(task)
            utils.node_power_action(task, states.POWER_ON)
        self.assert_sent('start')

    def test_request_without_validation_is_not_skipped_by_an_older_reading(
            self):
        # Found by the tests with faults on a quick machine.
        self.assertEqual(states.POWER_ON, self.get_power())
        self.set_server('suspended', transitions.PowerState.SUSPENDED)
        with self.acquire() as task:
            utils.node_power_action(task, states.POWER_ON)
        self.assert_sent('hard reboot')

    def test_reboot_is_not_taken_for_done_by_what_others_did(self):
        # Found by the model-based test: somebody had started the server, and
        # the answer to the driver's own start was lost.
        self.set_server('stopped', SHUTDOWN)
        self.assertEqual(states.POWER_OFF, self.get_power())
        self.set_server('active', RUNNING)
        self.host_cloud.fail('POST', '/action$', 502, times=1)
        self.reboot()
        self.assert_sent('hard reboot')

    def test_who_asks_is_not_answered_by_an_older_reading(self):
        self.assertEqual(states.POWER_ON, self.get_power())
        self.set_server('resized', SHUTDOWN)
        with self.acquire(shared=True) as task:
            error = self.assertRaises(exception.InvalidParameterValue,
                                      task.driver.power.validate, task)
        self.assert_says(error, 'a resize waits to be confirmed')

    def test_request_is_not_refused_by_an_older_reading(self):
        self.set_server('resized', SHUTDOWN)
        self.get_power()
        self.set_server('active', RUNNING)
        with self.acquire() as task:
            task.driver.power.validate(task)

    def test_server_that_is_refused_after_its_validation(self):
        for before, wanted in (('stopped', states.POWER_ON),
                               ('active', states.REBOOT)):
            self.set_server(before, RUNNING if before == 'active'
                            else SHUTDOWN)
            with self.acquire() as task:
                task.driver.power.validate(task)
                self.set_server('shelved', SHUTDOWN)
                task.node.target_power_state = wanted
                error = self.assertRaises(
                    exception.DriverOperationError,
                    utils.node_power_action, task, wanted)
            self.assert_says(error, 'it is shelved')
        self.assert_sent()

    def test_server_that_is_deleted_before_the_action_is_named(self):
        # Found by the model-based test.
        self.host_cloud.fail('POST', '/action$', (
            404, 'Instance could not be found.'), times=99)
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         self.node.uuid, self.server.id, 'does not exist')

    def test_deleted_server_is_an_error_and_not_off(self):
        self.set_server('deleted')
        self.assert_says(self.refused(self.get_power), self.node.uuid,
                         self.server.id, 'does not exist')

    def test_error_is_told_as_such_to_who_is_about_to_leave_it(self):
        self.set_server('error')
        self.server.fault = 'Disk quota exceeded'
        with self.acquire() as task:
            self.assertEqual(states.ERROR,
                             task.driver.power.get_power_state(task))
            utils.node_power_action(task, states.POWER_ON)
        self.assert_sent('hard reboot')

    def test_error_stops_the_verification_of_a_node(self):
        self.set_server('error')
        self.server.fault = 'Disk quota exceeded'
        self.node.provision_state = states.VERIFYING
        self.node.save()
        with self.acquire() as task:
            self.assert_says(
                self.refused(task.driver.power.get_power_state, task),
                self.node.uuid, 'Disk quota exceeded')

    def test_server_whose_cell_is_down_is_an_error(self):
        # Nova then leaves out most of the keys.
        self.host_cloud._server_body = lambda server: {
            'id': server.id, 'status': 'UNKNOWN', 'links': []}
        self.assert_says(self.refused(self.get_power), self.node.uuid,
                         'is UNKNOWN')
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         self.node.uuid, 'cell that it is in is down')

    def test_failing_api_is_an_error(self):
        for status in (500, 503, 403, 429):
            self.forget_clouds()
            self.host_cloud.fail('GET', '/servers/', status, times=3)
            self.assert_says(self.refused(self.get_power), str(status))
            self.host_cloud.stop_failing()

    def test_unreachable_cloud_is_an_error(self):
        self.host_cloud.fail('GET', '/servers/',
                             requests.exceptions.ConnectionError('gone'),
                             times=99)
        self.assert_says(self.refused(self.get_power), self.node.uuid,
                         'cannot be reached')

    def test_answer_that_is_not_json_is_an_error(self):
        self.host_cloud.fail('GET', '/servers/', '<html>Hi</html>', times=99)
        self.assert_says(self.refused(self.get_power),
                         'not from an OpenStack service')

    def test_reading_is_shared_for_as_long_as_configured(self):
        self.get_power()
        self.host_cloud.forget_requests()
        self.get_power()
        self.assertEqual([], self.host_cloud.requests)
        self.clock.now += 31.0
        self.get_power()
        self.assertEqual(1, len(self.host_cloud.requests))

    def test_change_is_told_after_another_look(self):
        self.node.power_state = states.POWER_ON
        self.node.save()
        self.get_power()
        self.set_server('stopped', SHUTDOWN)
        self.clock.now += 10.0
        self.assertEqual(states.POWER_ON, self.get_power())
        self.node.power_state = states.POWER_OFF
        self.node.save()
        self.assertEqual(states.POWER_OFF, self.get_power())

    def test_reading_is_not_shared_if_so_configured(self):
        self.config(server_list_max_age=0, group='quintupleo')
        self.get_power()
        self.host_cloud.forget_requests()
        self.get_power()
        self.assertEqual(1, len(self.host_cloud.requests))

    def test_reading_from_before_an_action_does_not_count_after_it(self):
        self.get_power()
        self.set_power(states.POWER_OFF)
        self.assertEqual(states.POWER_OFF, self.get_power())


class PlanTestCase(PowerTestCase):
    """What was read before a request has no effect on it."""

    def test_each_request_reads_the_server_first(self):
        for request in (functools.partial(self.set_power, states.POWER_OFF),
                        functools.partial(self.set_power, states.POWER_ON),
                        self.reboot):
            self.validate()
            self.get_power()
            self.host_cloud.forget_requests()
            request()
            self.assertEqual(f'GET /v2.1/servers/{self.server.id}',
                             self.host_cloud.requests[0])

    def test_server_that_is_off_by_now(self):
        self.get_power()
        self.set_server('stopped', SHUTDOWN)
        self.set_power(states.POWER_OFF)
        self.assert_sent()

    def test_server_that_boots_from_the_network_by_now(self):
        self.get_power()
        self.set_server('rescued', RUNNING)
        self.set_power(states.POWER_OFF)
        self.assert_sent('unrescue', 'stop')

    def test_server_that_is_on_by_now(self):
        # Found by the model-based test: somebody had started and paused it.
        for wished_once in (False, True):
            for vm_state, power_state in (('active', RUNNING),
                                          ('rescued', RUNNING),
                                          ('paused', 3)):
                self.set_server('stopped', SHUTDOWN)
                self.get_power()
                self.set_server(vm_state, power_state)
                if wished_once:
                    self.wish(boot_devices.PXE)
                self.power_on_as_ironic()
                self.assert_sent()
                self.forget_clouds()

    def test_server_that_is_on_by_now_and_a_start_that_got_nowhere(self):
        for vm_state, power_state in (('active', RUNNING),
                                      ('rescued', RUNNING), ('paused', 3)):
            self.set_server('stopped', SHUTDOWN)
            self.get_power()
            self.set_server(vm_state, power_state)
            self.host_cloud.fail('POST', '/action$', 502, times=1)
            self.power_on_as_ironic()
            self.assert_sent()
            self.forget_clouds()

    def test_server_that_is_resized_and_locked_by_now(self):
        # Found by the model-based test: only the lock was told.
        self.get_power()
        self.set_server('resized', RUNNING)
        self.lock()
        self.assert_says(self.refused(self.set_power, states.POWER_OFF),
                         self.server.id, 'a resize waits to be confirmed')
        self.assert_sent()

    def test_lock_of_a_server_that_is_where_it_should_be_by_now(self):
        self.lock()
        for was, power_state in (('active', RUNNING), ('paused', 3)):
            self.set_server('stopped', SHUTDOWN)
            self.get_power()
            self.set_server(was, power_state)
            self.power_on_as_ironic()
            self.forget_clouds()
        self.set_server('active', RUNNING)
        self.get_power()
        self.set_server('suspended', 7)
        self.set_power(states.POWER_OFF)
        self.assert_sent()

    def test_lock_of_a_server_that_is_elsewhere_by_now(self):
        self.set_server('stopped', SHUTDOWN)
        self.get_power()
        self.set_server('active', RUNNING)
        self.lock()
        self.assert_says(self.refused(self.reboot), self.server.id,
                         'it is locked')
        self.assert_sent()

    def lock(self):
        self.server.locked = True
        self.host_cloud.fail('POST', '/action$', (
            409, f'Instance {self.server.id} is locked'), times=99)

    def power_on_as_ironic(self):
        with self.acquire() as task:
            task.driver.power.validate(task)
            task.node.target_power_state = states.POWER_ON
            utils.node_power_action(task, states.POWER_ON)

    def test_reboot_is_never_taken_for_done_by_what_others_did(self):
        # Found by the model-based test: somebody had been there before, and
        # the answer to the driver's own action was lost.
        for device, was, is_now, sent in (
                (boot_devices.DISK, 'stopped', 'active', ['hard reboot']),
                (boot_devices.DISK, 'rescued', 'active', ['hard reboot']),
                (boot_devices.PXE, 'active', 'rescued',
                 ['unrescue', 'rescue']),
                (boot_devices.PXE, 'stopped', 'rescued',
                 ['unrescue', 'rescue'])):
            self.wish(device, persistent=True)
            self.set_server(was, SHUTDOWN if was == 'stopped' else RUNNING)
            self.get_power()
            self.set_server(is_now, RUNNING)
            self.host_cloud.fail('POST', '/action$', 502, times=1)
            self.host_cloud.sent.clear()
            self.reboot()
            self.assert_sent(*sent)

    def test_reboot_that_nova_has_done_is_not_repeated(self):
        for device, was, sent in (
                (boot_devices.PXE, 'active', ['rescue']),
                (boot_devices.PXE, 'stopped', ['rescue']),
                (boot_devices.PXE, 'rescued', ['unrescue', 'rescue']),
                (boot_devices.DISK, 'stopped', ['start']),
                (boot_devices.DISK, 'rescued', ['unrescue'])):
            self.wish(device, persistent=True)
            self.set_server(was, SHUTDOWN if was == 'stopped' else RUNNING)
            self.clock.now += 1
            self.host_cloud.fail('POST', '/action$', 502, times=1,
                                 carried_out=True)
            self.host_cloud.forget_requests()
            self.reboot()
            self.assert_sent(*sent)

    def test_action_that_nova_took_is_not_sent_again(self):
        # The looks for its end fail, and the plan is made anew.
        self.wish(boot_devices.PXE, persistent=True)
        self.get_power()
        self.clock.now += 2
        self.host_cloud.fail('GET', '/servers/', 503, times=3)
        self.reboot()
        self.assert_sent('rescue')


class ConcurrencyTestCase(PowerTestCase):

    def test_reading_from_the_middle_of_an_action_does_not_outlive_it(self):
        serve = self.host_cloud._begin

        def begin(server, *args):
            serve(server, *args)
            # Power sync looks at the same server just now.
            cloud.get(connection.Credentials()).servers.get_cached(
                server.id, 30.0)

        self.host_cloud._begin = begin
        self.set_power(states.POWER_OFF)
        self.host_cloud.forget_requests()
        self.get_power()
        self.assertEqual(1, len(self.host_cloud.requests))


class RequestCountTestCase(PowerTestCase):
    """Requests to the host cloud when the conductor has been up a while."""

    def setUp(self):
        super().setUp()
        # A minute ago is too long ago to be known.
        self.config(server_list_max_age=5, group=quintupleo_conf.GROUP)
        # Token, version documents, images and the pace of actions are known
        # then.
        self.validate()
        self.wish(boot_devices.PXE)
        self.reboot()
        self.set_power(states.POWER_OFF)
        self.set_power(states.POWER_ON)
        self.clock.now += 60
        self.host_cloud.forget_requests()

    def assert_requests(self, *expected):
        """Check methods and last path elements of the requests, in order."""
        self.assertEqual(list(expected), [
            'event' if '/os-instance-actions/' in request else
            'action' if request.endswith('/action') else
            'server' if request.endswith(self.server.id) else request
            for request in self.host_cloud.requests])

    def test_pxe_and_reboot_from_active_with_validation(self):
        self.set_power(states.REBOOT)
        self.clock.now += 60
        self.assert_server_is('active', RUNNING)
        self.host_cloud.forget_requests()
        self.wish(boot_devices.PXE)
        self.clock.tick = 1e-6
        with self.acquire() as task:
            task.driver.power.validate(task)
            self.as_ironic_does(task, task.driver.power.reboot)
        self.assert_requests('server', 'server', 'action', 'server',
                             'server')
        self.assert_server_is('rescued', RUNNING)

    def test_power_off(self):
        self.set_power(states.POWER_OFF)
        self.assert_requests('server', 'action', 'server', 'server')

    def test_plan_of_two_actions_is_made_from_a_fresh_reading(self):
        self.set_server('rescued', RUNNING)
        with self.acquire() as task:
            task.driver.power.validate(task)
        # The agent has switched itself off since.
        self.server.power_state = SHUTDOWN
        self.set_power(states.POWER_OFF)
        self.assert_sent()

    def test_refusal_is_made_from_a_fresh_reading(self):
        self.set_server('building')
        self.get_state_of_anything()
        self.set_server('stopped', SHUTDOWN)
        self.set_power(states.POWER_ON)
        self.assert_sent('start')

    def test_plan_that_validation_made_wrong_is_made_anew(self):
        self.set_server('stopped', SHUTDOWN)
        self.validate()
        self.set_server('rescued', RUNNING)
        self.wish(boot_devices.DISK, persistent=True)
        self.reboot()
        self.assert_sent('unrescue')

    def get_state_of_anything(self):
        with self.acquire(shared=True) as task:
            task.driver.management.get_boot_mode(task)

    def test_power_on_from_shutoff(self):
        self.set_power(states.POWER_OFF)
        self.clock.now += 60
        self.host_cloud.forget_requests()
        self.set_power(states.POWER_ON)
        self.assert_requests('server', 'action', 'server', 'server')

    def test_power_on_to_pxe_that_nothing_validates(self):
        self.set_power(states.POWER_OFF)
        self.wish(boot_devices.PXE)
        self.clock.now += 60
        self.host_cloud.forget_requests()
        self.set_power(states.POWER_ON)
        self.assert_requests('server', 'action', 'server', 'server')
        self.assert_server_is('rescued', RUNNING)

    def test_setting_the_device_asks_nothing(self):
        self.wish(boot_devices.PXE)
        self.assert_requests()

    def test_power_state(self):
        self.get_power()
        self.assert_requests('server')

    def test_request_that_has_nothing_to_do(self):
        self.set_power(states.POWER_ON)
        self.assert_requests('server')

    def test_first_poll_comes_when_the_action_usually_ends(self):
        self.host_cloud.reads_per_task = 0
        self.set_power(states.POWER_OFF)
        self.assert_requests('server', 'action', 'server')


class OldComputeTestCase(PowerTestCase):
    """A compute API that does not show image properties with the server."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.90')

    def test_boot_mode_is_read_from_the_image(self):
        uefi = self.host_cloud.add_rescue_image('quintupleo-rescue-uefi')
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = 'uefi'
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertTrue(any(uefi['id'] in body
                            for body in self.host_cloud.bodies))

    def test_server_whose_image_is_gone_boots_as_the_node_says(self):
        del self.host_cloud.images[self.server.image]
        self.node.properties = {'capabilities': 'boot_mode:bios'}
        self.node.save()
        self.wish(boot_devices.PXE)
        self.reboot()
        self.assertTrue(any(self.rescue_image['id'] in body
                            for body in self.host_cloud.bodies))
