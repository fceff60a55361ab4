# SPDX-License-Identifier: Apache-2.0
"""Clouds that openstacksdk and the driver are connected with alike."""

from openstack import connection as sdk_connection

from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import connection as host_cloud_connection
from quintupleo_power.host_cloud import service

# The service types, by what the driver calls the services.
_SERVICE_TYPES = {'compute': 'compute', 'image': 'image',
                  'volume': 'block-storage', 'network': 'network'}


def access(connection: sdk_connection.Connection
           ) -> host_cloud_connection.Access:
    """Return how the driver enters a cloud that openstacksdk has entered."""
    answers.check(connection.session)
    config = connection.config
    return host_cloud_connection.Access(
        title='The host cloud', session=connection.session,
        region_name=config.get_region_name('compute'),
        interface=config.get_interface('compute'),
        **{f'{name}_endpoint': config.get_endpoint(service_type)
           for name, service_type in _SERVICE_TYPES.items()})


def services(connection: sdk_connection.Connection
             ) -> tuple[service.Service, service.Service, service.Service]:
    """Return services of compute, images and block storage.

    It sends nothing yet, and the last one may be missing in the cloud.
    """
    found = host_cloud_connection.services(access(connection))
    return found.compute, found.image, found.volume


def connect(access: host_cloud_connection.Access
            ) -> sdk_connection.Connection:
    """Enter a cloud with openstacksdk that the driver enters."""
    endpoints = {
        f'{service_type.replace("-", "_")}_endpoint_override': getattr(
            access, f'{name}_endpoint')
        for name, service_type in _SERVICE_TYPES.items()}
    return sdk_connection.Connection(
        session=access.session, region_name=access.region_name,
        interface=access.interface, **{
            name: url for name, url in endpoints.items() if url})
