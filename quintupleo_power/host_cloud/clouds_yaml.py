# SPDX-License-Identifier: Apache-2.0
"""Entries of the conductor's clouds.yaml."""

import logging
import threading

from keystoneauth1 import exceptions as ks_exceptions
from openstack import config as sdk_config
from openstack import exceptions as sdk_exceptions
import yaml

from quintupleo_power.host_cloud import errors


class _UnreadFiles(logging.Filter):
    """Takes over openstacksdk's warning of files that are not YAML.

    It repeats what stands there, be it a password, and so does oslo.log,
    which adds the exception of the moment to each warning. Told of instead is
    the place, in the error that follows.
    """

    def __init__(self):
        super().__init__()
        self._here = threading.local()

    def filter(self, record):
        """Drop a record that carries an exception of the YAML parser."""
        args = record.args if isinstance(record.args, tuple) else ()
        mistakes = [each for each in args if isinstance(each, yaml.YAMLError)]
        for mistake in mistakes:
            self._here.place = _place(mistake)
        return not mistakes

    def pop(self):
        """Give what this thread came upon last, as a sentence, or None."""
        return self._here.__dict__.pop('place', None)


_unread_files = _UnreadFiles()
logging.getLogger('openstack.config').addFilter(_unread_files)


def _place(mistake):
    mark = getattr(mistake, 'problem_mark', None)
    return (f'{mark.name} is not YAML from line {mark.line + 1}' if mark else
            'it is not YAML')


def entry(name, region_name=None):
    """Read an entry of the conductor's clouds.yaml.

    :param name: its name.
    :param region_name: region to use instead of the entry's own.
    :returns: (openstacksdk's ``CloudRegion``, a keystoneauth session).
    :raises: CloudMisconfigured if it cannot be used.
    """
    _unread_files.pop()
    try:
        config = sdk_config.OpenStackConfig()
        if name == config.envvar_key:
            # What the conductor was started with is not for its nodes.
            raise errors.CloudMisconfigured(
                f"'{name}' is no entry of clouds.yaml but stands for the "
                'environment of the conductor, which is not used')
        found = config.get_one(
            cloud=name, **({'region_name': region_name} if region_name
                           else {}))
        return found, found.get_session()
    except (sdk_exceptions.SDKException,
            ks_exceptions.ClientException) as exc:
        told = _unread_files.pop() or str(exc)
    except yaml.YAMLError as exc:
        # Older openstacksdk (3.0) skips no file.
        told = _place(exc)
    except errors.UNEXPECTED_FORM as exc:
        told = f'it is not of the form of clouds.yaml ({type(exc).__name__})'
    raise errors.CloudMisconfigured(
        f"clouds.yaml of the conductor has no usable entry '{name}': {told}")
