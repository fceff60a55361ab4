# SPDX-License-Identifier: Apache-2.0
"""Whether the host cloud lets the project in, and what it is like."""

from quintupleo_power.checks import findings
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import cloud_info
from quintupleo_power.host_cloud import consoles

CREDENTIALS = 'credentials'
COMPUTE, IMAGES, NETWORKS = 'compute API', 'image API', 'network API'
VOLUMES = 'volume API'

_ADMINISTRATORS = {'admin'}
_READERS = {'reader'}

# From which compute API on there is what; with the last one all of it.
_FEATURES = {
    consoles.MICROVERSION: 'consoles',
    cloud_info.TAGS_MICROVERSION:
        'the servers of an environment by their tag',
    capabilities.VOLUME_RESCUE_MICROVERSION:
        'network boot of servers that boot from a volume',
    capabilities.VOLUME_REBUILD_MICROVERSION:
        'the step wipe_disk for servers that boot from a volume',
}

# keystoneauth takes a token to be worn out as many seconds before its end.
_SKEW = 30


def checks(project):
    """List the checks of a cloud that each project makes.

    :param project: the :class:`host_cloud.project.Project`.
    :returns: list of :class:`findings.Check`.
    """
    need = (CREDENTIALS,)
    return [
        findings.Check(CREDENTIALS, lambda facts: project.sign_in(),
                       judge_credentials),
        findings.Check(COMPUTE, lambda facts: project.microversion(),
                       judge_microversion, need),
        findings.Check(IMAGES, lambda facts: project.require_images(),
                       judge_reached, need),
        findings.Check(NETWORKS, lambda facts: project.extensions(),
                       judge_reached, need),
        findings.Check(VOLUMES, lambda facts: project.has_volumes(),
                       judge_volumes, need),
        findings.Check('rate limits', lambda facts: project.rates(),
                       judge_rates, (COMPUTE,)),
        findings.Check('clocks', lambda facts: {
            'the identity service': facts[CREDENTIALS].clock,
            'Nova': project.clock()}, judge_clocks, (COMPUTE,)),
    ]


def judge_credentials(token):
    """Judge whom the host cloud takes the user for.

    :param token: the :class:`host_cloud.project.Token`.
    :returns: a :class:`findings.Verdict`.
    """
    whose = f'user {token.user}'
    if not token.project_id:
        return findings.failed(
            f'{whose} is signed in to no project',
            "name the project in clouds.yaml (project_name) or [quintupleo]")
    roles = {role.lower() for role in token.roles}
    whose += f', project {token.project}, roles {", ".join(token.roles)}'
    if roles and roles <= _READERS:
        return findings.failed(
            f'{whose}: a reader starts and rescues no server',
            'have the role member given to that user in the project')
    if roles & _ADMINISTRATORS:
        return findings.warned(
            f"{whose}: an administrator's credentials",
            'use those of a member, best an application credential: '
            '"openstack application credential create"')
    return findings.passed(whose + (
        ', by an application credential' if token.by_application_credential
        else ''))


def judge_microversion(version):
    """Judge the compute API's microversion.

    :param version: the one that the driver uses, as (major, minor).
    :returns: a :class:`findings.Verdict`.
    """
    found = '%d.%d is used' % version
    lacking = [feature for since, feature in _FEATURES.items()
               if version < since]
    if not lacking:
        return findings.passed(found)
    return findings.warned(
        f'{found}, which is without {"; without ".join(lacking)}',
        "ask the host cloud's operator for a newer Nova if that is needed")


def judge_reached(_answer):
    """Judge a service that has answered.

    :param _answer: what it answered, whatever that is.
    :returns: a :class:`findings.Verdict`.
    """
    return findings.passed('answers')


def judge_volumes(present):
    """Judge whether there is block storage.

    :param present: whether there is.
    :returns: a :class:`findings.Verdict`.
    """
    return findings.passed(
        'answers' if present else 'none, and so there are no servers with '
        'volumes and no network-first servers')


def judge_rates(rates):
    """Judge the rates that the compute API limits.

    :param rates: list of texts, such as 'GET * 120 per MINUTE'.
    :returns: a :class:`findings.Verdict`.
    """
    if not rates:
        return findings.passed('none told')
    return findings.warned(
        ', '.join(rates),
        'raise [quintupleo]server_list_max_age and poll_interval if requests '
        'are refused with 429')


def judge_clocks(skews):
    """Judge the clocks of services.

    :param skews: dict of the seconds that each is ahead, None for those that
        do not tell.
    :returns: a :class:`findings.Verdict`.
    """
    known = {whose: skew for whose, skew in skews.items()
             if skew is not None}
    if not known:
        return findings.warned(
            'the services do not tell the time', 'compare the clocks of both '
            'sides, as tokens and lists of changes go by them')
    whose = max(known, key=lambda each: abs(known[each]))
    skew = known[whose]
    found = '%s is %.0f s %s' % (whose, abs(skew),
                                 'ahead' if skew > 0 else 'behind')
    if abs(skew) <= _SKEW:
        # Dates are of whole seconds.
        return findings.passed('agree within %d s' % max(1, round(abs(skew))))
    return findings.warned(
        f'{found}: tokens are used when they have run out',
        'let NTP set the clock of this machine, and tell the operator of the '
        'host cloud if it is theirs')
