# SPDX-License-Identifier: Apache-2.0
"""The step wipe_disk, and the bare rebuild of the same server.

Nova's rebuild of a server that is off from its own empty image by a script of
the tenant, and a manual cleaning of its node with the one step.
"""

import time

from openstack import exceptions

from onebox import system

# Seconds between two looks at whether it is done.
PAUSE = 0.05
PATIENCE = 300
# Of Ironic's API: cleaning without a ramdisk.
CLEAN = '1.70'


class Bare:
    """Nova's rebuild by a script of the tenant."""

    title = 'the bare rebuild'

    def __init__(self, compute, server):
        self._compute = compute
        self._server = server

    def wipe(self):
        """Rebuild the server and wait until it is off again."""
        self._compute.rebuild_server(self._server.id,
                                     image=self._server.image.id)
        _wait(lambda: _is_off(self._compute, self._server))


class Step:
    """What an operator asks Ironic for."""

    title = 'wipe_disk'

    def __init__(self, api, node):
        """Use a node that is manageable and powered off."""
        self._api = api
        self._node = node

    def wipe(self):
        """Clean the node with the one step and wait until that is over."""
        exceptions.raise_from_response(self._api.put(
            f'/nodes/{self._node.id}/states/provision', microversion=CLEAN,
            json={'target': 'clean', 'disable_ramdisk': True, 'clean_steps': [
                {'interface': 'management', 'step': 'wipe_disk'}]}))
        _wait(self._is_over)

    def _is_over(self):
        node = self._api.get_node(self._node.id)
        if node.provision_state == 'clean failed':
            raise system.Error(node.last_error)
        return node.provision_state == 'manageable' and (
            not node.target_provision_state)


def _is_off(compute, server):
    found = compute.get_server(server.id)
    if found.status == 'ERROR':
        raise system.Error(f'{found.name}: {found.fault}')
    return found.status == 'SHUTOFF' and not found.task_state


def _wait(is_over):
    deadline = time.monotonic() + PATIENCE
    while not is_over():
        if time.monotonic() > deadline:
            raise system.Error(f'It is not over after {PATIENCE} s.')
        time.sleep(PAUSE)
