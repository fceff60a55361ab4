# SPDX-License-Identifier: Apache-2.0
"""ISOs that boot a ramdisk, made by Ironic's own builder.

What is on them is what Ironic's redfish virtual media boot puts there
(``ironic/drivers/modules/image_utils.py``): kernel, ramdisk, the parameters on
the kernel's command line, and the files that the agent looks for on the
medium it was booted from.
"""

import contextlib
import json
import os
import tempfile

from ironic.common import boot_modes
from ironic.common import exception
from ironic.common import images
from ironic.common import states
from ironic.conf import CONF
from ironic.drivers.modules import deploy_utils
from ironic.drivers import utils as driver_utils
from oslo_utils import uuidutils

from quintupleo_power import compat

_CA_FILE = 'etc/ironic-python-agent/ironic.crt'
_CA_CONFIG = f'[DEFAULT]\ncafile = /{_CA_FILE}\n'.encode()
_CA_CONFIG_FILE = 'etc/ironic-python-agent.d/ironic-tls.conf'
_NETWORK_DATA_FILE = 'openstack/latest/network_data.json'


@contextlib.contextmanager
def of_the_agent(task, boot_mode, parameters):
    """Make the ISO that boots the agent, for deployment, rescue and others.

    :param task: a task from TaskManager.
    :param boot_mode: 'bios' or 'uefi'.
    :param parameters: dict of parameters for the agent.
    :returns: path of the ISO, as a context.
    :raises: MissingParameterValue if a kernel, ramdisk, boot loader or setting
        is missing.
    :raises: InvalidParameterValue if the kernel parameters or a setting are
        wrong.
    :raises: NetworkError if the network interface does not tell the network
        configuration.
    :raises: ImageCreationFailed if it cannot be made, or what Ironic raises
        if what it is made of cannot be fetched.
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
    with _made(task, boot_mode, found[f'{mode}_kernel'],
               found[f'{mode}_ramdisk'], line, _files(task),
               publisher) as path:
        yield path


@contextlib.contextmanager
def of_an_instance(task, boot_mode):
    """Give the ISO that an instance is to run from.

    :param task: a task from TaskManager, whose node has ``boot_iso``, or
        ``kernel`` and ``ramdisk``, in instance_info, or there an image of
        Ironic's Glance that names these two.
    :param boot_mode: 'bios' or 'uefi'.
    :returns: path of the ISO, as a context.
    :raises: MissingParameterValue if one is to be made for UEFI and there is
        no boot loader.
    :raises: InvalidParameterValue if the kernel parameters are wrong.
    :raises: ImageCreationFailed if it cannot be made, or what Ironic raises
        if it cannot be fetched.
    """
    info = task.node.instance_info
    if info.get('boot_iso'):
        with fetched(task, info['boot_iso']) as path:
            yield path
        return
    kernel, ramdisk = info.get('kernel'), info.get('ramdisk')
    if not (kernel and ramdisk):
        found = images.get_image_properties(
            task.context, info.get('image_source'),
            ['kernel_id', 'ramdisk_id'])
        kernel = kernel or found.get('kernel_id')
        ramdisk = ramdisk or found.get('ramdisk_id')
    line = f'root=/dev/ram0 text {info.get("ramdisk_kernel_arguments") or ""}'
    with _made(task, boot_mode, kernel, ramdisk, line, {}, None) as path:
        yield path


@contextlib.contextmanager
def fetched(task, href):
    """Fetch an ISO.

    :param task: a task from TaskManager.
    :param href: its URL, or UUID in Ironic's Glance.
    :returns: its path, as a context.
    :raises: what Ironic raises if it cannot be fetched.
    """
    with tempfile.TemporaryDirectory(dir=CONF.tempdir) as folder:
        path = os.path.join(folder, 'boot.iso')
        images.fetch(task.context, href, path)
        yield path


def agent(node, mode):
    """Tell kernel and ramdisk of the agent.

    :param node: an Ironic node.
    :param mode: 'deploy' or 'rescue'.
    :returns: a dict with ``MODE_kernel`` and ``MODE_ramdisk``.
    :raises: MissingParameterValue if one of them is set nowhere.
    """
    found = driver_utils.get_agent_kernel_ramdisk(node, mode)
    deploy_utils.check_for_missing_params(
        found, f'Node {node.uuid} has no ramdisk for mode {mode}')
    return found


def require_boot_loader(node, boot_mode):
    """Check that an ISO can be made for a boot mode.

    :param node: an Ironic node.
    :param boot_mode: 'bios' or 'uefi'.
    :raises: MissingParameterValue if it is UEFI and there is no boot loader.
    """
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
def _made(task, boot_mode, kernel, ramdisk, line, files, publisher):
    require_boot_loader(task.node, boot_mode)
    with tempfile.TemporaryDirectory(dir=CONF.tempdir) as folder:
        path = os.path.join(folder, 'boot.iso')
        compat.create_boot_iso(
            task.context, path, kernel, ramdisk, line,
            esp_image_href=_boot_loader(task.node), boot_mode=boot_mode,
            inject_files=files, publisher_id=publisher)
        yield path


def _files(task):
    """What is on the ISO beside the ramdisk: {content or path: name}."""
    files = {}
    if CONF.agent.api_ca_file:
        files[CONF.agent.api_ca_file] = _CA_FILE
        files[_CA_CONFIG] = _CA_CONFIG_FILE
    inspects = task.node.provision_state in (states.INSPECTING,
                                             states.INSPECTWAIT)
    network_data = not (inspects and compat.inspects_by_dhcp()) and (
        task.driver.network.get_node_network_data(task))
    if network_data:
        files[json.dumps(network_data).encode()] = _NETWORK_DATA_FILE
    return files
