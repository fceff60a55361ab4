# SPDX-License-Identifier: Apache-2.0
"""What a script of a tenant does with a server, with openstacksdk alone."""

import time

RESCUE_IMAGE = 'quintupleo-rescue-bios'
# Seconds to wait for a server.
PATIENCE = 600


def rescue(compute, server, image):
    """Rescue a server and look until it is rescued.

    :param compute: openstacksdk's compute proxy.
    :param server: UUID of the server.
    :param image: UUID of the rescue image.
    :raises: TimeoutError
    """
    compute.rescue_server(server, None, image)
    _wait_for(compute, server, 'RESCUE')


def unrescue(compute, server):
    """Unrescue a server and look until it is.

    :param compute: openstacksdk's compute proxy.
    :param server: UUID of the server.
    :raises: TimeoutError
    """
    compute.unrescue_server(server)
    _wait_for(compute, server, 'ACTIVE')


def _wait_for(compute, server, status):
    deadline = time.monotonic() + PATIENCE
    while True:
        found = compute.get_server(server)
        if found.status == status and not found.task_state:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f'{found.name} is {found.status}.')
        time.sleep(1)
