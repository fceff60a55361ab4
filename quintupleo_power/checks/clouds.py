# SPDX-License-Identifier: Apache-2.0
"""The cloud that is checked, or why there is none."""

import argparse

import openstack

from quintupleo_power.environments import errors as env_errors
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import connection as host_connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power.host_cloud import service


class Cloud:
    """A cloud, as openstacksdk and the driver use it."""

    def __init__(self, connection: openstack.connection.Connection,
                 compute: service.Service, *others: service.Service):
        """Use what :func:`host_cloud.connection.services` returns."""
        self.connection = connection
        self.host = cloud.HostCloud(compute, *others)
        self.project = cloud_facts.CloudInfo(compute, *others)


class NoCloud:
    """A cloud that cannot be used; its sign-in raises the reason."""

    connection = host = None

    def __init__(self, reason: Exception):
        self.project = self
        self._reason = reason

    def sign_in(self):
        """Raise the reason."""
        raise self._reason


def of_conductor() -> Cloud | NoCloud:
    """Return the cloud of section [quintupleo]."""
    try:
        title, region = host_connection.access(host_connection.Credentials())
        connection = openstack.connection.Connection(config=region)
        return Cloud(openstacksdk.drop_microversions(connection),
                     *host_connection.services(title, region))
    except (errors.HostCloudError, *env_errors.CLOUD_ERRORS) as exc:
        return NoCloud(exc)


def of_user(settings: openstack.config.OpenStackConfig,
            options: argparse.Namespace) -> Cloud | NoCloud:
    """Return the cloud that the client's options name."""
    try:
        # The client's own connection exists only after authentication.
        connection = openstack.connection.Connection(config=settings.get_one(
            cloud=options.cloud, argparse=options))
        return Cloud(connection, *openstacksdk.services(connection))
    except env_errors.CLOUD_ERRORS as exc:
        return NoCloud(errors.CloudMisconfigured(
            f'No usable cloud is named: {env_errors.explain(exc)}'))
