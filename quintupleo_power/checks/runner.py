# SPDX-License-Identifier: Apache-2.0
"""All checks in their order, for one cloud."""

import argparse
from collections import abc

from oslo_config import cfg

from quintupleo_power.checks import access
from quintupleo_power.checks import clouds
from quintupleo_power.checks import conductor
from quintupleo_power.checks import images
from quintupleo_power.checks import networks
from quintupleo_power.checks import quotas
from quintupleo_power.checks import results
from quintupleo_power.checks import servers
from quintupleo_power.checks import trial as trials
from quintupleo_power.environments import errors as env_errors
from quintupleo_power.environments import ownership
from quintupleo_power.host_cloud import errors
from quintupleo_power import transitions

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
    env_errors.EnvironmentsError:
        "see to what it says, or ask the host cloud's operator for the right",
}

Verdicts = abc.Iterator[tuple[str, results.Verdict]]


def run(target: clouds.Cloud | clouds.NoCloud, wishes: argparse.Namespace,
        settings: cfg.ConfigOpts | None,
        trial: trials.Trial | None = None) -> Verdicts:
    """Check a cloud.

    :param wishes: the command's options.
    :param settings: configuration of a conductor, to check that, too.
    :param trial: None to change nothing.
    """
    facts: dict = {}
    return run_checks(_checks(target, wishes, settings, trial, facts), facts)


def run_checks(checks: abc.Iterable[results.Check], facts: dict) -> Verdicts:
    """Return the verdicts of checks; one that fails skips who needs it.

    :param facts: gets what was read, by the checks' names.
    """
    lacking = set()
    for check in checks:
        missing = [name for name in check.needs if name in lacking]
        verdict = (results.skipped(f'needs {" and ".join(missing)}')
                   if missing else _judge(check, facts))
        if verdict.result in (results.FAIL, results.SKIPPED):
            lacking.add(check.name)
        yield check.name, verdict


def _judge(check, facts):
    try:
        facts[check.name] = check.read(facts)
    except env_errors.CLOUD_ERRORS as exc:
        return results.failed(f'The host cloud: {env_errors.explain(exc)}',
                              _ASK)
    except (errors.HostCloudError, env_errors.EnvironmentsError,
            transitions.Refused) as exc:
        # Their texts have a line for each thing that is wrong.
        return results.failed('; '.join(str(exc).splitlines()), next(
            (advice for kind, advice in _ADVICE.items()
             if isinstance(exc, kind)), _ASK))
    return check.judge(facts[check.name])


def _checks(target, wishes, settings, trial, facts):
    project = target.project
    if settings:
        yield from conductor.checks(settings)
    yield from access.checks(project)
    yield from images.checks(project)
    yield from quotas.checks(project, target.connection, wishes.flavor)
    if trial:
        yield from trial.checks()
    else:
        yield access.rescue_check(project)
    # What the trial has made is a proof, too.
    yield from networks.port_checks(project)
    for reference in wishes.networks:
        yield from networks.checks(project, reference)
    for reference in wishes.servers:
        yield from servers.checks(project, target.host, reference)
    for name in wishes.environments:
        check = results.Check(
            f'environment {name}', lambda facts, name=name:
            project.tagged_servers(ownership.tag(name)), _judge_environment,
            (access.COMPUTE,))
        yield check
        for server in facts.get(check.name, ()):
            yield from servers.checks(project, target.host, server.id,
                                      server.name)
    if trial:
        yield trial.removal()


def _judge_environment(found):
    if found:
        return results.passed(f'{len(found)} servers')
    return results.failed(
        'this project has no server of it',
        'check the name with "openstack quintupleo environment list"')
