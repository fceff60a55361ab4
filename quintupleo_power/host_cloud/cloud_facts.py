# SPDX-License-Identifier: Apache-2.0
"""What a host cloud shows a project of itself; nothing here changes it."""

import dataclasses

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import ports
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

# Servers whose instance actions are looked through for one.
_SERVERS = 10


@dataclasses.dataclass(frozen=True)
class Token:
    """Whom the host cloud takes the user for, by names.

    :ivar project_id: UUID, None if the token is for no project.
    """

    user: str | None
    project_id: str | None
    project: str | None
    roles: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Port:
    """A port of Neutron's, its MAC address in lower case.

    :ivar security: whether Neutron filters what it sends; None if that is not
        known, as without the extension ``port-security``.
    """

    id: str
    mac: str
    security: bool | None


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of Neutron's.

    :ivar is_own: whether it is the project's own.
    :ivar security: as of a :class:`Port`, for ports that are made on it.
    :ivar dhcp: the CIDRs of its subnets in which Neutron serves DHCP.
    """

    id: str
    is_own: bool
    security: bool | None
    dhcp: tuple[str, ...]


class CloudInfo:
    """A host cloud as a project sees it."""

    def __init__(self, compute: service.Service, image: service.Service,
                 volume: service.Service, network: service.Service):
        """Use the services of a cloud."""
        self.compute = compute
        self.image = image
        self._volume = volume
        self._network = network

    def sign_in(self) -> Token:
        """Get a new token, and return what it says."""
        found = self.compute.sign_in()
        try:
            return Token(found.username, found.project_id,
                         found.project_name, tuple(found.role_names or ()))
        except errors.UNEXPECTED_FORM as exc:
            # Properties of AccessInfo read the token when they are asked for.
            raise errors.MalformedAnswer(
                'The host cloud describes a token in a form that Keystone '
                f'does not have ({type(exc).__name__})')

    def has_volumes(self) -> bool:
        """Return whether there is a block storage service."""
        try:
            self._volume.get('/limits', 'limits')
        except errors.CloudMisconfigured:
            return False
        return True

    def extensions(self) -> set[str]:
        """Return the aliases of Neutron's extensions."""
        return {str(each.get('alias')) for each in self._network.get(
            '/extensions', 'extensions', list)}

    def ports(self, server_id: str | None = None) -> list[Port]:
        """Return the ports of a server, or all of the project."""
        key, value = (('device_id', server_id) if server_id else
                      ('project_id', self.compute.project_id))
        found = [typed_json.Body(each, 'a port', 'Neutron') for each in (
            self._network.get('/ports', 'ports', list,
                              **{key: value} if value else {}))]
        # Routers and DHCP servers have ports, too.
        return [Port(each.get('id', str),
                     identifiers.mac(each.get('mac_address', str)),
                     each.find('port_security_enabled', bool))
                for each in found if not (
                    each.find('device_owner', str) or ''
                ).startswith('network:')]

    def network(self, reference: str) -> Network:
        """Return a network, see :func:`ports.find_network`."""
        network_id = ports.find_network(self._network, reference)
        body = self._network.get(f'/networks/{network_id}', 'network')
        subnets = self._network.get('/subnets', 'subnets', list,
                                    network_id=network_id)
        return Network(
            network_id,
            self.compute.project_id in (None, body.get('project_id')),
            body.get('port_security_enabled'),
            tuple(subnet.get('cidr') for subnet in subnets
                  if subnet.get('enable_dhcp')))

    def image_usage(self) -> tuple[int, int | None] | None:
        """Return (used, limit or None) of images, None if it is not shown.

        Glance shows it where its limits are in Keystone (API 2.14, "Quota
        usage").
        """
        try:
            usage = self.image.get('/info/usage', 'usage')
        except (errors.NotFound, errors.Forbidden):
            return None
        found = usage.get('image_count_total')
        if not isinstance(found, dict) or not all(
                isinstance(found.get(key), int) for key in ('usage',
                                                            'limit')):
            return None
        return found['usage'], (None if found['limit'] < 0
                                else found['limit'])

    def tagged_servers(self, tag: str) -> list[servers.Server]:
        """Return the servers with a tag, which come with compute API 2.52."""
        return [server for page in servers.read_pages(self.compute, tags=tag)
                for server in page]

    def has_rescued(self) -> bool:
        """Return whether one of the newest servers was ever rescued."""
        newest = next(servers.read_pages(self.compute))
        if any(server.state.vm_state == 'rescued' for server in newest):
            return True
        return any(
            each.get('action') == 'rescue' and not each.get('message')
            for server in newest[:_SERVERS]
            for each in instance_actions.read(self.compute, server.id))
