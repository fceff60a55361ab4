# SPDX-License-Identifier: Apache-2.0
"""The consoles of machines, seen as their users see them.

Two machines are switched on with nothing on their disks: each shows on its
screen what its firmware says of that, and waits. The screen is read from the
hypervisor, and from where Ironic's console leads to: a page of the host cloud
or of Ironic in a browser, or a VNC server.
"""

import contextlib
import time
from urllib import parse
import uuid

from openstack import exceptions
import pytest

from onebox.minicloud import libvirt
from onebox import processes
from onebox import system
from tests.e2e import browser as browsers
from tests.e2e import console_clients
from tests.e2e import lives as machine_lives
from tests.e2e import pictures

MACHINES = (machine_lives.machine('screen-bios', 'bios'),
            machine_lives.machine('screen-uefi', 'uefi'))
BIOS, UEFI = (machine.name for machine in MACHINES)
OTHER = {BIOS: UEFI, UEFI: BIOS}
# Seconds; the guests may be emulated.
PATIENCE = 240
# Nova's proxy closes a connection whose request comes 3 seconds late, and a
# page that lacks a script then does not get further.
RELOAD = 20
# Pixels unlike their left neighbours: a line of text has some hundreds.
FEWEST_DETAILS = 300
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


class Consoles:
    """The machines' consoles.

    :param lab: the :class:`quickstart.Quickstart`, with everything up.
    :param folder: for files.
    """

    def __init__(self, lab, folder):
        self.lab = lab
        self._folder = folder
        self._api = lab.nodes.connection.baremetal

    def ask(self, method, name, path, body=None):
        """Ask Ironic's API about a node and return what it answers."""
        answer = self._api.request(
            f'/nodes/{self.lab.nodes.node(name).id}/{path}', method,
            json=body)
        exceptions.raise_from_response(answer)
        return answer.json() if answer.content else None

    def enable(self, name, enabled=True):
        """Enable or disable a node's console and wait until it is."""
        self.ask('PUT', name, 'states/console', {'enabled': enabled})
        processes.wait_for(
            lambda: self.ask('GET', name, 'states/console')[
                'console_enabled'] == enabled,
            PATIENCE, f'the console of {name}')

    @contextlib.contextmanager
    def interface(self, name, interface):
        """Have a node use another console interface for a while."""
        before = self.lab.nodes.node(name).console_interface
        self.enable(name, False)
        self._api.update_node(name, console_interface=interface)
        try:
            yield
        finally:
            self.enable(name, False)
            self._api.update_node(name, console_interface=before)

    def log(self, name, **arguments):
        """The console log of a node, by the vendor passthru."""
        return self.ask('POST' if arguments else 'GET', name,
                        'vendor_passthru/console_log', arguments or None
                        )['output']

    def screen(self, name):
        """What the hypervisor has on a machine's screen."""
        compute = self.lab.host_cloud.connection.compute
        path = self._folder / name
        libvirt.virsh(self.lab.cloud, 'screenshot',
                      compute.find_server(name).id, str(path))
        return pictures.Picture.read(path.read_bytes())

    def settled(self, name):
        """Wait until a machine's screen shows something that stays."""
        def look():
            before = self.screen(name)
            time.sleep(3)
            now = self.screen(name)
            return (now.detail >= FEWEST_DETAILS and now.shows(before)
                    and now)
        return processes.wait_for(look, PATIENCE, f'the screen of {name}')


def prepare(lab, names):
    """Make the servers."""
    machine_lives.make_servers(lab, MACHINES, OTHER)


@pytest.fixture(scope='module')
def consoles(lab, lives, tmp_path_factory):
    """Both machines, switched on; they are found again as they were.

    The lives of others go on beside them.
    """
    found = Consoles(lab, tmp_path_factory.mktemp('screens'))
    for name in OTHER:
        lab.nodes.set_power_state(name, 'power on', 'power on')
    yield found
    for name in OTHER:
        found.enable(name, False)
        lab.nodes.set_power_state(name, 'power off', 'power off')


@pytest.fixture(scope='module')
def browser(lab, tmp_path_factory):
    """A browser without a window."""
    system.install_packages(browsers.PACKAGES, lab.cloud.apt_log)
    found = browsers.Browser(tmp_path_factory.mktemp('browser'),
                             lab.ironic.logs)
    yield found
    found.close()


def wait_until_shown(consoles, browser, name, url):
    """Open a page and wait until it shows the screen of a machine."""
    browser.open(url)
    kept = consoles.lab.ironic.logs / f'console-{name}.png'

    def status():
        return browser.evaluate(
            'document.getElementById("status").textContent')

    def page():
        content = browser.screenshot()
        kept.write_bytes(content)
        return pictures.Picture.read(content)

    begun = time.monotonic()

    def shown():
        nonlocal begun
        if 'Loading' in status() and time.monotonic() > begun + RELOAD:
            browser.open(url)
            begun = time.monotonic()
        return page().shows(consoles.screen(name))

    processes.wait_for(shown, PATIENCE,
                       f'the page to show the screen of {name}, see {kept}',
                       interval=1)
    assert not page().shows(consoles.screen(OTHER[name]))
    assert 'Connected' in status()


@pytest.mark.parametrize('name', [
    BIOS, pytest.param(UEFI, marks=pytest.mark.full)])
def test_console_shows_the_screen_of_its_machine(consoles, browser, name):
    for each in OTHER:
        consoles.settled(each)
    consoles.enable(name)
    console = consoles.ask('GET', name, 'states/console')['console_info']
    assert console['type'] == 'vnc'
    wait_until_shown(consoles, browser, name, console['url'])


@pytest.fixture
def graphical(consoles):
    """Have the BIOS machine's console at a port of the conductor."""
    with consoles.interface(BIOS, 'quintupleo-graphical'):
        for each in OTHER:
            consoles.settled(each)
        consoles.enable(BIOS)
        yield consoles


def vnc_server(consoles):
    """Where the BIOS machine's screen is served, by Ironic's database."""
    internal = consoles.lab.nodes.node(BIOS).driver_internal_info
    return internal['vnc_host'], internal['vnc_port']


@pytest.mark.full
def test_vnc_server_of_the_conductor_shows_the_screen(graphical):
    address = vnc_server(graphical)
    processes.wait_for(
        lambda: console_clients.screenshot(*address).shows(
            graphical.screen(BIOS)),
        PATIENCE, f'the screen of {BIOS} at {address}', interval=1)
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
    wait_until_shown(graphical, browser, BIOS, f'{ironic_novncproxy}?{query}')


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
        processes.wait_for(lambda: processes.listening(port), PATIENCE,
                           "Ironic's noVNC proxy", stop=daemon.require_alive)
        yield f'http://127.0.0.1:{port}/vnc_lite.html'
    finally:
        daemon.stop()


def test_page_opens_to_nobody_without_a_token(consoles, browser):
    consoles.enable(BIOS)
    url = consoles.ask('GET', BIOS, 'states/console')[
        'console_info']['url']
    browser.open(url.rpartition('%3D')[0] + f'%3D{uuid.uuid4()}')
    processes.wait_for(
        lambda: 'wrong' in browser.evaluate(
            'document.getElementById("status").textContent'),
        PATIENCE, 'the proxy to refuse a token that is none')
    assert not pictures.Picture.read(browser.screenshot()).shows(
        consoles.screen(BIOS))


def test_console_log_is_what_the_guest_wrote(consoles):
    nodes = consoles.lab.nodes
    nodes.set_boot_device(BIOS, 'pxe', False)
    nodes.set_power_state(BIOS, 'rebooting', 'power on')
    processes.wait_for(
        lambda: 'quintupleo rescue image' in consoles.log(BIOS),
        PATIENCE, 'the rescue image to be named in the console log')
    assert len(consoles.log(BIOS).split('\n')) > 2
    assert len(consoles.log(BIOS, lines=2).split('\n')) == 2


def test_console_cannot_be_had_when_it_is_disabled(consoles):
    consoles.enable(UEFI, False)
    assert consoles.ask('GET', UEFI, 'states/console') == {
        'console_enabled': False, 'console_info': None}
