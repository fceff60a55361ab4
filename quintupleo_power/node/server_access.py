# SPDX-License-Identifier: Apache-2.0
"""Which server a node may use: one that is no other node's.

Who may write a node's ``driver_info`` may name any server of the project.
All readings of a node's server are made here.
"""

from collections import abc
import contextlib
import functools

from ironic.db import api as db_api
from ironic import objects
from oslo_utils import uuidutils

from quintupleo_power.conf import CONF
from quintupleo_power import exceptions
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import shared_call
from quintupleo_power.node import driver_info
from quintupleo_power.node import internal_info
from quintupleo_power import transitions

# What tells which server a name is of.
_CLOUD = ('quintupleo_cloud', 'quintupleo_auth_url', 'quintupleo_region_name',
          'quintupleo_application_credential_id')


@contextlib.contextmanager
def use(node: objects.Node, validating: bool = False, cached: bool = False
        ) -> abc.Iterator[tuple[cloud.HostCloud, servers.Server]]:
    """Use a node's host cloud and server, as :func:`get` returns it.

    :param validating: see :func:`exceptions.host_cloud`, whose exceptions
        are raised.
    :param cached: whether :func:`get_read_only` serves.
    """
    with exceptions.host_cloud(node, validating) as host:
        yield host, (get_read_only if cached else get)(node, host)


def get(node: objects.Node, host: cloud.HostCloud,
        compare: bool = False) -> servers.Server:
    """Return a node's server as a reading shows it that begins now.

    A node whose last request was of that server is not compared with other
    nodes, for which Ironic's database is read.

    :param compare: whether to compare it all the same.
    :raises: Refused if the node may not use it, or a HostCloudError.
    """
    try:
        server = host.servers.get(driver_info.server(node))
    except (errors.NotFound, errors.NotUnique) as exc:
        raise type(exc)(f'{exc} (see driver_info/quintupleo_server)')
    _require_metadata(node, server)
    if compare or _used(node.driver_internal_info) != server.id:
        _require_unshared(node, server)
    return server


def get_read_only(node: objects.Node, host: cloud.HostCloud,
                  cached: bool = True) -> servers.Server:
    """Return a node's server for what changes nothing and shows no secret.

    The node is not compared with others: power sync would do so for each.

    :param cached: whether it may be as of a few seconds ago.
    :raises: Refused if the node may not use it, or a HostCloudError.
    """
    reference = driver_info.server(node)
    with cloud.limit_readers(host.credentials,
                             CONF.conductor.sync_power_state_workers):
        server = (host.servers.get_cached(
            reference, CONF.quintupleo.server_list_max_age)
            if cached else host.servers.get(reference))
    _require_metadata(node, server)
    return server


def _require_unshared(node, server):
    """Require that no other node of this Ironic has a node's server.

    Of several nodes that name it, it is that of the only one whose last
    request was of it.
    """
    if CONF.quintupleo.allow_shared_servers:
        return
    is_used = _used(node.driver_internal_info) == server.id
    for uuid, info, internal in _nodes_of(node.driver)():
        if (uuid != node.uuid and _names(info or {}, internal, node, server)
                and (not is_used or _used(internal) == server.id)):
            raise transitions.Refused(
                f'Server {server.id} ({server.name}) is that of node {uuid}, '
                'too: set driver_info/quintupleo_server of one of the two to '
                'another server, or [quintupleo]allow_shared_servers')


@functools.lru_cache(maxsize=8)
def _nodes_of(driver):
    """Return a call that lists the nodes of a driver, for all who ask."""
    return shared_call.SharedCall(
        lambda: db_api.get_instance().get_nodeinfo_list(
            columns=['uuid', 'driver_info', 'driver_internal_info'],
            filters={'driver': driver}), 'quintupleo-nodes')


def _require_metadata(node, server):
    if not CONF.quintupleo.require_server_metadata:
        return
    found = server.metadata.get(servers.NODE)
    if found != node.uuid:
        raise transitions.Refused(
            f'Server {server.id} ({server.name}) may not be used: its '
            f'metadata {servers.NODE} has to be the UUID of the node, as '
            '[quintupleo]require_server_metadata says: an operator can set '
            'it with "openstack server set --property '
            f'{servers.NODE}={node.uuid} {server.id}"')


def _names(info, internal, node, server):
    """Return whether driver_info of another node names a node's server."""
    value = info.get('quintupleo_server')
    if not isinstance(value, str):
        return False
    value = value.strip()
    if uuidutils.is_uuid_like(value):
        return identifiers.reference(value) == server.id
    # Which server a name is of shows only after a request.
    return _used(internal) == server.id or value == server.name and all(
        info.get(key) == node.driver_info.get(key) for key in _CLOUD)


def _used(driver_internal_info):
    """Return the UUID of the server that a node's last request was of."""
    baseline = (driver_internal_info or {}).get(internal_info.BASELINE)
    return (baseline or {}).get('server')
