# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin without a cloud: its settings and what it renders."""

import pathlib
import re

import pytest

from quintupleo_power.environments import definition
from tests.devstack import plugin as devstack

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path):
    return lambda **settings: devstack.Plugin(tmp_path, **settings)


def environment(plugin):
    """The environment that the settings describe, as the command reads it."""
    path = plugin.folder / 'environment.yaml'
    path.write_text(plugin.after_settings('_quintupleo_environment'))
    return definition.load(path)


def test_ironic_is_told_what_it_needs(make):
    found = make().variables(
        'IRONIC_DEPLOY_DRIVER', 'IRONIC_ENABLED_HARDWARE_TYPES',
        'IRONIC_ENABLED_POWER_INTERFACES', 'IRONIC_IS_HARDWARE',
        'IRONIC_VM_COUNT', 'IRONIC_HWINFO_FILE', 'IRONIC_DHCP_PROVIDER',
        'IRONIC_BUILD_DEPLOY_RAMDISK', 'IRONIC_DEFAULT_NETWORK_INTERFACE')
    assert found == {
        'IRONIC_DEPLOY_DRIVER': 'quintupleo',
        'IRONIC_ENABLED_HARDWARE_TYPES': 'quintupleo,fake-hardware',
        'IRONIC_ENABLED_POWER_INTERFACES': '',
        'IRONIC_IS_HARDWARE': 'True', 'IRONIC_VM_COUNT': '0',
        'IRONIC_HWINFO_FILE': '/dev/null', 'IRONIC_DHCP_PROVIDER': 'none',
        'IRONIC_BUILD_DEPLOY_RAMDISK': 'False',
        'IRONIC_DEFAULT_NETWORK_INTERFACE': 'noop'}


def test_what_local_conf_says_stays(make):
    found = make(
        IRONIC_DEPLOY_DRIVER='fake-hardware', IRONIC_IS_HARDWARE='False',
        IRONIC_BUILD_DEPLOY_RAMDISK='True',
        IRONIC_ENABLED_HARDWARE_TYPES='ipmi,fake-hardware',
        IRONIC_ENABLED_POWER_INTERFACES='ipmitool',
        IRONIC_ENABLED_MANAGEMENT_INTERFACES='quintupleo,ipmitool',
        IRONIC_DHCP_PROVIDER='dnsmasq').variables(
            'IRONIC_DEPLOY_DRIVER', 'IRONIC_IS_HARDWARE',
            'IRONIC_BUILD_DEPLOY_RAMDISK', 'IRONIC_ENABLED_HARDWARE_TYPES',
            'IRONIC_ENABLED_POWER_INTERFACES',
            'IRONIC_ENABLED_MANAGEMENT_INTERFACES', 'IRONIC_DHCP_PROVIDER')
    assert found == {
        'IRONIC_DEPLOY_DRIVER': 'fake-hardware',
        'IRONIC_IS_HARDWARE': 'False', 'IRONIC_BUILD_DEPLOY_RAMDISK': 'True',
        # The driver is added where it lacks.
        'IRONIC_ENABLED_HARDWARE_TYPES': 'ipmi,fake-hardware,quintupleo',
        'IRONIC_ENABLED_POWER_INTERFACES': 'ipmitool,quintupleo',
        'IRONIC_ENABLED_MANAGEMENT_INTERFACES': 'quintupleo,ipmitool',
        'IRONIC_DHCP_PROVIDER': 'dnsmasq'}


def test_interfaces_of_the_driver_are_enabled(make):
    names = [f'IRONIC_ENABLED_{kind}_INTERFACES'
             for kind in ('CONSOLE', 'INSPECT', 'NETWORK', 'VENDOR')]
    boot = 'IRONIC_ENABLED_BOOT_INTERFACES'
    deploy = 'IRONIC_ENABLED_DEPLOY_INTERFACES'
    found = make().variables(boot, deploy, *names)
    assert 'quintupleo-virtual-media' in found[boot].split(',')
    assert 'ipxe' in found[boot].split(',')
    assert 'quintupleo-rebuild' in found[deploy].split(',')
    assert 'direct' in found[deploy].split(',')
    for name in names:
        assert 'quintupleo' in found[name].split(','), name
    # Nova connects its users to a port; nodes get the first that is enabled.
    console = names[0]
    assert make(QUINTUPLEO_NOVA_IRONIC='True').variables(console) == {
        console: 'quintupleo-graphical,quintupleo-serial,fake,no-console'}
    # What local.conf says of those that nodes can do without stays.
    asked = {name: 'no-thing' for name in (boot, deploy, *names)}
    assert make(**asked).variables(*asked) == asked
    assert make(QUINTUPLEO_NOVA_IRONIC='True', **asked).variables(
        *asked) == asked


def test_esp_is_made_before_ironic_wants_it(make):
    # Ironic's plugin makes one of 4 MiB, where that file is not there.
    code = """
        function setup_develop { :; }
        function sudo { echo "${@: -3}"; }
        install_quintupleo
        """
    plugin = make(QUINTUPLEO_ISO=__file__)
    esp = plugin.folder / 'data' / 'quintupleo' / 'esp.img'
    assert plugin.variables('IRONIC_EFIBOOT', 'IRONIC_GRUB2_CONFIG_PATH') == {
        'IRONIC_EFIBOOT': str(esp),
        'IRONIC_GRUB2_CONFIG_PATH': 'EFI/BOOT/grub.cfg'}
    tool, option, output = plugin.after_settings(code).split()
    assert pathlib.Path(tool).resolve() == (
        REPOSITORY / 'tools' / 'build-esp-image')
    assert (option, output) == ('--output', str(esp))
    # What an earlier run has built stays, and so does what local.conf names.
    esp.touch()
    assert not plugin.after_settings(code)
    plugin = make(QUINTUPLEO_ISO=__file__, IRONIC_EFIBOOT='/images/esp')
    assert plugin.variables('IRONIC_EFIBOOT', 'IRONIC_GRUB2_CONFIG_PATH') == {
        'IRONIC_EFIBOOT': '/images/esp', 'IRONIC_GRUB2_CONFIG_PATH': ''}
    assert not plugin.after_settings(code)


def test_its_services_can_be_disabled(make):
    assert make().after_settings(
        'is_service_enabled quintupleo-dhcp && echo yes') == 'yes\n'
    plugin = make(DISABLED_SERVICES='quintupleo-dhcp')
    assert plugin.after_settings(
        'is_service_enabled quintupleo-dhcp || echo no').endswith('no\n')


def test_unstack_stops_the_second_compute_service(make):
    # unstack.sh has the settings, and not what a phase of stack.sh enabled.
    code = """
        function stop_process { is_service_enabled "$1" && echo "$1"; }
        function _quintupleo_client { return 1; }
        function _quintupleo_hosts_itself { return 1; }
        stop_quintupleo || true
        """
    assert make(QUINTUPLEO_NOVA_IRONIC='True').after_settings(
        code).splitlines()[:2] == ['quintupleo-cpu', 'quintupleo-dhcp']
    assert 'quintupleo-cpu' not in make().after_settings(code)


def test_environment_of_this_devstack(make):
    found = environment(make(QUINTUPLEO_UEFI_MACHINES=2))
    assert {role.boot_mode: role.count for role in found.roles} == {
        'bios': 1, 'uefi': 2}
    assert [role.resource_class for role in found.roles] == ['baremetal'] * 2
    network, = found.networks
    subnet, = network.subnets
    assert (subnet.cidr, subnet.gateway) == ('198.51.100.0/24', False)
    port, = found.ports
    assert (port.name, port.address) == ('conductor', '198.51.100.1')


def test_environment_in_another_cloud(make):
    found = environment(make(
        QUINTUPLEO_HOST_CLOUD='mycloud', QUINTUPLEO_NETWORK='provision',
        QUINTUPLEO_BIOS_MACHINES=0, QUINTUPLEO_UEFI_MACHINES=3,
        QUINTUPLEO_FLAVOR='m1.medium', QUINTUPLEO_HYPERVISOR_TYPE='qemu'))
    role, = found.roles
    assert (role.boot_mode, role.count, role.hypervisor_type) == (
        'uefi', 3, 'qemu')
    network, = found.networks
    assert network.existing == 'provision'
    nic, = role.nics
    # Neutron's own choice is one that agents pass over.
    assert nic.mac == '52:54:00'
    assert not found.ports


def test_ironic_comes_first(make):
    for plugins in (',quintupleo-power,ironic', ',quintupleo-power'):
        done = make(DEVSTACK_PLUGINS=plugins).run('stack install', check=False)
        assert done.returncode == 1
        assert 'put "enable_plugin ironic ..." before' in done.stderr


def test_phases_of_others_and_a_disabled_service_do_nothing(make):
    for settings, phases in (
            ({}, ('stack pre-install', 'stack post-extra', 'source')),
            ({'DISABLED_SERVICES': 'quintupleo'},
             ('stack install', 'stack post-config', 'stack extra', 'unstack',
              'clean'))):
        done = make(**settings).run(*phases)
        # DevStack itself warns of a disabled service that is enabled.
        assert [line for line in done.stdout.splitlines()
                if 'WARNING' not in line] == []
        assert not done.stderr


def test_documentation_has_each_setting():
    text = (REPOSITORY / 'doc/source/user/devstack.rst').read_text()
    settings = re.findall(
        r'^ *(QUINTUPLEO_\w+)=',
        (REPOSITORY / 'devstack' / 'settings').read_text(), re.MULTILINE)
    assert settings
    table = text[text.rindex('list-table'):]
    assert [name for name in settings if f'``{name}``' not in table] == []


@pytest.mark.parametrize('name', ['local.conf', 'local.conf.remote',
                                  'local.conf.nova'])
def test_samples_set_what_there_is(name):
    text = (REPOSITORY / 'devstack' / f'{name}.sample').read_text()
    settings = (REPOSITORY / 'devstack' / 'settings').read_text()
    for line in text.splitlines():
        if line.startswith('QUINTUPLEO_'):
            assert f'\n{line.split("=")[0]}=' in settings
    assert text.index('enable_plugin ironic') < text.index(
        'enable_plugin quintupleo-power')


@pytest.mark.parametrize('sample', sorted(
    path.name for path in (REPOSITORY / 'devstack').glob('*.sample')))
def test_sample_names_the_branch(sample):
    # DevStack fetches "master" otherwise.
    text = (REPOSITORY / 'devstack' / sample).read_text()
    assert re.search(r'^enable_plugin quintupleo-power \S+ main$', text, re.M)


def test_packages_are_named_one_by_one():
    # DevStack joins what plugins' bindep.txt name without a blank.
    folder = REPOSITORY / 'devstack' / 'files'
    assert not (folder / 'bindep.txt').exists()
    assert (folder / 'debs' / 'quintupleo-power').read_text().split() == [
        'dnsmasq-base']
    assert (folder / 'rpms' / 'quintupleo-power').read_text().split() == [
        'dnsmasq']
