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
    :param user_data: dict of the content of files with user data by path, if
        they were read before.
    :param folder: where these files are, if not.
    :raises: DefinitionError.
    """
    source = document.Document(text, path)
    source.check_schema(schema.FILE)
    found = _definition(source.content)
    validation.Validation(source, found).run()
    if user_data is None:
        user_data = _user_data(source, found, folder)
    source.require_no_mistakes()
    return dataclasses.replace(found, user_data=tuple(user_data.items()))


def scale(definition, role, count):
    """Return the same definition with another number of servers of a role.

    :param role: its name.
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
    return model.Definition(
        name=content.get('name'),
        text=yaml.safe_dump(content, sort_keys=False),
        networks=tuple(_network(name, each)
                       for name, each in networks.items()),
        routers=tuple(
            model.Router(name, tuple(each['networks']),
                         each.get('external_network'))
            for name, each in content.get('routers', {}).items()),
        roles=tuple(_role(name, each, networks)
                    for name, each in content['roles'].items()),
        virtual_ips=tuple(
            model.VirtualIp(name, each['network'], tuple(each['roles']),
                            each.get('address'), each.get('floating_ip'))
            for name, each in content.get('virtual_ips', {}).items()),
        ports=tuple(model.Port(name, **each)
                    for name, each in content.get('ports', {}).items()))


def _network(name, content):
    return model.Network(
        name, content.get('existing'),
        tuple(map(_subnet, content.get('subnets', ()))),
        content.get('mtu'), content.get('port_security', False),
        tuple(content.get('provider', {}).items()),
        content.get('physical_network'))


def _subnet(content):
    gateway = content.get('gateway')
    pool = content.get('allocation_pool')
    return model.Subnet(
        content['cidr'], content.get('dhcp', False),
        {False: '', True: None}.get(gateway, gateway),
        tuple(content.get('dns', ())), pool and tuple(pool),
        content.get('ipv6_mode'))


def _role(name, content, networks):
    kind = content.get('kind', model.BAREMETAL)
    flavor = content['flavor']
    nics = content.get('nics', ())
    root = content.get('root_volume')
    return model.Role(
        name=name, kind=kind, count=content.get('count', 1),
        flavor=(model.Flavor(flavor) if isinstance(flavor, str)
                else model.Flavor(**flavor)),
        # Ironic boots from the first one unless the file names others.
        nics=tuple(_nic(each, networks.get(each['network'], {}), each.get(
            'pxe', number == 0 and not any('pxe' in nic for nic in nics)))
            for number, each in enumerate(nics)),
        root_volume=root and model.Disk(root['size'], root.get('type')),
        disks=tuple(
            model.Disk(each['size'], each.get('type'), each.get('image'))
            for each in content.get('disks', ())),
        capabilities=tuple(content.get('capabilities', {}).items()),
        **{key: content[key] for key in (
            'boot_mode', 'image', 'availability_zone', 'server_group',
            'hypervisor_type', 'key_name', 'user_data', 'config_drive',
            'resource_class')
            if key in content})


def _nic(content, network, pxe):
    # On a network of others a tenant may not choose.
    mac = content.get('mac', 'cloud' if 'existing' in network else MAC_PREFIX)
    return model.Nic(
        network=content['network'],
        mac_prefix=None if mac == 'cloud' else mac.lower(),
        release_fixed_ip=content.get('fixed_ip') == 'release',
        port_security=content.get('port_security'),
        security_groups=tuple(content.get('security_groups', ())),
        subports=tuple(model.Subport(**each)
                       for each in content.get('trunk', ())),
        allowed_address_pairs=tuple(content.get('allowed_address_pairs', ())),
        floating_ip=content.get('floating_ip'), pxe=pxe)
