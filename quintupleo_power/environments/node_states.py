# SPDX-License-Identifier: Apache-2.0
"""Reads what an Ironic knows of the nodes of servers."""

from concurrent import futures
import contextlib

from openstack import exceptions

from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import identifiers


def read(servers, baremetal, retrier):
    """Return what an Ironic knows of the nodes of servers, sorted by name.

    :param servers: openstacksdk's servers.
    :param baremetal: openstacksdk's proxy of the Ironic.
    :returns: list of dicts: ``boot_device`` is the one in use, ``health`` has
        Ironic 34.0 and later, and ``problem`` is what is wrong with the
        server, such as a change by somebody else. None is not known.
    """
    references = {name for server in servers
                  for name in (server.id, server.name)}
    nodes = [node for node in retrier.read_all(
        baremetal.nodes, details=True, driver='quintupleo')
        if identifiers.reference(
            node.driver_info.get('quintupleo_server') or '') in references]

    def describe(node):
        device = {}
        # Then the problem says why.
        with contextlib.suppress(exceptions.HttpException):
            device = retrier.call(baremetal.get_node_boot_device, node)
        return {**{name: getattr(node, name, None) for name in (
            'name', 'id', 'provision_state', 'power_state', 'health')},
            'boot_device': device.get('boot_device'),
            'problem': retrier.call(baremetal.validate_node, node,
                                    required=())['power'].reason}

    with futures.ThreadPoolExecutor(task_graph.THREADS) as pool:
        return list(pool.map(describe, sorted(
            nodes, key=lambda node: node.name or '')))
