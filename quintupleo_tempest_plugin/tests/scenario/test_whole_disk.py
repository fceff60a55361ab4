# SPDX-License-Identifier: Apache-2.0
"""Ironic's standalone scenario of a whole-disk image, with our driver."""

import pathlib

from ironic_tempest_plugin.tests.scenario import (
    baremetal_standalone_manager as manager)
from oslo_utils import uuidutils
from tempest import config
from tempest.lib.common.utils import test_utils
from tempest.lib import decorators
from tempest.lib import exceptions

CONF = config.CONF


class QuintupleoDirectWholeDisk(manager.BaremetalStandaloneScenarioTest):
    """A node gets an image onto its disk, boots from it and can be reached.

    Where Ironic has no Neutron of its own, and its ``noop`` network interface
    leaves the nodes' networks to the host cloud, there are no ports to make
    and none to ask for an address: dnsmasq's leases tell it.
    """

    api_microversion = '1.31'  # to set the deploy interface
    driver = 'quintupleo'
    deploy_interface = 'direct'
    management_interface = 'quintupleo'
    power_interface = 'quintupleo'
    image_ref = (CONF.baremetal.whole_disk_image_ref
                 or CONF.baremetal.whole_disk_image_url)
    image_checksum = (None if CONF.baremetal.whole_disk_image_ref
                      else CONF.baremetal.whole_disk_image_checksum)
    wholedisk_image = True

    @classmethod
    def create_networks(cls):
        """Choose the network of the node.

        :returns: a tuple of network, subnet and router.
        """
        if CONF.quintupleo.dhcp_lease_file is None:
            return super().create_networks()
        return {'id': None}, None, None

    @classmethod
    def create_neutron_port(cls, *args, **kwargs):
        """Make a port for the node to have as VIF.

        :returns: the port, as Neutron has it.
        """
        if CONF.quintupleo.dhcp_lease_file is None:
            return super().create_neutron_port(*args, **kwargs)
        return {'id': uuidutils.generate_uuid()}

    @classmethod
    def boot_node(cls, *args, **kwargs):
        """Deploy the node; see the scenario's own for the arguments."""
        if CONF.quintupleo.image_disk_format is not None:
            cls.update_node(cls.node['uuid'], [
                {'op': 'add', 'path': '/instance_info/image_disk_format',
                 'value': CONF.quintupleo.image_disk_format}])
        super().boot_node(*args, **kwargs)

    @classmethod
    def get_server_ip(cls, node_id):
        """Find the address of a node.

        :param node_id: UUID of the node.
        :returns: its address, as text.
        :raises: TimeoutException if the DHCP server has given it none.
        """
        if CONF.quintupleo.dhcp_lease_file is None:
            return super().get_server_ip(node_id)
        _, body = cls.baremetal_client.list_node_ports(node_id)
        macs = {port['address'] for port in body['ports']}
        if not test_utils.call_until_true(
                lambda: _leased_address(macs) is not None,
                CONF.validation.ping_timeout, 1):
            raise exceptions.TimeoutException(
                f'Node {node_id} with MAC address {", ".join(sorted(macs))} '
                'has no lease in [quintupleo]/dhcp_lease_file, '
                f'{CONF.quintupleo.dhcp_lease_file}.')
        return _leased_address(macs)

    @decorators.idempotent_id('51402935-47a8-4193-8fea-275a5a05e2d2')
    def test_ip_access_to_server(self):
        self.boot_and_verify_node()


def _leased_address(macs):
    """Read the newest lease of a card out of dnsmasq's file.

    Its lines have expiry, MAC address, address, host name and client ID; those
    of DHCPv6 begin differently.
    """
    leases = [line.split() for line in pathlib.Path(
        CONF.quintupleo.dhcp_lease_file).read_text().splitlines()]
    ours = [(int(lease[0]), lease[2]) for lease in leases
            if len(lease) == 5 and lease[1] in macs]
    return max(ours)[1] if ours else None
