# SPDX-License-Identifier: Apache-2.0
"""Images of systems in the host cloud, each uploaded once."""

from concurrent import futures
import os
import tempfile
import threading

import requests

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from tests.unit import base

CONTENT = b'a whole disk'
SUM = 'sha256:' + 'a' * 64
MACHINE = {'hw_firmware_type': 'uefi', 'os_shutdown_timeout': '0'}


class InstanceImagesTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.validate()
        (_credentials, host), = cloud.in_use()
        self.images = host.instance_images
        handle, self.path = tempfile.mkstemp()
        with os.fdopen(handle, 'wb') as target:
            target.write(CONTENT)
        self.addCleanup(os.unlink, self.path)
        self.fetched = 0
        self.host_cloud.forget_requests()

    def fetch(self):
        self.fetched += 1
        return self.path, 'qcow2'

    def provide(self, checksum=SUM, machine=None, kept=5, fetch=None):
        return self.images.provide(
            checksum, MACHINE if machine is None else machine,
            fetch or self.fetch, self.clock.now + 100, kept)

    def all(self):
        return [each for each in self.host_cloud.images.values()
                if 'quintupleo-instance' in each.get('tags', ())]

    def other(self, status='saving', **values):
        """Let somebody else have begun with the same image."""
        before = set(self.host_cloud.images)
        self.provide()
        made, = set(self.host_cloud.images) - before
        image = self.host_cloud.images[made]
        image.update(status=status, **values)
        self.fetched = 0
        self.host_cloud.forget_requests()
        return image

    def uploads(self):
        return sum(each.startswith('PUT')
                   for each in self.host_cloud.requests)


class OneTestCase(InstanceImagesTestCase):

    def test_it_is_made_private_for_the_machine_with_a_config_drive(self):
        found = self.provide()
        image, = self.all()
        self.assertEqual(
            (found, 'private', 'active', 'qcow2', 'uefi', '0', 'mandatory',
             len(CONTENT)),
            (image['id'], *(image[name] for name in (
                'visibility', 'status', 'disk_format', 'hw_firmware_type',
                'os_shutdown_timeout', 'img_config_drive', 'size'))))

    def test_next_time_one_request_finds_it(self):
        first = self.provide()
        self.host_cloud.forget_requests()
        self.assertEqual((first, 1), (self.provide(), self.fetched))
        self.assertEqual(['GET /v2/images'], self.host_cloud.requests)

    def test_other_content_or_machine_is_another_image(self):
        found = {self.provide(), self.provide(checksum='sha512:b'),
                 self.provide(machine={})}
        self.assertEqual(3, len(found))

    def test_image_that_others_share_is_not_taken(self):
        image = self.other(status='active')
        image['visibility'] = 'shared'
        self.assertNotEqual(image['id'], self.provide())
        self.assertEqual(1, self.uploads())

    def test_image_of_another_project_is_not_taken(self):
        image = self.other(status='active')
        image['owner'] = 'b' * 32
        self.assertNotEqual(image['id'], self.provide())
        self.assertEqual(1, self.uploads())

    def test_image_of_another_size_is_not_taken(self):
        image = self.other(status='active', size=0)
        self.assertNotEqual(image['id'], self.provide())

    def test_content_that_cannot_be_fetched_leaves_nothing(self):
        def fails():
            raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, self.provide, fetch=fails)
        self.assertEqual([], self.all())

    def test_upload_that_breaks_leaves_nothing(self):
        for answer in (503, requests.exceptions.ConnectionError('reset')):
            self.host_cloud.fail('PUT', '/file$', answer)
            self.assertRaises(errors.HostCloudError, self.provide)
            self.assertEqual([], self.all())
        self.provide()
        self.assertEqual(1, len(self.all()))

    def test_upload_of_nothing_leaves_nothing(self):
        # As when keystoneauth sends it again after the file's end.
        self.host_cloud.fail('PUT', '/file$', {}, carried_out=True)
        before = self.host_cloud.add_image

        def smaller(*args, **kwargs):
            image = before(*args, **kwargs)
            self.host_cloud.fail('GET', f'/images/{image["id"]}$', {
                'id': image['id'], 'status': 'active', 'size': 0})
            return image
        self.host_cloud.add_image = smaller
        error = self.assertRaises(errors.ServerError, self.provide)
        self.assertIn('0 bytes', str(error))
        self.assertEqual([], self.all())

    def test_project_that_may_not_upload(self):
        self.host_cloud.fail('POST', '/images$', (403, 'Forbidden'))
        self.assertRaises(errors.Forbidden, self.provide)

    def test_quota_of_glance(self):
        self.host_cloud.fail('PUT', '/file$', (413, 'Over quota'))
        self.assertRaises(errors.BadRequest, self.provide)
        self.assertEqual([], self.all())


class RaceTestCase(InstanceImagesTestCase):

    def provide_at_once(self, number, fetch):
        """Return the UUIDs of an image, provided by so many threads."""
        pool = futures.ThreadPoolExecutor(number)
        self.addCleanup(pool.shutdown)
        return [pool.submit(self.provide, fetch=fetch)
                for _ in range(number)]

    def test_of_many_at_once_one_uploads(self):
        found = {each.result() for each in self.provide_at_once(
            8, self.fetch)}
        mine, = self.all()
        self.assertEqual(({mine['id']}, 1, 1),
                         (found, self.uploads(), self.fetched))

    def test_next_one_tries_when_the_first_has_failed(self):
        fetched = []

        def fetch():
            fetched.append(None)
            if len(fetched) == 1:
                raise ZeroDivisionError
            return self.fetch()
        found = self.provide_at_once(4, fetch)
        self.assertEqual(1, sum(isinstance(
            each.exception(), ZeroDivisionError) for each in found))
        self.assertEqual((2, 1), (len(fetched), self.uploads()))

    def test_upload_that_does_not_end(self):
        begun, go_on = threading.Event(), threading.Event()

        def fetch():
            begun.set()
            go_on.wait(60)
            return self.fetch()
        first, = self.provide_at_once(1, fetch)
        begun.wait(60)
        self.clock.now += 200
        error = self.assertRaises(
            errors.ActionTimeout, self.images.provide, SUM, MACHINE,
            self.fetch, self.clock.now, 5)
        self.assertIn('another node', str(error))
        go_on.set()
        first.result()

    def test_what_another_conductor_has_not_ended_is_not_waited_for(self):
        for status in ('queued', 'saving'):
            image = self.other(status=status)
            self.assertNotEqual(image['id'], self.provide())
            self.assertEqual((1, 1), (self.fetched, self.uploads()))
            self.host_cloud.images.clear()

    def test_older_one_is_used_where_two_conductors_have_uploaded(self):
        first = self.provide()
        image = self.host_cloud.images[first]
        image['name'] = 'hidden'
        second = self.provide()
        image['name'] = self.host_cloud.images[second]['name']
        image['created_at'] = '2025-01-01T00:00:00Z'
        self.assertEqual(first, self.provide())
        self.assertEqual(2, len(self.all()))


class UnusedTestCase(InstanceImagesTestCase):

    def make(self, *sums, kept=1):
        for number in sums:
            self.clock.now += 1
            yield self.provide(f'sha256:{number}', kept=kept)

    def test_newest_stay_and_those_that_servers_are_made_from(self):
        first, = self.make(1)
        self.server.image = first
        found = list(self.make(2, 3, 4))
        # The last one is about to be used; one more may stay.
        self.assertEqual({first, *found[1:]},
                         {each['id'] for each in self.all()})

    def test_none_is_looked_at_where_none_was_uploaded(self):
        list(self.make(1, 2))
        self.host_cloud.forget_requests()
        list(self.make(1))
        self.assertEqual(['GET /v2/images'], self.host_cloud.requests)

    def test_what_cannot_be_removed_keeps_nobody_from_anything(self):
        for path, answer in (('/images/', (409, 'in use')),
                             ('/images/', 503)):
            self.host_cloud.fail('DELETE', path, answer, times=9)
            found = list(self.make(answer, f'{answer}-2', kept=0))
            self.assertEqual(2, len(set(found)))
            self.host_cloud.stop_failing()
        self.host_cloud.fail('GET', '/servers', 503, times=99)
        found = list(self.make(7, kept=0))
        self.assertIn(found[0], [each['id'] for each in self.all()])

    def test_what_has_no_content_for_a_day_is_removed(self):
        left = self.other(status='queued')
        left.update(name='quintupleo-instance-old', created_at='2025-01-01T')
        self.provide('sha256:9')
        self.assertIn(left, self.all())
        left['created_at'] = '2025-01-01T00:00:00Z'
        self.provide('sha256:8')
        self.assertNotIn(left, self.all())
