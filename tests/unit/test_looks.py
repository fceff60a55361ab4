# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


import concurrent.futures
import threading
import unittest
from unittest import mock

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import looks
from tests.unit import test_view


class LooksTestCase(unittest.TestCase):

    def setUp(self):
        self.compute = test_view.Compute()
        self.looks = looks.Looks(self.compute)
        for name in ('SHORTEST', 'LONGEST'):
            patch = mock.patch.object(looks, name, 0.0)
            patch.start()
            self.addCleanup(patch.stop)

    def look(self, ids):
        """Let as many threads look at once, each at its server."""
        together = threading.Barrier(len(ids))

        def one(server_id):
            with self.looks.waiting(server_id):
                together.wait(10)
                try:
                    return self.looks.look(server_id)
                finally:
                    together.wait(10)

        with concurrent.futures.ThreadPoolExecutor(len(ids)) as pool:
            return [pool.submit(one, each) for each in ids]

    def test_few_look_each_at_its_own(self):
        ids = self.compute.add(2)
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])
        self.assertEqual({f'/servers/{each}' for each in ids},
                         set(self.compute.asked))

    def test_many_look_together(self):
        ids = self.compute.add(40)
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])
        # One that came when a list had begun has to wait for the next.
        self.assertGreaterEqual(10, len(self.compute.asked))
        self.assertEqual({'/servers/detail'}, set(self.compute.asked))

    def test_list_that_has_begun_serves_nobody_who_comes_later(self):
        ids = self.compute.add(3)
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            with self.looks.waiting(ids[0]), self.looks.waiting(ids[1]), (
                    self.looks.waiting(ids[2])):
                early = pool.submit(self.looks.look, ids[0])
                self.compute.listing.wait(10)
                late = pool.submit(self.looks.look, ids[1])
                self.compute.bodies[ids[0]]['OS-EXT-STS:vm_state'] = 'stopped'
                self.compute.bodies[ids[1]]['OS-EXT-STS:vm_state'] = 'stopped'
                self.assertFalse(late.done())
                self.compute.hold.set()
                self.assertEqual('active', early.result(10).state.vm_state)
                self.assertEqual('stopped', late.result(10).state.vm_state)
        self.assertEqual(2, self.compute.lists())

    def test_failure_is_an_error_for_all_that_took_part(self):
        ids = self.compute.add(5)
        self.compute.failure = errors.ServerError('out of order')
        for seen in self.look(ids):
            self.assertRaisesRegex(errors.ServerError, 'out of order',
                                   seen.result)
        self.compute.failure = None
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])

    def test_server_that_is_not_in_the_list_is_read_by_itself(self):
        ids = self.compute.add(4)
        hidden = self.compute.hidden = ids[3]
        self.assertEqual(ids, [
            seen.result().id for seen in self.look(ids)])
        self.assertIn(f'/servers/{hidden}', self.compute.asked)

    def test_deleted_server_is_not_there(self):
        ids = self.compute.add(4)
        self.compute.bodies[ids[3]]['OS-EXT-STS:vm_state'] = 'deleted'
        self.compute.gone = ids[3]
        self.assertRaises(errors.NotFound, self.look(ids)[3].result)

    def test_asks_for_what_has_changed_since_before_the_oldest_began(self):
        ids = self.compute.add(3)
        with mock.patch.object(looks.time, 'time', autospec=True,
                               return_value=1_000_300.0):
            self.look(ids)
        self.assertEqual({'1970-01-12T13:46:40Z'}, set(self.compute.since))

    def test_rounds_are_apart(self):
        ids = self.compute.add(3)
        with (mock.patch.object(looks, 'SHORTEST', 3.0),
              mock.patch.object(looks, 'LONGEST', 3.0),
              mock.patch.object(looks.time, 'sleep', autospec=True) as sleep):
            self.look(ids)
            self.look(ids)
        self.assertAlmostEqual(3.0, sleep.call_args_list[-1].args[0], 0)
