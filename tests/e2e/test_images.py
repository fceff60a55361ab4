# SPDX-License-Identifier: Apache-2.0
"""Each kind of image that Ironic deploys, by PXE and from virtual media.

Under BIOS and under UEFI. The log of these tests has the times of all steps.
"""

import functools
import threading

import pytest

from onebox import processes
from onebox import system
from tests.e2e import lives as machine_lives
from tests.e2e import test_deployment

BOOT_INTERFACES = {'pxe': 'ipxe', 'vmedia': 'quintupleo-virtual-media'}
MACHINES = tuple(
    machine_lives.machine(f'{boot}-{firmware}-images', firmware)
    for boot in BOOT_INTERFACES for firmware in ('bios', 'uefi'))
# GiB of the root partition that a partition image gets.
ROOT = 3
# Of what several machines need, the first makes it.
_making = threading.Lock()


@functools.cache
def _partition(lab):
    """Return the path of the root partition of a disk image with GRUB."""
    lab.images.build('Debian image with GRUB')
    disk = lab.images.folder / 'debian-grub.raw'
    start, sectors = map(int, system.run([
        'partx', '--raw', '--noheadings', '--output', 'START,SECTORS',
        '--nr', '3', disk]).stdout.split())
    path = lab.ironic.images / 'partition.raw'
    with open(disk, 'rb') as source:
        source.seek(start * 512)
        path.write_bytes(source.read(sectors * 512))
    return path


@functools.cache
def _in_glance(lab):
    """Return the UUID of an image in the host cloud's Glance."""
    return lab.host_cloud.connection.image.create_image(
        name='debian-disk', filename=str(lab.images.disk),
        # Ironic takes no shared one, unless its project is a member.
        visibility='private', disk_format='raw', container_format='bare',
        wait=True).id


def raw_disk(lab, name):
    return lab.nodes.image()


def qcow2_disk(lab, name):
    return test_deployment.qcow2_image(lab, name)


def partition(lab, name):
    return {**lab.nodes.image(_partition(lab)), 'image_type': 'partition',
            'root_gb': ROOT}


def image_of_glance(lab, name):
    return {'image_source': _in_glance(lab), 'image_download_source': 'local'}


KINDS = (raw_disk, qcow2_disk, partition, image_of_glance)


def _deployment(kind):
    """Return the step that deploys a kind of image and removes it again."""
    def step(lab, stage, name):
        with _making:
            image = kind(lab, name)
        # What is left of another kind's system on the disk has another name.
        hostname = f'{name}-{kind.__name__}'.replace('_', '-')
        lab.nodes.connection.baremetal.update_node(name, instance_info=image)
        lab.nodes.provision(name, 'active', 'active', stage, 1200,
                            config_drive={'meta_data': {
                                'uuid': lab.nodes.node(name).id,
                                'hostname': hostname, 'name': hostname}})
        line = lab.wait_for_system(name, stage)
        firmware = 'UEFI' if 'uefi' in name else 'BIOS'
        assert f'hostname {hostname}' in line
        assert f'firmware {firmware}' in line
        test_deployment.undeployed_node_is_available_without_cleaning(
            lab, stage, name)

    step.__name__ = f'{kind.__name__}_is_deployed_and_boots'
    return step


def ramdisk_is_deployed_and_boots(lab, stage, name):
    images = f'{lab.ironic.http_url}/images'
    lab.nodes.connection.baremetal.update_node(
        name, deploy_interface='ramdisk', instance_info={
            'kernel': f'{images}/agent.kernel',
            'ramdisk': f'{images}/agent.ramdisk'})
    lab.nodes.provision(name, 'active', 'active', stage, 600)
    processes.wait_for(
        lambda: 'Reached target agent.target' in (
            lab.host_cloud.console_log(name)),
        300, f'{name} to show the system of the ramdisk')
    test_deployment.undeployed_node_is_available_without_cleaning(
        lab, stage, name)


LIFE = (test_deployment.enrolled_node_becomes_manageable,
        test_deployment.node_is_available_without_cleaning,
        *map(_deployment, KINDS), ramdisk_is_deployed_and_boots)
LIVES = {machine.name: LIFE for machine in MACHINES}


def prepare(lab, names):
    """Make the servers."""
    for boot, interface in BOOT_INTERFACES.items():
        machine_lives.make_servers(
            lab, MACHINES, [name for name in names if name.startswith(boot)],
            boot_interface=interface)


@pytest.mark.parametrize('name, step', machine_lives.parameters(
    LIVES, full=LIVES))
def test_life(lives, name, step):
    lives.went_well(name, step)
