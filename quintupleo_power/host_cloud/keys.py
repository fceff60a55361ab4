# SPDX-License-Identifier: Apache-2.0
"""SSH keys that a server is rebuilt with.

Nova takes the name of a key pair of whoever asks, and keeps a copy with the
server: the key pair itself is needed for that one request.
"""

import contextlib

from oslo_log import log

from quintupleo_power.host_cloud import errors

LOG = log.getLogger(__name__)


@contextlib.contextmanager
def lent(compute, server_id, public_key):
    """Have a key pair meanwhile.

    :param compute: the compute :class:`service.Service`.
    :param server_id: UUID of the server that it is for, which it is named
        by: what a conductor that died has left is replaced.
    :param public_key: the public key as OpenSSH writes it; None for none.
    :returns: the key pair's name or None, as a context.
    :raises: BadRequest if it is no such key, Forbidden if the user has too
        many, or another HostCloudError.
    """
    if public_key is None:
        yield None
        return
    name = f'quintupleo-{server_id}'
    path = f'/os-keypairs/{name}'
    with contextlib.suppress(errors.NotFound):
        compute.delete(path)
    compute.ask('/os-keypairs', {'keypair': {
        'name': name, 'public_key': public_key}}, 'keypair')
    try:
        yield name
    finally:
        try:
            compute.delete(path)
        except errors.HostCloudError as exc:
            LOG.warning('Key pair %(name)s is left in the host cloud and '
                        'needed no more: %(reason)s',
                        {'name': name, 'reason': exc})
