# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The management interface: boot device and boot mode."""

from ironic.common import boot_devices
from ironic.common import boot_modes
from ironic.common import exception
from ironic.conductor import task_manager
from ironic.drivers import base
from oslo_log import log

from quintupleo_power import boot_device
from quintupleo_power import compat
from quintupleo_power import driver_info
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power import transitions
from quintupleo_power import watch

LOG = log.getLogger(__name__)
METRICS = compat.get_metrics_logger(__name__)

DEVICES = {
    boot_devices.PXE: transitions.Device.PXE,
    boot_devices.DISK: transitions.Device.DISK,
}
_IRONIC_DEVICES = {device: name for name, device in DEVICES.items()}


class QuintupleoManagement(base.ManagementInterface):
    """Boot device and boot mode of a Nova server."""

    def get_properties(self):
        """Return the properties of the interface.

        :returns: dictionary of <property name>:<property description>.
        """
        return driver_info.COMMON_PROPERTIES.copy()

    @METRICS.timer('QuintupleoManagement.validate')
    def validate(self, task):
        """Check the node's settings, without a request to the host cloud.

        Ironic calls this before each look at a boot device or boot mode,
        power sync included; the power interface checks the host cloud.

        :param task: a TaskManager instance containing the node to act on.
        :raises: MissingParameterValue if a required setting is missing.
        :raises: InvalidParameterValue if a setting is wrong.
        """
        driver_info.parse(task.node)

    def get_supported_boot_devices(self, task):
        """Get a list of the supported boot devices.

        :param task: a task from TaskManager.
        :returns: a list of devices of :mod:`ironic.common.boot_devices`.
        """
        return list(DEVICES)

    @METRICS.timer('QuintupleoManagement.set_boot_device')
    @task_manager.require_exclusive_lock
    def set_boot_device(self, task, device, persistent=False):
        """Record the boot device; the next power on or reboot applies it.

        Ironic asks for the disk while the deploy ramdisk still runs, so
        nothing may happen to the server now.

        :param task: a task from TaskManager.
        :param device: 'pxe' or 'disk'.
        :param persistent: whether it is for all boots to come or only for
            the next one.
        :raises: InvalidParameterValue if the device is neither of them.
        """
        if device not in DEVICES:
            raise exception.InvalidParameterValue(
                f"Node {task.node.uuid}: boot device '{device}' is not "
                f"supported, only {' and '.join(DEVICES)}")
        boot_device.record(task.node, DEVICES[device], persistent)
        LOG.debug('Node %(node)s boots from %(device)s next, %(how)s',
                  {'node': task.node.uuid, 'device': device,
                   'how': 'and from then on' if persistent else 'once'})

    @METRICS.timer('QuintupleoManagement.get_boot_device')
    def get_boot_device(self, task):
        """Get the device that the node boots from next.

        :param task: a task from TaskManager.
        :raises: InvalidParameterValue or MissingParameterValue if a setting
            is wrong or missing.
        :raises: DriverOperationError if nothing was ever recorded and the
            host cloud does not tell what is in use.
        :returns: a dictionary with ``boot_device`` and ``persistent``.
        """
        device, persistent = boot_device.wished(task.node)
        if device is None:
            device, persistent = self._device_in_use(task), None
        return {'boot_device': _IRONIC_DEVICES[device],
                'persistent': persistent}

    def _device_in_use(self, task):
        info = driver_info.parse(task.node)
        with exceptions.translated(info):
            server = cloud.get(info.credentials).watch(info.server)
        if server.network_first:
            return transitions.Device.PXE
        return transitions.device_in_use(server.state)

    def get_supported_boot_modes(self, task):
        """Get a list of the supported boot modes.

        :param task: a task from TaskManager.
        :returns: the modes that servers can have; a server's own is fixed
            by its image.
        """
        return [boot_modes.LEGACY_BIOS, boot_modes.UEFI]

    @METRICS.timer('QuintupleoManagement.get_boot_mode')
    def get_boot_mode(self, task):
        """Get the boot mode of the node's server.

        :param task: a task from TaskManager.
        :raises: InvalidParameterValue or MissingParameterValue if a setting
            is wrong or missing.
        :raises: DriverOperationError if the host cloud cannot be asked.
        :returns: 'bios', 'uefi', or None if the host cloud does not tell.
        """
        info = driver_info.parse(task.node)
        with exceptions.translated(info):
            host = cloud.get(info.credentials)
            return host.boot_mode(host.watch(info.server))

    @METRICS.timer('QuintupleoManagement.set_boot_mode')
    @task_manager.require_exclusive_lock
    def set_boot_mode(self, task, mode):
        """Accept the boot mode that the server has, refuse the other.

        :param task: a task from TaskManager.
        :param mode: 'bios' or 'uefi'.
        :raises: InvalidParameterValue if the server boots otherwise.
        :raises: DriverOperationError if the host cloud cannot be asked.
        """
        current = self.get_boot_mode(task)
        if current is not None and mode != current:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: its server boots in mode {current} '
                f'and not {mode}, which hw_firmware_type of its image '
                'decides: make the server from another image, or set '
                f'capabilities boot_mode:{current} on the node')

    @METRICS.timer('QuintupleoManagement.get_node_health')
    def get_node_health(self, task):
        """Get the health of the node's server; Ironic 39 asks for it.

        Power sync asks right after the power state, whose reading serves.

        :param task: a task from TaskManager.
        :raises: InvalidParameterValue or MissingParameterValue if a setting
            is wrong or missing.
        :raises: DriverOperationError if the host cloud cannot be asked.
        :raises: UnsupportedDriverExtension if this Ironic knows no health.
        :returns: CRITICAL if what Ironic deployed is gone, or the server is
            in ERROR; WARNING if it was changed otherwise behind Ironic's
            back, or takes no power request; OK.
        """
        states = compat.health_states
        if states is None:
            raise exception.UnsupportedDriverExtension(
                driver=task.node.driver, extension='get_node_health')
        info = driver_info.parse(task.node)
        with exceptions.translated(info):
            host = cloud.get(info.credentials)
            server = host.watch(info.server)
            if server.state.vm_state == 'error':
                server = host.server(info.server, watch.NEWS_MAX_AGE)
            finding = watch.find(task, info, host, server)
        if (finding and finding.kind.severe) or (
                server.state.vm_state == 'error'):
            return states.HealthState.CRITICAL
        if finding or transitions.refusal(server.state):
            return states.HealthState.WARNING
        return states.HealthState.OK

    def get_sensors_data(self, task):
        """Get no sensor data: a Nova server has no sensors.

        :param task: a task from TaskManager.
        :returns: an empty dictionary.
        """
        return {}
