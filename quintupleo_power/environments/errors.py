# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with environments, in sentences."""

import contextlib
import re

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

from quintupleo_power.host_cloud import errors as host_errors
from quintupleo_power import transitions

# All that the client libraries raise for a response, or for the lack of one.
CLOUD_ERRORS = (exceptions.SDKException, ks_exceptions.ClientException)


class EnvironmentsError(Exception):
    """A command cannot be carried out; one line for each thing wrong."""


class Cancelled(EnvironmentsError):
    """The user, or an earlier error, has ended the work."""


class DefinitionError(EnvironmentsError):
    """The file of an environment has mistakes; one line for each."""


class ImageError(EnvironmentsError):
    """An image cannot be made."""


def explain(exc):
    """Return the message of the cloud, without HTML, URL and full stop.

    :param exc: one of :data:`CLOUD_ERRORS`.
    """
    # Glance responds in HTML, openstacksdk adds the URL.
    message = getattr(exc, 'details', None) or str(exc)
    return ' '.join(re.sub('<[^>]*>', ' ', str(message)).split()).rstrip('.')


def status(exc):
    """Return the HTTP status of an error; None if there was no response.

    :param exc: one of :data:`CLOUD_ERRORS`.
    """
    return getattr(exc, 'status_code', None) or getattr(
        exc, 'http_status', None) or None


@contextlib.contextmanager
def translated(service='The host cloud'):
    """Raise errors of a service as EnvironmentsError."""
    try:
        yield
    except CLOUD_ERRORS as exc:
        raise EnvironmentsError(f'{service}: {explain(exc)}')
    except (host_errors.HostCloudError, transitions.Refused) as exc:
        raise EnvironmentsError(str(exc))
