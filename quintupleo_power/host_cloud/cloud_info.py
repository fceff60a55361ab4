# SPDX-License-Identifier: Apache-2.0
"""What a host cloud tells a project of itself; nothing here changes it."""

import dataclasses
import datetime

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import flavors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import instance_actions
from quintupleo_power.host_cloud import ports
from quintupleo_power.host_cloud import servers

# The first compute API that lists servers by their tags.
TAGS_MICROVERSION = (2, 26)
# Servers whose records are looked through for an action.
_SERVERS = 10
_RESCUED = 'rescued'


@dataclasses.dataclass(frozen=True)
class Token:
    """Whom the host cloud takes the user for.

    :ivar user: name of the user.
    :ivar project_id: UUID of the project, None if the token is for none.
    :ivar project: name of the project.
    :ivar roles: names of the user's roles in it.
    :ivar by_application_credential: whether one was used.
    :ivar clock: seconds that the identity service's clock is ahead of this
        machine's, None if it does not tell.
    """

    user: str | None
    project_id: str | None
    project: str | None
    roles: tuple[str, ...]
    by_application_credential: bool
    clock: float | None


@dataclasses.dataclass(frozen=True)
class Port:
    """A port of Neutron's.

    :ivar id: its UUID.
    :ivar mac: its MAC address in lower case.
    :ivar security: whether Neutron filters what it sends; None if Neutron
        does not tell, as without the extension ``port-security``.
    """

    id: str
    mac: str
    security: bool | None


@dataclasses.dataclass(frozen=True)
class Network:
    """A network of Neutron's.

    :ivar id: its UUID.
    :ivar name: its name.
    :ivar is_own: whether it is the project's own.
    :ivar security: as of a :class:`Port`, for ports that are made on it.
    :ivar dhcp: the CIDRs of its subnets in which Neutron serves DHCP.
    """

    id: str
    name: str
    is_own: bool
    security: bool | None
    dhcp: tuple[str, ...]


class CloudInfo:
    """A project of a host cloud, as it sees itself and the cloud."""

    def __init__(self, compute, image, volume, network):
        """Use the services of a cloud.

        :param compute: the compute :class:`service.Service`.
        :param image: the image :class:`service.Service`.
        :param volume: the block storage :class:`service.Service`.
        :param network: the network :class:`service.Service`.
        """
        self._compute = compute
        self._image = image
        self._volume = volume
        self._network = network
        self._project_id = None

    def sign_in(self):
        """Get a token.

        :returns: a :class:`Token`.
        :raises: HostCloudError
        """
        begun = _now()
        found = self._compute.sign_in()
        self._project_id = found.project_id
        return Token(found.username, found.project_id, found.project_name,
                     tuple(found.role_names or ()),
                     _is_application_credential(found),
                     _ahead(found.issued, begun, _now()))

    def microversion(self):
        """Tell the compute API's microversion that the driver uses.

        :returns: (major, minor).
        :raises: HostCloudError
        """
        return self._compute.microversion

    def clock(self):
        """Compare Nova's clock with this machine's.

        :returns: seconds that it is ahead, None if it does not tell.
        :raises: HostCloudError
        """
        begun = _now()
        # Any short answer has the header.
        return _ahead(self._compute.date('/servers?limit=1'), begun, _now())

    def rates(self):
        """Tell the rates that the compute API says to be limited.

        :returns: list of texts, such as 'GET * 120 per MINUTE'.
        :raises: HostCloudError
        """
        rates = self._compute.get('/limits', 'limits').get('rate') or ()
        try:
            return [f"{each['verb']} {rate['uri']} {each['value']} per "
                    f"{each['unit']}"
                    for rate in rates for each in rate['limit']]
        except (KeyError, TypeError) as exc:
            raise errors.ServerError(
                'The host cloud tells its limits in a form that Nova does '
                f'not have ({type(exc).__name__}: {exc})')

    def require_images(self):
        """Reach the image service.

        :raises: HostCloudError if it cannot be used.
        """
        self._image.get('/images', 'images', list, limit=1)

    def has_volumes(self):
        """Reach the block storage service.

        :returns: whether there is one for this project.
        :raises: HostCloudError if it does not answer.
        """
        try:
            self._volume.get('/limits', 'limits')
        except errors.CloudMisconfigured:
            return False
        return True

    def extensions(self):
        """Tell what this Neutron can do.

        :returns: set of the aliases of its extensions.
        :raises: HostCloudError
        """
        return {each.get('alias') for each in self._network.get(
            '/extensions', 'extensions', list)}

    def ports(self, server_id=None):
        """Read ports of this project.

        :param server_id: UUID of a server whose ports are meant; None for
            those of all servers, and those that are free.
        :returns: list of :class:`Port`.
        :raises: HostCloudError
        """
        if server_id:
            wanted = {'device_id': server_id}
        else:
            wanted = {'project_id': self._project_id} if (
                self._project_id) else {}
        try:
            return [Port(body['id'], body['mac_address'].lower(),
                         body.get('port_security_enabled'))
                    for body in self._network.get('/ports', 'ports', list,
                                                  **wanted)
                    # Routers and DHCP servers have ports, too.
                    if not (body.get('device_owner') or '').startswith(
                        'network:')]
        except (AttributeError, KeyError) as exc:
            raise errors.ServerError(
                'The host cloud describes a port in a form that Neutron '
                f'does not have ({type(exc).__name__}: {exc})')

    def network(self, reference):
        """Read a network.

        :param reference: its UUID, or its name if it is unique.
        :returns: a :class:`Network`.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        network_id = ports.find_network(self._network, reference)
        body = self._network.get(f'/networks/{network_id}', 'network')
        subnets = self._network.get('/subnets', 'subnets', list,
                                    network_id=network_id)
        return Network(
            network_id, body.get('name') or '',
            self._project_id in (None, body.get('project_id')),
            body.get('port_security_enabled'),
            tuple(subnet.get('cidr') for subnet in subnets
                  if subnet.get('enable_dhcp')))

    def image(self, reference):
        """Read an image.

        :param reference: its UUID, or its name if it is unique.
        :returns: the image as a dict.
        :raises: NotFound, NotUnique or another HostCloudError.
        """
        return images.read(self._image, reference)

    def image_usage(self):
        """Tell the quota of images.

        Glance tells it where its limits are in Keystone (API 2.14, "Quota
        usage").

        :returns: (used, limit), or None if it is not told; a limit of None
            is no limit.
        :raises: HostCloudError
        """
        try:
            usage = self._image.get('/info/usage', 'usage')
        except (errors.NotFound, errors.Forbidden):
            return None
        found = usage.get('image_count_total')
        if not isinstance(found, dict) or not all(
                isinstance(found.get(key), int) for key in ('usage',
                                                            'limit')):
            return None
        return found['usage'], (None if found['limit'] < 0
                                else found['limit'])

    def flavor(self, reference):
        """Find a flavor that the project may use.

        :param reference: its identifier or name.
        :returns: a :class:`flavors.Flavor`.
        :raises: NotFound or another HostCloudError.
        """
        return flavors.find(self._compute, reference)

    def tagged_servers(self, tag):
        """Read the servers with a tag.

        :param tag: the tag.
        :returns: list of :class:`servers.Server`.
        :raises: NotOffered or another HostCloudError.
        """
        if self._compute.microversion < TAGS_MICROVERSION:
            raise errors.NotOffered(
                'The compute API of the host cloud is %d.%d, and it takes '
                '2.26 to list servers by their tag: name the servers one by '
                'one' % self._compute.microversion)
        return [server for page in servers.read_pages(
            self._compute, {'tags': tag}) for server in page]

    def has_rescued(self):
        """Tell whether one of the newest servers was rescued ever.

        :returns: True or False.
        :raises: HostCloudError
        """
        newest = next(servers.read_pages(self._compute))
        if any(server.state.vm_state == _RESCUED for server in newest):
            return True
        return any(
            row.get('action') == 'rescue' and not row.get('message')
            for server in newest[:_SERVERS]
            for row in instance_actions.read(self._compute, server.id))


def _is_application_credential(token):
    try:
        return bool(token.application_credential_id)
    except KeyError:
        # What older keystoneauth (5.6) says of a token without one.
        return False


def _now():
    return datetime.datetime.now(datetime.timezone.utc)


def _ahead(moment, begun, ended):
    """Seconds that a clock is ahead that was read between two moments."""
    if moment is None:
        return None
    return (moment - (begun + (ended - begun) / 2)).total_seconds()
