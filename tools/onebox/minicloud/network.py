# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch of minicloud's own, and this machine's ports on networks.

It is the userspace datapath: it needs no kernel module. It has its own
database, sockets and logs, so that an Open vSwitch of the machine's is left
alone.
"""

import ipaddress
import json
import re

from onebox.minicloud import api
from onebox.minicloud import settings
from onebox import processes
from onebox import system

SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
# What Nova and Neutron call the devices of a guest's or a router's port.
GUEST_DEVICE = re.compile(r'(qbr|qvb|qvo|tap|qr-|qg-)[0-9a-f]{8}-[0-9a-f]{2}$')
OWNER = 'minicloud:host'
BRIDGES = settings.BRIDGE, settings.EXTERNAL_BRIDGE


def _vsctl(cloud, *words, check=True):
    return system.run(
        ['ovs-vsctl', '--timeout=20', '--db=unix:%s' % _socket(cloud),
         *words], check=check, env=cloud.environment())


def _socket(cloud):
    return cloud.run / 'ovs' / 'db.sock'


def prepare(cloud, service):
    """Make the database of Open vSwitch."""
    system.make_dir(cloud.run / 'ovs', 0o700)
    folder = system.make_dir(cloud.data / 'ovs', 0o700)
    if not (folder / 'conf.db').exists():
        system.run(['ovsdb-tool', 'create', folder / 'conf.db', SCHEMA],
                   env=cloud.environment())


def prepare_switch(cloud, service):
    """Remove what hung on a switch that was killed.

    Its devices in other namespaces are dead, and a new switch makes those of
    their names in this one. Agents that start again make all of it.
    """
    for name in ('neutron-openvswitch-agent', 'neutron-dhcp-agent',
                 'neutron-l3-agent'):
        processes.Daemon(name, cloud.run, cloud.logs).stop(grace=3)
    remove_dhcp(cloud)
    remove_routers(cloud)


def database_ready(cloud, service):
    """The database server answers; the database is filled at first.

    With segmentation offload the switch also passes on which checksums a
    guest left to be done; without it, what a Linux guest sends by TCP reaches
    this machine with wrong ones.
    """
    return _vsctl(
        cloud, '--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.',
        'other_config:userspace-tso-enable=true', check=False).returncode == 0


def switch_ready(cloud, service):
    """The switch works on what the database says, and has our bridge."""
    return add_bridge(cloud, settings.BRIDGE, check=False).returncode == 0


def add_bridge(cloud, name, check=True):
    """Have a bridge in the switch.

    :param cloud: the settings.
    :param name: name of the bridge, and of this machine's device on it.
    :param check: whether a failure is an error.
    """
    return _vsctl(cloud, '--may-exist', 'add-br', name, '--', 'set',
                  'Bridge', name, 'datapath_type=netdev', check=check)


def plug(cloud, port_id, mac, address, device):
    """Put this machine on a network, through one of the network's ports.

    Whatever listens on the address serves the guests of that network.

    :param cloud: the settings.
    :param port_id: UUID of a Neutron port whose host is minicloud.
    :param mac: its MAC address.
    :param address: address with prefix length for this machine.
    :param device: name of the network device to make.
    :raises: Error when Neutron does not connect it.
    """
    _vsctl(cloud, '--may-exist', 'add-port', settings.BRIDGE, device,
           '--', 'set', 'Interface', device, 'type=internal',
           'mac="%s"' % mac, 'external_ids:iface-id=%s' % port_id,
           'external_ids:attached-mac="%s"' % mac,
           'external_ids:iface-status=active')
    system.run(['ip', 'link', 'set', device, 'address', mac])
    system.run(['ip', 'address', 'replace', address, 'dev', device])
    system.run(['ip', 'link', 'set', device, 'up'])
    client = api.admin(cloud)
    processes.wait_for(
        lambda: client.get('neutron', '/v2.0/ports/%s' % port_id)[
            'port']['status'] == 'ACTIVE',
        60, 'Neutron to connect port %s' % port_id)


def unplug(cloud, device):
    """Remove a device that ``plug`` made."""
    _vsctl(cloud, '--if-exists', 'del-port', settings.BRIDGE, device)


def device_name(network_id):
    """The name of this machine's device on a network."""
    return 'mc' + network_id.replace('-', '')[:10]


def find_network(client, name):
    """Return the network of this name or UUID.

    :raises: Error when there is not exactly one.
    """
    found = [each for each in client.get('neutron', '/v2.0/networks')[
        'networks'] if name in (each['id'], each['name'])]
    if len(found) != 1:
        raise system.Error('There are %d networks called "%s"; one is needed.'
                           % (len(found), name))
    return found[0]


def _host_ports(client, network):
    return client.get('neutron', '/v2.0/ports?network_id=%s&device_owner=%s'
                      % (network['id'], OWNER))['ports']


def _fixed_ips(client, network, address):
    """Reserve the address where the network has a subnet for it."""
    for subnet in client.get('neutron', '/v2.0/subnets?network_id=%s'
                             % network['id'])['subnets']:
        if address.ip in ipaddress.ip_network(subnet['cidr']):
            return [{'subnet_id': subnet['id'],
                     'ip_address': str(address.ip)}]
    return []


def plug_network(cloud, name, address):
    """Put this machine on a network, with a port made for it.

    :param cloud: the settings.
    :param name: name or UUID of the network.
    :param address: address with prefix length, such as 192.0.2.1/24.
    :returns: the name of the device.
    :raises: Error when that is not possible.
    """
    try:
        parsed = ipaddress.ip_interface(address)
    except ValueError:
        raise system.Error('"%s" is no address with a prefix length, such '
                           'as 192.0.2.1/24.' % address)
    client = api.admin(cloud)
    network = find_network(client, name)
    device = device_name(network['id'])
    _require_unused(parsed, device)
    ports = _host_ports(client, network)
    if ports:
        port = ports[0]
    else:
        port = client.post('neutron', '/v2.0/ports', {'port': {
            'network_id': network['id'],
            'project_id': network['project_id'],
            'name': 'minicloud-host',
            'device_owner': OWNER,
            'device_id': settings.HOST,
            'binding:host_id': settings.HOST,
            'fixed_ips': _fixed_ips(client, network, parsed)}})['port']
    plug(cloud, port['id'], port['mac_address'], str(parsed), device)
    return device


def _require_unused(address, device):
    """Require that an address cuts this machine off nothing that it reaches.

    :param address: the address as an ``ipaddress`` interface.
    :param device: name of the device that is to have it.
    :raises: Error when another device leads to a part of its network.
    """
    answer = system.run(['ip', '-%d' % address.version, '-json', 'route',
                         'show']).stdout
    for route in json.loads(answer or '[]'):
        # The kernel makes these for the networks of the machine's addresses.
        if (route.get('protocol') == 'kernel' and route['dev'] != device
                and ipaddress.ip_network(route['dst']).overlaps(
                    address.network)):
            raise system.Error(
                'This machine is on network %s by device %s, and would not '
                'reach it any more with address %s: use a network with '
                'another subnet.' % (route['dst'], route['dev'], address))


def unplug_network(cloud, name):
    """Take this machine off a network again."""
    client = api.admin(cloud)
    network = find_network(client, name)
    unplug(cloud, device_name(network['id']))
    for port in _host_ports(client, network):
        client.delete('neutron', '/v2.0/ports/%s' % port['id'])


def links():
    """The names of all network devices."""
    lines = system.run(['ip', '-o', 'link', 'show']).stdout.splitlines()
    return [line.split(': ')[1].split('@')[0] for line in lines]


def our_links():
    """The network devices that minicloud's guests and switch use."""
    return [name for name in links()
            if GUEST_DEVICE.match(name) or name in BRIDGES
            or name == 'ovs-netdev' or re.match(r'mc[0-9a-f]{10}$', name)]


def remove_dhcp(cloud):
    """Remove what Neutron's DHCP agent leaves running when it ends.

    Each network has a folder of its name, a namespace and a dnsmasq in it.
    """
    for folder in cloud.dhcp.glob('*'):
        remove_namespace('qdhcp-' + folder.name)


def router_namespaces():
    """The names of all namespaces that are such as Neutron's routers have."""
    listed = system.run(['ip', 'netns', 'list']).stdout.splitlines()
    return [line.split()[0] for line in listed
            if line.startswith(('qrouter-', 'snat-', 'fip-'))]


def remove_routers(cloud):
    """Remove what Neutron's layer 3 agent leaves when it ends.

    It suffers no namespaces of others, and a cloud with it is made where
    there are no others only: all are ours.
    """
    if cloud.layer3:
        for name in router_namespaces():
            remove_namespace(name)


def remove_namespace(name):
    """Remove a network namespace, if it is there, with its processes."""
    listed = system.run(['ip', 'netns', 'pids', name], check=False)
    processes.kill(map(int, listed.stdout.split()))
    if listed.returncode == 0:
        system.run(['ip', 'netns', 'delete', name], check=False)


def remove_links(cloud):
    """Remove all network devices, with or without a running switch."""
    if database_ready(cloud, None):
        for name in BRIDGES:
            _vsctl(cloud, '--no-wait', '--if-exists', 'del-br', name,
                   check=False)
        system.run(['ovs-appctl', '-t', cloud.run / 'ovs/ovs-vswitchd.ctl',
                    'exit', '--cleanup'], check=False, timeout=20,
                   env=cloud.environment())
    for name in our_links():
        if name != 'ovs-netdev':
            system.run(['ip', 'link', 'delete', name], check=False)


def cleaning_script(saved, prefix):
    """Return iptables-restore input that removes chains and their rules.

    :param saved: what iptables-save printed.
    :param prefix: what the names of the chains begin with.
    """
    script = []
    removed = []
    for line in saved.splitlines():
        if line.startswith('*'):
            script.append(line)
            removed = []
        elif line.startswith(':' + prefix):
            chain = line[1:].split()[0]
            script.append(':%s - [0:0]' % chain)
            removed.append('-X ' + chain)
        elif line.startswith('-A ') and ' -j ' + prefix in line:
            if not line.startswith('-A ' + prefix):
                script.append('-D' + line[2:])
        elif line == 'COMMIT':
            script += removed + [line]
    return '\n'.join(script) + '\n'


def remove_rules(prefix):
    """Remove chains of the packet filter, and what leads to them.

    :param prefix: what their names begin with.
    """
    for command in ('iptables', 'ip6tables'):
        saved = system.run([command + '-save'], check=False)
        if saved.returncode == 0 and prefix in saved.stdout:
            system.run([command + '-restore', '--noflush'],
                       input=cleaning_script(saved.stdout, prefix),
                       check=False)


def remove_agents_rules():
    """Remove what the agent of Neutron has made of the packet filter."""
    remove_rules('neutron-')
    listed = system.run(['ipset', 'list', '-name'], check=False).stdout
    for name in listed.splitlines():
        if re.match(r'N(IPv4|IPv6)[0-9a-f]{8}-', name):
            system.run(['ipset', 'destroy', name], check=False)
