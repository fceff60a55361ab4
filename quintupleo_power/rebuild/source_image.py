# SPDX-License-Identifier: Apache-2.0
"""The image that a node is to be deployed with, as Ironic has it.

Ironic's own helpers (``ironic/drivers/modules/deploy_utils.py``) fetch, check
and cache it on the conductor, in the format that it has: what is sent to the
host cloud is then no larger.
"""

from urllib import parse

from ironic.common import checksum_utils
from ironic.common import exception
from ironic.common.glance_service import service_utils
from ironic.common import image_service
from ironic.common import images
from ironic.conductor import task_manager
from ironic.drivers.modules import deploy_utils
from keystoneauth1 import exceptions

_SCHEMES = ('http', 'https', 'file')
# Glance's names for the formats that Ironic finds. Ironic calls a raw image
# with a partition table gpt.
_FORMATS = {'raw': 'raw', 'gpt': 'raw', 'qcow2': 'qcow2'}


def validate(task: task_manager.TaskManager) -> dict:
    """Check that a node has an image to deploy, without fetching it.

    :returns: what Glance tells of it; empty if it is not in Glance.
    :raises: MissingParameterValue if its checksum is missing.
    :raises: InvalidParameterValue if a rebuild cannot deploy it.
    """
    node = task.node
    info = node.instance_info
    href = info.get('image_source')
    if not service_utils.is_glance_image(href) and (
            parse.urlparse(str(href)).scheme.lower() not in _SCHEMES):
        raise exception.InvalidParameterValue(
            f"Node {node.uuid}: set instance_info/image_source ('{href}') to "
            'the UUID of an image in Glance or to a URL of '
            f'{", ".join(_SCHEMES)}')
    if not node.driver_internal_info.get('is_whole_disk_image'):
        raise exception.InvalidParameterValue(
            f"Node {node.uuid}: image '{href}' is of a partition, with kernel "
            'and ramdisk beside it, or cannot be read by Ironic, and a '
            'rebuild writes whole disks: use an image of a whole disk that '
            'may be read, or deploy_interface direct')
    _require_checksum(node, href)
    image = (_of_glance(task, href)
             if service_utils.is_glance_image(href) else {})
    for where, found in (
            ('Glance', image.get('disk_format')),
            ('instance_info/image_disk_format',
             info.get('image_disk_format'))):
        if found and found not in _FORMATS:
            raise _wrong_format(node, href, f'{found} ({where})')
    return image


def _wrong_format(node, href, found):
    return exception.InvalidParameterValue(
        f"Node {node.uuid}: image '{href}' is {found}, and a server is "
        'rebuilt from raw or qcow2: convert it')


def _require_checksum(node, href):
    info = node.instance_info
    if service_utils.is_glance_image(href) or href.startswith('file:'):
        # Glance has it, and Ironic computes that of a file.
        return
    algorithm, value = (info.get(f'image_os_hash_{what}')
                        for what in ('algo', 'value'))
    if bool(algorithm) != bool(value) or not (
            value or info.get('image_checksum')):
        raise exception.MissingParameterValue(
            f"Node {node.uuid}: image '{href}' needs its checksum: set "
            'instance_info/image_os_hash_algo and image_os_hash_value, or '
            'image_checksum')


def checksum(task: task_manager.TaskManager) -> str:
    """Return the checksum of a node's image, as its source or user has it.

    :returns: with its algorithm, as 'sha256:...'.
    :raises: InvalidParameterValue if no usable one is found, or what Ironic
        raises if the source cannot be read.
    """
    found = task.node.instance_info
    href = found['image_source']
    if service_utils.is_glance_image(href):
        found = _checksum_of_glance(task, href)
    elif href.startswith('file:'):
        # Before anything of it is read.
        image_service.FileImageService().validate_href(href)
    value, algorithm = checksum_utils.get_checksum_and_algo(
        {key: found[key] for key in found
         if found[key] is not None or key == 'image_checksum'})
    if ':' in value:
        algorithm, value = value.split(':', 1)
    return f'{algorithm or "md5"}:{value}'.lower()


def _of_glance(task, href):
    """Return what Glance tells of an image, the properties among it."""
    try:
        image = images.image_show(task.context, href)
    except (exception.IronicException, exceptions.ClientException) as exc:
        raise exception.InvalidParameterValue(
            f"Node {task.node.uuid}: image '{href}' cannot be read: {exc}")
    return {**(image.get('properties') or {}), **image}


def _checksum_of_glance(task, href):
    image = _of_glance(task, href)
    if image.get('os_hash_value'):
        return {'image_os_hash_algo': image.get('os_hash_algo'),
                'image_os_hash_value': image['os_hash_value']}
    if not image.get('checksum'):
        raise exception.InvalidParameterValue(
            f"Node {task.node.uuid}: Glance has no checksum of image "
            f"'{href}': wait until the image is active")
    return {'image_source': href, 'image_checksum': image['checksum']}


def fetch(task: task_manager.TaskManager, wanted: str) -> tuple[str, str]:
    """Fetch a node's image, and return its path and Glance's disk_format.

    :param wanted: its checksum, as :func:`checksum` returns it.
    :raises: InvalidParameterValue if its format is neither raw nor qcow2.
    :raises: InvalidImage or another exception of Ironic if it is not what it
        should be, or cannot be fetched.
    """
    node = task.node
    href = node.instance_info['image_source']
    algorithm, value = wanted.split(':')
    _, path, _ = deploy_utils.cache_instance_image(
        task.context, node, force_raw=False,
        expected_format=node.instance_info.get('image_disk_format'),
        expected_checksum=value, expected_checksum_algo=algorithm)
    # Ironic's cache was not compared with this checksum, which the image in
    # the host cloud is found by.
    checksum_utils.validate_checksum(path, value, algorithm)
    found = images.get_source_format(href, path)
    if found not in _FORMATS:
        raise _wrong_format(node, href, found)
    return path, _FORMATS[found]
