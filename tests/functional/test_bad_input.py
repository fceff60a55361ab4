# SPDX-License-Identifier: Apache-2.0
"""Each mistake is answered with one sentence, and changes nothing."""

import uuid

import pytest


@pytest.fixture
def check(deployment):
    """Validate the power of a node with this driver_info."""
    made = []

    def validate(server_id=None, **driver_info):
        node = deployment.node(server_id, **driver_info)
        made.append(node)
        result = deployment.api.validate_node(node.id, required=())['power']
        assert result.result is False
        assert 'Unexpected' not in result.reason
        return result.reason

    yield validate
    for node in made:
        deployment.api.delete_node(node.id)


@pytest.fixture(scope='module')
def server(deployment):
    """One server for all tests: none of them may change it."""
    found = deployment.server()
    yield found
    assert deployment.actions(found.id) == []
    deployment.cloud.compute.delete_server(found.id)


def test_server_missing(check):
    assert 'lacks driver_info/quintupleo_server' in check()


def test_server_unknown(check):
    unknown = str(uuid.uuid4())
    assert f'Server {unknown} does not exist' in check(unknown)


def test_server_name_unknown(check):
    assert "No server is named 'nobody'" in check('nobody')


@pytest.mark.parametrize('name', (
    '../servers', 'detail?all_tenants=1', '%2e%2e%2f', '#', '.*', '(', '[a-',
    '\\', '^$', 'a b', "' OR 1=1 --", '{0.__class__}', '%s', 'é',
    'x' * 255))
def test_server_name_that_tries_more(check, name):
    assert f"No server is named '{name}'" in check(name)


def test_server_name_not_unique(deployment, check):
    twins = [deployment.server(name='twin') for _ in range(2)]
    reason = check('twin')
    assert "2 servers are named 'twin'" in reason
    assert all(twin.id in reason for twin in twins)
    for twin in twins:
        deployment.cloud.compute.delete_server(twin)


def test_rescue_image_missing(check, server):
    reason = check(server.id, quintupleo_rescue_image='no-such-image')
    assert "No image is named 'no-such-image'" in reason
    assert 'driver_info/quintupleo_rescue_image' in reason


def test_rescue_image_without_the_properties(check, server):
    reason = check(server.id, quintupleo_rescue_image='quintupleo-empty-bios')
    assert 'lacks hw_rescue_device and hw_rescue_bus' in reason


def test_cloud_unknown(check, server):
    reason = check(server.id, quintupleo_cloud='elsewhere')
    assert "no usable entry 'elsewhere'" in reason


def test_credentials_wrong(check, server):
    secret = 'not-the-secret'
    reason = check(server.id,
                   quintupleo_application_credential_id=uuid.uuid4().hex,
                   quintupleo_application_credential_secret=secret)
    assert 'does not accept the credentials' in reason
    assert secret not in reason


def test_cloud_unreachable(deployment, check, server):
    deployment.add_cloud('unreachable', 'http://127.0.0.1:9/v3')
    reason = check(server.id, quintupleo_cloud='unreachable')
    assert "Host cloud 'unreachable' cannot be reached" in reason
    # Eventlet, below Ironic of its time, gives the error's name.
    assert 'Connection refused' in reason or 'ECONNREFUSED' in reason


def test_auth_url_not_permitted(check, server):
    reason = check(server.id,
                   quintupleo_auth_url='http://192.0.2.7/v3',
                   quintupleo_application_credential_id=uuid.uuid4().hex,
                   quintupleo_application_credential_secret='secret')
    assert '[quintupleo]allowed_auth_urls' in reason


def test_deleted_server_is_not_off(deployment):
    server = deployment.server()
    node = deployment.node(server.id)
    deployment.manage(node)
    deployment.cloud.compute.delete_server(server, force=False)
    deployment.cloud.compute.wait_for_delete(server, interval=0.3)
    with pytest.raises(Exception, match='does not exist|was deleted'):
        deployment.nodes.set_power_state(node.id, 'power off', 'power off')
    assert deployment.api.get_node(node.id).power_state == 'power on'
    deployment.api.delete_node(node.id)
