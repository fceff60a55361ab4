# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with an environment, in sentences."""

import re

from keystoneauth1 import exceptions as ks_exceptions
from openstack import exceptions

# All that the client libraries raise for an answer, or for none.
CLOUD_ERRORS = (exceptions.SDKException, ks_exceptions.ClientException)


class Failure(Exception):
    """An environment cannot be made, changed, shown or removed.

    The text has a line for each thing that is wrong.
    """


class Stopped(Failure):
    """The user, or an earlier failure, has put an end to it."""


def explain(exc):
    """Say what the cloud said, without HTML and addresses.

    :param exc: one of :data:`CLOUD_ERRORS`.
    :returns: a text without a full stop.
    """
    # Glance answers in HTML, openstacksdk adds the URL.
    told = getattr(exc, 'details', None) or str(exc)
    return ' '.join(re.sub('<[^>]*>', ' ', str(told)).split()).rstrip('.')


def status(exc):
    """Tell the HTTP status of an answer.

    :param exc: one of :data:`CLOUD_ERRORS`.
    :returns: a number, None if there was no answer.
    """
    code = getattr(exc, 'status_code', None) or getattr(
        exc, 'http_status', None)
    return code or None
