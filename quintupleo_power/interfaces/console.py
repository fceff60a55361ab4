# SPDX-License-Identifier: Apache-2.0
"""The console interfaces: the host cloud's own console, or a relay to it."""

import functools
import threading
import uuid

from ironic.common import context as ironic_context
from ironic.common import exception
from ironic.drivers import base
from ironic import objects
from oslo_log import log
from oslo_utils import netutils
from oslo_utils import timeutils

from quintupleo_power import compat
from quintupleo_power.conf import CONF
from quintupleo_power.faults import injection
from quintupleo_power.host_cloud import console_relay
from quintupleo_power.host_cloud import consoles
from quintupleo_power.interfaces import server_interface
from quintupleo_power.node import driver_info
from quintupleo_power.node import internal_info
from quintupleo_power.node import server_access

LOG = log.getLogger(__name__)

# As ironic.common.vnc.get_console has it; the others keep Nova's names.
_IRONIC_TYPES = {'novnc': 'vnc'}

_KEY = internal_info.CONSOLE
_lock = threading.Lock()
# Those of this process, by UUID of the node and type of the console.
_relays: dict[tuple[str, str], console_relay.Relay] = {}


class QuintupleoConsole(server_interface.ServerInterface,
                        base.ConsoleInterface):
    """Console of a Nova server, by a URL of the host cloud's own proxy."""

    properties = driver_info.CONSOLE_PROPERTIES

    def validate(self, task):
        """Check the node's settings, without a request to the host cloud."""
        super().validate(task)
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


class _RelayedConsole(server_interface.ServerInterface,
                      base.ConsoleInterface):
    """Console at a TCP port of the conductor.

    :cvar console_type: a key of :data:`consoles.PROTOCOLS`.
    """

    def start_console(self, task):
        """Listen, and check before whether the host cloud gives a console.

        It is not checked where :class:`QuintupleoConsole` does not do so.

        :raises: ConsoleError if the conductor cannot listen.
        """
        node = task.node
        if not node.console_enabled:
            _connect(node, self.console_type).shutdown()
        relay = _start(node, self.console_type)
        node.set_driver_internal_info(_KEY, _info(relay, self.console_type))
        # A connection may come before Ironic sets it.
        node.console_enabled = True
        self._set_proxy_info(node, relay)
        node.save()

    def _set_proxy_info(self, node, relay):
        """Set what a proxy needs, at the moment that enables the console."""

    def stop_console(self, task):
        """Stop listening, and end the connections."""
        _stop(task.node)
        task.node.del_driver_internal_info(_KEY)
        task.node.save()

    @staticmethod
    def _get_info(node):
        """Return what is kept of the console.

        :raises: NodeConsoleNotEnabled if it was stopped with an instance and
            starts with the next one.
        """
        info = node.driver_internal_info.get(_KEY)
        if not info:
            raise exception.NodeConsoleNotEnabled(node=node.uuid)
        return info


class QuintupleoSerialConsole(_RelayedConsole):
    """Serial console as a TCP stream, as socat makes it for others."""

    console_type = 'serial'

    def get_console(self, task):
        """Return the address; Nova takes a console of this type only."""
        info = self._get_info(task.node)
        return {'type': 'socat', 'url': (
            f'tcp://{netutils.escape_ipv6(info["host"])}:{info["port"]}')}


class QuintupleoGraphicalConsole(_RelayedConsole):
    """VNC server for the noVNC proxies of Ironic and Nova.

    It needs Ironic 29.0, see :data:`compat.vnc`.
    """

    console_type = 'novnc'

    def _set_proxy_info(self, node, relay):
        node.set_driver_internal_info('vnc_host', relay.address)
        node.set_driver_internal_info('vnc_port', relay.port)
        compat.vnc.novnc_authorize(node)

    def stop_console(self, task):
        """Stop listening, and end the connections."""
        super().stop_console(task)
        task.node.del_driver_internal_info('vnc_host')
        task.node.del_driver_internal_info('vnc_port')
        compat.vnc.novnc_unauthorize(task.node)

    def get_console(self, task):
        """Return a URL of Ironic's proxy, whose token is renewed if need be.

        :raises: NodeLocked if it would have to be and cannot.
        """
        self._get_info(task.node)
        if compat.vnc.token_valid_until(task.node) < timeutils.utcnow():
            task.upgrade_lock()
            compat.vnc.novnc_authorize(task.node)
        return compat.vnc.get_console(task.node)


def _connect(node, console_type):
    with server_access.use(node) as (host, server):
        return consoles.connect(host.compute, server, console_type)


def _start(node, console_type):
    """Return the relay of a node, which runs from now on."""
    address, ports = (CONF.quintupleo.console_address,
                      CONF.quintupleo.console_ports)
    first = uuid.UUID(node.uuid).int % len(ports)
    key = node.uuid, console_type
    with _lock:
        if key not in _relays or not _relays[key].is_open:
            try:
                _relays[key] = console_relay.Relay(
                    address, (*ports[first:], *ports[:first]),
                    functools.partial(_is_wanted, *key),
                    functools.partial(_open, *key))
            except OSError as exc:
                raise exception.ConsoleError(
                    f'Node {node.uuid}: the conductor cannot listen for its '
                    f'console at [quintupleo]console_address {address} and '
                    f'console_ports: {exc}')
        return _relays[key]


def _stop(node):
    with _lock:
        for key, relay in list(_relays.items()):
            if key[0] == node.uuid or not relay.is_open:
                _relays.pop(key).close()


def _info(relay, console_type):
    return {'type': console_type, 'conductor': CONF.host,
            'host': relay.address, 'port': relay.port}


def _is_wanted(node_uuid, console_type, relay):
    """Return whether a relay is its node's, by Ironic's database.

    Ironic does not tell a conductor that another one took a node over.
    """
    return any(
        node.driver_internal_info.get(_KEY) == _info(relay, console_type)
        for node in objects.Node.list(
            ironic_context.get_admin_context(),
            filters={'uuid_in': [node_uuid], 'console_enabled': True}))


def _open(node_uuid, console_type):
    """Return a new connection to a node's console, None if that fails."""
    try:
        return _connect(objects.Node.get_by_uuid(
            ironic_context.get_admin_context(), node_uuid), console_type)
    except exception.IronicException as exc:
        LOG.warning('A connection to a console was closed: %s', exc)
        return None
