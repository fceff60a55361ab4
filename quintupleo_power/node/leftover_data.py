# SPDX-License-Identifier: Apache-2.0
"""Whether a node's server may have an instance's data, and which metadata.

The node keeps the names of the server's metadata that come from a config
drive: the others are those of the server's owner.
"""

from collections import abc

from ironic import objects

from quintupleo_power.node import internal_info

KEY = internal_info.INSTANCE_METADATA


def mark(node: 'objects.Node', names: abc.Iterable[str]) -> None:
    """Save with a node that its server is to get an instance's data.

    :param names: names of the server's metadata that it gets with it.
    """
    node.set_driver_internal_info(KEY, sorted(names))
    node.save()


def may_be_left(node: 'objects.Node') -> bool:
    """Return whether a node's server may have an instance's data."""
    return KEY in node.driver_internal_info


def names(node: 'objects.Node') -> list[str]:
    """Return the names of a server's metadata that an instance has set."""
    return node.driver_internal_info.get(KEY) or []


def clear(node: 'objects.Node') -> None:
    """Save with a node that its server has no instance's data any more."""
    if may_be_left(node):
        node.del_driver_internal_info(KEY)
        node.save()
