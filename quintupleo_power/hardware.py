# SPDX-License-Identifier: Apache-2.0
"""The hardware type ``quintupleo``."""

from ironic.drivers import generic
from ironic.drivers.modules import noop_mgmt

from quintupleo_power import compat
from quintupleo_power.interfaces import boot
from quintupleo_power.interfaces import console
from quintupleo_power.interfaces import deploy
from quintupleo_power.interfaces import inspect
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import network
from quintupleo_power.interfaces import power
from quintupleo_power.interfaces import vendor

compat.serve_files_to('quintupleo')


class QuintupleoHardware(generic.GenericHardware):
    """Bare metal that is a server of an OpenStack cloud.

    Ironic's own interfaces serve it as they serve any machine that boots from
    the network or from its disk.
    """

    @property
    def supported_boot_interfaces(self):
        """List of supported boot interfaces."""
        return [*super().supported_boot_interfaces,
                boot.QuintupleoVirtualMediaBoot]

    @property
    def supported_console_interfaces(self):
        """List of supported console interfaces, the default first."""
        return [console.QuintupleoConsole,
                *([console.QuintupleoGraphicalConsole] if compat.vnc else []),
                console.QuintupleoSerialConsole,
                *super().supported_console_interfaces]

    @property
    def supported_deploy_interfaces(self):
        """List of supported deploy interfaces, Ironic's own first."""
        return [*super().supported_deploy_interfaces,
                deploy.QuintupleoRebuildDeploy, *compat.NO_DEPLOY]

    @property
    def supported_inspect_interfaces(self):
        """List of supported inspect interfaces."""
        # The first one that is enabled is the default of a new node.
        return [inspect.QuintupleoInspect,
                *super().supported_inspect_interfaces]

    @property
    def supported_management_interfaces(self):
        """List of supported management interfaces, the default first."""
        return [management.QuintupleoManagement, noop_mgmt.NoopManagement]

    @property
    def supported_network_interfaces(self):
        """List of supported network interfaces."""
        return [*super().supported_network_interfaces,
                network.QuintupleoNetwork]

    @property
    def supported_power_interfaces(self):
        """List of supported power interfaces."""
        return [power.QuintupleoPower]

    @property
    def supported_vendor_interfaces(self):
        """List of supported vendor interfaces, the default first."""
        return [vendor.QuintupleoVendor,
                *super().supported_vendor_interfaces]
