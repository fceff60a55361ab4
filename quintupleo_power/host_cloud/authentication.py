# SPDX-License-Identifier: Apache-2.0
"""What keystoneauth's authentication plugins are wrapped in."""

from collections import abc
import threading
import typing

from keystoneauth1 import access
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import plugin
from keystoneauth1 import session as ks_session

from quintupleo_power.host_cloud import errors


class MalformedDocument(ks_exceptions.ClientException):
    """A token, a catalog or a version document has a wrong form."""


class Plugin(plugin.BaseAuthPlugin):
    """A plugin around one of keystoneauth's.

    What a document of a wrong form makes keystoneauth raise becomes
    :class:`MalformedDocument`.

    A thread that is getting a token gets no other one meanwhile: keystoneauth
    asks again with a token for a version document that was answered with 401,
    and for Keystone's own document it would wait for itself for ever.
    """

    def __init__(self, wrapped: plugin.BaseAuthPlugin):
        """Wrap a plugin."""
        super().__init__()
        self.wrapped = wrapped
        self._thread = threading.local()

    def __getattr__(self, name: str) -> typing.Any:
        # What one kind of plugin has, such as auth_url.
        return getattr(self.__dict__['wrapped'], name)

    def get_access(self, session: ks_session.Session) -> access.AccessInfo:
        """Return what a token says.

        :raises: AuthPluginException if the plugin works without tokens.
        """
        if not hasattr(self.wrapped, 'get_access'):
            raise ks_exceptions.AuthPluginException(
                'its authentication type gets no token')
        return self._get_token(self.wrapped.get_access, session)

    def get_token(self, session: ks_session.Session) -> str | None:
        """Return a token, see :class:`plugin.BaseAuthPlugin`."""
        return self._get_token(self.wrapped.get_token, session)

    def get_headers(self, session: ks_session.Session) -> dict | None:
        """Return the headers of a request, see ``BaseAuthPlugin``."""
        return self._get_token(self.wrapped.get_headers, session)

    def get_project_id(self, session: ks_session.Session,
                       **kwargs: typing.Any) -> str | None:
        """Return the UUID of the token's project, see ``BaseAuthPlugin``."""
        return self._get_token(self.wrapped.get_project_id, session)

    def get_user_id(self, session: ks_session.Session,
                    **kwargs: typing.Any) -> str | None:
        """Return the UUID of the token's user, see ``BaseAuthPlugin``."""
        return self._get_token(self.wrapped.get_user_id, session)

    def get_endpoint(self, session: ks_session.Session,
                     **kwargs: typing.Any) -> str | None:
        """Return the URL of a service, see ``BaseAuthPlugin``."""
        found = self._get_document(self.wrapped.get_endpoint, session, kwargs)
        if not isinstance(found, str | None):
            raise MalformedDocument('the URL of an endpoint is not a text')
        return found

    def get_endpoint_data(self, session: ks_session.Session,
                          **kwargs: typing.Any) -> typing.Any:
        """Return what is known of a service, see ``BaseAuthPlugin``."""
        return self._get_document(self.wrapped.get_endpoint_data, session,
                                  kwargs)

    def get_api_major_version(self, session: ks_session.Session,
                              **kwargs: typing.Any) -> tuple | None:
        """Return the version of an endpoint, see ``BaseAuthPlugin``."""
        return self._get_document(self.wrapped.get_api_major_version,
                                  session, kwargs)

    def get_all_version_data(self, session: ks_session.Session,
                             *args: typing.Any, **kwargs: typing.Any
                             ) -> typing.Any:
        """Return the versions of all services, see ``BaseAuthPlugin``."""
        return self._get_document(self.wrapped.get_all_version_data, session,
                                  kwargs, *args)

    def get_connection_params(self, session: ks_session.Session
                              ) -> typing.Any:
        """Return options of a connection, see ``BaseAuthPlugin``."""
        return self.wrapped.get_connection_params(session)

    def invalidate(self) -> bool:
        """Forget the token, see ``BaseAuthPlugin``."""
        return self.wrapped.invalidate()

    def _get_token(self, function: abc.Callable,
                   session: ks_session.Session) -> typing.Any:
        if self._is_getting_token():
            raise ks_exceptions.Unauthorized(
                'The identity service asks for a token before it gives one')
        self._thread.is_getting_token = True
        try:
            return _parsed(function, session)
        finally:
            self._thread.is_getting_token = False

    def _get_document(self, function: abc.Callable,
                      session: ks_session.Session, options: dict,
                      *args: typing.Any) -> typing.Any:
        # The wrapped plugin would get the token past _get_token.
        if not self._is_getting_token():
            self.get_token(session)
        return _parsed(function, session, *args, **options)

    def _is_getting_token(self) -> bool:
        return getattr(self._thread, 'is_getting_token', False)


def _parsed(function, *args, **kwargs):
    """Call a function of keystoneauth that reads what a cloud answered."""
    try:
        return function(*args, **kwargs)
    except errors.UNEXPECTED_FORM as exc:
        # Its text may hold what was sent.
        raise MalformedDocument(type(exc).__name__)
