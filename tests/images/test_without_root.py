# SPDX-License-Identifier: Apache-2.0
"""Images that another user than root builds are those that root builds."""

import pathlib
import shutil
import subprocess
import tempfile

TOOLS = pathlib.Path(__file__).parents[2] / 'tools'
NOBODY, ROOT = '65534', '0'
# Of the root partition, see tools/images/disk.sh.
OFFSET = (2048 + 2048 + 16384) * 512
# Lists files with type, mode, owner and target.
LIST = '''
set -e
mount --make-rprivate /
mount -o ro,loop,noload,offset=%d "$1" /mnt
cd /mnt
find . -printf '%%p %%y %%m %%U:%%G %%l\\n' | sort
''' % OFFSET
# apt changes their owner when it is run.
OF_APT = ('./var/cache/apt/archives/partial', './var/lib/apt/lists/partial')


def files_of(image):
    """Return a line for each file of a disk image's root file system."""
    return [line for line in subprocess.run(
        ['unshare', '--mount', 'bash', '-c', LIST, 'list', image],
        check=True, capture_output=True, text=True).stdout.splitlines()
        if not line.startswith(OF_APT)]


def built(folder, user):
    """Build a disk image as a user; return its path."""
    shutil.copytree(TOOLS, f'{folder}/tools')
    shutil.chown(folder, int(user))
    image = f'{folder}/debian.raw'
    subprocess.run(
        ['setpriv', '--reuid', user, '--regid', user, '--clear-groups',
         f'{folder}/tools/build-disk-image', '--output', image],
        check=True, cwd=folder, env={
            'PATH': '/usr/bin:/bin', 'HOME': folder,
            'QUINTUPLEO_CACHE_DIR': f'{folder}/cache'})
    return image


def test_disk_image_has_the_same_files_and_owners():
    # Both are built now: that of the cache may have older packages.
    found = []
    for user in (NOBODY, ROOT):
        with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:
            found.append(files_of(built(folder, user)))
    assert found[0] == found[1]
    assert any(line.startswith('./usr/bin/ssh-agent f 2755 0:')
               for line in found[0])
