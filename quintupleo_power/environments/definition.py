# SPDX-License-Identifier: Apache-2.0
"""Reads the file of an environment; each mistake is reported with its line.

The shape of the file is :mod:`quintupleo_power.environments.schema`.
"""

import dataclasses
import pathlib

import yaml

from quintupleo_power.environments import document
from quintupleo_power.environments import errors
from quintupleo_power.environments import model
from quintupleo_power.environments import schema
from quintupleo_power.environments import validation

# Neutron's own begins with fa:, which agents of newer releases pass over.
MAC_PREFIX = '52:54:00'


def load(path):
    """Return the :class:`model.Definition` in a file.

    Files with user data are looked for beside it.

    :raises: DefinitionError.
    """
    return parse(_read(path), path, folder=pathlib.Path(path).parent)


def parse(text, path='environment', user_data=None, folder=None):
    """Return the :class:`model.Definition` in a text.

    :param text: YAML.
    :param path: name of the file in errors.
    :param user_data: dict of the content of files with user data by path;
        None to read them from the folder.
    :raises: DefinitionError.
    """
    source = document.Document(text, path)
    source.check_schema(schema.FILE, schema.FORMATS)
    found = _definition(source.content)
    validation.Validation(source, found).run()
    if user_data is None:
        user_data = _user_data(source, found, folder)
    source.require_no_mistakes()
    return dataclasses.replace(found, user_data=tuple(user_data.items()))


def scale(definition, role, count):
    """Return the same definition with another number of servers of a role.

    :raises: DefinitionError if the role does not exist.
    """
    content = yaml.safe_load(definition.text)
    if role not in content['roles']:
        raise errors.DefinitionError(
            f'Role "{role}" does not exist; the roles are '
            + ', '.join(content['roles']))
    content['roles'][role]['count'] = count
    return parse(yaml.safe_dump(content, sort_keys=False),
                 'the definition', dict(definition.user_data))


def _read(path):
    try:
        with open(path, encoding='utf-8') as source:
            return source.read()
    except OSError as exc:
        raise errors.DefinitionError(
            f'{path} cannot be read: {exc.strerror}')
    except UnicodeDecodeError as exc:
        raise errors.DefinitionError(
            f'{path} is not text in UTF-8: {exc.reason}')


def _user_data(source, found, folder):
    """Return the content of the files with user data by path."""
    contents = {}
    for role in found.roles:
        if role.user_data and role.user_data not in contents:
            try:
                contents[role.user_data] = _read(
                    pathlib.Path(folder or '.') / role.user_data)
            except errors.DefinitionError as exc:
                source.mistake(('roles', role.name, 'user_data'), str(exc))
    return contents


def _definition(content):
    """Return the immutable form of what fits the schema."""
    networks = content.get('networks', {})

    def parts(key, convert):
        return tuple(convert({'name': name, **each})
                     for name, each in content.get(key, {}).items())

    return model.Definition(
        name=content.get('name'),
        text=yaml.safe_dump(content, sort_keys=False),
        networks=parts('networks', _network),
        routers=parts('routers', lambda each: _make(model.Router, each)),
        roles=parts('roles', lambda each: _role(each, networks)),
        virtual_ips=parts('virtual_ips',
                          lambda each: _make(model.VirtualIp, each)),
        ports=parts('ports', lambda each: _make(model.Port, each)))


def _make(part, content, **converted):
    """Return a part of the model, whose fields are the keys of the file."""
    return part(**{key: tuple(value) if isinstance(value, list) else value
                   for key, value in {**content, **converted}.items()})


def _network(content):
    return _make(model.Network, content, subnets=[
        _make(model.Subnet, each) for each in content.get('subnets', ())])


def _role(content, networks):
    flavor, nics = content['flavor'], content.get('nics', ())
    root = content.get('root_volume')
    # Ironic boots from the first one unless the file names others.
    is_chosen = any('pxe' in nic for nic in nics)
    return _make(
        model.Role, content,
        flavor=(model.Flavor(flavor) if isinstance(flavor, str)
                else model.Flavor(**flavor)),
        nics=[_nic({'pxe': number == 0 and not is_chosen, **nic}, networks)
              for number, nic in enumerate(nics)],
        root_volume=root and model.Disk(**root),
        disks=[model.Disk(**disk) for disk in content.get('disks', ())])


def _nic(content, networks):
    # On a network of others a tenant may not choose.
    is_theirs = 'existing' in networks.get(content['network'], {})
    mac = content.get('mac', 'cloud' if is_theirs else MAC_PREFIX).lower()
    return _make(
        model.Nic, content, mac=None if mac == 'cloud' else mac,
        trunk=[model.Subport(**each) for each in content.get('trunk', ())])
