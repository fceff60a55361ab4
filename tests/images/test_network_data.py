# SPDX-License-Identifier: Apache-2.0
"""The agent applies network data, without any DHCP."""

import json
import os
import subprocess
import uuid

from tests.images import machine

KERNEL = os.path.join(machine.IMAGES_DIR, 'agent.kernel')
RAMDISK = os.path.join(machine.IMAGES_DIR, 'agent.ramdisk')
MAC = '52:54:00:00:00:0%d'
LINKS = [
    *({'id': f'eth{n}', 'type': 'phy', 'ethernet_mac_address': MAC % n}
      for n in (1, 2, 3, 4)),
    {'id': 'vlan', 'type': 'vlan', 'vlan_link': 'eth2', 'vlan_id': 101,
     'vlan_mac_address': MAC % 2},
    {'id': 'bond', 'type': 'bond', 'bond_mode': 'active-backup',
     'bond_links': ['eth3', 'eth4'], 'ethernet_mac_address': MAC % 3},
    {'id': 'vlan of bond', 'type': 'vlan', 'vlan_link': 'bond',
     'vlan_id': 102, 'vlan_mac_address': MAC % 3, 'mtu': 1400}]
NETWORKS = [
    {'id': 'four', 'type': 'ipv4', 'link': 'eth1', 'network_id': 'a',
     'ip_address': '192.0.2.5', 'netmask': '255.255.255.0', 'routes': [
         {'network': '0.0.0.0', 'netmask': '0.0.0.0',
          'gateway': '192.0.2.1'},
         {'network': '203.0.113.0', 'netmask': '255.255.255.128',
          'gateway': '192.0.2.9'}]},
    {'id': 'six', 'type': 'ipv6', 'link': 'eth1', 'network_id': 'b',
     'ip_address': '2001:db8::5/64', 'routes': [
         {'network': '::', 'netmask': '::', 'gateway': '2001:db8::1'}]},
    {'id': 'storage', 'type': 'ipv4', 'link': 'vlan', 'network_id': 'c',
     'ip_address': '198.51.100.5', 'netmask': '255.255.255.0'},
    {'id': 'bonded', 'type': 'ipv6', 'link': 'vlan of bond',
     'network_id': 'd', 'ip_address': '2001:db8:1::5',
     'netmask': 'ffff:ffff:ffff::'}]
NETWORK_DATA = {'links': LINKS, 'networks': NETWORKS,
                'services': [{'type': 'dns', 'address': '192.0.2.2'}]}
# The fifth card is in no network data, and QEMU answers its DHCP.
CARDS = [argument for n in (1, 2, 3, 4, 5) for argument in (
    '-netdev',
    f'hubport,hubid={n},id=net{n}' if n < 5 else 'user,ipv6=off,id=net5',
    '-device', f'virtio-net-pci,netdev=net{n},romfile=,mac={MAC % n}')]
STATE = '''\
ip -o address
ip -o -d link
ip -o route
ip -o -6 route
cat /run/systemd/resolve/resolv.conf
'''
EXPECTED = (
    r'inet 192\.0\.2\.5/24 ', r'inet6 2001:db8::5/64 ',
    r'default via 192\.0\.2\.1 ', r'203\.0\.113\.0/25 via 192\.0\.2\.9 ',
    r'default via 2001:db8::1 ', r'\d\.101 +inet 198\.51\.100\.5/24 ',
    r'\d\.101@\w+: .* vlan protocol 802\.1Q id 101 ',
    r'bond0\.102 +inet6 2001:db8:1::5/48 ',
    r'bond0\.102@bond0: .* mtu 1400 ', r'bond mode active-backup ',
    r'bond_slave ', r'inet 10\.0\.2\.15/24 ', r'nameserver 192\.0\.2\.2')
# Of the server that plays the machine.
FOREIGN = {
    'meta_data.json': json.dumps({
        'uuid': str(uuid.uuid4()), 'hostname': 'foreign',
        'public_keys': {'one': 'ssh-ed25519 BBBB of-the-server'}}),
    'user_data': '#!/bin/sh\necho "user data of the server" >/dev/ttyS0\n'}

def make_iso(path, files, publisher='nobody'):
    """Make a CD with OpenStack's files on it.

    :param files: dict of contents by names.
    """
    folder = path.with_suffix('.files') / 'openstack' / 'latest'
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    subprocess.run(['xorriso', '-as', 'mkisofs', '-quiet', '-J', '-r', '-V',
                    'config-2', '-publisher', publisher, '-o', path,
                    folder.parents[1]], check=True)
    return path


def cd(path, index):
    """Return QEMU's arguments for a CD."""
    return ['-drive', f'if=ide,index={index},media=cdrom,readonly=on,'
            f'format=raw,file={path}']


def ramdisk_that_tells(folder):
    """Return the ramdisk with a service that tells what there is.

    The kernel unpacks what follows an archive over it.
    """
    units = folder / 'etc' / 'systemd' / 'system'
    wanted = units / 'agent.target.wants'
    wanted.mkdir(parents=True)
    (folder / 'tell').write_text(f'while sleep 5; do\n{STATE}done\n')
    (units / 'tell.service').write_text(
        '[Unit]\nAfter=systemd-networkd.service\n[Service]\n'
        'ExecStart=/bin/sh -c "exec sh /tell >/dev/ttyS0"\n')
    (wanted / 'tell.service').symlink_to('../tell.service')
    names = [str(path.relative_to(folder))
             for path in sorted(folder.rglob('*'))]
    added = subprocess.run(
        ['cpio', '--quiet', '--create', '--format=newc', '--owner=0:0'],
        cwd=folder, input='\n'.join(names).encode(), stdout=subprocess.PIPE,
        check=True).stdout
    with open(RAMDISK, 'rb') as ramdisk:
        content = ramdisk.read()
    path = folder.with_suffix('.ramdisk')
    path.write_bytes(content + bytes(-len(content) % 4) + added)
    return path


def test_agent_applies_the_cd_of_this_boot(tmp_path):
    publisher = str(uuid.uuid4())
    mine = make_iso(tmp_path / 'mine.iso', {
        'network_data.json': json.dumps(NETWORK_DATA)}, publisher)
    foreign = make_iso(tmp_path / 'foreign.iso', {
        **FOREIGN, 'network_data.json': json.dumps({
            'links': LINKS[:1], 'services': [],
            'networks': [{**NETWORKS[0], 'ip_address': '192.0.2.99'}]})})
    arguments = [
        '-m', '1024', *CARDS, *cd(foreign, 0), *cd(mine, 2),
        '-kernel', KERNEL, '-initrd', ramdisk_that_tells(tmp_path / 'more'),
        '-append', 'console=ttyS0 no_timer_check boot_method=vmedia '
        f'ipa-standalone=1 ir_pub_id={publisher}']
    with machine.Machine(str(tmp_path), 'bios', arguments) as guest:
        guest.wait_for('network cards have what the network data', 600)
        for text in EXPECTED:
            guest.wait_for(text, 240)
        assert '192.0.2.99' not in guest.console()
