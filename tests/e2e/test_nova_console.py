# SPDX-License-Identifier: Apache-2.0
"""The consoles of a Nova in front of Ironic, as its users see them.

Each machine is deployed for a server of that Nova, with an empty image: its
firmware says so on the screen, and waits.
"""

import pytest

from onebox import processes
from tests.e2e import console_clients
from tests.e2e import lives as machine_lives
from tests.e2e import nova_in_front
from tests.e2e import screens

pytestmark = pytest.mark.full

MACHINES = (machine_lives.machine('nova-bios', 'bios'),
            machine_lives.machine('nova-uefi', 'uefi'))
BIOS, UEFI = (machine.name for machine in MACHINES)
OTHER = {BIOS: UEFI, UEFI: BIOS}


def prepare(lab, names):
    """Make the servers of the host cloud."""
    machine_lives.make_servers(
        lab, MACHINES, OTHER, deploy_interface='quintupleo-rebuild',
        console_interface='quintupleo-graphical', shard=nova_in_front.NAME)
    for name in OTHER:
        lab.nodes.connection.baremetal.update_node(name, resource_class=name)


@pytest.fixture(scope='module')
def consoles(lab, lives, tmp_path_factory):
    """Return the machines' consoles, as Ironic has them."""
    return screens.Consoles(lab, tmp_path_factory.mktemp('screens'))


@pytest.fixture(scope='module')
def nova(lab, lives, tmp_path_factory):
    """Yield a Nova in front of Ironic, with both machines."""
    with nova_in_front.running(lab, tmp_path_factory.mktemp('nova'),
                               OTHER) as found:
        yield found


@pytest.fixture(scope='module')
def servers(lab, nova):
    """Yield its servers, by the names of their machines."""
    image = lab.host_cloud.connection.image
    found = {machine.name: nova.create_server(
        f'instance-on-{machine.name}', image.find_image(
            f'quintupleo-empty-{machine.boot_mode}', ignore_missing=False).id,
        f'CUSTOM_{machine.name.upper().replace("-", "_")}')
        for machine in MACHINES}
    try:
        for server in found.values():
            nova.wait_for_server(server)
        yield found
    finally:
        for server in found.values():
            nova.delete_server(server)
        for name in OTHER:
            processes.wait_for(
                lambda name=name: lab.nodes.node(
                    name).provision_state == 'available',
                screens.PATIENCE, f'{name} to be available')


def is_enabled(consoles, name):
    """Return whether Ironic has a node's console."""
    return consoles.ask('GET', name, 'states/console')['console_enabled']


def require_refusal(address):
    """Require that nobody listens where a VNC server was."""
    with pytest.raises(ConnectionRefusedError):
        console_clients.screenshot(*address)


@pytest.mark.parametrize('name', OTHER)
def test_url_shows_the_screen_of_the_servers_machine(consoles, nova, servers,
                                                     browser, name):
    for each in OTHER:
        consoles.settled(each)
    assert not is_enabled(consoles, name)
    url = nova.console_url(servers[name])
    assert url.startswith(nova.proxy_url)
    assert is_enabled(consoles, name)
    host, port = consoles.vnc_server(name)
    assert nova.token(url) == [servers[name].id, host, str(port)]
    screens.wait_until_shown(consoles, browser, name, OTHER[name], url)


def test_console_disabled_in_ironic_comes_back_with_the_next_connection(
        consoles, nova, servers, browser):
    url = nova.console_url(servers[UEFI])
    address = consoles.vnc_server(UEFI)
    consoles.enable(UEFI, False)
    require_refusal(address)
    # Nova asks for the port of a console before it connects there.
    screens.wait_until_shown(consoles, browser, UEFI, BIOS, url)
    assert consoles.vnc_server(UEFI) == address


def test_deleted_server_has_no_console(consoles, nova, servers, browser):
    url = nova.console_url(servers[BIOS])
    address = consoles.vnc_server(BIOS)
    nova.delete_server(servers.pop(BIOS))
    require_refusal(address)
    assert not is_enabled(consoles, BIOS)
    assert 'vnc_port' not in consoles.lab.nodes.node(BIOS).driver_internal_info
    processes.wait_for(lambda: nova.token(url) is None, screens.PATIENCE,
                       'Nova to forget the token')
    browser.open(url)
    screens.wait_until_refused(browser)
