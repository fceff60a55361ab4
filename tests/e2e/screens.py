# SPDX-License-Identifier: Apache-2.0
"""Consoles of machines, and the pages that show their screens."""

import contextlib
import time

from openstack import exceptions

from onebox.minicloud import libvirt
from onebox import processes
from tests.e2e import pictures

# Seconds; the guests may be emulated.
PATIENCE = 240
# Nova's proxy closes a connection whose request comes 3 seconds late, and a
# page that lacks a script then does not get further.
RELOAD = 20
# Pixels unlike their left neighbours: a line of text has some hundreds.
FEWEST_DETAILS = 300


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
        """Set another console interface for a node, for a while."""
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

    def vnc_server(self, name):
        """Where a machine's screen is served, by Ironic's database."""
        internal = self.lab.nodes.node(name).driver_internal_info
        return internal['vnc_host'], internal['vnc_port']


def wait_until_shown(consoles, browser, name, other, url):
    """Open a page and wait until it shows the screen of a machine.

    :param consoles: the :class:`Consoles`.
    :param browser: the :class:`browser.Browser`.
    :param name: name of the machine.
    :param other: name of a machine whose screen it must not show.
    :param url: the page, which is noVNC's.
    """
    browser.open(url)
    kept = consoles.lab.ironic.logs / f'console-{name}.png'

    def page():
        content = browser.screenshot()
        kept.write_bytes(content)
        return pictures.Picture.read(content)

    begun = time.monotonic()

    def shown():
        nonlocal begun
        if 'Loading' in _status(browser) and time.monotonic() > begun + RELOAD:
            browser.open(url)
            begun = time.monotonic()
        return page().shows(consoles.screen(name))

    processes.wait_for(shown, PATIENCE,
                       f'the page to show the screen of {name}, see {kept}',
                       interval=1)
    assert not page().shows(consoles.screen(other))
    assert 'Connected' in _status(browser)


def wait_until_refused(browser):
    """Wait until the page that is open says that it gets no connection."""
    processes.wait_for(lambda: 'wrong' in _status(browser), PATIENCE,
                       'the page to say that something went wrong')


def _status(browser):
    return browser.evaluate('document.getElementById("status").textContent')
