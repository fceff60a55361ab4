# SPDX-License-Identifier: Apache-2.0
"""Another version of the driver takes the nodes over, and hands them back.

The other version is a commit of this repository. Both run with one Ironic,
one configuration and one database, one after the other.
"""

import contextlib
import functools
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import zipfile

from ironic.common import states
import pytest

from onebox import ironic
from onebox import ironic_files
from onebox import lab
from onebox import processes
from onebox import progress
from onebox import system

# They are about the driver, not about what is below it.
pytestmark = pytest.mark.newest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# The last commit before modules were moved into packages. When there is a
# release, it is to be the release before.
OLDER = '7b5192b5cb8ade044d6841567651eb1f943dcda3'
# A module that only this version has.
MODULE = 'quintupleo_power.executor'

# Interfaces that both versions have: what the older one does not know is
# enabled when there is no way back any more.
CONFIGURATION = f'''
[DEFAULT]
default_log_levels = ironic.conductor=DEBUG,{ironic_files.LOG_LEVELS}
enabled_boot_interfaces = ipxe,pxe
enabled_console_interfaces = no-console
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = agent,no-inspect
enabled_network_interfaces = noop
enabled_vendor_interfaces = no-vendor

[conductor]
check_provision_state_interval = 1
sync_power_state_interval = 1

[quintupleo]
poll_interval = 0.5
server_list_max_age = 0.5
'''

OFF, ON, REBOOT = 'power off', 'power on', 'rebooting'
PXE, PXE_ONCE, DISK = ('pxe', True), ('pxe', False), ('disk', True)

# Name: (what is asked for before the other version comes, the server's
# status then, and after a reboot and one more).
MACHINES = {
    'on': ([], 'ACTIVE', ('ACTIVE', 'ACTIVE')),
    'off': ([OFF], 'SHUTOFF', ('ACTIVE', 'ACTIVE')),
    'in PXE': ([PXE, REBOOT], 'RESCUE', ('RESCUE', 'RESCUE')),
    'in PXE once': ([PXE_ONCE, REBOOT], 'RESCUE', ('ACTIVE', 'ACTIVE')),
    'PXE to come': ([PXE], 'ACTIVE', ('RESCUE', 'RESCUE')),
    'PXE once to come': ([DISK, PXE_ONCE], 'ACTIVE', ('RESCUE', 'ACTIVE')),
    'PXE to come, off': ([OFF, PXE_ONCE], 'SHUTOFF', ('RESCUE', 'ACTIVE')),
    'disk to come': ([PXE, REBOOT, DISK], 'RESCUE', ('ACTIVE', 'ACTIVE')),
}

# What Ironic itself writes when a conductor starts or looks.
OF_IRONIC = {'conductor_affinity', 'reservation', 'updated_at'}

# What a version may add something to: what it has found out of a machine.
GROWING = ('driver_internal_info', 'properties')


class Service(ironic.Ironic):
    """A standalone Ironic whose driver can be changed.

    :ivar driver: folder of the version of the driver; None for this one.
    """

    driver = None

    def environment(self):
        """See :meth:`ironic.Ironic.environment`."""
        found = super().environment()
        if self.driver:
            # Before what is installed; its entry points, too.
            found['PYTHONPATH'] = str(self.driver)
        return found

    def prepare(self):
        """Write the configuration and make the database."""
        # The last nodes have one server.
        self.configure('lo', {'cloud': lab.CLOUD,
                              'allow_shared_servers': True})
        with open(self.conf, 'a') as conf:
            conf.write(CONFIGURATION)

    def run(self, driver):
        """Start it with a version of the driver."""
        self.driver = driver
        with progress.Progress('test').stage('Ironic') as stage:
            self.start(stage, api_only=True)

    def runs_this_version(self):
        """Whether what it is started with imports this version."""
        code = ('import importlib.util, sys\n'
                f'sys.exit(importlib.util.find_spec("{MODULE}") is None)')
        return subprocess.run(
            [self.venv / 'bin' / 'python', '-c', code],
            env={**os.environ, **self.environment()},
            cwd=self.root).returncode == 0

    def kill(self):
        """End it as a power failure does."""
        family = self._daemons['ironic'].family()
        assert family
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        processes.wait_for(
            lambda: not (self._daemons['ironic'].family()
                         or processes.listening(self.api_port)), 10,
            'the end of Ironic')

    def wait_power_sync(self):
        """Wait until it has looked at all nodes, and then once more."""
        begun = self._power_syncs()
        processes.wait_for(lambda: self._power_syncs() >= begun + 2, 90,
                           'a power sync')

    def _power_syncs(self):
        return (self.logs / 'ironic.log').read_text(
            errors='replace').count('Completed power state sync operation')

    def rows(self):
        """The nodes as they are in the database, by UUID."""
        with contextlib.closing(self._database()) as database:
            database.row_factory = sqlite3.Row
            found = [dict(row) for row in database.execute(
                'SELECT * FROM nodes')]
        return {row['uuid']: {name: value for name, value in row.items()
                              if name not in OF_IRONIC} for row in found}

    def put_into(self, node, provision_state):
        """Put a node into a provision state, past Ironic."""
        with contextlib.closing(self._database()) as database, database:
            database.execute(
                'UPDATE nodes SET provision_state = ? WHERE uuid = ?',
                (provision_state, node))

    def _database(self):
        return sqlite3.connect(self.root / 'ironic.sqlite')


def _git(*arguments):
    """What git says of this repository, whoever owns its folder."""
    return subprocess.run(
        ['git', '-c', f'safe.directory={REPOSITORY}', '-C', REPOSITORY,
         *arguments], stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(scope='module')
def older(deployment, tmp_path_factory):
    """The folder of the older version, as pip installs it."""
    folder = tmp_path_factory.mktemp('older')
    if not _git('rev-parse', '--verify', '--quiet', OLDER + '^{commit}'):
        assert _git('rev-parse', '--is-shallow-repository') == 'true', (
            f'This repository does not have commit {OLDER}.')
        pytest.skip('This clone is shallow: git fetch --unshallow')
    archive = folder / 'source.zip'
    _git('archive', '--format=zip', f'--output={archive}', OLDER)
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder / 'source')
    system.run(
        [deployment.ironic.venv / 'bin' / 'pip', 'install', '--no-deps',
         '--no-build-isolation', '--quiet', '--disable-pip-version-check',
         '--target', folder / 'driver', folder / 'source'],
        env={**os.environ, 'PBR_VERSION': '0.0.1'})
    return folder / 'driver'


@pytest.fixture
def service(deployment, tmp_path):
    """An Ironic of this test, with a short-lived state of its own."""
    made = Service(tmp_path, api_port=processes.free_port(),
                   venv=deployment.ironic.venv)
    system.make_dir(made.logs)
    system.write_file(made.state / 'clouds.yaml',
                      (deployment.ironic.state / 'clouds.yaml').read_text())
    made.prepare()
    try:
        yield made
    finally:
        made.stop()


# Each goes there and back.
UPGRADE = pytest.param(True, id='upgrade')
ROLLBACK = pytest.param(False, id='rollback', marks=pytest.mark.full)


class Fleet:
    """Nodes of a service, and their servers."""

    def __init__(self, deployment, service):
        self._deployment = deployment
        self._service = service
        self._compute = deployment.cloud.compute
        self._servers = {}

    @functools.cached_property
    def nodes(self):
        """The :class:`lab.Nodes`, for which the service has to run."""
        return lab.Nodes(self._service, images=None)

    @property
    def api(self):
        """The baremetal proxy of openstacksdk."""
        return self.nodes.connection.baremetal

    def machines(self, number, servers):
        """Make managed nodes.

        :param number: how many.
        :param servers: how many servers they have; the last nodes share one.
        :returns: the UUIDs of the nodes.
        """
        made = [self._deployment.server().id for _ in range(servers)]
        made += made[-1:] * (number - servers)
        found = [self.api.create_node(
            driver='quintupleo', driver_info={'quintupleo_server': server}).id
            for server in made]
        self._servers.update(zip(found, made, strict=True))
        for node in found:
            self.api.set_node_provision_state(node, 'manage')
        with progress.Progress('test').stage('manage') as stage:
            for node in found:
                self.nodes.wait(node, 'manageable', stage, 60)
        return found

    def reach(self, node, steps):
        """Ask for boot devices and power states, and wait for each."""
        for step in steps:
            if isinstance(step, tuple):
                self.api.set_node_boot_device(node, *step)
            else:
                self.nodes.set_power_state(node, step,
                                           OFF if step == OFF else ON)

    def reboot(self, nodes):
        """Reboot all of them, and wait for each."""
        for node in nodes:
            self.api.set_node_power_state(node, REBOOT)
        for node in nodes:
            self._deployment.wait_for(
                lambda node=node: is_at_rest(self.api.get_node(node)),
                'the end of a reboot')

    def status(self, node):
        """The status of a node's server."""
        return self._compute.get_server(self._servers[node]).status

    def actions(self):
        """What Nova has done with each server."""
        return {node: self._deployment.actions(server)
                for node, server in self._servers.items()}

    def remove(self):
        """Delete the servers; the nodes end with their database."""
        for server in set(self._servers.values()):
            self._compute.delete_server(server)


@pytest.fixture
def fleet(deployment, service):
    """The :class:`Fleet` of the service."""
    made = Fleet(deployment, service)
    yield made
    made.remove()


def is_at_rest(node):
    """Whether nothing goes on with a node."""
    return (not node.reservation and not node.target_power_state
            and 'quintupleo_request' not in node.driver_internal_info)


def _resting_states():
    """All provision states but those that Ironic itself ends.

    It does so when a conductor starts, whatever the driver.
    """
    return sorted(
        states.ALL_STATES - set(states.STUCK_STATES_TREATED_AS_FAIL))


def _order(older, begins_older):
    """Both versions: the one that begins, the other."""
    return (older, None) if begins_older else (None, older)


def _assert_kept(before, after):
    """Nothing of any node is gone or changed; something may be added."""
    assert after.keys() == before.keys()
    for uuid, row in before.items():
        now = after[uuid]
        for name in GROWING:
            kept, found = (json.loads(each[name] or '{}')
                           for each in (row, now))
            assert {key: found.get(key) for key in kept} == kept
        unread = dict.fromkeys(GROWING)
        assert {**now, **unread} == {**row, **unread}


@pytest.mark.parametrize('begins_older', [UPGRADE, ROLLBACK])
def test_nothing_is_lost(service, fleet, older, begins_older):
    first, second = _order(older, begins_older)
    service.run(first)
    assert service.runs_this_version() is not begins_older
    provision_states = _resting_states()
    nodes = fleet.machines(len(MACHINES) + len(provision_states),
                           len(MACHINES) + 1)
    machines = dict(zip(MACHINES, nodes, strict=False))
    resting = dict(zip(provision_states, nodes[len(MACHINES):], strict=True))
    for name, node in machines.items():
        fleet.reach(node, MACHINES[name][0])
    # Power sync also reads what no request does, such as the boot mode.
    service.wait_power_sync()
    service.stop()
    assert {name: fleet.status(node) for name, node in machines.items()} == {
        name: status for name, (_, status, _) in MACHINES.items()}
    for state, node in resting.items():
        service.put_into(node, state)
    before, actions = service.rows(), fleet.actions()

    # There and back.
    for driver in (second, first):
        service.run(driver)
        assert service.runs_this_version() is (driver is None)
        service.wait_power_sync()
        service.stop()
        _assert_kept(before, service.rows())
        assert fleet.actions() == actions

    service.run(second)
    for number in range(2):
        fleet.reboot(machines.values())
        assert {name: fleet.status(node)
                for name, node in machines.items()} == {
            name: afterwards[number]
            for name, (_, _, afterwards) in MACHINES.items()}


@pytest.mark.full
@pytest.mark.parametrize('begins_older', [UPGRADE, ROLLBACK])
def test_interrupted_request_is_finished_by_the_other(
        deployment, service, fleet, older, begins_older):
    first, second = _order(older, begins_older)
    service.run(first)
    node, = fleet.machines(1, 1)
    with deployment.compute_host_down():
        fleet.api.set_node_boot_device(node, *PXE)
        fleet.api.set_node_power_state(node, REBOOT)
        deployment.wait_for(
            lambda: fleet.actions()[node] == ['rescue'], 'Nova to begin')
        service.kill()
    # Its connections died with it.
    del fleet.nodes
    service.run(second)
    assert service.runs_this_version() is begins_older
    deployment.wait_for(lambda: is_at_rest(fleet.api.get_node(node)),
                        'the end of the request')
    service.wait_power_sync()
    found = fleet.api.get_node(node)
    assert (found.power_state, found.last_error, fleet.status(node),
            fleet.actions()[node]) == (ON, None, 'RESCUE', ['rescue'])
