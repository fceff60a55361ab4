# SPDX-License-Identifier: Apache-2.0
"""Which server a node may use: one that is no other node's.

Who may write a node's ``driver_info`` may name any server of the project.
All readings of a node's server are made here.
"""

from collections import abc

from ironic.db import api as db_api
from ironic import objects
from oslo_config import cfg
from oslo_utils import uuidutils

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import servers
from quintupleo_power.node import driver_info
from quintupleo_power.node import internal_info
from quintupleo_power import transitions

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP

# What tells which server a name is of.
_CLOUD = ('quintupleo_cloud', 'quintupleo_auth_url', 'quintupleo_region_name',
          'quintupleo_application_credential_id')


def get(node: objects.Node, info: driver_info.DriverInfo,
        host: cloud.HostCloud) -> servers.Server:
    """Return a node's server as a reading shows it that begins now.

    Nodes are not looked through for one whose own request was done with that
    server before, and of which Ironic's database keeps that.

    :raises: Refused if the node may not use it, or a HostCloudError.
    """
    server = host.servers.get(info.server)
    _require_metadata(node, server)
    if _used(node.driver_internal_info) != server.id:
        require_unshared(node, server)
    return server


def look(node: objects.Node, info: driver_info.DriverInfo,
         host: cloud.HostCloud, cached: bool = True) -> servers.Server:
    """Return a node's server for what changes nothing and gives nothing away.

    Other nodes are not looked through, which power sync would for each node.

    :param cached: whether it may be as of a few seconds ago.
    :raises: Refused if the node may not use it, or a HostCloudError.
    """
    # Of the workers of power sync, some are left for other clouds.
    places = max(1, CONF.conductor.sync_power_state_workers // 2)
    with cloud.looking(info.credentials, places):
        server = (host.servers.get_cached if cached
                  else host.servers.get)(info.server)
    _require_metadata(node, server)
    return server


def require_unshared(node: objects.Node, server: servers.Server) -> None:
    """Require that no other node of this Ironic has a node's server.

    Of several that name it, it is that of the only one whose request was done
    with it. Nodes are read from Ironic's database, all of the hardware type.

    :raises: Refused if another one has it.
    """
    if CONF[GROUP].allow_shared_servers:
        return
    is_used = _used(node.driver_internal_info) == server.id
    for uuid, kept in _others(node, server):
        if not is_used or _used(kept) == server.id:
            raise transitions.Refused(
                f'Server {server.id} ({server.name}) is that of node {uuid}, '
                'too: set driver_info/quintupleo_server of one of the two to '
                f'another server, or [{GROUP}]allow_shared_servers')


def _require_metadata(node, server):
    if not CONF[GROUP].require_server_metadata:
        return
    found = server.metadata.get(servers.NODE)
    if found != node.uuid:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) may not be used: its '
            f'metadata {servers.NODE} has to be the UUID of the node, as '
            f'[{GROUP}]require_server_metadata says: an operator can set it '
            f'with "openstack server set --property '
            f'{servers.NODE}={node.uuid} {server.id}"')


def _others(node, server) -> abc.Iterator[tuple[str, dict | None]]:
    """Yield (UUID, driver_internal_info) of other nodes that name a server."""
    for uuid, found, kept in db_api.get_instance().get_nodeinfo_list(
            columns=['uuid', 'driver_info', 'driver_internal_info'],
            filters={'driver': node.driver}):
        if uuid != node.uuid and _names(found or {}, kept, node, server):
            yield uuid, kept


def _names(found, kept, node, server):
    """Return whether driver_info of another node names a node's server."""
    value = found.get('quintupleo_server')
    if not isinstance(value, str):
        return False
    value = value.strip()
    if uuidutils.is_uuid_like(value):
        return servers.same_id(value, server.id)
    # What a name is of shows only where a request was done with it.
    return _used(kept) == server.id or value == server.name and all(
        found.get(key) == node.driver_info.get(key) for key in _CLOUD)


def _used(kept):
    """Return the UUID of the server that a node's last request was of."""
    return ((kept or {}).get(internal_info.BASELINE) or {}).get('server')
