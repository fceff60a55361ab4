# SPDX-License-Identifier: Apache-2.0
"""The console log of a machine, kept when Ironic fails at something with it.

It goes where Ironic puts the logs of its ramdisk, once for each failure.
libvirt empties a console log when it starts a guest, so it has to be read
before the driver's next action. What tells that something has failed, read in
Ironic 24.1 and 39:

* The provision state. A timeout or an abort comes to it before anything else
  is done (``task_manager.TaskManager.process_event``), and a deployment
  before ``deploy_utils.set_failed_state`` powers the machine off.
* The provision state that the node has just come from. Nova, for one, has a
  node undeployed as soon as its deployment has failed.
* An exception that is being handled. ``conductor.utils`` powers a machine
  off in ``cleaning_error_handler``, ``rescuing_error_handler`` and the like,
  and ``inspector.interface`` when a hook of an inspection raises, before they
  change the provision state, and are called where an exception was caught.
* The node's fault, which a step of a cleaning or service that ran leaves.

A failure that no action follows is found by the power interface's periodic
task.
"""

import base64
import io
import sys
import tarfile
import time

from ironic.common import faults
from ironic.common import states
from ironic.drivers import utils as driver_utils
from oslo_config import cfg
from oslo_log import log
from oslo_utils import timeutils

from quintupleo_power import compat
from quintupleo_power import exceptions
from quintupleo_power.node import internal_info

CONF = cfg.CONF
LOG = log.getLogger(__name__)

# The failure whose log was kept: the moment at which the node came into its
# provision state, or the one that it is about to come into.
KEY = internal_info.BOOT_LOG
NEXT = 'next'

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
# What is under way in a state in which it may have failed already.
_UNDER_WAY = {
    states.CLEANING: 'cleaning',
    states.CLEANWAIT: 'cleaning',
    states.INSPECTING: 'inspect',
    states.INSPECTWAIT: 'inspect',
    states.RESCUING: 'rescue',
    states.RESCUEWAIT: 'rescue',
    states.SERVICING: 'service',
    states.SERVICEWAIT: 'service',
}
_FAULTS = (faults.CLEAN_FAILURE, faults.SERVICE_FAILURE)


def before_power_request(task, power_state):
    """Keep the console log if the request comes after a failure.

    The request goes on whatever happens here.

    :param task: a TaskManager instance with an exclusive lock; its node is
        not saved, which the request does.
    :param power_state: what is asked for, of :mod:`ironic.common.states`.
    """
    node = task.node
    kept = node.driver_internal_info.get(KEY)
    state, mark = node.provision_state, _moment(node)
    previous = compat.previous_provision_state(task)
    if state in FAILED:
        activity, is_kept = FAILED[state], kept in (NEXT, mark)
    elif previous in FAILED:
        # Nothing was powered on or off since, or this would be forgotten.
        activity, is_kept = FAILED[previous], kept is not None
    elif _is_failing(node, power_state):
        activity, mark, is_kept = _UNDER_WAY[state], NEXT, kept == NEXT
    else:
        if kept is not None:
            node.del_driver_internal_info(KEY)
        return
    if not is_kept:
        _keep(node, activity)
    node.set_driver_internal_info(KEY, mark)


def _is_failing(node, power_state):
    if node.provision_state not in _UNDER_WAY:
        return False
    # A fault also stays with a node that is cleaned again in maintenance.
    return sys.exc_info()[0] is not None or (
        node.fault in _FAULTS and power_state == states.POWER_OFF)


def is_missing(node):
    """Return whether a node that nobody holds needs :func:`keep_missing`.

    :param node: what was read of it: ``driver_internal_info``,
        ``power_interface``, ``provision_state``, ``provision_updated_at``.
    :returns: True or False.
    """
    return (node.power_interface == 'quintupleo'
            and node.provision_state in FAILED
            and CONF.agent.deploy_logs_collect != 'never'
            and node.provision_updated_at is not None
            and not timeutils.is_older_than(node.provision_updated_at,
                                            SOUGHT_FOR)
            and (node.driver_internal_info or {}).get(KEY) not in (
                NEXT, _moment(node)))


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
    """When a node came into its provision state, as a text.

    Ironic writes it together with the state (``db.sqlalchemy.api``), and
    gives it with or without a time zone.
    """
    moment = node.provision_updated_at
    return timeutils.normalize_time(moment).isoformat() if moment else ''


def _keep(node, activity):
    """Read and store the console log of a node, if it has one.

    :returns: whether that is done.
    """
    if CONF.agent.deploy_logs_collect == 'never':
        return True
    try:
        text = _read(node)
        if not text:
            return True
        driver_utils.store_ramdisk_logs(node, _archive(text),
                                        label=f'{activity}-console')
    except Exception as exc:  # noqa: BLE001 a request must not fail by it
        LOG.warning('The console log of node %(node)s is not kept with the '
                    'logs of its failed %(activity)s: %(reason)s',
                    {'node': node.uuid, 'activity': activity, 'reason': exc})
        return False
    LOG.info('The console log of node %(node)s is kept with the logs of its '
             'failed %(activity)s',
             {'node': node.uuid, 'activity': activity})
    return True


def _read(node):
    with exceptions.host_cloud(node) as (info, host):
        return host.consoles.log(host.servers.get(info.server))


def _archive(text):
    """Pack a log in the form that Ironic's ramdisk sends its own in.

    :returns: a tar archive, compressed by gzip and encoded in base64.
    """
    content = text.encode(errors='backslashreplace')
    member = tarfile.TarInfo('console.log')
    member.size = len(content)
    member.mtime = int(time.time())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode='w:gz') as archive:
        archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(packed.getvalue())
