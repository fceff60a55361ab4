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
