# SPDX-License-Identifier: Apache-2.0
"""ISOs that boot a ramdisk, made by Ironic's own builder.

They hold what Ironic's redfish virtual media boot puts on its own
(``ironic/drivers/modules/image_utils.py``).
"""

from collections import abc
import contextlib
import json
import os

from ironic.common import boot_modes
from ironic.common import exception
from ironic.common import images
from ironic.common import states
from ironic.common import utils
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.drivers.modules import deploy_utils
from ironic.drivers import utils as driver_utils
from ironic import objects
from oslo_utils import uuidutils

from quintupleo_power import compat

_CA_FILE = 'etc/ironic-python-agent/ironic.crt'
_CA_CONFIG = f'[DEFAULT]\ncafile = /{_CA_FILE}\n'.encode()


def of_the_agent(task: task_manager.TaskManager, boot_mode: str,
                 parameters: dict) -> contextlib.AbstractContextManager[str]:
    """Make the ISO that boots the agent; its path is the context's value.

    :param boot_mode: 'bios' or 'uefi'.
    :param parameters: those of the agent.
    :raises: MissingParameterValue if a kernel, ramdisk, boot loader or setting
        is missing.
    :raises: InvalidParameterValue if the kernel parameters or a setting are
        wrong.
    :raises: NetworkError if the network interface has no network data.
    :raises: ImageCreationFailed, or what Ironic raises if a part of it cannot
        be fetched.
    """
    mode = deploy_utils.rescue_or_deploy_mode(task.node)
    found = agent(task.node, mode)
    # By the publisher the agent knows its own medium among others.
    publisher = uuidutils.generate_uuid()
    parameters = {**parameters, 'boot_method': 'vmedia',
                  'ir_pub_id': publisher}
    line = ' '.join([
        driver_utils.get_kernel_append_params(
            task.node, default=CONF.pxe.kernel_append_params) or '',
        *(f'{name}={"" if value is None else value}'
          for name, value in parameters.items())])
    return _made(task, boot_mode, found[f'{mode}_kernel'],
                 found[f'{mode}_ramdisk'], line, inject_files=_files(task),
                 publisher_id=publisher)


def of_an_instance(task: task_manager.TaskManager, boot_mode: str
                   ) -> contextlib.AbstractContextManager[str]:
    """Get the ISO that an instance runs from, as :func:`of_the_agent`.

    The node's instance_info has ``boot_iso``, or ``kernel`` and ``ramdisk``,
    or an image of Ironic's Glance that names these two.

    :param boot_mode: 'bios' or 'uefi'.
    :raises: MissingParameterValue if an ISO is to be made for UEFI and there
        is no boot loader.
    :raises: InvalidParameterValue if the kernel parameters are wrong.
    :raises: ImageCreationFailed, or what Ironic raises if a part of it cannot
        be fetched.
    """
    info = task.node.instance_info
    if info.get('boot_iso'):
        return fetched(task, info['boot_iso'])
    kernel, ramdisk = info.get('kernel'), info.get('ramdisk')
    if not (kernel and ramdisk):
        found = images.get_image_properties(
            task.context, info.get('image_source'),
            ['kernel_id', 'ramdisk_id'])
        kernel = kernel or found.get('kernel_id')
        ramdisk = ramdisk or found.get('ramdisk_id')
    line = f'root=/dev/ram0 text {info.get("ramdisk_kernel_arguments") or ""}'
    return _made(task, boot_mode, kernel, ramdisk, line)


@contextlib.contextmanager
def fetched(task: task_manager.TaskManager, href: str) -> abc.Iterator[str]:
    """Fetch an ISO, and yield its path.

    :param href: its URL, or UUID in Ironic's Glance.
    :raises: what Ironic raises if it cannot be fetched.
    """
    with utils.tempdir() as folder:
        path = os.path.join(folder, 'boot.iso')
        images.fetch(task.context, href, path)
        yield path


def agent(node: 'objects.Node', mode: str) -> dict[str, str]:
    """Return kernel and ramdisk of the agent.

    :param mode: 'deploy' or 'rescue'.
    :returns: dict of ``MODE_kernel`` and ``MODE_ramdisk``.
    :raises: MissingParameterValue if one of them is not set.
    """
    found = driver_utils.get_agent_kernel_ramdisk(node, mode)
    deploy_utils.check_for_missing_params(
        found, f'Node {node.uuid} has no ramdisk for mode {mode}')
    return found


def require_boot_loader(node: 'objects.Node', boot_mode: str) -> None:
    """Raise MissingParameterValue if UEFI has no boot loader for an ISO."""
    if boot_mode == boot_modes.UEFI and not (
            _boot_loader(node) or CONF.esp_image):
        raise exception.MissingParameterValue(
            f'Node {node.uuid} boots in UEFI mode, and there is no EFI system '
            'partition image to make an ISO with: set [conductor]bootloader, '
            '[DEFAULT]esp_image or driver_info/bootloader')


def _boot_loader(node):
    # The oldest release leaves the configuration to us.
    return (driver_utils.get_field(node, 'bootloader', use_conf=True)
            or CONF.conductor.bootloader)


@contextlib.contextmanager
def _made(task, boot_mode, kernel, ramdisk, line, **arguments):
    require_boot_loader(task.node, boot_mode)
    with utils.tempdir() as folder:
        path = os.path.join(folder, 'boot.iso')
        compat.create_boot_iso(
            task.context, path, kernel, ramdisk, line,
            esp_image_href=_boot_loader(task.node), boot_mode=boot_mode,
            **arguments)
        yield path


def _files(task):
    """Return the files beside the ramdisk: {content or path: name on it}."""
    files = {}
    if CONF.agent.api_ca_file:
        files[CONF.agent.api_ca_file] = _CA_FILE
        files[_CA_CONFIG] = 'etc/ironic-python-agent.d/ironic-tls.conf'
    inspects = task.node.provision_state in (states.INSPECTING,
                                             states.INSPECTWAIT)
    network_data = not (inspects and compat.inspects_by_dhcp()) and (
        task.driver.network.get_node_network_data(task))
    if network_data:
        files[json.dumps(network_data).encode()] = (
            'openstack/latest/network_data.json')
    return files
