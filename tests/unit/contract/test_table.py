# SPDX-License-Identifier: Apache-2.0
"""The table of flows: its releases, and its tests, which are there."""

import ast
import inspect
import pathlib

from ironic.conductor import manager
from ironic.conf import CONF
from ironic.drivers import base
from ironic.drivers.modules import agent_base
from ironic import objects
import pytest

from tests.unit.contract import contracts
from tests.unit.contract import installed

UNIT = pathlib.Path(__file__).parents[1]
# What tells whether Ironic has a flow, where not all releases have it.
PROBES = {
    'deployment, autodetect': lambda: hasattr(
        base.DeployInterface, 'switch_interface'),
    'automated cleaning, by a runbook': lambda: hasattr(
        CONF.conductor, 'automated_cleaning_runbook'),
    'manual cleaning, by a runbook': lambda: hasattr(
        objects, 'Runbook') or _has_module('ironic.objects.runbook'),
    'service, by an agent': lambda: hasattr(
        agent_base.AgentBaseMixin, 'execute_service_step'),
    'nodes that are never off (disable_power_off)': lambda: (
        'disable_power_off' in objects.Node.fields),
}
# The requests of Ironic's API that change a node: what the table is about.
REQUESTS = {
    'change_node_boot_mode', 'change_node_power_state',
    'change_node_secure_boot', 'do_node_clean', 'do_node_deploy',
    'do_node_rescue', 'do_node_service', 'do_node_tear_down',
    'do_node_unrescue', 'do_provisioning_action'}


def _has_module(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def _tests(path):
    """Names of a file: of classes, of their methods, of functions."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f'{node.name}::{method.name}'
        elif isinstance(node, ast.FunctionDef):
            yield node.name


@pytest.mark.parametrize('flow', sorted(contracts.FLOWS))
def test_tests_of_a_flow_are_there(flow):
    first, *tests = contracts.FLOWS[flow]
    assert first in contracts.RELEASES
    for test in tests:
        path, _, name = test.partition('::')
        assert not name or name in [*_tests(UNIT / path)], test


@pytest.mark.parametrize('flow', sorted(PROBES))
def test_release_of_a_flow_is_that_of_the_table(flow):
    first, *_ = contracts.FLOWS[flow]
    assert bool(PROBES[flow]()) is contracts.is_in(installed.RELEASE, first)


def test_every_flow_that_is_tested_here_is_in_the_table():
    named = ' '.join(test for _, *tests in contracts.FLOWS.values()
                     for test in tests)
    for path in (UNIT / 'contract').glob('test_*_flows.py'):
        for name in _tests(path):
            if name.endswith('TestCase') and '::' not in name and (
                    name != 'AgentFlowTestCase'):
                assert f'{path.name}::{name}' in named


def test_requests_of_the_api_are_those_that_the_table_covers():
    found = {name for name, _ in inspect.getmembers(
        manager.ConductorManager, inspect.isfunction)
        if name.startswith(('do_', 'change_'))}
    assert found == REQUESTS
