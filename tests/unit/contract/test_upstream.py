# SPDX-License-Identifier: Apache-2.0
"""What doc/source/contributor/upstream.rst says of Ironic is so.

A test that fails here says that Ironic has changed: the section, and what
works around it, may go for that release.
"""

import functools
from unittest import mock

from ironic.api.controllers.v1 import ramdisk
from ironic.common import image_service
from ironic.common import images
from ironic.common import states
from ironic.conductor import base_manager
from ironic.conductor import steps as conductor_steps
from ironic.drivers import base
from ironic.drivers.modules import image_utils
from ironic.drivers.modules.network import common

from tests.unit import base as unit_base
from tests.unit.contract import contracts
from tests.unit.contract import installed

UNKNOWN = {'interface': 'deploy', 'step': 'write_poetry', 'args': {},
           'priority': 50}
HOLD = {'interface': 'power', 'step': 'hold'}
CHILD = {'interface': 'management', 'step': 'wipe_disk',
         'execute_on_child_nodes': True}
WIPE = {'interface': 'management', 'step': 'wipe_disk'}


class StepsTestCase(unit_base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.node.deploy_interface = 'quintupleo-rebuild'
        self.node.save()

    def test_deploy_steps_that_no_interface_has_are_dropped(self):
        with self.acquire() as task:
            task.node.set_driver_internal_info('user_deploy_steps', [UNKNOWN])
            conductor_steps.set_node_deployment_steps(task, skip_missing=True)
            step, = task.node.driver_internal_info['deploy_steps']
        self.assertEqual('deploy', step['step'])

    def test_image_in_a_file_has_no_url(self):
        with mock.patch.object(
                image_service.FileImageService, 'validate_href',
                autospec=True, return_value='/images/debian.raw'):
            check = functools.partial(images.is_whole_disk_image,
                                      self.context)
            source = {'image_source': 'file:///images/debian.raw'}
            if contracts.is_in(installed.RELEASE, '32'):
                self.assertRaises(AttributeError, check, source)
            self.assertTrue(check({**source, 'image_type': 'whole-disk'}))

    def test_service_runs_any_method(self):
        with self.acquire() as task:
            self.assertIsNone(
                base.DeployInterface.prepare_service(mock.Mock(), task))
            with mock.patch.object(task.driver.power, 'set_power_state',
                                   autospec=True) as method:
                task.driver.power.execute_service_step(task, {
                    'interface': 'power', 'step': 'set_power_state',
                    'args': {'power_state': states.POWER_OFF}})
            method.assert_called_once_with(task,
                                           power_state=states.POWER_OFF)

    def test_steps_of_the_conductor_and_for_child_nodes_are_dropped(self):
        asked_for = [CHILD, WIPE]
        if contracts.is_in(installed.RELEASE, '26.1'):
            asked_for.insert(0, HOLD)
        for kind, function, options in (
                ('clean', conductor_steps.set_node_cleaning_steps,
                 self.cleaning_options()),
                ('service', conductor_steps.set_node_service_steps, {})):
            with self.acquire() as task:
                task.node.target_provision_state = states.MANAGEABLE
                task.node.set_driver_internal_info(
                    f'{kind}_steps', [dict(step) for step in asked_for])
                function(task, disable_ramdisk=True, **options)
                kept = task.node.driver_internal_info[f'{kind}_steps']
            self.assertEqual(['wipe_disk'], [step['step'] for step in kept])

    @staticmethod
    def cleaning_options():
        # Before, what is manual told itself from the target state.
        if contracts.is_in(installed.RELEASE, '32'):
            return {'use_existing_steps': True}
        return {}


@installed.since('35')
def test_restore_interface_does_nothing_before_39():
    node = mock.Mock(driver_internal_info={
        'original_deploy_interface': 'autodetect'}, deploy_interface='direct')
    base.DeployInterface.restore_interface(mock.Mock(), mock.Mock(node=node))

    assert node.deploy_interface == (
        'autodetect' if contracts.is_in(installed.RELEASE, '39')
        else 'direct')


@installed.since('35')
def test_agent_looks_for_a_bmc_unless_ironic_knows_the_interface_by_name():
    for interface, skips in (('quintupleo', False), ('redfish', True)):
        node = mock.Mock(management_interface=interface)
        assert ramdisk.config('', node)['agent_skip_bmc_detect'] is skips


def test_private_names_are_there():
    assert callable(base_manager.BaseConductorManager._spawn_worker)
    assert callable(image_utils.ImageHandler.update_driver_config)
    for name in ('_save_vif_to_port_like_obj', '_clear_vif_from_port_like_obj',
                 '_get_port_like_obj_by_vif_id'):
        assert callable(getattr(common.VIFPortIDMixin, name))


class PreviousStateTestCase(unit_base.DriverTestCase):

    def test_task_keeps_it_by_a_private_name(self):
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        with self.acquire() as task:
            self.assertFalse(hasattr(task, 'previous_provision_state'))
            task.process_event('clean')
            self.assertEqual(states.MANAGEABLE, task._prev_provision_state)


@installed.since('39')
def test_files_of_a_user_go_by_the_hardware_types_name():
    assert image_utils.ImageHandler._legacy_settings('quintupleo') is None
    assert image_utils.ImageHandler._legacy_settings('redfish') is not None
