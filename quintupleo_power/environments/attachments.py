# SPDX-License-Identifier: Apache-2.0
"""What servers have lost since they were completed, and how they get it back.

Somebody may have deleted a port or a volume, or taken it off its server.
"""

from openstack import exceptions

from quintupleo_power.environments import mark
from quintupleo_power.environments import plan


def lost(items, found):
    """Look for ports and volumes that their servers do not have any more.

    :param items: dict of :class:`plan.Item` by key.
    :param found: list of :class:`inventory.Found`.
    :returns: dict of the servers' UUIDs by the key of what each lacks.
    """
    things = {each.key: each.body for each in found}
    return {key: server.id for server in found
            if server.kind == plan.SERVER and server.key in items
            and is_made(server.body)
            for key in items[server.key].after
            if plan.kind(key) in (plan.PORT, plan.VOLUME)
            # A disk to boot from cannot be given back.
            and not key.endswith('.root')
            and not _has(server.id, things.get(key))}


def is_made(server):
    """Tell whether a server was completed before, whatever it does now.

    :param server: what openstacksdk knows of it.
    :returns: True or False.
    """
    return mark.MADE in (server.metadata or {})


def _has(server_id, thing):
    if thing is None:
        return False
    attachments = getattr(thing, 'attachments', None) or ()
    return server_id in (getattr(thing, 'device_id', None), *(
        each['server_id'] for each in attachments))


def attach(nova, patience, server_id, key, thing):
    """Give a server what it lacks.

    :param nova: openstacksdk's proxy of it.
    :param patience: the :class:`patience.Patience`.
    :param server_id: UUID of the server.
    :param key: key of what it lacks.
    :param thing: what openstacksdk knows of that.
    """
    if plan.kind(key) == plan.VOLUME:
        path, body = 'os-volume_attachments', {
            'volumeAttachment': {'volumeId': thing.id}}
    else:
        path, body = 'os-interface', {
            'interfaceAttachment': {'port_id': thing.id}}
    # openstacksdk's own functions for it take other words in each release.
    patience.call(lambda: exceptions.raise_from_response(
        nova.post(f'/servers/{server_id}/{path}', json=body)))
