# SPDX-License-Identifier: Apache-2.0
"""The EFI system partition boots what Ironic puts on its ISOs."""

import os
import shutil
import subprocess

import pytest

from tests.images import machine

ESP = os.path.join(machine.IMAGES_DIR, 'esp.img')
KERNEL = os.path.join(machine.IMAGES_DIR, 'agent.kernel')
# Where and how Ironic writes it: ironic/common/grub_conf.template.
MENU = '''\
set default=0
set timeout=5
set hidden_timeout_quiet=false

menuentry "boot_partition" {
linux%(suffix)s /vmlinuz console=ttyS0 panic=-1 wanted=%(wanted)s --
initrd%(suffix)s /initrd
}
'''


# Those of Ironic 27.0 and later, and those before it.
@pytest.mark.parametrize('suffix', ['', 'efi'])
def test_menu_of_ironic_is_booted(tmp_path, suffix):
    root = tmp_path / 'root'
    (root / 'EFI' / 'BOOT').mkdir(parents=True)
    wanted = f'by-linux{suffix}'
    (root / 'EFI' / 'BOOT' / 'grub.cfg').write_text(
        MENU % {'suffix': suffix, 'wanted': wanted})
    shutil.copy(KERNEL, root / 'vmlinuz')
    shutil.copy(ESP, root / 'efiboot.img')
    # The kernel finds no system there: that it was started is enough.
    (root / 'initrd').write_bytes(b'no ramdisk'.ljust(4096, b'\0'))
    iso = tmp_path / 'boot.iso'
    subprocess.run(['xorriso', '-as', 'mkisofs', '-quiet', '-r', '-V',
                    'VMEDIA_BOOT_ISO', '-e', 'efiboot.img', '-no-emul-boot',
                    '-o', iso, root], check=True)
    folder = tmp_path / 'machine'
    folder.mkdir()
    with machine.Machine(str(folder), 'uefi', [
            '-m', '512', '-cdrom', iso, '-nic', 'none']) as guest:
        guest.wait_for(f'Command line: .* wanted={wanted} ', 120)
