# SPDX-License-Identifier: Apache-2.0
"""Nova's fake hypervisor, with the ends of actions that real ones have.

A stand-in for machines without guests. Nova's own fake does nothing in a
rescue, so that the guest stays switched off, and uploads nothing in a
snapshot, so that its image is never ready; the end-to-end tests run the same
actions against libvirt.
"""

import io

from nova.compute import power_state
from nova.image import glance
from nova.virt import driver
from nova.virt import event
from nova.virt import fake

try:
    from nova.virt import node
except ImportError:
    # Before Nova 27 a node is what has its name.
    node = None


class FakeDriver(fake.FakeDriver):
    """A hypervisor that only says what it did."""

    capabilities = dict(fake.FakeDriver.capabilities,
                        supports_bfv_rescue=True)

    if node:
        # Nova starts a second time only as the node that it was before; its
        # own fake is another one in each process.
        get_nodenames_by_uuid = driver.ComputeDriver.get_nodenames_by_uuid

        def get_available_resource(self, nodename):
            """Describe the hypervisor."""
            resource = super().get_available_resource(nodename)
            resource['uuid'] = node.get_local_node_uuid()
            return resource

    def rescue(self, context, instance, *args, **kwargs):
        """Boot the rescue image, as far as anyone can see."""
        self.instances[instance.uuid].state = power_state.RUNNING

    def snapshot(self, context, instance, image_id, update_task_state):
        """Upload what stands in for the disk."""
        super().snapshot(context, instance, image_id, update_task_state)
        glance.API().update(
            context, image_id,
            {'disk_format': 'raw', 'container_format': 'bare'},
            io.BytesIO(bytes(1024)))

    def trigger_crash_dump(self, instance):
        """Let the guest switch itself off: the NMI stands in for whatever.

        Nova hears of it as it does from libvirt.
        """
        self.instances[instance.uuid].state = power_state.SHUTDOWN
        self.emit_event(event.LifecycleEvent(
            instance.uuid, event.EVENT_LIFECYCLE_STOPPED))
