# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The rescue image that a node's server is PXE booted with."""

from ironic.drivers.modules import boot_mode_utils
from oslo_config import cfg

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import errors

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP


def find(node, info, host, server):
    """Find the rescue image for a node's server.

    :param node: an Ironic node.
    :param info: its :class:`driver_info.DriverInfo`.
    :param host: its :class:`host_cloud.cloud.HostCloud`.
    :param server: its :class:`host_cloud.servers.Server`.
    :returns: the image's UUID.
    :raises: UnsuitableImage if the setting names no rescue image, or another
        HostCloudError.
    """
    reference = _reference(node, info, host, server)
    try:
        return host.rescue_image(reference)
    except (errors.NotFound, errors.NotUnique,
            errors.UnsuitableImage) as exc:
        setting = ('driver_info/quintupleo_rescue_image'
                   if info.rescue_image else
                   f'[{GROUP}]rescue_image_{_boot_mode(node, host, server)}')
        raise errors.UnsuitableImage(
            f'The rescue image of {setting} cannot be used: {exc}')


def was_replaced(node, info, host, server, image):
    """Whether another image has the name by now that was looked up before."""
    host.forget_image(_reference(node, info, host, server))
    return find(node, info, host, server) != image


def _reference(node, info, host, server):
    return (info.rescue_image
            or CONF[GROUP][f'rescue_image_{_boot_mode(node, host, server)}'])


def _boot_mode(node, host, server):
    """The server's boot mode, or the node's where the cloud cannot tell."""
    return (host.boot_mode(server)
            or boot_mode_utils.get_boot_mode(node))
