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


def since(compute, server, updated):
    """Read the actions of a server that came after a reading of it.

    Nova's clock is compared with itself only.

    :param compute: the compute :class:`service.Service`.
    :param server: the :class:`servers.Server` as it is now.
    :param updated: ``updated`` of the server in that reading.
    :returns: rows of ``os-instance-actions``, oldest first.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    rows = compute.get(f'/servers/{server.id}/os-instance-actions',
                       'instanceActions', list)
    # An action of that very second came before, unless the server has
    # changed since; the records' times have no time zone, the server's does.
    changed = server.updated != updated
    return [row for row in reversed(rows)
            if row['start_time'][:19] > updated[:19]
            or changed and row['start_time'][:19] == updated[:19]]
