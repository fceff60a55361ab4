# SPDX-License-Identifier: Apache-2.0
"""A web server that has files for Ironic to fetch."""

import contextlib
import functools
from http import server
import threading


@contextlib.contextmanager
def serve(folder):
    """Serve a folder on loopback.

    :param folder: its path.
    :returns: its URL, as a context.
    """
    handler = functools.partial(server.SimpleHTTPRequestHandler,
                                directory=folder)
    with server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{web.server_port}'
        web.shutdown()
