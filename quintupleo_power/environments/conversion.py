# SPDX-License-Identifier: Apache-2.0
"""Turn a nodes file that was written for virtual BMCs into one for quintupleo.

Two kinds of file are read: TripleO's (``instackenv.json``, the ``nodes.json``
of OVB) and that of ``openstack baremetal create``. What comes out is of the
second kind. Nothing here asks a cloud.
"""

import dataclasses
import re
from urllib import parse

DRIVER = 'quintupleo'

# What the hardware type has, by the names that Ironic 24.1 to 39 give them.
# Network and storage interfaces do not depend on the hardware type.
INTERFACES = {
    'bios_interface': ('no-bios',),
    'boot_interface': ('ipxe', 'pxe', 'http-ipxe', 'http',
                       'quintupleo-virtual-media'),
    'console_interface': (DRIVER, 'no-console', 'fake-graphical'),
    'deploy_interface': ('direct', 'ansible', 'ramdisk', 'anaconda',
                         'custom-agent', 'bootc', 'autodetect',
                         'quintupleo-rebuild'),
    'firmware_interface': ('no-firmware',),
    'inspect_interface': ('agent', 'inspector', 'no-inspect', DRIVER),
    'management_interface': (DRIVER,),
    'power_interface': (DRIVER,),
    'raid_interface': ('no-raid', 'agent'),
    'rescue_interface': ('no-rescue', 'agent'),
    'vendor_interface': (DRIVER, 'no-vendor'),
}

_OF_BMC = (
    'pm_', 'bmc_', 'ipmi_', 'redfish_', 'amt_', 'cimc_', 'drac_', 'ibmc_',
    'iboot_', 'idrac_', 'ilo_', 'irmc_', 'ovirt_', 'snmp_', 'ssh_', 'ucs_',
    'wol_', 'xclarity_', 'firmware_update_unresponsive_bmc_wait')
_SECRET = re.compile('passw|secret|token|credential|private_key|api_key',
                     re.IGNORECASE)
_UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}',
                   re.IGNORECASE)
_MAC = re.compile('[0-9a-f]{2}(:[0-9a-f]{2}){5}')

# Fields of a node in a file of TripleO that Ironic calls otherwise.
_PROPERTIES = {'cpu': 'cpus', 'memory': 'memory_mb', 'disk': 'local_gb',
               'arch': 'cpu_arch', 'root_device': 'root_device'}
_IMAGES = {'kernel_id': ('deploy_kernel', 'rescue_kernel'),
           'ramdisk_id': ('deploy_ramdisk', 'rescue_ramdisk')}
_TRIPLEO = {*_PROPERTIES, *_IMAGES, 'mac', 'capabilities', 'profile',
            'platform', '_comment'}
# Fields that it shares with Ironic.
_SHARED = {
    *INTERFACES, 'automated_clean', 'chassis_uuid', 'conductor_group',
    'description', 'disable_power_off', 'driver_info', 'extra',
    'instance_name', 'lessee', 'name', 'network_data', 'network_interface',
    'owner', 'parent_node', 'portgroups', 'ports', 'properties',
    'resource_class', 'shard', 'storage_interface', 'traits', 'uuid'}


class ConversionError(Exception):
    """A file that cannot be converted; the text has a line per mistake."""


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What became of a file.

    :ivar content: for ``openstack baremetal create``, as a dict.
    :ivar notes: sentences about what was left out, as a tuple.
    """

    content: dict
    notes: tuple[str, ...] = ()


def convert(content, find_server, cloud=None):
    """Convert a file.

    :param content: what the file holds; it is not changed.
    :param find_server: function of an identifier or None, and a tuple of MAC
        addresses in lower case, one of which is empty. It returns the server
        with that UUID or name, or with any of these addresses, as something
        with ``id`` and ``name``; None if there is none. It raises
        ConversionError if the addresses are those of several servers, with
        the end of a sentence that begins with the node.
    :param cloud: the conductor's entry of clouds.yaml for the host cloud;
        None for what section [quintupleo] names.
    :returns: a :class:`Conversion`.
    :raises: ConversionError for all mistakes at once.
    """
    return _Converter(find_server, cloud).run(content)


class _Converter:

    def __init__(self, find_server, cloud):
        self._find_server = find_server
        self._cloud = cloud
        self._count = 0
        self._notes = []
        self._mistakes = []
        # What no two nodes may share, and the node that has it.
        self._taken = {}

    def run(self, content):
        """Convert a file's content.

        :raises: ConversionError.
        """
        try:
            converted = self._file(content)
        except ConversionError as exc:
            self._mistakes.append(f'The file: {exc}')
        if self._mistakes:
            raise ConversionError('\n'.join(self._mistakes))
        return Conversion(converted, tuple(self._notes))

    def _file(self, content):
        if not isinstance(content, dict):
            raise ConversionError(
                'it has to be a mapping with the key "nodes"')
        if 'nodes' not in content and 'chassis' not in content:
            raise ConversionError(
                'the key "nodes" is missing: give the file that was made '
                'for "openstack baremetal create" or for "openstack '
                'overcloud node import"')
        for key in content:
            if key not in ('nodes', 'chassis'):
                self._note('The file', key)
        converted = {}
        if 'chassis' in content:
            converted['chassis'] = [
                self._chassis(each) for each in _mappings(content, 'chassis')]
        if 'nodes' in content:
            converted['nodes'] = self._nodes(content)
        if not self._count:
            raise ConversionError(
                'there is no node in it: add some to "nodes"')
        return converted

    def _chassis(self, chassis):
        kept = self._without_secrets(
            {key: value for key, value in chassis.items() if key != 'nodes'},
            'The file', 'chassis')
        if 'nodes' in chassis:
            kept['nodes'] = self._nodes(chassis)
        return kept

    def _nodes(self, content):
        if not isinstance(content['nodes'], list):
            raise ConversionError('"nodes" has to be a list')
        return [self._node(each) for each in content['nodes']]

    def _node(self, node):
        """Convert a node; None, and a mistake noted, if it cannot be."""
        self._count += 1
        label = f'Node {self._count}'
        try:
            if not isinstance(node, dict):
                raise ConversionError('it has to be a mapping of keys')
            label = _label(node, self._count)
            for key in ('name', 'uuid'):
                if node.get(key) not in (None, ''):
                    self._take_apart(label, key, str(node[key]))
            return self._converted(node, label)
        except ConversionError as exc:
            self._mistakes += [f'{label}: {line}'
                               for line in str(exc).splitlines()]
            return None

    def _take_apart(self, label, key, value):
        """Note a mistake if another node has the same."""
        first = self._taken.setdefault((key, value), self._count)
        if first != self._count:
            self._mistakes.append(
                f'{label}: number {self._count} in the file has the same '
                f'{key} as number {first}: change one of them')

    def _converted(self, node, label):
        identifier = _identifier(node)
        kept = (self._from_ironic(node) if _is_of_ironic(node)
                else self._from_tripleo(node, label))
        kept = self._without_secrets(kept, label)
        macs = self._macs(kept)
        server = self._server(identifier, macs)
        self._drop_interfaces(kept, label)
        _write_capabilities(kept)
        return self._finished(kept, server)

    def _from_ironic(self, node):
        # Drivers that are not part of Ironic name their keys after themselves.
        of_driver = f'{node["driver"]}_'
        kept = {key: value for key, value in node.items()
                if not _is_of_bmc(key)}
        kept['driver_info'] = {
            key: value for key, value in _mapping(node, 'driver_info').items()
            if not _is_of_bmc(key) and not str(key).startswith(of_driver)}
        return kept

    def _from_tripleo(self, node, label):
        kept = {key: value for key, value in node.items()
                if key in _SHARED and value is not None}
        for key in node:
            if key not in _TRIPLEO | _SHARED and not _is_of_bmc(key):
                self._note(label, key)
        # What "overcloud node import" gives a node that has none.
        kept.setdefault('resource_class', 'baremetal')
        images = {new: node[old] for old, names in _IMAGES.items()
                  for new in names if node.get(old)}
        kept['driver_info'] = images | {
            key: value for key, value in _mapping(node, 'driver_info').items()
            if not _is_of_bmc(key)}
        properties = dict(_mapping(node, 'properties'))
        properties.update(
            (new, node[old]) for old, new in _PROPERTIES.items()
            if node.get(old) not in (None, ''))
        capabilities = _capabilities(node.get('capabilities'))
        if node.get('profile'):
            capabilities['profile'] = node['profile']
        if capabilities:
            properties['capabilities'] = capabilities
        kept['properties'] = properties
        if node.get('platform'):
            kept['extra'] = _mapping(node, 'extra') | {
                'tripleo_platform': node['platform']}
        kept['ports'] = _ports(node)
        if not kept['ports']:
            del kept['ports']
        return kept

    def _without_secrets(self, value, label, where=''):
        if isinstance(value, list):
            return [self._without_secrets(each, label, where)
                    for each in value]
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, inside in value.items():
            path = f'{where}/{key}'.lstrip('/')
            if _SECRET.search(str(key)):
                self._note(label, path, ': it may be a secret')
            else:
                kept[key] = self._without_secrets(inside, label, path)
        return kept

    def _note(self, label, what, why=''):
        self._notes.append(f'{label}: "{what}" is left out{why}.')

    def _macs(self, node):
        """Give the MAC addresses of a node, and their usual form to them."""
        ports = list(_mappings(node, 'ports'))
        for group in _mappings(node, 'portgroups'):
            ports += _mappings(group, 'ports')
        for port in ports:
            port['address'] = _mac(port.get('address'))
            first = self._taken.setdefault(port['address'], self._count)
            if first != self._count:
                raise ConversionError(
                    f'node {first} has the MAC address {port["address"]}, '
                    'too: change one of them')
        macs = tuple(port['address'] for port in ports)
        if len(set(macs)) < len(macs):
            raise ConversionError(
                'it has a MAC address twice: remove one of them')
        return macs

    def _server(self, identifier, macs):
        if identifier is None and not macs:
            raise ConversionError(
                'it has no MAC address to find its server by: add one to '
                '"ports"')
        named = identifier and self._find_server(identifier, ())
        if identifier and not named:
            raise ConversionError(
                'there is no server '
                # What is no UUID may be anything, even a password.
                + (identifier if _UUID.fullmatch(identifier) else 'such')
                + ' as its system id names: correct it, or use the project '
                'that has the server')
        found = self._find_server(None, macs) if macs else named
        if not found:
            raise ConversionError(
                f'no server has {_addresses(macs)}: correct "ports", or use '
                'the project that has the server')
        if named and named.id != found.id:
            raise ConversionError(
                f'its system id names {_server(named)} but {_server(found)} '
                f'has {_addresses(macs)}: correct one of them')
        first = self._taken.setdefault(('server', found.id), self._count)
        if first != self._count:
            raise ConversionError(
                f'{_server(found)} plays node {first} already: remove one of '
                'them')
        return found

    def _drop_interfaces(self, node, label):
        for field, known in INTERFACES.items():
            if field in node and node[field] not in known:
                name = node.pop(field)
                if name:
                    self._note(
                        label, f'{field}: {name}' if isinstance(name, str)
                        else field, ': the hardware type quintupleo has no '
                        "such interface; Ironic's default takes its place")

    def _finished(self, node, server):
        reference = {'quintupleo_server': server.id}
        if self._cloud:
            reference['quintupleo_cloud'] = self._cloud
        name = node.pop('name', None)
        named = {} if name in (None, '') else {'name': str(name)}
        return {**named, 'driver': DRIVER,
                'driver_info': reference | node.pop('driver_info'),
                **{key: value for key, value in node.items()
                   if key != 'driver'}}


def _label(node, number):
    for key in ('name', 'uuid'):
        if isinstance(node.get(key), (str, int)) and node[key] != '':
            return f'Node "{node[key]}"'
    return f'Node {number}'


def _is_of_bmc(key):
    return str(key).startswith(_OF_BMC)


def _addresses(macs):
    return ('the MAC address ' if len(macs) == 1
            else 'one of the MAC addresses ') + ', '.join(macs)


def _server(server):
    return f'server {server.id} ({server.name})'


def _is_of_ironic(node):
    of_tripleo = 'mac' in node or any(
        str(key).startswith('pm_') for key in node)
    if 'driver' not in node:
        if of_tripleo:
            return False
        raise ConversionError(
            'it has neither "driver" nor "pm_type": add the one that the '
            'format of the file asks for')
    if of_tripleo:
        raise ConversionError(
            'it has "driver" and keys of TripleO (mac, pm_*): remove those '
            'of one format')
    if node['driver'] == DRIVER:
        raise ConversionError(
            'it is a node of quintupleo already: remove it from the file')
    return True


def _mapping(content, key):
    value = content.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConversionError(
            f'"{key}" has to be a mapping of keys: correct it')
    return value


def _mappings(content, key):
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(
            isinstance(each, dict) for each in value):
        raise ConversionError(
            f'"{key}" has to be a list of mappings: correct it')
    return value


def _identifier(node):
    """Give what the emulator of a Redfish BMC calls the server, or None."""
    path = (node.get('pm_system_id')
            or node.get('redfish_system_id')
            or _mapping(node, 'driver_info').get('redfish_system_id'))
    if path is None:
        return None
    try:
        # Of a URL, which may hold a password, only the path is looked at.
        last = parse.urlsplit(path).path.rstrip('/').rpartition('/')[2]
    except (AttributeError, TypeError, ValueError):
        last = ''
    if not last:
        raise ConversionError(
            'its system id names no server: it has to end with the UUID of '
            'one')
    return parse.unquote(last)


def _mac(value):
    if not isinstance(value, str):
        # YAML 1.1 makes a number of 52:54:00:12:34:56.
        raise ConversionError(
            'the address of a port has to be text: put the MAC address into '
            'quotes')
    mac = value.strip().lower().replace('-', ':')
    if not _MAC.fullmatch(mac):
        raise ConversionError(
            'the address of a port is no MAC address: correct it')
    return mac


def _ports(node):
    """Give the ports of a node of TripleO, in either of its two forms."""
    macs = node.get('mac') or []
    macs = macs if isinstance(macs, list) else [macs]
    ports = _mappings(node, 'ports')
    known = {_mac(port.get('address')) for port in ports}
    return ports + [{'address': mac} for mac in map(_mac, macs)
                    if mac not in known]


def _capabilities(value):
    """Give capabilities as a dict."""
    if not value:
        return {}
    if isinstance(value, dict):
        return dict(value)
    pairs = value.split(',') if isinstance(value, str) else ['']
    if not all(':' in pair for pair in pairs):
        raise ConversionError(
            '"capabilities" has to be like '
            '"profile:compute,boot_mode:uefi": correct it')
    return dict(pair.strip().split(':', 1) for pair in pairs)


def _write_capabilities(node):
    """Write capabilities as Ironic reads them."""
    capabilities = _mapping(node, 'properties').get('capabilities')
    if isinstance(capabilities, dict):
        node['properties']['capabilities'] = ','.join(
            f'{key}:{str(value).lower() if isinstance(value, bool) else value}'
            for key, value in capabilities.items() if value is not None)
