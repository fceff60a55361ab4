# SPDX-License-Identifier: Apache-2.0
"""The table of what the driver keeps with a node, in the documentation."""

import importlib
import pathlib
import re

import pytest

from quintupleo_power.node import internal_info

PACKAGE = pathlib.Path(internal_info.__file__).resolve().parents[1]
TABLE = dict(re.findall(
    r'\* - ``(quintupleo_\w+)``\n +- ``([\w.]+)``\n +- .', (
        pathlib.Path(__file__).resolve().parents[3] / 'doc' / 'source'
        / 'contributor' / 'architecture.rst').read_text()))
KEYS = {value for name, value in vars(internal_info).items()
        if name.isupper()}


def test_each_key_is_in_the_table():
    assert KEYS == set(TABLE)


@pytest.mark.parametrize('key', sorted(KEYS))
def test_owner_has_the_key(key):
    module = importlib.import_module(f'quintupleo_power.{TABLE[key]}')
    assert key in vars(module).values()


def test_each_key_is_one_of_these():
    """No module sets a key by a text of its own."""
    for path in PACKAGE.rglob('*.py'):
        assert not re.findall(
            r"driver_internal_info(?:\.get\(|\[|\()\s*'quintupleo",
            path.read_text()), path
