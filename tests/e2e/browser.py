# SPDX-License-Identifier: Apache-2.0
"""A browser without a window, led by the W3C's WebDriver protocol."""

import base64
import json
from urllib import request

from onebox import processes

PACKAGES = ('chromium', 'chromium-driver')
ARGUMENTS = (
    '--headless',
    # It refuses to run as root in a sandbox of its own.
    '--no-sandbox',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--no-proxy-server',
    # A pixel of the page is one of the screenshot, in the same colour.
    '--force-color-profile=srgb',
    '--force-device-scale-factor=1',
    '--hide-scrollbars',
    '--window-size=1400,1050',
)
# Seconds; guests that are emulated may keep all processors busy.
PATIENCE = 180


class Browser:
    """A headless Chromium with one page."""

    def __init__(self, folder, logs):
        """Start it.

        :param folder: for its pid file and what it keeps.
        :param logs: folder for its log.
        """
        port = processes.free_port()
        self._url = f'http://127.0.0.1:{port}'
        self._opener = request.build_opener(request.ProxyHandler({}))
        self._daemon = processes.Daemon('chromedriver', folder, logs)
        self._daemon.start(
            ['/usr/bin/chromedriver', f'--port={port}'],
            {'PATH': '/usr/local/bin:/usr/bin:/bin', 'HOME': str(folder),
             'TMPDIR': str(folder), 'LC_ALL': 'C.UTF-8'})
        try:
            processes.wait_for(lambda: processes.listening(port), PATIENCE,
                               'chromedriver',
                               stop=self._daemon.require_alive)
            session = self._ask('/session', {'capabilities': {'alwaysMatch': {
                'browserName': 'chrome', 'goog:chromeOptions': {
                    'binary': '/usr/bin/chromium',
                    'args': ARGUMENTS}}}})
        except BaseException:
            self._daemon.stop()
            raise
        self._url += f'/session/{session["sessionId"]}'

    def open(self, url):
        """Open a page and wait until it is loaded."""
        self._ask('/url', {'url': url})

    def evaluate(self, script):
        """Tell what a JavaScript expression is on the page."""
        return self._ask('/execute/sync', {'script': f'return {script}',
                                           'args': []})

    def screenshot(self):
        """Take a picture of the page, as a PNG."""
        return base64.b64decode(self._ask('/screenshot'))

    def close(self):
        """End it."""
        try:
            self._ask('', method='DELETE')
        finally:
            self._daemon.stop()

    def _ask(self, path, body=None, method=None):
        asked = request.Request(
            self._url + path, method=method,
            headers={'Content-Type': 'application/json'},
            data=None if body is None else json.dumps(body).encode())
        with self._opener.open(asked, timeout=PATIENCE) as answer:
            return json.load(answer)['value']
