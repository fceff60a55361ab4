# SPDX-License-Identifier: Apache-2.0
"""The management interface: boot device and mode, health, NMI, the disk."""

import collections

from ironic.common import boot_devices
from ironic.common import boot_modes
from ironic.common import exception
from ironic.common import states
from ironic.conductor import periodics
from ironic.conductor import steps as conductor_steps
from ironic.conductor import task_manager
from ironic.drivers import base
from oslo_config import cfg
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.drift import baseline
from quintupleo_power import exceptions
from quintupleo_power.interfaces import deploy
from quintupleo_power.media import attached_iso
from quintupleo_power.media import virtual_media
from quintupleo_power.node import boot_device
from quintupleo_power.node import boot_mode
from quintupleo_power.node import driver_info
from quintupleo_power.node import inventory
from quintupleo_power.node import leftover_data
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import disk_steps
from quintupleo_power import transitions

CONF = cfg.CONF
LOG = log.getLogger(__name__)
METRICS = compat.get_metrics_logger(__name__)

DEVICES = {
    boot_devices.PXE: transitions.Device.PXE,
    boot_devices.DISK: transitions.Device.DISK,
    boot_devices.CDROM: transitions.Device.CDROM,
}
_IRONIC_DEVICES = {device: name for name, device in DEVICES.items()}

# Seconds between two looks for what a dead conductor has left, as Ironic's.
_INTERVAL = CONF.conductor.check_provision_state_interval or 60
# In automated cleaning: where no agent cleans, that of the agent's own steps,
# and where one does, after all of these, as no agent outlives a rebuild.
_PRIORITIES = {'wipe_disk': 10, 'clear_instance_data': 1}

_SNAPSHOT_ARGUMENTS = {'name': {
    'description': (
        'Name of the snapshot: up to 40 letters, digits, dots, dashes and '
        'underscores.'),
    'required': True,
}}


class QuintupleoManagement(base.ManagementInterface):
    """What of a Nova server a BMC would manage, beside its power.

    Methods raise MissingParameterValue or InvalidParameterValue if a setting
    is missing or wrong, and DriverOperationError if the host cloud cannot be
    asked or does not do it.
    """

    def get_properties(self):
        """Return the properties of the interface."""
        return driver_info.COMMON_PROPERTIES.copy()

    @METRICS.timer('QuintupleoManagement.validate')
    def validate(self, task):
        """Check the node's settings, without a request to the host cloud.

        Ironic calls this before each look at a boot device or boot mode,
        power sync included; the power interface checks the host cloud.
        """
        driver_info.parse(task.node)

    @METRICS.timer('QuintupleoManagement.get_supported_boot_devices')
    def get_supported_boot_devices(self, task):
        """Get a list of the boot devices that this node's server has.

        Ironic asks for it only when somebody asks its API: without the host
        cloud there is no true answer.

        :returns: a list of devices of :mod:`ironic.common.boot_devices`.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            server = server_access.get(task.node, info, host)
            obstacle = host.capabilities.rescue_obstacle(server)
        supported = {boot_devices.PXE: obstacle is None,
                     boot_devices.DISK: True,
                     boot_devices.CDROM: (obstacle is None
                                          and not server.network_first)}
        return [device for device in DEVICES if supported[device]]

    @METRICS.timer('QuintupleoManagement.set_boot_device')
    @task_manager.require_exclusive_lock
    def set_boot_device(self, task, device, persistent=False):
        """Record the boot device; the next power on or reboot applies it.

        Ironic asks for the disk while the deploy ramdisk still runs, so
        nothing may happen to the server now.

        :param device: 'pxe', 'disk' or 'cdrom'.
        :param persistent: whether it is for all boots to come or only for
            the next one.
        :raises: InvalidParameterValue if the device is none of them.
        """
        if device not in DEVICES:
            raise exception.InvalidParameterValue(
                f"Node {task.node.uuid}: boot device '{device}' is not "
                f"supported, only {' and '.join(DEVICES)}")
        boot_device.set_wished(task.node, DEVICES[device], persistent)
        LOG.debug('Node %(node)s boots from %(device)s next, %(how)s',
                  {'node': task.node.uuid, 'device': device,
                   'how': 'and from then on' if persistent else 'once'})

    @METRICS.timer('QuintupleoManagement.get_boot_device')
    def get_boot_device(self, task):
        """Get the device that the node boots from next.

        A node of which nothing was ever recorded boots from the disk, out of
        somebody's rescue, too, unless its server asks the network first.

        :raises: DriverOperationError if nothing was ever recorded and the
            host cloud does not tell what the server is.
        :returns: a dictionary with ``boot_device`` and ``persistent``.
        """
        device, persistent = boot_device.wished(task.node)
        if device is None:
            with exceptions.host_cloud(task.node) as (info, host):
                server = server_access.get(task.node, info, host)
            device = (transitions.Device.PXE if server.network_first
                      else boot_device.of_next_boot(task.node))
        return {'boot_device': _IRONIC_DEVICES[device],
                'persistent': persistent}

    @METRICS.timer('QuintupleoManagement.get_supported_boot_modes')
    def get_supported_boot_modes(self, task):
        """Get a list of the boot modes that the node's server has.

        :returns: the only one, as its image decides, or both if the host
            cloud does not tell.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            current = host.capabilities.boot_mode(
                server_access.get(task.node, info, host))
        return [current] if current else [boot_modes.LEGACY_BIOS,
                                          boot_modes.UEFI]

    @METRICS.timer('QuintupleoManagement.get_boot_mode')
    def get_boot_mode(self, task):
        """Get the boot mode of the node's server.

        :returns: 'bios', 'uefi', or None if the host cloud does not tell.
        """
        # Power sync asks right after the power state, whose reading serves.
        with exceptions.host_cloud(task.node) as (info, host):
            return host.capabilities.boot_mode(
                server_access.get_read_only(task.node, info, host))

    @METRICS.timer('QuintupleoManagement.set_boot_mode')
    @task_manager.require_exclusive_lock
    def set_boot_mode(self, task, mode):
        """Accept the boot mode that the server has, refuse the other.

        :param mode: 'bios' or 'uefi'.
        :raises: InvalidParameterValue if the server boots otherwise, or a
            setting is wrong.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            current = host.capabilities.boot_mode(
                server_access.get(task.node, info, host))
        boot_mode.require(task.node, current, mode)

    @METRICS.timer('QuintupleoManagement.get_secure_boot_state')
    def get_secure_boot_state(self, task):
        """Return whether the server's firmware boots only what is signed.

        :raises: UnsupportedDriverExtension if the server boots BIOS, or the
            host cloud does not tell.
        :returns: True or False.
        """
        # Power sync asks right after the power state, whose reading serves.
        with exceptions.host_cloud(task.node) as (info, host):
            state = host.capabilities.secure_boot(
                server_access.get_read_only(task.node, info, host))
        if state is None:
            raise exception.UnsupportedDriverExtension(
                driver=task.node.driver, extension='get_secure_boot_state')
        return state

    @METRICS.timer('QuintupleoManagement.set_secure_boot_state')
    @task_manager.require_exclusive_lock
    def set_secure_boot_state(self, task, state):
        """Accept the secure boot state that the server has, refuse the other.

        :param state: True or False.
        :raises: InvalidParameterValue if secure boot is wanted and the server
            is not known to have it: nothing is to be deployed then; or if a
            setting is wrong.
        :raises: UnsupportedDriverExtension if it cannot be turned off, which
            keeps Ironic from no tear-down.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            current = host.capabilities.secure_boot(
                server_access.get(task.node, info, host))
        if current == state:
            return
        if state:
            boot_mode.require_secure(task.node, current)
        raise exception.UnsupportedDriverExtension(
            f'Node {task.node.uuid}: secure boot of its server cannot be '
            'turned off, as os_secure_boot of its image or os:secure_boot of '
            'its flavor decides: make the server from others')

    def detect_vendor(self, task):
        """Return the vendor of the machine, without a request.

        :returns: what Nova tells its guests in DMI, in lower case.
        """
        return inventory.VENDOR

    @METRICS.timer('QuintupleoManagement.get_mac_addresses')
    def get_mac_addresses(self, task):
        """Get the MAC addresses of the node's server.

        :returns: a list of MAC addresses.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            server = server_access.get(task.node, info, host)
            return [card.mac for card in host.ports.of_server(server)]

    @METRICS.timer('QuintupleoManagement.inject_nmi')
    @task_manager.require_exclusive_lock
    def inject_nmi(self, task):
        """Inject an NMI into the server's guest, running from disk or PXE.

        :raises: DriverOperationError if the guest is off, Nova or its
            hypervisor refuses, or the host cloud cannot be asked.
        """
        with exceptions.host_cloud(task.node) as (info, host):
            server = server_access.get(task.node, info, host)
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

    @METRICS.timer('QuintupleoManagement.get_node_health')
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
        with exceptions.host_cloud(task.node) as (info, host):
            server = server_access.get_read_only(task.node, info, host)
            if server.state.vm_state == 'error':
                server = server_access.get_read_only(task.node, info, host,
                                            cached=False)
            difference = baseline.find(task, info, host, server)
        if (difference and difference.kind.severe) or (
                server.state.vm_state == 'error'):
            return states.HealthState.CRITICAL
        if difference or transitions.refusal(server.state):
            return states.HealthState.WARNING
        return states.HealthState.OK

    @METRICS.timer('QuintupleoManagement.wipe_disk')
    @base.service_step(requires_ramdisk=False)
    @base.clean_step(priority=0, requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def wipe_disk(self, task):
        """Make the disk of the node empty by Nova's rebuild, without an agent.

        The node is powered off afterwards, and its UEFI variables are those
        of a new machine. To run it twice does no harm.

        :raises: DriverOperationError if the server has disks that Nova does
            not wipe, or Nova did not do it.
        """
        disk_steps.wipe(task)

    @METRICS.timer('QuintupleoManagement.clear_instance_data')
    @base.clean_step(priority=0, requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def clear_instance_data(self, task):
        """Remove user data, key and metadata of an instance from the server.

        Nova keeps what a deployment by rebuild gave to it, whatever an agent
        erases. It takes a rebuild, after which the node is powered off.
        """
        disk_steps.clear_instance_data(task)

    @METRICS.timer('QuintupleoManagement.snapshot')
    @base.service_step(argsinfo=_SNAPSHOT_ARGUMENTS, requires_ramdisk=False)
    @base.clean_step(priority=0, argsinfo=_SNAPSHOT_ARGUMENTS,
                     requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def snapshot(self, task, name):
        """Keep the content of the node's disks in the host cloud.

        A machine that runs from its disk is powered off for it, and on again.

        :param name: what to call it.
        :raises: DriverOperationError if there is one of that name, or Nova
            did not make it.
        """
        disk_steps.snapshot(task, name)

    @METRICS.timer('QuintupleoManagement.restore')
    @base.service_step(argsinfo=_SNAPSHOT_ARGUMENTS, requires_ramdisk=False)
    @base.clean_step(priority=0, argsinfo=_SNAPSHOT_ARGUMENTS,
                     requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def restore(self, task, name):
        """Bring the node's disks back to a snapshot; it is off afterwards.

        To run it twice does no harm.

        :param name: what the snapshot is called.
        :raises: DriverOperationError if there is no such snapshot, or Nova
            did not do it.
        """
        disk_steps.restore(task, name)

    @METRICS.timer('QuintupleoManagement.delete_snapshot')
    @base.service_step(argsinfo=_SNAPSHOT_ARGUMENTS, requires_ramdisk=False)
    @base.clean_step(priority=0, argsinfo=_SNAPSHOT_ARGUMENTS,
                     requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def delete_snapshot(self, task, name):
        """Remove a snapshot, if it is there.

        :param name: what the snapshot is called.
        :raises: DriverOperationError if something of it stays.
        """
        disk_steps.delete_snapshot(task, name)

    def get_virtual_media(self, task):
        """Return what is in the virtual CD-ROM drive; Ironic asks since 26.1.

        :returns: a list of one dict; ``image`` is the UUID of the ISO in the
            host cloud.
        """
        image = virtual_media.inserted(task.node)
        return [{'media_types': ['CD', 'DVD'], 'inserted': image is not None,
                 'image': image}]

    @METRICS.timer('QuintupleoManagement.attach_virtual_media')
    @task_manager.require_exclusive_lock
    def attach_virtual_media(self, task, device_type, image_url):
        """Put an ISO into the virtual CD-ROM drive, for boots to come.

        :param device_type: 'cdrom'.
        :param image_url: URL of the ISO.
        :raises: InvalidParameterValue or MissingParameterValue if there is no
            such drive, Ironic needs it, or a setting is wrong or missing.
        :raises: what Ironic raises if the ISO cannot be fetched.
        :raises: DriverOperationError if the host cloud does not take it, or
            the server cannot be booted from it.
        """
        attached_iso.attach(task, device_type, image_url)

    @METRICS.timer('QuintupleoManagement.detach_virtual_media')
    @task_manager.require_exclusive_lock
    def detach_virtual_media(self, task, device_types=None):
        """Take the ISO out of the virtual CD-ROM drive.

        :param device_types: list of 'cdrom', or None.
        :raises: InvalidParameterValue or MissingParameterValue if there is no
            such drive, Ironic needs it, or a setting is wrong or missing.
        """
        attached_iso.detach(task, device_types)

    @METRICS.timer('QuintupleoManagement._remove_left')
    @periodics.node_periodic(
        purpose='removing virtual media that are not needed any more',
        spacing=_INTERVAL,
        filters={'reserved': False},
        predicate=virtual_media.is_stale,
        predicate_extra_fields=('driver_internal_info', 'provision_state'),
        shared_task=False)
    def _remove_left(self, task, manager, context):
        """Remove the ISO of a conductor that died, or of a cloud away."""
        virtual_media.eject(task.node)

    @METRICS.timer('QuintupleoManagement._remove_ownerless')
    # Ironic tells no driver when it deletes a node.
    @periodics.periodic(spacing=10 * _INTERVAL)
    def _remove_ownerless(self, manager, context):
        """Remove the ISOs of nodes that were deleted."""
        virtual_media.remove_ownerless(context)

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
        is_left = leftover_data.may_be_left(task.node)
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
        """Get no sensor data: a Nova server has no sensors.

        :returns: an empty dictionary.
        """
        return {}


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
