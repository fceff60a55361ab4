# SPDX-License-Identifier: Apache-2.0
"""Which server of the host cloud a virtual BMC spoke for."""

import dataclasses

from openstack import exceptions

from quintupleo_power.environments import conversion


@dataclasses.dataclass(frozen=True)
class Server:
    """A server.

    :ivar id: its UUID.
    :ivar name: its name.
    """

    id: str
    name: str


class Servers:
    """The project's servers, by name, UUID or MAC address."""

    def __init__(self, connection):
        """Read all ports: one that has no address is not in Nova's answers.

        :param connection: an openstacksdk ``Connection``.
        """
        self._compute = connection.compute
        self._owners = {}
        for port in connection.network.ports(
                project_id=connection.current_project_id):
            if port.device_id:
                self._owners.setdefault(
                    port.mac_address.lower(), set()).add(port.device_id)

    def find(self, identifier, macs):
        """Look for a server.

        :param identifier: its UUID or name, or None.
        :param macs: MAC addresses, if there is no identifier.
        :returns: a :class:`Server`, or None if there is none.
        :raises: conversion.ConversionError if there is more than one.
        """
        if identifier:
            return self._read(identifier)
        found = set()
        for mac in macs:
            found |= self._owners.get(mac.lower(), set())
        if len(found) > 1:
            raise conversion.ConversionError(
                f'its MAC addresses {", ".join(macs)} belong to the servers '
                + ', '.join(sorted(found))
                + ': leave those of one server in the file')
        return self._read(found.pop()) if found else None

    def _read(self, name_or_id):
        try:
            server = self._compute.find_server(name_or_id,
                                               ignore_missing=True)
        except exceptions.DuplicateResource:
            raise conversion.ConversionError(
                f'more than one server is named "{name_or_id}": put the '
                "server's UUID into the file")
        return server and Server(server.id, server.name)
