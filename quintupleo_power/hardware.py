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

"""The hardware type ``quintupleo``."""

from ironic.drivers import generic

from quintupleo_power import management
from quintupleo_power import power


class QuintupleoHardware(generic.GenericHardware):
    """Bare metal that is a server of an OpenStack cloud.

    Boot, deploy, inspection, rescue and the rest are Ironic's own; they see
    an ordinary machine that boots from the network or from its disk.
    """

    @property
    def supported_management_interfaces(self):
        """List of supported management interfaces."""
        return [management.QuintupleoManagement]

    @property
    def supported_power_interfaces(self):
        """List of supported power interfaces."""
        return [power.QuintupleoPower]
