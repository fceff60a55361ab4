# SPDX-License-Identifier: Apache-2.0
"""Nova's own records of what was done with a server."""

import contextlib

from quintupleo_power.host_cloud import errors

# Rows of a server's actions that are looked through for one.
LATEST = 10

# The first compute API that shows the events of an action to its owner.
EVENTS_MICROVERSION = (2, 51)
# The first one that knows a limit of rows; older ones answer with all.
LIMIT_MICROVERSION = (2, 58)

_SECONDS = len('2026-01-01T00:00:00')


def read(compute, server_id):
    """Read all actions of a server that Nova has a record of.

    :param compute: the compute :class:`service.Service`.
    :param server_id: UUID of the server.
    :returns: rows of ``os-instance-actions``, newest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    rows = compute.get(f'/servers/{server_id}/os-instance-actions',
                       'instanceActions', list)
    for row in rows:
        if not all(isinstance(row.get(key), str)
                   for key in ('action', 'start_time')):
            raise errors.ServerError(
                f'The host cloud describes what was done with server '
                f'{server_id} in a form that Nova does not have')
    return rows


def since(compute, server, updated):
    """Read the actions of a server that came after a reading of it.

    Nova's clock is compared with itself.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server` as it is now.
    :param updated: ``updated`` of the server in that reading.
    :returns: rows of ``os-instance-actions``, oldest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    # An action of that very second came before, unless the server has
    # changed since.
    changed = server.updated != updated
    return [row for row in reversed(read(compute, server.id))
            if _second(row) > updated[:_SECONDS]
            or changed and _second(row) == updated[:_SECONDS]]


def after(compute, server, request_id, updated):
    """Read the actions of a server that came after a certain one.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server`.
    :param request_id: identifier of the request for that action, None if it
        is not known.
    :param updated: ``updated`` of the server when that action had ended, to
        go by where Nova does not know the request (any more).
    :returns: rows of ``os-instance-actions``, oldest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    rows = read(compute, server.id)
    known = [row.get('request_id') for row in rows]
    if request_id and request_id in known:
        rows = rows[:known.index(request_id)]
    else:
        rows = [row for row in rows if _second(row) >= updated[:_SECONDS]]
    return rows[::-1]


def latest(compute, server, word):
    """Read the latest of some actions, begun since a server was read.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server` as it was read.
    :param word: what Nova's records call the action.
    :returns: rows of ``os-instance-actions``, newest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    limit = ({'limit': LATEST} if compute.microversion >= LIMIT_MICROVERSION
             else {})
    rows = compute.get(f'/servers/{server.id}/os-instance-actions',
                       'instanceActions', list, **limit)
    known = _cut(server.updated)
    return [row for row in rows if row.get('action') == word
            and (_cut(row.get('start_time')) or known) >= known]


def is_later(row, server):
    """Return whether an action began after a server's last change, as read.

    :param row: a row of ``os-instance-actions``.
    :param server: the :class:`servers.Server` as it was read.
    :returns: True, or False if it may have been that change.
    """
    known = _cut(server.updated)
    return known not in ('', _cut(row.get('start_time')) or known)


def find(compute, server, word, request_id):
    """Read Nova's record of one action.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server` as it was before the action.
    :param word: what Nova's records call it.
    :param request_id: identifier of the request for it, None if that is not
        known.
    :returns: the record; only its row in the list of them if no more is
        shown; {} if nothing is found, as a record may come late to where it
        is read; None if Nova's policy permits neither.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    path = f'/servers/{server.id}/os-instance-actions/{request_id}'
    try:
        if request_id:
            with contextlib.suppress(errors.NotFound, errors.Forbidden):
                record = compute.get(path, 'instanceAction')
                return record if compute.microversion < (
                    EVENTS_MICROVERSION) else {'events': [], **record}
        rows = latest(compute, server, word)
    except errors.NotFound:
        return {}
    except errors.Forbidden:
        return None
    return next((row for row in rows if (
        row.get('request_id') == request_id if request_id
        else is_later(row, server))), {})


def failure(record):
    """Return why an action failed.

    :param record: what :func:`find` returned.
    :returns: a sentence; None if the record shows no failure.
    """
    for event in events(record):
        if event.get('result') == 'Error':
            return (event.get('details')
                    or f"{event.get('event')} ended with an error")
    message = (record or {}).get('message')
    return message and f'its record says "{message}"'


def events(record):
    """Return the events of an action's record that have the right form.

    :param record: what :func:`find` returned.
    :returns: list of dicts.
    """
    found = (record or {}).get('events')
    return [event for event in found if isinstance(event, dict)] if (
        isinstance(found, list)) else []


def has_ended(record):
    """Return whether a record shows that its action has ended.

    :param record: what :func:`find` returned.
    :returns: True or False.
    """
    found = events(record)
    return bool(found) and all(event.get('finish_time') for event in found)


def is_row(record):
    """Tell whether a record is one of a list, which shows no events.

    :param record: what :func:`find` returned.
    :returns: True or False.
    """
    return bool(record) and 'events' not in record


def _cut(moment):
    """Cut one of Nova's times; a server's has a time zone, a record's not."""
    return moment[:_SECONDS] if isinstance(moment, str) else ''


def _second(row):
    """When an action began; without the time zone that a server's has."""
    return row['start_time'][:_SECONDS]
