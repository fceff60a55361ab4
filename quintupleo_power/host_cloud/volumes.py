# SPDX-License-Identifier: Apache-2.0
"""The volumes of servers, as Cinder shows them to their owner."""

from oslo_log import log

from quintupleo_power.host_cloud import errors
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
    found: dict = next(filter(None, properties), {})
    if not found and len(shown) < len(server.volume_ids):
        return None
    return found


def first_disk(cinder: service.Service,
               server: servers.Server) -> int | None:
    """Return the size in GiB of the first disk that is seen, or None."""
    disks = [(_device(volume, server.id), number, volume.get('size', int))
             for number, volume in enumerate(_read_shown(cinder, server))
             if volume.part('volume_image_metadata').find(
                 'disk_format', str) != 'iso']
    return min(disks)[2] if disks else None


def _read_shown(cinder, server):
    """Return the volumes of a server that the host cloud shows.

    If it refuses to show one, return an empty list: that one may be the
    volume that the server boots from.
    """
    shown = []
    for volume_id in server.volume_ids:
        try:
            shown.append(_read(cinder, volume_id))
        except (errors.CloudMisconfigured, errors.Forbidden,
                errors.NotFound) as exc:
            LOG.debug('Volume %(volume)s of server %(server)s is not '
                      'shown: %(reason)s',
                      {'volume': volume_id, 'server': server.id,
                       'reason': exc})
            # Nova may attach volumes that the tenant does not see.
            if not isinstance(exc, errors.NotFound):
                return []
    return shown


def _read(cinder, volume_id):
    body = typed_json.Body(cinder.get(f'/volumes/{volume_id}', 'volume'),
                           'a volume', 'Cinder')
    if (its_id := body.get('id', str)) != volume_id:
        raise body.wrong(f'it is volume {its_id} and not {volume_id}')
    return body


def _device(volume, server_id):
    """Return a key that sorts by device name, the unknown ones last."""
    for attachment in volume.parts('attachments'):
        device = attachment.find('device', str)
        if attachment.find('server_id', str) == server_id and device:
            return False, len(device), device
    return True, 0, ''
