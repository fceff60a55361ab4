# SPDX-License-Identifier: Apache-2.0
"""What python-openstackclient requires of a plugin.

The commands use the client's own openstacksdk connection, and have one API
version only.
"""

API_NAME = 'quintupleo'
API_VERSION_OPTION = 'os_quintupleo_api_version'
API_VERSIONS = {'1': None}
DEFAULT_API_VERSION = '1'


def make_client(instance):
    """Return the openstacksdk connection of the client's manager."""
    return instance.sdk_connection


def build_option_parser(parser):
    """Return the client's parser without further global options."""
    return parser
