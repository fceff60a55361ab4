# SPDX-License-Identifier: Apache-2.0
"""Consoles and console logs, through a real Ironic and a real Nova API."""

import tarfile
import time

from openstack import exceptions
import pytest

from onebox import progress

OFF, ON = 'power off', 'power on'
# All that Nova's fake hypervisor has written.
LOG = 'FAKE CONSOLE OUTPUT\nANOTHER\nLAST LINE'
# Seconds between two looks of Ironic for what has failed.
INTERVAL = 2


class Machine:
    """A managed node and its server, which is ACTIVE."""

    def __init__(self, deployment):
        self._deployment = deployment
        self.server = deployment.server()
        self.node = deployment.node(self.server.id)
        deployment.manage(self.node)

    def ask(self, method, path, body=None):
        """Ask Ironic's API about the node and return what it answers."""
        answer = self._deployment.api.request(
            f'/nodes/{self.node.id}/{path}', method, json=body)
        exceptions.raise_from_response(answer)
        return answer.json() if answer.content else None

    def enable_console(self):
        """Enable the console, and wait until that has ended."""
        self.ask('PUT', 'states/console', {'enabled': True})
        return self._deployment.wait_for(
            lambda: (node := self.read()).is_console_enabled
            or node.last_error, 'the console')

    def read(self):
        """Read the node."""
        return self._deployment.api.get_node(self.node.id)

    def passthru(self, method, **arguments):
        """Read the console log by the vendor passthru."""
        return self.ask(method, 'vendor_passthru/console_log',
                        arguments or None)

    def provision(self, verb, wanted):
        """Ask for a provision state and wait for another."""
        self._deployment.api.set_node_provision_state(self.node.id, verb)
        self._deployment.wait_for(
            lambda: self.read().provision_state == wanted, wanted)

    def power(self, target):
        """Change the power state."""
        self._deployment.nodes.set_power_state(self.node.id, target, target)

    def kept(self):
        """The archives of the node's logs."""
        folder = self._deployment.ironic.logs / 'agent'
        return list(folder.glob(f'{self.node.id}_*'))

    def remove(self):
        """Delete node and server."""
        self._deployment.api.delete_node(self.node.id)
        self._deployment.cloud.compute.delete_server(self.server.id)


@pytest.fixture
def machine(deployment):
    found = Machine(deployment)
    yield found
    found.remove()


def test_console_is_that_of_the_host_cloud(machine, deployment):
    assert machine.enable_console() is True
    consoles = [machine.ask('GET', 'states/console') for _ in range(2)]
    for console in consoles:
        assert console['console_enabled'] is True
        assert console['console_info']['type'] == 'vnc'
    first, second = [console['console_info']['url'] for console in consoles]
    assert first.startswith(
        'http://127.0.0.1:6080/vnc_lite.html?path=%3Ftoken%3D')
    assert first != second
    # What opens a console is nowhere in the conductor's log, which has the
    # other answers of Nova in it.
    log = (deployment.ironic.logs / 'ironic.log').read_text(errors='replace')
    assert f'/servers/{machine.server.id}' in log
    for url in (first, second):
        assert url.rpartition('%3D')[2] not in log


def test_console_that_the_host_cloud_does_not_offer(machine, deployment):
    deployment.api.update_node(machine.node.id, driver_info={
        **machine.node.driver_info, 'quintupleo_console_type': 'serial'})
    sentence = machine.enable_console()
    assert "no 'serial' console of server" in sentence
    assert 'set driver_info/quintupleo_console_type' in sentence
    assert not machine.read().is_console_enabled


def test_console_log(machine):
    for method in ('GET', 'POST'):
        assert machine.passthru(method) == {'output': LOG}
        assert machine.passthru(method, lines='2') == {
            'output': 'ANOTHER\nLAST LINE'}


@pytest.mark.full
def test_console_log_of_so_many_lines_that_there_are_none(machine):
    with pytest.raises(exceptions.BadRequestException, match="'lines'"):
        machine.passthru('POST', lines=0)


@pytest.fixture(scope='module')
def quick(deployment):
    """An Ironic that looks often for what has failed."""
    with deployment.options(
            '[conductor]', f'check_provision_state_interval = {INTERVAL}'):
        yield deployment


# The ramdisk is not there: a cleaning fails before the machine boots it. One
# that is on is switched off then, one that is off is left alone.
@pytest.mark.full
@pytest.mark.parametrize('power', [ON, OFF])
def test_console_log_of_a_failed_cleaning_is_kept_once(quick, power):
    machine = Machine(quick)
    machine.power(power)
    try:
        machine.provision('provide', 'clean failed')
        archive, = quick.wait_for(machine.kept, 'the console log')
        assert '_cleaning-console_' in archive.name
        with tarfile.open(archive, 'r:gz') as opened:
            assert opened.extractfile('console.log').read().decode() == LOG
        assert machine.read().power_state == OFF
        time.sleep(2 * INTERVAL)
        assert machine.kept() == [archive]
    finally:
        with progress.Progress('test').stage('manage') as stage:
            quick.nodes.provision(machine.node.id, 'manage', 'manageable',
                                  stage, 60)
        machine.remove()


@pytest.mark.full
def test_no_console_log_is_kept_where_nothing_failed(quick):
    machine = Machine(quick)
    for power in (OFF, ON):
        machine.power(power)
    time.sleep(2 * INTERVAL)
    assert machine.kept() == []
    machine.remove()
