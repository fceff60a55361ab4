# SPDX-License-Identifier: Apache-2.0
"""MariaDB, and the schemas of all databases with a copy for next time."""

import contextlib
import fcntl
import os
import shutil

from onebox.minicloud import config
from onebox.minicloud import settings
from onebox import system


def _defaults(cloud):
    return '--defaults-file=%s' % (cloud.etc / 'mariadb' / 'my.cnf')


def _socket(cloud):
    return '--socket=%s' % (cloud.run / 'mariadb' / 'socket')


def prepare(cloud, service):
    """Make the folders of the database server."""
    system.make_dir(cloud.data / 'mariadb', 0o700, service.user)
    system.make_dir(cloud.run / 'mariadb', 0o700, service.user)


def ready(cloud, service):
    """The server answers a ping."""
    return system.run(['mariadb-admin', '--no-defaults', _socket(cloud),
                       'ping'], check=False).returncode == 0


def sql(cloud, statements):
    """Execute statements as the server's root user, which is our own.

    :returns: what the server answers, a line of titles first.
    """
    return system.run(
        ['mariadb', '--no-defaults', _socket(cloud), '--batch'],
        input=statements).stdout


def install(cloud, service):
    """Make an empty database server."""
    prepare(cloud, service)
    system.run(['mariadb-install-db', _defaults(cloud), '--user=mysql',
                '--auth-root-authentication-method=socket',
                '--skip-test-db', '--basedir=/usr'],
               log=cloud.logs / 'mariadb.log')


def create(cloud):
    """Create the databases and the account that the services use."""
    names = settings.DATABASES
    if cloud.volumes:
        names += (settings.VOLUME_DATABASE,)
    sql(cloud, "CREATE OR REPLACE USER minicloud@localhost IDENTIFIED BY "
               "'%s';" % cloud.password('database') + _databases(names))


def create_for_volumes(cloud):
    """Create the database of the volume service in a running server."""
    sql(cloud, _databases((settings.VOLUME_DATABASE,)))


def _databases(names):
    return '\n'.join(
        'CREATE DATABASE IF NOT EXISTS %s; '
        'GRANT ALL ON %s.* TO minicloud@localhost;' % (name, name)
        for name in names)


def copy_path(cloud, schemas):
    """Where the copy of the databases with empty tables is kept.

    Its name depends on all that decides its content.
    """
    server = system.run(['mariadbd', '--version']).stdout
    key = system.digest(server, settings.CONSTRAINTS.read_text(),
                        cloud.nova_venv.name,
                        config.render(config.mariadb(cloud)).replace(
                            str(cloud.root), ''), repr(schemas))
    return cloud.cache / 'minicloud' / ('databases-%s.tar.gz' % key)


@contextlib.contextmanager
def copying(path):
    """Have the copy to oneself, while other clouds wait for it.

    :param path: its path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix('.lock'), 'w') as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield


def wipe(cloud):
    """Remove what a killed run may have left half made."""
    shutil.rmtree(cloud.data / 'mariadb', ignore_errors=True)


def save(cloud, path):
    """Keep a copy of the databases of the stopped server."""
    new = path.with_name(f'{path.name}.new')
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    system.run(['tar', '--create', '--sparse', '--use-compress-program',
                'gzip -1', '--file', new, '--directory', cloud.data,
                'mariadb'])
    new.rename(path)


def restore(cloud, path):
    """Take the databases from the copy."""
    system.run(['tar', '--extract', '--same-owner', '--file', path,
                '--directory', cloud.data])
