# SPDX-License-Identifier: Apache-2.0
"""What python-openstackclient asks of a plugin.

The commands use the client's own openstacksdk connection; there is no API
version to choose.
"""

API_NAME = 'quintupleo'
API_VERSION_OPTION = 'os_quintupleo_api_version'
API_VERSIONS = {'1': None}
DEFAULT_API_VERSION = '1'


def make_client(instance):
    """Give the connection that the commands use.

    :param instance: the client's ``ClientManager``.
    :returns: an openstacksdk ``Connection``.
    """
    return instance.sdk_connection


def build_option_parser(parser):
    """Add no global options.

    :param parser: the client's :class:`argparse.ArgumentParser`.
    :returns: the same.
    """
    return parser
