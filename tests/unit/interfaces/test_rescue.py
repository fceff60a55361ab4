# SPDX-License-Identifier: Apache-2.0
"""What is refused before an instance is powered off for an agent."""

from unittest import mock

import fixtures
from ironic.common import exception
from ironic.common import states

from tests.unit.interfaces import test_flows
from tests.unit import nova_model

RUNNING = nova_model.RUNNING


class RescueTestCase(test_flows.FlowTestCase):
    """An instance that was deployed by a rebuild, with Ironic's rescue."""

    def setUp(self):
        super().setUp()
        self.config(enabled_rescue_interfaces=['agent', 'no-rescue'])
        self.set_node(rescue_interface='agent')
        self.useFixture(test_flows.AgentFixture(self))
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.pxe_base.PXEBaseMixin.validate_rescue'))
        self.run_instance()

    def rescue(self):
        return self.request(self.manager.do_node_rescue, 'secret')

    def assert_refused(self, error, *parts):
        self.assert_says(error, self.node.uuid, *parts)
        self.assert_in(states.ACTIVE)
        self.assertNotIn('rescue_password', self.node.instance_info)
        self.assert_sent()
        self.assert_server_is('active', RUNNING)

    def remove_rescue_image(self):
        del self.host_cloud.images[self.rescue_image['id']]
        self.forget_clouds()

    def hide_volumes(self):
        """Let nothing tell whether the server is a network-first one."""
        self.server.volumes = (self.host_cloud.add_volume(
            self.host_cloud.images[self.server.image]),)
        self.server.image = None
        self.host_cloud.fail('GET', '/volumes/', 403, times=10 ** 6)
        self.forget_clouds()

    def test_without_a_rescue_image(self):
        self.remove_rescue_image()
        self.assert_refused(self.rescue(), 'rescue image')

    def test_server_that_nova_does_not_rescue(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.assert_refused(self.rescue(), self.server.id, 'TPM')

    def test_virtual_media_of_a_server_that_nova_does_not_rescue(self):
        self.set_node(boot_interface='quintupleo-virtual-media')
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        with mock.patch('quintupleo_power.interfaces.boot.'
                        'QuintupleoVirtualMediaBoot.validate_rescue',
                        autospec=True):
            self.assert_refused(self.rescue(), self.server.id, 'TPM')

    def test_server_that_may_be_network_first(self):
        self.hide_volumes()
        self.assert_refused(self.rescue(), self.server.id,
                            'is not known')
        # What takes no rescue goes on.
        self.request(self.manager.change_node_power_state, states.POWER_OFF)
        self.assertEqual(states.POWER_OFF, self.node.power_state)

    def test_service_by_an_agent_of_such_a_server(self):
        self.hide_volumes()
        self.set_node(deploy_interface='direct')
        self.request(self.manager.do_node_service, [
            {'interface': 'deploy', 'step': 'burn'}])
        self.assert_in(states.SERVICEFAIL, self.server.id, 'is not known')
        self.assert_server_is('active', RUNNING)

    def test_with_all_that_it_takes(self):
        self.assertIsNone(self.rescue())
        self.assert_in(states.RESCUEWAIT)

    def test_rescued_instance_can_go_without_an_image(self):
        self.rescue()
        self.set_node(provision_state=states.RESCUE,
                      target_provision_state=None)
        self.remove_rescue_image()
        self.undeploy()
        self.assert_clean()


class ReplacedInstanceTestCase(test_flows.FlowTestCase):
    """An instance that is deployed again, with another image."""

    def setUp(self):
        super().setUp()
        self.run_instance()

    def rebuild(self):
        try:
            return self.request(self.manager.do_node_deploy, rebuild=True)
        finally:
            self.assert_server_is('active', RUNNING)

    def test_image_that_cannot_be_had(self):
        self.add_instance_info(image_os_hash_value='f' * 64)
        self.useFixture(fixtures.MockPatch(
            'ironic.drivers.modules.deploy_utils.cache_instance_image',
            side_effect=exception.ImageDownloadFailed(
                image_href='x', reason='gone')))
        self.rebuild()
        self.assert_in(states.DEPLOYFAIL, 'gone')
        self.assert_sent()

    def test_image_that_does_not_fit(self):
        image, = self.uploaded()
        image['virtual_size'] = 21 * 2 ** 30
        self.rebuild()
        self.assert_in(states.DEPLOYFAIL, '21 GiB', '20 GiB')
        self.assert_sent()

    def test_image_that_fits(self):
        self.assertIsNone(self.rebuild())
        self.assert_in(states.ACTIVE)
        self.assert_sent('stop', 'rebuild', 'start')
