# SPDX-License-Identifier: Apache-2.0
"""The boot mode and secure boot that a node is to have, and its server has.

A server's own are fixed by its image and flavor.
"""

from ironic.common import exception
from ironic.drivers.modules import boot_mode_utils
from ironic import objects

from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import servers


def require(node: 'objects.Node', current: str | None, wanted: str) -> None:
    """Raise InvalidParameterValue if a server boots in another mode.

    :param current: the server's, None if that is not known.
    """
    if current is not None and wanted != current:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: its server boots in mode {current} and not '
            f'{wanted}, which hw_firmware_type of its image decides: make '
            'the server from another image, or set capabilities '
            f'boot_mode:{current} on the node')


def require_secure(node: 'objects.Node', current: bool | None) -> None:
    """Raise InvalidParameterValue if a server is not known as secure.

    :param current: the state of its secure boot, None if that is not known.
    """
    if not current:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: its server has no secure boot for all that '
            'the host cloud tells: make the server from an image with '
            'hw_firmware_type=uefi and os_secure_boot=required')


def require_requested(node: 'objects.Node',
                      described: capabilities.Capabilities,
                      server: servers.Server) -> None:
    """Check that a server has what a deployment will ask for.

    It is what the boot interfaces ask for when they prepare an instance
    (``ironic/drivers/modules/boot_mode_utils.py``).

    :raises: InvalidParameterValue if it has not, or the node's capabilities
        contradict each other.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    wanted = boot_mode_utils.get_boot_mode_for_deploy(node)
    if wanted:
        require(node, described.boot_mode(server), wanted)
    if boot_mode_utils.is_secure_boot_requested(node):
        require_secure(node, described.secure_boot(server))
