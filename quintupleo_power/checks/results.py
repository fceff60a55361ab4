# SPDX-License-Identifier: Apache-2.0
"""Checks, one after the other, each with what it found."""

import dataclasses

from quintupleo_power.environments import failures
from quintupleo_power.host_cloud import errors
from quintupleo_power import transitions

PASS, WARN, FAIL, SKIPPED = 'pass', 'warn', 'fail', 'skipped'

_ERRORS = (errors.HostCloudError, failures.Failure, transitions.Refused,
           *failures.CLOUD_ERRORS)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a check comes to.

    :ivar result: PASS, WARN, FAIL or SKIPPED.
    :ivar found: what there is.
    :ivar advice: what to do; empty if there is nothing to be done.
    """

    result: str
    found: str
    advice: str = ''


def passed(found):
    """Judge that something is as it should be.

    :param found: what there is.
    :returns: a :class:`Verdict`.
    """
    return Verdict(PASS, found)


def warned(found, advice):
    """Judge that something may be in the way.

    :param found: what there is.
    :param advice: what to do.
    :returns: a :class:`Verdict`.
    """
    return Verdict(WARN, found, advice)


def failed(found, advice):
    """Judge that something is in the way.

    :param found: what there is.
    :param advice: what to do.
    :returns: a :class:`Verdict`.
    """
    return Verdict(FAIL, found, advice)


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing to be looked at.

    :ivar name: its name, which those that need it use.
    :ivar read: function that asks for it, of what was read by the checks
        before: a dict by their names.
    :ivar judge: function from what was read to a :class:`Verdict`.
    :ivar needs: names of the checks without which it makes no sense.
    """

    name: str
    read: object
    judge: object
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
    """A check that was made.

    :ivar check: its name.
    :ivar verdict: the :class:`Verdict`.
    """

    check: str
    verdict: Verdict


def run(checks, facts):
    """Make checks; what fails keeps only those from being made that need it.

    :param checks: the :class:`Check` to make.
    :param facts: dict that gets what was read, by the checks' names.
    :returns: a generator of :class:`Finding`.
    """
    lacking = set()
    for check in checks:
        missing = [name for name in check.needs if name in lacking]
        verdict = (Verdict(SKIPPED, f'needs {" and ".join(missing)}')
                   if missing else _made(check, facts))
        if verdict.result in (FAIL, SKIPPED):
            lacking.add(check.name)
        yield Finding(check.name, verdict)


def _made(check, facts):
    try:
        facts[check.name] = check.read(facts)
    except _ERRORS as exc:
        return _refused(exc)
    return check.judge(facts[check.name])


def _refused(exc):
    """Judge an error in place of an answer."""
    if isinstance(exc, failures.CLOUD_ERRORS):
        return failed(f'The host cloud: {failures.explain(exc)}', _ASK)
    # The texts of failures have a line for each thing that is wrong.
    return failed('; '.join(str(exc).splitlines()), next((
        advice for kind, advice in _ADVICE.items() if isinstance(exc, kind)),
        _ASK))


_ASK = ("ask the host cloud's operator, who finds the request in the "
        'logs by its time')
# The special kinds come before those that they are of.
_ADVICE = {
    errors.AuthenticationFailed:
        'correct the credentials, or have new ones made',
    errors.CloudMisconfigured:
        'correct the entry of clouds.yaml that --os-cloud names, or section '
        '[quintupleo] of the file that --config-file names',
    errors.CloudUnreachable:
        'check the address, and the network and firewalls on the way to it',
    errors.Forbidden:
        "use credentials of a project's member, or ask the host cloud's "
        'operator for that right',
    errors.TooManyRequests: 'try again later, and ask less often',
    errors.NotFound: 'check the name or UUID, and the project',
    errors.NotUnique: 'use the UUID',
    errors.ServerError: 'try again later; ' + _ASK,
    errors.UnsuitableImage:
        'make images with "openstack quintupleo image create"',
    errors.ActionFailed:
        "ask the host cloud's operator, whom the compute host's log tells "
        'more',
    errors.ActionTimeout: 'give a longer --timeout',
    failures.Failure:
        "see to what it says, or ask the host cloud's operator for the right",
}
