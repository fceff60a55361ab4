# SPDX-License-Identifier: Apache-2.0
"""What is fetched and built beside the first tiers."""

import threading

import pytest

from onebox import preparation
from onebox import processes


@pytest.fixture
def go(monkeypatch):
    """Lets the commands end, which fail."""
    event = threading.Event()

    def call(command, **kwargs):
        assert event.wait(60)
        event.commands.append(command[1:])
        return 1

    event.commands = []
    monkeypatch.setattr(processes, 'call', call)
    return event


def test_packages_of_a_tier():
    assert preparation.packages(['unit']) == [
        'cpio', 'git', 'python3-venv']
    assert 'shellcheck' in preparation.packages(['lint'])
    assert 'qemu-system-x86' not in preparation.packages(['functional'])
    assert 'qemu-system-x86' in preparation.packages(['e2e'])
    assert 'mmdebstrap' in preparation.packages(['debian-13'])
    assert {'mtools', 'ovmf', 'xorriso'} < set(
        preparation.packages(['images']))


def test_tier_waits_for_what_it_needs(tmp_path, go):
    built = preparation.Preparation(['unit', 'functional', 'e2e'], tmp_path)
    assert not built.awaited('unit')
    assert len(built.awaited('functional')) == 2
    assert len(built.awaited('e2e')) == 2
    go.set()
    built.wait('e2e')
    assert not built.awaited('e2e')
    assert [words[0] for words in go.commands] == ['install', '-m']
    assert 'Debian image with keepalived' in go.commands[1]
    built.end()


def test_what_no_tier_needs_is_not_made(tmp_path, go):
    built = preparation.Preparation(['lint', 'unit'], tmp_path)
    go.set()
    built.end()
    assert not go.commands
