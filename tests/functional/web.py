# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
