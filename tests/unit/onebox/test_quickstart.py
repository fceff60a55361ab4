# SPDX-License-Identifier: Apache-2.0
"""quickstart: what it is told, and another agent in the ramdisk."""

import gzip
import inspect
import io
import pathlib
import re
import subprocess
import types

import pytest

from onebox import cloud_quickstart
from onebox import images
from onebox.minicloud import cloud as minicloud
from onebox.minicloud import settings
from onebox import progress
from onebox import quickstart
from onebox import system
from quintupleo_power.environments import definition

PAGES = pathlib.Path(__file__).resolve().parents[3] / 'doc/source/user'


def sample(page):
    """Return the lines that a page shows as printed by quickstart."""
    return [line.removeprefix('   ') for line in re.search(
        r'^   :class: quickstart\n\n((?:(?:   .*)?\n)+)',
        (PAGES / page).read_text(), re.MULTILINE)[1].rstrip().split('\n')]


SAMPLE = sample('quickstart.rst')


@pytest.mark.parametrize('words, sentence', [
    (['--ironic', '{folder}'], 'there is no folder ironic with a Python'),
    (['--agent', '{folder}/none'], 'there is no folder ironic_python_agent'),
    (['--ironic', '{checkout}', '--ironic-version', '35.0'],
     'not allowed with argument --ironic')])
def test_wrong_words(tmp_path, capsys, words, sentence):
    checkout = tmp_path / 'checkout'
    (checkout / 'ironic').mkdir(parents=True)
    (checkout / 'ironic' / '__init__.py').touch()
    with pytest.raises(SystemExit):
        quickstart.main([word.format(folder=tmp_path, checkout=checkout)
                         for word in words])
    assert sentence in capsys.readouterr().err


def test_agent_of_a_checkout_is_in_the_ramdisk(tmp_path):
    built = images.Images(tmp_path, tmp_path)
    built.folder.mkdir()
    # Of an odd length, which what follows must not begin at.
    first = gzip.compress(b'what was built')[:-1]
    built.agent_ramdisk.write_bytes(first)
    package = tmp_path / 'checkout' / 'ironic_python_agent'
    (package / 'tests').mkdir(parents=True)
    (package / '__init__.py').write_text('changed = True\n')
    (package / 'tests' / 'test_x.py').touch()
    target = tmp_path / 'ramdisk'
    built.write_ramdisk(tmp_path / 'checkout', target)
    content = target.read_bytes()
    assert content.startswith(first)
    begin = content.index(b'070701')
    assert begin % 4 == 0 and not content[len(first):begin].strip(b'\0')
    out = tmp_path / 'out'
    out.mkdir()
    subprocess.run(['cpio', '--quiet', '--extract', '--make-directories'],
                   input=content[begin:], cwd=out, check=True)
    folder = out / images.AGENT_FOLDER[1:]
    assert [str(path.relative_to(folder)) for path in folder.rglob('*.py')
            ] == ['ironic_python_agent/__init__.py']
    assert images.AGENT_FOLDER in (
        out / images.AGENT_SETTING[1:]).read_text()
    assert built.agent_ramdisk.read_bytes() == first


def _seconds(text):
    minutes, _, rest = text.rpartition(' min ')
    return 60 * int(minutes or 0) + float(rest.removesuffix(' s'))


def test_table_of_the_page_is_what_is_printed():
    stages = [re.split(r' {2,}', line.strip()) for line in SAMPLE[
        1:SAMPLE.index('...') - 2]]
    now = [0.0]
    shown = progress.Progress('quickstart', stream=io.StringIO(),
                              clock=lambda: now[0])
    for name, began, took, _outcome in stages:
        now[0] = _seconds(began)
        with shown.stage(name):
            # One that took no time at all would count as unfinished.
            now[0] += _seconds(took) or 0.01
    now[0] = _seconds(SAMPLE[len(stages) + 1].split('total')[1].strip())

    assert ['  ' + line for line in shown.table()] == SAMPLE[:len(stages) + 2]
    source = ''.join(map(inspect.getsource, (
        quickstart.Quickstart.prepare, quickstart.Quickstart.furnish,
        quickstart.Quickstart.deploy, minicloud.install, minicloud.up)))
    assert {stage[0] for stage in stages} == {
        name.format(name='bios-0')
        for name in re.findall(r"stage\(\s*f?'(.*?)'", source)}


def farewell(capsys, deployed):
    """Return the lines that quickstart ends with."""
    venv = re.search(r'PATH=(\S+)/bin:', '\n'.join(SAMPLE))[1]
    quickstart._farewell(types.SimpleNamespace(
        ironic=types.SimpleNamespace(venv=venv),
        host_cloud=types.SimpleNamespace(actions=lambda name: []),
        cloud=settings.Settings(system.STATE_DIR, system.CACHE_DIR)),
        deployed)

    assert venv.startswith(system.CACHE_DIR)
    return capsys.readouterr().out.splitlines()


def test_last_lines_of_the_page_are_what_is_printed(capsys):
    expected = SAMPLE[SAMPLE.index('...') + 1:]
    assert farewell(capsys, True)[-len(expected):] == expected


def test_next_step_after_a_start_without_a_deployment(capsys):
    lines = farewell(capsys, False)
    assert '    baremetal node manage bios-0' in lines


def test_file_of_a_lab_names_the_network_of_its_cloud():
    text = cloud_quickstart.lab_file(
        cloud_quickstart.SAMPLE.read_text(), [{'Name': 'ext: net'}])
    found = definition.parse(text)
    assert found.name == cloud_quickstart.LAB
    assert found.routers[0].external_network == 'ext: net'
    assert found.roles[0].nics[0].floating_ip == 'ext: net'
    assert f'{found.name}-node-0' == cloud_quickstart.NODE


def test_cloud_that_nobody_gets_into():
    with pytest.raises(system.Error, match='no external network'):
        cloud_quickstart.lab_file('', [])


def test_users_credentials_do_not_reach_the_labs_ironic(monkeypatch):
    for name in ('OS_TOKEN', 'OS_CLOUD', 'OS_CLIENT_CONFIG_FILE'):
        monkeypatch.setenv(name, 'the-users')
    made = cloud_quickstart.CloudQuickstart(None, 'mycloud', 'is up')
    monkeypatch.setattr(cloud_quickstart.CloudQuickstart, 'venv',
                        pathlib.Path('/venv'))
    command, settings = made._client('baremetal', cloud=cloud_quickstart.LAB)
    assert 'OS_TOKEN' not in settings and 'OS_CLOUD' not in settings
    assert settings['OS_CLIENT_CONFIG_FILE'] == str(made.clouds_yaml)
    assert made._client('server')[1]['OS_CLIENT_CONFIG_FILE'] == 'the-users'
    # The last lines of quickstart export the lab's.
    monkeypatch.setenv('OS_CLIENT_CONFIG_FILE', str(made.clouds_yaml))
    assert 'OS_CLIENT_CONFIG_FILE' not in made._client('server')[1]


@pytest.mark.parametrize('options', [[], ['--ironic-os-cloud', 'other']])
def test_credentials_of_the_labs_ironic(monkeypatch, tmp_path, options):
    monkeypatch.setenv('QUINTUPLEO_CACHE_DIR', str(tmp_path))
    shown = []

    def up(self, deploy):
        self.folder.mkdir(parents=True)
        self._create()

    cloud = cloud_quickstart.CloudQuickstart
    monkeypatch.setattr(cloud, 'up', up)
    monkeypatch.setattr(cloud, '_read', lambda *_: [{'Name': 'public'}])
    monkeypatch.setattr(cloud, '_show', lambda _, *words: shown.append(words))

    assert quickstart.main(['--os-cloud', 'mycloud', *options]) == 0
    (words,) = shown
    assert [*words[words.index('--clouds-yaml') + 2:]] == options


def test_last_lines_of_the_page_of_a_lab():
    lines = cloud_quickstart.farewell(
        types.SimpleNamespace(venv='...', clouds_yaml='...', cloud='mycloud'),
        deployed=True).replace('.../bin:$PATH', '...').splitlines()
    shown = sample('lab.rst')

    assert shown[-len(lines):] == lines


def test_node_of_a_lab_that_is_not_deployed():
    lines = cloud_quickstart.farewell(types.SimpleNamespace(
        venv='', clouds_yaml='', cloud=''), deployed=False)

    assert 'undeploy' not in lines


def test_interruption_names_the_command_that_goes_on(monkeypatch, capsys):
    def up(self, deploy):
        raise KeyboardInterrupt

    monkeypatch.setattr(cloud_quickstart.CloudQuickstart, 'up', up)

    assert quickstart.main(['--os-cloud', 'mycloud']) == 130
    assert ('"tools/quickstart --os-cloud mycloud --down" removes it'
            in capsys.readouterr().err)


def test_options_that_a_cloud_of_the_users_does_not_take(capsys):
    with pytest.raises(SystemExit):
        quickstart.main(['--os-cloud', 'mycloud', '--ironic-version', '38'])
    assert 'tools/build-conductor-image --ironic' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        quickstart.main(['--ironic-os-cloud', 'mycloud'])
    assert 'goes with --os-cloud only' in capsys.readouterr().err
