# SPDX-License-Identifier: Apache-2.0
"""Whether the host cloud lets the project in, and what it is like."""

from quintupleo_power.checks import results
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import looks
from quintupleo_power.host_cloud import project as host_project

CREDENTIALS = 'credentials'
COMPUTE, IMAGES, NETWORKS = 'compute API', 'image API', 'network API'
VOLUMES = 'volume API'

_ADMINISTRATORS = {'admin'}
_READERS = {'reader'}

# From which compute API on there is what; with the last one all of it.
_FEATURES = {
    consoles.MICROVERSION: 'consoles',
    host_project.TAGS_MICROVERSION:
        'the servers of an environment by their tag',
    cloud.VOLUME_RESCUE_MICROVERSION:
        'network boot of servers that boot from a volume',
    cloud.VOLUME_REBUILD_MICROVERSION:
        'the step wipe_disk for servers that boot from a volume',
}

# keystoneauth takes a token to be worn out as many seconds before its end.
_SKEW = 30


def checks(project):
    """List the checks of a cloud that each project makes.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: list of :class:`results.Check`.
    """
    need = (CREDENTIALS,)
    return [
        results.Check(CREDENTIALS, lambda facts: project.sign_in(),
                       judge_credentials),
        results.Check(COMPUTE, lambda facts: project.microversion(),
                       judge_microversion, need),
        results.Check(IMAGES, lambda facts: project.require_images(),
                       judge_reached, need),
        results.Check(NETWORKS, lambda facts: project.extensions(),
                       judge_reached, need),
        results.Check(VOLUMES, lambda facts: project.has_volumes(),
                       judge_volumes, need),
        results.Check('rate limits', lambda facts: project.rates(),
                       judge_rates, (COMPUTE,)),
        results.Check('clocks', lambda facts: {
            'the identity service': facts[CREDENTIALS].clock,
            'Nova': project.clock()}, judge_clocks, (COMPUTE,)),
    ]


def judge_credentials(token):
    """Judge whom the host cloud takes the user for.

    :param token: the :class:`host_cloud.project.Token`.
    :returns: a :class:`results.Verdict`.
    """
    whose = f'user {token.user}'
    if not token.project_id:
        return results.failed(
            f'{whose} is signed in to no project',
            "name the project in clouds.yaml (project_name) or [quintupleo]")
    roles = {role.lower() for role in token.roles}
    whose += f', project {token.project}, roles {", ".join(token.roles)}'
    if roles and roles <= _READERS:
        return results.failed(
            f'{whose}: a reader starts and rescues no server',
            'have the role member given to that user in the project')
    if roles & _ADMINISTRATORS:
        return results.warned(
            f"{whose}: an administrator's credentials",
            'use those of a member, best an application credential: '
            '"openstack application credential create"')
    return results.passed(whose + (
        ', by an application credential' if token.by_application_credential
        else ''))


def judge_microversion(version):
    """Judge the compute API's microversion.

    :param version: the one that the driver uses, as (major, minor).
    :returns: a :class:`results.Verdict`.
    """
    found = '%d.%d is used' % version
    lacking = [feature for since, feature in _FEATURES.items()
               if version < since]
    if not lacking:
        return results.passed(found)
    return results.warned(
        f'{found}, which is without {"; without ".join(lacking)}',
        "ask the host cloud's operator for a newer Nova if that is needed")


def judge_reached(_answer):
    """Judge a service that has answered.

    :param _answer: what it answered, whatever that is.
    :returns: a :class:`results.Verdict`.
    """
    return results.passed('answers')


def judge_volumes(present):
    """Judge whether there is block storage.

    :param present: whether there is.
    :returns: a :class:`results.Verdict`.
    """
    return results.passed(
        'answers' if present else 'none, and so there are no servers with '
        'volumes and no network-first servers')


def judge_rates(rates):
    """Judge the rates that the compute API limits.

    :param rates: list of texts, such as 'GET * 120 per MINUTE'.
    :returns: a :class:`results.Verdict`.
    """
    if not rates:
        return results.passed('none told')
    return results.warned(
        ', '.join(rates),
        'raise [quintupleo]server_list_max_age and poll_interval if requests '
        'are refused with 429')


def judge_clocks(skews):
    """Judge the clocks of services.

    :param skews: dict of the seconds that each is ahead, None for those that
        do not tell.
    :returns: a :class:`results.Verdict`.
    """
    known = {whose: skew for whose, skew in skews.items()
             if skew is not None}
    if not known:
        return results.warned(
            'the services do not tell the time', 'compare the clocks of both '
            'sides, as tokens and lists of changes go by them')
    whose = max(known, key=lambda each: abs(known[each]))
    skew = known[whose]
    found = '%s is %.0f s %s' % (whose, abs(skew),
                                 'ahead' if skew > 0 else 'behind')
    if abs(skew) <= _SKEW:
        # Dates are of whole seconds.
        return results.passed('agree within %d s' % max(1, round(abs(skew))))
    if abs(skew) > looks.CLOCK_SKEW:
        found += (f', and beyond {looks.CLOCK_SKEW} s each server that is '
                  'waited for is read by itself')
    return results.warned(
        f'{found}: tokens are used when they have run out',
        'let NTP set the clock of this machine, and tell the operator of the '
        'host cloud if it is theirs')
