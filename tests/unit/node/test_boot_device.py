# SPDX-License-Identifier: Apache-2.0
"""The boot device that a node is wished to have."""

from ironic.common import exception

from quintupleo_power.node import boot_device
from quintupleo_power import transitions
from tests.unit import base

DISK = transitions.Device.DISK
PXE = transitions.Device.PXE


class BootDeviceTestCase(base.DriverTestCase):

    def wished(self):
        self.node.refresh()
        return boot_device.wished(self.node)

    def test_nothing_is_wished_at_first(self):
        self.assertEqual((None, None), self.wished())

    def test_wish_of_a_newer_release_is_refused_by_name(self):
        for key in (boot_device.ONCE_KEY, boot_device.PERSISTENT_KEY):
            self.node.set_driver_internal_info(key, 'tape')
            self.node.save()
            with self.assertRaisesRegex(
                    exception.InvalidParameterValue,
                    f'{self.node.uuid}: its boot device "tape".*again'):
                self.wished()
        boot_device.set_wished(self.node, DISK, persistent=False)
        self.assertEqual((DISK, False), self.wished())

    def test_wish_for_all_boots(self):
        boot_device.set_wished(self.node, PXE, persistent=True)
        self.assertEqual((PXE, True), self.wished())

    def test_wish_for_one_boot_comes_first(self):
        boot_device.set_wished(self.node, DISK, persistent=True)
        boot_device.set_wished(self.node, PXE, persistent=False)
        self.assertEqual((PXE, False), self.wished())

    def test_wish_for_all_boots_ends_one_for_one_boot(self):
        boot_device.set_wished(self.node, PXE, persistent=False)
        boot_device.set_wished(self.node, DISK, persistent=True)
        self.assertEqual((DISK, True), self.wished())

    def test_boot_ends_the_wish_for_one_boot(self):
        boot_device.set_wished(self.node, DISK, persistent=True)
        boot_device.set_wished(self.node, PXE, persistent=False)
        boot_device.booted(self.node)
        self.node.save()
        self.assertEqual((DISK, True), self.wished())

    def test_boot_leaves_the_wish_for_all_boots(self):
        boot_device.set_wished(self.node, PXE, persistent=True)
        boot_device.booted(self.node)
        self.node.save()
        self.assertEqual((PXE, True), self.wished())

    def test_what_others_keep_with_the_node_stays(self):
        self.node.set_driver_internal_info('agent_url', 'http://a')
        self.node.save()
        boot_device.set_wished(self.node, PXE, persistent=False)
        boot_device.booted(self.node)
        self.node.save()
        self.node.refresh()
        self.assertEqual({'agent_url': 'http://a'},
                         self.node.driver_internal_info)
