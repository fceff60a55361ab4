# SPDX-License-Identifier: Apache-2.0
"""The firmware of a node's server, and the empty image that gives it another.

It is that of the server's image and flavor. A rebuild from another image
changes it, and costs the disk and the UEFI variables.
"""

import dataclasses

from ironic.common import states
from ironic.drivers.modules import boot_mode_utils
from ironic.drivers.modules import deploy_utils
from ironic import objects
from oslo_utils import strutils

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import servers
from quintupleo_power.media import rescue_image

SECURE_BOOT = 'secure_boot'
TITLES = {None: 'firmware that is not known', images.BIOS: 'BIOS',
          images.UEFI: 'UEFI', SECURE_BOOT: 'UEFI with secure boot'}
# What is enough for each that Ironic may ask for. A mode that the host cloud
# does not tell is taken for the right one.
ENOUGH = {images.BIOS: (images.BIOS, None),
          images.UEFI: (images.UEFI, SECURE_BOOT, None),
          SECURE_BOOT: (SECURE_BOOT,)}


def of_server(host: cloud.HostCloud, server: servers.Server) -> str | None:
    """Return the firmware that a server has, one of :data:`TITLES`."""
    return (SECURE_BOOT if host.capabilities.secure_boot(server)
            else host.capabilities.boot_mode(server))


def requested_image(node: 'objects.Node', host: cloud.HostCloud,
                    server: servers.Server) -> dict | None:
    """Return the empty image for the firmware that a deployment asks for.

    :returns: None if the server has it, or any will do.
    :raises: InvalidParameterValue if the node's capabilities contradict each
        other.
    :raises: Refused or a HostCloudError, as :func:`empty_image`.
    """
    wanted = (SECURE_BOOT if boot_mode_utils.is_secure_boot_requested(node)
              else boot_mode_utils.get_boot_mode_for_deploy(node))
    if not wanted or of_server(host, server) in ENOUGH[wanted]:
        return None
    return empty_image(wanted, node, host, server)


def is_disk_to_be_lost(node: 'objects.Node') -> bool:
    """Return whether a node is where it may lose its disk.

    Ironic sets the boot mode before the steps of a deployment, and again, with
    secure boot, when the disk is written. Ramdisks have no disk written.
    """
    if node.provision_state != states.DEPLOYING:
        return node.provision_state == states.CLEANING
    return not strutils.bool_from_string(
        node.instance_info.get('preserve_ephemeral')) and (
            not node.deploy_step
            or deploy_utils.get_boot_option(node) == 'ramdisk')


def empty_image(wanted: str | None, node: 'objects.Node',
                host: cloud.HostCloud, server: servers.Server) -> dict:
    """Return the empty image that a server is to be rebuilt from.

    It is the one that the node names, or the configured one.

    :param wanted: the firmware that the server gets by it; None for the boot
        mode that it has.
    :raises: Refused if the server cannot be switched to what is wanted.
    :raises: UnsuitableImage if the image is missing, or does not serve, or
        another HostCloudError.
    """
    if wanted:
        server.require(f'switched to {TITLES[wanted]}',
                       host.capabilities.switch_obstacle(server))
    name, reference = rescue_image.setting('empty_image', node, host, server,
                                           wanted)
    try:
        image = host.capabilities.read_image(reference)
        images.check_rebuild(
            image, None if wanted else host.capabilities.boot_mode(server))
        made = of_server(host, dataclasses.replace(server, image_properties={
            # Nova boots all machines of some architectures by UEFI.
            'hw_architecture': images.architecture(
                host.capabilities.image_properties(server) or {}), **image}))
        if wanted not in (None, made):
            raise errors.UnsuitableImage(
                f'it gives server {server.id} {TITLES[made]} and not '
                f'{TITLES[wanted]} (hw_firmware_type, os_secure_boot)')
        return image
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        option = ' --secure-boot' if wanted == SECURE_BOOT else ''
        raise errors.UnsuitableImage(
            f'The empty image of {name} cannot be used: {exc}; "openstack '
            f'quintupleo image create{option}" makes empty images')
