# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Connections to host clouds: credentials in, REST services out."""

import dataclasses
import datetime
from email import utils as email_utils
import logging
import re
import threading
import time

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.identity import v3
from keystoneauth1 import loading
from openstack import config as sdk_config
from openstack import exceptions as sdk_exceptions
from oslo_config import cfg
import yaml

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import addresses
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP

# The newest compute API that this code was written against: 2.51 shows the
# events of an action to its owner, 2.84 their faults, 2.87 rescues
# volume-backed servers, 2.98 shows the image's properties with the server.
NEWEST_COMPUTE_MICROVERSION = (2, 98)


@dataclasses.dataclass(frozen=True)
class Credentials:
    """How to enter a host cloud; all None stands for the configured one.

    :ivar cloud: name of an entry of clouds.yaml.
    :ivar auth_url: identity endpoint for the application credential.
    :ivar application_credential_id: identifier of an application credential.
    :ivar application_credential_secret: its secret; never shown.
    :ivar region_name: region to use instead of the configured one.
    """

    cloud: str | None = None
    auth_url: str | None = None
    application_credential_id: str | None = None
    application_credential_secret: str | None = dataclasses.field(
        default=None, repr=False)
    region_name: str | None = None


@dataclasses.dataclass(frozen=True)
class _Access:
    """What the adapters of one cloud are made with."""

    title: str
    session: object
    region_name: str | None
    interface: object
    compute_endpoint: str | None = None
    image_endpoint: str | None = None
    volume_endpoint: str | None = None


class Service:
    """One REST service of a host cloud, its faults told as our errors."""

    # A read is made again after these seconds. Ironic gives a request up at
    # once when its first look at a machine fails.
    READ_AGAIN = (0.3, 1.0)
    # Not so if a single attempt took as long, or the cloud was away a moment
    # ago: many nodes would otherwise wait for it one after the other.
    SLOW = 5.0
    AWAY = 10.0

    def __init__(self, title, rest, newest_microversion=None):
        """Wrap a keystoneauth adapter.

        :param title: the host cloud's name in messages.
        :param rest: a keystoneauth ``Adapter``.
        :param newest_microversion: (major, minor), for a service that has
            microversions.
        """
        self._title = title
        self._rest = rest
        self._newest = newest_microversion
        self._microversion = None
        self._away_until = 0.0

    @property
    def microversion(self):
        """The microversion in use, the newest that both sides know."""
        if self._newest and not self._microversion:
            data = self._call(self._rest.get_endpoint_data)
            # keystoneauth passes over a version document that it cannot get,
            # and without one the oldest version would be used from now on.
            if not (data and data.max_microversion):
                raise errors.MalformedAnswer(
                    f'{self._title} does not tell which versions of the '
                    'compute API it has')
            self._microversion = min(tuple(data.max_microversion),
                                     self._newest)
        return self._microversion

    def get(self, path, key=None, kind=dict, **params):
        """Read.

        :param path: path below the service's endpoint.
        :param key: the member of the body that is wanted; None for all.
        :param kind: what it has to be, ``dict`` or ``list`` of dicts.
        :param params: the query.
        :returns: the decoded member or body.
        :raises: HostCloudError in one of its kinds.
        """
        again = iter(self.READ_AGAIN)
        while True:
            begun = time.monotonic()
            try:
                return self._read(path, key, kind, params)
            except (errors.ServerError, errors.CloudUnreachable) as exc:
                pause = self._pause(again, exc, begun)
                if pause is None:
                    raise
            time.sleep(pause)

    def _pause(self, again, error, begun):
        """Seconds until a read that failed is worth repeating, or None."""
        now = time.monotonic()
        pause = next(again, None)
        if (pause is None or now - begun > self.SLOW
                or now < self._away_until):
            self._away_until = now + self.AWAY
            return None
        return (max(pause, error.retry_after)
                if error.retry_after <= self.SLOW else None)

    def _read(self, path, key, kind, params):
        answer = self._request('GET', path, params=params)
        try:
            found = answer.json()
        except ValueError:
            raise self._unintelligible(answer, 'something that is not JSON')
        if key is not None:
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, kind) or (kind is list and not all(
                isinstance(item, dict) for item in found)):
            raise self._unintelligible(answer, 'JSON that lacks ' + (
                f'"{key}"' if key else 'what was asked for'))
        return found

    def post(self, path, body):
        """Ask for an action.

        :param path: path below the service's endpoint.
        :param body: what is sent as JSON.
        :returns: the request's identifier, which names the action later.
        :raises: HostCloudError in one of its kinds.
        """
        answer = self._request('POST', path, json=body)
        request_id = answer.headers.get('x-openstack-request-id')
        # Nova accepts an action with 202, a rescue with 200; whatever stands
        # before Nova may say 200 to anything.
        if answer.status_code != 202 and not request_id:
            raise self._unintelligible(
                answer, f'{answer.status_code}, which is not from Nova')
        return request_id

    def _request(self, method, path, **kwargs):
        if self.microversion:
            kwargs['microversion'] = '%d.%d' % self.microversion
        return self._call(self._rest.request, path, method, **kwargs)

    def _unintelligible(self, answer, what):
        return errors.ServerError(
            f'{self._title} answered {answer.request.method} '
            f'{answer.request.path_url} with {what}')

    def _call(self, function, *args, **kwargs):
        try:
            return self._tried(function, *args, **kwargs)
        except errors.HostCloudError as exc:
            exc.args = (redaction.clean(exc, self._rest.session.auth),)
            raise

    def _tried(self, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except ks_exceptions.Unauthorized as exc:
            raise errors.AuthenticationFailed(
                f'{self._title} does not accept the credentials: '
                f'{_explanation(exc)}')
        except ks_exceptions.HttpError as exc:
            raise self._told(exc)
        except (ks_exceptions.AuthorizationFailure,
                ks_exceptions.MissingAuthMethods) as exc:
            raise errors.AuthenticationFailed(
                f'{self._title} does not accept the credentials: {exc}')
        except (ks_exceptions.CatalogException,
                ks_exceptions.AuthPluginException) as exc:
            raise errors.CloudMisconfigured(
                f'{self._title} cannot be used: {exc}')
        except ks_exceptions.ClientException as exc:
            raise errors.CloudUnreachable(
                f'{self._title} cannot be reached: {_short(exc)}')
        except _UNEXPECTED_FORM as exc:
            raise errors.MalformedAnswer(
                f'{self._title} answered in a form that an OpenStack service '
                f'does not have ({type(exc).__name__})')
        except Exception as exc:
            # keystoneauth's password plugin says so of a missing password.
            if type(exc) is not Exception:
                raise
            raise errors.CloudMisconfigured(
                f'{self._title} cannot be used: {exc}')

    def _told(self, exc):
        if exc.http_status == 404 and str(exc.url).endswith('/auth/tokens'):
            fault = _fault(exc) or ''
            # "Could not find Application Credential: ..." of Keystone's
            # exception ApplicationCredentialNotFound.
            if 'application credential' in fault.lower():
                return errors.AuthenticationFailed(
                    f'{self._title} does not accept the credentials: {fault}')
            return errors.CloudMisconfigured(
                f'{self._title} cannot be used: there is no identity service '
                'at that address (HTTP 404): check auth_url')
        message = (f'{self._title} answered {exc.http_status} to '
                   f'{exc.method}: {_explanation(exc)}')
        if exc.http_status in _PASSING or exc.http_status >= 500:
            return self._busy(exc, message)
        if exc.http_status == 409 and not str(exc.url).endswith('/action'):
            # Only of an action is it about the server's state.
            return errors.ServerError(message)
        return _KINDS.get(exc.http_status, errors.BadRequest)(message)

    @staticmethod
    def _busy(exc, message):
        seconds = _retry_after(exc.response)
        if seconds:
            message += f' (asks to be left alone for {seconds:.0f} seconds)'
        kind = (errors.TooManyRequests if exc.http_status == 429
                else errors.ServerError)
        return kind(message, retry_after=seconds)


# What keystoneauth lets out of an answer that lacks something. Their texts
# may hold what was sent.
_UNEXPECTED_FORM = (AttributeError, LookupError, TypeError, ValueError)

# Request timeout, too many requests.
_PASSING = (408, 429)

_KINDS = {
    400: errors.BadRequest,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
}


def _retry_after(response):
    """Tell for how long a service asks not to be asked (RFC 9110, 10.2.3).

    :returns: seconds, 0 if it does not say or what it says is absurd.
    """
    value = response.headers.get('Retry-After', '').strip()
    if re.fullmatch('[0-9]{1,9}', value):
        return int(value)
    try:
        until = email_utils.parsedate_to_datetime(value)
        now = datetime.datetime.now(until.tzinfo)
        return max(0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0


def _explanation(exc):
    """Find the sentence in an error of Nova, Glance or Keystone."""
    return _fault(exc) or exc.message


def _fault(exc):
    """Find what an OpenStack service itself says of a fault, if it does.

    Nova wraps it in an object whose key names the kind of fault, which
    keystoneauth does not look into.
    """
    response = getattr(exc, 'response', None)
    try:
        for fault in response.json().values():
            if isinstance(fault, dict) and fault.get('message'):
                return fault['message']
    except (AttributeError, ValueError):
        pass
    return None


def _short(exc):
    """Leave out of a connection's failure which Python objects it passed."""
    sentence, rest = (_OBJECTS.split(str(exc), maxsplit=1) + [''])[:2]
    reason = (re.search(r'\[Errno -?\d+\] ([^\'")]+)', rest)
              or re.search(r'\w\((?:\d+, )?[\'"]([^\'"<]+)', rest)
              or re.search(r'[\'"]([^\'"]+)', rest))
    return f'{sentence} ({reason[1]})' if reason else sentence


# How a failure of urllib3 begins, after what keystoneauth says of it.
_OBJECTS = re.compile(r": (?=HTTPS?ConnectionPool|\('|\(\"|\w+\()")


def connect(credentials):
    """Make the services of a host cloud; sends nothing yet.

    :param credentials: a :class:`Credentials`.
    :returns: (title, compute :class:`Service`, image :class:`Service`, block
        storage :class:`Service`); the last one may be missing in the cloud.
    :raises: CloudMisconfigured if the settings do not name a cloud.
    """
    if credentials.application_credential_id:
        access = _from_application_credential(credentials)
    elif credentials.cloud:
        access = _from_clouds_yaml(credentials.cloud, credentials.region_name)
    elif CONF[GROUP].cloud:
        access = _from_clouds_yaml(CONF[GROUP].cloud,
                                   credentials.region_name)
    else:
        access = _from_section(credentials.region_name)
    _check_auth_url(access)
    access.session.session.hooks['response'].append(_follow_no_stranger)
    access.session.auth._lock = _Lock()
    common = {'session': access.session, 'region_name': access.region_name,
              'interface': access.interface,
              # By the name that operators set the level of.
              'logger': redaction.Logger('keystoneauth.session',
                                         access.session.auth)}
    compute = adapter.Adapter(
        service_type='compute', endpoint_override=access.compute_endpoint,
        min_version='2.1', max_version='2.latest', **common)
    image = adapter.Adapter(
        service_type='image', endpoint_override=access.image_endpoint,
        min_version='2', max_version='2.latest', **common)
    volume = adapter.Adapter(
        service_type='block-storage',
        endpoint_override=access.volume_endpoint,
        min_version='3', max_version='3.latest', **common)
    return (access.title,
            Service(access.title, compute, NEWEST_COMPUTE_MICROVERSION),
            Service(access.title, image), Service(access.title, volume))


class _Lock:
    """The lock of an authentication plugin, refused to who holds it.

    keystoneauth asks again with a token for a version document that was
    answered with 401. For Keystone's own document that is the very token
    that is being fetched, and it would wait for itself for ever.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._holder = None

    def __enter__(self):
        if self._holder == threading.get_ident():
            raise ks_exceptions.Unauthorized(
                'The identity service asks for a token before it gives one')
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *exc_info):
        self._holder = None
        self._lock.release()


def _check_auth_url(access):
    auth_url = getattr(access.session.auth, 'auth_url', None) or ''
    if '@' in auth_url.partition('//')[2].partition('/')[0]:
        # keystoneauth logs it.
        raise errors.CloudMisconfigured(
            f'{access.title} cannot be used: its auth_url must not hold a '
            'user name or password')


# Session._REDIRECT_STATUSES of keystoneauth.
_FOLLOWED = (301, 302, 303, 305, 307, 308)


def _follow_no_stranger(answer, **kwargs):
    """Stop keystoneauth from sending credentials on to another host."""
    location = answer.headers.get('location')
    if (answer.status_code in _FOLLOWED and location
            and addresses.redirects_away(answer.url, location)):
        raise errors.CloudMisconfigured(redaction.clean(
            f'{answer.url} redirects to {location}, which is not followed: '
            'use the address of the service itself'))


def _from_section(region_name):
    auth = _section_auth()
    if auth is None:
        raise errors.CloudMisconfigured(
            f'No host cloud is named: set [{GROUP}]cloud or '
            f'[{GROUP}]auth_type in the configuration, or '
            'driver_info/quintupleo_cloud on the node')
    auth_url = getattr(auth, 'auth_url', None)
    return dataclasses.replace(
        _section_access(auth, region_name),
        title=(_title(auth_url) if auth_url else
               f'Host cloud of [{GROUP}]'),
        compute_endpoint=CONF[GROUP].endpoint_override)


def _section_auth():
    try:
        return loading.load_auth_from_conf_options(CONF, GROUP)
    except ks_exceptions.AuthPluginException as exc:
        raise errors.CloudMisconfigured(
            f'The authentication options of [{GROUP}] are incomplete: {exc}')


def _section_access(auth, region_name):
    return _Access(
        title=_title(getattr(auth, 'auth_url', None)),
        session=loading.load_session_from_conf_options(
            CONF, GROUP, auth=auth),
        region_name=region_name or CONF[GROUP].region_name,
        interface=CONF[GROUP].valid_interfaces or ['public'])


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
    if not addresses.same_service(auth_url, configured):
        # Another cloud: the endpoints of the configured one do not serve it.
        return _section_access(auth, credentials.region_name)
    if not CONF[GROUP].cloud:
        return dataclasses.replace(
            _section_access(auth, credentials.region_name),
            compute_endpoint=CONF[GROUP].endpoint_override)
    access = _from_clouds_yaml(CONF[GROUP].cloud, credentials.region_name)
    access.session.auth = auth
    return dataclasses.replace(access, title=_title(auth_url))


class _UnreadFiles(logging.Filter):
    """Takes over openstacksdk's warning of files that are not YAML.

    It repeats what stands there, be it a password, and so does oslo.log,
    which adds the exception of the moment to each warning. Told of instead is
    the place, in the error that follows.
    """

    def __init__(self):
        super().__init__()
        self._here = threading.local()

    def filter(self, record):
        """Drop a record that carries an exception of the YAML parser."""
        args = record.args if isinstance(record.args, tuple) else ()
        mistakes = [each for each in args if isinstance(each, yaml.YAMLError)]
        for mistake in mistakes:
            self._here.place = _place(mistake)
        return not mistakes

    def pop(self):
        """Give what this thread came upon last, as a sentence, or None."""
        return self._here.__dict__.pop('place', None)


_unread_files = _UnreadFiles()
logging.getLogger('openstack.config').addFilter(_unread_files)


def _place(mistake):
    mark = getattr(mistake, 'problem_mark', None)
    return (f'{mark.name} is not YAML from line {mark.line + 1}' if mark else
            'it is not YAML')


def _clouds_yaml_entry(name, region_name=None):
    _unread_files.pop()
    try:
        config = sdk_config.OpenStackConfig()
        if name == config.envvar_key:
            # What the conductor was started with is not for its nodes.
            raise errors.CloudMisconfigured(
                f"'{name}' is no entry of clouds.yaml but stands for the "
                'environment of the conductor, which is not used')
        entry = config.get_one(
            cloud=name, **({'region_name': region_name} if region_name
                           else {}))
        return entry, entry.get_session()
    except (sdk_exceptions.SDKException,
            ks_exceptions.ClientException) as exc:
        told = _unread_files.pop() or str(exc)
    except yaml.YAMLError as exc:
        # Older openstacksdk (3.0) skips no file.
        told = _place(exc)
    except _UNEXPECTED_FORM as exc:
        told = f'it is not of the form of clouds.yaml ({type(exc).__name__})'
    raise errors.CloudMisconfigured(
        f"clouds.yaml of the conductor has no usable entry '{name}': {told}")


def _from_clouds_yaml(name, region_name):
    entry, session = _clouds_yaml_entry(name, region_name)
    if not entry.config.get('api_timeout'):
        session.timeout = CONF[GROUP].timeout
    return _Access(
        title=f"Host cloud '{name}'",
        session=session,
        region_name=entry.get_region_name('compute'),
        interface=entry.get_interface('compute') or 'public',
        compute_endpoint=entry.get_endpoint('compute'),
        image_endpoint=entry.get_endpoint('image'),
        volume_endpoint=entry.get_endpoint('block-storage'))


def configured_auth_url():
    """Tell the identity endpoint that the configuration itself uses.

    :returns: a URL, or None when the configuration names no host cloud.
    """
    try:
        if CONF[GROUP].cloud:
            entry, _session = _clouds_yaml_entry(CONF[GROUP].cloud)
            return entry.get_auth_args().get('auth_url')
        auth = _section_auth()
    except errors.CloudMisconfigured:
        return None
    return getattr(auth, 'auth_url', None)
