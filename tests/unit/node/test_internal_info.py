# SPDX-License-Identifier: Apache-2.0
"""The table of what the driver keeps with a node."""

import importlib
import pathlib
import re

import pytest

from quintupleo_power.node import internal_info

PACKAGE = pathlib.Path(internal_info.__file__).resolve().parents[1]


@pytest.mark.parametrize('key', internal_info.KEYS)
def test_owner_has_the_key(key):
    owner, meaning = internal_info.KEYS[key]
    module = importlib.import_module(f'quintupleo_power.{owner}')
    assert key in vars(module).values() and meaning


def test_every_key_is_in_the_table():
    """No module sets a key by a text of its own."""
    for path in PACKAGE.rglob('*.py'):
        assert not re.findall(
            r"driver_internal_info(?:\.get\(|\[|\()\s*'quintupleo",
            path.read_text()), path
