# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin's phases with a real cloud and a real Ironic.

DevStack itself is a stand-in, see tests/devstack/standin/functions, unless
DEVSTACK_DIR names a checkout of it.
"""

import contextlib
import pathlib
import shutil
import subprocess
import sys

from openstack import exceptions
import pytest
import yaml

from onebox import lab
from onebox.minicloud import settings
from onebox import progress
from onebox import system
from tests.devstack import plugin as devstack
from tests import projects

pytestmark = pytest.mark.newest

# The project of the cloud of the tests is "quintupleo".
TENANT = 'devstack-tenant'
DEVICE = 'quintupleo-test'
STACK = 'stack install', 'stack post-config'
# No agent boots on a fake hypervisor.
WITHOUT_CLEANING = '[conductor]', 'automated_clean = false'


class Stack:
    """A DevStack on the cloud and the Ironic of the tests."""

    def __init__(self, deployment, folder):
        self.deployment = deployment
        self.folder = folder
        self._cloud = deployment.minicloud
        self._state = deployment.ironic.state
        tenant = deployment.cloud.config
        self._auth_url = tenant.get_auth_args()['auth_url']
        self.plugin = devstack.Plugin(
            folder, OPENSTACKCLIENT_CONF_DIR=self._state,
            IRONIC_CONF_FILE=deployment.ironic.conf,
            IRONIC_OS_CLOUD='devstack-ironic',
            KEYSTONE_SERVICE_URI=self._auth_url,
            QUINTUPLEO_NEUTRON_HOST=settings.HOST, OVS_BRIDGE=settings.BRIDGE,
            QUINTUPLEO_TENANT=TENANT, QUINTUPLEO_ISO=deployment.iso,
            QUINTUPLEO_DEVICE=DEVICE,
            QUINTUPLEO_VCPUS=1, QUINTUPLEO_RAM=64, QUINTUPLEO_DISK=1,
            QUINTUPLEO_TIMEOUT=120)
        self.plugin.environment = {
            'OVS_RUNDIR': str(self._cloud.run / 'ovs'),
            'OS_CLIENT_CONFIG_FILE': str(self._state / 'clouds.yaml')}
        (folder / 'nova.conf').write_text('[libvirt]\nvirt_type = qemu\n')

    def write_clouds(self):
        """Name the cloud's administrator and Ironic as DevStack does."""
        path = self._state / 'clouds.yaml'
        content = yaml.safe_load(path.read_text())
        admin = content['clouds'][lab.ADMIN]
        system_scope = {name: value for name, value in admin['auth'].items()
                        if 'project' not in name}
        address = self.deployment.ironic.api_url
        content['clouds'] |= {
            'devstack-admin': admin,
            'devstack-system-admin': {
                **admin, 'auth': {**system_scope, 'system_scope': 'all'}},
            'devstack-ironic': {
                'auth_type': 'none', 'auth': {'endpoint': address},
                'baremetal_endpoint_override': address}}
        system.write_file(path, yaml.safe_dump(content))

    def restart_ironic(self, *lines):
        """Let Ironic read what the plugin has written."""
        service = self.deployment.ironic
        service.stop()
        with open(service.conf, 'a') as conf:
            conf.write('\n'.join(['', *lines, '']))
        with progress.Progress('test').stage('Ironic') as stage:
            service.start(stage, api_only=True)

    @property
    def tenant(self):
        """The connection of the tenant that the plugin has made."""
        return self.deployment.host_cloud.connect(TENANT)

    def nodes(self):
        """The nodes of this driver, {name: node}."""
        return {node.name: node for node in self.deployment.api.nodes(
            details=True) if node.driver == 'quintupleo'}

    def remove_nodes(self):
        """Delete them, as a new database would."""
        for node in self.nodes().values():
            self.deployment.api.delete_node(node)


@pytest.fixture
def stack(deployment, tmp_path):
    """A DevStack before its first phase; nothing of it stays."""
    # What DevStack installs for the plugin, and pgrep.
    system.install_packages(['dnsmasq-base', 'procps'],
                            deployment.ironic.logs / 'packages.log')
    path = deployment.ironic.state / 'clouds.yaml'
    before = path.read_text()
    made = Stack(deployment, tmp_path)
    made.write_clouds()
    try:
        yield made
    finally:
        made.plugin.run('unstack', 'clean', check=False)
        made.remove_nodes()
        _forget_tenant(deployment.admin)
        system.write_file(path, before)
        deployment.reconfigure()


def _forget_tenant(admin):
    for image in admin.image.images(
            owner=getattr(admin.identity.find_project(TENANT), 'id', '-')):
        admin.image.delete_image(image)
    for thing in ('user', 'project'):
        found = getattr(admin.identity, f'find_{thing}')(TENANT)
        if found:
            getattr(admin.identity, f'delete_{thing}')(found)
    flavor = admin.compute.find_flavor('quintupleo')
    if flavor:
        admin.compute.delete_flavor(flavor)


def _address(device):
    """The IPv4 address of a device; '' if there is no such device."""
    shown = system.run(['ip', '-4', '-o', 'address', 'show', 'dev', device],
                       check=False).stdout.split()
    return shown[3] if len(shown) > 3 else ''


def _dhcp_servers(folder):
    """The processes of dnsmasq that serve a DevStack."""
    conf = f'{folder}/data/quintupleo/dnsmasq.conf'
    return system.run(['pgrep', '-f', conf], check=False).stdout.split()


@pytest.mark.full
def test_stack_twice_and_unstack_twice(stack):
    stack.plugin.run(*STACK)
    assert ('file=unsafe,block=unsafe,network=unsafe'
            in (stack.folder / 'nova.conf').read_text())
    stack.restart_ironic(*WITHOUT_CLEANING)
    stack.plugin.run('stack extra')
    nodes = stack.nodes()
    assert {name: node.provision_state for name, node in nodes.items()} == {
        'devstack-bios-0': 'available'}
    tenant = stack.tenant
    server, = tenant.compute.servers()
    node, = nodes.values()
    assert node.driver_info == {'quintupleo_server': server.id}
    assert [port.address for port in stack.deployment.api.ports(
        node_id=node.id)] == [
            port.mac_address for port in tenant.network.ports(
                device_id=server.id)]
    assert _address(DEVICE) == '198.51.100.1/24'
    port = tenant.network.find_port('devstack-conductor')
    assert port.status == 'ACTIVE'
    assert len(_dhcp_servers(stack.folder)) == 1

    held = projects.holdings(tenant)
    # Ironic's database is made anew when DevStack stacks again.
    stack.remove_nodes()
    stack.plugin.run(*STACK, 'stack extra')
    assert projects.holdings(tenant) == held
    node, = stack.nodes().values()
    assert (node.provision_state, node.driver_info) == (
        'available', {'quintupleo_server': server.id})
    assert len(_dhcp_servers(stack.folder)) == 1

    stack.plugin.run('unstack')
    assert {image.name for image in tenant.image.images(
        owner=tenant.current_project_id)} == {
            f'quintupleo-{purpose}-{mode}' for purpose in ('rescue', 'empty')
            for mode in ('bios', 'uefi')}
    held = projects.holdings(tenant)
    assert {what for what, things in held.items() if things} == {
        'images', 'security_groups'}
    assert not _address(DEVICE) and not _dhcp_servers(stack.folder)
    stack.plugin.run('unstack', 'clean', 'clean')
    assert not (stack.folder / 'data' / 'quintupleo').exists()


@pytest.fixture
def provisioning_device():
    """A device of this machine on a network of another cloud."""
    name = 'quintupleo-nic'
    system.run(['ip', 'link', 'add', name, 'type', 'veth', 'peer',
                'name', 'quintupleo-swp'])
    system.run(['ip', 'address', 'add', '203.0.113.1/24', 'dev', name])
    system.run(['ip', 'link', 'set', name, 'up'])
    try:
        yield name
    finally:
        system.run(['ip', 'link', 'delete', name])


@pytest.mark.full
def test_nodes_of_another_cloud(stack, provisioning_device):
    tenant = stack.deployment.cloud
    network = tenant.network.create_network(
        name='devstack-provision', is_port_security_enabled=False)
    try:
        tenant.network.create_subnet(
            network_id=network.id, ip_version=4, cidr='203.0.113.0/24',
            is_dhcp_enabled=False, gateway_ip=None)
        before = projects.holdings(tenant)
        stack.plugin.settings |= {
            'QUINTUPLEO_HOST_CLOUD': lab.CLOUD,
            'QUINTUPLEO_NETWORK': 'devstack-provision',
            'QUINTUPLEO_DEVICE': provisioning_device,
            'QUINTUPLEO_FLAVOR': 'tiny', 'QUINTUPLEO_BIOS_MACHINES': 2,
            'QUINTUPLEO_UEFI_MACHINES': 1,
            'ENABLED_SERVICES': 'key,ir-api,ir-cond'}
        stack.plugin.run(*STACK)
        # Nova is not ours there.
        assert 'unsafe' not in (stack.folder / 'nova.conf').read_text()
        stack.restart_ironic(*WITHOUT_CLEANING)
        stack.plugin.run('stack extra')
        assert {name: node.provision_state
                for name, node in stack.nodes().items()} == {
            'devstack-bios-0': 'available', 'devstack-bios-1': 'available',
            'devstack-uefi-0': 'available'}
        conf = stack.folder / 'data' / 'quintupleo' / 'dnsmasq.conf'
        assert 'dhcp-range=203.0.113.100,203.0.113.199,' in conf.read_text()
        stack.plugin.run('unstack')
        assert projects.holdings(tenant) == before
        assert _address(provisioning_device) == '203.0.113.1/24'
    finally:
        with contextlib.suppress(exceptions.SDKException):
            tenant.network.delete_network(network)


@pytest.mark.full
def test_what_is_missing_is_said(stack):
    stack.plugin.settings['QUINTUPLEO_HOST_CLOUD'] = 'elsewhere'
    done = stack.plugin.run('stack post-config', check=False)
    assert done.returncode
    assert 'cannot sign in to "elsewhere"' in done.stderr.replace('\n', ' ')
    # What was never stacked is unstacked all the same.
    done = stack.plugin.run('unstack', 'clean')
    assert 'cannot sign in to "elsewhere"' in done.stdout

    stack.plugin.settings |= {'QUINTUPLEO_HOST_CLOUD': lab.CLOUD,
                              'QUINTUPLEO_DEVICE': 'nothing0',
                              'QUINTUPLEO_BIOS_MACHINES': 0,
                              'QUINTUPLEO_UEFI_MACHINES': 1,
                              'QUINTUPLEO_FLAVOR': 'tiny'}
    done = stack.plugin.run('stack extra', check=False)
    assert done.returncode
    assert 'QUINTUPLEO_DEVICE: this machine has no device "nothing0"' in (
        done.stderr)


@pytest.fixture(scope='session')
def ironic_plugin(deployment, tmp_path_factory):
    """The folder of Ironic's own DevStack plugin, of the Ironic at hand."""
    folder = tmp_path_factory.mktemp('ironic-sdist')
    version = system.release(deployment.ironic.venv, 'ironic')
    subprocess.run(
        [sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps',
         '--no-binary', 'ironic', '--dest', folder, f'ironic=={version}'],
        check=True)
    archive, = folder.glob('ironic-*.tar.gz')
    shutil.unpack_archive(archive, folder)
    return next(folder.glob('ironic-*/devstack'))


@pytest.mark.full
def test_ironic_takes_what_its_own_plugin_makes_of_our_settings(
        stack, ironic_plugin):
    library = pathlib.Path(ironic_plugin) / 'lib' / 'ironic'
    conf = stack.deployment.ironic.conf
    found = stack.plugin.after_settings(f'''
source "{devstack.FOLDER}/standin/for-ironic"
source "{library}" > /dev/null
echo "driver $IRONIC_DEPLOY_DRIVER"
echo "nodes $(wc -l < "$IRONIC_HWINFO_FILE")"
# The file that Ironic runs with.
IRONIC_CONF_FILE={conf}
configure_ironic_conductor > /dev/null
# Which is made beside that, with boot loaders that nothing here needs.
mkdir -p "$IRONIC_HTTP_DIR" "$IRONIC_TFTPBOOT_DIR"
iniset $IRONIC_CONF_FILE conductor automated_clean False
# A default of this Ironic's own, which DevStack does not enable.
sed -i '/^default_rescue_interface/d' "$IRONIC_CONF_FILE"
''')
    assert found == 'driver quintupleo\nnodes 0\n'
    stack.restart_ironic()
    shown = stack.deployment.api.get_driver('quintupleo')
    assert (shown.default_power_interface, shown.default_management_interface,
            shown.default_network_interface, shown.default_boot_interface,
            shown.default_deploy_interface) == (
                'quintupleo', 'quintupleo', 'noop', 'ipxe', 'direct')
    assert (shown.default_console_interface, shown.default_inspect_interface,
            shown.default_vendor_interface) == ('quintupleo',) * 3
    assert 'quintupleo-virtual-media' in shown.enabled_boot_interfaces
    assert 'quintupleo' in shown.enabled_network_interfaces
