# SPDX-License-Identifier: Apache-2.0
"""Steps on a node's whole disk: wiped, kept, and brought back.

What leaves a node powered off leaves one on that must not be off.
"""

import functools
import time

from ironic.common import boot_modes
from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic.drivers import base

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power import exceptions
from quintupleo_power import executor
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import snapshots
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import pending_request
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import config_drive
from quintupleo_power.rebuild import firmware
from quintupleo_power.rebuild import server_fields
from quintupleo_power import transitions

# Out of PXE it would be the agent that starts again, or the wrong system.
_RUNS = (transitions.Situation.ACTIVE, transitions.Situation.PAUSED)


# Of the steps on snapshots.
_BY_NAME = {'requires_ramdisk': False, 'argsinfo': {'name': {
    'description': ('Name of the snapshot: up to 40 letters, digits, dots, '
                    'dashes and underscores.'),
    'required': True}}}


class DiskSteps(server_interface.ServerInterface):
    """The steps, as methods of the management interface.

    They raise MissingParameterValue or InvalidParameterValue if a setting or
    an argument is missing or wrong, and DriverOperationError if the host
    cloud did not do it.
    """

    @base.service_step(requires_ramdisk=False)
    @base.clean_step(priority=0, requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def wipe_disk(self, task):
        """Make the disk of the node empty by Nova's rebuild, without an agent.

        The node is powered off afterwards, and its UEFI variables are those
        of a new machine. To run it twice does no harm.

        :raises: DriverOperationError, too, if the server has disks that Nova
            does not wipe.
        """
        _rebuild(task, 'wipe_disk', functools.partial(
            _image_to_wipe, capabilities.Capabilities.wipe_obstacle))

    @base.clean_step(priority=0, requires_ramdisk=False)
    @task_manager.require_exclusive_lock
    def clear_instance_data(self, task):
        """Remove user data, key and metadata of an instance from the server.

        Nova keeps what a deployment by rebuild gave to it, whatever an agent
        erases, which may be more than a rebuild wipes. It takes a rebuild,
        after which the node is powered off.
        """
        if server_fields.may_be_left(task.node):
            _rebuild(task, 'clear_instance_data', functools.partial(
                _image_to_wipe, capabilities.Capabilities.rebuild_obstacle))

    @base.clean_step(priority=0, requires_ramdisk=False, argsinfo={
        'boot_mode': {'description': "'bios' or 'uefi'.", 'required': True},
        'secure_boot': {
            'description': 'Whether UEFI boots only what is signed.',
            'required': False}})
    @task_manager.require_exclusive_lock
    def change_boot_mode(self, task, boot_mode, secure_boot=False):
        """Change the firmware, at the cost of the disk and UEFI variables.

        It takes a rebuild from the empty image for that firmware, after which
        the node is powered off. A server that has it already is left alone.

        :raises: DriverOperationError, too, if the server cannot get it.
        """
        node = task.node
        if boot_mode not in (boot_modes.LEGACY_BIOS, boot_modes.UEFI) or (
                secure_boot not in (False, boot_mode == boot_modes.UEFI)):
            raise exception.InvalidParameterValue(
                f"Node {node.uuid}: boot_mode has to be 'bios' or 'uefi', and "
                'secure_boot true, which uefi only has, or false')
        wanted = firmware.SECURE_BOOT if secure_boot else boot_mode
        set_firmware(task, wanted, enough=(wanted,))
        # Ironic's own note of the server as it was.
        node.del_driver_internal_info('deploy_boot_mode')

    @base.service_step(**_BY_NAME)
    @base.clean_step(priority=0, **_BY_NAME)
    @task_manager.require_exclusive_lock
    def snapshot(self, task, name):
        """Keep the content of the node's disks in the host cloud.

        A machine that runs from its disk is powered off for it, and on again.

        :param name: what the snapshot is called from now on.
        :raises: DriverOperationError, too, if there is such a snapshot.
        """
        _require_name(task.node, name)
        _require_off(task.node, 'a snapshot')
        deadline = time.monotonic() + CONF.quintupleo.image_timeout
        with server_access.use(task.node) as (host, server):
            host.snapshots.prepare(server, name)
        runs = transitions.situation(server.state) in _RUNS
        try:
            server = carry_out(
                task, 'snapshot', transitions.Request.SNAPSHOT,
                lambda host, server: host.snapshots.body(server, name))
            with exceptions.host_cloud(task.node) as host:
                host.snapshots.finish(server, name, deadline)
        finally:
            if runs:
                conductor_utils.node_power_action(task, states.POWER_ON)

    @base.service_step(**_BY_NAME)
    @base.clean_step(priority=0, **_BY_NAME)
    @task_manager.require_exclusive_lock
    def restore(self, task, name):
        """Bring the node's disks back to a snapshot; it is off afterwards.

        To run it twice does no harm.

        :raises: DriverOperationError, too, if there is no such snapshot.
        """
        _require_name(task.node, name)
        deadline = time.monotonic() + CONF.quintupleo.image_timeout
        with server_access.use(task.node) as (host, server):
            found = host.snapshots.require(server, name)
        if found.volumes:
            _require_off(task.node, 'restoring volumes')
        carry_out(task, 'restore', transitions.Request.REBUILD,
                  lambda *_: {'imageRef': found.id})
        with exceptions.host_cloud(task.node) as host:
            host.snapshots.restore_volumes(found, deadline)

    @base.service_step(**_BY_NAME)
    @base.clean_step(priority=0, **_BY_NAME)
    @task_manager.require_exclusive_lock
    def delete_snapshot(self, task, name):
        """Remove a snapshot, if it is there."""
        _require_name(task.node, name)
        with server_access.use(task.node) as (host, server):
            found = host.snapshots.find(server.id, name)
            if found:
                host.snapshots.delete(found)


def carry_out(task, step, request, body):
    """Do something to the disk, within [quintupleo]image_timeout.

    :param step: the name of the step, for messages.
    :param request: a :class:`transitions.Request`; REBUILD leaves the node
        powered off.
    :param body: see :func:`executor.run`.
    :returns: the :class:`host_cloud.servers.Server` afterwards.
    """
    node = task.node
    with pending_request.kept(node, step):
        server = executor.run(
            node, request, CONF.quintupleo.image_timeout, body)
        node.power_state = (states.POWER_ON
                            if transitions.is_on(server.state)
                            else states.POWER_OFF)
    # Unlike a power request, a step saves this by itself: power sync would
    # otherwise force the state from before it.
    node.save()
    return server


def set_firmware(task, wanted, enough):
    """Switch a node's server to some firmware, if its own is not enough.

    :param wanted: one of :data:`firmware.TITLES`, as those that are enough.
    :raises: InvalidParameterValue, too, if the node's disk is to stay.
    """
    node = task.node
    with server_access.use(node) as (host, server):
        current = firmware.of_server(host, server)
    if current in enough:
        return
    if not firmware.is_disk_to_be_lost(node):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: server {server.id} has '
            f'{firmware.TITLES[current]} and not {firmware.TITLES[wanted]}, '
            'and a switch costs the disk, which is kept in provision state '
            f'"{node.provision_state}"'
            + (' once a step has begun' if node.deploy_step else '')
            + ': make the node manageable and run its clean step '
            'management.change_boot_mode, or correct the capabilities '
            'boot_mode and secure_boot of node and instance')
    _rebuild(task, 'change_boot_mode',
             functools.partial(firmware.empty_image, wanted))


def _rebuild(task, step, find_image):
    def members(host, server):
        node = task.node
        image = {'imageRef': find_image(node, host, server)['id']}
        if not server_fields.may_be_left(node):
            return image
        # User data and the like of an instance go with its disk.
        return {**image, **server_fields.members(
            node, host.compute.microversion, server,
            config_drive.ConfigDrive(), None)}

    carry_out(task, step, transitions.Request.REBUILD, members)
    task.node.del_driver_internal_info(server_fields.KEY)
    task.node.save()


def _image_to_wipe(obstacle_of, node, host, server):
    """Return the image to wipe a server's disk with.

    It is the one that the node names, or the one that the server was made
    from if that is empty, which changes nothing else of the server. Another
    image, such as a deployed system, is replaced by the configured one.
    """
    server.require('wiped', obstacle_of(host.capabilities, server))
    own = (None if driver_info.parse(node).empty_image
           else host.capabilities.own_empty_image(server))
    return own or firmware.empty_image(None, node, host, server)


def _require_off(node, what):
    if compat.must_stay_on(node):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: {what} takes a machine that is off, and '
            f'{transitions.STAYS_ON}')


def _require_name(node, name):
    if not isinstance(name, str) or not snapshots.NAMES.fullmatch(name):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: the name of a snapshot has up to 40 letters, '
            'digits, dots, dashes and underscores, and begins with a letter '
            'or a digit')
