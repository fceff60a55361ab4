# SPDX-License-Identifier: Apache-2.0
"""The mark that everything made for an environment carries.

It holds the environment's name, and a key that says which part of the
environment a thing is. It goes into the very request that makes the thing, so
that nothing of a run that was killed is without one.
"""

import re

# In metadata of servers, volumes and images.
ENVIRONMENT = 'quintupleo_environment'
KEY = 'quintupleo_key'
# In a server's metadata once it is as its role wants it. What happens to it
# later is its owner's affair.
MADE = 'quintupleo_made'

_DESCRIPTION = re.compile(r'quintupleo environment (?P<environment>\S+): '
                          r'(?P<key>\S+)')
_GROUP = re.compile(r'quintupleo:(?P<environment>[^:]+):(?P<key>.+)')


def tag(environment):
    """Make the tag of what an environment has, for those who look for it.

    :param environment: the environment's name.
    :returns: the tag.
    """
    return f'quintupleo={environment}'


def metadata(environment, key):
    """Make the metadata of a server or a volume.

    :param environment: the environment's name.
    :param key: which part of the environment it is.
    :returns: dict.
    """
    return {ENVIRONMENT: environment, KEY: key}


def description(environment, key):
    """Make the description of what Neutron has.

    Tags would need a second request.

    :param environment: the environment's name.
    :param key: which part of the environment it is.
    :returns: the description.
    """
    return f'quintupleo environment {environment}: {key}'


def group_name(environment, key):
    """Make the name of a server group, which has nothing else.

    :param environment: the environment's name.
    :param key: which part of the environment it is.
    :returns: the name.
    """
    return f'quintupleo:{environment}:{key}'


def name(environment, key):
    """Make the name that people see.

    :param environment: the environment's name.
    :param key: which part of the environment it is.
    :returns: the name.
    """
    return '-'.join([environment, *key.split('.')[1:]])


def of_metadata(found):
    """Read a mark.

    :param found: metadata, or None.
    :returns: (environment, key), or None if it holds no mark.
    """
    found = found or {}
    if ENVIRONMENT in found and KEY in found:
        return found[ENVIRONMENT], found[KEY]
    return None


def of_description(found):
    """Read the mark of what Neutron has.

    :param found: its description, or None.
    :returns: (environment, key), or None if it holds no mark.
    """
    return _of_text(_DESCRIPTION, found)


def of_group_name(found):
    """Read the mark of a server group.

    :param found: its name, or None.
    :returns: (environment, key), or None if it holds no mark.
    """
    return _of_text(_GROUP, found)


def _of_text(pattern, found):
    match = pattern.fullmatch(found or '')
    return match and (match['environment'], match['key'])
