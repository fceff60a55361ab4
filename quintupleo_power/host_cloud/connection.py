# SPDX-License-Identifier: Apache-2.0
"""Connections to host clouds: credentials in, REST services out."""

import dataclasses
import functools
import time
import typing

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.identity import v3
from keystoneauth1 import loading
from keystoneauth1 import session as ks_session
from openstack.config import cloud_region
from openstack import connection as sdk_connection
import requests

from quintupleo_power.conf import CONF
from quintupleo_power.conf import GROUP
from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import authentication
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import clouds_yaml
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import service_urls

# The newest compute API that this code was written against: 2.51 shows the
# events of an action to its owner, 2.84 their faults, 2.87 rescues
# volume-backed servers, 2.98 shows the image's properties with the server.
NEWEST_COMPUTE_MICROVERSION = (2, 98)

# When a service of a cloud answered last, whatever it was, by cloud.
last_answers = cache.Cache(3600.0)


@dataclasses.dataclass(frozen=True)
class Credentials:
    """How to enter a host cloud; all None stands for the configured one.

    :ivar cloud: name of an entry of clouds.yaml.
    :ivar auth_url: identity endpoint for the application credential.
    :ivar region_name: region to use instead of the configured one.
    """

    cloud: str | None = None
    auth_url: str | None = None
    application_credential_id: str | None = None
    application_credential_secret: str | None = dataclasses.field(
        default=None, repr=False)
    region_name: str | None = None

    @functools.cached_property
    def of_cloud(self) -> 'Credentials':
        """Return them as for all nodes of the cloud, without a secret."""
        return dataclasses.replace(self, application_credential_id=None,
                                   application_credential_secret=None)


class Services(typing.NamedTuple):
    """The services of a cloud; it may lack the last two."""

    compute: service.Service
    image: service.Service
    volume: service.Service
    network: service.Service


def connect(credentials: Credentials) -> Services:
    """Return the services of a host cloud, see :func:`access`."""
    return services(*access(credentials))


def access(credentials: Credentials) -> tuple[str, cloud_region.CloudRegion]:
    """Return how to enter a host cloud; sends nothing yet.

    :returns: (the cloud's name in messages, its region with a session).
    :raises: CloudMisconfigured if the settings do not name a cloud.
    """
    if credentials.application_credential_id:
        title, region = _from_application_credential(credentials)
    elif name := credentials.cloud or CONF.quintupleo.cloud:
        title = f"Host cloud '{name}'"
        region = clouds_yaml.entry(name, credentials.region_name)
    else:
        title, region = _from_section(credentials.region_name)
    session = region.get_session()
    _check_auth_url(title, session)
    answers.check(session, _follow_no_stranger, lambda _answer: (
        last_answers.put(credentials.of_cloud, time.monotonic())))
    return title, region


def services(title: str, region: cloud_region.CloudRegion) -> Services:
    """Return the services of a host cloud; sends nothing yet.

    :param title: the cloud's name in messages.
    """
    session = region.get_session()
    if session.auth and not isinstance(session.auth, authentication.Plugin):
        session.auth = authentication.Plugin(session.auth)
    # By the name that operators set the level of.
    logger: typing.Any = redaction.Logger('keystoneauth.session', session.auth)

    def make(service_type: str, oldest: str,
             *newest_microversion: tuple[int, int]) -> service.Service:
        return service.Service(title, adapter.Adapter(
            session, service_type=service_type,
            region_name=region.get_region_name(service_type),
            interface=region.get_interface(service_type) or 'public',
            endpoint_override=region.get_endpoint(service_type),
            min_version=oldest, max_version=f'{oldest[0]}.latest',
            logger=logger), *newest_microversion)

    return Services(
        make('compute', '2.1', NEWEST_COMPUTE_MICROVERSION),
        make('image', '2'), make('block-storage', '3'), make('network', '2'))


def of_sdk(connection: sdk_connection.Connection) -> Services:
    """Return the services of a cloud that openstacksdk has entered."""
    answers.check(connection.session)
    return services('The host cloud', connection.config)


def drop_microversions(connection: sdk_connection.Connection
                       ) -> sdk_connection.Connection:
    """Return a connection that uses the microversions each request needs.

    What the user has set in clouds.yaml or OS_COMPUTE_API_VERSION is for
    other commands: half of an environment would be made with it.
    """
    settings = connection.config.config
    for name in list(settings):
        if name.endswith('_default_microversion') or (
                name.endswith('_api_version') and '.' in str(settings[name])):
            del settings[name]
    return connection


def _check_auth_url(title: str, session: ks_session.Session) -> None:
    auth_url = getattr(session.auth, 'auth_url', None) or ''
    if '@' in auth_url.partition('//')[2].partition('/')[0]:
        # keystoneauth logs it.
        raise errors.CloudMisconfigured(
            f'{title} cannot be used: its auth_url must not hold a '
            'user name or password')


# Session._REDIRECT_STATUSES of keystoneauth.
_FOLLOWED = (301, 302, 303, 305, 307, 308)


def _follow_no_stranger(answer: requests.Response) -> None:
    """Stop keystoneauth from sending credentials on to another host."""
    location = answer.headers.get('location')
    if (answer.status_code in _FOLLOWED and location
            and service_urls.redirects_away(answer.url, location)):
        raise errors.CloudMisconfigured(redaction.clean(
            f'{answer.url} redirects to {location}, which is not followed: '
            'use the address of the service itself'))


def _from_section(region_name):
    auth = _section_auth()
    if auth is None:
        raise errors.CloudMisconfigured(
            'No host cloud is named: set [quintupleo]cloud or '
            '[quintupleo]auth_type in the configuration, or '
            'driver_info/quintupleo_cloud on the node')
    return _section_access(auth, region_name,
                           CONF.quintupleo.endpoint_override)


def _section_auth():
    try:
        return loading.load_auth_from_conf_options(CONF, GROUP)
    except ks_exceptions.AuthPluginException as exc:
        raise errors.CloudMisconfigured(
            'The authentication options of [quintupleo] are incomplete: '
            f'{exc}')


def _section_access(auth, region_name, compute=None):
    auth_url = getattr(auth, 'auth_url', None)
    title = _title(auth_url) if auth_url else 'Host cloud of [quintupleo]'
    return title, cloud_region.from_session(
        loading.load_session_from_conf_options(CONF, GROUP, auth=auth), GROUP,
        region_name or CONF.quintupleo.region_name,
        interface=CONF.quintupleo.valid_interfaces or ['public'],
        compute_endpoint_override=compute)


def _title(auth_url):
    return redaction.clean(f'Host cloud {auth_url}')


def _from_application_credential(credentials):
    configured = configured_auth_url()
    auth_url = credentials.auth_url or configured
    if not auth_url:
        raise errors.CloudMisconfigured(
            'driver_info/quintupleo_application_credential_id needs '
            'driver_info/quintupleo_auth_url, as the configuration names no '
            'host cloud of its own')
    auth = v3.ApplicationCredential(
        auth_url=auth_url,
        application_credential_id=credentials.application_credential_id,
        application_credential_secret=(
            credentials.application_credential_secret))
    if not service_urls.same_service(auth_url, configured):
        # Another cloud: the endpoints of the configured one do not serve it.
        return _section_access(auth, credentials.region_name)
    if not CONF.quintupleo.cloud:
        return _section_access(auth, credentials.region_name,
                               CONF.quintupleo.endpoint_override)
    region = clouds_yaml.entry(CONF.quintupleo.cloud, credentials.region_name)
    region.get_session().auth = auth
    return _title(auth_url), region


def configured_auth_url() -> str | None:
    """Return the URL of the identity service that the configuration names."""
    try:
        if CONF.quintupleo.cloud:
            entry = clouds_yaml.entry(CONF.quintupleo.cloud)
            return entry.get_auth_args().get('auth_url')
        auth = _section_auth()
    except errors.CloudMisconfigured:
        return None
    return getattr(auth, 'auth_url', None)
