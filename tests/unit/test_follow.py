# SPDX-License-Identifier: Apache-2.0
"""Two actions in a row: the second is sent as soon as the first is over."""

from ironic.common import boot_devices
from ironic.common import states

from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import looks
from quintupleo_power.host_cloud import pace
from quintupleo_power import transitions
from tests.unit import nova_model
from tests.unit import test_power


class FollowTestCase(test_power.PowerTestCase):

    def setUp(self):
        super().setUp()
        self.set_server('rescued', nova_model.RUNNING)
        # Signs in and reads the image.
        self.get_power()
        self.wish(boot_devices.PXE, persistent=True)

    def requests(self):
        """What went to the server, but for the reads before the first."""
        sent = [request.split()[0] for request in self.host_cloud.requests
                if self.server.id in request]
        return sent[sent.index('POST'):]

    def reboot_within_pxe(self, reads):
        self.host_cloud.reads_per_task = reads
        self.host_cloud.forget_requests()
        self.reboot()
        self.assert_sent('unrescue', 'rescue')
        self.assert_server_is('rescued', nova_model.RUNNING)

    def test_nothing_lies_between_the_two(self):
        self.reboot_within_pxe(reads=0)
        # Unrescue, rescue and one look at its end.
        self.assertEqual(['POST', 'POST', 'GET'], self.requests())

    def test_what_is_refused_until_then_is_sent_again(self):
        self.reboot_within_pxe(reads=2)
        self.assertEqual(['POST'] * 4 + ['GET'] * 3, self.requests())

    def test_looks_follow_where_it_takes_long(self):
        self.reboot_within_pxe(reads=actions.Actions.TRIES + 2)
        tries = ['POST'] * actions.Actions.TRIES
        self.assertEqual(['POST', *tries, 'GET', 'GET', 'GET', 'POST'],
                         self.requests()[:len(tries) + 5])

    def test_first_look_after_refusals_is_not_taken_for_the_end(self):
        # It ended soon after the last refusal, for all that is known.
        self.reboot_within_pxe(reads=actions.Actions.TRIES)
        self.assertEqual(['POST'] * (actions.Actions.TRIES + 1) + ['GET'],
                         self.requests()[:actions.Actions.TRIES + 2])
        host = cloud.get(connection.Credentials())
        waits = pace.Pace(2.0).waits('unrescue')
        refused_at = sum(next(waits) for _ in range(actions.Actions.TRIES))
        usual = (next(host._actions._pace.waits(
            'unrescue', pace.Place.FOLLOWED))
            / pace.Place.FOLLOWED.value.before)
        self.assertGreater(usual, refused_at)
        self.assertLess(usual, refused_at * 1.1)

    def test_many_that_wait_look_together_instead(self):
        host = cloud.get(connection.Credentials())
        for number in range(looks.SHARED_FROM):
            self.wait_elsewhere(host, number)
        self.assertTrue(host._actions._looks.are_shared())
        earlier = host.send(host.server(self.server.id),
                            transitions.Action.UNRESCUE, self.deadline())
        self.host_cloud.forget_requests()
        host.follow(earlier, transitions.Action.STOP, self.deadline())
        self.assertEqual(1, sum(request.startswith('POST')
                                for request in self.host_cloud.requests))

    def test_time_among_many_is_not_what_one_alone_takes(self):
        host = cloud.get(connection.Credentials())
        for number in range(looks.SHARED_FROM):
            self.wait_elsewhere(host, number)
        self.host_cloud.reads_per_task = 2
        host.see_end(
            host.send(host.server(self.server.id),
                      transitions.Action.UNRESCUE, self.deadline()),
            self.deadline())
        self.assertEqual(pace.Pace.FIRST, next(
            host._actions._pace.waits('unrescue')))

    def wait_elsewhere(self, host, number):
        waiting = host._actions._looks.waiting(f'other-{number}')
        waiting.__enter__()
        self.addCleanup(waiting.__exit__, None, None, None)

    def deadline(self):
        return self.clock.now + 60

    def test_power_off_out_of_pxe_stops_at_once(self):
        self.host_cloud.reads_per_task = 0
        self.host_cloud.forget_requests()
        self.set_power(states.POWER_OFF)
        self.assert_sent('unrescue', 'stop')
        self.assertEqual(['POST', 'POST', 'GET'], self.requests())

    def test_first_that_failed_is_told_of(self):
        self.host_cloud.fail_action('unrescue', 'No space left on device')
        self.host_cloud.reads_per_task = 0
        error = self.refused(self.reboot)
        self.assert_says(error, self.server.id, 'unrescue',
                         'No space left on device')
        self.assertNotIn('rescue', self.host_cloud.sent)

    def test_lost_answer_to_the_second_is_looked_into(self):
        for carried_out in (True, False):
            self.set_server('rescued', nova_model.RUNNING)
            self.host_cloud.reads_per_task = 0
            self.host_cloud.fail('POST', '/action$', 502, skip=1,
                                 carried_out=carried_out)
            self.host_cloud.forget_requests()
            self.reboot()
            self.assert_sent('unrescue', 'rescue')

    def test_lock_that_comes_in_between_is_told_of(self):
        self.host_cloud.reads_per_task = 0
        self.host_cloud.fail(
            'POST', '/action$', (409, 'Instance is locked'), skip=1, times=9)
        self.server.locked = True
        error = self.refused(self.reboot)
        self.assert_says(error, self.server.id, 'it is locked')
