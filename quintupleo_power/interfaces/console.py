# SPDX-License-Identifier: Apache-2.0
"""The console interface: the console that the host cloud gives."""

from ironic.drivers import base

from quintupleo_power import compat
from quintupleo_power.faults import injection
from quintupleo_power.host_cloud import consoles
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import server_access

# What Ironic's own graphical consoles are called, which its clients know
# (ironic.common.vnc.get_console); the others keep Nova's names.
_IRONIC_TYPES = {'novnc': 'vnc'}


@compat.timed('QuintupleoConsole')
class QuintupleoConsole(server_interface.ServerInterface,
                        base.ConsoleInterface):
    """Console of a Nova server, by a URL of the host cloud's own proxy."""

    properties = driver_info.CONSOLE_PROPERTIES

    def validate(self, task):
        """Check the node's settings, without a request to the host cloud."""
        driver_info.parse(task.node)
        driver_info.console_type(task.node)

    def start_console(self, task):
        """Check that the host cloud gives a console.

        Nothing has to be started. Ironic also calls this for each node with
        a console when a conductor starts or takes the node over, and
        disables the console of a node that raises: there nothing is asked.
        """
        if not task.node.console_enabled:
            self.get_console(task)

    def stop_console(self, task):
        """Do nothing: what gives access to a console runs out by itself."""

    @injection.injected
    def get_console(self, task):
        """Get a URL that opens the console for some minutes.

        :returns: a dictionary with ``type`` and ``url``.
        """
        console_type = driver_info.console_type(task.node)
        with server_access.use(task.node) as (host, server):
            return {'type': _IRONIC_TYPES.get(console_type, console_type),
                    'url': consoles.url(host.compute, server, console_type)}
