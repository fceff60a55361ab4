# SPDX-License-Identifier: Apache-2.0
"""Clouds that openstacksdk and the driver are connected with alike."""

from openstack import connection as sdk_connection

from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import connection as host_cloud_connection


def drop_microversions(connection: sdk_connection.Connection
                       ) -> sdk_connection.Connection:
    """Return a connection that uses the microversions each request needs.

    What the user has set in clouds.yaml or OS_COMPUTE_API_VERSION is for
    other commands: half of an environment would be made with it.
    """
    settings = connection.config.config
    for name in list(settings):
        if name.endswith('_default_microversion') or (
                name.endswith('_api_version') and '.' in str(settings[name])):
            del settings[name]
    return connection


def services(connection: sdk_connection.Connection
             ) -> host_cloud_connection.Services:
    """Return the services of a cloud that openstacksdk has entered."""
    answers.check(connection.session)
    return host_cloud_connection.services('The host cloud', connection.config)
