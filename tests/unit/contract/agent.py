# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ironic-python-agent, where Ironic's client would ask it."""

import fixtures

from tests.unit import nova_model

STEPS = {
    'clean': {'interface': 'deploy', 'step': 'erase_devices_metadata',
              'priority': 99, 'reboot_requested': False, 'abortable': True},
    'deploy': {'interface': 'deploy', 'step': 'write_image', 'priority': 0,
               'reboot_requested': False},
    'service': {'interface': 'deploy', 'step': 'burnin_cpu', 'priority': 0,
                'reboot_requested': False, 'abortable': True},
}
URL = 'https://agent.example.test'
VERSION = '9.14.0'
INVENTORY = {
    'interfaces': [{
        'name': 'eth0', 'mac_address': '20:57:f8:00:00:01',
        'ipv4_address': '192.0.2.5', 'has_carrier': True, 'lldp': [],
        'pci_address': '0000:00:03.0'}],
    'cpu': {'count': 2, 'architecture': 'x86_64', 'model_name': 'any',
            'frequency': '1', 'flags': []},
    'memory': {'total': 1 << 32, 'physical_mb': 4096},
    'disks': [{'name': '/dev/vda', 'size': 20 << 30, 'rotational': False}],
    'boot': {'pxe_interface': '20:57:f8:00:00:01',
             'current_boot_mode': 'bios'},
    'bmc_address': None, 'bmc_v6address': None,
    'system_vendor': {'manufacturer': 'OpenStack', 'product_name': 'Nova'},
}


class Agent(fixtures.Fixture):
    """The agent in the guest of a test's server.

    :ivar executed: names of the steps and commands that it was asked for.
    """

    def __init__(self, case):
        self.case = case
        self.executed = []
        self._commands = []

    def _setUp(self):
        client = 'ironic.drivers.modules.agent_client.AgentClient'
        self.useFixture(fixtures.MockPatch(f'{client}._command',
                                           self._command))
        self.useFixture(fixtures.MockPatch(
            f'{client}.get_commands_status',
            lambda *args, **kwargs: self._commands))

    def heartbeat(self):
        """Tell Ironic that it runs, which a guest can do that was booted."""
        case = self.case
        case.assertEqual(('rescued', nova_model.RUNNING), (
            case.server.vm_state, case.server.power_state))
        case.node.refresh()
        case.manager.heartbeat(
            case.context, case.node.uuid, URL, VERSION,
            agent_token=case.node.driver_internal_info['agent_secret_token'])
        case.node.refresh()

    def inspect(self):
        """Tell Ironic what it has found, and run until it is switched off."""
        self.case.manager.continue_inspection(
            self.case.context, self.case.node.uuid, INVENTORY, {})
        self.case.node.refresh()

    def forget(self):
        """Forget what it did: another boot."""
        self.executed.clear()
        self._commands.clear()

    def _command(self, node, method, params, wait=False, poll=False):
        flow, _, verb = method.partition('.')
        result = {'system_logs': ''} if flow == 'log' else None
        if verb.startswith('get_') and flow in STEPS:
            result = {f'{flow}_steps': {'GenericHardwareManager': [
                dict(STEPS[flow])]}, 'hardware_manager_version': {'a': '1'}}
        elif verb.startswith('execute_'):
            step = params['step']
            self.executed.append(step['step'])
            self.case.server.content = {
                'write_image': 'a deployed system',
                'erase_devices_metadata': ''}.get(
                    step['step'], self.case.server.content)
            result = {f'{flow}_step': step, f'{flow}_result': None}
        else:
            self.executed.append(verb)
            if verb == 'power_off':
                self.case.server.power_state = nova_model.SHUTDOWN
        command = {'id': str(len(self._commands)), 'command_name': verb,
                   'command_status': 'SUCCEEDED', 'command_error': None,
                   'command_result': result}
        self._commands.append(command)
        return command
