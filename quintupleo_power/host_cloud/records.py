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

"""Nova's own records of what was done with a server."""

import math

from oslo_utils import timeutils

from quintupleo_power.host_cloud import errors

# Seconds that a clock may be off by which a reading is told to be an old one.
CLOCK_SKEW = 30.0

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


def since(compute, server, updated, moment=None):
    """Read the actions of a server that came after a reading of it.

    Nova's clock is compared with itself, but for those that began long before
    a moment.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server` as it is now.
    :param updated: ``updated`` of the server in that reading.
    :param moment: a ``time.time`` value of this machine's clock; actions that
        began more than :data:`CLOCK_SKEW` before it are left out. None for
        all.
    :returns: rows of ``os-instance-actions``, oldest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    rows = read(compute, server.id)
    # An action of that very second came before, unless the server has
    # changed since.
    changed = server.updated != updated
    earliest = moment and (moment + (compute.clock_ahead or 0.0)
                           - CLOCK_SKEW)
    return [row for row in reversed(rows)
            if (_second(row) > updated[:_SECONDS]
                or changed and _second(row) == updated[:_SECONDS])
            and (earliest is None or _began_since(row, earliest))]


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


def begun_since(compute, server, action, moment):
    """Find the latest of one kind of actions that began since a moment.

    A record has the time at which the request came to Nova
    (``nova/objects/instance_action.py``), in whole seconds where the database
    below keeps no fractions of them, as MySQL. A host cloud that does not
    tell its time is taken to have the conductor's.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server`.
    :param action: what Nova's records call it.
    :param moment: a ``time.time`` value of this machine's clock.
    :returns: the request's identifier, None if there is no such action or
        Nova does not tell.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    try:
        rows = read(compute, server.id)
    except (errors.NotFound, errors.Forbidden):
        return None
    moment += compute.clock_ahead or 0.0
    return next((row.get('request_id') for row in rows
                 if row['action'] == action and _began_since(row, moment)),
                None)


def _began_since(row, moment):
    try:
        began = timeutils.parse_isotime(row['start_time'])
    except ValueError:
        return False
    return began.timestamp() >= (moment if began.microsecond
                                 else math.floor(moment))


def _second(row):
    """When an action began; without the time zone that a server's has."""
    return row['start_time'][:_SECONDS]
