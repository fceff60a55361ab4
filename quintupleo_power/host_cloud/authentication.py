# SPDX-License-Identifier: Apache-2.0
"""What keystoneauth's authentication plugins are wrapped in."""

from collections import abc
import functools
import threading
import time
import typing

from keystoneauth1 import access
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import plugin
from keystoneauth1 import session as ks_session

from quintupleo_power.host_cloud import errors

# Seconds that a thread waits for the token that another one asks for.
LONGEST_WAIT = 60.0

# Methods of keystoneauth's BaseAuthPlugin.
_OF_TOKENS = ('get_token', 'get_headers', 'get_project_id', 'get_user_id')
_OF_DOCUMENTS = ('get_endpoint_data', 'get_api_major_version',
                 'get_all_version_data')


class MalformedDocument(ks_exceptions.ClientException):
    """A token, a catalog or a version document has a wrong form."""


class Plugin:
    """A plugin around one of keystoneauth's, with all that it has.

    What a document of a wrong form makes keystoneauth raise becomes
    :class:`MalformedDocument`.

    A thread that is getting a token gets no other one meanwhile: keystoneauth
    asks again with a token for a version document that was answered with 401,
    and for Keystone's own document it would wait for itself for ever.

    One thread at a time asks for a token. Those that wait for it meanwhile
    share its failure, and do not repeat it one after the other.

    :ivar clock_ahead: seconds that the identity service's clock is ahead of
        this machine's, by its last token; None before the first one.
    """

    def __init__(self, wrapped: plugin.BaseAuthPlugin):
        """Wrap a plugin."""
        self._wrapped = wrapped
        self._thread = threading.local()
        self._lock = threading.Lock()
        # The last failure to get a token, and when.
        self._failure: Exception | None = None
        self._failed_at = float('-inf')
        self._token: access.AccessInfo | None = None
        self.clock_ahead: float | None = None

    def __getattr__(self, name: str) -> typing.Any:
        found = getattr(self.__dict__['_wrapped'], name)
        if name in _OF_TOKENS:
            return functools.partial(self._get_token, found)
        if name in _OF_DOCUMENTS:
            return functools.partial(self._get_document, found)
        return found

    def get_access(self, session: ks_session.Session) -> access.AccessInfo:
        """Return what a token says.

        :raises: AuthPluginException if the plugin works without tokens.
        """
        if not hasattr(self._wrapped, 'get_access'):
            raise ks_exceptions.AuthPluginException(
                'its authentication type gets no token')
        return self._get_token(self._wrapped.get_access, session)

    def get_endpoint(self, session: ks_session.Session,
                     **kwargs: typing.Any) -> str | None:
        """Return the URL of a service, see ``BaseAuthPlugin``."""
        found = self._get_document(self._wrapped.get_endpoint, session,
                                   **kwargs)
        if not isinstance(found, str | None):
            raise MalformedDocument('the URL of an endpoint is not a text')
        return found

    def _get_token(self, function: abc.Callable, session: ks_session.Session,
                   **kwargs: typing.Any) -> typing.Any:
        if self._is_getting_token():
            raise ks_exceptions.Unauthorized(
                'The identity service asks for a token before it gives one')
        begun = time.monotonic()
        if not self._lock.acquire(timeout=LONGEST_WAIT):
            raise ks_exceptions.ConnectTimeout(
                f'The identity service has given no token for {LONGEST_WAIT:g}'
                ' s')
        try:
            if self._failure and self._failed_at >= begun:
                raise self._failure
            self._thread.is_getting_token = True
            found = _parsed(function, session, **kwargs)
            self._read_clock()
            return found
        except ks_exceptions.ClientException as exc:
            if exc is not self._failure:
                self._failure, self._failed_at = exc, time.monotonic()
            raise
        finally:
            self._thread.is_getting_token = False
            self._lock.release()

    def _read_clock(self):
        """See when the token was issued, if it has just come."""
        token = getattr(self._wrapped, 'auth_ref', None)
        if token is None or token is self._token:
            return
        self._token = token
        try:
            self.clock_ahead = token.issued.timestamp() - _now()
        except errors.UNEXPECTED_FORM:
            self.clock_ahead = None

    def _get_document(self, function: abc.Callable,
                      session: ks_session.Session, *args: typing.Any,
                      **kwargs: typing.Any) -> typing.Any:
        # The wrapped plugin would get the token past _get_token.
        if not self._is_getting_token():
            self._get_token(self._wrapped.get_token, session)
        return _parsed(function, session, *args, **kwargs)

    def _is_getting_token(self) -> bool:
        return getattr(self._thread, 'is_getting_token', False)


def _now() -> float:
    return time.time()


def _parsed(function, *args, **kwargs):
    """Call a function of keystoneauth that reads what a cloud answered."""
    try:
        return function(*args, **kwargs)
    except errors.UNEXPECTED_FORM as exc:
        # Its text may hold what was sent.
        raise MalformedDocument(type(exc).__name__)
