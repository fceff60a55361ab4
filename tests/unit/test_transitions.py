# SPDX-License-Identifier: Apache-2.0
"""The state table, against the table of what Nova permits."""

import itertools
import unittest

from quintupleo_power import transitions
from tests.unit import nova_model

Action = transitions.Action
Device = transitions.Device
Request = transitions.Request
ServerState = transitions.ServerState
Situation = transitions.Situation

RUNNING = transitions.PowerState.RUNNING
SHUTDOWN = transitions.PowerState.SHUTDOWN

START, STOP, HARD, SOFT, RESCUE, UNRESCUE, UNPAUSE, REBUILD, SNAPSHOT = (
    Action.START, Action.STOP, Action.HARD_REBOOT, Action.SOFT_REBOOT,
    Action.RESCUE, Action.UNRESCUE, Action.UNPAUSE, Action.REBUILD,
    Action.SNAPSHOT)

STATES = {
    Situation.SHUTOFF: ServerState('stopped', SHUTDOWN),
    Situation.ACTIVE: ServerState('active', RUNNING),
    Situation.ACTIVE_GUEST_OFF: ServerState('active', SHUTDOWN),
    Situation.RESCUE: ServerState('rescued', RUNNING),
    Situation.RESCUE_GUEST_OFF: ServerState('rescued', SHUTDOWN),
    Situation.ERROR: ServerState('error'),
    Situation.PAUSED: ServerState('paused', transitions.PowerState.PAUSED),
    Situation.SUSPENDED: ServerState(
        'suspended', transitions.PowerState.SUSPENDED),
    Situation.BUILD: ServerState('building'),
    Situation.SHELVED: ServerState('shelved_offloaded', SHUTDOWN),
    Situation.VERIFY_RESIZE: ServerState('resized', RUNNING),
    Situation.SOFT_DELETED: ServerState('soft-delete', SHUTDOWN),
    Situation.DELETED: ServerState('deleted'),
    Situation.UNKNOWN: ServerState('rusty', RUNNING),
}

# The documented table, word for word: (request, device, from, actions).
# Those of the table.
REQUESTS = [request for request in Request
            if request is not Request.END_RESCUE]

EXPECTED = {
    (Request.POWER_ON, Device.DISK): {
        Situation.SHUTOFF: (START,),
        Situation.ACTIVE: (),
        Situation.ACTIVE_GUEST_OFF: (HARD,),
        Situation.RESCUE: (),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE,),
        Situation.ERROR: (HARD,),
        Situation.PAUSED: (UNPAUSE,),
        Situation.SUSPENDED: (HARD,),
    },
    (Request.POWER_ON, Device.PXE): {
        Situation.SHUTOFF: (RESCUE,),
        Situation.ACTIVE: (),
        Situation.ACTIVE_GUEST_OFF: (RESCUE,),
        Situation.RESCUE: (),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE, RESCUE),
        Situation.ERROR: (RESCUE,),
        Situation.PAUSED: (UNPAUSE,),
        Situation.SUSPENDED: (HARD, RESCUE),
    },
    (Request.REBOOT, Device.DISK): {
        Situation.SHUTOFF: (START,),
        Situation.ACTIVE: (HARD,),
        Situation.ACTIVE_GUEST_OFF: (HARD,),
        Situation.RESCUE: (UNRESCUE,),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE,),
        Situation.ERROR: (HARD,),
        Situation.PAUSED: (HARD,),
        Situation.SUSPENDED: (HARD,),
    },
    (Request.REBOOT, Device.PXE): {
        Situation.SHUTOFF: (RESCUE,),
        Situation.ACTIVE: (RESCUE,),
        Situation.ACTIVE_GUEST_OFF: (RESCUE,),
        Situation.RESCUE: (UNRESCUE, RESCUE),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE, RESCUE),
        Situation.ERROR: (RESCUE,),
        Situation.PAUSED: (UNPAUSE, RESCUE),
        Situation.SUSPENDED: (HARD, RESCUE),
    },
    (Request.POWER_OFF, Device.DISK): {
        Situation.SHUTOFF: (),
        Situation.ACTIVE: (STOP,),
        Situation.ACTIVE_GUEST_OFF: (STOP,),
        Situation.RESCUE: (UNRESCUE, STOP),
        Situation.RESCUE_GUEST_OFF: (),
        Situation.ERROR: (STOP,),
        Situation.PAUSED: (UNPAUSE, STOP),
        Situation.SUSPENDED: (),
    },
    (Request.REBUILD, Device.DISK): {
        Situation.SHUTOFF: (REBUILD,),
        Situation.ACTIVE: (REBUILD, STOP),
        Situation.ACTIVE_GUEST_OFF: (REBUILD, STOP),
        Situation.RESCUE: (UNRESCUE, REBUILD, STOP),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE, REBUILD, STOP),
        Situation.ERROR: (REBUILD, STOP),
        Situation.PAUSED: (UNPAUSE, REBUILD, STOP),
        Situation.SUSPENDED: (HARD, REBUILD, STOP),
    },
    (Request.SNAPSHOT, Device.DISK): {
        Situation.SHUTOFF: (SNAPSHOT,),
        Situation.ACTIVE: (STOP, SNAPSHOT),
        Situation.ACTIVE_GUEST_OFF: (STOP, SNAPSHOT),
        Situation.RESCUE: (UNRESCUE, STOP, SNAPSHOT),
        Situation.RESCUE_GUEST_OFF: (UNRESCUE, STOP, SNAPSHOT),
        Situation.ERROR: (STOP, SNAPSHOT),
        Situation.PAUSED: (UNPAUSE, STOP, SNAPSHOT),
        Situation.SUSPENDED: (HARD, STOP, SNAPSHOT),
    },
}
# What is off needs no device, and Nova's clean shutdown is the soft one.
for request in (Request.POWER_OFF, Request.REBUILD, Request.SNAPSHOT):
    EXPECTED[request, Device.PXE] = EXPECTED[request, Device.DISK]
# Virtual media are a rescue, too, from another image.
for request in (Request.POWER_ON, Request.REBOOT, Request.POWER_OFF,
                Request.REBUILD, Request.SNAPSHOT):
    EXPECTED[request, Device.CDROM] = EXPECTED[request, Device.PXE]
for device in Device:
    EXPECTED[Request.SOFT_POWER_OFF, device] = EXPECTED[
        Request.POWER_OFF, device]
EXPECTED[Request.SOFT_REBOOT, Device.DISK] = (
    EXPECTED[Request.REBOOT, Device.DISK] | {Situation.ACTIVE: (SOFT,)})
for device in (Device.PXE, Device.CDROM):
    EXPECTED[Request.SOFT_REBOOT, device] = EXPECTED[Request.REBOOT, device]

SERVED = tuple(EXPECTED[Request.REBOOT, Device.DISK])


def after(state, actions):
    """Play actions in the model of Nova; None where it refuses one."""
    for action in actions:
        known = nova_model.ACTIONS[action.value]
        if state.vm_state not in known.permitted_in:
            return None
        state = ServerState(*known.end(state.vm_state))
    return state


def fulfils(request, device, before, actions):
    """Whether the actions do in the model of Nova what is asked."""
    end = after(before, actions)
    if end is None:
        return False
    if request is Request.REBUILD:
        return REBUILD in actions and end.vm_state == 'stopped'
    if request is Request.SNAPSHOT:
        # A disk that nothing writes to any more.
        return actions[-1:] == (SNAPSHOT,) and (
            after(before, actions[:-1]).vm_state == 'stopped')
    if not request.ends_on:
        # ACTIVE with the guest off is reported as off, but Nova is about to
        # stop it by itself.
        return end.vm_state == 'suspended' or (
            end.power_state == SHUTDOWN
            and end.vm_state in ('stopped', 'rescued'))
    if request is Request.POWER_ON and transitions.is_on(before):
        # What is on is not booted, only made to run.
        return end.vm_state in ('active', 'rescued') and (
            end.power_state == RUNNING)
    return bool(actions) and actions[-1].boots and transitions.is_on(end) and (
        transitions.device_in_use(end).by_rescue is device.by_rescue)


class SituationTestCase(unittest.TestCase):

    def test_every_situation_is_recognised_from_what_nova_reports(self):
        for situation, state in STATES.items():
            with self.subTest(situation=situation):
                self.assertIs(situation, transitions.situation(state))
        self.assertEqual(set(Situation), set(STATES))

    def test_crashed_guest_counts_as_switched_off(self):
        crashed = transitions.PowerState.CRASHED
        self.assertIs(Situation.ACTIVE_GUEST_OFF, transitions.situation(
            ServerState('active', crashed)))
        self.assertIs(Situation.RESCUE_GUEST_OFF, transitions.situation(
            ServerState('rescued', crashed)))

    def test_every_vm_state_of_nova_is_known(self):
        for vm_state in nova_model.STATUS:
            self.assertIsNot(Situation.UNKNOWN, transitions.situation(
                ServerState(vm_state)), vm_state)

    def test_shelved_and_shelved_offloaded_are_one_situation(self):
        for vm_state in ('shelved', 'shelved_offloaded'):
            self.assertIs(Situation.SHELVED, transitions.situation(
                ServerState(vm_state, SHUTDOWN)))


class PlanTestCase(unittest.TestCase):

    def test_plans_are_those_of_the_documented_table(self):
        for (request, device), rows in EXPECTED.items():
            for situation, actions in rows.items():
                with self.subTest(request=request, device=device,
                                  situation=situation):
                    self.assertEqual(actions, transitions.plan(
                        STATES[situation], request, device))

    def test_every_situation_has_a_row_or_a_refusal_and_not_both(self):
        self.assertEqual(set(Situation),
                         set(transitions.TABLE) | set(transitions.REFUSALS))
        self.assertFalse(set(transitions.TABLE) & set(transitions.REFUSALS))

    def test_expectations_cover_every_request_device_and_row(self):
        self.assertEqual(set(itertools.product(REQUESTS, Device)),
                         set(EXPECTED))
        for rows in EXPECTED.values():
            self.assertEqual(set(transitions.TABLE), set(rows))

    def test_nova_permits_every_plan_and_it_ends_as_asked(self):
        for request, device, situation in itertools.product(
                REQUESTS, Device, SERVED):
            with self.subTest(request=request, device=device,
                              situation=situation):
                before = STATES[situation]
                self.assertTrue(fulfils(
                    request, device, before,
                    transitions.plan(before, request, device)))

    def test_network_first_server_boots_by_itself_for_either_device(self):
        for request, device, situation in itertools.product(
                REQUESTS, (Device.DISK, Device.PXE), SERVED):
            with self.subTest(request=request, device=device,
                              situation=situation):
                before = STATES[situation]
                actions = transitions.plan(before, request, device,
                                           network_first=True)
                self.assertNotIn(RESCUE, actions)
                self.assertEqual(transitions.plan(
                    before, request, Device.DISK), actions)

    def test_server_that_may_be_network_first_is_not_rescued(self):
        for request, device, situation in itertools.product(
                REQUESTS, Device, SERVED):
            with self.subTest(request=request, device=device,
                              situation=situation):
                before = STATES[situation]
                planned = transitions.plan(before, request, device)
                if RESCUE in planned:
                    self.assertRaisesRegex(
                        transitions.Refused, 'is not known', transitions.plan,
                        before, request, device, network_first=None)
                else:
                    self.assertEqual(planned, transitions.plan(
                        before, request, device, network_first=None))

    def test_network_first_server_is_not_booted_from_virtual_media(self):
        for request in REQUESTS:
            if not request.ends_on:
                continue
            with self.assertRaisesRegex(transitions.Refused, 'network-first'):
                transitions.plan(STATES[Situation.ACTIVE], request,
                                 Device.CDROM, network_first=True)

    def test_no_plan_is_longer_than_nova_demands(self):
        for request, device, situation in itertools.product(
                REQUESTS, Device, SERVED):
            before = STATES[situation]
            planned = transitions.plan(before, request, device)
            for length in range(len(planned)):
                for shorter in itertools.product(Action, repeat=length):
                    with self.subTest(request=request, device=device,
                                      situation=situation, by=shorter):
                        self.assertFalse(
                            fulfils(request, device, before, shorter))

    def test_every_refusal_is_raised_for_every_request(self):
        for situation, sentence in transitions.REFUSALS.items():
            for request, device in itertools.product(REQUESTS, Device):
                with self.subTest(situation=situation, request=request):
                    with self.assertRaises(transitions.Refused) as caught:
                        transitions.plan(STATES[situation], request, device)
                    self.assertEqual(sentence, str(caught.exception))

    def test_end_of_the_rescue_leaves_the_machine_off(self):
        for situation in SERVED:
            before = STATES[situation]
            actions = transitions.plan(before, Request.END_RESCUE,
                                       Device.PXE)
            if before.vm_state == 'rescued':
                self.assertEqual('stopped', after(before, actions).vm_state)
            else:
                self.assertEqual((), actions)

    def test_server_that_must_stay_on_is_never_stopped(self):
        for request, device, situation in itertools.product(
                Request, Device, SERVED):
            before = STATES[situation]
            usual = transitions.plan(before, request, device)
            with self.subTest(request=request, device=device,
                              situation=situation):
                if request in (Request.REBUILD, Request.END_RESCUE):
                    actions = transitions.plan(before, request, device,
                                               stays_on=True)
                    self.assertNotIn(STOP, actions)
                    self.assertTrue(transitions.is_on(after(before, actions))
                                    or not actions)
                elif STOP in usual:
                    self.assertRaisesRegex(
                        transitions.Refused, 'disable_power_off',
                        transitions.plan, before, request, device,
                        stays_on=True)
                else:
                    self.assertEqual(usual, transitions.plan(
                        before, request, device, stays_on=True))

    def test_refusal_is_none_where_requests_are_served(self):
        for situation in SERVED:
            self.assertIsNone(transitions.refusal(STATES[situation]))


class ReachedTestCase(unittest.TestCase):

    def each_end(self):
        """Yield each action, where it begins and ends, and its task."""
        for action in Action:
            known = nova_model.ACTIONS[action.value]
            for begun_in in known.permitted_in:
                yield (action, begun_in, *known.end(begun_in),
                       known.task_state)

    def test_action_has_led_where_nova_leads_it(self):
        for action, begun_in, vm_state, power_state, _ in self.each_end():
            self.assertTrue(transitions.reached(
                action, ServerState(vm_state, power_state), begun_in), action)

    def test_not_reached_while_a_task_is_in_progress(self):
        for action, begun_in, vm_state, power_state, task in self.each_end():
            self.assertFalse(transitions.reached(
                action, ServerState(vm_state, power_state, task), begun_in),
                action)

    def test_not_reached_in_another_vm_state(self):
        for action, begun_in, _, power_state, _ in self.each_end():
            self.assertFalse(transitions.reached(
                action, ServerState('error', power_state), begun_in), action)

    def test_not_reached_with_the_guest_the_other_way(self):
        for action, begun_in, vm_state, power_state, _ in self.each_end():
            other = SHUTDOWN if power_state == RUNNING else RUNNING
            self.assertFalse(transitions.reached(
                action, ServerState(vm_state, other), begun_in), action)

    def test_rebuild_of_a_stopped_server_is_not_over_while_it_runs(self):
        self.assertFalse(transitions.reached(
            REBUILD, ServerState('active', RUNNING), 'stopped'))


class IsOnTestCase(unittest.TestCase):

    def test_settled_servers(self):
        expected = {
            Situation.SHUTOFF: False,
            Situation.ACTIVE: True,
            Situation.ACTIVE_GUEST_OFF: False,
            Situation.RESCUE: True,
            Situation.RESCUE_GUEST_OFF: False,
            Situation.ERROR: None,
            Situation.PAUSED: True,
            Situation.SUSPENDED: False,
            Situation.BUILD: None,
            Situation.SHELVED: False,
            Situation.VERIFY_RESIZE: True,
            Situation.SOFT_DELETED: None,
            Situation.DELETED: None,
            Situation.UNKNOWN: None,
        }
        self.assertEqual(expected, {
            situation: transitions.is_on(state)
            for situation, state in STATES.items()})

    def test_resized_server_that_is_shut_down_is_off(self):
        self.assertIs(False, transitions.is_on(
            ServerState('resized', SHUTDOWN)))

    def test_task_in_progress_counts_as_where_it_leads(self):
        for action in Action:
            known = nova_model.ACTIONS[action.value]
            for vm_state in known.permitted_in:
                if action in (REBUILD, SNAPSHOT):
                    # They lead back to where they began.
                    continue
                for power_state in (RUNNING, SHUTDOWN):
                    with self.subTest(action=action, vm_state=vm_state):
                        self.assertIs(
                            known.power_state == RUNNING,
                            transitions.is_on(ServerState(
                                vm_state, power_state, known.task_state)))

    def test_task_that_does_not_touch_power_leaves_it_as_it_is(self):
        for vm_state, power_state, on in (('active', RUNNING, True),
                                          ('stopped', SHUTDOWN, False)):
            self.assertIs(on, transitions.is_on(ServerState(
                vm_state, power_state, 'image_snapshot')))

    def test_task_that_switches_the_guest_off_for_a_while_changes_nothing(
            self):
        for task in ('resize_migrating', 'rebuilding', 'rebuild_spawning'):
            for vm_state, on in (('active', True), ('stopped', False),
                                 ('rescued', True)):
                self.assertIs(on, transitions.is_on(ServerState(
                    vm_state, SHUTDOWN, task)))


class DeviceInUseTestCase(unittest.TestCase):

    def test_rescued_server_boots_from_the_network(self):
        for power_state in (RUNNING, SHUTDOWN):
            self.assertIs(Device.PXE, transitions.device_in_use(
                ServerState('rescued', power_state)))

    def test_any_other_server_boots_its_disk(self):
        for situation, state in STATES.items():
            if state.vm_state != 'rescued':
                self.assertIs(Device.DISK, transitions.device_in_use(state),
                              situation)

    def test_rescue_and_unrescue_under_way_count_as_done(self):
        self.assertIs(Device.PXE, transitions.device_in_use(
            ServerState('active', RUNNING, 'rescuing')))
        self.assertIs(Device.DISK, transitions.device_in_use(
            ServerState('rescued', RUNNING, 'unrescuing')))
