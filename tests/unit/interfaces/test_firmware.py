# SPDX-License-Identifier: Apache-2.0
"""Boot mode and secure boot switched, by a rebuild from an empty image."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import cleaning
from ironic.conductor import utils as conductor_utils
from ironic.drivers.modules import boot_mode_utils

from quintupleo_power.rebuild import server_fields
from tests.unit import host_cloud_fixture
from tests.unit.interfaces import test_wipe
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
STEP = {'interface': 'deploy', 'step': 'deploy'}
# Where a node's disk is to stay.
KEPT_IN = (states.ACTIVE, states.AVAILABLE, states.CLEANFAIL, states.DELETING,
           states.DEPLOYFAIL, states.INSPECTING, states.MANAGEABLE,
           states.RESCUING, states.SERVICING, states.UNRESCUING)


class FirmwareTestCase(test_wipe.WipeTestCase):
    """A node that is being cleaned, with empty images of all firmwares."""

    def setUp(self):
        super().setUp()
        self.bios = self.host_cloud.images[self.server.image]
        self.uefi = self.host_cloud.add_empty_image(
            'quintupleo-empty-uefi', hw_firmware_type='uefi',
            hw_machine_type='q35')
        self.secure = self.host_cloud.add_empty_image(
            'quintupleo-empty-secure-boot', hw_firmware_type='uefi',
            hw_machine_type='q35', os_secure_boot='required')
        self.uefi_rescue = self.host_cloud.add_rescue_image(
            'quintupleo-rescue-uefi')

    def set_mode(self, mode):
        """Set the boot mode as Ironic's flows do."""
        with self.acquire() as task:
            conductor_utils.node_set_boot_mode(task, mode)
        self.node.refresh()

    def prepare(self):
        """Do what Ironic does before it boots an agent."""
        with self.acquire() as task:
            boot_mode_utils.sync_boot_mode(task)
        self.node.refresh()

    def secure_boot(self):
        """Do what Ironic does when it has written the disk."""
        with self.acquire() as task:
            boot_mode_utils.configure_secure_boot_if_needed(task)
        self.node.refresh()

    def clean(self, wanted=states.MANAGEABLE, **arguments):
        """Run the step in Ironic's own manual cleaning."""
        self.set_node(provision_state=states.CLEANING, maintenance=False,
                      target_provision_state=states.MANAGEABLE)
        with self.acquire() as task:
            cleaning.do_node_clean(task, [{
                'interface': 'management', 'step': 'change_boot_mode',
                'args': arguments}], disable_ramdisk=True)
        self.node.refresh()
        self.assertEqual(wanted, self.node.provision_state,
                         self.node.last_error)

    def get_mode(self):
        with self.acquire(shared=True) as task:
            return task.driver.management.get_boot_mode(task)

    def assert_refused(self, call, *parts, error=None):
        found = self.assertRaises(error or exception.InvalidParameterValue,
                                  call)
        self.assert_says(found, self.node.uuid, *parts)
        self.assert_sent()


class SwitchTestCase(FirmwareTestCase):

    def test_there_and_back(self):
        for mode, image in (('uefi', self.uefi), ('bios', self.bios)):
            self.host_cloud.forget_requests()
            self.set_mode(mode)
            self.assert_wiped('rebuild', image=image['id'])
            self.assertEqual(mode, self.get_mode())

    def test_what_ironic_keeps_of_it_is_read_again(self):
        self.set_node(properties={'capabilities': 'boot_mode:uefi'})
        self.prepare()
        self.assert_wiped('rebuild', image=self.uefi['id'])
        self.assertEqual(('uefi', False),
                         (self.node.boot_mode, self.node.secure_boot))

    def test_mode_that_nobody_asks_for_stays(self):
        self.prepare()
        self.assert_sent()

    def test_server_that_runs_is_off_afterwards(self):
        for vm_state, actions in (('active', ('rebuild', 'stop')),
                                  ('rescued', ('unrescue', 'rebuild',
                                               'stop'))):
            self.host_cloud.forget_requests()
            self.server.image = self.bios['id']
            self.set_server(vm_state, RUNNING)
            self.set_node(power_state=states.POWER_ON)
            self.set_mode('uefi')
            self.assert_wiped(*actions, image=self.uefi['id'])
            self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_next_network_boot_is_by_the_other_rescue_image(self):
        self.set_mode('uefi')
        self.wish(boot_devices.PXE)
        self.reboot()
        body = next(body for body in self.host_cloud.bodies
                    if '"rescue"' in body)
        self.assertIn(self.uefi_rescue['id'], body)

    def test_data_of_an_instance_goes_with_the_disk(self):
        self.server.user_data = 'IyEvYmluL3No'
        self.set_node(driver_internal_info={server_fields.KEY: []})
        self.set_mode('uefi')
        self.assertIsNone(self.server.user_data)
        self.assertFalse(server_fields.may_be_left(self.node))

    def test_it_is_no_change_behind_ironics_back(self):
        self.set_mode('uefi')
        self.set_node(provision_state=states.ACTIVE)
        self.clock.now += 60
        self.validate()

    def test_image_whose_properties_were_changed_a_moment_ago(self):
        del self.secure['os_secure_boot']
        self.server.image = self.secure['id']
        self.assertEqual('uefi', self.get_mode())
        self.secure['os_secure_boot'] = 'required'
        self.server.image = self.bios['id']
        self.clock.now += 60
        self.set_node(instance_info={'capabilities': {'secure_boot': 'true'}})
        self.prepare()
        self.assertIs(True, self.node.secure_boot)

    def test_power_sync_asks_for_no_more(self):
        self.set_mode('uefi')
        self.clock.now += 60
        with self.acquire(shared=True) as task:
            task.driver.power.get_power_state(task)
            self.host_cloud.forget_requests()
            conductor_utils.node_cache_boot_mode(task)
        self.assertEqual([], self.host_cloud.requests)


class OldComputeTestCase(SwitchTestCase):
    """The same on a compute API without image properties (before 2.98)."""

    def make_host_cloud(self):
        return host_cloud_fixture.FakeHostCloud(microversion='2.90')


class KeptTestCase(FirmwareTestCase):
    """What costs the disk is refused where that is to stay."""

    def test_provision_states(self):
        for state in KEPT_IN:
            self.set_node(provision_state=state)
            self.assert_refused(
                lambda: self.set_mode('uefi'), self.server.id,
                'has BIOS and not UEFI', f'"{state}"',
                'management.change_boot_mode')

    def test_request_of_ironics_api(self):
        self.set_node(provision_state=states.MANAGEABLE)
        with self.acquire() as task:
            conductor_utils.node_change_boot_mode(task, 'uefi')
            self.assert_says(task.node.last_error, 'change_boot_mode')
            conductor_utils.node_change_secure_boot(task, True)
            self.assert_says(task.node.last_error, 'change_boot_mode')
        self.assert_sent()

    def test_deployment_that_has_begun(self):
        self.set_node(provision_state=states.DEPLOYING, deploy_step=STEP)
        self.assert_refused(lambda: self.set_mode('uefi'),
                            'once a step has begun')

    def test_deployment_that_keeps_data(self):
        self.set_node(provision_state=states.DEPLOYING,
                      instance_info={'preserve_ephemeral': 'True'})
        self.assert_refused(lambda: self.set_mode('uefi'), 'change_boot_mode')
        self.set_node(instance_info={'preserve_ephemeral': 'False'})
        self.set_mode('uefi')
        self.assert_wiped('rebuild', image=self.uefi['id'])

    def test_deployment_of_a_ramdisk_writes_no_disk(self):
        self.config(enabled_deploy_interfaces=['direct', 'ramdisk'])
        self.set_node(provision_state=states.DEPLOYING, deploy_step=STEP,
                      deploy_interface='ramdisk', instance_info={
                          'capabilities': {'secure_boot': 'true'}})
        self.prepare()
        self.assert_wiped('rebuild', image=self.secure['id'])
        self.secure_boot()
        self.assert_sent('rebuild')


class SecureBootTestCase(FirmwareTestCase):

    def ask(self, **values):
        self.set_node(provision_state=states.DEPLOYING, instance_info={
            'capabilities': {'secure_boot': 'true'}}, **values)

    def test_is_turned_on_with_the_boot_mode(self):
        self.ask()
        self.prepare()
        self.assert_wiped('rebuild', image=self.secure['id'])
        self.assertEqual(('uefi', True),
                         (self.node.boot_mode, self.node.secure_boot))

    def test_is_turned_on_alone(self):
        self.server.image = self.uefi['id']
        self.ask()
        self.prepare()
        self.assert_sent()
        self.secure_boot()
        self.assert_wiped('rebuild', image=self.secure['id'])
        self.assertIs(True, self.node.secure_boot)

    def test_disk_that_was_written_stays(self):
        self.server.image = self.uefi['id']
        self.ask(deploy_step={'interface': 'deploy',
                              'step': 'prepare_instance_boot'})
        self.assert_refused(self.secure_boot, self.server.id,
                            'has UEFI and not UEFI with secure boot')

    def test_mode_of_a_server_that_has_it_is_right(self):
        self.server.image = self.secure['id']
        self.set_mode('uefi')
        self.assert_sent()

    def test_tear_down_leaves_it_on(self):
        self.server.image = self.secure['id']
        self.ask()
        self.set_node(provision_state=states.DELETING)
        with self.acquire() as task:
            boot_mode_utils.deconfigure_secure_boot_if_needed(task)
        self.assert_sent()


class ImageTestCase(FirmwareTestCase):

    def test_that_of_the_node(self):
        own = self.host_cloud.add_empty_image('own', hw_firmware_type='uefi')
        self.set_driver_info(quintupleo_empty_image='own')
        self.set_mode('uefi')
        self.assert_wiped('rebuild', image=own['id'])

    def test_configured_names(self):
        for option, image, mode in (('uefi', self.uefi, 'uefi'),
                                    ('bios', self.bios, 'bios')):
            self.config(**{f'empty_image_{option}': image['id']},
                        group='quintupleo')
            image['name'] = 'another'
            self.set_mode(mode)
            self.assertEqual(image['id'], self.server.image)

    def test_missing_one_is_told_with_the_command_that_makes_it(self):
        for image, call, words in (
                (self.uefi, lambda: self.set_mode('uefi'),
                 ('empty_image_uefi', '"openstack quintupleo image create"')),
                (self.secure, self.secure_boot,
                 ('empty_image_secure_boot',
                  '"openstack quintupleo image create --secure-boot"'))):
            del self.host_cloud.images[image['id']]
            self.set_node(instance_info={
                'capabilities': {'secure_boot': 'true'}}
                if image is self.secure else {})
            self.assert_refused(call, *words,
                                error=exception.DriverOperationError)

    def test_one_that_makes_another_machine(self):
        for properties, words in (
                ({'hw_firmware_type': 'bios'}, 'BIOS and not UEFI'),
                ({'os_secure_boot': 'required'},
                 'UEFI with secure boot and not UEFI'),
                ({'status': 'queued'}, "'queued'")):
            self.host_cloud.images[self.uefi['id']] = {
                **self.uefi, **properties}
            self.assert_refused(lambda: self.set_mode('uefi'),
                                'empty_image_uefi', words,
                                error=exception.DriverOperationError)

    def test_one_without_secure_boot(self):
        del self.secure['os_secure_boot']
        self.set_node(instance_info={'capabilities': {'secure_boot': 'true'}})
        self.assert_refused(self.secure_boot, 'UEFI and not UEFI with secure',
                            error=exception.DriverOperationError)

    def test_architecture_that_has_no_bios(self):
        self.server.image = self.host_cloud.add_image(
            'arm', hw_architecture='aarch64')['id']
        self.assertEqual('uefi', self.get_mode())
        self.assert_refused(lambda: self.set_mode('bios'),
                            'UEFI and not BIOS',
                            error=exception.DriverOperationError)


class ServersTestCase(FirmwareTestCase):
    """Servers that Nova does not rebuild, or only on conditions."""

    def boot_from_volume(self):
        self.server.image = None
        self.server.volumes = (self.host_cloud.add_volume(self.bios),)

    def refuse(self, *parts):
        self.assert_refused(lambda: self.set_mode('uefi'), self.server.id,
                            'cannot be switched to UEFI', *parts,
                            error=exception.DriverOperationError)

    def test_virtual_tpm(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.refuse('TPM')

    def test_network_first_server(self):
        self.server.image = self.host_cloud.add_image(
            'first', quintupleo_boot='network-first')['id']
        self.server.volumes = (self.host_cloud.add_volume(),)
        self.refuse('beside the CD')

    def test_numa_is_novas_to_refuse(self):
        self.host_cloud.fail('POST', '/action$', (
            400, 'An instance cannot be rebuilt with an image that would '
            'change its NUMA constraints'), times=9)
        self.assert_refused(lambda: self.set_mode('uefi'), 'NUMA',
                            error=exception.DriverOperationError)

    def test_volume_that_the_compute_api_does_not_rebuild(self):
        self.host_cloud.microversion = '2.92'
        self.boot_from_volume()
        self.refuse('2.92', '2.93')

    def test_volume_that_nothing_says_to_be_replaced(self):
        self.boot_from_volume()
        self.refuse('[quintupleo]rebuild_replaces_volumes')

    def test_volume_that_is_replaced(self):
        self.boot_from_volume()
        self.config(rebuild_replaces_volumes=True, group='quintupleo')
        for mode in ('uefi', 'bios'):
            self.set_mode(mode)
            # What Cinder has told of it before is not used any more.
            self.assertEqual(mode, self.get_mode())
        self.assert_sent('rebuild', 'rebuild')

    def test_volume_of_an_image_that_is_network_first(self):
        self.boot_from_volume()
        self.config(rebuild_replaces_volumes=True, group='quintupleo')
        self.uefi['quintupleo_boot'] = 'network-first'
        self.set_mode('uefi')
        self.host_cloud.forget_requests()
        self.assert_refused(lambda: self.set_mode('bios'), 'beside the CD',
                            error=exception.DriverOperationError)

    def test_failed_rebuild_is_told(self):
        self.host_cloud.fail_action('rebuild', 'Out of rabbits')
        error = self.refused(self.set_mode, 'uefi')
        self.assert_says(error, 'Out of rabbits')


class StepTestCase(FirmwareTestCase):

    def test_is_a_clean_step_that_operators_choose(self):
        with self.acquire(shared=True) as task:
            management = task.driver.management
            step = next(each for each in management.get_clean_steps(task)
                        if each['step'] == 'change_boot_mode')
            self.assertEqual((0, False), (step['priority'],
                                          step['requires_ramdisk']))
            self.assertNotIn('change_boot_mode', [
                each['step'] for each in management.get_service_steps(task)])

    def test_each_firmware(self):
        for arguments, image, told in (
                ({'boot_mode': 'uefi'}, self.uefi, ('uefi', False)),
                ({'boot_mode': 'uefi', 'secure_boot': True}, self.secure,
                 ('uefi', True)),
                ({'boot_mode': 'uefi'}, self.uefi, ('uefi', False)),
                ({'boot_mode': 'bios', 'secure_boot': False}, self.bios,
                 ('bios', None))):
            self.host_cloud.forget_requests()
            self.clean(**arguments)
            self.assert_wiped('rebuild', image=image['id'])
            with self.acquire() as task:
                # Since Ironic 26.1 the end of a cleaning does so.
                conductor_utils.node_cache_boot_mode(task)
                self.assertEqual(told, (task.node.boot_mode,
                                        task.node.secure_boot))

    def test_server_that_has_it_is_left_alone(self):
        self.clean(boot_mode='bios')
        self.assert_sent()
        self.assertNotEqual('', self.server.content)

    def test_next_deployment_keeps_it(self):
        # So Ironic notes what the machine was before.
        self.prepare()
        self.clean(boot_mode='uefi')
        self.set_node(provision_state=states.DEPLOYING)
        self.prepare()
        self.assert_sent('rebuild')
        self.assertEqual('uefi', self.get_mode())

    def test_firmware_that_is_not_known(self):
        self.host_cloud.microversion = '2.93'
        del self.host_cloud.images[self.server.image]
        self.clean(boot_mode='uefi')
        self.assert_wiped('rebuild', image=self.uefi['id'])

    def test_wrong_arguments(self):
        for arguments in ({'boot_mode': 'legacy'}, {'boot_mode': None},
                          {'boot_mode': 'bios', 'secure_boot': True},
                          {'boot_mode': 'uefi', 'secure_boot': 'true'}):
            self.clean(states.CLEANFAIL, **arguments)
            self.assert_says(self.node.last_error, self.node.uuid,
                             "'bios' or 'uefi'")
        self.assert_sent()

    def test_flavor_that_decides(self):
        self.server.image = self.uefi['id']
        self.server.extra_specs = {'os:secure_boot': 'required'}
        self.clean(states.CLEANFAIL, boot_mode='uefi')
        self.assert_says(self.node.last_error,
                         'UEFI with secure boot and not UEFI')
        self.assert_sent()

    def test_needs_the_lock(self):
        with self.acquire(shared=True) as task:
            self.assertRaises(exception.ExclusiveLockRequired,
                              task.driver.management.change_boot_mode, task,
                              'uefi')
        self.assert_sent()
