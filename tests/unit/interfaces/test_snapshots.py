# SPDX-License-Identifier: Apache-2.0
"""The steps snapshot, restore and delete_snapshot."""

import contextlib

from ironic.common import exception
from ironic.common import states
from ironic.conductor import cleaning

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import snapshots
from quintupleo_power.node import pending_request
from tests.unit.interfaces import test_power
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN


class SnapshotTestCase(test_power.PowerTestCase):
    """A node with a system on its disk, powered off."""

    def setUp(self):
        super().setUp()
        self.set_server('stopped', SHUTDOWN)
        self.set_node(provision_state=states.SERVICING,
                      power_state=states.POWER_OFF)

    def set_node(self, **values):
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def run_step(self, step, name='before'):
        with self.acquire() as task:
            getattr(task.driver.management, step)(task, name=name)
        self.node.refresh()

    def snapshot(self, name='before'):
        self.run_step('snapshot', name)

    def restore(self, name='before'):
        self.run_step('restore', name)

    def images(self):
        """The images of snapshots."""
        return [image for image in self.host_cloud.images.values()
                if image['name'].startswith('quintupleo-snapshot-')]

    def add_volumes(self, *contents):
        """Give the server volumes beside its disk."""
        for content in contents:
            volume = self.host_cloud.add_volume()
            self.host_cloud.contents[volume['id']] = content
            self.server.volumes += (volume,)

    def volume_contents(self):
        return [self.host_cloud.contents[volume['id']]
                for volume in self.server.volumes]

    def assert_refused(self, step, *parts, name='before'):
        error = self.refused(self.run_step, step, name)
        self.assert_says(error, self.node.uuid, *parts)


class StepsTestCase(SnapshotTestCase):

    def test_are_steps_that_need_no_agent_and_a_name(self):
        with self.acquire(shared=True) as task:
            management = task.driver.management
            for steps in (management.get_clean_steps(task),
                          management.get_service_steps(task)):
                found = {step['step']: step for step in steps}
                for name in ('snapshot', 'restore', 'delete_snapshot'):
                    step = found[name]
                    self.assertEqual((0, False), (
                        step['priority'], step['requires_ramdisk']))
                    self.assertTrue(step['argsinfo']['name']['required'])

    def test_ironics_own_cleaning_runs_them(self):
        self.set_node(provision_state=states.CLEANING,
                      target_provision_state=states.MANAGEABLE)
        steps = [{'interface': 'management', 'step': step,
                  'args': {'name': 'golden'}}
                 for step in ('snapshot', 'restore', 'delete_snapshot')]
        with self.acquire() as task:
            cleaning.do_node_clean(task, steps, disable_ramdisk=True)
        self.node.refresh()
        self.assertEqual((states.MANAGEABLE, None), (
            self.node.provision_state, self.node.last_error))
        self.assert_sent('snapshot', 'rebuild')
        self.assertEqual([], self.images())

    def test_names_that_are_none(self):
        for name in ('', 'a/b', 'a b', '-a', 'x' * 41, 7, None, 'ä'):
            for step in ('snapshot', 'restore', 'delete_snapshot'):
                self.assertRaises(exception.InvalidParameterValue,
                                  self.run_step, step, name)
        self.assertEqual([], self.host_cloud.requests)

    def test_they_need_the_lock(self):
        with self.acquire(shared=True) as task:
            for step in ('snapshot', 'restore', 'delete_snapshot'):
                self.assertRaises(
                    exception.ExclusiveLockRequired,
                    getattr(task.driver.management, step), task, 'before')


class TakeTestCase(SnapshotTestCase):

    def test_of_a_server_that_is_off(self):
        self.snapshot()
        self.assert_sent('snapshot')
        self.assert_server_is('stopped', SHUTDOWN)
        image, = self.images()
        self.assertEqual('active', image['status'])
        self.assertEqual(f'quintupleo-snapshot-before-{self.server.id}',
                         image['name'])
        self.assertEqual(
            ('before', self.server.id, '0'),
            (image['quintupleo_snapshot'],
             image['quintupleo_snapshot_server'],
             image['quintupleo_snapshot_volumes']))

    def test_server_that_runs_from_its_disk_is_off_meanwhile(self):
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_ON)
        self.snapshot()
        self.assert_sent('stop', 'snapshot', 'start')
        self.assertEqual(states.POWER_ON, self.node.power_state)

    def test_agent_is_not_started_again(self):
        self.set_server('rescued', RUNNING)
        self.set_node(power_state=states.POWER_ON)
        self.snapshot()
        self.assert_sent('unrescue', 'stop', 'snapshot')
        self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_second_of_the_name_is_refused(self):
        self.snapshot()
        self.set_server('active', RUNNING)
        self.assert_refused('snapshot', '"before"', 'already', 'another name')
        self.assert_sent('snapshot')
        self.snapshot('after')
        self.assertEqual(2, len(self.images()))

    def test_what_an_interrupted_one_has_left_is_removed(self):
        self.add_volumes('data')
        self.snapshot()
        self.host_cloud.volume_snapshots.clear()
        self.snapshot()
        self.assertEqual(1, len(self.images()))
        self.assertEqual(1, len(self.host_cloud.volume_snapshots))

    def test_volumes_have_snapshots_of_the_same_title(self):
        self.add_volumes('one', 'two')
        self.snapshot()
        image, = self.images()
        self.assertEqual(
            [(volume['id'], image['name'], 'available')
             for volume in self.server.volumes],
            [(each['volume_id'], each['name'], each['status'])
             for each in self.host_cloud.volume_snapshots.values()])

    def test_volumes_have_their_position_in_their_snapshots(self):
        self.add_volumes('one', 'two')
        self.snapshot()
        self.assertEqual(
            [{'quintupleo_snapshot_position': '0'},
             {'quintupleo_snapshot_position': '1'}],
            [each['metadata']
             for each in self.host_cloud.volume_snapshots.values()])

    def test_server_that_boots_from_a_volume_is_refused(self):
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.add_empty_image()),)
        self.assert_refused('snapshot', self.server.id,
                            'boots from a volume')
        self.assert_sent()

    def test_network_first_server_is_refused(self):
        self.server.image = self.host_cloud.add_image(
            'first', quintupleo_boot='network-first')['id']
        self.add_volumes('disk')
        self.assert_refused('snapshot', 'beside the CD')
        self.assert_sent()

    def test_interrupted_is_told_of(self):
        class DeathError(Exception):
            """The conductor ends."""

        self.host_cloud.fail('POST', '/action$', DeathError())
        self.assertRaises(DeathError, self.snapshot)
        self.node.refresh()
        self.assertEqual('snapshot', self.node.driver_internal_info[
            pending_request.KEY]['power_state'])


class TakeFaultsTestCase(SnapshotTestCase):

    def test_nova_that_does_not_do_it(self):
        self.set_server('active', RUNNING)
        self.host_cloud.fail_action('snapshot', 'Quota exceeded')
        self.assert_refused('snapshot', self.server.id, 'Quota exceeded')
        self.assertEqual([], self.images())
        # It runs as it did before.
        self.assert_sent('stop', 'snapshot', 'start')

    def test_without_a_record_the_image_tells(self):
        for answer in (403, 404, 503, {'instanceAction': {'events': []}}):
            self.host_cloud.stop_failing()
            self.host_cloud.fail('GET', '/os-instance-actions', answer,
                                 times=10 ** 6)
            self.host_cloud.fail_action('snapshot', 'Quota exceeded')
            self.assert_refused('snapshot', 'made no image')
            self.snapshot(f'after-{self.clock.now:.0f}')

    def test_image_that_never_gets_its_content(self):
        end = self.host_cloud._end_snapshot
        self.host_cloud._end_snapshot = lambda server, failed: None
        self.assert_refused('snapshot', 'made no image',
                            'server event list')
        self.assertEqual([], self.images())
        self.host_cloud._end_snapshot = end

    def test_lost_answer_makes_no_second_image(self):
        # Nova's times are exact to a second.
        self.clock.now += 60
        self.server.updated = '2026-01-01T00:00:00'
        self.host_cloud.fail('POST', '/action$', 502, carried_out=True)
        self.snapshot()
        self.assert_sent('snapshot')
        self.assertEqual(1, len(self.images()))

    def test_volume_service_that_refuses(self):
        self.add_volumes('data')
        self.host_cloud.fail('POST', '/snapshots', (
            413, 'SnapshotLimitExceeded: Maximum number of snapshots'))
        self.assert_refused('snapshot', 'SnapshotLimitExceeded')
        self.assertEqual([], self.images())

    def test_snapshot_of_a_volume_that_fails(self):
        self.add_volumes('data')
        self.host_cloud.fail('GET', '/snapshots/[0-9a-f]', {
            'snapshot': {'status': 'error'}})
        self.assert_refused('snapshot', 'state error')
        self.assertEqual([], self.images())
        self.assertEqual({}, self.host_cloud.volume_snapshots)

    def test_snapshot_of_a_volume_that_never_ends(self):
        self.config(image_timeout=9, group='quintupleo')
        self.add_volumes('data')
        self.host_cloud.fail('GET', '/snapshots/[0-9a-f]', {
            'snapshot': {'status': 'creating'}}, times=40)
        self.assert_refused('snapshot', 'in state creating still')

    def test_policy_that_forbids_it(self):
        self.host_cloud.fail('POST', '/action$', (
            403, "Policy doesn't allow servers:create_image"))
        self.assert_refused('snapshot', 'servers:create_image')

    def test_volume_service_that_answers_nonsense(self):
        self.add_volumes('data')
        self.snapshot()
        for answer in ('<html>', {'snapshots': {}},
                       {'snapshots': [{'id': 7}]}):
            self.host_cloud.fail('GET', '/snapshots/detail', answer, times=9)
            self.refused(self.restore)
            self.host_cloud.stop_failing()

    def test_image_service_that_answers_nonsense(self):
        for answer in ({'images': 7}, {'images': [7]}):
            self.host_cloud.fail('GET', 'quintupleo_snapshot_server', answer,
                                 times=9)
            self.refused(self.restore)
            self.host_cloud.stop_failing()


class RestoreTestCase(SnapshotTestCase):

    def setUp(self):
        super().setUp()
        self.server.content = 'as it was'
        self.add_volumes('one', 'two')
        self.snapshot()
        self.server.content = 'spoilt'
        for volume in self.server.volumes:
            self.host_cloud.contents[volume['id']] = 'spoilt'
        self.host_cloud.forget_requests()

    def assert_restored(self):
        self.assert_server_is('stopped', SHUTDOWN)
        self.assertEqual('as it was', self.server.content)
        self.assertEqual(['one', 'two'], self.volume_contents())
        self.assertEqual({'in-use'}, {
            volume['status'] for volume in self.server.volumes})
        self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_of_a_server_that_is_off(self):
        self.restore()
        self.assert_sent('rebuild')
        self.assert_restored()

    def test_of_a_server_that_runs(self):
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_ON)
        self.restore()
        self.assert_sent('rebuild', 'stop')
        self.assert_restored()

    def test_again_and_again(self):
        self.restore()
        self.server.content = 'spoilt'
        self.restore()
        self.assert_restored()

    def test_snapshot_of_what_was_restored(self):
        self.restore()
        self.server.content = 'another time'
        self.snapshot('after')
        self.server.content = 'spoilt'
        self.restore('after')
        self.assertEqual('another time', self.server.content)

    def test_image_of_a_user_is_none_of_ours(self):
        """Nova hands the marks on to whatever is made of the server."""
        self.restore()
        self.host_cloud.add_image('mine', **{
            name: value for name, value in self.images()[0].items()
            if name.startswith('quintupleo_')})
        host = cloud.get(connection.Credentials())
        self.assertEqual(['before'], [
            each.name for each in host.snapshots.all(**{
                snapshots.SERVER: self.server.id})])

    def set_volume_snapshots(self, *ids, **values):
        """Change what the volume service tells of them."""
        kept = self.host_cloud.volume_snapshots
        for snapshot_id, each in zip(ids, list(kept.values()), strict=True):
            self.host_cloud.contents[snapshot_id] = (
                self.host_cloud.contents[each['id']])
            del kept[each['id']]
            kept[snapshot_id] = {**each, 'id': snapshot_id, **values}

    def test_volumes_with_snapshots_of_the_same_second(self):
        self.set_volume_snapshots('9', '1', created_at='2026-11-24T00:16:33')
        self.restore()
        self.assert_restored()

    def test_snapshots_of_volumes_that_know_no_position(self):
        for metadata in ({}, None, {snapshots.POSITION: 'first'},
                         {snapshots.POSITION: ['1']}):
            with self.subTest(metadata=metadata):
                self.set_volume_snapshots('9', '1', metadata=metadata)
                self.restore()
                self.assert_restored()

    def test_properties_that_make_the_machine_are_kept(self):
        image, = self.images()
        self.host_cloud.images[self.server.image].update(
            hw_firmware_type='uefi', os_shutdown_timeout='0')
        self.snapshot('uefi')
        found = next(each for each in self.images() if each is not image)
        self.assertEqual(('uefi', '0'), (found['hw_firmware_type'],
                                         found['os_shutdown_timeout']))

    def test_unknown_name_is_told_with_those_that_are_known(self):
        self.assert_refused('restore', self.server.id, '"other"',
                            'it has before', name='other')
        self.assert_sent()

    def test_more_than_a_page_of_them(self):
        self.host_cloud.images_per_page = 1
        for name in ('b', 'c'):
            self.snapshot(name)
        self.assert_refused('restore', 'it has before, b, c', name='other')

    def test_server_without_any(self):
        self.images()[0]['name'] = 'gone'
        self.assert_refused('restore', 'it has none')

    def test_one_that_is_not_complete(self):
        self.host_cloud.volume_snapshots.popitem()
        self.assert_refused('restore', 'not complete', 'make it again')
        self.assert_sent()

    def test_volume_with_later_snapshots(self):
        self.snapshot('later')
        self.host_cloud.forget_requests()
        self.assert_refused('restore', self.server.volumes[0]['id'],
                            'quintupleo-snapshot-later-', 'delete these')
        self.assert_sent()
        self.run_step('delete_snapshot', 'later')
        self.restore()
        self.assert_restored()

    def test_volume_that_another_server_has_by_now(self):
        other = self.host_cloud.add_server(name='other')
        volume = self.server.volumes[1]
        self.server.volumes = self.server.volumes[:1]
        volume['attachments'] = [{'server_id': other.id}]
        self.assert_refused('restore', volume['id'], other.id, 'detach')
        self.assert_sent()

    def test_interrupted_while_volumes_were_off_the_server(self):
        self.host_cloud.fail('POST', 'os-volume_attachments', 503, skip=1)
        self.assert_refused('restore', '503')
        self.assertEqual(1, len(self.server.volumes))
        self.restore()
        self.assert_restored()

    def test_failed_rebuild_without_a_record_leaves_the_volumes_alone(self):
        self.host_cloud.fail('GET', '/os-instance-actions', 403, times=99)
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.assert_refused('restore', 'is not known')
        self.assertEqual(['spoilt', 'spoilt'], self.volume_contents())

    def test_failed_rebuild_leaves_the_volumes_alone(self):
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.assert_refused('restore', 'Out of rabbits')
        self.assertEqual(['spoilt', 'spoilt'], self.volume_contents())

    def test_is_no_drift(self):
        self.restore()
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.validate()

    def restore_behind(self):
        """Let somebody else restore the server of a node with a system."""
        image, = self.images()
        self.set_node(provision_state=states.DEPLOYING)
        self.set_power(states.POWER_ON)
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.host_cloud.change_behind(self.server, 'rebuild',
                                      image=image['id'])

    def test_by_somebody_else_is_told_once_its_image_is_shown(self):
        self.restore_behind()
        for status in (403, 404, 503):
            self.forget_clouds()
            self.host_cloud.fail('GET', '/images/', status, times=6)
            with contextlib.suppress(exception.InvalidParameterValue):
                self.validate()
            self.host_cloud.stop_failing()
            self.clock.now += 1
            self.assert_says(
                self.assertRaises(exception.InvalidParameterValue,
                                  self.validate), 'was restored at')

    def test_by_somebody_else_is_no_lost_disk_for_one_failure(self):
        # Nothing else asks for its image then.
        self.server.volumes = ()
        self.restore_behind()
        self.host_cloud.fail('GET', '/images/', 503, times=4)
        self.reboot()
        self.clock.now += 60
        self.validate()

    def test_by_somebody_else_is_told_as_what_it_is(self):
        self.restore_behind()
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.validate)
        self.assert_says(error, 'was restored at', '"before"',
                         'not by Ironic', 'reboot the node')
        # As the sentence says.
        self.reboot()
        self.clock.now += 60
        self.validate()


class DeleteTestCase(SnapshotTestCase):

    def test_all_of_it_goes(self):
        self.add_volumes('one', 'two')
        self.snapshot()
        self.snapshot('other')
        self.run_step('delete_snapshot')
        self.assertEqual(
            [f'quintupleo-snapshot-other-{self.server.id}'],
            [image['name'] for image in self.images()])
        self.assertEqual(2, len(self.host_cloud.volume_snapshots))

    def test_server_that_was_restored_from_it_can_have_another(self):
        self.add_volumes('data')
        self.snapshot()
        self.restore()
        self.run_step('delete_snapshot')
        self.snapshot('again')
        self.assertEqual(1, len(self.images()))

    def test_of_what_is_not_there_is_no_mistake(self):
        self.run_step('delete_snapshot')
        self.assert_sent()

    def test_image_that_stays_is_told(self):
        self.snapshot()
        self.host_cloud.fail('DELETE', '/images/', (
            409, 'Image is in use'))
        self.assert_refused('delete_snapshot', '409')
