# SPDX-License-Identifier: Apache-2.0
"""What the image builders share, for a user who is not root."""

import os
import pathlib
import stat
import subprocess

import pytest

from onebox import images

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
# It stands for apt-get: the archive has the words in the place of packages.
APT_GET = '''\
#!/bin/sh
for word; do
    case $word in
        Dir::Cache::Archives=*) cp "$DEB" "${word#*=}";;
        indextargets) cat "$TARGETS"; exit;;
    esac
done
echo "$@" >>"$ASKED"
'''


@pytest.fixture
def shell(tmp_path):
    """Run lines of bash that have what the builders share."""
    programs = tmp_path / 'programs'
    programs.mkdir()
    (programs / 'apt-get').write_text(APT_GET)
    (programs / 'apt-get').chmod(0o755)
    content = tmp_path / 'content'
    for name, text in (('usr/bin/a-tool', '#!/bin/sh\necho works\n'),
                       ('usr/lib/a-file', ''), ('DEBIAN/control', (
                           'Package: a\nVersion: 1\nArchitecture: all\n'
                           'Maintainer: x <x@example.test>\n'
                           'Description: x\n'))):
        path = content / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    subprocess.run(['dpkg-deb', '--build', content, tmp_path / 'a.deb'],
                   check=True, capture_output=True)
    (tmp_path / 'build').mkdir()
    (tmp_path / 'targets').touch()

    def run(lines, **variables):
        return subprocess.run(
            ['bash', '-c', f'set -euo pipefail\nsource "$0"\n{lines}',
             TOOLS / 'images' / 'common.sh'],
            capture_output=True, text=True, env={
                'PATH': f'{programs}:{os.environ["PATH"]}',
                'WORK': str(tmp_path / 'build'),
                'DEB': str(tmp_path / 'a.deb'),
                'TARGETS': str(tmp_path / 'targets'),
                'ASKED': str(tmp_path / 'asked'), **variables})

    return run


def test_packages_are_unpacked_and_used(shell, tmp_path):
    said = shell('unpack_packages some packages; a-tool; '
                 'file_of /usr/lib/a-file; file_of /usr/lib/installed')
    assert not said.returncode, said.stderr
    assert said.stdout.splitlines()[1:] == [
        'works', f'{tmp_path}/build/packages/usr/lib/a-file',
        '/usr/lib/installed']
    asked = (tmp_path / 'asked').read_text()
    assert asked.endswith('--download-only install some packages\n')


def test_packages_that_cannot_be_fetched_are_named(shell, tmp_path):
    (tmp_path / 'programs' / 'apt-get').write_text('#!/bin/sh\nexit 100\n')
    said = shell('unpack_packages some packages')
    assert said.returncode == 1
    assert 'apt-get could not fetch some packages;' in said.stderr


@pytest.mark.parametrize('mirrors, first', [
    ('', 'http://deb.debian.org/debian'),
    ('http://mirror.test/debian\n', 'http://mirror.test/debian')])
def test_sources_are_at_the_mirrors_of_this_machine(shell, tmp_path, mirrors,
                                                    first):
    (tmp_path / 'targets').write_text(mirrors)
    said = shell('debian_sources trixie')
    lines = said.stdout.splitlines()
    assert [line.split('] ')[1].split()[1:] for line in lines] == [
        ['trixie', 'main'], ['trixie-security', 'main']]
    assert lines[0].split('] ')[1].startswith(f'{first} ')


def test_folder_of_a_result_keeps_its_mode(shell, tmp_path):
    target = tmp_path / 'target'
    target.mkdir()
    target.chmod(0o700)
    said = shell(f'open_work_folder some {target}',
                 QUINTUPLEO_CACHE_DIR=str(tmp_path / 'cache'))
    assert not said.returncode, said.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


def test_image_whose_part_has_changed_is_built_with_it(tmp_path, monkeypatch):
    ran = []

    def build(command, **_):
        ran.append(command[0].name)
        for name in ('agent.kernel', 'agent.ramdisk', 'esp.img',
                     'conductor.qcow2'):
            (built.folder / name).touch()
        return 0

    built = images.Images(tmp_path, tmp_path)
    recipes = {'build-agent-ramdisk': 'old'}
    monkeypatch.setattr(images.processes, 'call', build)
    monkeypatch.setattr(built, '_recipe', lambda name: recipes.get(name, ''))
    parts = ['build-agent-ramdisk', 'build-esp-image']
    for _ in range(2):
        built.build('conductor image')
        assert ran == [*parts, 'build-conductor-image']
    recipes['build-agent-ramdisk'] = recipes['build-conductor-image'] = 'new'
    built.build('conductor image')
    assert ran[3:] == ['build-agent-ramdisk', 'build-conductor-image']


def test_conductor_image_is_made_of_what_its_parts_are_made_of():
    sources = images.SOURCES['build-conductor-image']
    assert set(images.SOURCES['build-agent-ramdisk']) < set(sources)
    assert 'tools/build-agent-ramdisk' in sources
