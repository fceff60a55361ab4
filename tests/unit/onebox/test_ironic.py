# SPDX-License-Identifier: Apache-2.0
"""The standalone Ironic: what the clients find it by."""

import configparser
import subprocess

from openstack import config
import pytest

from onebox import ironic
from onebox import releases
from onebox import system


def test_entry_of_clouds_yaml(tmp_path):
    path = tmp_path / 'clouds.yaml'
    path.write_text('clouds:\n  minicloud:\n    auth:\n      username: a\n')
    service = ironic.Ironic(tmp_path, api_port=6300)
    service.add_to(path)
    service.add_to(path)
    assert path.read_text().count('quickstart:') == 1
    found = config.OpenStackConfig(config_files=[str(path)],
                                   load_envvars=False)
    assert set(found.get_cloud_names()) == {'minicloud', 'quickstart'}
    cloud = found.get_one('quickstart')
    assert cloud.config['auth_type'] == 'none'
    assert cloud.get_endpoint('baremetal') == 'http://127.0.0.1:6300'


def test_nodes_may_be_given_faults(tmp_path, monkeypatch):
    service = ironic.Ironic(tmp_path)
    monkeypatch.setattr(service, '_create_database', lambda: None)
    service.configure('lo', {'cloud': 'minicloud'})
    conf = configparser.ConfigParser(interpolation=None)
    conf.read(service.conf)
    assert conf['quintupleo']['cloud'] == 'minicloud'
    assert conf['quintupleo']['fault_injection'] == 'true'


@pytest.mark.parametrize('version, name', [
    ('39', '39'), ('40.1', '39'), ('35.0', '35'), ('35.0.1', '35'),
    ('37.0', '35'), ('24.1', '24.1'), ('26.0', '24.1')])
def test_libraries_of_a_version(version, name):
    assert releases.nearest(version).name == name


@pytest.mark.parametrize('version, sentence', [
    ('23.0', 'Ironic 23.0 is too old: the driver needs 24.1 or later'),
    ('latest', '"latest" is no version of Ironic')])
def test_version_that_cannot_be(version, sentence):
    with pytest.raises(system.Error, match=sentence):
        releases.nearest(version)


def test_each_ironic_has_an_environment_of_its_own(tmp_path):
    services = [ironic.Ironic(tmp_path),
                ironic.Ironic(tmp_path, version='35.0'),
                ironic.Ironic(tmp_path, version='35.1'),
                ironic.Ironic(tmp_path, checkout=tmp_path)]
    assert len({service.venv for service in services}) == 4
    assert 'ironic==' not in services[1]._constraints
    assert 'openstacksdk==' in services[1]._constraints


def test_database_of_a_newer_ironic(tmp_path, monkeypatch):
    service = ironic.Ironic(tmp_path, venv='/usr')
    service.root.mkdir()
    (service.root / 'database.complete').write_text('/opt/newer')
    monkeypatch.setattr(system, 'run', lambda *_, **__: subprocess.
                        CompletedProcess([], 1))
    with pytest.raises(system.Error, match='does not read the database'):
        service._create_database()
    assert (service.root / 'database.complete').read_text() == '/opt/newer'


def test_checkout_has_the_libraries_of_its_time(tmp_path):
    def git(*words):
        subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b.c',
                        '-C', tmp_path, *words], check=True,
                       capture_output=True)

    git('init')
    assert ironic._release_before(tmp_path) is None
    git('commit', '--allow-empty', '--message', 'a')
    git('tag', '--annotate', '35.0.0', '--message', 'a')
    git('tag', '--annotate', 'yoga-eom', '--message', 'a')
    git('commit', '--allow-empty', '--message', 'b')
    service = ironic.Ironic(tmp_path / 'state', checkout=tmp_path)
    assert service._release.name == '35'
    assert service._version == '35.0'
