# SPDX-License-Identifier: Apache-2.0
"""The vendor interface: what Ironic has no call of its own for."""

import re

from ironic.common import exception
from ironic.drivers import base

from quintupleo_power.conf import CONF
from quintupleo_power.faults import injection
from quintupleo_power.host_cloud import consoles
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import server_access

# A boot of Linux with its services.
DEFAULT_LINES = 1000
# More than any hypervisor of Nova keeps.
MAX_LINES = 100000


class QuintupleoVendor(server_interface.ServerInterface, base.VendorInterface):
    """Methods of the vendor passthru."""

    def validate(self, task, method=None, http_method=None, **arguments):
        """Check the node's settings; a method checks its own arguments.

        :param method: name of the method; None to check the node alone.
        :param http_method: the HTTP method that it is called by.
        :param arguments: what it is called with.
        :raises: UnsupportedDriverExtension if there is no such method.
        """
        driver_info.parse(task.node)
        if method not in (None, *self.vendor_routes):
            raise exception.UnsupportedDriverExtension(
                driver=task.node.driver, extension=method)

    @base.passthru(
        # Ironic's client sends arguments with POST and none with GET.
        ['GET', 'POST'], async_call=False, require_exclusive_lock=False,
        description='What the machine has written to its serial console '
                    f'since it was powered on, the last {DEFAULT_LINES} '
                    "lines or as many as 'lines' says.")
    def console_log(self, task, http_method=None, lines=DEFAULT_LINES,
                    **others):
        """Get the end of the machine's console log.

        :param http_method: the HTTP method that this is called by.
        :param lines: how many lines, as a number or a text of digits.
        :param others: of which there are to be none.
        :raises: InvalidParameterValue, too, if an argument is wrong.
        :returns: a dictionary with ``output``, the text, as Nova has it.
        """
        if others:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: console_log has no argument '
                f"'{min(others)}', only lines")
        lines = _lines(task.node, lines)
        with server_access.use(task.node) as (host, server):
            return {'output': consoles.log(host.compute, server, lines)}

    @base.passthru(
        ['GET', 'POST', 'DELETE'], async_call=False,
        require_exclusive_lock=False,
        description="The node's faults: GET returns them, POST adds one of a "
                    "'kind', and DELETE removes that of an 'id', or all.")
    def faults(self, task, http_method=None, **arguments):
        """Return, add or delete faults, for [quintupleo]fault_injection.

        :raises: InvalidParameterValue, too, if an argument is wrong.
        :raises: NodeLocked if a request that is under way has the node.
        :returns: a dictionary with ``faults``, those that this is about.
        """
        if not CONF.quintupleo.fault_injection:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid} takes no faults: '
                '[quintupleo]fault_injection of its conductor is not set')
        if http_method == 'GET':
            return {'faults': injection.get(task.node)}
        task.upgrade_lock()
        change = injection.add if http_method == 'POST' else injection.delete
        try:
            return {'faults': change(task.node, arguments)}
        except ValueError as exc:
            raise exception.InvalidParameterValue(
                f'Node {task.node.uuid}: {exc}')


def _lines(node, value):
    """Read a number of lines; Ironic's client sends numbers as texts."""
    text = str(value)
    if re.fullmatch('[0-9]{1,6}', text) and 1 <= int(text) <= MAX_LINES:
        return int(text)
    raise exception.InvalidParameterValue(
        f"Node {node.uuid}: argument 'lines' of console_log must be a number "
        f'from 1 to {MAX_LINES}')
