# SPDX-License-Identifier: Apache-2.0
"""Many readers, few requests."""

from concurrent import futures
import contextlib
import datetime
import itertools
import threading
import unittest
from unittest import mock
import uuid

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import time_limit

BEGINNING = 1_700_000_000.0


class Compute:
    """Nova's reads of servers; ``hold`` keeps a list from being answered."""

    PAGE = 1000

    def __init__(self, now):
        self._now = now
        self.bodies = {}
        self.asked = []
        self.hold = threading.Event()
        self.hold.set()
        self.holds_single_reads = False
        self.listing = threading.Event()
        self.failure = None
        self.page = None
        # Its clock is this machine's.
        self.clock_ahead = 0.0

    def add(self, number, **values):
        ids = [str(uuid.uuid4()) for _ in range(number)]
        for server_id in ids:
            self.bodies[server_id] = {
                'id': server_id, 'name': 'machine', 'status': 'ACTIVE',
                'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:power_state': 1,
                'OS-EXT-STS:task_state': None, **values}
            self.change(server_id)
        return ids

    def change(self, server_id, **values):
        moment = datetime.datetime.fromtimestamp(
            BEGINNING + self._now(), datetime.timezone.utc)
        self.bodies[server_id].update(
            updated=f'{moment:%Y-%m-%dT%H:%M:%SZ}', **values)

    def stop(self, server_id):
        self.change(server_id, **{'OS-EXT-STS:vm_state': 'stopped'})

    def get(self, path, key=None, kind=dict, name=None, **query):
        if path == '/servers/detail' and name is None:
            self.asked.append(
                'changes' if 'changes-since' in query else 'list')
            return self._page(**query)
        self.asked.append(path)
        if name is not None:
            return list(self.bodies.values())
        if self.holds_single_reads:
            self.hold.wait(60)
            if self.failure:
                raise self.failure
        server_id = path.rpartition('/')[2]
        body = self.bodies.get(server_id)
        if not body or body['OS-EXT-STS:vm_state'] == 'deleted':
            raise errors.NotFound(server_id)
        return dict(body)

    def _page(self, marker=None, limit=PAGE, **query):
        since = query.get('changes-since')
        ids = [server_id for server_id, body in self.bodies.items()
               if (body['updated'] >= since if since else
                   body['OS-EXT-STS:vm_state'] != 'deleted')]
        begin = ids.index(marker) + 1 if marker else 0
        ids = ids[begin:begin + min(limit, self.PAGE)]
        page = [dict(self.bodies[server_id]) for server_id in ids]
        self.listing.set()
        self.hold.wait(60)
        if self.failure:
            raise self.failure
        if self.page is not None:
            return self.page
        # As Nova does, which looks at the page alone.
        more = len(page) == min(limit, self.PAGE)
        return {'servers': page, 'servers_links': [
            {'rel': 'next', 'href': ''}] if more else []}


class ServerCacheTestCase(unittest.TestCase):

    def setUp(self):
        self.now = 1000.0
        self.compute = Compute(lambda: self.now)
        self.cache = server_cache.ServerCache(self.compute, mock.Mock(
            complete=lambda server: server))
        ticks = itertools.count()
        time = mock.Mock(
            monotonic=lambda: self.now + next(ticks) / 1e6,
            time=lambda: BEGINNING + self.now, sleep=self.sleep)
        for module in ('server_cache', 'servers', 'cache', 'shared_call'):
            self.enterContext(mock.patch(
                f'quintupleo_power.host_cloud.{module}.time', time))

    def sleep(self, seconds):
        self.now += seconds

    def cached(self, reference, max_age=30.0):
        """Return a server as power sync may see it."""
        return self.cache.get_cached(reference, max_age)

    def sync(self, ids, max_age=30.0):
        """Return what power sync asks for, and the requests that it took."""
        self.compute.asked.clear()
        found = [self.cached(each, max_age) for each in ids]
        self.assertEqual(ids, [server.id for server in found])
        return self.compute.asked

    def wait_until(self, condition):
        while not condition():
            threading.Event().wait(0.001)


class PowerSyncTestCase(ServerCacheTestCase):

    def test_first_pass_takes_one_list(self):
        ids = self.compute.add(900)
        self.assertEqual([f'/servers/{ids[0]}', 'list'], self.sync(ids))

    def test_pages_are_followed_to_the_end(self):
        ids = self.compute.add(2500)
        self.assertEqual(3, self.sync(ids).count('list'))

    def test_malformed_server_is_the_fault_of_its_own_node(self):
        ids = self.compute.add(9)
        self.compute.bodies[ids[4]]['name'] = 7
        others = ids[:4] + ids[5:]
        self.assertEqual([f'/servers/{ids[0]}', 'list'], self.sync(others))
        self.assertRaisesRegex(errors.ServerError, 'name is of type int',
                               self.cached, ids[4])

    def test_pass_without_a_change_takes_one_small_request(self):
        ids = self.compute.add(900)
        self.sync(ids)
        for _ in range(5):
            self.now += 70
            self.assertEqual(['changes'], self.sync(ids))

    def test_change_is_seen_in_the_next_pass(self):
        ids = self.compute.add(9)
        self.sync(ids)
        for number, server_id in enumerate(ids[:8], 1):
            self.now += 65
            self.compute.stop(server_id)
            self.now += 5
            self.assertEqual(['changes'], self.sync(ids))
            self.assertEqual(number, sum(
                self.cached(each, 30).state.vm_state == 'stopped'
                for each in ids))

    def test_clocks_apart_hide_no_change(self):
        ids = self.compute.add(9)
        skew = server_cache.CLOCK_SKEW - 5
        for ahead, behind in ((0.0, skew), (None, skew), (3600.0, skew),
                              (-7200.0, skew)):
            self.compute.clock_ahead = ahead
            self.sync(ids)
            self.now += 70
            with mock.patch.object(self.compute, '_now', lambda: (
                    self.now + (ahead or 0.0) - behind)):  # noqa: B023
                self.compute.stop(ids[3])
            self.now += 1
            self.sync(ids)
            self.assertEqual('stopped', self.cached(
                ids[3], 30).state.vm_state)
            self.compute.change(ids[3], **{'OS-EXT-STS:vm_state': 'active'})
            self.now += 1000

    def test_whole_list_comes_again_some_time(self):
        ids = self.compute.add(9)
        self.sync(ids)
        asked = []
        for _ in range(12):
            self.now += 60
            asked += self.sync(ids)
        self.assertEqual({'list', 'changes'}, set(asked))
        self.assertEqual(1, asked.count('list'))

    def test_one_server_is_read_by_itself(self):
        ids = self.compute.add(5)
        self.assertEqual([f'/servers/{ids[0]}'], self.sync(ids[:1]))

    def test_project_that_is_too_large_is_read_one_by_one(self):
        ids = self.compute.add(5000)
        with mock.patch.object(server_cache, 'LONGEST_LIST', 1500):
            asked = self.sync([ids[0], ids[1], ids[-1]])
            self.assertEqual(2, asked.count('list'))
            self.assertEqual(f'/servers/{ids[-1]}', asked[-1])
            self.now += 60
            self.assertEqual([f'/servers/{each}' for each in ids[:10]],
                             self.sync(ids[:10]))

    def test_size_of_the_project_is_asked_again_some_time(self):
        ids = self.compute.add(3000)
        with mock.patch.object(server_cache, 'LONGEST_LIST', 1500):
            self.sync(ids[:10])
            for each in ids[100:]:
                del self.compute.bodies[each]
            asked = []
            for _ in range(65):
                self.now += 60
                asked += self.sync(ids[:10])
        self.assertEqual(1, asked.count('list'))
        self.assertEqual(['changes'], asked[-1:])

    def test_server_that_nobody_asks_for_any_more_counts_no_more(self):
        ids = self.compute.add(5)
        self.sync(ids)
        self.now += server_cache.WHOLE_LIST_AGE
        self.assertEqual([f'/servers/{ids[0]}'], self.sync(ids[:1]))

    def test_few_nodes_in_a_project_of_many_servers_are_read_by_themselves(
            self):
        ids = self.compute.add(5000)
        self.sync(ids[:3])
        for _ in range(20):
            self.now += 60
            self.assertEqual([f'/servers/{each}' for each in ids[:3]],
                             self.sync(ids[:3]))
        # So many that a list is quicker.
        self.now += 60
        asked = self.sync(ids[:300])
        self.assertEqual(6, asked.count('list'))
        self.assertLess(len(asked), 210)
        self.now += 60
        self.assertEqual(['changes'], self.sync(ids[:300]))

    def test_deleted_server_is_not_found(self):
        ids = self.compute.add(10)
        self.sync(ids)
        self.now += 60
        self.compute.change(ids[4], **{'OS-EXT-STS:vm_state': 'deleted'})
        self.now += 10
        with self.assertRaises(errors.NotFound):
            self.sync(ids)
        self.assertEqual(['changes', f'/servers/{ids[4]}'],
                         self.compute.asked)

    def test_names_are_served_from_the_list_too(self):
        ids = self.compute.add(9, name='other')
        for each in ids[1:]:
            self.compute.bodies[each]['name'] = 'machine'
        self.cached('other', 30.0)
        self.sync(ids)
        self.now += 60
        self.assertEqual(['changes'], self.sync(ids))
        self.assertEqual(ids[0], self.cached('other', 30.0).id)
        self.assertEqual(['changes'], self.compute.asked)

    def test_renamed_server_is_no_longer_found_by_its_name(self):
        ids = self.compute.add(2)
        self.compute.bodies[ids[1]]['name'] = 'other'
        for _ in range(2):
            self.cached('other', 30.0)
            self.cached(ids[0], 30.0)
        self.now += 60
        self.compute.change(ids[1], name='new')
        with self.assertRaises(errors.NotFound):
            self.cached('other', 30.0)

    def test_list_of_a_wrong_form_is_an_error(self):
        ids = self.compute.add(3)
        self.compute.page = {'servers': 'none'}
        with self.assertRaises(errors.ServerError):
            self.sync(ids)

    def test_age_zero_always_reads(self):
        ids = self.compute.add(9)
        self.sync(ids)
        self.assertEqual([f'/servers/{each}' for each in ids],
                         self.sync(ids, 0))

    def test_readers_share_one_list(self):
        ids = self.compute.add(50)
        self.sync(ids[:2])
        self.now += 700
        self.compute.asked.clear()
        self.compute.listing.clear()
        self.compute.hold.clear()
        with futures.ThreadPoolExecutor(50) as pool:
            readers = [pool.submit(self.cached, each, 30.0)
                       for each in ids]
            self.assertTrue(self.compute.listing.wait(60))
            self.compute.hold.set()
            self.assertEqual(ids, [each.result(60).id for each in readers])
        self.assertEqual(1, self.compute.asked.count('list'))

    def test_failure_is_an_error_for_each_and_not_for_the_next(self):
        ids = self.compute.add(9)
        self.sync(ids)
        self.now += 60
        self.compute.failure = errors.ServerError('Out of rabbits')
        for each in ids:
            self.assertRaises(errors.ServerError,
                              self.cached, each, 30.0)
        self.compute.failure = None
        self.assertEqual(['changes'], self.sync(ids))

    def test_memory_is_bounded(self):
        for _ in range(30):
            ids = self.compute.add(50)
            self.sync(ids)
            for each in ids:
                self.cache.invalidate(each)
                self.compute.change(
                    each, **{'OS-EXT-STS:vm_state': 'deleted'})
            self.now += 400
        self.assertLessEqual(len(self.cache._servers._values), 100)
        self.assertLessEqual(len(self.cache._ids._values), 100)


class ActionTestCase(ServerCacheTestCase):

    def setUp(self):
        super().setUp()
        self.ids = self.compute.add(9)
        self.sync(self.ids)
        self.now += 1

    def test_only_its_server_is_read_again(self):
        self.cache.invalidate(self.ids[3])
        self.compute.stop(self.ids[3])
        self.now += 1
        self.assertEqual([f'/servers/{self.ids[3]}'], self.sync(self.ids))
        self.assertEqual([], self.sync(self.ids))

    def test_list_from_before_it_shows_nothing_of_its_server(self):
        self.now += 60
        self.compute.listing.clear()
        self.compute.hold.clear()
        with futures.ThreadPoolExecutor() as pool:
            reader = pool.submit(self.cached, self.ids[2], 30.0)
            self.assertTrue(self.compute.listing.wait(60))
            self.now += 1
            self.cache.invalidate(self.ids[5])
            self.compute.stop(self.ids[5])
            self.compute.hold.set()
            reader.result(60)
        self.assertEqual('stopped', self.cached(
            self.ids[5], 30.0).state.vm_state)

    def test_a_reading_from_before_replaces_none_from_after(self):
        before = self.cache.get(self.ids[0])
        self.compute.stop(self.ids[0])
        self.now += 70
        self.sync(self.ids)
        self.cache._keep(before)
        self.assertEqual('stopped', self.cached(
            self.ids[0], 30.0).state.vm_state)


class ManyReadersTestCase(ServerCacheTestCase):
    """Many who each want a reading of one server that begins now."""

    def setUp(self):
        super().setUp()
        self.joined = self.enterContext(mock.patch.object(
            time_limit, 'wait', autospec=True, side_effect=time_limit.wait))

    def all_at_once(self, ids):
        self.compute.holds_single_reads = True
        self.compute.hold.clear()
        pool = futures.ThreadPoolExecutor(len(ids))
        self.addCleanup(pool.shutdown)
        before = self.waiting()
        readers = [pool.submit(self.cache.get, each) for each in ids]
        self.wait_until(lambda: self.waiting() == before + len(ids))
        return readers

    def waiting(self):
        """Return how many have joined a list or read by themselves."""
        return self.joined.call_count + sum(
            path.startswith('/servers/') for path in self.compute.asked)

    def test_they_share_lists(self):
        ids = self.compute.add(50)
        self.sync(ids)
        readers = self.all_at_once(ids)
        self.compute.hold.set()
        self.assertEqual(ids, [each.result(60).id for each in readers])
        self.assertLess(len(self.compute.asked), 20)
        self.assertLessEqual(self.compute.asked.count('list'), 3)

    def test_list_that_has_begun_serves_nobody_who_comes_later(self):
        ids = self.compute.add(50)
        self.sync(ids)
        self.compute.listing.clear()
        readers = self.all_at_once(ids[:10])
        self.assertTrue(self.compute.listing.wait(60))
        self.compute.stop(ids[20])
        late = self.all_at_once(ids[20:21])
        self.compute.hold.set()
        self.assertEqual('stopped', late[0].result(60).state.vm_state)
        for each in readers:
            each.result(60)

    def test_no_list_of_a_project_that_holds_far_more(self):
        ids = self.compute.add(5000)
        self.sync(ids[-20:])
        self.compute.asked.clear()
        readers = self.all_at_once(ids[-20:])
        self.compute.hold.set()
        for each in readers:
            each.result(60)
        self.assertEqual({f'/servers/{each}' for each in ids[-20:]},
                         set(self.compute.asked))

    def test_no_list_of_a_project_of_unknown_size(self):
        ids = self.compute.add(5)
        readers = self.all_at_once(ids)
        self.compute.hold.set()
        for each in readers:
            each.result(60)
        self.assertNotIn('list', self.compute.asked)

    def test_failure_is_an_error_for_each(self):
        ids = self.compute.add(50)
        self.sync(ids)
        readers = self.all_at_once(ids)
        self.compute.failure = errors.ServerError('Out of rabbits')
        self.compute.hold.set()
        failed = [each for each in readers if each.exception(60)]
        self.assertGreater(len(failed), 30)


class PollTestCase(ServerCacheTestCase):

    def poll(self, ids):
        """Let as many threads poll at once, each its server."""
        together = threading.Barrier(len(ids))

        def one(server_id):
            with self.cache.waiting():
                together.wait(60)
                try:
                    return self.cache.poll(server_id)
                finally:
                    together.wait(60)

        self.compute.asked.clear()
        with futures.ThreadPoolExecutor(len(ids)) as pool:
            found = [each.result(60) for each in
                     [pool.submit(one, server_id) for server_id in ids]]
        self.assertEqual(ids, [server.id for server in found])
        return found

    def test_few_poll_each_its_own(self):
        ids = self.compute.add(2)
        self.poll(ids)
        self.assertEqual({f'/servers/{each}' for each in ids},
                         set(self.compute.asked))

    def test_many_share_a_list_of_changes(self):
        ids = self.compute.add(40)
        self.poll(ids)
        self.assertLess(len(self.compute.asked), 20)
        self.assertEqual({'changes'}, set(self.compute.asked))

    def test_list_holds_what_has_changed_since_they_wait(self):
        self.compute.add(2000)
        self.now += 600
        ids = self.compute.add(4)
        answers = []
        page = self.compute._page
        self.compute._page = lambda **query: answers.append(
            page(**query)) or answers[-1]
        self.poll(ids)
        self.assertEqual({4}, {len(each['servers']) for each in answers})

    def test_server_without_a_change_is_read_by_itself(self):
        unchanged = self.compute.add(1)
        self.now += 600
        ids = self.compute.add(4)
        self.poll(ids + unchanged)
        self.assertIn(f'/servers/{unchanged[0]}', self.compute.asked)

    def test_deleted_server_is_not_found(self):
        ids = self.compute.add(4)
        self.compute.change(ids[0], **{'OS-EXT-STS:vm_state': 'deleted'})
        with self.assertRaises(errors.NotFound):
            self.poll(ids)

    def test_list_that_has_begun_serves_nobody_who_comes_later(self):
        ids = self.compute.add(3)
        self.compute.hold.clear()
        with futures.ThreadPoolExecutor(2) as pool, (
                contextlib.ExitStack()) as waits:
            # More than two wait.
            self.cache._waiting += [self.now] * 2
            waits.enter_context(self.cache.waiting())
            early = pool.submit(self.cache.poll, ids[0])
            self.assertTrue(self.compute.listing.wait(60))
            self.compute.stop(ids[0])
            self.compute.stop(ids[1])
            late = pool.submit(self.cache.poll, ids[1])
            self.wait_until(lambda: self.cache._poll._next)
            self.compute.hold.set()
            early.result(60)
            self.assertEqual('stopped', late.result(60).state.vm_state)
        self.assertEqual(['changes'] * 2, self.compute.asked)

    def test_host_cloud_has_a_pause_between_two_lists(self):
        ids = self.compute.add(5)
        begun = self.now
        self.cache._waiting += [begun] * 3
        for _ in range(10):
            self.cache.poll(ids[0])
        self.assertAlmostEqual(10 * server_cache.POLL_PAUSE,
                               self.now - begun, 1)
