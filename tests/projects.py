# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What a project holds, to compare before and after."""

from quintupleo_power.environments import inventory


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
        'volumes': connection.block_storage.volumes()
        if inventory.has_volumes(connection) else (),
        **{what: getattr(neutron, what)(project_id=project)
           for what in ('networks', 'subnets', 'ports', 'routers', 'trunks',
                        'ips', 'security_groups')}}
    return {what: {each.id for each in things}
            for what, things in found.items()}
