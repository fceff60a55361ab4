# SPDX-License-Identifier: Apache-2.0
"""What the tests have to know beside Ironic's own options of Tempest."""

from oslo_config import cfg

quintupleo_group = cfg.OptGroup(
    name='quintupleo', title='Nodes that are Nova servers')

QuintupleoGroup = [
    cfg.StrOpt('dhcp_lease_file',
               help='Lease file of the dnsmasq that gives the nodes their '
                    'addresses, as this machine sees it. Without one the '
                    'nodes are taken to have their addresses from the '
                    'Neutron that Ironic uses, as VIFs.'),
    cfg.StrOpt('image_disk_format',
               choices=('raw', 'qcow2'),
               help='Format of [baremetal]/whole_disk_image_url. The agent '
                    'writes a raw image as it arrives, others need as much '
                    'memory as they have bytes.'),
]
