# SPDX-License-Identifier: Apache-2.0
"""A serial console at a port of the conductor, typed into and read.

The cloud is one with serial consoles, which others have not: in rescue, the
console log of a server would be missing.
"""

import pytest

from onebox import processes
from onebox import progress
from tests.e2e import console_clients
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment

pytestmark = pytest.mark.full
# What conftest.py goes by: two clouds cannot be up at a time.
OWN_CLOUD = True

MACHINE = machine_lives.machine('serial-uefi', 'uefi')


@pytest.fixture
def deployed(public_cloud):
    """Deploy the machine; return the lab, when a user could log in."""
    name = MACHINE.name
    machine_lives.make_servers(public_cloud, [MACHINE], [name],
                               console_interface='quintupleo-serial')
    shown = progress.Progress('serial console')
    for step in (test_deployment.enrolled_node_becomes_manageable,
                 test_deployment.node_is_available_without_cleaning,
                 test_deployment.deployment_makes_it_active):
        with shown.stage(step.__name__) as stage:
            step(public_cloud, stage, name)
    processes.wait_for(
        lambda: 'login: ' in public_cloud.host_cloud.console_log(name), 120,
        f'{name} to let a user log in')
    return public_cloud


def test_serial_console_is_typed_into_and_read(deployed):
    api = deployed.nodes.connection.baremetal
    api.enable_node_console(MACHINE.name)
    found = processes.wait_for(
        lambda: api.get_node_console(MACHINE.name)['console_info'], 60,
        f'the console of {MACHINE.name}')
    assert found['type'] == 'socat'
    # The second has a token of its own.
    for user in ('nobody', 'daemon'):
        with console_clients.serial(found['url']) as session:
            session.type('\r')
            session.expect('login: ')
            session.type(f'{user}\r')
            session.expect('Password: ')
            # Wrong, which brings the login prompt back.
            session.type('\r')
            session.expect('login: ')
    # What the machine wrote is in the console log as well.
    assert 'daemon' in deployed.host_cloud.console_log(MACHINE.name)
    api.disable_node_console(MACHINE.name)
    processes.wait_for(
        lambda: not api.get_node_console(MACHINE.name)['console_enabled'], 60,
        'the console to be disabled')
    with pytest.raises(ConnectionRefusedError):
        with console_clients.serial(found['url']):
            pass
