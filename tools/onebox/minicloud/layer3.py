# SPDX-License-Identifier: Apache-2.0
"""The external network: its range, this machine's place on it, its routers.

Its bridge is a second one of minicloud's own Open vSwitch. This machine has
the first address on it, where guests find the APIs. Packets pass between that
bridge and this machine only: others are not forwarded, in neither direction.
"""

import ipaddress
import json

from onebox.minicloud import api
from onebox.minicloud import network
from onebox.minicloud import settings
from onebox import system

# For tests of networks (RFC 2544), so that hardly anybody has it.
RANGE = ipaddress.ip_network('198.18.0.0/15')
# Routes of fewer bits are default routes by another name.
SHORTEST_ROUTE = 8
# What guests get begins here; what is below is for this machine.
FIRST_ADDRESS = 10
CHAINS = 'minicloud-'


def choose():
    """Choose the external network, which stays until the cloud is deleted.

    :returns: the network as a text.
    :raises: Error when none is free, or when this machine has routers.
    """
    theirs = network.router_namespaces()
    if theirs:
        raise system.Error(
            'There are network namespaces of routers, which the layer 3 agent '
            'of Neutron would delete as it starts: %s. Delete them if nobody '
            'needs them, or leave out "--layer3".' % ', '.join(theirs))
    answer = system.run(['ip', '-4', '-json', 'route', 'show', 'table',
                         'all']).stdout
    return str(free_network(json.loads(answer or '[]')))


def free_network(routes):
    """Return the first network that this machine has nothing in.

    :param routes: the routes of all tables, as iproute2 prints them.
    :raises: Error when there is none.
    """
    used = [ipaddress.ip_network(route['dst']) for route in routes
            if route['dst'] != 'default']
    used = [each for each in used if each.prefixlen >= SHORTEST_ROUTE]
    for candidate in RANGE.subnets(new_prefix=24):
        if not any(candidate.overlaps(each) for each in used):
            return candidate
    raise system.Error(
        'This machine has routes to all of %s, where the external network '
        'would be: remove one, or leave out "--layer3".' % RANGE)


def connect(cloud):
    """Have the bridge, the rules, and this machine's address on it.

    The APIs may listen already: the rules are there before the address.
    """
    bridge = settings.EXTERNAL_BRIDGE
    network.add_bridge(cloud, bridge)
    saved = system.run(['iptables-save', '--table', 'filter']).stdout
    system.run(['iptables-restore', '--noflush', '--wait'],
               input=rules(cloud.public_address, saved))
    system.run(['ip', 'address', 'replace', '%s/%d' % (
        cloud.public_address, cloud.public_network.prefixlen),
        'dev', bridge])
    system.run(['ip', 'link', 'set', bridge, 'up'])


def rules(address, saved=''):
    """Return iptables-restore input that lets in this bridge's packets only.

    Linux takes packets for any of its addresses from any device: without
    these rules, neighbours of this machine could reach the APIs.

    :param address: this machine's address on the external network.
    :param saved: what iptables-save printed; what an earlier time made is
        replaced at once.
    """
    bridge = settings.EXTERNAL_BRIDGE
    cleaning = network.cleaning_script(saved, CHAINS).splitlines()
    return '\n'.join([
        '*filter',
        ':%sinput - [0:0]' % CHAINS,
        ':%sforward - [0:0]' % CHAINS,
        *(line for line in cleaning if line.startswith('-D ')),
        '-A %sinput -i lo -j RETURN' % CHAINS,
        '-A %sinput -i %s -j RETURN' % (CHAINS, bridge),
        '-A %sinput -d %s/32 -j DROP' % (CHAINS, address),
        '-A %sforward -i %s -j DROP' % (CHAINS, bridge),
        '-A %sforward -o %s -j DROP' % (CHAINS, bridge),
        '-I INPUT -j %sinput' % CHAINS,
        '-I FORWARD -j %sforward' % CHAINS,
        'COMMIT\n'])


def make_network(cloud):
    """Make the external network in Neutron, for all projects to use.

    It has no gateway: what guests send elsewhere fails at once.
    """
    client = api.admin(cloud)
    name = settings.EXTERNAL_NETWORK
    found = client.get('neutron', '/v2.0/networks?name=%s' % name)['networks']
    made = found[0] if found else client.post(
        'neutron', '/v2.0/networks', {'network': {
            'name': name, 'router:external': True,
            'provider:network_type': 'flat',
            'provider:physical_network': name}})['network']
    if not made['subnets']:
        place = cloud.public_network
        client.post('neutron', '/v2.0/subnets', {'subnet': {
            'network_id': made['id'], 'name': name, 'ip_version': 4,
            'cidr': str(place), 'gateway_ip': None, 'enable_dhcp': False,
            'allocation_pools': [{
                'start': str(place[FIRST_ADDRESS]),
                'end': str(place[-2])}]}})
