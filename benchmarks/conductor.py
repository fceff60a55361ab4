# SPDX-License-Identifier: Apache-2.0
"""Ironic's conductor code without its API and message bus.

Runs in Ironic's Python environment with its configuration file as argument.
Reads one order as JSON from each line of the standard input, carries it out
for all its nodes at once, a thread each, and answers with a line of JSON.
"""

import concurrent.futures
import contextlib
import functools
import gc
import json
import resource
import statistics
import sys
import time
import tracemalloc

from ironic.common import context
from ironic.common import exception
from ironic.common import service
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor import utils
from ironic import objects
import openstack
from oslo_config import cfg

from quintupleo_power.host_cloud import cloud
from quintupleo_power.node import driver_info
import script

CONF = cfg.CONF

# As [conductor]sync_power_state_workers.
LOOKING = 8


def to_pxe(admin, node):
    """Do what the requests for a boot device and a reboot come to."""
    with task_manager.acquire(admin, node, purpose='boot device') as task:
        task.driver.management.validate(task)
        task.driver.management.set_boot_device(task, 'pxe')
    with task_manager.acquire(admin, node, purpose='reboot') as task:
        task.driver.power.validate(task)
        utils.node_power_action(task, states.REBOOT)


def driver_to_pxe(task):
    """Do of the same what is the driver's, with the node locked."""
    task.driver.management.validate(task)
    task.driver.management.set_boot_device(task, 'pxe')
    task.driver.power.validate(task)
    task.driver.power.reboot(task)
    # As Ironic does, or the device would stay the one to boot from next.
    task.node.save()


class Script:
    """The script in a driver's place: about the least that one can take.

    It validates nothing, notes nothing with the node, and asks for a rescue
    without a look at the server.
    """

    def __init__(self):
        """Sign in as the driver does."""
        connection = openstack.connect(cloud=CONF.quintupleo.cloud)
        self._compute = connection.compute
        self._image = connection.image.find_image(
            script.RESCUE_IMAGE, ignore_missing=False).id

    def reboot(self, task, timeout=None):
        """Rescue the node's server."""
        script.rescue(self._compute, driver_info.parse(task.node).server,
                      self._image)


@functools.cache
def its_script():
    """The one :class:`Script` of all nodes."""
    return Script()


def script_to_pxe(admin, node):
    """Do the same with the script in the driver's place."""
    with task_manager.acquire(admin, node, purpose='boot device'):
        pass
    with task_manager.acquire(admin, node, purpose='reboot') as task:
        task.driver.power = its_script()
        utils.node_power_action(task, states.REBOOT)


def to_disk(admin, node):
    """Reboot, as the boot device was for once."""
    with task_manager.acquire(admin, node, purpose='reboot') as task:
        utils.node_power_action(task, states.REBOOT)


def look(admin, node):
    """Read the power state, as power sync does."""
    with task_manager.acquire(admin, node, shared=True,
                              purpose='power sync') as task:
        task.driver.power.get_power_state(task)


def entry_bytes(admin, nodes):
    """Tell what the driver's memory of a server costs, in bytes."""
    infos = [driver_info.parse(objects.Node.get(admin, node))
             for node in nodes]
    # Signs in.
    host = cloud.get(infos[0].credentials)
    host.servers.get(infos[0].server)
    gc.collect()
    tracemalloc.start()
    for info in infos:
        host.servers.get_cached(info.server, 30.0)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(nodes)


def carry_out(admin, order):
    """Carry an order out; return the answer."""
    if order['order'] == 'entry bytes':
        return {'bytes': entry_bytes(admin, order['nodes']), 'errors': []}
    if order['order'] == 'driver_to_pxe':
        # Ironic's locks are there before the clock starts.
        with contextlib.ExitStack() as locks:
            return run(driver_to_pxe, [
                locks.enter_context(task_manager.acquire(
                    admin, node, purpose='benchmark'))
                for node in order['nodes']])
    function = {'to_pxe': to_pxe, 'script_to_pxe': script_to_pxe,
                'to_disk': to_disk, 'look': look}[order['order']]
    return run(functools.partial(function, admin), order['nodes'],
               LOOKING if function is look else None)


def run(function, items, threads=None):
    """Run a function with each of some items at once; return an answer.

    :param threads: how many at a time; None for all.
    """
    errors, ends = [], []

    def one(item):
        try:
            function(item)
        except exception.IronicException as exc:
            errors.append(str(exc))
        ends.append(time.monotonic() - begun)

    used = time.process_time()
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(
            threads or len(items)) as pool:
        list(pool.map(one, items))
    return {'seconds': time.monotonic() - begun,
            'half done': statistics.median(ends),
            'cpu seconds': time.process_time() - used,
            'memory MiB': resource.getrusage(
                resource.RUSAGE_SELF).ru_maxrss / 1024,
            'errors': errors}


def main():
    """Carry out orders until there are no more."""
    service.prepare_service(['benchmark', '--config-file', sys.argv[1]])
    admin = context.get_admin_context()
    for line in sys.stdin:
        print(json.dumps(carry_out(admin, json.loads(line))), flush=True)


if __name__ == '__main__':
    main()
