# SPDX-License-Identifier: Apache-2.0
"""What an environment's own Ironic knows of its nodes, and its log."""

import json
import pathlib
import tempfile

from keystoneauth1 import exceptions
from keystoneauth1 import http_basic
from keystoneauth1 import session

from quintupleo_power.host_cloud import errors as host_errors

# The first with the history of nodes; it is that of Ironic 20.0.
_HEADERS = {'X-OpenStack-Ironic-API-Version': '1.78'}
# What a node is given by users may be secret, and is left out.
_FIELDS = ('name', 'uuid', 'provision_state', 'target_provision_state',
           'power_state', 'target_power_state', 'clean_step', 'deploy_step',
           'last_error', 'fault', 'maintenance', 'maintenance_reason',
           'provision_updated_at')
# Seconds for a response.
_TIMEOUT = 30


def save(access, server_name, folder, progress):
    """Write state and history of each node, and the log of the Ironic.

    What it does not answer is left out, with a note to the user.

    :param access: see :meth:`environment.Environments.access`.
    :param server_name: name of its server, which the files are named for.
    :param folder: path of a folder that exists.
    """
    def write(name, content):
        pathlib.Path(folder, f'{server_name}.{name}').write_bytes(content)

    with tempfile.NamedTemporaryFile('w', suffix='.pem') as certificate:
        certificate.write(access['certificate'])
        certificate.flush()
        api = session.Session(
            http_basic.HTTPBasicAuth(access['url'], access['username'],
                                     access['password']),
            verify=certificate.name, timeout=_TIMEOUT)
        try:
            write('ironic.log', api.get(access['url'] + '/ironic.log').content)
            write('nodes.json', json.dumps(_nodes(api, access['url']),
                                           indent=2).encode())
        except (exceptions.ClientException,
                *host_errors.UNEXPECTED_FORM) as exc:
            progress.note(f'The Ironic at {access["url"]} did not give all '
                          f'of its log and of its nodes: {exc}')


def _nodes(api, url):
    """Return the nodes, each with its history."""
    def read(path):
        return api.get(url + path, headers=_HEADERS).json()

    nodes = read(f'/v1/nodes?fields={",".join(_FIELDS)}')['nodes']
    for node in nodes:
        node['history'] = read(
            f'/v1/nodes/{node["uuid"]}/history?detail=true')['history']
    return nodes
