# SPDX-License-Identifier: Apache-2.0
"""Kolla's own builder renders its templates with our override."""

import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
OVERRIDE = REPOSITORY / 'containers' / 'kolla' / 'template-overrides.j2'
BIN = pathlib.Path(sys.executable).parent
PACKAGE = 'quintupleo-power'
# One with each kind of packages.
BASES = ('debian', pytest.param('rocky', marks=pytest.mark.full))


def _render(folder, base, *arguments):
    """Have kolla-build render the conductor and what it is made from.

    :returns: the texts of the Dockerfiles by image.
    """
    done = subprocess.run(
        [BIN / 'kolla-build', '--template-only', '--base', base,
         '--work-dir', folder, *arguments, '^ironic'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {path.parent.name: path.read_text()
            for path in folder.rglob('Dockerfile')}


@pytest.mark.parametrize('base', BASES)
def test_conductor_and_only_that_is_changed(tmp_path, base):
    plain = _render(tmp_path / 'plain', base)
    ours = _render(tmp_path / 'ours', base, '--template-override', OVERRIDE)
    assert {name for name, text in ours.items()
            if text != plain[name]} == {'ironic-conductor'}
    text = ours['ironic-conductor']
    # The driver is a plugin, and not what the index has by its name.
    assert PACKAGE not in text
    line, = (line for line in text.splitlines() if '/plugins/*' in line)
    assert 'pip --no-cache-dir install' in line
    assert '/requirements/upper-constraints.txt' in line
    # With it its memory stays level.
    level = 'ENV MALLOC_MMAP_THRESHOLD_=1048576'
    assert text.splitlines().count(level) == 1
    assert text.replace(level, '').split() == plain[
        'ironic-conductor'].split()
