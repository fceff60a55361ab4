# SPDX-License-Identifier: Apache-2.0
"""Volume targets of nodes that are deployed by a rebuild."""

import fixtures
from ironic.common import exception
from ironic.common import states
from ironic.tests.unit.objects import utils as objects_utils
from oslo_utils import uuidutils

from tests.unit.interfaces import test_flows


class StorageTestCase(test_flows.FlowTestCase):
    """A node with storage interface cinder and a volume for data."""

    def setUp(self):
        super().setUp()
        self.config(enabled_storage_interfaces=['cinder', 'noop'])
        self.set_node(storage_interface='cinder')
        objects_utils.create_test_volume_connector(
            self.context, node_id=self.node.id, type='iqn')
        self.volume = uuidutils.generate_uuid()
        self.target = self.add_target(boot_index=1, volume_id=self.volume)
        self.calls = []
        for name in ('attach_volumes', 'detach_volumes'):
            self.useFixture(fixtures.MockPatch(
                f'ironic.common.cinder.{name}', self._called(name)))

    def add_target(self, **values):
        return objects_utils.create_test_volume_target(
            self.context, node_id=self.node.id,
            uuid=uuidutils.generate_uuid(), **values)

    def _called(self, name):
        def call(task, volumes, connector, **kwargs):
            self.calls.append((name, *volumes, *self.host_cloud.sent))
            return [{'data': {'ironic_volume_uuid': volume,
                              'target_iqn': 'iqn.new'}}
                    for volume in volumes]
        return call

    def test_volume_of_an_instance(self):
        self.assertIsNone(self.deploy())
        self.assert_in(states.ACTIVE)
        # Before the machine is touched.
        self.assertEqual([('attach_volumes', self.volume)], self.calls)
        self.target.refresh()
        self.assertEqual('iqn.new', self.target.properties['target_iqn'])
        self.calls.clear()
        self.host_cloud.forget_requests()
        self.undeploy()
        self.assert_clean()
        # When it is off.
        self.assertEqual(('detach_volumes', self.volume, 'stop'),
                         self.calls[-1])
        self.assertRaises(exception.VolumeTargetNotFound, self.target.refresh)

    def test_volume_that_is_not_attached(self):
        self.useFixture(fixtures.MockPatch(
            'ironic.common.cinder.attach_volumes',
            side_effect=exception.StorageError('in use')))
        self.deploy()
        self.assert_in(states.DEPLOYFAIL, 'in use')
        self.assert_sent()

    def test_volume_that_is_not_detached(self):
        self.deploy()
        self.config(group='cinder', action_retries=0)
        self.useFixture(fixtures.MockPatch(
            'ironic.common.cinder.detach_volumes',
            side_effect=exception.StorageError('in use')))
        try:
            self.undeploy()
        except exception.StorageError:
            # It is with the node, too.
            pass
        self.assert_in(states.ERROR, 'in use')

    def test_volume_to_boot_from(self):
        self.add_target(boot_index=0, volume_id=uuidutils.generate_uuid())
        for storage in ('cinder', 'noop'):
            self.set_node(storage_interface=storage)
            error = self.deploy()
            self.assert_says(error, self.node.uuid, 'remove the volume target')
            self.assert_in(states.AVAILABLE)
        self.assertEqual([], self.calls)
        self.assert_sent()
