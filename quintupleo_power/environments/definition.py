# SPDX-License-Identifier: Apache-2.0
"""What the file of an environment defines, in one form that is compared."""

import dataclasses
import pathlib
import types

import yaml

from quintupleo_power.environments import errors
from quintupleo_power.environments import schema
from quintupleo_power.environments import validation
from quintupleo_power.environments import yaml_document

# Neutron's own begins with fa:, which agents of newer releases pass over.
MAC_PREFIX = '52:54:00'


@dataclasses.dataclass(frozen=True)
class Definition:
    """All of a file, its keys as attributes, with the schema's defaults.

    What users name is in lists, with the name as an attribute. ``network``,
    ``networks`` and ``roles`` hold names of the file; ``existing``,
    ``external_network``, ``floating_ip``, ``image`` and ``security_groups``
    hold UUIDs or names in the host cloud. None leaves the choice to the host
    cloud; it is the MAC address of a NIC whose file says "cloud".

    :ivar text: the file's content, as YAML without comments.
    :ivar user_data: the content of the files with user data, by path.
    """

    name: str | None
    networks: list
    routers: list
    roles: list
    virtual_ips: list
    ports: list
    text: str = dataclasses.field(compare=False)
    user_data: dict


def load(path):
    """Return the :class:`Definition` in a file, or raise EnvironmentsError.

    Files with user data are looked for beside it.
    """
    return parse(_read(path), path, folder=pathlib.Path(path).parent)


def parse(text, path='environment', user_data=None, folder=None):
    """Return the :class:`Definition` in YAML, or raise EnvironmentsError.

    :param path: name of the file in errors.
    :param user_data: dict of the content of files with user data by path;
        None to read them from the folder.
    """
    source = yaml_document.Document(text, path)
    source.check_schema(schema.FILE, schema.FORMATS)
    if user_data is None:
        user_data = _user_data(source, folder)
    found = _definition(source.content, user_data=user_data)
    validation.Validation(source, found).run()
    source.require_no_mistakes()
    return found


def scale(definition, role, count):
    """Return the same definition with another number of servers of a role.

    :raises: EnvironmentsError if the role does not exist.
    """
    content = yaml.safe_load(definition.text)
    if role not in content['roles']:
        raise errors.EnvironmentsError(
            f'Role "{role}" does not exist; the roles are '
            + ', '.join(content['roles']))
    content['roles'][role]['count'] = count
    return parse(yaml.safe_dump(content, sort_keys=False),
                 'the definition', definition.user_data)


def _read(path):
    try:
        return pathlib.Path(path).read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.EnvironmentsError(f'{path} cannot be read: {exc}')


def _user_data(source, folder):
    contents = {}
    for name, role in source.content['roles'].items():
        path = role.get('user_data')
        if path and path not in contents:
            try:
                contents[path] = _read(pathlib.Path(folder or '.') / path)
            except errors.EnvironmentsError as exc:
                source.mistake(('roles', name, 'user_data'), str(exc))
    return contents


def _definition(content, **others):
    found = _completed(schema.FILE, content)
    existing = {each.name for each in found.networks if each.existing}
    for role in found.roles:
        # Ironic boots from the first one unless the file names others.
        is_chosen = any(nic.pxe is not None for nic in role.nics)
        for number, nic in enumerate(role.nics):
            if nic.pxe is None:
                nic.pxe = number == 0 and not is_chosen
            # On a network of others a tenant may not choose.
            mac = nic.mac or (
                'cloud' if nic.network in existing else MAC_PREFIX)
            nic.mac = None if mac == 'cloud' else mac.lower()
    return Definition(text=yaml.safe_dump(content, sort_keys=False),
                      **vars(found), **others)


def _completed(shape, content):
    """Return content as namespaces, with the defaults of its schema."""
    if isinstance(content, list):
        return [_completed(shape['items'], each) for each in content]
    if isinstance(content, dict) and 'propertyNames' in shape:
        named = shape['additionalProperties']
        return [types.SimpleNamespace(
            name=name, **vars(_completed(named, each)))
            for name, each in content.items()]
    if isinstance(content, dict) and 'properties' in shape:
        return types.SimpleNamespace(**{
            key: _completed(inner, content.get(key, inner.get('default')))
            for key, inner in shape['properties'].items()})
    if isinstance(content, str) and shape.get('format') in schema.ADDRESSES:
        # One spelling, in which definitions are compared.
        return str(schema.ADDRESSES[shape['format']](content))
    return content
