# SPDX-License-Identifier: Apache-2.0
"""The management interface: boot device and mode, health, NMI, cleaning."""

import collections

from ironic.common import boot_devices
from ironic.common import boot_modes
from ironic.common import exception
from ironic.common import states
from ironic.conductor import steps as conductor_steps
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers.modules import boot_mode_utils
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.drift import baseline
from quintupleo_power.faults import injection
from quintupleo_power.interfaces import deploy
from quintupleo_power.media import attached_iso
from quintupleo_power.node import boot_device
from quintupleo_power.node import inventory
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import disk_steps
from quintupleo_power.rebuild import firmware
from quintupleo_power.rebuild import server_fields
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

# Words of Ironic that are values of transitions.Device.
_DEVICES = (boot_devices.PXE, boot_devices.DISK, boot_devices.CDROM)

# In automated cleaning: where no agent cleans, that of the agent's own steps,
# and where one does, after all of these, as no agent outlives a rebuild.
_PRIORITIES = {'wipe_disk': 10, 'clear_instance_data': 1}


class QuintupleoManagement(disk_steps.DiskSteps, attached_iso.VirtualMedia,
                           base.ManagementInterface):
    """What of a Nova server a BMC would manage, beside its power."""

    def get_supported_boot_devices(self, task):
        """Get a list of the boot devices that this node's server has.

        Ironic asks for it only when somebody asks its API: without the host
        cloud there is no true answer.
        """
        with server_access.use(task.node) as (host, server):
            obstacle = host.capabilities.rescue_obstacle(server)
        if obstacle:
            return [boot_devices.DISK]
        return [device for device in _DEVICES
                if device != boot_devices.CDROM or not server.network_first]

    @task_manager.require_exclusive_lock
    @injection.injected
    def set_boot_device(self, task, device, persistent=False):
        """Record the boot device; the next power on or reboot applies it.

        Ironic asks for the disk while the deploy ramdisk still runs, so
        nothing may happen to the server now.

        :param device: 'pxe', 'disk' or 'cdrom'.
        :param persistent: whether it is for all boots to come or only for
            the next one.
        :raises: InvalidParameterValue if the device is none of them.
        """
        if device not in _DEVICES:
            raise exception.InvalidParameterValue(
                f"Node {task.node.uuid}: boot device '{device}' is not "
                f"supported, only {' and '.join(_DEVICES)}")
        boot_device.set_wished(task.node, transitions.Device(device),
                               persistent)
        LOG.debug('Node %(node)s boots from %(device)s next, %(how)s',
                  {'node': task.node.uuid, 'device': device,
                   'how': 'and from then on' if persistent else 'once'})

    def get_boot_device(self, task):
        """Get the device that the node boots from next.

        A node of which nothing was ever recorded boots from the disk, out of
        somebody's rescue, too, unless its server asks the network first.

        :returns: a dictionary with ``boot_device`` and ``persistent``.
        """
        device, persistent = boot_device.wished(task.node)
        if device is None:
            with server_access.use(task.node) as (_, server):
                device = (transitions.Device.PXE if server.network_first
                          else transitions.Device.DISK)
        return {'boot_device': device.value, 'persistent': persistent}

    def get_supported_boot_modes(self, task):
        """Get a list of both boot modes, as most servers can be switched."""
        return [boot_modes.LEGACY_BIOS, boot_modes.UEFI]

    def get_boot_mode(self, task):
        """Return 'bios', 'uefi', or None if the host cloud does not tell."""
        # Power sync asks right after the power state, whose reading serves.
        with server_access.use(task.node, cached=True) as (host, server):
            return host.capabilities.boot_mode(server)

    @task_manager.require_exclusive_lock
    def set_boot_mode(self, task, mode):
        """Switch the server to a boot mode where its disk is to be lost.

        The server is off afterwards. Secure boot that a deployment will ask
        for is turned on with it.

        :param mode: 'bios' or 'uefi'; the one that it has is accepted.
        :raises: InvalidParameterValue, too, if the disk is to stay.
        """
        if mode == boot_modes.UEFI and (
                boot_mode_utils.is_secure_boot_requested(task.node)):
            mode = firmware.SECURE_BOOT
        _set_firmware(task, mode)

    def get_secure_boot_state(self, task):
        """Return whether the server's firmware boots only what is signed.

        :raises: UnsupportedDriverExtension if the server boots BIOS, or the
            host cloud does not tell.
        """
        with server_access.use(task.node, cached=True) as (host, server):
            state = host.capabilities.secure_boot(server)
        if state is None:
            raise exception.UnsupportedDriverExtension(
                driver=task.node.driver, extension='get_secure_boot_state')
        return state

    @task_manager.require_exclusive_lock
    def set_secure_boot_state(self, task, state):
        """Turn secure boot on where the disk of the server is to be lost.

        :raises: InvalidParameterValue, too, if secure boot is wanted and the
            disk is to stay: nothing is to be deployed then.
        :raises: UnsupportedDriverExtension if it is to be turned off, which
            keeps Ironic from no tear-down.
        """
        if state:
            _set_firmware(task, firmware.SECURE_BOOT)
            return
        with server_access.use(task.node) as (host, server):
            current = host.capabilities.secure_boot(server)
        if current is not False:
            raise exception.UnsupportedDriverExtension(
                f'Node {task.node.uuid}: secure boot of server {server.id} '
                'cannot be turned off without the loss of its disk: make the '
                'node manageable and run its clean step '
                'management.change_boot_mode')

    def detect_vendor(self, task):
        """Return what Nova tells its guests in DMI, without a request."""
        return inventory.VENDOR

    def get_mac_addresses(self, task):
        """Get a list of the MAC addresses of the node's server."""
        with server_access.use(task.node) as (host, server):
            return [card.mac for card in host.ports.of_server(server)]

    @task_manager.require_exclusive_lock
    @injection.injected
    def inject_nmi(self, task):
        """Inject an NMI into the server's guest, running from disk or PXE.

        :raises: DriverOperationError, too, if the guest is off.
        """
        with server_access.use(task.node) as (host, server):
            # In ERROR nothing tells, and Nova takes an NMI.
            if transitions.is_on(server.state) is False:
                raise transitions.Refused(
                    f'Server {server.id} is {server.status} and gets no NMI, '
                    'which only a guest that runs can get: '
                    + (transitions.refusal(server.state)
                       or 'power the node on first'))
            host.actions.inject_nmi(server)
        LOG.info('Node %(node)s: an NMI was injected into server %(server)s',
                 {'node': task.node.uuid, 'server': server.id})

    def get_node_health(self, task):
        """Get the health of the node's server; Ironic asks since 34.0.

        Power sync asks right after the power state, whose reading serves.

        :raises: UnsupportedDriverExtension if this Ironic knows no health.
        :returns: CRITICAL if what Ironic deployed is gone, or the server is
            in ERROR; WARNING if it was changed otherwise behind Ironic's
            back, or takes no power request; OK.
        """
        states = compat.health_states
        if states is None:
            raise exception.UnsupportedDriverExtension(
                driver=task.node.driver, extension='get_node_health')
        with server_access.use(task.node, cached=True) as (host, server):
            if server.state.vm_state == 'error':
                server = server_access.get_read_only(task.node, host,
                                                     cached=False)
            difference = baseline.find(task, host, server)
        if (difference and difference.kind.severe) or (
                server.state.vm_state == 'error'):
            return states.HealthState.CRITICAL
        if difference or transitions.refusal(server.state):
            return states.HealthState.WARNING
        return states.HealthState.OK

    def get_clean_steps(self, task):
        """Get the clean steps.

        :returns: a list of dictionaries. Where no agent cleans, wipe_disk is
            part of automated cleaning, and where one does after a deployment
            by rebuild, clear_instance_data, unless
            [conductor]clean_step_priority_override says otherwise.
        :raises: NodeCleaningFailure if automated cleaning is to leave an
            instance's data with the server.
        """
        steps = super().get_clean_steps(task)
        is_left = server_fields.may_be_left(task.node)
        if isinstance(task.driver.deploy, deploy.QuintupleoRebuildDeploy) or (
                is_left and isinstance(task.driver.deploy, compat.NO_DEPLOY)):
            automated = 'wipe_disk'
        elif is_left:
            automated = 'clear_instance_data'
        else:
            return steps
        if is_left and task.node.target_provision_state == states.AVAILABLE:
            _require_planned(task.node, automated)
        return [{**step, 'priority': _PRIORITIES[automated]}
                if step['step'] == automated else step for step in steps]

    def get_sensors_data(self, task):
        """Get no sensor data: a Nova server has no sensors."""
        return {}


def _set_firmware(task, wanted):
    # A deployment by rebuild makes the machine, too.
    if task.node.provision_state != states.DEPLOYING or not isinstance(
            task.driver.deploy, deploy.QuintupleoRebuildDeploy):
        disk_steps.set_firmware(task, wanted, firmware.ENOUGH[wanted])


def _require_planned(node, name):
    """Check that automated cleaning runs a step, or operators forgo it.

    :raises: NodeCleaningFailure if it does not.
    """
    step = f'management.{name}'
    # Ironic goes by the last one.
    overrides = collections.ChainMap(
        *reversed(CONF.conductor.clean_step_priority_override))
    if overrides.get(step) == '0':
        return
    # Without a runbook they are what this interface is being asked for.
    planned = node.driver_internal_info.get('clean_steps') or [
        {'interface': 'management', 'step': name}]
    ids = {conductor_steps.step_id(each) for each in planned}
    if not ids & {f'management.{each}' for each in _PRIORITIES} or (
            step in compat.disallowed_clean_steps()):
        raise exception.NodeCleaningFailure(
            f"Node {node.uuid}: an instance's data is still with its server, "
            f'and automated cleaning is to run without {step}: add it to the '
            'runbook, take it from [api]disallow_clean_steps, or set it to 0 '
            'in [conductor]clean_step_priority_override to leave the data '
            'there')
