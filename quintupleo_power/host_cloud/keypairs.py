# SPDX-License-Identifier: Apache-2.0
"""Key pairs of Nova, for the time of a rebuild."""

from collections import abc
import contextlib

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service

LOG = log.getLogger(__name__)


@contextlib.contextmanager
def temporary(compute: service.Service, server: servers.Server,
              public_key: str | None) -> abc.Iterator[str | None]:
    """Make a key pair, yield its name, and delete it in the end.

    Nova keeps a copy with the server, so it is needed for one request. Its
    name is by the server: what a conductor that died has left is replaced.

    :param public_key: as OpenSSH writes it; None for none.
    :raises: BadRequest if it is not such a key, Forbidden if the user has
        too many, or another HostCloudError.
    """
    if public_key is None:
        yield None
        return
    name = f'quintupleo-{server.id}'
    path = f'/os-keypairs/{name}'
    compute.delete(path)
    try:
        compute.ask('/os-keypairs', {'keypair': {
            'name': name, 'public_key': public_key}}, 'keypair')
    except errors.BadRequest as exc:
        raise errors.BadRequest(f'{exc} (see meta_data/public_keys)')
    try:
        yield name
    finally:
        try:
            compute.delete(path)
        except errors.HostCloudError as exc:
            LOG.warning('Key pair %(name)s is left in the host cloud: '
                        '%(reason)s', {'name': name, 'reason': exc})
