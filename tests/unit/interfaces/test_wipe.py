# SPDX-License-Identifier: Apache-2.0
"""The step wipe_disk: Nova's rebuild from an empty image."""

import json
import logging

import fixtures
from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import cleaning
from ironic import objects

from quintupleo_power.node import pending_request
from quintupleo_power.rebuild import disk_steps
from quintupleo_power import takeover
from quintupleo_power import transitions
from tests.unit import host_cloud_fixture
from tests.unit.interfaces import test_power
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
# What minicloud has for a system that was deployed by a rebuild.
DEPLOYED = 'debian-13'


class WipeTestCase(test_power.PowerTestCase):
    """A node that is being cleaned, powered off."""

    def setUp(self):
        super().setUp()
        self.set_server('stopped', SHUTDOWN)
        self.set_node(provision_state=states.CLEANING,
                      power_state=states.POWER_OFF)

    def set_node(self, **values):
        self.node.refresh()
        for name, value in values.items():
            setattr(self.node, name, value)
        self.node.save()

    def wipe(self):
        with self.acquire() as task:
            task.driver.management.wipe_disk(task)
        self.node.refresh()

    def assert_wiped(self, *actions, image=None):
        """Check what was sent, and that an empty machine is off."""
        self.assert_sent(*actions)
        self.assert_server_is('stopped', SHUTDOWN)
        self.assertEqual('', self.server.content)
        self.assertEqual(image or self.server.image, self.image_refs()[-1])

    def assert_refused(self, *parts):
        """Check that a wipe is refused, and that nothing was done."""
        error = self.refused(self.wipe)
        self.assert_says(error, self.node.uuid, self.server.id, *parts)
        self.assert_sent()

    def image_refs(self):
        """The images that rebuilds were asked for with."""
        return [json.loads(body)['rebuild']['imageRef']
                for body in self.host_cloud.bodies if '"rebuild"' in body]


class StepTestCase(WipeTestCase):

    def test_is_a_step_that_needs_no_agent_and_is_chosen_by_operators(self):
        with self.acquire(shared=True) as task:
            management = task.driver.management
            for steps in (management.get_clean_steps(task),
                          management.get_service_steps(task)):
                step = next(each for each in steps
                            if each['step'] == 'wipe_disk')
                self.assertEqual(
                    ('management', 0, False, None),
                    (step['interface'], step['priority'],
                     step['requires_ramdisk'], step['argsinfo']))

    def test_ironics_own_cleaning_runs_it_without_a_ramdisk(self):
        self.set_node(target_provision_state=states.MANAGEABLE)
        with self.acquire() as task:
            cleaning.do_node_clean(
                task, [{'interface': 'management', 'step': 'wipe_disk'}],
                disable_ramdisk=True)
        self.node.refresh()
        self.assertEqual(
            (states.MANAGEABLE, states.POWER_OFF, None),
            (self.node.provision_state, self.node.power_state,
             self.node.last_error))
        self.assert_wiped('rebuild')

    def test_failure_is_that_of_the_cleaning(self):
        self.set_node(target_provision_state=states.MANAGEABLE)
        self.server.volumes = (self.host_cloud.add_volume(),)
        with self.acquire() as task:
            cleaning.do_node_clean(
                task, [{'interface': 'management', 'step': 'wipe_disk'}],
                disable_ramdisk=True)
        self.node.refresh()
        self.assertEqual(states.CLEANFAIL, self.node.provision_state)
        self.assertIn('cannot be wiped', self.node.last_error)
        self.assertNotIn(pending_request.KEY, self.node.driver_internal_info)

    def test_needs_the_lock(self):
        with self.acquire(shared=True) as task:
            self.assertRaises(exception.ExclusiveLockRequired,
                              task.driver.management.wipe_disk, task)
        self.assert_sent()


class SequencesTestCase(WipeTestCase):

    def test_server_that_is_off_takes_one_action(self):
        self.wipe()
        self.assert_wiped('rebuild')

    def test_server_that_runs_is_off_afterwards(self):
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_ON)
        self.wipe()
        self.assert_wiped('rebuild', 'stop')
        self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_server_out_of_which_the_agent_has_switched_itself_off(self):
        self.set_server('rescued', SHUTDOWN)
        self.wipe()
        self.assert_wiped('unrescue', 'rebuild', 'stop')

    def test_server_in_error_is_mended_by_it(self):
        self.set_server('error', 0)
        self.wipe()
        self.assert_wiped('rebuild', 'stop')

    def test_twice_does_no_harm(self):
        self.wipe()
        self.wipe()
        self.assert_wiped('rebuild', 'rebuild')

    def test_moment_in_which_nova_shows_it_as_running(self):
        self.host_cloud.runs_after_rebuild = True
        for reads in (0, 1, 4):
            self.host_cloud.forget_requests()
            self.host_cloud.reads_per_task = reads
            self.wipe()
            self.assert_wiped('rebuild')

    def test_boot_device_is_that_of_the_next_boot_still(self):
        self.wish(boot_devices.PXE)
        self.wipe()
        self.assertEqual({'boot_device': 'pxe', 'persistent': False},
                         self.next_device())

    def test_shelved_server_is_refused_with_what_helps(self):
        self.set_server('shelved_offloaded', SHUTDOWN)
        self.assert_refused('a rebuild is refused', 'openstack server '
                            'unshelve')

    def test_locked_server_is_refused_with_what_helps(self):
        self.server.locked, self.server.locked_reason = True, 'mine'
        self.host_cloud.fail('POST', '/action$',
                             (409, 'Instance is locked'), times=9)
        self.assert_refused('it is locked ("mine")')


class ImageTestCase(WipeTestCase):

    def deploy_by_rebuild(self, **properties):
        """Let the server have an image that is not empty."""
        self.server.image = self.host_cloud.add_image(
            DEPLOYED, disk_format='qcow2', os_hash_value='f' * 128,
            **properties)['id']

    def test_own_image_that_is_empty_is_kept_whatever_its_name(self):
        own = self.host_cloud.add_empty_image('lab-empty')
        self.server.image = own['id']
        self.wipe()
        self.assert_wiped('rebuild', image=own['id'])

    def test_deployed_server_goes_back_to_the_configured_image(self):
        empty = self.server.image
        self.deploy_by_rebuild()
        self.wipe()
        self.assert_wiped('rebuild', image=empty)

    def test_of_the_servers_boot_mode(self):
        uefi = self.host_cloud.add_empty_image('quintupleo-empty-uefi',
                                               hw_firmware_type='uefi')
        self.deploy_by_rebuild(hw_firmware_type='uefi')
        self.wipe()
        self.assert_wiped('rebuild', image=uefi['id'])

    def test_configured_name(self):
        lab = self.host_cloud.add_empty_image('lab-empty')
        self.config(empty_image_bios='lab-empty', group='quintupleo')
        self.deploy_by_rebuild()
        self.wipe()
        self.assert_wiped('rebuild', image=lab['id'])

    def test_image_of_the_node(self):
        own = self.host_cloud.add_empty_image('my-own')
        self.set_driver_info(quintupleo_empty_image='my-own')
        self.wipe()
        self.assert_wiped('rebuild', image=own['id'])

    def test_own_image_that_is_gone(self):
        other = self.host_cloud.add_empty_image()
        del self.host_cloud.images[self.server.image]
        self.wipe()
        self.assert_wiped('rebuild', image=other['id'])

    def test_image_that_was_replaced_a_moment_ago(self):
        self.wipe()
        del self.host_cloud.images[self.server.image]
        other = self.host_cloud.add_empty_image()
        self.wipe()
        self.assert_wiped('rebuild', 'rebuild', image=other['id'])

    def test_missing_image_is_told_with_the_setting(self):
        self.config(empty_image_bios='nowhere', group='quintupleo')
        self.deploy_by_rebuild()
        error = self.refused(self.wipe)
        self.assert_says(error, '[quintupleo]empty_image_bios', "'nowhere'",
                         'quintupleo image create')
        self.assert_sent()

    def test_images_that_cannot_be_used(self):
        for properties, part in (
                ({'status': 'queued'}, "'queued'"),
                ({'hw_firmware_type': 'uefi'}, 'boot by uefi')):
            self.host_cloud.add_empty_image(part, **properties)
            self.set_driver_info(quintupleo_empty_image=part)
            error = self.refused(self.wipe)
            self.assert_says(error, 'driver_info/quintupleo_empty_image',
                             part)
        self.host_cloud.add_empty_image('twin')
        self.host_cloud.add_empty_image('twin')
        self.set_driver_info(quintupleo_empty_image='twin')
        self.assert_says(self.refused(self.wipe), '2 images are named')
        self.assert_sent()

    def test_glance_that_fails(self):
        self.host_cloud.fail('GET', '/images/', 503, times=10 ** 6)
        self.assert_says(self.refused(self.wipe), '503', 'may pass')
        self.assert_sent()


class VolumesTestCase(WipeTestCase):

    def boot_from_volume(self, *others):
        """Let the server boot from a volume that was made from its image."""
        image = self.host_cloud.images[self.server.image]
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(image), *others)
        self.config(rebuild_replaces_volumes=True, group='quintupleo')
        return image['id']

    def test_volume_that_it_boots_from_is_wiped(self):
        image = self.boot_from_volume()
        self.wipe()
        self.assert_wiped('rebuild', image=image)

    def test_volume_that_may_keep_what_is_behind_the_image(self):
        self.boot_from_volume()
        self.config(rebuild_replaces_volumes=False, group='quintupleo')
        self.assert_refused('[quintupleo]rebuild_replaces_volumes',
                            'deploy.erase_devices_metadata')

    def test_compute_api_that_cannot_wipe_it(self):
        self.host_cloud.microversion = '2.92'
        self.boot_from_volume()
        self.assert_refused('boots from a volume', '2.92', '2.93',
                            'deploy.erase_devices_metadata')

    def test_further_volumes_are_refused(self):
        data = self.host_cloud.add_volume()
        self.server.volumes = (data,)
        self.assert_refused('cannot be wiped', data['id'], 'detach')
        self.boot_from_volume(data)
        self.assert_refused('cannot be wiped', data['id'], 'detach')

    def test_network_first_server_is_refused(self):
        self.server.image = self.host_cloud.add_image(
            'quintupleo-network-first-bios',
            quintupleo_boot='network-first')['id']
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.assert_refused('beside the CD', 'deploy.erase_devices_metadata')

    def test_server_with_a_virtual_tpm_is_refused(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.assert_refused('virtual TPM', 'deploy.erase_devices_metadata')


class FaultsTestCase(WipeTestCase):

    def test_failed_rebuild_of_a_running_server_is_no_wipe(self):
        self.set_server('active', RUNNING)
        self.host_cloud.fail_action('rebuild', 'Out of rabbits',
                                    'No space left on device', 'error', 0)
        error = self.refused(self.wipe)
        self.assert_says(error, self.server.id, 'could not rebuild',
                         'No space left on device')
        # Nova would have stopped it, which says nothing of the disk.
        self.assert_sent('rebuild')
        # What the operator does next.
        self.wipe()
        self.assert_wiped('rebuild', 'rebuild', 'stop')

    def test_failed_rebuild_that_leaves_the_server_as_it_was(self):
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.assert_says(self.refused(self.wipe), 'Out of rabbits')
        self.assert_sent('rebuild')

    def hide_records(self):
        """Hide Nova's records of actions, in each way in which it may."""
        self.config(image_timeout=60, group='quintupleo')
        for path in ('/os-instance-actions/', '/os-instance-actions'):
            for answer in (404, 403, 503, {'instanceAction': {}},
                           {'instanceAction': {'events': []}}):
                self.host_cloud.stop_failing()
                self.host_cloud.forget_requests()
                self.host_cloud.fail('GET', path, answer, times=10 ** 6)
                yield answer

    def test_failed_rebuild_without_a_record_is_no_wipe(self):
        for _ in self.hide_records():
            self.host_cloud.fail_action('rebuild', 'Out of rabbits')
            self.set_node(provision_state=states.CLEANING,
                          target_provision_state=states.MANAGEABLE,
                          maintenance=False)
            with self.acquire() as task:
                cleaning.do_node_clean(
                    task, [{'interface': 'management', 'step': 'wipe_disk'}],
                    disable_ramdisk=True)
            self.node.refresh()
            self.assertEqual(states.CLEANFAIL, self.node.provision_state)
            self.assert_says(self.node.last_error, self.server.id)
            self.assert_sent('rebuild')
            self.assertEqual('what the machine wrote', self.server.content)

    def test_what_to_do_about_a_rebuild_that_is_not_known(self):
        self.host_cloud.fail('GET', '/os-instance-actions', 403,
                             times=10 ** 6)
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        self.assert_says(self.refused(self.wipe), self.server.id,
                         'got the rebuild is not known',
                         'openstack server event list')

    def test_failed_rebuild_whose_record_is_not_there_at_once(self):
        for status in (403, 404, 503):
            self.host_cloud.forget_requests()
            self.host_cloud.fail('GET', '/os-instance-actions', status,
                                 times=4)
            self.host_cloud.fail_action('rebuild', 'Out of rabbits')
            self.assert_says(self.refused(self.wipe), 'Out of rabbits')
            self.assert_sent('rebuild')

    def test_rebuild_without_a_record_is_proved_by_the_launch(self):
        for _ in self.hide_records():
            self.wipe()
            self.assert_wiped('rebuild')

    def test_moment_after_a_rebuild_without_a_record(self):
        self.host_cloud.runs_after_rebuild = True
        for _ in self.hide_records():
            self.wipe()
            self.assert_wiped('rebuild')

    def test_lost_answer(self):
        for carried_out in (True, False):
            self.host_cloud.forget_requests()
            self.host_cloud.fail('POST', '/action$', 502,
                                 carried_out=carried_out)
            self.wipe()
            self.assert_wiped(*['rebuild'] * (1 + carried_out))

    def test_policy_that_forbids_it(self):
        self.host_cloud.fail('POST', '/action$', (
            403, "Policy doesn't allow os_compute_api:servers:rebuild"))
        self.assert_says(self.refused(self.wipe), 'servers:rebuild')
        self.assert_sent()

    def test_time_is_that_of_images(self):
        self.config(image_timeout=7, group='quintupleo')
        self.host_cloud.reads_per_task = 999
        begun = self.clock.now
        self.assert_says(self.refused(self.wipe), 'did not end within')
        self.assertAlmostEqual(7, self.clock.now - begun, delta=1)

    def test_no_password_of_novas_answer_is_kept_or_logged(self):
        logger = self.useFixture(fixtures.FakeLogger(
            'keystoneauth.session', level=logging.DEBUG))
        # Who configures logging disables those that were there.
        self.useFixture(fixtures.MockPatchObject(
            logging.getLogger('keystoneauth.session'), 'disabled', False))
        self.set_server('rescued', RUNNING)
        self.wipe()
        self.assertIn('"adminPass": "***"', logger.output)
        self.assertNotIn('q7pRwVJ4xhMn', logger.output)
        self.assertNotIn('q7pRwVJ4xhMn', str(self.node.as_dict()))


class InterruptedTestCase(WipeTestCase):

    class DeathError(Exception):
        """The conductor ends."""

    def die(self, **kwargs):
        """Wipe; the conductor dies at the action, and Ironic fails it."""
        self.host_cloud.fail('POST', '/action$', self.DeathError(), **kwargs)
        self.assertRaises(self.DeathError, self.wipe)
        self.node.refresh()
        self.assertEqual(
            'wipe_disk',
            self.node.driver_internal_info[pending_request.KEY]['power_state'])
        self.set_node(provision_state=states.CLEANFAIL)
        self.clock.now += 60

    def test_is_told_of_and_not_finished(self):
        self.set_server('active', RUNNING)
        self.set_node(power_state=states.POWER_OFF)
        # After the rebuild, which leaves it running.
        self.die(skip=1)
        with self.acquire() as task:
            takeover.run(task)
        self.node.refresh()
        self.assert_sent('rebuild')
        event = objects.NodeHistory.list_by_node_id(
            self.context, self.node.id)[-1].event
        self.assert_says(event, '"wipe_disk" of node', 'was interrupted',
                         '"cleaning"', 'Run the step again')
        self.assertNotIn(pending_request.KEY, self.node.driver_internal_info)
        self.assertEqual(states.POWER_ON, self.node.power_state)

    def test_step_is_run_again(self):
        for carried_out in (False, True):
            self.host_cloud.forget_requests()
            self.set_node(provision_state=states.CLEANING)
            self.die(carried_out=carried_out)
            self.set_node(provision_state=states.CLEANING)
            self.wipe()
            self.assert_wiped(*['rebuild'] * (1 + carried_out))
            self.assertNotIn(pending_request.KEY,
                             self.node.driver_internal_info)


class ServiceTestCase(WipeTestCase):
    """A node with a system on its disk."""

    def setUp(self):
        super().setUp()
        self.set_server('active', RUNNING)
        self.set_node(provision_state=states.DEPLOYING)
        self.reboot()
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.host_cloud.forget_requests()

    def test_is_no_drift(self):
        self.set_node(provision_state=states.SERVICING)
        self.wipe()
        self.assert_wiped('rebuild', 'stop')
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.validate()

    def test_ends_what_was_said_of_a_disk_that_was_lost(self):
        self.host_cloud.change_behind(self.server, 'rebuild')
        self.assertRaises(exception.InvalidParameterValue, self.validate)
        self.set_node(provision_state=states.SERVICING)
        self.wipe()
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.validate()

    def test_server_that_another_has_the_name_of_is_not_wiped(self):
        self.set_driver_info(quintupleo_server='machine-0')
        self.host_cloud.servers.clear()
        other = self.host_cloud.add_server(name='machine-0')
        self.set_node(provision_state=states.SERVICING)
        self.assert_says(self.refused(self.wipe),
                         f'is server {other.id} now')
        self.assertEqual('what the machine wrote', other.content)


class RebuildTestCase(WipeTestCase):
    """What the step has in common with other uses of a rebuild."""

    def test_further_members_go_with_it(self):
        members = {'imageRef': self.server.image, 'user_data': 'IyEvYmluL3No'}
        with self.acquire() as task:
            disk_steps.carry_out(task, 'deploy', transitions.Request.REBUILD,
                                 lambda *_: members)
        body = next(json.loads(body) for body in self.host_cloud.bodies
                    if '"rebuild"' in body)
        self.assertEqual({'rebuild': members}, body)

    def test_refusal_comes_before_anything_is_done(self):
        def refuse(host, server):
            raise transitions.Refused(f'Server {server.id} is not fit')

        self.set_server('rescued', RUNNING)
        with self.acquire() as task:
            error = self.assertRaises(
                exception.DriverOperationError, disk_steps.carry_out, task,
                'deploy', transitions.Request.REBUILD, refuse)
        self.assert_says(error, 'is not fit')
        self.assert_sent()


class OldRecordsTestCase(WipeTestCase):
    """A compute API that shows no events of actions (before 2.51)."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.50')

    def test_rebuild_is_proved_by_the_launch(self):
        self.wipe()
        self.assert_wiped('rebuild')

    def test_failed_rebuild_is_told(self):
        self.host_cloud.fail_action('rebuild', 'not shown')
        self.assert_says(self.refused(self.wipe), 'could not rebuild',
                         'its instance action says "Error"')

    def test_row_without_a_failure_is_no_wipe(self):
        self.host_cloud.fail_action('rebuild', 'not shown')
        self.host_cloud.fail('GET', '/os-instance-actions/', {
            'instanceAction': {'action': 'rebuild', 'message': None}},
            times=99)
        self.assert_says(self.refused(self.wipe), 'is not known')


class OldComputeTestCase(ImageTestCase):
    """The same on a compute API without image properties (before 2.98)."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.79')

    def setUp(self):
        super().setUp()
        # Nothing else tells of a server whose image is gone.
        self.set_node(properties={'capabilities': 'boot_mode:bios'})
