# SPDX-License-Identifier: Apache-2.0
"""The empty image that a node's disk is wiped with."""

from oslo_config import cfg

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import errors
from quintupleo_power.media import rescue_image

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP


def find(node, info, host, server):
    """Find the empty image for a node's server.

    It is the one that the node names, or the one that the server was made
    from if that is empty, which changes nothing else of the machine. A server
    whose image is another one, such as a deployed system, goes back to the
    configured one.

    :param node: an Ironic node.
    :param info: its :class:`driver_info.DriverInfo`.
    :param host: its :class:`host_cloud.cloud.HostCloud`.
    :param server: its :class:`host_cloud.servers.Server`.
    :returns: the image's UUID.
    :raises: InvalidParameterValue if the node's capabilities are wrong.
    :raises: UnsuitableImage if the setting names no image that fits, or
        another HostCloudError.
    """
    setting, reference = 'driver_info/quintupleo_empty_image', info.empty_image
    if reference is None:
        own = host.own_empty_image(server)
        if own:
            return own
        option = ('empty_image_'
                  f'{rescue_image.boot_mode(node, host, server)}')
        setting, reference = f'[{GROUP}]{option}', CONF[GROUP][option]
    try:
        return host.rebuild_image(server, reference)
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        raise errors.UnsuitableImage(
            f'The empty image of {setting} cannot be used: {exc}; "openstack '
            'quintupleo image create" makes empty images')
