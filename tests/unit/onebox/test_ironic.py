# SPDX-License-Identifier: Apache-2.0
"""The standalone Ironic: what the clients find it by."""

from openstack import config

from onebox import ironic


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
