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

_OMITTED = re.compile('<[^>]*>|[A-Za-z0-9+/=]{250,}')


class EnvironmentsError(Exception):
    """A command cannot be carried out; one line for each thing wrong."""


def explain(exc):
    """Return the message of a cloud's error, without HTML and URL."""
    # Glance responds in HTML, openstacksdk adds the URL.
    message = getattr(exc, 'details', None) or str(exc)
    # And Nova repeats user data that it refuses.
    return ' '.join(_OMITTED.sub(' ', str(message)).split()).rstrip('.')


@contextlib.contextmanager
def translated(service='The host cloud'):
    """Raise errors of a service as EnvironmentsError."""
    try:
        yield
    except CLOUD_ERRORS as exc:
        raise EnvironmentsError(f'{service}: {explain(exc)}')
    except (host_errors.HostCloudError, transitions.Refused) as exc:
        raise EnvironmentsError(str(exc))
