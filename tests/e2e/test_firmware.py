# SPDX-License-Identifier: Apache-2.0
"""Real guests whose firmware is switched: BIOS, UEFI, and secure boot.

A system whose boot loader and kernel Debian has signed boots with secure boot,
and the same one with a boot loader of ours does not.
"""

import shutil

from openstack import exceptions
import pytest

from onebox import processes
from onebox import system
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment
from tests.e2e import test_rebuild_deploy

# Of Ironic's API: a cleaning without a ramdisk.
CLEAN = '1.70'
# By Debian's packages: what is signed, and its place in the EFI partition.
SIGNED = {
    'shim-signed': ('usr/lib/shim/shimx64.efi.signed', 'BOOT/BOOTX64.EFI'),
    'grub-efi-amd64-signed': (
        'usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed',
        'BOOT/grubx64.efi')}
# Where the images of tools/images/disk.sh have that partition.
EFI_PARTITION = '@@2M'
# Debian's GRUB reads it there.
GRUB_CFG = '''\
search --label debian --set root
configfile ($root)/boot/grub/grub.cfg
'''
DIRECT = machine_lives.machine('switch-direct', 'bios')
REBUILD = machine_lives.machine('switch-rebuild', 'bios')
SECURE = machine_lives.machine('secure-boot', 'uefi')
RIGHTS = test_deployment.TENANT_ACTIONS | {'rebuild'}


def prepare(lab, names):
    """Make the servers."""
    rebuild = {'deploy_interface': 'quintupleo-rebuild'}
    for each, node in ((DIRECT, {}), (REBUILD, rebuild), (SECURE, rebuild)):
        if each.name in names:
            machine_lives.make_servers(lab, [each], names, **node)
    if SECURE.name in names:
        lab.host_cloud.client('quintupleo', 'image', 'create', '--secure-boot')


def _actions(lab, name):
    return [action for _, action, _ in lab.host_cloud.actions(name)]


def _deploy(lab, stage, name, boot_mode):
    """Deploy with a capability, and see by which firmware it boots."""
    before = len(_actions(lab, name))
    lab.nodes.deploy(name, stage, image={
        **lab.nodes.image(), 'capabilities': {'boot_mode': boot_mode}})
    line = lab.wait_for_system(name, stage, timeout=900)
    assert f'hostname {name}' in line
    assert 'root on /dev/vda' in line
    assert f'firmware {boot_mode.upper()}' in line
    assert _actions(lab, name)[before:].count('rebuild') == 1
    assert lab.nodes.connection.baremetal.get(
        f'/nodes/{name}', microversion='1.75').json()['boot_mode'] == boot_mode


def uefi_is_deployed_on_a_bios_machine(lab, stage, name):
    _deploy(lab, stage, name, 'uefi')


def bios_is_deployed_on_the_uefi_machine(lab, stage, name):
    _deploy(lab, stage, name, 'bios')


def step_switches_it_to_uefi(lab, stage, name):
    lab.nodes.provision(name, 'manage', 'manageable', stage, 120)
    answer = lab.nodes.connection.baremetal.put(
        f'/nodes/{name}/states/provision', microversion=CLEAN,
        json={'target': 'clean', 'disable_ramdisk': True, 'clean_steps': [
            {'interface': 'management', 'step': 'change_boot_mode',
             'args': {'boot_mode': 'uefi'}}]})
    exceptions.raise_from_response(answer)
    lab.nodes.wait(name, 'manageable', stage, 300)
    assert _actions(lab, name)[-1] == 'rebuild'
    assert lab.nodes.node(name).power_state == 'power off'


def it_boots_the_network_by_uefi(lab, stage, name):
    lab.nodes.set_boot_device(name, 'pxe', False)
    lab.nodes.set_power_state(name, 'power on', 'power on')
    # What iPXE in the rescue image calls its platform; BIOS is pcbios.
    processes.wait_for(
        lambda: '(efi)' in lab.host_cloud.console_log(name),
        120, f'{name} to show the rescue image under UEFI')
    lab.nodes.set_power_state(name, 'power off', 'power off')


def _deploy_with_secure_boot(lab, stage, name, image):
    lab.nodes.deploy(name, stage, image={
        **image, 'capabilities': {'boot_mode': 'uefi', 'secure_boot': 'true'}})
    assert lab.nodes.connection.baremetal.get(
        f'/nodes/{name}', microversion='1.75').json()['secure_boot'] is True


def firmware_boots_no_system_that_is_not_signed(lab, stage, name):
    _deploy_with_secure_boot(lab, stage, name, lab.nodes.image())
    processes.wait_for(
        lambda: 'Access Denied' in lab.host_cloud.console_log(name),
        300, f'the firmware of {name} to refuse the system')
    assert 'Linux version' not in lab.host_cloud.console_log(name)


def _signed_system(lab):
    """Return the path of Debian's image with Debian's own boot loader."""
    path = lab.ironic.images / 'signed.raw'
    work = system.make_dir(lab.ironic.root / 'signed')
    system.install_packages(('mtools',), lab.cloud.apt_log)
    system.run(['apt-get', 'download', *SIGNED], cwd=work)
    for package in work.glob('*.deb'):
        system.run(['dpkg-deb', '--extract', package, work])
    (work / 'grub.cfg').write_text(GRUB_CFG)
    shutil.copy(lab.images.disk, path)
    partition = f'{path}{EFI_PARTITION}'
    system.run(['mmd', '-i', partition, '::/EFI/debian'])
    for source, place in (*SIGNED.values(), ('grub.cfg', 'debian/grub.cfg')):
        system.run(['mcopy', '-o', '-i', partition, work / source,
                    f'::/EFI/{place}'])
    return path


def firmware_boots_a_signed_system(lab, stage, name):
    _deploy_with_secure_boot(lab, stage, name, {
        **lab.nodes.image(_signed_system(lab)), 'image_disk_format': 'raw'})
    line = lab.wait_for_system(name, stage, timeout=900)
    assert f'hostname {name}' in line
    assert 'Secure boot enabled' in lab.host_cloud.console_log(name)


def secure_boot_is_off_on_the_wiped_machine(lab, stage, name):
    test_rebuild_deploy.undeployed_node_is_available(lab, stage, name)
    image = lab.host_cloud.connection.compute.find_server(
        name, details=True).image
    assert image.id == lab.host_cloud.connection.image.find_image(
        'quintupleo-empty-uefi').id


def all_was_within_the_rights_of_a_tenant(lab, stage, name):
    assert set(_actions(lab, name)) <= RIGHTS
    assert all(message != 'Error'
               for _, _, message in lab.host_cloud.actions(name))


LIVES = {
    DIRECT.name: (
        test_deployment.enrolled_node_becomes_manageable,
        test_deployment.node_is_available_without_cleaning,
        uefi_is_deployed_on_a_bios_machine,
        test_deployment.it_reboots_from_its_disk,
        test_deployment.undeployed_node_is_available_without_cleaning,
        bios_is_deployed_on_the_uefi_machine,
        test_deployment.undeployed_node_is_available_without_cleaning,
        all_was_within_the_rights_of_a_tenant),
    REBUILD.name: (
        test_rebuild_deploy.cleaning_makes_it_available,
        uefi_is_deployed_on_a_bios_machine,
        test_rebuild_deploy.undeployed_node_is_available,
        bios_is_deployed_on_the_uefi_machine,
        test_rebuild_deploy.undeployed_node_is_available,
        step_switches_it_to_uefi, it_boots_the_network_by_uefi,
        all_was_within_the_rights_of_a_tenant),
    SECURE.name: (
        test_rebuild_deploy.cleaning_makes_it_available,
        firmware_boots_no_system_that_is_not_signed,
        secure_boot_is_off_on_the_wiped_machine,
        firmware_boots_a_signed_system,
        secure_boot_is_off_on_the_wiped_machine,
        all_was_within_the_rights_of_a_tenant)}


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
