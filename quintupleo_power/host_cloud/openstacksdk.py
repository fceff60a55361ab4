# SPDX-License-Identifier: Apache-2.0
"""Clouds that openstacksdk and the driver are connected with alike."""

from openstack import connection as sdk_connection

from quintupleo_power.host_cloud import answers
from quintupleo_power.host_cloud import connection as host_cloud_connection


def access(connection):
    """Tell how the driver enters a cloud that openstacksdk has entered.

    :param connection: an openstacksdk ``Connection``.
    :returns: a :class:`connection.Access`.
    """
    answers.check(connection.session)
    config = connection.config
    return host_cloud_connection.Access(
        title='The host cloud', session=connection.session,
        region_name=config.get_region_name('compute'),
        interface=config.get_interface('compute'),
        **{f'{name}_endpoint': config.get_endpoint(kind)
           for name, kind in _KINDS.items()})


# The service types, by what the driver calls the services.
_KINDS = {'compute': 'compute', 'image': 'image', 'volume': 'block-storage',
          'network': 'network'}


def services(connection):
    """Make services; sends nothing yet.

    :param connection: an openstacksdk ``Connection``.
    :returns: (compute :class:`service.Service`, that of images, that of block
        storage); the last one may be missing in the cloud.
    """
    _title, compute, image, volume, _network = (
        host_cloud_connection.services(access(connection)))
    return compute, image, volume


def connect(entered):
    """Enter a cloud with openstacksdk that the driver enters.

    :param entered: a :class:`connection.Access`.
    :returns: an openstacksdk ``Connection``.
    """
    endpoints = {
        f'{kind.replace("-", "_")}_endpoint_override': getattr(
            entered, f'{name}_endpoint') for name, kind in _KINDS.items()}
    return sdk_connection.Connection(
        session=entered.session, region_name=entered.region_name,
        interface=entered.interface, **{
            name: url for name, url in endpoints.items() if url})
