# SPDX-License-Identifier: Apache-2.0
"""The sdist and the wheel: what is in them, and each in an empty environment.

What should be there is read from git and from setup.cfg.
"""

import configparser
import email
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.executable).parent
CONSTRAINTS = REPOSITORY / 'tools' / 'onebox' / 'constraints'
# What only git reads; pbr leaves it out.
NOT_PACKED = {'.gitignore', '.gitreview'}
MADE_BY_PBR = {'AUTHORS', 'ChangeLog', 'PKG-INFO'}
# Who loads an entry point brings these.
CLIENT = ('python-openstackclient',)
ALL = ('ironic', 'python-openstackclient', 'tempest', 'ironic-tempest-plugin')
COMMANDS = 'openstack.quintupleo.v1'

# Loads the entry points of the groups that begin so, and prints their names.
LOAD = '''
import importlib.metadata
import sys
for point in importlib.metadata.distribution('quintupleo-power').entry_points:
    if point.group.startswith(sys.argv[1]):
        point.load()
        print(point.group, point.name)
'''


def _git(*words):
    return subprocess.run(
        ['git', '-c', f'safe.directory={REPOSITORY}', '-c',
         f'safe.directory={REPOSITORY}/.git', '-C', REPOSITORY, *words],
        check=True, capture_output=True, text=True).stdout


def _run(*words, **keywords):
    """Run a command, away from the checkout; return its output."""
    done = subprocess.run([str(word) for word in words], cwd='/',
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope='session')
def tracked():
    """The names of all files that git has and that are there."""
    return {name for name in _git('ls-files').splitlines()
            if (REPOSITORY / name).is_file()}


@pytest.fixture(scope='session')
def settings():
    """setup.cfg."""
    found = configparser.ConfigParser(delimiters='=', interpolation=None)
    found.optionxform = str
    found.read(REPOSITORY / 'setup.cfg')
    return found


@pytest.fixture(scope='session')
def built(tmp_path_factory, tracked):
    """The folder of the sdist and the wheel, which is made of the sdist.

    They are built in a clone, with what was changed and not committed.
    """
    folder = tmp_path_factory.mktemp('packages')
    clone = folder / 'clone'
    _git('clone', '--quiet', str(REPOSITORY), str(clone))
    for name in tracked:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, clone / name)
    _run('git', '-C', clone, 'add', '--all')
    _run(sys.executable, '-m', 'build', '--installer', 'uv', '--outdir',
         folder / 'dist', clone,
         env={**os.environ, 'PATH': f'{BIN}:{os.environ["PATH"]}'})
    return folder / 'dist'


@pytest.fixture(scope='session')
def sdist(built):
    """Path of the sdist."""
    path, = built.glob('*.tar.gz')
    return path


@pytest.fixture(scope='session')
def wheel(built):
    """Path of the wheel."""
    path, = built.glob('*.whl')
    return path


@pytest.fixture(scope='session')
def in_sdist(sdist):
    """The names of all files of the sdist."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition('/')[2] for member in archive
                if member.isfile()}


@pytest.fixture(scope='session')
def in_wheel(wheel):
    """The names of all files of the wheel, and what is in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        metadata, = (name for name in archive.namelist()
                     if name.endswith('.dist-info/METADATA'))
        return (set(archive.namelist()),
                email.message_from_bytes(archive.read(metadata)))


def test_index_would_take_both(sdist, wheel):
    _run(BIN / 'twine', 'check', '--strict', sdist, wheel)


def test_sdist_has_each_tracked_file(tracked, in_sdist):
    assert 'setup.cfg' in tracked
    assert tracked - in_sdist == NOT_PACKED


def test_sdist_has_nothing_else(tracked, in_sdist):
    assert {name for name in in_sdist - tracked
            if not name.startswith('quintupleo_power.egg-info/')
            } == MADE_BY_PBR


def test_wheel_has_each_file_of_the_packages(tracked, settings, in_wheel):
    packages = tuple(f'{name}/' for name
                     in settings['files']['packages'].split())
    expected = {name for name in tracked if name.startswith(packages)}
    assert 'quintupleo_power/interfaces/power.py' in expected
    names = {name for name in in_wheel[0]
             if not name.partition('/')[0].endswith(('.dist-info', '.data'))}
    assert names == expected


def test_wheel_has_the_data_files(settings, in_wheel):
    expected = set()
    for line in settings['files']['data_files'].strip().splitlines():
        folder, _, source = (part.strip() for part in line.partition('='))
        expected.add(f'{folder}/{pathlib.Path(source).name}')
    names = {name.partition('.data/data/')[2] for name in in_wheel[0]
             if '.data/' in name}
    assert names == expected


def test_wheel_has_the_licence(in_wheel):
    assert any(name.endswith('.dist-info/licenses/LICENSE')
               for name in in_wheel[0])


def test_metadata_say_what_is_required(in_wheel):
    _, metadata = in_wheel
    lines = (line.partition('#')[0].strip() for line
             in (REPOSITORY / 'requirements.txt').read_text().splitlines())
    assert sorted(metadata.get_all('Requires-Dist')) == sorted(
        line for line in lines if line)


def test_metadata_name_the_lowest_python(in_wheel):
    _, metadata = in_wheel
    prefix = 'Programming Language :: Python :: '
    versions = [tuple(int(number) for number in word.split('.'))
                for word in (value.removeprefix(prefix) for value
                             in metadata.get_all('Classifier'))
                if word.startswith('3.')]
    lowest = '.'.join(str(number) for number in min(versions))
    assert metadata['Requires-Python'] == f'>={lowest}'


def test_nothing_newer_than_the_lowest_python_is_used(settings):
    lowest = settings['metadata']['python_requires'].removeprefix('>=')
    _run(BIN / 'vermin', f'--target={lowest}-', '--no-tips', '--violations',
         *(REPOSITORY / name
           for name in settings['files']['packages'].split()))


def _environment(path, package, companions):
    """An empty Python environment with a package and its companions.

    :returns: path of its interpreter.
    """
    _run(BIN / 'uv', 'venv', '--quiet', '--python', '/usr/bin/python3', path)
    _run(BIN / 'uv', 'pip', 'install', '--quiet', '--python', path,
         '--constraint', CONSTRAINTS / 'ironic-39.txt', package, *companions)
    return path / 'bin' / 'python'


def _points(settings, prefix):
    return sorted(
        f'{group} {line.partition("=")[0].strip()}'
        for group in settings['entry_points'] if group.startswith(prefix)
        for line in settings['entry_points'][group].strip().splitlines())


def _load(python, prefix):
    return sorted(_run(python, '-I', '-c', LOAD, prefix).splitlines())


def test_wheel_gives_the_client_its_commands_without_ironic(
        tmp_path, settings, wheel):
    python = _environment(tmp_path / 'venv', wheel, CLIENT)
    listed = _run(BIN / 'uv', 'pip', 'list', '--python', python)
    assert not [line for line in listed.splitlines()
                if line.split()[0] in ('ironic', 'tempest')]
    for prefix in ('openstack.', 'oslo.'):
        expected = _points(settings, prefix)
        assert expected
        assert _load(python, prefix) == expected
    shown = _run(python.parent / 'openstack', 'command', 'list', '--group',
                 COMMANDS, '-f', 'value')
    for point in _points(settings, COMMANDS):
        assert point.partition(' ')[2].replace('_', ' ') in shown


def test_sdist_beside_all_that_loads_it(tmp_path, settings, sdist):
    python = _environment(tmp_path / 'venv', sdist, ALL)
    expected = _points(settings, '')
    assert 'ironic.hardware.types quintupleo' in expected
    assert _load(python, '') == expected
