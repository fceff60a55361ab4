# SPDX-License-Identifier: Apache-2.0
"""tools/quickstart --os-cloud, by a user of this machine who is not root.

A minicloud plays the cloud. The images come from the cache of the tests: that
they are built without root, too, is tested with the images.
"""

import pathlib
import shutil
import subprocess
import tempfile

import pytest
import yaml

from onebox import cloud_quickstart
from onebox import images
from onebox import ironic
from tests import projects

# What conftest.py goes by: two clouds cannot be up at a time.
OWN_CLOUD = True

NOBODY = '65534'
CLOUD = 'mycloud'
# Seconds for what emulated servers do.
PATIENCE = 1800
# What it takes of the cache.
BUILT = ('iPXE rescue image', 'EFI boot loader', 'agent ramdisk',
         'Debian disk image', 'conductor image')


class User:
    """A user with a clone of this repository and a clouds.yaml."""

    def __init__(self, everything, home):
        self.home = home
        self._tree = home / 'quintupleo_power'
        subprocess.run(['git', '-c', 'safe.directory=*', 'clone', '--quiet',
                        '--no-hardlinks',
                        ironic.REPOSITORY, self._tree], check=True)
        folder = home / '.config' / 'openstack'
        folder.mkdir(parents=True)
        host = everything.host_cloud.connection.config
        (folder / 'clouds.yaml').write_text(yaml.safe_dump({'clouds': {
            CLOUD: {key: host.config[key] for key in (
                'auth', 'region_name', 'identity_api_version')}}}))
        self._copy_images(everything.images)
        for path in (home, *home.rglob('*')):
            shutil.chown(path, int(NOBODY), int(NOBODY))

    def _copy_images(self, kept):
        target = self.home / '.cache' / 'quintupleo' / 'images'
        target.mkdir(parents=True)
        for title in BUILT:
            builder, _, made = images.BUILDERS[title]
            for name in (*made, ''.join(builder) + '.recipe'):
                shutil.copyfile(kept.folder / name, target / name)

    def run(self, *words):
        """Run tools/quickstart; return what it says."""
        return subprocess.run(
            ['setpriv', '--reuid', NOBODY, '--regid', NOBODY,
             '--clear-groups', self._tree / 'tools' / 'quickstart',
             '--os-cloud', CLOUD, *words],
            cwd=self._tree, check=True, text=True, stdout=subprocess.PIPE,
            timeout=PATIENCE, env={
                'PATH': '/usr/bin:/bin', 'HOME': str(self.home)}).stdout


@pytest.mark.full
def test_lab_of_a_user_without_root(public_cloud):
    connection = public_cloud.host_cloud.connection
    # A project in which nothing was done yet.
    for image in connection.image.images(owner=connection.current_project_id):
        connection.image.delete_image(image)
    before = projects.holdings(connection)
    with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:
        user = User(public_cloud, pathlib.Path(folder))
        said = user.run()
        print(said)
        assert 'firmware BIOS' in said
        # Nothing is made twice.
        server = connection.compute.find_server(cloud_quickstart.NODE)
        assert 'export OS_CLOUD=' in user.run()
        assert server.id == connection.compute.find_server(
            cloud_quickstart.NODE).id
        user.run('--down')
    after = projects.holdings(connection)
    images_left = after.pop('images') - before.pop('images')
    assert after == before
    assert {connection.image.get_image(each).name for each in images_left
            } == {cloud_quickstart.DISK_IMAGE, 'quintupleo-conductor',
                  *(f'quintupleo-{kind}-{firmware}'
                    for kind in ('rescue', 'empty')
                    for firmware in ('bios', 'uefi'))}
