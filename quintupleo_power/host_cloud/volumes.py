# SPDX-License-Identifier: Apache-2.0
"""The volumes of servers, as Cinder shows them to their owner."""

import math

from oslo_log import log

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images
from quintupleo_power.host_cloud import servers
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

LOG = log.getLogger(__name__)


def image_properties(cinder: service.Service, server: servers.Server
                     ) -> dict | None:
    """Return the properties of the image that a server's volumes are of.

    :returns: named as in Glance; empty if no volume that can be booted
        from was made from an image; None if the host cloud does not show
        the volumes.
    """
    shown = _read_shown(cinder, server)
    properties = [
        volume.find('volume_image_metadata', dict) for volume in shown
        # "true" and "false" in Cinder's API.
        if str(volume.get('bootable', str, bool)).lower() == 'true']
    # The device of another CD may come before that of the boot volume.
    found: dict = min(filter(None, properties), default={}, key=lambda img: (
        img.get('disk_format') == 'iso' and not images.is_network_first(img)))
    return found if found or len(shown) == len(server.volume_ids) else None


def first_disk(cinder: service.Service, server: servers.Server) -> int | None:
    """Return the size in GiB of the first disk that is seen, or None."""
    return next((volume.get('size', int)
                 for volume in _read_shown(cinder, server)
                 if volume.part('volume_image_metadata').find(
                     'disk_format', str) != 'iso'), None)


def ordered_ids(cinder: service.Service, server: servers.Server) -> list[str]:
    """Return the UUIDs of a server's volumes in the order of its devices."""
    return [each.get('id', str) for each in _in_order(
        [_read(cinder, each) for each in server.volume_ids], server)]


def _read_shown(cinder, server):
    """Return the volumes of a server that the host cloud shows, in order.

    If it refuses to show one, which may be the boot volume, return none.
    """
    shown = []
    for volume_id in server.volume_ids:
        try:
            shown.append(_read(cinder, volume_id))
        except (errors.CloudMisconfigured, errors.Forbidden,
                errors.NotFound) as exc:
            LOG.debug('Volume %s of server %s is not shown: %s',
                      volume_id, server.id, exc)
            # Nova may attach volumes that the tenant does not see.
            if not isinstance(exc, errors.NotFound):
                return []
    return _in_order(shown, server)


def _read(cinder, volume_id):
    body = typed_json.Body(cinder.get(f'/volumes/{volume_id}', 'volume'),
                           'a volume', 'Cinder')
    if (its_id := body.get('id', str)) != volume_id:
        raise body.wrong(f'it is volume {its_id} and not {volume_id}')
    return body


def _in_order(found, server):
    """Return volumes by device: Nova and Cinder list them in any order."""
    return sorted(found, key=lambda volume: min((
        (len(device), device) for each in volume.parts('attachments')
        if each.find('server_id', str) == server.id
        and (device := each.find('device', str))), default=(math.inf, '')))
