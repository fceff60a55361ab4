# SPDX-License-Identifier: Apache-2.0
"""One REST service of a host cloud, its faults told as errors of ours."""

import datetime
from email import utils as email_utils
import re
import time

from keystoneauth1 import exceptions as ks_exceptions
import tenacity

from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import authentication
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction


class Service:
    """A REST service, as a tenant uses it.

    :ivar clock_ahead: seconds that its clock is ahead of this machine's, by
        its last answer: about a second less at the most. None if it does not
        tell.
    """

    # How often a read is made, and the first pause in seconds. Ironic gives a
    # request up at once when its first read of a server fails.
    ATTEMPTS = 3
    PAUSE = 0.3
    # Reads are not made again if that takes so many seconds, or the cloud was
    # away a moment ago: many nodes would otherwise wait for it one after the
    # other.
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
        # An address that is set is used as it stands.
        self._has_version = bool(rest.endpoint_override)
        self._microversion = None
        self._away_until = 0.0
        self.clock_ahead = None

    @property
    def microversion(self):
        """The microversion in use, the newest that both sides know.

        It is (major, minor), or None for a service that has none.

        :raises: MalformedAnswer if the service does not tell its versions, or
            another HostCloudError.
        """
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

    def sign_in(self):
        """Get a new token.

        :returns: keystoneauth's ``AccessInfo`` of it.
        :raises: HostCloudError in one of its kinds.
        """
        session = self._rest.session
        self._call(session.invalidate)
        return self._call(lambda: session.auth.get_access(session))

    def date(self, path):
        """Tell what the service's clock shows.

        :param path: path below the service's endpoint that it is asked for.
        :returns: an aware ``datetime.datetime``, or None if the answer has no
            date.
        :raises: HostCloudError in one of its kinds.
        """
        return _date(self._request('GET', path))

    @property
    def project_id(self):
        """UUID of the project of the credentials, None if they have none.

        :raises: MalformedAnswer if the token is none, or another
            HostCloudError.
        """
        return self._call(self._rest.get_project_id)

    def get(self, path, key=None, kind=dict, **params):
        """Read.

        :param path: path below the service's endpoint.
        :param key: the member of the body that is wanted; None for all.
        :param kind: what it has to be, ``dict`` or ``list`` of dicts.
        :param params: the query.
        :returns: the decoded member or body.
        :raises: HostCloudError in one of its kinds.
        """
        for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(errors.PASSING),
                wait=self._pause, stop=self._gives_up, reraise=True):
            with attempt:
                return self._decoded(
                    self._request('GET', path, params=params), key, kind)

    def _pause(self, state):
        return max(self.PAUSE * 3 ** (state.attempt_number - 1),
                   state.outcome.exception().retry_after)

    def _gives_up(self, state):
        """Return whether a read that failed is not worth repeating."""
        now = time.monotonic()
        took = state.seconds_since_start - state.idle_for
        if (state.attempt_number >= self.ATTEMPTS or took > self.SLOW
                or now < self._away_until):
            self._away_until = now + self.AWAY
            return True
        return state.outcome.exception().retry_after > self.SLOW

    def _decoded(self, answer, key, kind):
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

    def ask(self, path, body, key, kind=dict, logged=True):
        """Ask for something that the answer to a POST holds.

        :param path: path below the service's endpoint.
        :param body: what is sent as JSON.
        :param key: the member of the answer that is wanted.
        :param kind: what it has to be: a type.
        :param logged: whether keystoneauth may log the request and the
            answer, which it does at debug level.
        :returns: the decoded member.
        :raises: HostCloudError in one of its kinds.
        """
        return self._decoded(
            self._request('POST', path, json=body, log=logged), key, kind)

    def post(self, path, body, **options):
        """Ask for an action.

        :param path: path below the service's endpoint.
        :param body: what is sent as JSON.
        :param options: ``microversion``, of a service whose requests have
            none otherwise.
        :returns: the request's identifier, which names the action later.
        :raises: HostCloudError in one of its kinds.
        """
        answer = self._request('POST', path, json=body, **options)
        return answer.headers.get('x-openstack-request-id')

    def put(self, path, body):
        """Change something.

        :param path: path below the service's endpoint.
        :param body: what is sent as JSON.
        :raises: HostCloudError in one of its kinds.
        """
        self._request('PUT', path, json=body)

    def delete(self, path):
        """Delete something.

        :param path: path below the service's endpoint.
        :raises: HostCloudError in one of its kinds.
        """
        self._request('DELETE', path)

    def upload(self, path, source):
        """Send a file.

        :param path: path below the service's endpoint.
        :param source: the open file.
        :raises: HostCloudError in one of its kinds.
        """
        self._request('PUT', path, data=source, headers={
            'Content-Type': 'application/octet-stream'})

    def _require_version(self):
        """Raise unless the address is that of a version of the API."""
        if not self._has_version:
            self._has_version = bool(
                self._call(self._rest.get_api_major_version))
        # Without a version document keystoneauth asks at the address of the
        # catalog as it stands; it has none if the document lacks the version.
        if not self._has_version and self._call(self._rest.get_endpoint):
            raise errors.MalformedAnswer(
                f'{self._title} does not tell which versions of the '
                f'{self._rest.service_type} API it has')

    def _request(self, method, path, **kwargs):
        self._require_version()
        if self.microversion:
            kwargs['microversion'] = '%d.%d' % self.microversion
        answer = self._call(self._send, path, method, **kwargs)
        date = _date(answer)
        self.clock_ahead = date and date.timestamp() - time.time()
        return answer

    def _send(self, path, method, **kwargs):
        answer = self._rest.request(path, method, raise_exc=False, **kwargs)
        if answer.status_code < 400:
            return answer
        try:
            raise ks_exceptions.from_response(answer, method, answer.url)
        except AttributeError:
            # Where the body has a list "errors" of something else.
            raise ks_exceptions.HttpError(
                http_status=answer.status_code, response=answer,
                method=method, url=answer.url)

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
        except answers.ForeignAnswer as exc:
            raise errors.ServerError(
                f'{self._title} gave no answer: {exc.details}')
        except authentication.MalformedDocument as exc:
            raise errors.MalformedAnswer(
                f'{self._title} answered in a form that an OpenStack service '
                f'does not have ({exc})')
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
        kind = _KINDS.get(exc.http_status)
        if kind is None and (
                exc.http_status in _PASSING or exc.http_status >= 500):
            return self._busy(exc, message)
        if exc.http_status == 409 and not str(exc.url).endswith('/action'):
            # Only of an action is it about the server's state.
            return errors.ServerError(message)
        return (kind or errors.BadRequest)(message)

    @staticmethod
    def _busy(exc, message):
        seconds = answers.retry_after(exc.response)
        if seconds:
            message += f' (asks to be left alone for {seconds:.0f} seconds)'
        kind = (errors.TooManyRequests if exc.http_status == 429
                else errors.ServerError)
        return kind(message, retry_after=seconds)


def _date(answer):
    """When a service answered by its own clock (RFC 9110, 6.6.1).

    :returns: an aware ``datetime.datetime``, or None if it does not tell.
    """
    try:
        return email_utils.parsedate_to_datetime(
            answer.headers.get('Date')).astimezone(datetime.timezone.utc)
    except (ValueError, TypeError, OverflowError):
        return None


# Request timeout, too many requests.
_PASSING = (408, 429)

_KINDS = {
    400: errors.BadRequest,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    501: errors.NotOffered,
}


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
