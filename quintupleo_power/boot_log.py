# SPDX-License-Identifier: Apache-2.0
"""The console log of a machine, kept when Ironic fails at something with it.

It goes where Ironic puts the logs of its ramdisk, once for each failure.
libvirt empties a console log when it starts a guest, so it is read before the
driver's next action: in a failed provision state, and when a node comes from
one, as Nova has it undeployed as soon as its deployment has failed.

Where a cleaning, inspection, rescue or service fails, Ironic powers the
machine off before it changes the state (``conductor.utils`` and
``drivers.modules.inspector.interface``, 24.1 to 39). The log is held then, and
kept if the state becomes a failed one. That, and a failure that no action
follows, is found by the next request or the power interface's periodic task.
"""

import base64
import io
import tarfile
import time

from ironic.common import states
from ironic.conf import CONF
from ironic.drivers import utils as driver_utils
from oslo_log import log
from oslo_utils import timeutils

from quintupleo_power import compat
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import consoles
from quintupleo_power.node import internal_info
from quintupleo_power.node import server_access

LOG = log.getLogger(__name__)

# The failure whose log was kept: when the node came into its provision state.
KEY = internal_info.BOOT_LOG

# Seconds after a failure in which the periodic task looks for its log.
SOUGHT_FOR = 900

# What failed in a state, in words for the name of a file.
FAILED = {
    states.DEPLOYFAIL: 'deploy',
    states.CLEANFAIL: 'cleaning',
    states.INSPECTFAIL: 'inspect',
    states.RESCUEFAIL: 'rescue',
    states.SERVICEFAIL: 'service',
}
# Where what is under way may have failed already.
_UNDER_WAY = frozenset((
    states.CLEANING, states.CLEANWAIT, states.INSPECTING, states.INSPECTWAIT,
    states.RESCUING, states.RESCUEWAIT, states.SERVICING, states.SERVICEWAIT))
# An inspection that fails in Ironic 35 ends with both, one after the other.
_OFF = (states.POWER_OFF, states.SOFT_POWER_OFF)

# Packed logs that were read there, by node.
_held = cache.Cache(SOUGHT_FOR)


def before_power_request(task, power_state):
    """Keep or hold the console log if something has or may have failed.

    The request goes on whatever happens here.

    :param task: a TaskManager instance with an exclusive lock; its node is
        not saved, which the request does.
    :param power_state: what is asked for, of :mod:`ironic.common.states`.
    """
    if CONF.agent.deploy_logs_collect == 'never':
        return
    node, mark = task.node, _moment(task.node)
    kept = node.driver_internal_info.get(KEY)
    if node.provision_state in FAILED:
        failed, is_kept = node.provision_state, kept == mark
    else:
        # Nothing was powered on or off since, or this would be forgotten.
        failed = compat.previous_provision_state(task)
        is_kept = kept is not None
    if failed in FAILED:
        if not is_kept:
            _keep(node, FAILED[failed])
        node.set_driver_internal_info(KEY, mark)
        return
    if kept is not None:
        node.del_driver_internal_info(KEY)
    if power_state not in _OFF or node.provision_state not in _UNDER_WAY:
        _held.drop(node.uuid)
    elif not _held.get(node.uuid):
        _hold(node)


def is_missing(node):
    """Return whether a node that nobody holds needs :func:`keep_missing`."""
    return (node.power_interface == 'quintupleo'
            and node.provision_state in FAILED
            and CONF.agent.deploy_logs_collect != 'never'
            and node.provision_updated_at is not None
            and not timeutils.is_older_than(node.provision_updated_at,
                                            SOUGHT_FOR)
            and (node.driver_internal_info or {}).get(KEY) != _moment(node))


def keep_missing(task):
    """Keep the console log of a failure that no power request followed.

    If that does not succeed it is tried again the next time.

    :param task: a TaskManager instance with an exclusive lock.
    """
    node = task.node
    if is_missing(node) and _keep(node, FAILED[node.provision_state]):
        node.set_driver_internal_info(KEY, _moment(node))
        node.save()


def _moment(node):
    """Return when a node came into its provision state, as a text.

    Ironic gives it with or without a time zone.
    """
    moment = node.provision_updated_at
    return timeutils.normalize_time(moment).isoformat() if moment else ''


def _hold(node):
    """Read the console log of a node before it may be lost."""
    try:
        _held.put(node.uuid, _read(node))
    except Exception as exc:  # noqa: BLE001 a request must not fail by it
        LOG.debug('The console log of node %(node)s cannot be read before '
                  'its power off: %(reason)s',
                  {'node': node.uuid, 'reason': exc})


def _keep(node, activity):
    """Store a node's console log, if it has one; return if that is done."""
    try:
        packed = _held.get(node.uuid) or _read(node)
        if not packed:
            return True
        driver_utils.store_ramdisk_logs(node, packed,
                                        label=f'{activity}-console')
    except Exception as exc:  # noqa: BLE001 a request must not fail by it
        LOG.warning('The console log of node %(node)s is not kept with the '
                    'logs of its failed %(activity)s: %(reason)s',
                    {'node': node.uuid, 'activity': activity, 'reason': exc})
        return False
    _held.drop(node.uuid)
    LOG.info('The console log of node %(node)s is kept with the logs of its '
             'failed %(activity)s', {'node': node.uuid, 'activity': activity})
    return True


def _read(node):
    """Return the console log of a node, packed; None if it is empty."""
    with server_access.use(node) as (host, server):
        text = consoles.log(host.compute, server)
    return _archive(text) if text else None


def _archive(text):
    """Return a log as Ironic's ramdisk sends its own: tar, gzip, base64."""
    content = text.encode(errors='backslashreplace')
    member = tarfile.TarInfo('console.log')
    member.size = len(content)
    member.mtime = int(time.time())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as archive:
        archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(packed.getvalue())
