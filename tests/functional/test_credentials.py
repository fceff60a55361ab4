# SPDX-License-Identifier: Apache-2.0
"""The three ways to say which cloud, with the rights of a member."""

import pytest


@pytest.fixture
def server(deployment):
    found = deployment.server()
    yield found
    deployment.cloud.compute.delete_server(found)


def _reboots(deployment, node, server):
    deployment.manage(node)
    deployment.nodes.set_boot_device(node.id, 'pxe', False)
    deployment.nodes.set_power_state(node.id, 'rebooting', 'power on')
    assert deployment.cloud.compute.get_server(server).status == 'RESCUE'
    deployment.api.delete_node(node.id)


def test_entry_of_clouds_yaml(deployment, server):
    _reboots(deployment, deployment.node(
        server.id, quintupleo_cloud='minicloud'), server)


def test_name_of_the_server(deployment, server):
    _reboots(deployment, deployment.node(server.name), server)


def test_application_credential_of_the_node(deployment, server):
    user = deployment.cloud.current_user_id
    credential = deployment.cloud.identity.create_application_credential(
        user, name=server.name)
    try:
        _reboots(deployment, deployment.node(
            server.id,
            quintupleo_auth_url=deployment.cloud.config.get_auth_args()[
                'auth_url'],
            quintupleo_application_credential_id=credential.id,
            quintupleo_application_credential_secret=credential.secret),
            server)
    finally:
        deployment.cloud.identity.delete_application_credential(
            user, credential)


@pytest.mark.full
def test_options_of_the_section(deployment, server):
    with deployment.section_credentials():
        _reboots(deployment, deployment.node(server.id), server)
