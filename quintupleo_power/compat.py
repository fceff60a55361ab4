# SPDX-License-Identifier: Apache-2.0
"""What one release of Ironic needs and another does not."""

from ironic.common import images
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers.modules import image_utils

try:
    from ironic.common import kernel_parameters
except ImportError:
    # Where the command line is a list of texts.
    kernel_parameters = None

try:
    from ironic.common import metrics_utils
except ImportError:
    # Before Ironic 28.0.
    from ironic_lib import metrics_utils

try:
    from ironic.common import health_states
except ImportError:
    # Where Ironic does not ask for the health of a node.
    health_states = None

get_metrics_logger = metrics_utils.get_metrics_logger


def previous_provision_state(task):
    """Tell which provision state a task's node was in before it changed.

    Ironic keeps it for its notifications (``TaskManager.process_event``), by
    a name that is not public.

    :param task: a TaskManager instance.
    :returns: one of :mod:`ironic.common.states`, or None if the task has not
        changed it.
    """
    return getattr(task, '_prev_provision_state', None)


def create_boot_iso(context, path, kernel, ramdisk, line, **arguments):
    """Make an ISO that boots a ramdisk.

    :param context: the request's context.
    :param path: path of the ISO.
    :param kernel: URL or Glance UUID of the kernel.
    :param ramdisk: URL or Glance UUID of the ramdisk.
    :param line: the kernel's command line.
    :param arguments: the others of Ironic's own function.
    :raises: InvalidParameterValue if the command line is malformed.
    :raises: ImageCreationFailed if it cannot be made, or what Ironic raises
        if what it is made of cannot be fetched.
    """
    if kernel_parameters:
        arguments['kernel_cmd_line'] = (
            kernel_parameters.KernelCommandLine.parse(line))
    else:
        arguments['kernel_params'] = [line]
    images.create_boot_iso(context, path, kernel, ramdisk, **arguments)


def image_publisher_settings():
    """Tell how Ironic serves files.

    :returns: Ironic's ``ImagePublisherSettings``, or None where it does not
        ask for it.
    """
    settings = getattr(base, 'ImagePublisherSettings', None)
    return settings and settings(image_subdir='quintupleo')


def disallowed_clean_steps():
    """Return the clean steps that Ironic leaves out, where it can.

    :returns: list of texts such as 'management.wipe_disk'.
    """
    return getattr(CONF.api, 'disallow_clean_steps', ())


def inspects_by_dhcp():
    """Tell whether an agent that inspects is to ask all cards for DHCP.

    [inspector]force_dhcp came with Ironic 33.0.

    :returns: True or False.
    """
    return getattr(CONF.inspector, 'force_dhcp', False)


def serve_files_to(hardware_type):
    """Let Ironic serve what a user attaches to machines of a hardware type.

    Up to Ironic 38.0 it knows the hardware types by name that it serves to,
    and from 39.0 on it asks the boot interface, which its own for iPXE leaves
    to that list (``ImageHandler`` of
    ``ironic/drivers/modules/image_utils.py``). It serves ours as redfish.

    :param hardware_type: name of the hardware type.
    """
    update = getattr(image_utils.ImageHandler, 'update_driver_config', None)
    if update is None:
        return

    def update_driver_config(self, driver, **boot):
        update(self, 'redfish' if driver == hardware_type else driver, **boot)

    image_utils.ImageHandler.update_driver_config = update_driver_config
