# SPDX-License-Identifier: Apache-2.0
"""What Nova reports of a server, as an immutable value."""

import dataclasses
import re
import time

from oslo_utils import uuidutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import flavors
from quintupleo_power import transitions


@dataclasses.dataclass(frozen=True)
class Server:
    """A Nova server as it was when it was read.

    :ivar id: UUID.
    :ivar name: name.
    :ivar status: ``status``, the word that the clients show.
    :ivar state: the :class:`quintupleo_power.transitions.ServerState`.
    :ivar locked: whether somebody locked it.
    :ivar locked_reason: why, if whoever locked it said so.
    :ivar network_first: whether it asks the network at each boot by itself;
        :class:`cloud.HostCloud` finds out. None if that is not known.
    :ivar volume_ids: UUIDs of its volumes, in Nova's order.
    :ivar has_tpm: whether its flavor gives it a virtual TPM.
    :ivar fault: Nova's fault message of a server in ERROR, or None.
    :ivar updated: when Nova changed it last, by Nova's clock.
    :ivar image_id: UUID of its image; None if it boots from a volume.
    :ivar flavor: name of its flavor, or its identifier where the compute API
        is older than 2.47.
    :ivar flavor_details: the :class:`flavors.Flavor` since 2.47, or None.
    :ivar launched_at: when Nova spawned, rescued or rebuilt it last.
    :ivar image_properties: properties of that image as the server was made,
        or None where the compute API is older than 2.98.
    :ivar metadata: what its owner has noted with it.
    :ivar read_at: when the reading began, a ``time.monotonic`` value; None if
        it is not known.
    """

    id: str
    name: str
    status: str
    state: transitions.ServerState
    locked: bool = False
    locked_reason: str | None = None
    network_first: bool | None = False
    volume_ids: tuple = ()
    has_tpm: bool = False
    fault: str | None = None
    updated: str | None = None
    image_id: str | None = None
    flavor: str | None = None
    flavor_details: flavors.Flavor | None = None
    launched_at: str | None = None
    image_properties: dict | None = dataclasses.field(
        default=None, hash=False)
    metadata: dict = dataclasses.field(default_factory=dict, hash=False)
    read_at: float | None = dataclasses.field(default=None, compare=False)

    @property
    def fault_or_hint(self) -> str:
        """What Nova says of a server in ERROR, or where to look."""
        return self.fault or f'see "openstack server show {self.id}"'

    @classmethod
    def from_body(cls, body, read_at=None):
        """Read the ``server`` object of Nova's API.

        :param body: the decoded object.
        :param read_at: when the reading began, a ``time.monotonic`` value.
        :returns: a :class:`Server`.
        :raises: ServerError if it is not what Nova's API reference says.
        """
        try:
            # An image-less server has the empty string here.
            image = body.get('image') or {}
            return cls(
                id=_typed(body, 'id', str),
                name=body.get('name') or '',
                status=_typed(body, 'status', str),
                state=_state(body),
                locked=bool(body.get('locked')),
                locked_reason=body.get('locked_reason'),
                volume_ids=tuple(volume['id'] for volume in body.get(
                    'os-extended-volumes:volumes_attached') or ()),
                has_tpm=bool(_extra_specs(body).get('hw:tpm_version')),
                fault=(body.get('fault') or {}).get('message'),
                updated=body.get('updated'),
                image_id=image.get('id'),
                flavor=_flavor(body),
                flavor_details=flavors.within_server(
                    body.get('flavor') or {}),
                launched_at=body.get('OS-SRV-USG:launched_at'),
                image_properties=image.get('properties'),
                metadata=body.get('metadata') or {},
                read_at=read_at)
        except (AttributeError, KeyError, TypeError) as exc:
            raise errors.ServerError(
                'The host cloud describes a server in a form that Nova does '
                f'not have ({type(exc).__name__}: {exc})')


def _flavor(body):
    flavor = body.get('flavor') or {}
    return flavor.get('original_name') or flavor.get('id')


def _extra_specs(body):
    # Shown since microversion 2.47, if the cloud's policy permits.
    return (body.get('flavor') or {}).get('extra_specs') or {}


def _state(body):
    if body['status'] == 'UNKNOWN':
        # Its cell is down: Nova then leaves out all that the cell knows
        # (microversion 2.69).
        return transitions.ServerState(vm_state='unknown')
    return transitions.ServerState(
        vm_state=_typed(body, 'OS-EXT-STS:vm_state', str),
        power_state=_typed(body, 'OS-EXT-STS:power_state', int, None) or 0,
        task_state=_typed(body, 'OS-EXT-STS:task_state', str, None))


def _typed(body, key, kind, *others):
    """Read a member whose wrong type would be taken for a state."""
    value = body[key]
    if not isinstance(value, kind) and value not in others:
        raise TypeError(f'{key} is {value!r}')
    return value


def same_id(one, other):
    """Tell whether two spellings of a UUID are of the same one.

    :param one: a UUID, in any spelling.
    :param other: another one.
    :returns: True or False.
    """
    return (one.replace('-', '').lower()
            == other.replace('-', '').lower())


def not_found(reference):
    """Make the error for a server that is not there.

    :param reference: the server's UUID.
    :returns: a NotFound.
    """
    return errors.NotFound(
        f'Server {reference} does not exist in the host cloud, or not in the '
        'project of these credentials')


def read(compute, reference):
    """Read one server.

    :param compute: the compute :class:`service.Service`.
    :param reference: the server's UUID, or its name if it is unique.
    :returns: a :class:`Server`.
    :raises: NotFound, NotUnique or another HostCloudError.
    """
    begun = time.monotonic()
    if uuidutils.is_uuid_like(reference):
        try:
            server = Server.from_body(
                compute.get(f'/servers/{reference}', 'server'), begun)
        except errors.NotFound:
            raise not_found(reference)
        if not same_id(server.id, reference):
            raise errors.ServerError(
                f'The host cloud was asked for server {reference} and '
                f'describes {server.id}')
        return server
    # Nova filters by regular expression, which finds too much, never too
    # little; what is asked for is the exact name.
    found = [Server.from_body(body, begun) for body in compute.get(
        '/servers/detail', 'servers', list,
        name=f'^{re.escape(reference)}$') if body.get('name') == reference]
    if not found:
        raise errors.NotFound(
            f"No server is named '{reference}' in the project of these "
            'credentials')
    if len(found) > 1:
        raise errors.NotUnique(
            f"{len(found)} servers are named '{reference}' ("
            + ', '.join(sorted(server.id for server in found))
            + '): use the UUID')
    return found[0]


def read_pages(compute, filters=None):
    """Read servers of the project, newest first.

    :param compute: the compute :class:`service.Service`.
    :param filters: dict of what Nova is to choose by; None for all of them.
    :returns: a generator of lists of :class:`Server`, one for each request.
    :raises: HostCloudError
    """
    query = dict(filters or {})
    while True:
        begun = time.monotonic()
        answer = compute.get('/servers/detail', **query)
        bodies = answer.get('servers')
        if not isinstance(bodies, list):
            raise errors.ServerError(
                'The host cloud lists its servers in a form that Nova does '
                'not have')
        page = [Server.from_body(body, begun) for body in bodies]
        yield page
        # Nova links to the next page of all but the last one.
        if not page or not answer.get('servers_links'):
            return
        query['marker'] = page[-1].id
