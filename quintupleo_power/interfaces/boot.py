# SPDX-License-Identifier: Apache-2.0
"""The boot interface: a ramdisk from a virtual CD-ROM, without DHCP."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import utils as conductor_utils
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers.modules import boot_mode_utils
from ironic.drivers.modules import deploy_utils
from ironic.drivers.modules import image_utils
from ironic.drivers import utils as driver_utils
from oslo_log import log

from quintupleo_power import compat
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import server_interface
from quintupleo_power.media import boot_iso
from quintupleo_power.media import network_data
from quintupleo_power.media import rescue_image
from quintupleo_power.media import virtual_media
from quintupleo_power.node import driver_info
from quintupleo_power.node import server_access
from quintupleo_power.rebuild import firmware

LOG = log.getLogger(__name__)

PROPERTIES = driver_info.COMMON_PROPERTIES | {
    f'{mode}_{what}': (
        f'URL or Glance UUID of the {what} for {title}. Default: '
        f'[conductor]{mode}_{what}. Required.')
    for mode, title in (('deploy', 'deployment and cleaning'),
                        ('rescue', "Ironic's rescue"))
    for what in ('kernel', 'ramdisk')
} | {
    'bootloader': (
        'URL or Glance UUID of an EFI system partition image, for UEFI. '
        'Default: [conductor]bootloader. Optional.'),
    'kernel_append_params': (
        'Additional kernel parameters for the ramdisk. Default: '
        '[pxe]kernel_append_params. Optional.'),
}


class QuintupleoVirtualMediaBoot(server_interface.ServerInterface,
                                 base.BootInterface):
    """Boots from an ISO that a rescue puts into the server's CD-ROM drive."""

    capabilities = ['ramdisk_boot']
    properties = PROPERTIES

    @property
    def image_publisher_settings(self):
        """How Ironic serves an ISO that a user attaches."""
        return compat.image_publisher_settings()

    def validate(self, task):
        """Check that there is what an ISO is made of.

        :raises: InvalidParameterValue, too, if network_data is wrong, the
            server cannot have the boot mode or secure boot that is asked
            for, or there is a config drive that an ISO cannot have beside it.
        """
        self._validate(task, 'deploy')
        if deploy_utils.get_boot_option(task.node) == 'ramdisk':
            _require_no_config_drive(task.node)
            deploy_utils.validate_image_properties(
                task, deploy_utils.get_image_instance_info(task.node))

    def validate_rescue(self, task):
        """Check that there is what an ISO for Ironic's rescue is made of.

        The power interface checks that Nova can boot the server from it.
        """
        self._validate(task, 'rescue')

    def validate_inspection(self, task):
        """Check that the agent can be booted to inspect.

        Nothing else boots this machine, that inspection could be left to.
        """
        self._validate(task, 'deploy')

    @staticmethod
    def _validate(task, ramdisk):
        network_data.check(task.node)
        deploy_utils.validate_capabilities(task.node)
        if not isinstance(task.driver.management,
                          management.QuintupleoManagement):
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: boot_interface '
                'quintupleo-virtual-media takes management_interface '
                'quintupleo, which sets boot device cdrom')
        if deploy_utils.needs_agent_ramdisk(task.node, mode=ramdisk):
            boot_iso.agent(task.node, ramdisk)
        with server_access.use(task.node, validating=True) as (host, server):
            firmware.requested_image(task.node, host, server)
            mode = (boot_mode_utils.get_boot_mode_for_deploy(task.node)
                    or rescue_image.boot_mode(task.node, host, server))
        boot_iso.require_boot_loader(task.node, mode)

    def prepare_ramdisk(self, task, ramdisk_params):
        """Set the next boot to be from an ISO with the agent.

        :param ramdisk_params: dict of parameters for the agent.
        :raises: ImageCreationFailed if the ISO cannot be made, or what Ironic
            raises if what it is made of cannot be fetched.
        :raises: NetworkError if the network interface does not tell the
            network configuration.
        """
        node = task.node
        if not driver_utils.need_prepare_ramdisk(node):
            return
        if conductor_utils.is_fast_track(task):
            LOG.debug('The agent of node %s runs already', node.uuid)
            return
        conductor_utils.add_secret_token(node, pregenerated=True)
        node.save()
        parameters = {
            **image_utils.override_api_url(dict(ramdisk_params)),
            'ipa-agent-token': node.driver_internal_info['agent_secret_token']}
        mac = deploy_utils.get_single_nic_with_vif_port_id(task)
        if mac:
            parameters['BOOTIF'] = mac
        if CONF.debug:
            parameters.setdefault('ipa-debug', '1')
        if node.provision_state == states.DEPLOYING:
            # A switch costs the disk, which is written later.
            boot_mode_utils.configure_secure_boot_if_needed(task)
        boot_mode_utils.sync_boot_mode(task)
        mode = _boot_mode(task)
        with boot_iso.of_the_agent(task, mode, parameters) as path:
            virtual_media.insert(node, virtual_media.Purpose.RAMDISK, mode,
                                 path)
        conductor_utils.node_set_boot_device(task, boot_devices.CDROM,
                                             persistent=False)

    def clean_up_ramdisk(self, task):
        """Remove the ISO with the agent."""
        if not conductor_utils.is_fast_track(task):
            virtual_media.eject(task.node)

    def prepare_instance(self, task):
        """Set all boots from now on to be those of the instance.

        The ISO of an instance that is there already, as after a take-over, is
        used again.

        :raises: InvalidParameterValue, too, if the server lacks the boot mode
            or secure boot that is asked for, or an ISO is to be deployed
            with a config drive.
        :raises: ImageCreationFailed if an ISO is wanted and cannot be made,
            or what Ironic raises if it cannot be fetched.
        """
        is_ramdisk = deploy_utils.get_boot_option(task.node) == 'ramdisk'
        if is_ramdisk and task.node.provision_state == states.DEPLOYING:
            # Ironic keeps that of a request after it has validated the node.
            _require_no_config_drive(task.node)
        boot_mode_utils.sync_boot_mode(task)
        boot_mode_utils.configure_secure_boot_if_needed(task)
        if is_ramdisk:
            _insert_instance(task)
            device = boot_devices.CDROM
        else:
            virtual_media.eject(task.node)
            device = boot_devices.DISK
        conductor_utils.node_set_boot_device(task, device, persistent=True)

    def clean_up_instance(self, task):
        """Remove whatever is in the drive."""
        virtual_media.eject(task.node)
        boot_mode_utils.deconfigure_secure_boot_if_needed(task)


def _require_no_config_drive(node):
    if node.instance_info.get('configdrive'):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: its instance is to run from an ISO, and a '
            'rescue of Nova adds no second medium for its config drive: '
            'deploy it without one, remove instance_info/configdrive, and '
            'put what the instance needs into the ISO')


def _insert_instance(task):
    """Put the ISO of an instance into the drive, if it is not there."""
    node, mode = task.node, _boot_mode(task)
    purpose = virtual_media.Purpose.INSTANCE
    # What is at an address may have changed since the last deployment.
    if node.provision_state != states.DEPLOYING and virtual_media.holds(
            node, purpose):
        return
    virtual_media.eject(node)
    with boot_iso.of_an_instance(task, mode) as path:
        virtual_media.insert(node, purpose, mode, path)


def _boot_mode(task):
    """The server's boot mode, or the node's where the cloud cannot tell."""
    return (task.driver.management.get_boot_mode(task)
            or boot_mode_utils.get_boot_mode(task.node))
