# SPDX-License-Identifier: Apache-2.0
"""What Nova reports of a server, as an immutable value."""

from collections import abc
import dataclasses
import re
import time
import types
import typing

from oslo_log import log
from oslo_utils import uuidutils

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import flavors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json
from quintupleo_power import transitions

LOG = log.getLogger(__name__)

# Name in a server's metadata for the UUID of the node that it plays, which an
# operator or an enrolment has set.
NODE = 'quintupleo_node'


@dataclasses.dataclass(frozen=True)
class Server:
    """A Nova server as it was when it was read.

    :ivar status: the word that the clients show.
    :ivar network_first: whether it asks the network at each boot by itself;
        :class:`capabilities.Capabilities` finds out. None if that is not
        known.
    :ivar volume_ids: UUIDs of its volumes, in any order.
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
    :ivar read_at: when the reading began, a ``time.monotonic`` value.
    """

    id: str
    name: str
    status: str
    state: transitions.ServerState
    locked: bool = False
    locked_reason: str | None = None
    network_first: bool | None = False
    volume_ids: tuple[str, ...] = ()
    fault: str | None = None
    updated: str | None = None
    image_id: str | None = None
    flavor: str | None = None
    flavor_details: flavors.Flavor | None = None
    launched_at: str | None = None
    image_properties: dict | None = dataclasses.field(
        default=None, hash=False)
    metadata: dict = dataclasses.field(default_factory=dict, hash=False)
    read_at: float = dataclasses.field(default=float('-inf'), compare=False)

    @property
    def fault_or_hint(self) -> str:
        """What Nova says of a server in ERROR, or where to look."""
        return self.fault or f'see "openstack server show {self.id}"'

    def require(self, ability: str, obstacle: str | None) -> None:
        """Raise Refused if there is an obstacle to what is asked of it.

        :param ability: what it cannot be then, such as 'deployed'.
        """
        if obstacle:
            raise transitions.Refused(f'Server {self.id} ({self.name}) cannot '
                                      f'be {ability}: {obstacle}')

    @classmethod
    def from_body(cls, body: dict, read_at: float) -> 'Server':
        """Return the server that a ``server`` object of Nova's API shows."""
        found = typed_json.Body(body, 'a server', 'Nova')
        # An image-less server has the empty string here.
        image, flavor = found.part('image'), found.part('flavor')
        return cls(
            id=found.get('id', str),
            name=found.find('name', str) or '',
            status=found.get('status', str),
            state=_state(found),
            locked=bool(found.find('locked', bool)),
            locked_reason=found.find('locked_reason', str),
            volume_ids=tuple(volume.get('id', str) for volume in found.parts(
                'os-extended-volumes:volumes_attached')),
            fault=found.part('fault').find('message', str),
            updated=found.find('updated', str),
            image_id=image.find('id', str),
            flavor=(flavor.find('original_name', str)
                    or flavor.find('id', str)),
            flavor_details=(
                None if flavor.find('vcpus', int) is None
                else flavors.Flavor.from_body(flavor)),
            launched_at=found.find('OS-SRV-USG:launched_at', str),
            image_properties=image.find('properties', dict),
            metadata=found.find('metadata', dict) or {},
            read_at=read_at)


def _state(body: typed_json.Body) -> transitions.ServerState:
    if body.get('status', str) == 'UNKNOWN':
        # Its cell is down: Nova then leaves out all that the cell knows
        # (microversion 2.69).
        return transitions.ServerState(vm_state='unknown')
    return transitions.ServerState(
        vm_state=body.get('OS-EXT-STS:vm_state', str),
        power_state=body.get('OS-EXT-STS:power_state', int,
                             types.NoneType) or 0,
        task_state=body.get('OS-EXT-STS:task_state', str, types.NoneType))


def not_found(reference: str) -> errors.NotFound:
    """Return the error for a server that is not there, by its UUID."""
    return errors.NotFound(
        f'Server {reference} does not exist in the host cloud, or not in the '
        'project of these credentials')


def read(compute: service.Service, reference: str) -> Server:
    """Return one server by its UUID, or its name if it is unique.

    :raises: NotFound, NotUnique or another HostCloudError.
    """
    begun = time.monotonic()
    if uuidutils.is_uuid_like(reference):
        try:
            server = Server.from_body(
                compute.get(f'/servers/{reference}', 'server'), begun)
        except errors.NotFound:
            raise not_found(reference)
        if identifiers.reference(server.id) != identifiers.reference(
                reference):
            raise errors.ServerError(
                f'The host cloud was asked for server {reference} and '
                f'describes {server.id}')
        return server
    # Nova filters by regular expression, which finds too much, never too
    # little; what is asked for is the exact name.
    found = [Server.from_body(body, begun) for body in compute.get(
        '/servers/detail', 'servers', list,
        name=f'^{re.escape(reference)}$') if body.get('name') == reference]
    errors.require_one([server.id for server in found], 'server', reference)
    return found[0]


def read_pages(compute: service.Service, **query: typing.Any
               ) -> abc.Iterator[list[Server]]:
    """Return servers of the project, newest first, a list for each request."""
    while True:
        begun = time.monotonic()
        answer = compute.get('/servers/detail', **query)
        described = typed_json.Body(answer, 'its servers', 'Nova').get(
            'servers', list)
        page = []
        for body in described:
            try:
                page.append(Server.from_body(body, begun))
            except errors.ServerError as exc:
                # It is the fault of its node only.
                LOG.warning('A server is left out of a list: %s', exc)
        yield page
        # Nova links to the next page of all but the last one.
        if not described or not answer.get('servers_links'):
            return
        last = typed_json.Body(described[-1], 'a server', 'Nova')
        query['marker'] = last.get('id', str)
