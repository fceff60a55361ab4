# SPDX-License-Identifier: Apache-2.0
"""The empty image that a node's disk is wiped with."""

from ironic import objects

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.media import rescue_image
from quintupleo_power.node import driver_info


def find(node: 'objects.Node', info: driver_info.DriverInfo,
         host: cloud.HostCloud, server: servers.Server) -> str:
    """Return the UUID of the empty image for a node's server.

    It is the one that the node names, or the one that the server was made
    from if that is empty, which changes nothing else of the server. Another
    image, such as a deployed system, is replaced by the configured one.

    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: UnsuitableImage if the setting names no image that fits, or
        another HostCloudError.
    """
    own = (None if info.empty_image
           else host.capabilities.own_empty_image(server))
    if own:
        return own
    name, reference = rescue_image.setting('empty_image', node, info, host,
                                           server)
    try:
        return host.images.find_rebuild_image(
            reference, host.capabilities.boot_mode(server))
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        raise errors.UnsuitableImage(
            f'The empty image of {name} cannot be used: {exc}; "openstack '
            'quintupleo image create" makes empty images')
