# SPDX-License-Identifier: Apache-2.0
"""The consoles of machines, seen as their users see them.

Two machines are switched on with nothing on their disks: each shows on its
screen what its firmware says of that, and waits. The screen is read from the
hypervisor, and from where Ironic's console leads to: a page of the host cloud
or of Ironic in a browser, or a VNC server.
"""

from urllib import parse
import uuid

import pytest

from onebox import processes
from tests.e2e import console_clients
from tests.e2e import lives as machine_lives
from tests.e2e import pictures
from tests.e2e import screens

MACHINES = (machine_lives.machine('screen-bios', 'bios'),
            machine_lives.machine('screen-uefi', 'uefi'))
BIOS, UEFI = (machine.name for machine in MACHINES)
OTHER = {BIOS: UEFI, UEFI: BIOS}
# What Ironic's noVNC proxy has beside the configuration of the other services.
# It is a process of its own here, which reads the database itself.
NOVNCPROXY_CONF = '''\
[DEFAULT]
rpc_transport = json-rpc
log_file = {logs}/ironic-novncproxy.log
[vnc]
enabled = true
host_ip = 127.0.0.1
port = {port}
novnc_web = /usr/share/novnc
'''


def prepare(lab, names):
    """Make the servers."""
    machine_lives.make_servers(lab, MACHINES, OTHER)


@pytest.fixture(scope='module')
def consoles(lab, lives, tmp_path_factory):
    """Both machines, switched on; they are found again as they were.

    The lives of others go on beside them.
    """
    found = screens.Consoles(lab, tmp_path_factory.mktemp('screens'))
    for name in OTHER:
        lab.nodes.set_power_state(name, 'power on', 'power on')
    yield found
    for name in OTHER:
        found.enable(name, False)
        lab.nodes.set_power_state(name, 'power off', 'power off')


@pytest.mark.parametrize('name', [
    BIOS, pytest.param(UEFI, marks=pytest.mark.full)])
def test_console_shows_the_screen_of_its_machine(consoles, browser, name):
    for each in OTHER:
        consoles.settled(each)
    consoles.enable(name)
    console = consoles.ask('GET', name, 'states/console')['console_info']
    assert console['type'] == 'vnc'
    screens.wait_until_shown(consoles, browser, name, OTHER[name],
                             console['url'])


@pytest.fixture
def graphical(consoles):
    """Have the BIOS machine's console at a port of the conductor."""
    with consoles.interface(BIOS, 'quintupleo-graphical'):
        for each in OTHER:
            consoles.settled(each)
        consoles.enable(BIOS)
        yield consoles


@pytest.mark.full
def test_vnc_server_of_the_conductor_shows_the_screen(graphical):
    address = graphical.vnc_server(BIOS)
    processes.wait_for(
        lambda: console_clients.screenshot(*address).shows(
            graphical.screen(BIOS)),
        screens.PATIENCE, f'the screen of {BIOS} at {address}', interval=1)
    assert not console_clients.screenshot(*address).shows(
        graphical.screen(UEFI))
    graphical.enable(BIOS, False)
    with pytest.raises(ConnectionRefusedError):
        console_clients.screenshot(*address)


@pytest.mark.full
def test_ironics_own_proxy_shows_the_screen(graphical, browser,
                                            ironic_novncproxy):
    console = graphical.ask('GET', BIOS, 'states/console')['console_info']
    assert console['type'] == 'vnc'
    # This Ironic does not know where the proxy is.
    query = parse.urlsplit(console['url']).query
    screens.wait_until_shown(graphical, browser, BIOS, UEFI,
                             f'{ironic_novncproxy}?{query}')


@pytest.fixture(scope='module')
def ironic_novncproxy(lab, tmp_path_factory):
    """The URL of the page of Ironic's noVNC proxy, which runs."""
    program = lab.ironic.venv / 'bin' / 'ironic-novncproxy'
    folder = tmp_path_factory.mktemp('novncproxy')
    port = processes.free_port()
    conf = folder / 'novncproxy.conf'
    conf.write_text(NOVNCPROXY_CONF.format(port=port, logs=lab.ironic.logs))
    daemon = processes.Daemon('ironic-novncproxy', folder, lab.ironic.logs)
    daemon.start([program, '--config-file', lab.ironic.conf, '--config-file',
                  conf], lab.ironic.environment())
    try:
        processes.wait_for(
            lambda: processes.listening(port), screens.PATIENCE,
            "Ironic's noVNC proxy", stop=daemon.require_alive)
        yield f'http://127.0.0.1:{port}/vnc_lite.html'
    finally:
        daemon.stop()


def test_page_opens_to_nobody_without_a_token(consoles, browser):
    consoles.enable(BIOS)
    url = consoles.ask('GET', BIOS, 'states/console')[
        'console_info']['url']
    browser.open(url.rpartition('%3D')[0] + f'%3D{uuid.uuid4()}')
    screens.wait_until_refused(browser)
    assert not pictures.Picture.read(browser.screenshot()).shows(
        consoles.screen(BIOS))


def test_console_log_is_what_the_guest_wrote(consoles):
    nodes = consoles.lab.nodes
    nodes.set_boot_device(BIOS, 'pxe', False)
    nodes.set_power_state(BIOS, 'rebooting', 'power on')
    processes.wait_for(
        lambda: 'quintupleo rescue image' in consoles.log(BIOS),
        screens.PATIENCE, 'the rescue image to be named in the console log')
    assert len(consoles.log(BIOS).split('\n')) > 2
    assert len(consoles.log(BIOS, lines=2).split('\n')) == 2


def test_console_cannot_be_had_when_it_is_disabled(consoles):
    consoles.enable(UEFI, False)
    assert consoles.ask('GET', UEFI, 'states/console') == {
        'console_enabled': False, 'console_info': None}
