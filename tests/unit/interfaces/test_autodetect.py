# SPDX-License-Identifier: Apache-2.0
"""Ironic's deploy interface autodetect, which asks quintupleo-rebuild."""

import contextlib
from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.drivers import base
from ironic.drivers.modules import agent_base
import pytest

from tests.unit.interfaces import test_deploy
from tests.unit.interfaces import test_flows

GLANCE = test_deploy.GLANCE
GIB = 2 ** 30


class SupportTestCase(test_deploy.DeployTestCase):
    """What is deployed by a rebuild, as far as that is known before."""

    def supports(self):
        with self.acquire(shared=True) as task:
            supports = task.driver.deploy.supports_deploy(task)
            # One goes by the other.
            with (contextlib.nullcontext() if supports else
                  pytest.raises(Exception)):
                task.driver.deploy.validate(task)
        return supports

    def set_glance(self, **image):
        self.set_instance(image_source=GLANCE, image_os_hash_value=None,
                          image_os_hash_algo=None)
        self.useFixture(fixtures.MockPatch(
            'ironic.common.images.image_show', return_value=image))

    def test_image_of_a_whole_disk(self):
        self.assertTrue(self.supports())

    def test_instances_that_a_rebuild_does_not_deploy(self):
        for values in ({'image_source': None}, {'image_source': 'oci://x/y'},
                       {'image_os_hash_value': None},
                       {'image_disk_format': 'vmdk'},
                       {'configdrive': {'vendor_data': {'a': 1}}}):
            self.set_instance(**values)
            self.assertFalse(self.supports(), values)
        self.node.instance_info = {}
        self.node.save()
        self.assertFalse(self.supports())

    def test_image_of_a_partition(self):
        self.node.set_driver_internal_info('is_whole_disk_image', False)
        self.node.save()
        self.assertFalse(self.supports())

    def test_formats_of_glance(self):
        for disk_format, supports in (('raw', True), ('qcow2', True),
                                      ('vmdk', False), ('iso', False)):
            self.set_glance(disk_format=disk_format)
            self.assertEqual(supports, self.supports(), disk_format)

    def test_sizes_of_glance(self):
        for values, supports in (({'size': 20 * GIB}, True),
                                 ({'size': 20 * GIB + 1}, False),
                                 ({'min_disk': 20}, True),
                                 ({'min_disk': 21}, False),
                                 ({'properties': {
                                     'virtual_size': 20 * GIB}}, True),
                                 ({'properties': {
                                     'virtual_size': 21 * GIB}}, False)):
            self.set_glance(**values)
            self.assertEqual(supports, self.supports(), values)

    def test_size_is_that_of_the_volume_that_a_server_boots_from(self):
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.images[self.server.image], size=10),)
        self.server.image = None
        for size, supports in ((10, True), (11, False)):
            self.set_glance(size=size * GIB)
            self.assertEqual(supports, self.supports(), size)

    def test_disk_that_is_as_large_as_its_image(self):
        self.server.disk = 0
        self.set_glance(size=21 * GIB)
        self.assertTrue(self.supports())

    def test_flavor_that_is_gone(self):
        self.host_cloud.microversion = '2.46'
        self.forget_clouds()
        self.host_cloud.fail('GET', '/flavors/', 404, times=9)
        self.set_glance(size=21 * GIB)
        self.assertTrue(self.supports())

    def test_glance_that_cannot_be_asked(self):
        for error in (exception.ImageNotFound(image_id=GLANCE),
                      exception.GlanceConnectionFailed(
                          endpoint='x', reason='y')):
            self.set_instance(image_source=GLANCE)
            with mock.patch('ironic.common.images.image_show', autospec=True,
                            side_effect=error):
                self.assertFalse(self.supports())
                found = self.assertRaises(
                    exception.InvalidParameterValue, self.check)
                self.assert_says(found, self.node.uuid, 'cannot be read')
        # No service is configured in these tests.
        self.assertFalse(self.supports())

    def test_host_cloud_that_is_away(self):
        self.host_cloud.fail('GET', '/servers/', 503, times=10 ** 6)
        self.assertFalse(self.supports())

    def test_server_that_nova_does_not_rebuild(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.assertFalse(self.supports())

    def test_bug_is_no_reason_to_fail(self):
        with mock.patch('quintupleo_power.rebuild.source_image.validate',
                        autospec=True, side_effect=ZeroDivisionError):
            self.assertFalse(self.supports())


class AutodetectTestCase(test_flows.FlowTestCase):

    pytestmark = pytest.mark.newest

    def setUp(self):
        super().setUp()
        self.config(
            enabled_deploy_interfaces=['autodetect', 'direct', 'ramdisk',
                                       'quintupleo-rebuild'],
            autodetect_deploy_interfaces=['ramdisk', 'quintupleo-rebuild',
                                          'direct'])
        self.set_node(deploy_interface='autodetect')
        self.useFixture(test_flows.AgentFixture(self))

    def assert_by_agent(self):
        """Check that the deployment was begun with direct."""
        with mock.patch('ironic.drivers.modules.agent.AgentDeploy.validate',
                        autospec=True, side_effect=exception
                        .InvalidParameterValue('not in this test')):
            self.assertIn('not in this test', str(self.deploy()))
        self.assertEqual('direct', self.node.deploy_interface)

    def test_image_of_a_whole_disk(self):
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.assertEqual('quintupleo-rebuild', self.node.deploy_interface)
        self.undeploy()
        self.assert_clean()
        self.assertEqual('autodetect', self.node.deploy_interface)
        self.assert_sent('rebuild', 'start', 'stop', 'rebuild')

    def test_what_a_rebuild_does_not_deploy(self):
        for values in ({'image_type': 'partition'},
                       {'image_os_hash_value': None},
                       {'image_disk_format': 'vmdk'}):
            self.set_node(deploy_interface='autodetect')
            self.set_instance(image_type='whole-disk')
            self.add_instance_info(**values)
            self.assert_by_agent()

    def test_release_that_restores_the_interfaces_of_agents_only(self):
        restore = getattr(agent_base.AgentBaseMixin, 'restore_interface',
                          base.DeployInterface.restore_interface)
        with mock.patch.object(agent_base.AgentBaseMixin, 'restore_interface',
                               restore, create=True), (
                mock.patch.object(base.DeployInterface, 'restore_interface',
                                  autospec=True)):
            self.deploy()
            self.undeploy()
        self.assertEqual('autodetect', self.node.deploy_interface)
