# SPDX-License-Identifier: Apache-2.0
"""Nodes on which tests run clean and service steps without a ramdisk."""

from openstack import exceptions
from openstack import utils
import pytest

# Versions of Ironic's API that take disable_ramdisk for a cleaning and for a
# service.
CLEAN, SERVICE = '1.70', '1.108'
# The one in which a node has disable_power_off.
NEVER_OFF = '1.95'


class Machine:
    """A node, and its server, which is ACTIVE."""

    def __init__(self, deployment, boot_mode='bios'):
        self.deployment = deployment
        self.compute = deployment.cloud.compute
        self.server = deployment.server(boot_mode).id
        self.node = deployment.node(self.server).id
        deployment.manage(deployment.api.get_node(self.node))

    def forbid_power_off(self):
        """Let Ironic keep the node on, where it knows of such nodes."""
        api = self.deployment.api
        if not utils.supports_microversion(api, NEVER_OFF):
            pytest.skip('Nodes of this Ironic can always be powered off')
        answer = api.patch(
            f'/nodes/{self.node}', microversion=NEVER_OFF, json=[
                {'op': 'add', 'path': '/disable_power_off', 'value': True}])
        exceptions.raise_from_response(answer)

    def clean(self, *steps, wanted='manageable'):
        """Run steps in a manual cleaning.

        :param steps: (name, arguments) of each.
        :param wanted: the provision state that it ends in.
        :returns: the node.
        """
        return self._run('clean', 'clean_steps', steps, CLEAN, wanted)

    def service(self, *steps):
        """Run steps on a node that is active; see :meth:`clean`."""
        return self._run('service', 'service_steps', steps, SERVICE,
                         'active')

    def _run(self, target, key, steps, version, wanted):
        answer = self.deployment.api.put(
            f'/nodes/{self.node}/states/provision', microversion=version,
            json={'target': target, 'disable_ramdisk': True, key: [
                {'interface': 'management', 'step': name, 'args': arguments}
                for name, arguments in steps]})
        exceptions.raise_from_response(answer)
        return self.deployment.wait_for(
            lambda: self.in_state(wanted), f'the node to be {wanted}')

    def provision(self, verb, wanted, **arguments):
        """Ask for a provision state and wait for another.

        :returns: the node.
        :raises: AssertionError if it fails, with the node's last error.
        """
        self.deployment.api.set_node_provision_state(
            self.node, verb, **arguments)
        return self.deployment.wait_for(
            lambda: self._seen_in(wanted), f'the node to be {wanted}')

    def _seen_in(self, wanted):
        node = self.deployment.api.get_node(self.node)
        if node.reservation:
            return None
        if node.provision_state == wanted:
            return node
        assert not node.provision_state.endswith('failed'), (
            f'{node.provision_state}: {node.last_error}')
        return None

    def adopt(self):
        """Let Ironic take the machine for one that it has deployed."""
        self.deployment.api.update_node(self.node, instance_info={
            'image_source': 'http://192.0.2.1/image'}, properties={
                'capabilities': 'boot_option:local'})
        self.provision('adopt', 'active')

    @property
    def status(self):
        """The server's status."""
        return self.compute.get_server(self.server).status

    def in_state(self, wanted):
        """The node, if it is in a provision state for good, or None."""
        node = self.deployment.api.get_node(self.node)
        failed = wanted.endswith('failed')
        return node if node.provision_state == wanted and (
            failed or not node.target_provision_state) else None

    def assert_off(self, *actions):
        """Check what Nova did, and that both sides know it is off."""
        self._assert_is('power off', 'SHUTOFF', actions)

    def assert_on(self, *actions):
        """Check what Nova did, and that both sides know it is on."""
        self._assert_is('power on', 'ACTIVE', actions)

    def _assert_is(self, power_state, status, actions):
        node = self.deployment.api.get_node(self.node)
        server = self.compute.get_server(self.server)
        assert (node.power_state, node.last_error, server.status) == (
            power_state, None, status)
        assert self.deployment.actions(self.server) == list(actions)

    def remove(self):
        """Delete node and server."""
        api = self.deployment.api
        api.set_node_maintenance(self.node, 'removed')
        api.delete_node(self.node)
        self.compute.delete_server(self.server)
