# SPDX-License-Identifier: Apache-2.0
"""Flows without an agent, by the conductor's own methods."""

from unittest import mock

from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic import objects
from ironic.tests.unit.objects import utils as objects_utils

from tests.unit import console_proxy
from tests.unit.contract import contracts
from tests.unit.contract import installed
from tests.unit.contract import lab
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
WIPE = {'interface': 'management', 'step': 'wipe_disk'}
since = installed.since


class ManagedTestCase(lab.LabTestCase):
    """From a node that was just enrolled to one that has an instance."""

    def test_verification(self):
        self.set_node(provision_state=states.ENROLL, power_state=None)
        self.assertIsNone(self.do('manage'))
        self.assert_in(states.MANAGEABLE)
        self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_verification_of_a_node_whose_server_is_not_there(self):
        self.set_node(provision_state=states.ENROLL)
        self.set_server('deleted')
        self.do('manage')
        self.assert_in(states.ENROLL, self.server.id)

    def test_adoption(self):
        self.set_server('active', RUNNING)
        self.set_node(provision_state=states.MANAGEABLE,
                      power_state=states.POWER_ON)
        self.assertIsNone(self.do('adopt'))
        self.assert_in(states.ACTIVE)
        self.assert_sent()
        self.assert_server_is('active', RUNNING)

    def test_adoption_of_what_an_agent_would_have_deployed(self):
        self.set_server('active', RUNNING)
        self.set_node(provision_state=states.MANAGEABLE,
                      power_state=states.POWER_ON, deploy_interface='direct')
        self.assertIsNone(self.do('adopt'))
        self.assert_in(states.ACTIVE)
        self.assert_sent()
        self.assert_server_is('active', RUNNING)

    def test_rebuild_of_an_instance(self):
        self.deploy_by_rebuild()
        self.server.content = 'what the instance wrote'
        self.assertIsNone(self.request(self.manager.do_node_deploy,
                                       rebuild=True))
        self.assert_in(states.ACTIVE)
        self.assertEqual('a deployed system', self.server.content)
        self.assertEqual(['tenant'], self.networks())

    def test_volumes_of_an_instance_are_attached_or_refused(self):
        objects_utils.create_test_volume_target(
            self.context, node_id=self.node.id, boot_index=1)
        self.attach_vif()
        with mock.patch('ironic.drivers.modules.storage.noop.NoopStorage.'
                        'attach_volumes', autospec=True) as attach:
            refusal = self.deploy()
        self.assertTrue(refusal or attach.called)

    def test_undeployment_and_cleaning_leave_no_network(self):
        self.deploy_by_rebuild()
        self.assertEqual(['tenant'], self.networks())
        self.assertIsNone(self.undeploy())
        self.assert_clean()
        self.assertEqual([], self.networks())


class TakeOverTestCase(lab.LabTestCase):
    """Another conductor becomes the one of a node."""

    def take_over(self):
        with self.acquire() as task:
            self.manager._do_takeover(task)
        self.node.refresh()
        self.assertEqual(self.manager.conductor.id,
                         self.node.conductor_affinity)

    def test_of_an_instance(self):
        for interface in (lab.REBUILD, 'direct'):
            self.set_server('active', RUNNING)
            self.set_node(provision_state=states.ACTIVE, console_enabled=True,
                          deploy_interface=interface,
                          power_state=states.POWER_ON, conductor_affinity=None)
            self.take_over()
            self.assertTrue(self.node.console_enabled)
            self.assert_sent()
            self.assert_server_is('active', RUNNING)


class ManualCleaningTestCase(lab.LabTestCase):

    def setUp(self):
        super().setUp()
        self.set_node(provision_state=states.MANAGEABLE,
                      deploy_interface='direct')

    def test_with_a_step_that_needs_no_ramdisk(self):
        self.assertIsNone(self.request(
            self.manager.do_node_clean, [dict(WIPE)], disable_ramdisk=True))
        self.assert_in(states.MANAGEABLE)
        self.assertEqual('', self.server.content)
        self.assertEqual([], self.networks())

    def test_snapshot_and_restore(self):
        for step in ('snapshot', 'restore', 'delete_snapshot'):
            self.request(self.manager.do_node_clean, [
                {'interface': 'management', 'step': step,
                 'args': {'name': 'a'}}], disable_ramdisk=True)
            self.assert_in(states.MANAGEABLE)

    @since('26.1')
    def test_by_a_runbook(self):
        objects_utils.create_test_runbook(
            self.context, name='CUSTOM_WIPE', steps=[
                {**WIPE, 'args': {}, 'order': 1}], disable_ramdisk=True)
        # As the API does.
        runbook = objects.Runbook.get_by_name(self.context, 'CUSTOM_WIPE')
        self.request(self.manager.do_node_clean, [
            {key: step[key] for key in ('interface', 'step', 'args')}
            for step in runbook.steps], runbook.disable_ramdisk)
        self.assert_in(states.MANAGEABLE)
        self.assertEqual('', self.server.content)


class ServiceTestCase(lab.LabTestCase):
    """Steps on an instance, whoever has deployed it."""

    def test_step_that_needs_no_ramdisk(self):
        for interface in (lab.REBUILD, 'direct'):
            self.set_server('active', RUNNING)
            self.set_node(provision_state=states.ACTIVE,
                          deploy_interface=interface)
            self.request(self.manager.do_node_service, [
                {'interface': 'management', 'step': 'snapshot',
                 'args': {'name': interface}}], disable_ramdisk=True)
            self.assert_in(states.ACTIVE)
            self.assert_server_is('active', RUNNING)


class RescueTestCase(lab.LabTestCase):
    """Ironic's rescue where no agent has deployed."""

    def setUp(self):
        super().setUp()
        self.deploy_by_rebuild()
        self.set_node(rescue_interface='agent', boot_interface='pxe')

    def test_without_a_rescue_image_is_refused_at_once(self):
        del self.host_cloud.images[self.rescue_image['id']]
        with mock.patch('ironic.drivers.modules.pxe_base.PXEBaseMixin.'
                        'validate', autospec=True), mock.patch(
                'ironic.drivers.modules.pxe_base.PXEBaseMixin.'
                'validate_rescue', autospec=True):
            self.assertIsInstance(
                self.request(self.manager.do_node_rescue, 'open'),
                exception.InstanceRescueFailure)
        self.assert_in(states.ACTIVE)
        self.assert_server_is('active', RUNNING)


class DisablePowerOffTestCase(lab.LabTestCase):
    """A node that must never be off: what cannot be is refused, by validate.

    Whatever the driver decides, Nova stops no server.
    """

    pytestmark = since('29')

    def setUp(self):
        super().setUp()
        self.attach_vif()
        self.set_server('active', RUNNING)
        self.set_node(disable_power_off=True, power_state=states.POWER_ON)

    def assert_never_off(self):
        self.assertNotIn('stop', self.host_cloud.sent)
        self.assertNotEqual(SHUTDOWN, self.server.power_state)

    def test_deployment_is_refused_or_done(self):
        if self.deploy() is None:
            self.assert_in(states.ACTIVE)
        self.assert_never_off()
        self.assertIn(self.node.provision_state,
                      (states.ACTIVE, states.AVAILABLE))

    def test_snapshot_stops_nothing(self):
        self.set_node(provision_state=states.ACTIVE)
        self.request(self.manager.do_node_service, [
            {'interface': 'management', 'step': 'snapshot',
             'args': {'name': 'a'}}], disable_ramdisk=True)
        self.assert_never_off()

    def test_wiped_disk_leaves_it_on(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.request(self.manager.do_node_clean, [dict(WIPE)],
                     disable_ramdisk=True)
        self.assert_never_off()


class AutodetectTestCase(lab.LabTestCase):
    """Ironic chooses among deploy interfaces, by supports_deploy."""

    pytestmark = since('35')

    def setUp(self):
        super().setUp()
        self.config(
            enabled_deploy_interfaces=['autodetect', 'direct', lab.REBUILD],
            autodetect_deploy_interfaces=[lab.REBUILD, 'direct'])
        self.set_node(deploy_interface='autodetect')

    def chosen(self):
        # As start_deploy does.
        with self.acquire() as task:
            conductor_utils.update_image_type(task.context, task.node)
            task.driver.deploy.switch_interface(task)
            return task.node.deploy_interface

    def test_whole_disk_image_is_rebuilt(self):
        self.attach_vif()
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.assertIn('rebuild', self.host_cloud.sent)

    def test_partition_image_is_left_to_the_agent(self):
        self.set_instance(image_type='partition')
        self.assertEqual('direct', self.chosen())

    def test_container_is_left_to_another(self):
        self.set_instance(image_source='oci://registry.test/a:b')
        self.assertEqual('direct', self.chosen())

    def test_choice_ends_with_the_instance(self):
        self.attach_vif()
        self.deploy()
        self.undeploy()
        self.assertEqual('autodetect', self.node.deploy_interface)


class PowerTestCase(lab.LabTestCase):
    """Requests of the API that are not about provisioning."""

    def test_power(self):
        for target, state in (
                (states.POWER_ON, states.POWER_ON),
                (states.REBOOT, states.POWER_ON),
                (states.SOFT_REBOOT, states.POWER_ON),
                (states.SOFT_POWER_OFF, states.POWER_OFF)):
            self.assertIsNone(self.request(
                self.manager.change_node_power_state, target))
            self.assertEqual(state, self.node.power_state)
            self.assertIsNone(self.node.target_power_state)

    def test_management(self):
        manager, node_id = self.manager, self.node.uuid
        self.assertIsNone(self.request(manager.set_boot_device, 'pxe'))
        self.assertEqual(
            {'boot_device': 'pxe', 'persistent': False},
            manager.get_boot_device(self.context, node_id))
        self.assertEqual(
            {'pxe', 'disk', 'cdrom'},
            set(manager.get_supported_boot_devices(self.context, node_id)))
        self.assertIsNone(self.request(manager.change_node_boot_mode, 'bios'))
        self.assertIsInstance(
            self.request(manager.get_supported_indicators),
            exception.UnsupportedDriverExtension)
        self.set_server('active', RUNNING)
        self.assertIsNone(self.request(manager.inject_nmi))
        self.assert_sent('trigger_crash_dump')

    def test_virtual_media(self):
        # The default of all but the oldest release.
        self.config(group='redfish', use_swift=False)
        self.set_node(provision_state=states.MANAGEABLE)
        self.assertIsNone(self.request(
            self.manager.attach_virtual_media, 'cdrom',
            'http://web.test/boot.iso', 'http'))
        self.assertEqual(1, len(self.media()), self.node.last_error)
        if contracts.is_in(installed.RELEASE, '26.1'):
            found, = self.manager.get_virtual_media(self.context,
                                                    self.node.uuid)
            self.assertTrue(found['inserted'])
        self.assertIsNone(self.request(self.manager.detach_virtual_media))
        self.assertEqual([], self.media())

    def test_console_at_a_port_of_the_conductor(self):
        self.useFixture(console_proxy.ConsoleProxy(self.host_cloud))
        self.config(enabled_console_interfaces=['quintupleo-serial'])
        self.set_node(console_interface='quintupleo-serial')
        found = []
        # As Nova does before each connection of a user.
        for enabled in (True, False, True):
            self.assertIsNone(self.request(self.manager.set_console_mode,
                                           enabled))
            self.assertEqual(enabled, self.node.console_enabled)
            if enabled:
                found.append(self.manager.get_console_information(
                    self.context, self.node.uuid))
        self.assertEqual(found[0], found[1])
        self.assertIsNone(self.request(self.manager.set_console_mode, False))

    def test_console_and_vendor(self):
        self.set_server('active', RUNNING)
        self.server.console_log = 'login:'
        self.assertIsNone(self.request(self.manager.set_console_mode, True))
        self.assertTrue(self.node.console_enabled)
        self.assertEqual('vnc', self.manager.get_console_information(
            self.context, self.node.uuid)['type'])
        self.assertEqual(
            {'output': 'login:'}, self.manager.vendor_passthru(
                self.context, self.node.uuid, 'console_log', 'GET', {})[
                    'return'])

    def test_validation_of_all_interfaces(self):
        self.attach_vif()
        found = self.manager.validate_driver_interfaces(self.context,
                                                        self.node.uuid)
        self.assertEqual({}, {
            kind: found[kind] for kind in installed.OURS
            # Methods of vendors are validated one by one.
            if kind != 'vendor' and found[kind]['result'] is False})

    def test_vifs(self):
        self.attach_vif()
        self.assertEqual([{'id': self.vif}], self.manager.vif_list(
            self.context, self.node.uuid))
        self.assertIsInstance(
            self.request(self.manager.vif_attach, {'id': self.vif}),
            exception.VifAlreadyAttached)
        self.assertIsNone(self.request(self.manager.vif_detach, self.vif))

    def test_port_whose_address_changes(self):
        self.attach_vif()
        self.port.refresh()
        self.port.address = '20:57:f8:00:00:02'
        try:
            self.manager.update_port(self.context, self.port)
        except Exception as exc:  # noqa: BLE001
            self.assertIsInstance(exc.exc_info[1], exception.Conflict)

    def test_deletion_of_the_node(self):
        self.set_node(provision_state=states.MANAGEABLE)
        self.manager.destroy_node(self.context, self.node.uuid)
        self.assert_sent()
