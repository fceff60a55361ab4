# SPDX-License-Identifier: Apache-2.0
"""Ironic's requests against a real Nova: the table's common rows."""

import pytest

OFF, ON = 'power off', 'power on'


@pytest.fixture
def machine(deployment):
    """A managed node and its server, which is ACTIVE."""
    server = deployment.server()
    node = deployment.node(server.id)
    deployment.manage(node)
    yield deployment, node.id, server.id
    deployment.api.delete_node(node.id)
    deployment.cloud.compute.delete_server(server.id)


def _go(deployment, node, server, steps):
    """Do steps: (boot device, is it persistent, power target, then state)."""
    for device, persistent, target, state in steps:
        if device:
            deployment.nodes.set_boot_device(node, device, persistent)
        deployment.nodes.set_power_state(node, target, state)
    found = deployment.cloud.compute.get_server(server)
    return found.status, deployment.actions(server)


SEQUENCES = {
    'off': (
        [(None, None, OFF, OFF)],
        'SHUTOFF', ['stop']),
    'soft off': (
        [(None, None, 'soft power off', OFF)],
        'SHUTOFF', ['stop']),
    'off and on': (
        [(None, None, OFF, OFF), (None, None, ON, ON)],
        'ACTIVE', ['stop', 'start']),
    'reboot': (
        [(None, None, 'rebooting', ON)],
        'ACTIVE', ['reboot']),
    'soft reboot': (
        [(None, None, 'soft rebooting', ON)],
        'ACTIVE', ['reboot']),
    'reboot of a node that is off': (
        [(None, None, OFF, OFF), (None, None, 'rebooting', ON)],
        'ACTIVE', ['stop', 'start']),
    'PXE from a running disk system': (
        [('pxe', False, 'rebooting', ON)],
        'RESCUE', ['rescue']),
    'PXE from off': (
        [(None, None, OFF, OFF), ('pxe', False, ON, ON)],
        'RESCUE', ['stop', 'rescue']),
    'PXE once, then the disk': (
        [('pxe', False, 'rebooting', ON), (None, None, 'rebooting', ON)],
        'ACTIVE', ['rescue', 'unrescue']),
    'PXE for ever': (
        [('pxe', True, 'rebooting', ON), (None, None, 'rebooting', ON)],
        'RESCUE', ['rescue', 'unrescue', 'rescue']),
    'PXE again while in PXE': (
        [('pxe', False, 'rebooting', ON), ('pxe', False, 'rebooting', ON)],
        'RESCUE', ['rescue', 'unrescue', 'rescue']),
    'end of a cleaning': (
        [(None, None, OFF, OFF), ('pxe', False, ON, ON),
         (None, None, OFF, OFF)],
        'SHUTOFF', ['stop', 'rescue', 'unrescue', 'stop']),
    'disk after PXE': (
        [('pxe', False, 'rebooting', ON), ('disk', True, 'rebooting', ON)],
        'ACTIVE', ['rescue', 'unrescue']),
}


# Cells of the table, each of which test_table.py has as well.
CELLS = ('off', 'soft off', 'reboot', 'soft reboot',
         'PXE from a running disk system', 'PXE from off', 'disk after PXE')


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[pytest.mark.full] if name in CELLS else [])
    for name in SEQUENCES])
def test_sequence_ends_where_asked_in_the_fewest_actions(machine, name):
    steps, status, actions = SEQUENCES[name]
    assert _go(*machine, steps) == (status, actions)


def test_setting_the_boot_device_touches_nothing(machine):
    deployment, node, server = machine
    deployment.nodes.set_boot_device(node, 'pxe', False)
    assert deployment.actions(server) == []
    assert deployment.boot_device(node) == {
        'boot_device': 'pxe', 'persistent': False}


def test_power_on_of_a_running_node_keeps_the_wish(machine):
    deployment, node, server = machine
    deployment.nodes.set_boot_device(node, 'pxe', False)
    deployment.nodes.set_power_state(node, ON, ON)
    assert deployment.actions(server) == []
    deployment.nodes.set_power_state(node, 'rebooting', ON)
    assert deployment.cloud.compute.get_server(server).status == 'RESCUE'


def test_server_in_error_is_powered_off_and_on(machine):
    deployment, node, server = machine
    # To put a server into ERROR is an administrator's right.
    deployment.admin.compute.reset_server_state(server, 'error')
    assert _go(deployment, node, server, [(None, None, 'rebooting', ON)]) == (
        'ACTIVE', ['resetState', 'reboot'])


def test_request_waits_for_a_task_in_progress(machine):
    deployment, node, server = machine
    deployment.cloud.compute.reboot_server(server, 'HARD')
    assert _go(deployment, node, server, [('pxe', False, 'rebooting', ON)]
               ) == ('RESCUE', ['reboot', 'rescue'])


@pytest.mark.parametrize('boot_mode', ['bios', 'uefi'])
def test_boot_mode_is_read_from_the_image(deployment, boot_mode):
    server = deployment.server(boot_mode)
    node = deployment.node(server.id)
    deployment.manage(node)
    try:
        deployment.nodes.set_boot_device(node.id, 'pxe', False)
        deployment.nodes.set_power_state(node.id, 'rebooting', ON)
        deployment.wait_for(
            lambda: deployment.api.get_node(node.id).boot_mode == boot_mode,
            f'power sync to see boot mode {boot_mode}')
    finally:
        deployment.api.delete_node(node.id)
        deployment.cloud.compute.delete_server(server.id)
