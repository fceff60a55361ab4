# SPDX-License-Identifier: Apache-2.0
"""The deploy interface: the server is rebuilt with the wanted image.

There is no ramdisk, no agent and no network for provisioning: the host cloud
writes the disk. All of it happens in one step, in the conductor's thread.
"""

import functools
import time

from ironic.common import exception
from ironic.common import states
from ironic.conductor import steps as conductor_steps
from ironic.conductor import task_manager
from ironic.conductor import utils as conductor_utils
from ironic.drivers import base
from ironic.drivers.modules import agent_base
from ironic.drivers.modules import deploy_utils
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import keypairs
from quintupleo_power.interfaces import server_interface
from quintupleo_power.media import rescue_image
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import config_drive
from quintupleo_power.rebuild import disk_steps
from quintupleo_power.rebuild import firmware
from quintupleo_power.rebuild import server_fields
from quintupleo_power.rebuild import source_image
from quintupleo_power import transitions

LOG = log.getLogger(__name__)


# Ironic's own rescue, too, boots an agent, whose heartbeats come here.
class QuintupleoRebuildDeploy(server_interface.ServerInterface,
                              agent_base.HeartbeatMixin,
                              base.DeployInterface):
    """Deployment by Nova's rebuild."""

    def validate(self, task):
        """Check that the image can be deployed on the server by a rebuild.

        What an agent or a boot from the network takes is not asked for.

        :raises: InvalidParameterValue, too, if Nova cannot do it with this
            server.
        """
        node = task.node
        deploy_utils.validate_capabilities(node)
        if deploy_utils.get_remote_boot_volume(task) or (
                not task.driver.storage.should_write_image(task)):
            raise exception.InvalidParameterValue(
                f'Node {node.uuid} is to boot from a volume of its own, and a '
                'rebuild deploys images: remove the volume target, or use '
                'deploy_interface direct')
        if compat.must_stay_on(node):
            # Its networks are changed while it runs.
            task.driver.network.validate(task)
        image = source_image.validate(task)
        # Ironic passes over steps that an agent may know.
        conductor_steps.validate_user_deploy_steps_and_templates(task)
        self._check(task, image, validating=True)

    def supports_deploy(self, task):
        """Return whether validation passes; Ironic asks since 35.0."""
        try:
            self.validate(task)
        except Exception as exc:  # noqa: BLE001 the next interface is asked
            LOG.info('Node %(node)s is not deployed by a rebuild: %(reason)s',
                     {'node': task.node.uuid, 'reason': exc})
            return False
        return True

    def restore_interface(self, task):
        """Restore the deploy interface from which Ironic has switched."""
        compat.restore_interface(self, task)

    @staticmethod
    def _check(task, image, validating=False):
        """Return the config drive, when it and the server are checked."""
        drive = config_drive.of_task(task, fetch=not validating)
        with server_access.use(task.node, validating) as (host, server):
            obstacle = host.capabilities.rebuild_obstacle(server)
            server.require('deployed by a rebuild', obstacle and (
                f'{obstacle}: use deploy_interface direct'))
            server.require('deployed', host.capabilities.disk_obstacle(
                server, image))
            firmware.requested_image(task.node, host, server)
            if drive:
                server_fields.check(task.node, host.compute.microversion,
                                    server, drive)
        return drive

    @task_manager.require_exclusive_lock
    def prepare(self, task):
        """Attach volumes.

        An instance that is there boots from its disk without a conductor's
        help: another one has nothing to prepare for it.

        :raises: StorageError if a volume target is not attached.
        """
        if task.node.provision_state == states.DEPLOYING:
            task.driver.storage.attach_volumes(task)

    @base.deploy_step(priority=100)
    @task_manager.require_exclusive_lock
    def deploy(self, task):
        """Rebuild the server with the node's image and power it on.

        A server that must not be off is rebuilt while it runs. To run it
        twice does no harm.

        :raises: InvalidParameterValue, too, if the config drive cannot be
            used, Nova cannot do it with this server, or other steps were
            asked for that only an agent could know.
        :raises: NetworkError if the node does not get on its networks, and
            what Ironic raises if it cannot have the image.
        """
        node = task.node
        # Those of the request, as its config drive: Ironic keeps them with
        # the node after it has validated that.
        conductor_steps.validate_user_deploy_steps_and_templates(task)
        drive = self._check(task, {})
        provide_image = functools.partial(_provide_image, task,
                                          source_image.checksum(task))
        with server_access.use(node) as (host, server):
            # The rebuild has its own time, and finds it then. An instance
            # that it is to replace runs until it is there.
            image_id = provide_image(host, server)
            server.require('deployed', host.capabilities.disk_obstacle(
                server, host.capabilities.read_image(image_id)))
        _power_off(task)
        # Both before the rebuild: Nova's config drive describes the ports,
        # and what the boot interface refuses is to leave the disk alone.
        task.driver.network.configure_tenant_networks(task)
        task.driver.boot.prepare_instance(task)
        with server_access.use(node) as (host, server):
            if drive.network_data:
                server_fields.check_network(node, drive,
                                            host.ports.of_server(server))
            server_fields.mark(node, server, drive)
            with keypairs.temporary(host.compute, server,
                                    drive.public_key) as key:
                disk_steps.carry_out(
                    task, 'deploy', transitions.Request.REBUILD,
                    lambda host, server: {
                        'imageRef': provide_image(host, server),
                        **server_fields.members(
                            node, host.compute.microversion, server, drive,
                            key)})
        conductor_utils.node_cache_boot_mode(task)
        deploy_utils.destroy_images(node.uuid)
        conductor_utils.node_power_action(task, states.POWER_ON)
        LOG.info('Node %(node)s was deployed by a rebuild of server '
                 '%(server)s', {'node': node.uuid, 'server': server.id})

    @task_manager.require_exclusive_lock
    def tear_down(self, task):
        """Power the node off and take it from the instance's networks.

        Cleaning is what removes the instance from the disk, and ends it on a
        node that must not be powered off.

        :returns: DELETED of :mod:`ironic.common.states`.
        :raises: NetworkError if the node does not get off its networks, and
            StorageError if a volume target is not detached.
        """
        _power_off(task)
        task.driver.storage.detach_volumes(task)
        deploy_utils.tear_down_storage_configuration(task)
        task.driver.network.unconfigure_tenant_networks(task)
        return states.DELETED

    def clean_up(self, task):
        """Remove what a deployment has left on this conductor."""
        deploy_utils.destroy_images(task.node.uuid)
        task.driver.boot.clean_up_instance(task)

    def prepare_service(self, task):
        """Check the service steps that were asked for, as no agent will.

        :raises: InvalidParameterValue if one of them does not exist, has the
            wrong arguments or needs an agent.
        """
        conductor_steps.set_node_service_steps(task, disable_ramdisk=True)

    def take_over(self, task):
        """Do nothing: no conductor has anything that an instance needs."""

    def tear_down_cleaning(self, task):
        """Power the node off, as it is after a cleaning by an agent.

        An agent may have been prepared: Ironic forgets the deploy interface
        of an instance while one boots for it.

        :raises: NetworkError if the node does not get off its network.
        """
        deploy_utils.tear_down_inband_cleaning(task, manage_boot=False)


def _power_off(task):
    if not compat.must_stay_on(task.node):
        conductor_utils.node_power_action(task, states.POWER_OFF)


def _provide_image(task, checksum, host, server):
    """Return the UUID of an instance's image in the host cloud.

    It is uploaded if it is not there. For other firmware than the server has
    it makes the machine that the empty image for that makes.
    """
    empty = firmware.requested_image(task.node, host, server)
    machine = (images.of_the_machine(empty) if empty
               else host.capabilities.image_properties(server))
    if machine is None:
        # As ``openstack quintupleo image create`` makes machines.
        boot_mode = rescue_image.boot_mode(task.node, host, server)
        machine = {**images.POWER_CUT,
                   **images.BOOT_MODE_PROPERTIES[boot_mode]}
    return host.instance_images.provide(
        checksum, machine, lambda: source_image.fetch(task, checksum),
        time.monotonic() + CONF.quintupleo.image_timeout,
        CONF.quintupleo.unused_instance_images)
