# SPDX-License-Identifier: Apache-2.0
"""The shape of an environment's file, as JSON schema.

etc/quintupleo/environment.yaml.sample has an example of each key.
"""

import functools
import ipaddress

import jsonschema

# Tags of what is made hold this name: Nova takes neither commas nor slashes,
# and 60 characters at the most.
ENVIRONMENT_PATTERN = '^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$'
# A dot divides the keys of what is made from these.
NAME_PATTERN = '^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$'

_TEXT = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_ADDRESS = {'type': 'string', 'minLength': 1, 'format': 'address'}
_BOOLEAN = {'type': 'boolean'}
_FALSE = {**_BOOLEAN, 'default': False}
BAREMETAL, SERVER, IRONIC = KINDS = 'baremetal', 'server', 'ironic'


def _count(least, most=1_000_000, **default):
    return {'type': 'integer', 'minimum': least, 'maximum': most, **default}


def _object(properties, *required):
    return {'type': 'object', 'properties': properties,
            'required': list(required), 'additionalProperties': False}


def _named(value):
    return {'type': 'object', 'additionalProperties': value, 'default': {},
            'propertyNames': {'pattern': NAME_PATTERN}}


def _list(items, **limits):
    return {'type': 'array', 'items': items, 'default': [], **limits}


_SUBNET = _object({
    'cidr': {**_TEXT, 'format': 'subnet'},
    'dhcp': _FALSE,
    'gateway': {'type': ['string', 'boolean'], 'format': 'address',
                'default': True},
    'dns': _list(_ADDRESS),
    'allocation_pool': _list(_ADDRESS, minItems=2, maxItems=2),
    'ipv6_mode': {'enum': ['slaac', 'dhcpv6-stateful', 'dhcpv6-stateless']},
}, 'cidr')

_NETWORK = _object({
    'existing': _TEXT,
    'subnets': _list(_SUBNET),
    'mtu': _count(68, 65535),
    'port_security': _FALSE,
    'provider': {'default': {}, **_object({
        'network_type': {'enum': ['flat', 'vlan', 'vxlan', 'gre', 'geneve']},
        'physical_network': _TEXT,
        'segmentation_id': _count(1, 2 ** 24)}, 'network_type')},
    'physical_network': _TEXT,
})

_ROUTER = _object({
    'networks': _list(_TEXT, minItems=1, uniqueItems=True),
    'external_network': _TEXT,
}, 'networks')

_DISK = _object({'size': _count(1), 'type': _TEXT, 'image': _TEXT}, 'size')

_NIC = _object({
    'network': _TEXT,
    # The MAC's first bytes, or "cloud" for what Neutron gives.
    'mac': {'type': 'string',
            'pattern': '^(cloud|[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){2,4})$'},
    # Of the first server; the others have those that follow.
    'address': _ADDRESS,
    'fixed_ip': {'enum': ['keep', 'release'], 'default': 'keep'},
    'dhcp_options': {'type': 'object', 'default': {},
                     'additionalProperties': {'type': 'string'}},
    # Without it what the network has.
    'port_security': _BOOLEAN,
    'security_groups': _list(_TEXT, minItems=1, uniqueItems=True),
    'trunk': _list(_object({
        'network': _TEXT, 'segmentation_id': _count(1, 4094)},
        'network', 'segmentation_id'), minItems=1),
    'allowed_address_pairs': _list({**_TEXT, 'format': 'addresses'},
                                   uniqueItems=True),
    'floating_ip': _TEXT,
    'pxe': _BOOLEAN,
}, 'network')

_ROLE = _object({
    'kind': {'enum': [*KINDS], 'default': BAREMETAL},
    'count': _count(0, 10000, default=1),
    # A name, or the least that it has to have: MiB of ram, GiB of disk.
    'flavor': {
        'type': ['string', 'object'], 'minLength': 1,
        'properties': {'vcpus': _count(1), 'ram': _count(1),
                       'disk': _count(0, default=0)},
        'required': ['vcpus', 'ram'], 'additionalProperties': False},
    'boot_mode': {'enum': ['bios', 'uefi'], 'default': 'bios'},
    # Of the root disk; without it the empty one of the boot mode, or the one
    # with Ironic.
    'image': _TEXT,
    # GiB; without it the root disk is one of the hypervisor.
    'root_volume': _object({'size': _count(1), 'type': _TEXT}, 'size'),
    'disks': _list(_DISK),
    'nics': _list(_NIC),
    'availability_zone': _TEXT,
    'server_group': {'enum': ['affinity', 'anti-affinity', 'soft-affinity',
                              'soft-anti-affinity']},
    'hypervisor_type': _TEXT,
    'key_name': _TEXT,
    'user_data': _TEXT,
    'config_drive': _FALSE,
    'redfish': _FALSE,
    'resource_class': _TEXT,
    'capabilities': {'type': 'object', 'default': {},
                     'additionalProperties': {'type': 'string'}},
}, 'flavor')

_VIRTUAL_IP = _object({
    'network': _TEXT,
    'roles': _list(_TEXT, minItems=1, uniqueItems=True),
    'address': _ADDRESS,
    'floating_ip': _TEXT,
}, 'network', 'roles')

_PORT = _object({
    'network': _TEXT,
    'address': _ADDRESS,
    'port_security': _BOOLEAN,
    'floating_ip': _TEXT,
}, 'network')

FILE = _object({
    'name': {'type': 'string', 'pattern': ENVIRONMENT_PATTERN},
    'networks': _named(_NETWORK),
    'routers': _named(_ROUTER),
    'roles': _named(_ROLE),
    'virtual_ips': _named(_VIRTUAL_IP),
    'ports': _named(_PORT),
}, 'roles')

# The formats of values that have several spellings.
ADDRESSES = {'address': ipaddress.ip_address, 'subnet': ipaddress.ip_network}
FORMATS = jsonschema.FormatChecker(())
for _name, _parse in (*ADDRESSES.items(), ('addresses', functools.partial(
        ipaddress.ip_network, strict=False))):
    # What is not text has a mistake of its own.
    FORMATS.checks(_name, ValueError)(lambda value, parse=_parse: (
        not isinstance(value, str) or not value or parse(value)))
