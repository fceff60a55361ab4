# SPDX-License-Identifier: Apache-2.0
"""Snapshots of whole environments.

The environment is in the memory of fake_connection; its servers are in a
stand-in for Nova as well, which is asked by HTTP.
"""

from unittest import mock

import fixtures
from keystoneauth1.identity import v3
from keystoneauth1 import session

from quintupleo_power.environments import ownership
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power.host_cloud import server_requests
from quintupleo_power.host_cloud import snapshots
from tests.unit import host_cloud_fixture
from tests.unit.osc import base

FILE = '''
roles:
  control: {kind: server, image: debian, flavor: small}
  compute: {flavor: small, count: 2, disks: [{size: 3}]}
'''
MODULES = ('quintupleo_power.host_cloud.server_requests',
           'quintupleo_power.environments.snapshots')

# Without the stand-in of test_environment.
SERVICES = openstacksdk.services


class SnapshotsTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.host = host_cloud_fixture.FakeHostCloud()
        self.host.setUp()
        self.addCleanup(self.host.cleanUp)
        for module in MODULES:
            patch = fixtures.MockPatch(f'{module}.time', self.host.clock)
            patch.setUp()
            self.addCleanup(patch.cleanUp)
        # The stand-in for Nova is for one request at a time.
        threads = mock.patch.object(task_graph, 'THREADS', 1)
        threads.start()
        self.addCleanup(threads.stop)
        self.cloud.services = self.services()
        self.create(FILE)
        self.image = self.host.add_empty_image()['id']
        for server in self.cloud.all('server'):
            self.mirror(server)

    @staticmethod
    def services():
        """The services of the stand-in, as for a real connection."""
        auth = v3.Password(
            auth_url=host_cloud_fixture.AUTH_URL, username='operator',
            password=host_cloud_fixture.SECRET, project_name='machines',
            user_domain_name='Default', project_domain_name='Default')
        config = mock.Mock()
        config.get_region_name.return_value = 'RegionOne'
        config.get_interface.return_value = 'public'
        config.get_endpoint.return_value = None
        config.get_session.return_value = session.Session(auth=auth)
        return SERVICES(mock.Mock(
            session=config.get_session(), config=config))

    def mirror(self, server):
        """Have a server of the environment in the stand-in for Nova."""
        volumes = [self.host.add_volume() for each
                   in self.cloud.all('volume')
                   if each.attachments == [{'server_id': server.id}]]
        made = self.host.add_server(
            {'ACTIVE': 'active', 'SHUTOFF': 'stopped'}[server.status],
            id=server.id, name=server.name, image=self.image,
            volumes=tuple(volumes))
        self.write_disk(made, 'at the start')
        return made

    def machine(self, name):
        return next(server for server in self.host.servers.values()
                    if server.name == name)

    def write_disk(self, server, content):
        server.content = content
        for volume in server.volumes:
            self.host.contents[volume['id']] = content

    def spoil(self):
        for server in self.host.servers.values():
            self.write_disk(server, 'spoilt')

    def contents(self):
        """What is on all disks, in the order of the names."""
        return {content for server in self.host.servers.values()
                for content in (server.content, *(
                    self.host.contents[volume['id']]
                    for volume in server.volumes))}

    def states(self):
        return {server.name.removeprefix('env-'): server.vm_state
                for server in self.host.servers.values()}

    def images(self):
        return [image for image in self.host.images.values()
                if snapshots.NAME in image]

    def snapshot(self, name='start'):
        self.environments().snapshot('env', name)

    def restore(self, name='start', **options):
        self.environments().restore('env', name, **options)

    def assert_nothing_left(self):
        self.assertEqual([], self.images())
        self.assertEqual({}, self.host.volume_snapshots)


class CreateTestCase(SnapshotsTestCase):

    def test_all_servers_as_one_set(self):
        self.snapshot()
        made, = self.environments().snapshots.all('env')
        self.assertEqual(('env', 'start', 3, True), (
            made.environment, made.name, made.servers, made.is_complete))
        self.assertEqual({'server.control.0', 'server.compute.0',
                          'server.compute.1'}, set(made.snapshots))
        self.assertEqual(2, len(self.host.volume_snapshots))

    def test_all_are_off_before_the_first_is_made(self):
        self.snapshot()
        self.assertEqual(['stop', 'snapshot', 'snapshot', 'snapshot',
                          'start'], self.host.sent)

    def test_servers_are_as_they_were(self):
        before = self.states()
        self.snapshot()
        self.assertEqual(before, self.states())
        self.assertEqual('active', before['control-0'])
        self.assertIn('3/3 snapshots', self.shown.getvalue())

    def test_properties_of_ownership(self):
        self.snapshot()
        for image in self.images():
            self.assertEqual('env', image[ownership.ENVIRONMENT])
            self.assertEqual('3', image['quintupleo_snapshot_servers'])
            self.assertEqual(
                'yes' if image[ownership.KEY] == 'server.control.0' else 'no',
                image['quintupleo_snapshot_ran'])

    def test_second_of_the_name(self):
        self.snapshot()
        with self.assert_failure('has a snapshot "start" of 2026',
                                 'snapshot delete env start'):
            self.snapshot()
        self.snapshot('later')
        self.assertEqual(['start', 'later'], [
            each.name for each in self.environments().snapshots.all()])

    def test_rest_of_an_interrupted_one_is_replaced(self):
        self.snapshot()
        self.host.images.pop(self.images()[0]['id'])
        self.assertFalse(self.environments().snapshots.all()[0].is_complete)
        self.snapshot()
        self.assertIn('is not complete and is removed',
                      self.shown.getvalue())
        self.assertTrue(self.environments().snapshots.all()[0].is_complete)
        self.assertEqual(3, len(self.images()))

    def test_environment_that_is_not_there_or_not_complete(self):
        with self.assert_failure('Environment "other" does not exist'):
            self.environments().snapshot('other', 'start')
        self.cloud.compute.delete_server(
            self.server('env-compute-0').id, True)
        with self.assert_failure('is not complete', 'create --wait'):
            self.snapshot()
        self.assertEqual([], self.host.sent)

    def test_server_that_can_have_none(self):
        self.machine('env-compute-1').image = None
        with self.assert_failure('env-compute-1: ', 'boots from a volume'):
            self.snapshot()
        self.assertEqual([], self.host.sent)

    def test_snapshot_of_one_server_of_that_name(self):
        server = self.machine('env-control-0')
        self.host.add_image(
            snapshots.title('start', server.id), **{
                snapshots.NAME: 'start', snapshots.SERVER: server.id})
        with self.assert_failure('env-control-0', 'another name'):
            self.snapshot()

    def test_shelved_server(self):
        self.machine('env-control-0').vm_state = 'shelved_offloaded'
        with self.assert_failure('env-control-0: ',
                                 'openstack server unshelve'):
            self.snapshot()
        self.assert_nothing_left()


class CreateFaultsTestCase(SnapshotsTestCase):

    def test_one_that_fails_leaves_none(self):
        self.host.fail_action('snapshot', 'Quota exceeded')
        with self.assert_failure('could not snapshot', 'Quota exceeded'):
            self.snapshot()
        self.assert_nothing_left()
        self.assertEqual('active', self.states()['control-0'])

    def test_server_that_was_started_meanwhile(self):
        stop = server_requests.Operations.stop

        def stop_and_start(self_, server_id):
            stopped = stop(self_, server_id)
            self.host.servers[server_id].vm_state = 'active'
            return stopped

        with mock.patch.object(server_requests.Operations, 'stop',
                               stop_and_start), \
                self.assert_failure('was started before its snapshot',
                                    'maintenance'):
            self.snapshot()
        self.assert_nothing_left()

    def test_server_that_was_started_and_stopped_meanwhile(self):
        stop = server_requests.Operations.stop

        def stop_and_start(self_, server_id):
            stopped = stop(self_, server_id)
            server = self.host.servers[server_id]
            if server.name == 'env-compute-1':
                self.host.change_behind(server, 'start')
            return stopped

        with mock.patch.object(server_requests.Operations, 'stop',
                               stop_and_start), \
                self.assert_failure('env-compute-1: it was started'):
            self.snapshot()
        self.assert_nothing_left()

    def test_record_that_nova_does_not_keep(self):
        for server in self.host.servers.values():
            server.updated = ''
        self.host._now = lambda: '2026-01-01T00:00:00'
        with mock.patch.object(server_requests.Operations, 'stop',
                               server_requests.Operations.read):
            self.machine('env-control-0').vm_state = 'stopped'
            self.machine('env-control-0').power_state = 4
            self.snapshot()
        self.assertTrue(self.environments().snapshots.all()[0].is_complete)

    def test_interrupt_leaves_none_and_starts_what_ran(self):
        with mock.patch.object(snapshots.Snapshots, 'finish', autospec=True,
                               side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            self.snapshot()
        self.assert_nothing_left()
        self.assertEqual('active', self.states()['control-0'])

    def test_a_moment_of_trouble(self):
        self.host.fail('POST', '/action$', 503, times=2)
        self.snapshot()
        self.assertTrue(self.environments().snapshots.all()[0].is_complete)

    def test_trouble_that_lasts(self):
        self.host.fail('POST', '/action$', 503, times=99)
        with self.assert_failure('503'):
            self.snapshot()
        self.assert_nothing_left()

    def test_cloud_that_refuses(self):
        self.host.fail('GET', '/images', (403, 'no'), times=9)
        for call in (self.snapshot, self.restore,
                     lambda: self.environments().snapshots.all(),
                     lambda: self.environments().delete('env')):
            with self.assert_failure('403'):
                call()


class RestoreTestCase(SnapshotsTestCase):

    def setUp(self):
        super().setUp()
        self.snapshot()
        self.spoil()
        self.host.forget_requests()

    def test_all_are_as_they_were_and_off(self):
        self.restore()
        self.assertEqual({'at the start'}, self.contents())
        self.assertEqual({'stopped'}, set(self.states().values()))
        self.assertEqual(['rebuild', 'rebuild', 'rebuild', 'stop'],
                         sorted(self.host.sent))
        self.assertIn('3/3 servers restored', self.shown.getvalue())

    def test_those_that_ran_are_started(self):
        self.restore(start=True)
        self.assertEqual({'control-0': 'active', 'compute-0': 'stopped',
                          'compute-1': 'stopped'}, self.states())

    def test_again(self):
        self.restore()
        self.spoil()
        self.restore()
        self.assertEqual({'at the start'}, self.contents())

    def test_unknown_name(self):
        with self.assert_failure('has no snapshot "x"', 'it has start'):
            self.restore('x')

    def test_set_that_is_not_complete(self):
        self.host.volume_snapshots.popitem()
        with self.assert_failure('not complete', 'make it again'):
            self.restore()
        self.assertEqual({'spoilt'}, self.contents())

    def test_server_that_is_gone(self):
        self.cloud.compute.delete_server(
            self.server('env-compute-1').id, True)
        with self.assert_failure('lacks server.compute.1'):
            self.restore()
        self.assertEqual([], self.host.sent)

    def test_server_that_came_later_stays_as_it_is(self):
        self.environments().scale('env', 'compute', 3)
        new = self.mirror(self.server('env-compute-2'))
        new.disk = 'mine'
        self.restore()
        self.assertEqual('mine', new.disk)
        self.assertIn('env-compute-2 is not in snapshot "start"',
                      self.shown.getvalue())

    def make_anew(self, name):
        """Replace a server of the environment."""
        old = self.server(name)
        self.cloud.compute.delete_server(old.id, True)
        del self.host.servers[old.id]
        self.create(FILE)
        return self.mirror(self.server(name))

    def test_server_that_was_made_anew_gets_the_disk(self):
        new = self.make_anew('env-control-0')
        self.restore()
        self.assertEqual('at the start', new.content)

    def test_server_that_was_made_anew_with_its_volumes(self):
        self.make_anew('env-compute-0')
        with self.assert_failure('env-compute-0: it was made again'):
            self.restore()
        self.assertEqual([], self.host.sent)

    def test_what_stands_in_the_way_of_one_is_told_before_all(self):
        self.machine('env-compute-0').vm_state = 'resized'
        with self.assert_failure('env-compute-0: a resize waits'):
            self.restore()
        self.assertEqual([], self.host.sent)

    def test_one_that_fails_is_told_by_name(self):
        self.host.fail_action('rebuild', 'Out of rabbits')
        with self.assert_failure('env-', 'Out of rabbits'):
            self.restore()
        self.restore()
        self.assertEqual({'at the start'}, self.contents())


class DeleteTestCase(SnapshotsTestCase):

    def test_all_of_a_set(self):
        self.snapshot()
        self.snapshot('later')
        self.assertTrue(self.environments().snapshots.delete('env', 'later'))
        self.assertEqual({'start'}, {image[snapshots.NAME]
                                     for image in self.images()})
        self.assertTrue(self.environments().snapshots.delete('env', 'start'))
        self.assert_nothing_left()
        self.assertFalse(self.environments().snapshots.delete('env', 'start'))

    def test_they_go_with_the_environment(self):
        self.snapshot()
        self.environments().delete('env')
        self.assert_nothing_left()

    def test_those_of_others_stay(self):
        self.snapshot()
        self.environments().delete('env.more')
        self.assertEqual(3, len(self.images()))


class OwnershipTestCase(SnapshotsTestCase):

    def test_image_that_only_looks_like_one(self):
        """Nova hands the properties on to what somebody makes of a server."""
        self.snapshot()
        properties = {name: value for name, value in self.images()[0].items()
                 if name.startswith('quintupleo_')}
        self.host.add_image('mine', **properties)
        made, = self.environments().snapshots.all()
        self.assertEqual(3, len(made.snapshots))
        self.environments().snapshots.delete('env', 'start')
        self.assertEqual(['mine'], [image['name']
                                    for image in self.images()])
