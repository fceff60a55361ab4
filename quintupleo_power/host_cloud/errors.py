# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a host cloud, each as one sentence.

All that asks a host cloud raises one of these: docstrings name those that are
told apart. :mod:`quintupleo_power.exceptions` turns them into Ironic's.
"""

from quintupleo_power.host_cloud import redaction


class HostCloudError(Exception):
    """Base of all that the host cloud can answer or fail to answer.

    :ivar retry_after: seconds for which the host cloud asks not to be asked.
    :ivar is_repeated: whether it is that of an earlier request.
    """

    is_repeated = False

    def __init__(self, message: str, retry_after: float = 0):
        """Say what went wrong, in one sentence.

        Texts of others in it, such as names, become printable and short.
        """
        super().__init__(redaction.clean(message))
        self.retry_after = retry_after


class CloudMisconfigured(HostCloudError):
    """The settings that name the host cloud are incomplete or wrong."""


class CloudUnreachable(HostCloudError):
    """No usable answer came from the host cloud."""


class AnswerTooLarge(CloudUnreachable):
    """An answer has more than transport.LARGEST_ANSWER bytes."""


class AuthenticationFailed(HostCloudError):
    """The host cloud does not accept the credentials."""


class TokenRefused(AuthenticationFailed):
    """The identity service gives no token for the credentials."""


class Forbidden(HostCloudError):
    """The host cloud's policy does not permit this to the user."""


class NotFound(HostCloudError):
    """The host cloud has nothing of that name or identifier."""


class NotUnique(HostCloudError):
    """A name stands for more than one thing."""


class NotOffered(HostCloudError):
    """The host cloud has no such thing for anybody (HTTP 501)."""


class BadRequest(HostCloudError):
    """The host cloud calls the request wrong."""


class Conflict(HostCloudError):
    """The server is in no state to do that now; a new plan may help."""


class ServerError(HostCloudError):
    """The host cloud failed by itself (HTTP 5xx), or speaks no Nova."""


class TooManyRequests(ServerError):
    """The host cloud has not looked at the request (HTTP 429)."""


class MalformedAnswer(ServerError):
    """A token or version document has a wrong form, and may be kept."""


class UnsuitableImage(HostCloudError):
    """An image cannot serve what it is named for."""


class NotPossible(HostCloudError):
    """The host cloud has no way to do this with that server."""


class ActionFailed(HostCloudError):
    """Nova accepted an action and then did not carry it out."""


class ActionTimeout(HostCloudError):
    """An action or a task of somebody else did not end in time."""


class OutcomeUnknown(HostCloudError):
    """Whether Nova did what it was asked to cannot be found out."""


def require_one(ids: list[str], what: str, reference: str) -> None:
    """Raise NotFound or NotUnique unless a reference is to one thing.

    :param ids: UUIDs of the things that it is to, such as a 'server'.
    """
    if not ids:
        raise NotFound(f"No {what} is named '{reference}', or none that the "
                       'project of these credentials sees')
    if len(ids) > 1:
        raise NotUnique(f"{len(ids)} {what}s are named '{reference}' ("
                        + ', '.join(sorted(ids)) + '): use the UUID')


# What the client libraries let out of an answer or a file that lacks
# something. Their texts may hold what was sent.
UNEXPECTED_FORM = (AttributeError, LookupError, TypeError, ValueError)

# What may be over in a moment.
PASSING = (ServerError, CloudUnreachable)
# After these a server may not be what a plan was made for.
PLAN_AGAIN = (Conflict, *PASSING)
