# SPDX-License-Identifier: Apache-2.0
"""The image that a node's server is rescued with."""

from ironic.common import boot_modes
from ironic.common import exception
from ironic.drivers.modules import boot_mode_utils
from ironic import objects

from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import servers
from quintupleo_power.media import virtual_media
from quintupleo_power.node import driver_info
from quintupleo_power import transitions


def find(node: 'objects.Node', host: cloud.HostCloud, server: servers.Server,
         device: transitions.Device = transitions.Device.PXE) -> str:
    """Return the UUID of the rescue image for a node's server.

    :param device: PXE for the image with iPXE, CDROM for the virtual media.
    :raises: Refused if the CD-ROM drive is empty.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: UnsuitableImage if the setting names no rescue image, or another
        HostCloudError.
    """
    if device is transitions.Device.CDROM:
        image = virtual_media.inserted(node)
        if image is None:
            raise transitions.Refused('There are no virtual media to boot '
                                      'from: attach an ISO first')
        return image
    name, reference = setting('rescue_image', node, host, server)
    try:
        return images.find_rescue(host.image, reference, host.rescue_images)
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        raise errors.UnsuitableImage(
            f'The rescue image of {name} cannot be used: {exc}')


def setting(kind: str, node: 'objects.Node', host: cloud.HostCloud,
            server: servers.Server, which: str | None = None
            ) -> tuple[str, str]:
    """Return the setting of a node's image, and the name or UUID in it.

    :param kind: 'rescue_image' or 'empty_image'.
    :param which: how the option ends, if not by the server's boot mode.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    reference = getattr(driver_info.parse(node), kind)
    if reference:
        return f'driver_info/quintupleo_{kind}', reference
    option = f'{kind}_{which or boot_mode(node, host, server)}'
    return f'[quintupleo]{option}', CONF.quintupleo[option]


def boot_mode(node: 'objects.Node', host: cloud.HostCloud,
              server: servers.Server) -> str:
    """Return 'bios' or 'uefi', the node's where the cloud has none.

    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    mode = (host.capabilities.boot_mode(server)
            or boot_mode_utils.get_boot_mode(node))
    if mode not in (boot_modes.LEGACY_BIOS, boot_modes.UEFI):
        raise exception.InvalidParameterValue(
            f"Node {node.uuid}: its boot mode is '{mode}', and the host cloud "
            'reports none for its server: set capability boot_mode of its '
            'properties or of its instance_info to bios or uefi')
    return mode
