# SPDX-License-Identifier: Apache-2.0
"""The config drive of a deployment, read into what Nova takes.

Ironic keeps with the node what the user gave: a dict, an ISO, or a URL of one.
pycdlib, which Ironic itself uses, reads an ISO in memory: no mount, no
process, no file written.
"""

import base64
import dataclasses
import io
import json
import struct
import zlib

from ironic.common import exception
from ironic.common import image_service
from ironic.conductor import task_manager
from oslo_utils import units
import pycdlib
from pycdlib import pycdlibexception

_FOLDER = '/openstack/latest'
# Bytes of an ISO, of which Nova takes 48 KiB of user data and little more:
# pycdlib makes some 1 KiB of Python objects of each name in it.
_LARGEST = 2 * units.Mi
_TOO_LARGE = (f'has more than {_LARGEST} bytes: put into it no more than '
              'meta_data and user_data, and let these fetch the rest')
# What is read of it. Any number of other names may stand for the same bytes.
_NAMES = frozenset(('meta_data.json', 'network_data.json', 'user_data',
                    'vendor_data.json', 'vendor_data2.json'))
_GZIP = b'\x1f\x8b'
# What base64, zlib and pycdlib raise for a malformed ISO.
_MALFORMED = (pycdlibexception.PyCdlibException, struct.error, LookupError,
              TypeError, ValueError, zlib.error)

# Nova has its own values for these.
_OF_THE_HOST_CLOUD = frozenset((
    'availability_zone', 'dedicated_cpus', 'devices', 'launch_index', 'name',
    'project_id', 'random_seed', 'uuid'))
# "keys" repeats public_keys.
_HANDED_OVER = frozenset(('admin_pass', 'hostname', 'keys', 'meta',
                          'public_keys'))


@dataclasses.dataclass(frozen=True)
class ConfigDrive:
    """What Nova takes of a config drive, as OpenStack's metadata has it."""

    user_data: bytes | None = dataclasses.field(default=None, repr=False)
    hostname: str | None = None
    name: str | None = None
    public_key: str | None = None
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    admin_pass: str | None = dataclasses.field(default=None, repr=False)
    network_data: dict = dataclasses.field(default_factory=dict)


def of_task(task: task_manager.TaskManager,
            fetch: bool = True) -> ConfigDrive | None:
    """Read the config drive that a task's node is to have.

    :param fetch: whether to fetch it if the node has a URL of it.
    :returns: an empty one if none is wanted; None if it is not to be fetched.
    :raises: InvalidParameterValue if it is not a config drive, or asks for
        what Nova does not take.
    """
    wanted = task.node.instance_info.get('configdrive')
    try:
        if not wanted:
            return ConfigDrive()
        if isinstance(wanted, dict):
            return _of_dict(wanted)
        if not isinstance(wanted, str):
            raise _Unusable('is neither a dict nor a string')
        if wanted.startswith(('http://', 'https://')):
            return _of_iso(_fetched(task, wanted)) if fetch else None
        return _of_iso(wanted.encode())
    except _Unusable as exc:
        raise exception.InvalidParameterValue(
            f'Node {task.node.uuid}: its config drive {exc}') from None


class _Unusable(Exception):
    """What is wrong with a config drive, as the rest of a sentence."""


def _of_dict(wanted):
    # The keys are those of ironic.conductor.utils.build_configdrive.
    unknown = wanted.keys() - {'meta_data', 'network_data', 'user_data',
                               'vendor_data'}
    if unknown:
        raise _Unusable(f'has {", ".join(sorted(map(str, unknown)))}, which '
                        'no config drive has')
    user_data = wanted.get('user_data')
    if isinstance(user_data, (dict, list)):
        user_data = json.dumps(user_data)
    if isinstance(user_data, str):
        try:
            user_data = user_data.encode()
        except UnicodeEncodeError:
            raise _Unusable('has user_data that is not Unicode text')
    return _made(user_data, *(wanted.get(name) or {} for name in (
        'meta_data', 'network_data', 'vendor_data')))


def _fetched(task, href):
    content = _Bounded()
    try:
        image_service.get_image_service(href, context=task.context).download(
            href, content)
    except exception.IronicException:
        # A temporary URL is a secret.
        raise _Unusable('cannot be fetched from where it is')
    return content.getvalue()


class _Bounded(io.BytesIO):
    """Takes no more than a config drive may have."""

    def write(self, content):
        if self.tell() + len(content) > _LARGEST:
            raise _Unusable(_TOO_LARGE)
        return super().write(content)


def _of_iso(content):
    iso = pycdlib.PyCdlib()
    try:
        iso.open_fp(io.BytesIO(_unpacked(content)))
        try:
            files = _files(iso)
        finally:
            iso.close()
    except _MALFORMED as exc:
        raise _Unusable(f'is not an ISO with {_FOLDER}, compressed by gzip '
                        f'and encoded as base64 ({exc}): give it as a dict '
                        'of meta_data, user_data and network_data')
    vendor_data = {**_json(files, 'vendor_data.json'),
                   **_json(files, 'vendor_data2.json')}
    return _made(files.get('user_data'), _json(files, 'meta_data.json'),
                 _json(files, 'network_data.json'), vendor_data)


def _unpacked(content):
    if not content.startswith(_GZIP):
        # Only what comes from a URL may be binary.
        content = base64.b64decode(content)
    # The window of gzip's format.
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    unpacked = unpacking.decompress(content, _LARGEST + 1)
    if len(unpacked) > _LARGEST:
        raise _Unusable(_TOO_LARGE)
    if not unpacking.eof:
        raise ValueError('it was cut off')
    return unpacked


def _files(iso):
    """Return the files of an ISO's folder, as bytes by name."""
    # Names of ISO 9660 itself are short and in capitals.
    names = 'rr_path' if iso.has_rock_ridge() else 'joliet_path'
    # Older releases of pycdlib fail at a path that is not there.
    _, _, found = next(iso.walk(**{names: _FOLDER}))
    files = {}
    for name in _NAMES & set(found):
        content = io.BytesIO()
        iso.get_file_from_iso_fp(content, **{names: f'{_FOLDER}/{name}'})
        files[name] = content.getvalue()
    return files


def _json(files, name):
    content = files.get(name)
    if not content:
        return {}
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise _Unusable(f'has a {name} that is not JSON')


def _made(user_data, meta_data, network_data, vendor_data):
    for name, value in (('meta_data', meta_data),
                        ('network_data', network_data),
                        ('vendor_data', vendor_data)):
        if not isinstance(value, dict):
            raise _Unusable(f'has a {name} that is not a JSON object')
    if any(vendor_data.values()):
        raise _Unusable('has vendor_data, which only the operator of the host '
                        'cloud can set: put it into user_data')
    if user_data is not None and not isinstance(user_data, bytes):
        raise _Unusable('has user_data that is not a string')
    lost = {name for name, value in meta_data.items() if value} - (
        _OF_THE_HOST_CLOUD | _HANDED_OVER)
    if lost:
        raise _Unusable(f'has meta_data/{", ".join(sorted(lost))}, which '
                        'Nova does not take: put it into user_data or meta')
    return ConfigDrive(
        user_data=user_data or None,
        hostname=_text(meta_data, 'hostname'),
        name=_text(meta_data, 'name'),
        public_key=_key(meta_data.get('public_keys')),
        metadata=_metadata(meta_data.get('meta')),
        admin_pass=_text(meta_data, 'admin_pass'),
        network_data=network_data)


def _text(meta_data, name):
    value = meta_data.get(name) or None
    if value is not None and not isinstance(value, str):
        raise _Unusable(f'has a meta_data/{name} that is not a string')
    return value


def _key(keys):
    if isinstance(keys, dict):
        keys = list(keys.values())
    if not keys:
        return None
    if not isinstance(keys, list) or not all(
            isinstance(key, str) for key in keys):
        raise _Unusable('has meta_data/public_keys that are not strings')
    # One key under two names is one key.
    count = len(set(keys))
    if count > 1:
        raise _Unusable(
            f'has {count} SSH keys in meta_data/public_keys, and Nova '
            'gives a server one: put the others into user_data')
    return keys[0].strip()


def _metadata(meta):
    meta = meta or {}
    if not isinstance(meta, dict) or not all(
            isinstance(text, str) and len(text) <= 255
            for item in meta.items() for text in item):
        raise _Unusable('has a meta_data/meta of which a name or value is not '
                        'a string of up to 255 characters')
    return meta
