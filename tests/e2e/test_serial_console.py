# SPDX-License-Identifier: Apache-2.0
"""Serial consoles, typed into and read, and the ports of their guests.

The cloud is one with serial consoles, which others have not: in rescue, the
console log of a server would be missing.
"""

import pytest

from onebox import processes
from onebox import progress
from tests.e2e import console_clients
from tests.e2e import lives as machine_lives
from tests.e2e import nova_in_front
from tests.e2e import test_deployment

pytestmark = pytest.mark.full
# What conftest.py goes by: two clouds cannot be up at a time.
OWN_CLOUD = True

MACHINE = machine_lives.machine('serial-uefi', 'uefi')
OF_NOVA = machine_lives.machine('serial-nova', 'uefi')
PAIR = (machine_lives.machine('port-of-first', 'bios'),
        machine_lives.machine('port-of-second', 'bios'))


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
    _wait_for_login(public_cloud, name)
    return public_cloud


def _wait_for_login(lab, name):
    processes.wait_for(
        lambda: 'login: ' in lab.host_cloud.console_log(name), 300,
        f'{name} to let a user log in')


def _enabled(lab, name):
    """Enable a console, and return where it is."""
    api = lab.nodes.connection.baremetal
    api.enable_node_console(name)
    return processes.wait_for(
        lambda: api.get_node_console(name)['console_info'], 60,
        f'the console of {name}')


def _try_to_log_in(url, user):
    with console_clients.serial(url) as session:
        session.type('\r')
        session.expect('login: ')
        session.type(f'{user}\r')
        session.expect('Password: ')
        # Wrong, which brings the login prompt back.
        session.type('\r')
        session.expect('login: ')


def test_serial_console_is_typed_into_and_read(deployed):
    api = deployed.nodes.connection.baremetal
    found = _enabled(deployed, MACHINE.name)
    assert found['type'] == 'socat'
    # The second has a token of its own.
    for user in ('nobody', 'daemon'):
        _try_to_log_in(found['url'], user)
    # What the machine wrote is in the console log as well.
    assert 'daemon' in deployed.host_cloud.console_log(MACHINE.name)
    api.disable_node_console(MACHINE.name)
    processes.wait_for(
        lambda: not api.get_node_console(MACHINE.name)['console_enabled'], 60,
        'the console to be disabled')
    with pytest.raises(ConnectionRefusedError):
        with console_clients.serial(found['url']):
            pass


@pytest.fixture
def nova(public_cloud, tmp_path_factory):
    """Yield a Nova in front of Ironic, with a machine."""
    name = OF_NOVA.name
    machine_lives.make_servers(
        public_cloud, [OF_NOVA], [name], deploy_interface='quintupleo-rebuild',
        console_interface='quintupleo-serial', shard=nova_in_front.NAME)
    with nova_in_front.running(
            public_cloud, tmp_path_factory.mktemp('nova'), [name]) as found:
        yield found


def test_nova_console_is_typed_into_and_read(public_cloud, nova):
    image = public_cloud.host_cloud.connection.image.create_image(
        name='Debian', filename=str(public_cloud.images.disk),
        disk_format='raw', container_format='bare', visibility='private',
        wait=True)
    server = nova.create_server('instance', image.id, 'CUSTOM_BAREMETAL')
    nova.wait_for_server(server)
    _wait_for_login(public_cloud, OF_NOVA.name)
    # Nova enables a serial console again only if it was enabled.
    address = _enabled(public_cloud, OF_NOVA.name)['url']
    for user in ('nobody', 'daemon'):
        _try_to_log_in(nova.console_url(server, '--serial'), user)
    assert 'daemon' in public_cloud.host_cloud.console_log(OF_NOVA.name)
    nova.delete_server(server)
    with pytest.raises(ConnectionRefusedError):
        console_clients.Serial(address)


def test_machine_leaves_a_rescue_while_another_has_its_port(public_cloud):
    first, second = (machine.name for machine in PAIR)
    machine_lives.make_servers(public_cloud, PAIR, (first, second))
    nodes, host_cloud = public_cloud.nodes, public_cloud.host_cloud
    nodes.set_power_state(first, 'power on', 'power on')
    nodes.set_boot_device(first, 'pxe', False)
    nodes.set_power_state(first, 'rebooting', 'power on')
    # The first free port is the one that the other had before its rescue.
    nodes.set_power_state(second, 'power on', 'power on')
    nodes.set_power_state(first, 'power off', 'power off')
    assert [(action, message) for _, action, message
            in host_cloud.actions(first)][-2:] == [
        ('unrescue', 'Error'), ('stop', '')]
    nodes.set_power_state(first, 'power on', 'power on')
    assert host_cloud.connection.compute.find_server(
        first, ignore_missing=False).status == 'ACTIVE'
