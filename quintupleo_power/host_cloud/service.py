# SPDX-License-Identifier: Apache-2.0
"""One REST service of a host cloud, its faults as errors of ours."""

from collections import abc
import contextlib
import json
import re
import time
import typing

from keystoneauth1 import access
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
import tenacity

from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import authentication
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import time_limit
from quintupleo_power.host_cloud import transport

NO_MICROVERSION = (0, 0)


class Service:
    """A REST service, as a tenant uses it; paths are below its endpoint."""

    # How often a read is made, and the first pause in seconds. Ironic gives a
    # request up at once when its first read of a server fails.
    ATTEMPTS = 3
    PAUSE = 0.3
    # Reads are not made again if that takes so many seconds, or the cloud was
    # away a moment ago: many nodes would wait for it one after the other.
    SLOW = 5.0
    AWAY = 10.0

    def __init__(self, title: str, rest: adapter.Adapter,
                 newest_microversion: tuple[int, int] = NO_MICROVERSION):
        """Wrap an adapter; the title is the cloud's name in messages."""
        self._title = title
        self._rest = rest
        self._newest = newest_microversion
        # An address that is set is used as it stands.
        self._has_version = bool(rest.endpoint_override)
        self._microversion: tuple[int, int] | None = None
        self._away_until = 0.0

    @property
    def microversion(self) -> tuple[int, int]:
        """The microversion in use, the newest that both sides know.

        :raises: MalformedAnswer if the service does not show its versions.
        """
        if not self._microversion:
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

    @property
    def verify(self) -> bool | str:
        """Whether certificates are verified, or the path of the CAs."""
        return self._rest.session.verify

    def sign_in(self) -> access.AccessInfo:
        """Get a new token, and return what it says."""
        session = self._rest.session
        auth: typing.Any = session.auth
        self._call(session.invalidate)
        return self._call(auth.get_access, session)

    @property
    def clock_ahead(self) -> float | None:
        """Seconds that the identity service's clock is ahead, if known."""
        return getattr(self._rest.session.auth, 'clock_ahead', None)

    @property
    def project_id(self) -> str | None:
        """UUID of the project of the credentials, None if they have none."""
        return self._call(self._rest.get_project_id)

    def get(self, path: str, key: str | None = None, kind: type = dict,
            **params: typing.Any) -> typing.Any:
        """Read, and return the decoded body or one of its members.

        :param kind: what it has to be, ``dict`` or ``list`` of dicts.
        :param params: the query.
        """
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(errors.PASSING),
            wait=self._pause, stop=self._gives_up, reraise=True)(
                lambda: self._decoded(
                    self._request('GET', path, params=params), key, kind))

    # tenacity gives the state by this name.
    def _pause(self, retry_state):
        return max(self.PAUSE * 3 ** (retry_state.attempt_number - 1),
                   retry_state.outcome.exception().retry_after)

    def _gives_up(self, retry_state):
        """Return whether a read that failed is not worth repeating."""
        now = time.monotonic()
        took = retry_state.seconds_since_start - retry_state.idle_for
        if (retry_state.attempt_number >= self.ATTEMPTS or took > self.SLOW
                or now < self._away_until or time_limit.is_over()):
            self._away_until = now + self.AWAY
            return True
        error = retry_state.outcome.exception()
        return (isinstance(error, errors.AnswerTooLarge)
                or error.retry_after > self.SLOW)

    def _decoded(self, answer, key, kind):
        try:
            found = answer.json()
            if re.search(rb'\\u[dD][89a-fA-F]', answer.content):
                found = _without_surrogates(found)
        except (ValueError, RecursionError):
            raise self._unintelligible(answer, 'something that is not JSON')
        if key is not None:
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, kind) or (kind is list and not all(
                isinstance(item, dict) for item in found)):
            raise self._unintelligible(answer, 'JSON that lacks ' + (
                f'"{key}"' if key else 'what was asked for'))
        return found

    def ask(self, path: str, body: dict, key: str, kind: type = dict,
            logged: bool = True) -> typing.Any:
        """Send a POST, and return a member of the decoded answer.

        :param logged: whether keystoneauth may log request and answer.
        """
        return self._decoded(
            self._request('POST', path, json=body, log=logged), key, kind)

    def post(self, path: str, body: dict,
             **options: typing.Any) -> str | None:
        """Ask for an action, and return the identifier of the request."""
        answer = self._request('POST', path, json=body, **options)
        return answer.headers.get('x-openstack-request-id')

    def put(self, path: str, body: dict) -> None:
        """Change something."""
        self._request('PUT', path, json=body)

    def delete(self, path: str) -> None:
        """Delete something, unless it is gone already."""
        with contextlib.suppress(errors.NotFound):
            self._request('DELETE', path)

    def upload(self, path: str, source: typing.BinaryIO) -> None:
        """Send an open file."""
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
        if self._newest != NO_MICROVERSION:
            kwargs['microversion'] = '%d.%d' % self.microversion
        return self._call(self._send, path, method, **kwargs)

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

    def _call(self, function: abc.Callable, *args: typing.Any,
              **kwargs: typing.Any) -> typing.Any:
        """Call keystoneauth, with what it raises as one of our errors."""
        try:
            return time_limit.run(function, *args, **kwargs)
        except ks_exceptions.ClientException as exc:
            error = self._error(exc)
        except errors.HostCloudError as exc:
            error = exc
        except Exception as exc:
            # An OSError is what requests raises for a cacert or cert that is
            # not there; this class keystoneauth for a missing password.
            if type(exc) is not Exception and not isinstance(exc, OSError):
                raise
            error = errors.CloudMisconfigured(
                f'{self._title} cannot be used: {exc}')
        error.args = (redaction.clean(error, self._rest.session.auth),)
        raise error

    def _error(self, exc):
        """Return one of our errors for one of keystoneauth's."""
        match exc:
            case answers.ForeignAnswer():
                return errors.ServerError(
                    f'{self._title} gave no answer: {exc.details}')
            case authentication.MalformedDocument():
                return errors.MalformedAnswer(
                    f'{self._title} answered in a form that an OpenStack '
                    f'service does not have ({exc})')
            case ks_exceptions.Unauthorized():
                return self._not_accepted(_explanation(exc), exc.url)
            case ks_exceptions.HttpError():
                return self._http_error(exc)
            case (ks_exceptions.AuthorizationFailure()
                  | ks_exceptions.MissingAuthMethods()):
                return self._not_accepted(exc)
            case (ks_exceptions.CatalogException()
                  | ks_exceptions.AuthPluginException()):
                return errors.CloudMisconfigured(
                    f'{self._title} cannot be used: {exc}')
        kind = (errors.AnswerTooLarge
                if isinstance(getattr(exc, 'original', None),
                              transport.TooLarge)
                else errors.CloudUnreachable)
        return kind(f'{self._title} cannot be reached: {_short(exc)}')

    def _not_accepted(self, reason, url=None):
        kind = (errors.TokenRefused if str(url).endswith('/auth/tokens')
                else errors.AuthenticationFailed)
        return kind(f'{self._title} does not accept the credentials: {reason}')

    def _http_error(self, exc):
        if exc.http_status == 404 and str(exc.url).endswith('/auth/tokens'):
            fault = str(_explanation(exc))
            # "Could not find Application Credential: ..." of Keystone's
            # exception ApplicationCredentialNotFound.
            if 'application credential' in fault.lower():
                return self._not_accepted(fault)
            return errors.CloudMisconfigured(
                f'{self._title} cannot be used: there is no identity service '
                'at that address (HTTP 404): check auth_url')
        message = (f'{self._title} answered {exc.http_status} to '
                   f'{exc.method}: {_explanation(exc)}')
        kind = _KINDS.get(exc.http_status, errors.ServerError
                          if exc.http_status >= 500 else errors.BadRequest)
        if exc.http_status == 406 and self._newest != NO_MICROVERSION:
            # What it has by now is asked for again.
            kind = errors.MalformedAnswer
        if exc.http_status == 409 and not str(exc.url).endswith('/action'):
            # Only of an action is it about the server's state.
            kind = errors.ServerError
        seconds = (answers.retry_after(exc.response)
                   if issubclass(kind, errors.ServerError) else 0)
        if seconds:
            message += f' (asks to be left alone for {seconds:.0f} seconds)'
        return kind(message, seconds)


_KINDS: dict[int, type[errors.HostCloudError]] = {
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.ServerError,
    409: errors.Conflict,
    429: errors.TooManyRequests,
    501: errors.NotOffered,
}


def _without_surrogates(found):
    """Return decoded JSON without halves of characters.

    No database takes them, and JSON may escape one.
    """
    text = json.dumps(found, ensure_ascii=False)
    return json.loads(text.encode('utf-16', 'surrogatepass').decode(
        'utf-16', 'replace'))


def _explanation(exc):
    """Return the sentence in an error of Nova, Glance or Keystone.

    It is in an object whose key names the kind of fault, which keystoneauth
    does not look into.
    """
    try:
        for fault in exc.response.json().values():
            if isinstance(fault, dict) and fault.get('message'):
                return fault['message']
    except (AttributeError, ValueError):
        pass
    return exc.message


def _short(exc):
    """Leave out of a connection's failure which Python objects it passed."""
    sentence, rest = (_OBJECTS.split(str(exc), maxsplit=1) + [''])[:2]
    reason = (re.search(r'\[Errno -?\d+\] ([^\'")]+)', rest)
              or re.search(r'\w\((?:\d+, )?[\'"]([^\'"<]+)', rest)
              or re.search(r'[\'"]([^\'"]+)', rest))
    return f'{sentence} ({reason[1]})' if reason else sentence


# How a failure of urllib3 begins, after what keystoneauth says of it.
_OBJECTS = re.compile(r": (?=HTTPS?ConnectionPool|\('|\(\"|\w+\()")
