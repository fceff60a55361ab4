# SPDX-License-Identifier: Apache-2.0
"""What the nodes of one cloud notice of another cloud that is dead.

Ironic's own conductor looks at all nodes, a pass of power sync after the
other. Its clouds are the stand-in of the unit tests, over real sockets. It
needs the Python environment of the unit tests, and no other cloud.
"""

import argparse
import contextlib
import os
import pathlib
import resource
import shutil
import tempfile
import threading
import time
from unittest import mock
import uuid

# It chooses what threads are, before anything else of Ironic does.
import ironic.tests.unit  # noqa: F401
# isort: split
from ironic.common import config as ironic_config  # noqa: H306
from ironic.common import context as ironic_context
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic.db import migration
from ironic import objects
from openstack import config as sdk_config
from oslo_config import cfg
from oslo_log import log
from oslo_utils import units

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from tests.functional import fault_proxy
from tests.unit import host_cloud_fixture
from tests.unit import socket_cloud

CONFIGURATION = '''
[DEFAULT]
host = benchmark
log_file = {folder}/ironic.log
use_stderr = false
rpc_transport = none
enabled_hardware_types = quintupleo
enabled_boot_interfaces = quintupleo-virtual-media
enabled_console_interfaces = no-console
enabled_deploy_interfaces = quintupleo-rebuild
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = quintupleo
enabled_network_interfaces = noop
enabled_power_interfaces = quintupleo
enabled_vendor_interfaces = no-vendor
[conductor]
power_state_sync_max_retries = 1000
[database]
connection = sqlite:///{folder}/ironic.sqlite
[oslo_concurrency]
lock_path = {folder}
'''


class BadHostCloud(socket_cloud.SilentHostCloud):
    """A host cloud that may also answer with bombs."""

    is_bombing = False

    def exchange(self, *args):
        """Return an answer, or a bomb for what Nova was asked."""
        status, headers, body = super().exchange(*args)
        if self.is_bombing and host_cloud_fixture.COMPUTE_URL in args[1]:
            headers = {**headers, 'Content-Encoding': 'gzip'}
            body = fault_proxy.bomb()
        return status, headers, body


def enroll(host, name, number):
    """Make nodes of a cloud; return their UUIDs."""
    admin, found = ironic_context.get_admin_context(), []
    for _ in range(number):
        found.append(str(uuid.uuid4()))
        objects.Node(
            admin, uuid=found[-1], driver='quintupleo',
            driver_info={'quintupleo_server': host.add_server().id,
                         'quintupleo_cloud': name},
            provision_state=states.AVAILABLE, power_state=states.POWER_ON,
            # What the first pass would write otherwise.
            properties={'vendor': 'openstack foundation'}, boot_mode='bios',
            driver_internal_info={}, instance_info={}, extra={},
            boot_interface='quintupleo-virtual-media',
            bios_interface='no-bios', console_interface='no-console',
            deploy_interface='quintupleo-rebuild',
            inspect_interface='no-inspect', management_interface='quintupleo',
            network_interface='noop', power_interface='quintupleo',
            raid_interface='no-raid', rescue_interface='no-rescue',
            storage_interface='noop', vendor_interface='no-vendor').create()
    return found


class Conductor:
    """Ironic's conductor, whose passes of power sync are begun here."""

    def __init__(self):
        self._manager = conductor_manager.ConductorManager('benchmark', 'a')
        self._manager.prepare_host()
        self._admin = ironic_context.get_admin_context()
        self._manager.init_host(self._admin)
        # Its own passes would come in between.
        self._manager._periodic_tasks.stop()

    def stop(self):
        """Stop it."""
        self._manager.del_host()

    def run_pass(self, wanted, dead):
        """Look at all nodes once, at those of the dead cloud first.

        As Ironic does with what failed before.

        :param wanted: UUIDs of nodes.
        :param dead: UUIDs of those of the dead cloud.
        :returns: (seconds until the last of the wanted ones was looked at,
            seconds of the whole pass, how many of the wanted ones failed).
        """
        counts = self._manager.power_state_sync_count
        counts.clear()
        counts.update(dict.fromkeys(dead, 1))
        sync, seen = conductor_manager.do_sync_power_state, {}
        begun = time.monotonic()

        def record(task, count):
            # 0 if it went well.
            result = sync(task, count)
            seen[task.node.uuid] = time.monotonic() - begun, result
            return result

        with mock.patch.object(conductor_manager, 'do_sync_power_state',
                               record):
            self._manager._sync_power_states(self._admin)
        found = [seen[each] for each in wanted]
        return (max(took for took, _ in found), time.monotonic() - begun,
                sum(bool(failed) for _, failed in found))


def memory():
    """Return the most memory that the process has ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units.Ki


def forget():
    """Forget all clouds, as a conductor that has just started."""
    for cache in (cloud._clouds, cloud._failures, cloud._longest_readings,
                  connection.last_answers):
        cache.clear()


def measure(conductor, bad, wanted, dead):
    """Run passes with each fault, and print a line for each."""
    def report(title):
        # No list of the pass before serves this one.
        time.sleep(cfg.CONF.quintupleo.server_list_max_age + 1)
        last, whole, failed = conductor.run_pass(wanted, dead)
        print(f'{title}: the last healthy node after {last:.1f} s, whole '
              f'pass {whole:.1f} s, {failed} healthy nodes failed',
              flush=True)

    report('warming up')
    report('all answer')
    bad.answers.clear()
    report('silent, first pass')
    report('silent, next pass')
    bad.answers.set()
    bad.fail('POST', '/auth/tokens$', 401, times=10 ** 6)
    forget()
    bad.asked = 0
    report('refused credentials')
    print(f'refused credentials: {bad.asked} requests of the pass')
    bad.stop_failing()
    forget()
    conductor.run_pass(wanted, dead)
    before, bad.is_bombing = memory(), True
    report('bombs')
    print(f'bombs: {memory() - before:.0f} MiB more at the most')


@contextlib.contextmanager
def laboratory():
    """Configure Ironic with a database of its own; yield two clouds."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        with BadHostCloud() as bad, BadHostCloud() as good:
            (folder / 'clouds.yaml').write_text(
                socket_cloud.clouds_yaml({'bad': bad, 'good': good}))
            sdk_config.loader.CONFIG_FILES = [str(folder / 'clouds.yaml')]
            (folder / 'ironic.conf').write_text(
                CONFIGURATION.format(folder=folder))
            ironic_config.parse_args([], default_config_files=[
                str(folder / 'ironic.conf')])
            log.setup(cfg.CONF, 'ironic')
            objects.register_all()
            migration.create_schema()
            yield bad, good
            bad.answers.set()
    finally:
        shutil.rmtree(folder)


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--dead-nodes', type=int, default=1000)
    parser.add_argument('--healthy-nodes', type=int, default=20)
    arguments = parser.parse_args()
    with laboratory() as (bad, good):
        dead = enroll(bad, 'bad', arguments.dead_nodes)
        wanted = enroll(good, 'good', arguments.healthy_nodes)
        conductor = Conductor()
        try:
            measure(conductor, bad, wanted, dead)
        finally:
            conductor.stop()
    # Threads of connections that nobody reads from any more.
    if threading.active_count() > 1:
        os._exit(0)


if __name__ == '__main__':
    main()
