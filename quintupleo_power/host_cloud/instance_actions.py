# SPDX-License-Identifier: Apache-2.0
"""Nova's instance actions: what was done with a server.

Each is a dict as in Nova's API reference, "Servers actions"; those of a list
lack ``events``.
"""

import contextlib
import typing

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

# The first compute API that shows the events of an action to its owner.
EVENTS_MICROVERSION = (2, 51)

_SECONDS = len('2026-01-01T00:00:00')


def read(compute: service.Service, server_id: str) -> list[dict]:
    """Return the instance actions of a server, newest first.

    Their ``start_time`` is cut to seconds, as a server's times have them.
    """
    found = compute.get(f'/servers/{server_id}/os-instance-actions',
                        'instanceActions', list)
    for each in found:
        body = typed_json.Body(each, f'what was done with server {server_id}',
                           'Nova')
        body.get('action', str)
        each['start_time'] = _cut(body.get('start_time', str))
    return found


def since(compute: service.Service, server_id: str, updated: str,
          has_changed: bool = True, request_id: str | None = None
          ) -> list[dict]:
    """Return what was done with a server after a reading, oldest first.

    :param updated: ``updated`` of the server in that reading.
    :param has_changed: whether it has changed since: if not, an action of
        that very second came before.
    :param request_id: of the action that the reading was made after, which
        tells more than a time where Nova knows it (still).
    """
    found = read(compute, server_id)
    request_ids = [each.get('request_id') for each in found]
    if request_id and request_id in request_ids:
        return found[:request_ids.index(request_id)][::-1]
    return [each for each in reversed(found)
            if each['start_time'] > _cut(updated)
            or has_changed and each['start_time'] == _cut(updated)]


def latest(compute: service.Service, server: servers.Server,
           name: str) -> list[dict]:
    """Return the latest actions of a name of Nova's, newest first.

    :param server: the server as it was read before they began.
    """
    return [each for each in read(compute, server.id)
            if each['action'] == name
            and each['start_time'] >= _cut(server.updated)]


def is_later(instance_action: dict, server: servers.Server) -> bool:
    """Return whether an action began after a server's last change, as read.

    It does not if it may have been that change.
    """
    return '' != _cut(server.updated) != instance_action['start_time']


def find(compute: service.Service, server: servers.Server, name: str,
         request_id: str | None) -> dict | None:
    """Return an instance action, from the list of them if no more is shown.

    :param server: the server as it was before the action.
    :returns: {} if nothing is found, as it may come late to where it is
        read; None if Nova's policy permits neither.
    """
    path = f'/servers/{server.id}/os-instance-actions/{request_id}'
    try:
        if request_id:
            with contextlib.suppress(errors.NotFound, errors.Forbidden):
                found = compute.get(path, 'instanceAction')
                return found if compute.microversion < (
                    EVENTS_MICROVERSION) else {'events': [], **found}
        candidates = latest(compute, server, name)
    except errors.NotFound:
        return {}
    except errors.Forbidden:
        return None
    return next((each for each in candidates if (
        each.get('request_id') == request_id if request_id
        else is_later(each, server))), {})


def failure(instance_action: dict | None) -> str | None:
    """Return why an action that :func:`find` returned failed, or None."""
    for event in events(instance_action):
        if event.get('result') == 'Error':
            return (event.get('details')
                    or f"{event.get('event')} ended with an error")
    message = (instance_action or {}).get('message')
    return f'its instance action says "{message}"' if message else None


def events(instance_action: dict | None) -> list[dict]:
    """Return the events of an action that have the right form."""
    found = (instance_action or {}).get('events')
    return [event for event in found if isinstance(event, dict)] if (
        isinstance(found, list)) else []


def has_ended(instance_action: dict | None) -> bool:
    """Return whether an action shows that it has ended."""
    found = events(instance_action)
    return bool(found) and all(event.get('finish_time') for event in found)


def is_without_events(instance_action: dict) -> bool:
    """Return whether an action is one of a list, which shows no events."""
    return bool(instance_action) and 'events' not in instance_action


def _cut(moment: typing.Any) -> str:
    """Cut off the time zone of a server's times, the fraction of others."""
    return moment[:_SECONDS] if isinstance(moment, str) else ''
