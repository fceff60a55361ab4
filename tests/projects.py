# SPDX-License-Identifier: Apache-2.0
"""What a project holds, to compare before and after."""

from quintupleo_power.environments import owned_resources


def holdings(connection):
    """Read the UUIDs of all that a project has made.

    :param connection: an openstacksdk ``Connection``.
    :returns: dict of sets by what they are.
    """
    project = connection.current_project_id
    neutron, nova = connection.network, connection.compute
    found = {
        'servers': nova.servers(), 'server groups': nova.server_groups(),
        'key pairs': nova.keypairs(),
        'images': connection.image.images(owner=project),
        'application credentials':
            connection.identity.application_credentials(
                connection.current_user_id),
        'volumes': connection.block_storage.volumes()
        if owned_resources.has_volumes(connection) else (),
        **{what: getattr(neutron, what)(project_id=project)
           for what in ('networks', 'subnets', 'ports', 'routers', 'trunks',
                        'ips', 'security_groups')}}
    return {what: {each.id for each in things}
            for what, things in found.items()}
