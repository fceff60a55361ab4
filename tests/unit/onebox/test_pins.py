# SPDX-License-Identifier: Apache-2.0
"""What the agent's ramdisk is made of is pinned, with hashes."""

import pathlib
import re
import types

import pytest

from onebox import pins
from onebox import system

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def _requirements(text):
    """List requirements, each with the lines that go on with it."""
    text = re.sub(r' \\\n\s*', ' ', re.sub('^#.*\n', '', text, flags=re.M))
    return text.splitlines()


def test_each_requirement_of_the_ramdisk_has_hashes():
    found = _requirements(
        (pins.AGENT_FOLDER / 'requirements.txt').read_text())
    assert len(found) > 40
    for each in found:
        assert re.fullmatch(
            r'[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+', each)


def test_what_is_wanted_is_pinned():
    wanted = _requirements(
        (pins.AGENT_FOLDER / 'requirements.in').read_text())
    pinned = [each.partition(' ')[0] for each in _requirements(
        (pins.AGENT_FOLDER / 'requirements.txt').read_text())]
    assert set(wanted) <= set(pinned)


def test_build_takes_nothing_without_its_hash():
    script = (REPOSITORY / 'tools' / 'build-agent-ramdisk').read_text()
    assert '--require-hashes' in script
    assert pins.AGENT_PLATFORM.removeprefix('x86_64-') in script


@pytest.fixture
def uv(monkeypatch, tmp_path):
    """What is asked of uv; its output is what was there, and a line more."""
    asked = []

    def run(command):
        asked.append([str(word) for word in command])
        output = pathlib.Path(
            command[command.index('--output-file') + 1])
        output.write_text((output.read_text() if output.exists() else '')
                          + 'new==1\n')
        return types.SimpleNamespace(stdout='')

    monkeypatch.setattr(system, 'run', run)
    monkeypatch.setattr(system, 'uv', lambda log: 'uv')
    monkeypatch.setattr(system, 'cache_dir', lambda: tmp_path)
    monkeypatch.setattr(pins, 'AGENT_FOLDER', tmp_path)
    return asked


def test_pins_of_the_ramdisk_are_made_with_those_that_are_there(
        uv, tmp_path, capsys):
    target = tmp_path / 'requirements.txt'
    target.write_text('old==1\n')
    assert pins.main(['agent']) == 0
    command, = uv
    assert '--generate-hashes' in command
    assert command[-1] == str(tmp_path / 'requirements.in')
    assert target.read_text() == (
        '# Made by tools/pin-releases agent.\nold==1\nnew==1\n')
    assert str(target) in capsys.readouterr().out


def test_pins_of_the_ramdisk_are_not_lost_when_uv_fails(
        uv, tmp_path, monkeypatch):
    target = tmp_path / 'requirements.txt'
    target.write_text('old==1\n')

    def run(command):
        raise system.Error('no network')

    monkeypatch.setattr(system, 'run', run)
    assert pins.main(['agent']) == 1
    assert target.read_text() == 'old==1\n'
