# SPDX-License-Identifier: Apache-2.0
"""Many readers, few requests."""

import concurrent.futures
import itertools
import threading
import time
import unittest
from unittest import mock
import uuid

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import view


class Compute:
    """Nova's reads of servers; ``hold`` keeps a list from being answered."""

    PAGE = 1000

    def __init__(self):
        self.bodies = {}
        self.asked = []
        self.hold = threading.Event()
        self.hold.set()
        self.listing = threading.Event()
        self.failure = None
        self.since = []
        self.gone = self.hidden = None
        self.hold_single = False
        self.page = None
        # Its answers do not tell the time.
        self.clock_ahead = None

    def add(self, number, **values):
        ids = []
        for _ in range(number):
            ids.append(str(uuid.uuid4()))
            self.bodies[ids[-1]] = {
                'id': ids[-1], 'name': 'machine', 'status': 'ACTIVE',
                'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:power_state': 1,
                'OS-EXT-STS:task_state': None, **values}
        return ids

    def get(self, path, key=None, kind=dict, name=None, marker=None,
            **filters):
        self.asked.append(path)
        if 'changes-since' in filters:
            self.since.append(filters['changes-since'])
        if path == '/servers/detail' and name is None:
            return self._page(marker, filters.get('changes-since'))
        if name is not None:
            return list(self.bodies.values())
        server_id = path.rpartition('/')[2]
        if server_id not in self.bodies or server_id == self.gone:
            raise errors.NotFound(server_id)
        if self.hold_single:
            self.hold.wait(60)
            if self.failure:
                raise self.failure
        return dict(self.bodies[server_id])

    def _page(self, marker, since=None):
        ids = [each for each, body in self.bodies.items()
               if since is None or body.get('updated', since) >= since]
        begin = ids.index(marker) + 1 if marker else 0
        page = [dict(self.bodies[each])
                for each in ids[begin:begin + self.PAGE]
                if each != self.hidden]
        self.listing.set()
        self.hold.wait(60)
        if self.failure:
            raise self.failure
        if self.page is not None:
            return self.page
        # As Nova does, which looks at the page alone.
        more = len(page) == self.PAGE
        return {'servers': page, 'servers_links': [
            {'rel': 'next', 'href': ''}] if more else []}

    def lists(self):
        return self.asked.count('/servers/detail')


class ViewTestCase(unittest.TestCase):

    def setUp(self):
        self.compute = Compute()
        self.view = view.View(self.compute)
        self.now = 1000.0
        ticks = itertools.count()
        patch = mock.patch.object(
            view.time, 'monotonic', lambda: self.now + next(ticks) / 1e6)
        patch.start()
        self.addCleanup(patch.stop)

    def read(self, ids, max_age=10.0):
        return [self.view.watch(each, max_age) for each in ids]


class SharingTestCase(ViewTestCase):

    def test_one_thread_reads_all_lists(self):
        ids = self.compute.add(10)
        readers = set()
        page = self.compute._page

        def note(*args):
            readers.add(threading.get_ident())
            return page(*args)

        self.compute._page = note
        for _ in range(5):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(self.view.watch, ids, [10.0] * 10))
            self.now += 60
        self.assertEqual(5, self.compute.lists())
        self.assertEqual(1, len(readers))

    def test_without_another_thread_the_reader_lists(self):
        ids = self.compute.add(10)
        with mock.patch.object(
                threading.Thread, 'start', autospec=True,
                side_effect=RuntimeError("can't start new thread")):
            self.assertEqual(ids, [each.id for each in self.read(ids)])
        self.assertEqual(1, self.compute.lists())
        self.now += 60
        self.assertEqual(ids, [each.id for each in self.read(ids)])
        self.assertEqual(2, self.compute.lists())

    def test_a_thousand_servers_take_three_requests(self):
        ids = self.compute.add(1000)
        self.assertEqual(ids, [server.id for server in self.read(ids)])
        self.assertEqual(3, len(self.compute.asked))

    def test_the_next_pass_takes_one_list(self):
        ids = self.compute.add(1000)
        self.read(ids)
        self.compute.asked.clear()
        self.now += 60
        self.read(ids)
        # Nova ends a list of so many with an empty page.
        self.assertEqual(['/servers/detail'] * 2, self.compute.asked)

    def test_pages_are_followed_to_the_end(self):
        ids = self.compute.add(2500)
        self.read(ids)
        self.now += 60
        self.compute.asked.clear()
        self.read(ids)
        self.assertEqual(3, self.compute.lists())
        self.assertEqual(3, len(self.compute.asked))

    def test_few_servers_are_read_one_by_one(self):
        ids = self.compute.add(5)
        self.read(ids[:1] * 2)
        self.assertEqual(0, self.compute.lists())

    def test_few_watched_among_very_many_are_read_one_by_one(self):
        ids = self.compute.add(3000)
        self.read(ids[:10])
        self.assertEqual(4, self.compute.lists())
        self.now += 60
        self.compute.asked.clear()
        self.read(ids[:10])
        self.assertEqual(0, self.compute.lists())
        self.assertEqual(10, len(self.compute.asked))

    def test_size_of_the_project_is_looked_at_again_some_time(self):
        ids = self.compute.add(3000)
        self.read(ids[:10])
        for each in ids[100:]:
            del self.compute.bodies[each]
        for _ in range(65):
            self.now += 60
            self.read(ids[:10])
        self.compute.asked.clear()
        self.now += 60
        self.read(ids[:10])
        self.assertEqual(['/servers/detail'], self.compute.asked)

    def test_server_that_nobody_asks_for_any_more_is_not_watched(self):
        ids = self.compute.add(5)
        self.read(ids)
        self.now += view.WATCHED + 1
        self.compute.asked.clear()
        self.read(ids[:1])
        self.assertEqual(0, self.compute.lists())

    def test_deleted_server_is_looked_for_by_itself(self):
        ids = self.compute.add(10)
        self.read(ids)
        del self.compute.bodies[ids[4]]
        self.now += 60
        with self.assertRaises(errors.NotFound):
            self.read(ids)

    def test_names_are_served_from_the_list_too(self):
        ids = self.compute.add(9)
        self.compute.bodies[ids[0]]['name'] = 'other'
        self.read(ids)
        self.now += 60
        self.read(ids)
        self.assertEqual(ids[0], self.view.watch('other', 10.0).id)
        self.now += 60
        self.compute.asked.clear()
        self.read(ids)
        self.assertEqual(ids[0], self.view.watch('other', 10.0).id)
        self.assertEqual(['/servers/detail'], self.compute.asked)

    def test_name_is_found_in_a_list_before_it_was_ever_read(self):
        ids = self.compute.add(9)
        self.compute.bodies[ids[0]]['name'] = 'other'
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            readers = [pool.submit(self.view.watch, each, 10.0)
                       for each in (ids[1], ids[2], 'other')]
            while len(self.view._asked) < 3:
                time.sleep(0.01)
            self.compute.hold.set()
            self.assertEqual(ids[0], readers[2].result(60).id)

    def test_only_so_much_of_a_huge_project_is_read_to_find_its_size(self):
        ids = self.compute.add(5000)
        with mock.patch.object(view, 'FIRST_LOOK', 1500):
            self.read([ids[0], ids[1], ids[-1]])
        self.assertEqual(2, self.compute.lists())
        self.assertEqual(f'/servers/{ids[-1]}', self.compute.asked[-1])
        self.assertEqual(4, len(self.compute.asked))

    def test_list_of_a_wrong_form_is_an_error(self):
        ids = self.compute.add(3)
        self.compute.page = {'servers': 'none'}
        with self.assertRaises(errors.ServerError):
            self.read(ids)


class FreshnessTestCase(ViewTestCase):

    def test_age_zero_always_reads(self):
        ids = self.compute.add(9)
        self.read(ids)
        self.compute.asked.clear()
        self.read(ids, 0)
        self.assertEqual([f'/servers/{each}' for each in ids],
                         self.compute.asked)

    def test_reader_of_one_server_lists_none(self):
        ids = self.compute.add(9)
        self.read(ids)
        self.now += 60
        self.compute.asked.clear()
        self.view.server(ids[0], 1.0)
        self.view.server(ids[0], 1.0)
        self.assertEqual([f'/servers/{ids[0]}'], self.compute.asked)

    def test_older_than_permitted_is_read_anew(self):
        ids = self.compute.add(1)
        self.read(ids)
        self.now += 9
        self.read(ids)
        self.assertEqual(1, len(self.compute.asked))
        self.now += 2
        self.read(ids)
        self.assertEqual(2, len(self.compute.asked))

    def test_server_with_an_action_is_read_anew(self):
        ids = self.compute.add(9)
        self.read(ids)
        self.compute.asked.clear()
        self.now += 1
        self.view.acted(ids[3])
        self.now += 1
        self.read([each for each in ids if each != ids[3]])
        self.assertEqual([], self.compute.asked)
        self.read([ids[3]])
        self.assertEqual(1, len(self.compute.asked))

    def test_list_from_before_an_action_tells_nothing_of_its_server(self):
        ids = self.compute.add(9)
        self.read(ids[:2])
        self.compute.hold.clear()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            reader = pool.submit(self.view.watch, ids[2], 10.0)
            self.assertTrue(self.compute.listing.wait(60))
            self.now += 1
            self.view.acted(ids[5])
            self.compute.bodies[ids[5]]['OS-EXT-STS:task_state'] = 'rescuing'
            self.compute.hold.set()
            reader.result()
        self.assertEqual('rescuing', self.view.watch(
            ids[5], 10.0).state.task_state)

    def test_renamed_server_is_no_longer_found_by_its_name(self):
        ids = self.compute.add(1)
        self.view.watch('machine', 10.0)
        self.compute.bodies[ids[0]]['name'] = 'other'
        self.now += 60
        with self.assertRaises(errors.NotFound):
            self.view.watch('machine', 10.0)


class ConcurrencyTestCase(ViewTestCase):

    def setUp(self):
        super().setUp()
        self.ids = self.compute.add(50)
        self.read(self.ids)
        self.now += 60
        self.compute.asked.clear()
        self.compute.listing.clear()
        self.compute.hold.clear()
        self.pool = concurrent.futures.ThreadPoolExecutor(50)
        self.addCleanup(self.pool.shutdown)

    def all_at_once(self):
        return [self.pool.submit(self.view.watch, each, 10.0)
                for each in self.ids]

    def test_readers_share_one_list(self):
        readers = self.all_at_once()
        self.assertTrue(self.compute.listing.wait(60))
        self.compute.hold.set()
        self.assertEqual(self.ids, [each.result().id for each in readers])
        self.assertEqual(['/servers/detail'], self.compute.asked)

    def test_failure_of_the_list_is_an_error_for_every_reader(self):
        readers = self.all_at_once()
        self.assertTrue(self.compute.listing.wait(60))
        self.compute.failure = errors.ServerError('Out of rabbits')
        self.compute.hold.set()
        for each in readers:
            self.assertIsInstance(each.exception(60), errors.ServerError)

    def test_after_a_failure_the_next_reader_tries_again(self):
        self.compute.failure = errors.ServerError('Out of rabbits')
        self.compute.hold.set()
        with self.assertRaises(errors.ServerError):
            self.read(self.ids)
        self.compute.failure = None
        self.read(self.ids)
        self.assertEqual(2, self.compute.lists())


class SlowListTestCase(ViewTestCase):
    """A list that takes longer than what was read may be old."""

    TAKES = 25.0

    def setUp(self):
        super().setUp()
        self.ids = self.compute.add(20)
        page = self.compute._page

        def slowly(*args):
            self.now += self.TAKES
            return page(*args)

        self.compute._page = slowly

    def test_serves_for_twice_as_long_as_it_took(self):
        self.read(self.ids)
        self.assertEqual(1, self.compute.lists())
        self.now += self.TAKES - 1
        self.read(self.ids)
        self.assertEqual(1, self.compute.lists())
        self.now += 2
        self.read(self.ids)
        self.assertEqual(2, self.compute.lists())

    def test_no_list_where_every_reading_is_to_be_new(self):
        self.read(self.ids, 0)
        self.assertEqual(0, self.compute.lists())
        self.assertEqual(20, len(self.compute.asked))

    def test_failed_one_serves_nobody(self):
        self.compute.failure = errors.ServerError('Out of rabbits')
        with self.assertRaises(errors.ServerError):
            self.read(self.ids)
        self.compute.failure = None
        self.read(self.ids)
        self.assertEqual(2, self.compute.lists())


class CrowdTestCase(ViewTestCase):
    """Many who each want a reading of one server that begins now."""

    def setUp(self):
        super().setUp()
        self.ids = self.compute.add(50)
        self.pool = concurrent.futures.ThreadPoolExecutor(50)
        self.addCleanup(self.pool.shutdown)

    def learn_the_size(self):
        self.read(self.ids[:2])
        self.compute.asked.clear()

    def all_at_once(self, ids=None):
        """Start readers, the first ones of which are held up."""
        self.compute.hold.clear()
        readers = [self.pool.submit(self.view.server, each)
                   for each in ids or self.ids]
        while self.view._readers < len(self.ids):
            time.sleep(0.01)
        return readers

    def test_a_list_is_read_for_all(self):
        self.learn_the_size()
        self.compute.hold_single = True
        self.compute.hold.clear()
        early = [self.pool.submit(self.view.server, each)
                 for each in self.ids[:view.CROWD]]
        self.assertTrue(self.compute.listing.wait(60))
        late = self.all_at_once(self.ids[view.CROWD:])
        self.compute.hold.set()
        self.assertEqual(self.ids, [each.result(60).id
                                    for each in early + late])
        # Those that came while the first list was on its way share another.
        self.assertEqual(2, self.compute.lists())
        self.assertEqual(view.CROWD - 1 + 2, len(self.compute.asked))

    def test_the_list_has_begun_after_each_of_them_came(self):
        self.learn_the_size()
        self.compute.hold_single = True
        self.compute.hold.clear()
        early = [self.pool.submit(self.view.server, each)
                 for each in self.ids[:10]]
        self.assertTrue(self.compute.listing.wait(60))
        self.compute.bodies[self.ids[20]]['OS-EXT-STS:vm_state'] = 'stopped'
        late = self.pool.submit(self.view.server, self.ids[20])
        while self.view._readers < 11:
            time.sleep(0.01)
        self.compute.hold.set()
        self.assertEqual('stopped', late.result(60).state.vm_state)
        for each in early:
            each.result(60)

    def test_its_failure_is_an_error_for_each(self):
        self.learn_the_size()
        self.compute.hold_single = True
        readers = self.all_at_once()
        self.compute.failure = errors.ServerError('Out of rabbits')
        self.compute.hold.set()
        for each in readers:
            self.assertIsInstance(each.exception(60), errors.ServerError)
        self.assertLess(len(self.compute.asked), len(self.ids))

    def test_no_list_before_the_size_of_the_project_is_known(self):
        self.compute.hold_single = True
        readers = self.all_at_once()
        self.compute.hold.set()
        for each in readers:
            each.result(60)
        self.assertEqual(0, self.compute.lists())

    def test_no_list_of_a_project_that_holds_far_more(self):
        self.learn_the_size()
        self.view._size = view.BREAK_EVEN * len(self.ids) + 1
        self.compute.hold_single = True
        readers = self.all_at_once()
        self.compute.hold.set()
        for each in readers:
            each.result(60)
        self.assertEqual(0, self.compute.lists())


class RecentTestCase(unittest.TestCase):
    """What is known without a request."""

    def setUp(self):
        super().setUp()
        self.compute = Compute()
        self.id, self.other = self.compute.add(2)
        self.view = view.View(self.compute)
        self.now = 1000.0
        self.enterContext(mock.patch.object(
            view.time, 'monotonic', lambda: self.now))

    def read(self):
        """Read the server as actions do, past the view."""
        return servers.Server.from_body(self.compute.get(
            f'/servers/{self.id}'))

    def test_nothing(self):
        self.assertIsNone(self.view.recent(self.id, 30))
        self.assertEqual([], self.compute.asked)

    def test_a_reading(self):
        found = self.view.server(self.id)
        self.now += 29
        self.assertIs(found, self.view.recent(self.id, 30))
        self.now += 1
        self.assertIsNone(self.view.recent(self.id, 30))
        self.assertEqual(1, len(self.compute.asked))

    def test_how_it_was_left(self):
        self.view.acted(self.id)
        left = self.read()
        self.view.left(left)
        self.assertIs(left, self.view.recent(self.id, 30))
        self.assertIsNone(self.view.recent(self.other, 30))

    def test_how_it_was_left_is_no_reading(self):
        self.view.left(self.read())
        self.compute.asked.clear()
        for read in (self.view.server, self.view.watch):
            read(self.id, 30)
            self.view.acted(self.id)
            self.view.left(self.read())
        self.assertEqual(4, len(self.compute.asked))

    def test_a_reading_is_newer_than_how_it_was_left(self):
        self.view.left(self.read())
        self.now += 1
        found = self.view.server(self.id)
        self.assertIs(found, self.view.recent(self.id, 30))

    def test_nothing_once_it_is_acted_on(self):
        self.view.server(self.id)
        self.view.left(self.read())
        self.view.acted(self.id)
        self.assertIsNone(self.view.recent(self.id, 30))

    def test_old_ones_are_forgotten(self):
        self.view.left(self.read())
        self.now += view.WATCHED + 1
        other = servers.Server.from_body(self.compute.get(
            f'/servers/{self.other}'))
        self.view.left(other)
        self.assertEqual([self.other], list(self.view._left))
