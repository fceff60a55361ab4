# SPDX-License-Identifier: Apache-2.0
"""The image that a node's server is rescued with."""

from ironic.common import boot_modes
from ironic.common import exception
from ironic.drivers.modules import boot_mode_utils
from oslo_config import cfg

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import errors
from quintupleo_power.media import virtual_media
from quintupleo_power import transitions

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
_BOOT_MODES = (boot_modes.LEGACY_BIOS, boot_modes.UEFI)


def find(node, info, host, server, device=transitions.Device.PXE):
    """Find the rescue image for a node's server.

    :param node: an Ironic node.
    :param info: its :class:`driver_info.DriverInfo`.
    :param host: its :class:`host_cloud.cloud.HostCloud`.
    :param server: its :class:`host_cloud.servers.Server`.
    :param device: PXE for the image with iPXE, CDROM for the virtual media.
    :returns: the image's UUID.
    :raises: Refused if there are no virtual media.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: UnsuitableImage if the setting names no rescue image, or another
        HostCloudError.
    """
    if device is transitions.Device.CDROM:
        return virtual_media.image(node)
    reference = _reference(node, info, host, server)
    try:
        return host.rescue_image(reference)
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        setting = ('driver_info/quintupleo_rescue_image'
                   if info.rescue_image else
                   f'[{GROUP}]rescue_image_{boot_mode(node, host, server)}')
        raise errors.UnsuitableImage(
            f'The rescue image of {setting} cannot be used: {exc}')


def was_replaced(node, info, host, server, image):
    """Tell whether another image has the name by now that was looked up.

    :param node: an Ironic node.
    :param info: its :class:`driver_info.DriverInfo`.
    :param host: its :class:`host_cloud.cloud.HostCloud`.
    :param server: its :class:`host_cloud.servers.Server`.
    :param image: UUID of the image that was found before.
    :returns: True or False.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: UnsuitableImage if the setting names no rescue image any more,
        or another HostCloudError.
    """
    host.forget_image(_reference(node, info, host, server))
    return find(node, info, host, server) != image


def _reference(node, info, host, server):
    return (info.rescue_image
            or CONF[GROUP][f'rescue_image_{boot_mode(node, host, server)}'])


def boot_mode(node, host, server):
    """Tell the server's boot mode, or the node's where the cloud cannot.

    :param node: an Ironic node.
    :param host: its :class:`host_cloud.cloud.HostCloud`.
    :param server: its :class:`host_cloud.servers.Server`.
    :returns: 'bios' or 'uefi'.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    mode = host.boot_mode(server) or boot_mode_utils.get_boot_mode(node)
    if mode not in _BOOT_MODES:
        raise exception.InvalidParameterValue(
            f"Node {node.uuid}: its boot mode is '{mode}', and the host cloud "
            'tells none for its server: set capability boot_mode of its '
            'properties or of its instance_info to bios or uefi')
    return mode
