# SPDX-License-Identifier: Apache-2.0
"""Writes entries for environments' Ironics into a user's clouds.yaml."""

import os
import pathlib
import tempfile

import yaml

from quintupleo_power.environments import errors

_AUTH_TYPE = 'http_basic'


class CloudsFile:
    """A clouds.yaml, which need not exist, and the entry of a name."""

    def __init__(self, path, name):
        """Read it.

        :raises: EnvironmentsError if it is not of the form of clouds.yaml, or
            if the entry is not one of an Ironic.
        """
        self._path = pathlib.Path(path).resolve()
        self._name = name
        try:
            self._content = yaml.safe_load(self._path.read_text()) or {}
            present = self._content.setdefault('clouds', {}).get(name)
            is_own = present is None or present['auth_type'] == _AUTH_TYPE
        except FileNotFoundError:
            self._content, is_own = {'clouds': {}}, True
        except OSError as exc:
            raise errors.EnvironmentsError(
                f'{path} cannot be read: {exc.strerror}')
        except (yaml.YAMLError, UnicodeDecodeError, AttributeError,
                TypeError):
            # Their texts may hold what stands there.
            raise errors.EnvironmentsError(
                f'{path} is not of the form of clouds.yaml: write another '
                'file')
        except KeyError:
            is_own = False
        if not is_own:
            raise errors.EnvironmentsError(
                f'{path} has an entry "{name}" that is not of an '
                "environment's Ironic: write another file")

    def write(self, access):
        """Write the entry, and the certificate beside the file.

        :param access: see :meth:`environment.Environments.access`.
        """
        certificate = self._path.with_name(f'{self._name}.pem')
        self._content['clouds'][self._name] = {
            'auth_type': _AUTH_TYPE,
            'auth': {'endpoint': access['url'],
                     'username': access['username'],
                     'password': access['password']},
            'baremetal_endpoint_override': access['url'],
            'cacert': str(certificate)}
        for path, text in (
                (certificate, access['certificate']),
                (self._path, yaml.safe_dump(self._content, sort_keys=False))):
            try:
                # It is readable by its owner only.
                number, temporary = tempfile.mkstemp(dir=path.parent)
                with open(number, 'w', encoding='utf-8') as target:
                    target.write(text)
                os.replace(temporary, path)
            except OSError as exc:
                raise errors.EnvironmentsError(
                    f'{path} cannot be written: {exc.strerror}')
