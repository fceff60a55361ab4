# SPDX-License-Identifier: Apache-2.0
"""What one release of Ironic needs and another does not."""

from ironic.common import context as ironic_context
from ironic.common import exception
from ironic.common import images
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers.modules import agent_base
from ironic.drivers.modules import image_utils
from ironic.drivers.modules import inspect_utils
from ironic.drivers.modules import noop
from ironic import objects

try:
    from ironic.common import kernel_parameters
except ImportError:
    # Where the command line is a string.
    kernel_parameters = None

try:
    from ironic.common import metrics_utils
except ImportError:
    # Before Ironic 28.0.
    from ironic_lib import metrics_utils  # noqa: F401

try:
    from ironic.common import health_states
except ImportError:
    # Before Ironic 34.0, which does not ask for the health of a node.
    health_states = None

try:
    from ironic.common.inspection_rules import engine as inspection_rules
except ImportError:
    # Before Ironic 29.0, where hooks are those of interface agent only, too.
    inspection_rules = None

try:
    from ironic.common import vnc
except ImportError:
    # Before Ironic 29.0, which has no graphical consoles of its own.
    vnc = None

# The classes of deploy interface noop, which came with Ironic 33.0.
NO_DEPLOY = tuple(filter(None, [getattr(noop, 'NoDeploy', None)]))


def previous_provision_state(task: task_manager.TaskManager) -> str | None:
    """Return the provision state that a task has changed, if it has.

    Ironic, up to 39, keeps it privately (``TaskManager.process_event``).
    """
    return getattr(task, '_prev_provision_state', None)


def must_stay_on(node: 'objects.Node') -> bool:
    """Return ``disable_power_off`` of a node, which came with Ironic 27.0."""
    return bool(getattr(node, 'disable_power_off', False))


def restore_interface(deploy: 'base.DeployInterface',
                      task: task_manager.TaskManager) -> None:
    """Restore the deploy interface of a node from which Ironic has switched.

    Ironic 35.0 to 38.0 does so for the agent's deploy interfaces only, and
    calls none of them in releases before.
    """
    restore = getattr(agent_base.AgentBaseMixin, 'restore_interface',
                      None) or base.DeployInterface.restore_interface
    restore(deploy, task)


def create_boot_iso(context: ironic_context.RequestContext, path: str,
                    kernel: str, ramdisk: str, line: str,
                    **arguments) -> None:
    """Make an ISO that boots a ramdisk.

    :param kernel: URL or Glance UUID, as ``ramdisk``.
    :param line: the kernel's command line.
    :param arguments: the others of Ironic's own function.
    :raises: InvalidParameterValue if the command line is malformed,
        ImageCreationFailed, or what Ironic raises if a part of it cannot be
        fetched.
    """
    if kernel_parameters:
        arguments['kernel_cmd_line'] = (
            kernel_parameters.KernelCommandLine.parse(line))
    else:
        arguments['kernel_params'] = line
    images.create_boot_iso(context, path, kernel, ramdisk, **arguments)


def inspection_hooks(interface: str, names: list[str]) -> list:
    """Return the hooks of an inspect interface, in their order.

    :param interface: the interface's name.
    :param names: those of Ironic's ``ironic.inspection.hooks``.
    :raises: ConfigInvalid if this Ironic has none for an interface.
    :raises: RuntimeError or HardwareInspectionFailure if there is no such
        hook, or one before it is missing.
    """
    if not names:
        return []
    if inspection_rules is None:
        raise exception.ConfigInvalid(
            error_msg=f'[{interface}]inspection_hooks needs Ironic 29.0 or '
            'later: remove it')
    return inspect_utils.validate_inspection_hooks(interface, names)


def apply_inspection_rules(task: task_manager.TaskManager, inventory: dict,
                           plugin_data: dict) -> None:
    """Apply the inspection rules that operators have made.

    :raises: HardwareInspectionFailure or another IronicException if a rule
        says so, or cannot be applied.
    """
    if inspection_rules:
        inspection_rules.apply_rules(task, inventory, plugin_data, 'main')


def image_publisher_settings():
    """Return Ironic's ``ImagePublisherSettings``, None where it has none."""
    settings = getattr(base, 'ImagePublisherSettings', None)
    return settings and settings(image_subdir='quintupleo')


def disallowed_clean_steps() -> list[str]:
    """Return the clean steps that Ironic leaves out, where it can."""
    return getattr(CONF.api, 'disallow_clean_steps', [])


def inspects_by_dhcp() -> bool:
    """Return [inspector]force_dhcp, which came with Ironic 33.0."""
    return getattr(CONF.inspector, 'force_dhcp', False)


def serve_files_to(hardware_type: str) -> None:
    """Make Ironic serve the files that a user attaches to nodes of a type.

    Up to Ironic 38.0 ``ImageHandler`` (``ironic/drivers/modules/
    image_utils.py``) knows by name the hardware types that it serves to. From
    39.0 on it asks the boot interface, which Ironic's own for iPXE leaves to
    that list. It serves ours as redfish.
    """
    update = getattr(image_utils.ImageHandler, 'update_driver_config', None)
    if update is None:
        return

    def update_driver_config(self, driver, **boot):
        update(self, 'redfish' if driver == hardware_type else driver, **boot)

    image_utils.ImageHandler.update_driver_config = update_driver_config
