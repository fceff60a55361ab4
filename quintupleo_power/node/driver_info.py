# SPDX-License-Identifier: Apache-2.0
"""The settings of a node: what ``driver_info`` may hold, parsed."""

import dataclasses
import re

from ironic.common import exception
from ironic import objects

from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import identifiers
from quintupleo_power.host_cloud import service_urls

_SECRET_KEY = 'quintupleo_application_credential_secret'  # nosec B105
COMMON_PROPERTIES = {
    'quintupleo_server': (
        'UUID of the Nova server that plays the node, or its name if it is '
        'unique in the project. Required.'),
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
    _SECRET_KEY: (
        'Secret of that application credential. Optional.'),
    'quintupleo_region_name': (
        'Region of the host cloud. Default: the configured one. Optional.'),
    'quintupleo_rescue_image': (
        'UUID or name of the image to boot from the network with, instead '
        'of [quintupleo]rescue_image_bios or rescue_image_uefi. Optional.'),
    'quintupleo_empty_image': (
        'UUID or name of the image that a wiped disk is made from, instead '
        'of [quintupleo]empty_image_bios or empty_image_uefi. Optional.'),
}
CONSOLE_PROPERTIES = COMMON_PROPERTIES | {
    'quintupleo_console_type': (
        'Type of the console that the host cloud is asked for: '
        f'{", ".join(consoles.PROTOCOLS)}. Default: {consoles.DEFAULT}. '
        'Optional.'),
}

_LONGEST = 255

# openstacksdk expands braces in it to other settings, passwords among them.
_REGION_NAME = re.compile(r'[^{}]+')


@dataclasses.dataclass(frozen=True)
class DriverInfo:
    """A node's settings; server and images are UUIDs or names."""

    node_uuid: str
    server: str
    credentials: connection.Credentials
    rescue_image: str | None = None
    empty_image: str | None = None


def parse(node: 'objects.Node') -> DriverInfo:
    """Read and check a node's ``driver_info``, without a request.

    :raises: MissingParameterValue if a required key is missing.
    :raises: InvalidParameterValue if a value is wrong or keys contradict
        each other.
    """
    credentials = connection.Credentials(
        **{field.name: _text(node, f'quintupleo_{field.name}')
           for field in dataclasses.fields(connection.Credentials)})
    _check_credentials(node, credentials)
    return DriverInfo(
        node_uuid=node.uuid,
        server=server(node),
        credentials=credentials,
        rescue_image=_reference(node, 'quintupleo_rescue_image'),
        empty_image=_reference(node, 'quintupleo_empty_image'))


def server(node: 'objects.Node') -> str:
    """Return the UUID or name of a node's server; raise as :func:`parse`."""
    reference = _reference(node, 'quintupleo_server')
    if reference is None:
        raise exception.MissingParameterValue(
            f'Node {node.uuid} lacks driver_info/quintupleo_server: set it '
            'to the UUID of the Nova server that plays this node')
    return reference


def console_type(node: 'objects.Node') -> str:
    """Return the key of :data:`consoles.PROTOCOLS` that a node is to have.

    It is not part of :func:`parse`: a mistake in it must not keep a node from
    being powered on.

    :raises: InvalidParameterValue if there is no such type.
    """
    wanted = _text(node, 'quintupleo_console_type') or consoles.DEFAULT
    if wanted not in consoles.PROTOCOLS:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/quintupleo_console_type must be '
            f'one of {", ".join(consoles.PROTOCOLS)}')
    return wanted


def _reference(node, key):
    value = _text(node, key)
    # A UUID becomes part of a path: in its usual form.
    return value and identifiers.reference(value)


def _text(node, key):
    # The value stays out of the message, and out of what a traceback would
    # show of this function: it may be a secret.
    mistake = _mistake(node.driver_info.get(key))
    if mistake:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/{key} must be {mistake}')
    return (node.driver_info.get(key) or '').strip() or None


def _mistake(value):
    """Return what a value should be and is not, if anything."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        return 'a string that is not empty'
    if len(value) > _LONGEST or not value.isprintable():
        return f'at most {_LONGEST} printable characters'
    return None


def _check_credentials(node, credentials):
    own = ('auth_url', 'application_credential_id',
           'application_credential_secret')
    given = [name for name in own if getattr(credentials, name)]
    if given and credentials.cloud:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info has both quintupleo_cloud and '
            f'quintupleo_{given[0]}: remove one of them')
    if credentials.cloud:
        _check_cloud(node, credentials.cloud)
    if credentials.region_name and not _REGION_NAME.fullmatch(
            credentials.region_name):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/quintupleo_region_name must be '
            'the name of a region, without braces')
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


def _check_cloud(node, name):
    allowed = CONF.quintupleo.allowed_clouds
    if allowed is not None and name not in allowed:
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/quintupleo_cloud names an entry '
            'of clouds.yaml that is not permitted: an operator can add it to '
            '[quintupleo]allowed_clouds')


def _check_auth_url(node, auth_url):
    if service_urls.permitted(auth_url, CONF.quintupleo.allowed_auth_urls):
        return
    configured = connection.configured_auth_url()
    if not configured or not service_urls.permitted(auth_url, [configured]):
        raise exception.InvalidParameterValue(
            f'Node {node.uuid}: driver_info/quintupleo_auth_url is not '
            'permitted: an operator can add it to '
            '[quintupleo]allowed_auth_urls, which takes plain http and https '
            'URLs')
