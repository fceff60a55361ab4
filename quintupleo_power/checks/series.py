# SPDX-License-Identifier: Apache-2.0
"""All checks in their order, for one cloud."""

import dataclasses

from quintupleo_power.checks import access
from quintupleo_power.checks import allowances
from quintupleo_power.checks import conductor
from quintupleo_power.checks import findings
from quintupleo_power.checks import images
from quintupleo_power.checks import machines
from quintupleo_power.checks import networks
from quintupleo_power.environments import failures
from quintupleo_power.environments import mark
from quintupleo_power.environments import patience
from quintupleo_power.environments import quota
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import cloud_info
from quintupleo_power.host_cloud import connection as host_cloud_connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import openstacksdk

# Seconds for which a request that reads a quota is tried again.
_PATIENCE = 10


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What is to be looked at beside the cloud itself.

    :ivar flavor: identifier or name of the machines' flavor, or None.
    :ivar servers: UUIDs or names of servers.
    :ivar networks: UUIDs or names of networks.
    :ivar environments: names of environments whose servers are meant.
    """

    flavor: str | None = None
    servers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()


class Cloud:
    """A cloud to be looked at.

    :ivar connection: an openstacksdk ``Connection`` of it.
    :ivar compute: the compute :class:`host_cloud.service.Service`.
    :ivar host: the :class:`host_cloud.cloud.HostCloud`.
    :ivar project: the :class:`host_cloud.project.Project`.
    """

    def __init__(self, connection, title, compute, *others):
        """Use services.

        :param connection: an openstacksdk ``Connection``.
        :param title: the cloud's name in messages.
        :param compute: the compute :class:`host_cloud.service.Service`.
        :param others: those of images, block storage and networks, as
            :func:`host_cloud.connection.services` gives them.
        """
        self.connection = connection
        self.compute = compute
        self.host = cloud.HostCloud(title, compute, *others)
        self.project = cloud_info.CloudInfo(compute, *others)


class NoCloud:
    """One that no request can be sent to.

    :ivar project: what raises when it is to sign in, before all else.
    """

    connection = compute = host = None

    def __init__(self, reason):
        """Keep why.

        :param reason: the error.
        """
        self.project = self
        self._reason = reason

    def sign_in(self):
        """Raise the error."""
        raise self._reason


def of_conductor():
    """Give the cloud of section [quintupleo].

    :returns: a :class:`Cloud` or :class:`NoCloud`.
    """
    try:
        entered = host_cloud_connection.access(
            host_cloud_connection.Credentials())
        return Cloud(openstacksdk.connect(entered),
                     *host_cloud_connection.services(entered))
    except (errors.HostCloudError, *failures.CLOUD_ERRORS) as exc:
        return NoCloud(exc)


def of_user(connect):
    """Give the cloud that the client's options name.

    :param connect: function that returns an openstacksdk ``Connection``.
    :returns: a :class:`Cloud` or :class:`NoCloud`.
    """
    try:
        connection = connect()
        return Cloud(connection, *host_cloud_connection.services(
            openstacksdk.access(connection)))
    except failures.CLOUD_ERRORS as exc:
        return NoCloud(errors.CloudMisconfigured(
            f'No usable cloud is named: {failures.explain(exc)}'))


def run(target, wishes, settings=None, trial=None):
    """Look at a cloud.

    :param target: the :class:`Cloud` or :class:`NoCloud`.
    :param wishes: the :class:`Wishes`.
    :param settings: the :class:`conductor.Settings`, or None.
    :param trial: the :class:`trial.Trial`, or None to change nothing.
    :returns: a generator of :class:`findings.Finding`.
    """
    facts = {}
    return findings.run(_checks(target, wishes, settings, trial, facts),
                        facts)


def _checks(target, wishes, settings, trial, facts):
    project = target.project
    if settings:
        yield from conductor.checks(settings)
    yield from access.checks(project)
    yield from images.checks(project)
    yield from allowances.quota_checks(project, lambda: quota.read(
        target.connection, patience.Patience(longest=_PATIENCE)),
        wishes.flavor)
    if trial:
        yield from trial.checks()
    else:
        yield allowances.rescue_check(project)
    # What the trial has made is a proof, too.
    yield from allowances.port_checks(project)
    for reference in wishes.networks:
        yield from networks.checks(project, reference)
    for reference in wishes.servers:
        yield from machines.checks(project, target.host, reference)
    for name in wishes.environments:
        check = _environment_check(project, name)
        yield check
        for server in facts.get(check.name, ()):
            yield from machines.checks(project, target.host, server.id,
                                       server.name)
    if trial:
        yield trial.removal()


def _environment_check(project, name):
    return findings.Check(
        f'environment {name}',
        lambda facts: project.tagged_servers(mark.tag(name)),
        judge_environment, (access.COMPUTE,))


def judge_environment(servers):
    """Judge whether an environment has servers.

    :param servers: list of :class:`host_cloud.servers.Server`.
    :returns: a :class:`findings.Verdict`.
    """
    if servers:
        return findings.passed(f'{len(servers)} servers')
    return findings.failed(
        'this project has no server of it',
        'check the name with "openstack quintupleo environment list"')
