# SPDX-License-Identifier: Apache-2.0
"""Whether the images are there, and fit."""

import functools
from typing import Any

from quintupleo_power.checks import access
from quintupleo_power.checks import conductor
from quintupleo_power.checks import results
from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images

RESCUE, EMPTY = 'rescue image', 'empty image'
BOOT_MODES = (images.BIOS, images.UEFI)

_MAKE = ('run "tools/build-ipxe-image --output ipxe.iso" and "openstack '
         'quintupleo image create --iso ipxe.iso"')
_REPLACE = _MAKE.replace('create', 'create --replace')


def name(purpose: str, mode: str) -> str:
    """Return the name of the check of an image, RESCUE or EMPTY."""
    return f'{purpose} {mode}'


def checks(project: cloud_facts.CloudInfo) -> list[results.Check]:
    """Return the checks of the images that the driver uses."""
    return [results.Check(name(purpose, mode),
                          functools.partial(_both, project, purpose),
                          functools.partial(judge, mode), (access.IMAGES,))
            for purpose, judge in ((RESCUE, _judge_rescue),
                                   (EMPTY, _judge_empty))
            for mode in BOOT_MODES]


def _both(project, purpose, facts):
    """Return the image, or why it cannot be read, by boot mode."""
    found = {}
    for mode in BOOT_MODES:
        option = f'{purpose.replace(" ", "_")}_{mode}'
        try:
            found[mode] = images.read(
                project.image, CONF.quintupleo[option])
        except (errors.NotFound, errors.NotUnique) as exc:
            found[mode] = exc
    return found


def _judge_rescue(mode, found):
    image = found[mode]
    if isinstance(image, Exception):
        return _judge_absent(mode, found, 'boot from the network')
    try:
        images.check_rescue(image)
    except errors.UnsuitableImage as exc:
        return results.failed(
            str(exc), _REPLACE if image.get('status') != 'active' else
            'run "openstack image set --property hw_rescue_device=cdrom '
            f'--property hw_rescue_bus=sata {image["id"]}"')
    if image.get('size') == 0:
        return results.failed(f'{_title(image)} is empty', _REPLACE)
    if images.firmware(image) != mode:
        return results.warned(
            f'{_title(image)} says that it is for {images.firmware(image)}',
            f'check that the option rescue_image_{mode} names the image that '
            'is meant')
    return results.passed(_title(image))


def _judge_empty(mode, found):
    image = found[mode]
    if isinstance(image, Exception):
        return _judge_absent(mode, found, 'be made by "environment create" '
                             'or wiped by the step wipe_disk')
    try:
        images.check_rebuild(image, mode)
    except errors.UnsuitableImage as exc:
        return results.failed(str(exc), _REPLACE)
    if not images.is_empty(image):
        return results.warned(
            f'{_title(image)} is not the empty image of these commands: '
            'what is in it is on each disk that is wiped', _REPLACE)
    seconds = shutdown(image.get('os_shutdown_timeout'))
    if not seconds:
        return results.passed(_title(image))
    timeout = CONF.quintupleo.action_timeout
    judge = results.warned if seconds < timeout else results.failed
    return judge(
        f'with {_title(image)} a power off, and a network boot of a running '
        f'server, takes up to {seconds} s, and the driver gives up after '
        f'{timeout} s',
        'run "openstack image set --property os_shutdown_timeout=0 '
        f'{image["id"]}" and make the servers again, which keep what the '
        'image had')


def _judge_absent(mode, found, purpose):
    # One boot mode may be enough.
    usable = any(isinstance(each, dict) for each in found.values())
    is_missing = isinstance(found[mode], errors.NotFound)
    judge = results.warned if usable and is_missing else results.failed
    return judge(f'{found[mode]}: {mode.upper()} servers cannot {purpose}',
                 _MAKE if is_missing else 'delete all but one, or use the '
                 'UUID in [quintupleo]')


def shutdown(value: Any) -> int:
    """Return the seconds of an ``os_shutdown_timeout``, or Nova's default."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return conductor.CLEAN_SHUTDOWN


def _title(image):
    return f"'{image.get('name')}' ({image['id']})"
