# SPDX-License-Identifier: Apache-2.0
"""Entries for environments' Ironics in a user's clouds.yaml."""

import pathlib

from openstack import config
import yaml

from quintupleo_power.environments import errors

_AUTH_TYPE = 'http_basic'


def check(path, name):
    """Raise EnvironmentsError if an entry cannot be written into a file."""
    try:
        content = yaml.safe_load(pathlib.Path(path).read_text()) or {}
        entry = content.get('clouds', {}).get(name, {'auth_type': _AUTH_TYPE})
        is_other = entry.get('auth_type') != _AUTH_TYPE
    except FileNotFoundError:
        return
    except OSError as exc:
        raise errors.EnvironmentsError(
            f'{path} cannot be read: {exc.strerror}')
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError):
        # Their texts may hold what stands there.
        raise errors.EnvironmentsError(
            f'{path} is not of the form of clouds.yaml: name another file')
    if is_other:
        raise errors.EnvironmentsError(
            f'{path} has an entry "{name}" that is not of an Ironic with HTTP '
            'basic authentication: name another file')


def write(path, name, access):
    """Write an entry into a file, and its certificate beside it.

    :param access: see :meth:`environment.Environments.access`.
    """
    check(path, name)
    path = pathlib.Path(path).absolute()
    certificate = path.with_name(f'{name}.pem')
    try:
        for each in (path, certificate):
            each.touch(0o600)
            each.chmod(0o600)
        certificate.write_text(access['certificate'])
        if not yaml.safe_load(path.read_text()):
            path.write_text('{}')
        config.OpenStackConfig.set_one_cloud(str(path), name, {
            'auth_type': _AUTH_TYPE, 'cacert': str(certificate),
            'auth': {'endpoint': access['url'],
                     'username': access['username'],
                     'password': access['password']},
            'baremetal_endpoint_override': access['url']})
    except OSError as exc:
        raise errors.EnvironmentsError(
            f'{exc.filename or path} cannot be written: {exc.strerror}')
