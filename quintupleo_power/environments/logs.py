# SPDX-License-Identifier: Apache-2.0
"""Logs of an environment: serial consoles, and its own Ironic's."""

from concurrent import futures
import json
import pathlib
import re
import tempfile

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import http_basic
from keystoneauth1 import session
from openstack import exceptions

from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import errors as host_errors

# Seconds between two reads of a console that is followed.
INTERVAL = 2.0
# Nova shows the last 100 KiB of a console log (MAX_CONSOLE_BYTES of
# nova/virt/libvirt/driver.py). So many characters of the end of what was read
# before say where it goes on.
_OVERLAP = 1024
_TERMINAL_COMMANDS = re.compile('\x1b(\\[[0-?]*[ -/]*[@-~]|.)')
# What is kept of a server: its metadata may hold secrets of the user's.
_ATTRIBUTES = ('name', 'id', 'status', 'vm_state', 'task_state',
               'power_state', 'fault', 'created_at', 'launched_at',
               'updated_at')
# The first with the history of nodes; it is that of Ironic 20.0.
_HEADERS = {'X-OpenStack-Ironic-API-Version': '1.78'}
# What a node is given by users may be secret, and is left out.
_FIELDS = ('name', 'uuid', 'provision_state', 'target_provision_state',
           'power_state', 'target_power_state', 'clean_step', 'deploy_step',
           'last_error', 'fault', 'maintenance', 'maintenance_reason',
           'provision_updated_at')
# Seconds for a response.
_TIMEOUT = 30


class ConsoleLogs:
    """The console logs of servers.

    :ivar names: the names of the servers.
    """

    def __init__(self, inventory, servers):
        """Read those of a dict of openstacksdk's servers by name."""
        self.names = list(servers)
        self._nova = inventory.connection.compute
        self._retrier = inventory.retrier
        self._servers = servers
        self._known = dict.fromkeys(servers, '')
        self._pool = futures.ThreadPoolExecutor(task_graph.THREADS)

    def lines(self, follow=False):
        """Yield (name of the server, line), and go on for ever to follow.

        A line that is not whole yet is then held back.
        """
        begun = dict.fromkeys(self.names, '')
        while True:
            for name, text in self._map(self._console_log):
                *whole, begun[name] = (
                    begun[name] + self._new_part(name, text)).split('\n')
                if not follow and begun[name]:
                    whole.append(begun[name])
                for line in whole:
                    yield name, _printable(line)
            if not follow:
                return
            self._retrier.sleep(INTERVAL)

    def save(self, folder):
        """Write a console log, and a file with state and actions, of each.

        :raises: OSError if the folder cannot be written to.
        """
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self._map(self._console_log):
            # JSON may have halves of characters.
            (folder / f'{name}.log').write_bytes(
                text.encode(errors='backslashreplace'))
        for name, actions in self._map(self._actions):
            server = self._servers[name]
            (folder / f'{name}.json').write_text(json.dumps({
                'server': {attribute: getattr(server, attribute)
                           for attribute in _ATTRIBUTES},
                'actions': actions}, indent=2) + '\n')

    def _map(self, function):
        """Return (name, what a function returns) of each server."""
        return zip(self.names,
                   self._pool.map(function, self._servers.values()),
                   strict=True)

    def _console_log(self, server):
        try:
            return self._retrier.call(self._nova.get_server_console_output,
                                      server.id)['output'] or ''
        except (exceptions.NotFoundException, exceptions.ConflictException):
            # It has none yet, or is gone.
            return ''

    def _new_part(self, name, text):
        """Return what a console log has more than the last time.

        With libvirt it begins again when the guest is started.
        """
        known, self._known[name] = self._known[name], text
        if text.startswith(known):
            return text[len(known):]
        _, found, new = text.rpartition(known[-_OVERLAP:])
        return new if found else text

    def _actions(self, server):
        try:
            return self._retrier.call(lambda: [
                {'action': each.action, 'start_time': each.start_time,
                 'message': each.message, 'request_id': each.request_id}
                for each in self._nova.server_actions(server.id)])
        except exceptions.NotFoundException:
            return []


def _printable(line):
    """Return a line that does nothing to a terminal."""
    return ''.join(character for character in _TERMINAL_COMMANDS.sub('', line)
                   if character.isprintable() or character == '\t')


def save_ironic(access, server_name, folder, progress):
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
        except (ks_exceptions.ClientException,
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
