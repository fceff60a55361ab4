# SPDX-License-Identifier: Apache-2.0
"""Which answers are those of a service, and not of a proxy before it.

The services name each request in a header. A public cloud may strip it, so
what else only a service says counts, too.
"""

import datetime
from email import utils as email_utils
import re
from urllib import parse as urlparse

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import session as ks_session
import requests

from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import transport

# oslo.middleware's, and the older one of Ironic. Without either are: documents
# of versions outside of a version's own address, answers with 401 of Glance,
# and answers with 413 of Keystone.
_REQUEST_IDS = ('x-openstack-request-id', 'openstack-request-id')

# A proxy, too, says that a token is missing, that a request took too long or
# is too large, or that too many came.
_OF_ANYBODY = (401, 408, 413, 429)


class ForeignAnswer(ks_exceptions.BadGateway):
    """An answer did not come from the service: a bad gateway (502)."""


def check(session: ks_session.Session, *others: transport.Check) -> None:
    """Refuse all answers that are not a service's: :class:`ForeignAnswer`.

    :param others: what is checked before, see :func:`transport.mount`.
    """
    transport.mount(session, *others, _OfService())


class _OfService:
    """Refuses what no service answers."""

    def __init__(self):
        # Addresses (scheme, host and port) whose answers have the header.
        self._naming = set()

    def __call__(self, answer):
        origin = urlparse.urlsplit(answer.url)[:2]
        if any(name in answer.headers for name in _REQUEST_IDS):
            self._naming.add(origin)
        elif not (_is_error_of_service(answer)
                  if answer.status_code >= 400 else
                  _is_success_of_service(answer, origin in self._naming)):
            answer.close()
            url = redaction.clean(answer.url.partition('?')[0])
            raise ForeignAnswer(
                http_status=502, response=answer, details=(
                    f'HTTP {answer.status_code} to {answer.request.method} '
                    f'{url} is not from an OpenStack service, as it lacks '
                    'x-openstack-request-id: check the address and the '
                    'proxies before it'))


def _is_error_of_service(answer):
    """Return whether an error without a request ID may count."""
    status = answer.status_code
    if status in _OF_ANYBODY or status >= 500 and status != 501:
        return True
    try:
        (kind, fault), = answer.json().items()
    except (ValueError, AttributeError):
        # Glance's errors are pages, too: of them the request ID decides.
        return False
    if not isinstance(fault, dict) or 'message' not in fault:
        return False
    if kind == 'NeutronError':
        return 'type' in fault
    # Nova and Cinder name the kind of fault, Keystone says "error" and adds a
    # title, which other services on the web that say "error" do not.
    return fault.get('code') == status and (kind != 'error'
                                            or 'title' in fault)


def _is_success_of_service(answer, has_request_ids):
    """Return whether a success without a request ID may count."""
    status, request = answer.status_code, answer.request
    if 'X-Auth-Token' not in request.headers:
        # A version document or a token: what it holds is looked at.
        return True
    if answer.is_redirect or (request.method, status) == ('GET', 300):
        return True
    return not has_request_ids and (status in (202, 204) or (
        status < 300 and 'json' in answer.headers.get('Content-Type', '')))


def retry_after(response: requests.Response) -> float:
    """Return the seconds of Retry-After (RFC 9110, 10.2.3), or 0."""
    value = response.headers.get('Retry-After', '').strip()
    if re.fullmatch('[0-9]{1,9}', value):
        return int(value)
    try:
        until = email_utils.parsedate_to_datetime(value)
        now = datetime.datetime.now(until.tzinfo)
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0
