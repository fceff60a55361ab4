# SPDX-License-Identifier: Apache-2.0
"""Whether the images are there, and fit."""

from oslo_config import cfg

from quintupleo_power.checks import access
from quintupleo_power.checks import conductor
from quintupleo_power.checks import results
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP
RESCUE, EMPTY = 'rescue image', 'empty image'
BOOT_MODES = (images.BIOS, images.UEFI)

_MAKE = ('run "tools/build-ipxe-image --output ipxe.iso" and "openstack '
         'quintupleo image create --iso ipxe.iso"')
_REPLACE = _MAKE.replace('create', 'create --replace')


def name(purpose, mode):
    """Name the check of an image.

    :param purpose: RESCUE or EMPTY.
    :param mode: 'bios' or 'uefi'.
    :returns: the check's name.
    """
    return f'{purpose} {mode}'


def checks(project):
    """List the checks of the images that the driver uses.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: list of :class:`results.Check`.
    """
    return [
        *(_check(project, RESCUE, mode, judge_rescue) for mode in BOOT_MODES),
        *(_check(project, EMPTY, mode, judge_empty) for mode in BOOT_MODES),
        results.Check('clean shutdown', _empty_images,
                       judge_shutdown, (access.IMAGES,))]


def _check(project, purpose, mode, judge):
    return results.Check(
        name(purpose, mode), lambda facts: _both(project, purpose),
        lambda found: judge(mode, found), (access.IMAGES,))


def _both(project, purpose):
    """Read an image for each boot mode, or why it cannot be read."""
    found = {}
    for mode in BOOT_MODES:
        option = f'{purpose.replace(" ", "_")}_{mode}'
        try:
            found[mode] = project.image(CONF[GROUP][option])
        except (errors.NotFound, errors.NotUnique) as exc:
            found[mode] = exc
    return found


def judge_rescue(mode, found):
    """Judge the image that servers are rescued with.

    :param mode: the boot mode.
    :param found: dict of image or error by boot mode.
    :returns: a :class:`results.Verdict`.
    """
    image = found[mode]
    if isinstance(image, Exception):
        return _absent(mode, found, 'boot from the network')
    try:
        images.check_rescue(image)
    except errors.UnsuitableImage as exc:
        return results.failed(str(exc), _advice(
            image, 'hw_rescue_device=cdrom', 'hw_rescue_bus=sata'))
    if image.get('size') == 0:
        return results.failed(f'{_title(image)} is empty', _REPLACE)
    if images.firmware(image) != mode:
        return results.warned(
            f'{_title(image)} says that it is for {images.firmware(image)}',
            f'check that the option rescue_image_{mode} names the image that '
            'is meant')
    return results.passed(_title(image))


def judge_empty(mode, found):
    """Judge the image of an empty disk.

    :param mode: the boot mode.
    :param found: dict of image or error by boot mode.
    :returns: a :class:`results.Verdict`.
    """
    image = found[mode]
    if isinstance(image, Exception):
        return _absent(mode, found, 'be made by "environment create" or '
                                    'wiped by the step wipe_disk')
    try:
        images.check_rebuild(image, mode)
    except errors.UnsuitableImage as exc:
        return results.failed(str(exc), _REPLACE)
    if not images.is_empty(image):
        return results.warned(
            f'{_title(image)} is not the empty image of these commands: '
            'what is in it is on each disk that is wiped', _REPLACE)
    return results.passed(_title(image))


def _absent(mode, found, purpose):
    """Judge that an image cannot be read: one boot mode may be enough."""
    usable = any(isinstance(each, dict) for each in found.values())
    is_missing = isinstance(found[mode], errors.NotFound)
    judge = results.warned if usable and is_missing else results.failed
    return judge(f'{found[mode]}: {mode.upper()} servers cannot {purpose}',
                 _MAKE if is_missing else 'delete all but one, or use the '
                 'UUID in [quintupleo]')


def _empty_images(facts):
    """The empty images that were read, and the time for an action."""
    found = facts.get(name(EMPTY, images.BIOS)) or {}
    return ([image for image in found.values() if isinstance(image, dict)],
            CONF[GROUP].action_timeout)


def judge_shutdown(read):
    """Judge how long servers of these images take to switch off.

    :param read: (list of images, seconds that a request may take).
    :returns: a :class:`results.Verdict`.
    """
    found, action_timeout = read
    if not found:
        return results.Verdict(results.SKIPPED, 'needs an empty image')
    slow = {_title(image): shutdown(image.get('os_shutdown_timeout'))
            for image in found}
    slow = {title: seconds for title, seconds in slow.items() if seconds}
    if not slow:
        return results.passed('os_shutdown_timeout=0: a power off is a cut')
    seconds = max(slow.values())
    told = (f'a power off, and a network boot of a running server, takes '
            f'up to {seconds} s with {", ".join(slow)}')
    advice = ('run "openstack image set --property os_shutdown_timeout=0 '
              '<image>" and make the servers anew, which keep what the image '
              'had')
    if seconds >= action_timeout:
        return results.failed(
            f'{told}, and the driver gives up after {action_timeout} s',
            advice)
    return results.warned(told, advice)


def shutdown(value):
    """Tell how long Nova waits for a guest to shut down.

    :param value: ``os_shutdown_timeout`` of its image, None without it.
    :returns: seconds, Nova's default where the value is no number.
    """
    try:
        return int(value)
    except (TypeError, ValueError):
        return conductor.CLEAN_SHUTDOWN


def _title(image):
    return f"'{image.get('name')}' ({image['id']})"


def _advice(image, *properties):
    if image.get('status') != 'active':
        return _REPLACE
    return ('run "openstack image set '
            + ' '.join(f'--property {each}' for each in properties)
            + f' {image["id"]}"')
