# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
