# SPDX-License-Identifier: Apache-2.0
"""Tags, metadata, descriptions and names that say what an environment owns.

Each holds the environment's name and the key of the resource in its plan. It
is part of the request that makes the resource: nothing that an interrupted
command made is without it.
"""

import re

# In metadata of servers, volumes and images.
ENVIRONMENT = 'quintupleo_environment'
KEY = 'quintupleo_key'
# In a server's metadata once it is as its role wants it. What happens to it
# later is the user's affair.
MADE = 'quintupleo_made'
# The UUID of the access image, in the metadata of the server with Ironic.
ACCESS = 'quintupleo_access'

# Server groups had the short form as their name before.
_OWNER = re.compile(r'quintupleo(?: environment |:)([^\s:]+): ?(\S+)')


def tag(environment):
    """Return the tag of resources, for searches."""
    return f'quintupleo={environment}'


def metadata(environment, key):
    """Return the metadata of a server or a volume."""
    return {ENVIRONMENT: environment, KEY: key}


def description(environment, key):
    """Return Neutron's description, and the name of a server group."""
    return f'quintupleo environment {environment}: {key}'


def name(environment, key):
    """Return the name of a resource, for users."""
    return '-'.join([environment, *key.split('.')[1:]])


def access_id(server):
    """Return the UUID of a server's access image, or None."""
    return (server.metadata or {}).get(ACCESS)


def parse(found):
    """Return (environment, key) of metadata or a description, or None."""
    if isinstance(found, dict):
        owner = found.get(ENVIRONMENT), found.get(KEY)
        return None if None in owner else owner
    match = _OWNER.fullmatch(found or '')
    return match and match.groups()
