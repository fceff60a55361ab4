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

"""What ``driver_info`` of a node may hold, parsed into one value."""

import dataclasses
from urllib import parse as urlparse

from ironic.common import exception
from oslo_config import cfg

from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import connection

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP

REQUIRED_PROPERTIES = {
    'quintupleo_server': (
        'UUID of the Nova server that plays the node, or its name if it is '
        'unique in the project. Required.'),
}
OPTIONAL_PROPERTIES = {
    'quintupleo_cloud': (
        "Entry of the conductor's clouds.yaml for the host cloud. Default: "
        'the [quintupleo] section. Optional.'),
    'quintupleo_auth_url': (
        "Identity endpoint for the node's own application credential; must "
        'be permitted by [quintupleo]allowed_auth_urls. Default: the '
        'configured one. Optional.'),
    'quintupleo_application_credential_id': (
        'Application credential to use for this node instead of the '
        'configured credentials. Optional.'),
    'quintupleo_application_credential_secret': (
        'Secret of that application credential. Optional.'),
    'quintupleo_region_name': (
        'Region of the host cloud. Default: the configured one. Optional.'),
    'quintupleo_rescue_image': (
        'UUID or name of the image to boot from the network with, instead '
        'of [quintupleo]rescue_image_bios or rescue_image_uefi. Optional.'),
}
COMMON_PROPERTIES = REQUIRED_PROPERTIES | OPTIONAL_PROPERTIES

_LONGEST = 255


@dataclasses.dataclass(frozen=True)
class DriverInfo:
    """A node's settings.

    :ivar node_uuid: the node, for messages.
    :ivar server: UUID or name of the server.
    :ivar credentials: how to enter its host cloud.
    :ivar rescue_image: UUID or name, or None for the configured image.
    """

    node_uuid: str
    server: str
    credentials: connection.Credentials
    rescue_image: str | None = None


def parse(node):
    """Read and check a node's ``driver_info``; asks no cloud.

    :param node: an Ironic node.
    :returns: a :class:`DriverInfo`.
    :raises: MissingParameterValue if a required key is missing.
    :raises: InvalidParameterValue if a value is wrong or keys contradict
        each other.
    """
    values = {key: _text(node, key) for key in COMMON_PROPERTIES}
    if values['quintupleo_server'] is None:
        raise exception.MissingParameterValue(
            f'Node {node.uuid} lacks driver_info/quintupleo_server: set it '
            'to the UUID of the Nova server that plays this node')
    credentials = connection.Credentials(
        **{field.name: values[f'quintupleo_{field.name}']
           for field in dataclasses.fields(connection.Credentials)})
    _check_credentials(node, credentials)
    return DriverInfo(
        node_uuid=node.uuid,
        server=values['quintupleo_server'],
        credentials=credentials,
        rescue_image=values['quintupleo_rescue_image'])


def _text(node, key):
    value = node.driver_info.get(key)
    if value is None:
        return None
    # The value itself stays out of the message: it may be a secret.
    if not isinstance(value, str) or not value.strip():
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/{key} must be a text that is '
            'not empty')
    if len(value) > _LONGEST or not value.isprintable():
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/{key} must be at most '
            f'{_LONGEST} printable characters')
    return value.strip()


def _check_credentials(node, credentials):
    own = ('auth_url', 'application_credential_id',
           'application_credential_secret')
    given = [name for name in own if getattr(credentials, name)]
    if given and credentials.cloud:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info has both quintupleo_cloud and '
            f'quintupleo_{given[0]}: remove one of them')
    if not given:
        return
    for name in own[1:]:
        if name not in given:
            raise exception.MissingParameterValue(
                f'Node {node.uuid} has driver_info/quintupleo_{given[0]} '
                f'but lacks driver_info/quintupleo_{name}: an application '
                'credential needs both its id and its secret')
    if credentials.auth_url:
        _check_auth_url(node, credentials.auth_url)


def _check_auth_url(node, auth_url):
    allowed = [url.rstrip('/') for url in CONF[GROUP].allowed_auth_urls]
    configured = connection.configured_auth_url()
    if configured:
        allowed.append(configured.rstrip('/'))
    # '..' would lead out of the path that is allowed.
    if '..' in urlparse.unquote(auth_url) or not any(
            auth_url.rstrip('/') == url or auth_url.startswith(url + '/')
            for url in allowed):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/quintupleo_auth_url is not '
            'permitted: an operator can add it to '
            '[quintupleo]allowed_auth_urls')
