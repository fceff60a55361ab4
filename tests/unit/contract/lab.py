# SPDX-License-Identifier: Apache-2.0
"""A node with every interface of this driver, a conductor, and its clouds."""

import fixtures
from ironic.common import states
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

from tests.unit.interfaces import test_flows
from tests.unit.media import test_virtual_media

MAC = '20:57:f8:00:00:01'
REBUILD = test_flows.REBUILD


class LabTestCase(test_flows.FlowTestCase,
                  test_virtual_media.VirtualMediaTestCase):
    """The node is available, off, and deployed by rebuild."""

    def setUp(self):
        super().setUp()
        self.config(enabled_inspect_interfaces=['quintupleo', 'agent'],
                    enabled_rescue_interfaces=['no-rescue', 'agent'])
        for name in ('provision', 'tenant'):
            self.host_cloud.add_network(name)
        self.config(group='quintupleo', provisioning_network='provision')
        self.useFixture(fixtures.MockPatch(
            'ironic.common.images.fetch', self.fetch))
        self.set_node(network_interface='quintupleo')
        self.port = objects_utils.create_test_port(
            self.context, node_id=self.node.id, address=MAC,
            uuid=uuidutils.generate_uuid(), internal_info={}, extra={},
            local_link_connection={}, physical_network=None)
        self.vif = self.host_cloud.add_neutron_port(
            'fa:16:3e:00:00:07', fixed_ips=[],
            network_id=self.network('tenant'))['id']

    @staticmethod
    def fetch(context, href, path, *args, **kwargs):
        """What Ironic does with an ISO of a user's."""
        with open(path, 'wb') as iso:
            iso.write(href.encode())

    def network(self, name):
        """Return the UUID of a network of the host cloud."""
        return next(each['id'] for each in self.host_cloud.networks.values()
                    if each['name'] == name)

    def networks(self):
        """List the names of the networks that the server is on."""
        names = {each['id']: each['name']
                 for each in self.host_cloud.networks.values()}
        return [names[port['net_id']] for _, port in self.host_cloud.ports]

    def attach_vif(self):
        """Give the instance its network, as a user does."""
        self.assertIsNone(self.request(self.manager.vif_attach,
                                       {'id': self.vif}))

    def deploy_by_rebuild(self):
        """Make the node an instance that runs."""
        self.attach_vif()
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        self.host_cloud.forget_requests()

    def without_host_cloud(self):
        """Let the host cloud answer nothing from now on."""
        self.forget_clouds()
        for method in ('GET', 'POST', 'PUT', 'DELETE', 'PATCH'):
            self.host_cloud.fail(method, '.', 503, times=10 ** 6)
