# SPDX-License-Identifier: Apache-2.0
"""Entries of the conductor's clouds.yaml."""

from collections import abc
import contextlib
import logging
import threading
import typing

from keystoneauth1 import exceptions as ks_exceptions
from openstack import config as sdk_config
from openstack import exceptions as sdk_exceptions
import requests
import yaml

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction


@contextlib.contextmanager
def _yaml_errors() -> abc.Iterator[list[yaml.YAMLError]]:
    """Take over openstacksdk's warnings of files that are not YAML.

    They repeat what stands there, be it a password, and so does oslo.log,
    which adds the exception of the moment to each warning.

    :returns: the errors of this thread's warnings so far, as a context.
    """
    found: list[yaml.YAMLError] = []
    thread = threading.get_ident()

    def is_kept(record: logging.LogRecord) -> bool:
        if threading.get_ident() != thread:
            return True
        args = record.args if isinstance(record.args, tuple) else ()
        own = [each for each in args if isinstance(each, yaml.YAMLError)]
        found.extend(own)
        return not own

    logger = logging.getLogger('openstack.config')
    logger.addFilter(is_kept)
    try:
        yield found
    finally:
        logger.removeFilter(is_kept)


def _place(error):
    mark = getattr(error, 'problem_mark', None)
    return (f'{mark.name} is not YAML from line {mark.line + 1}' if mark else
            'it is not YAML')


def entry(name: str, region_name: str | None = None
          ) -> sdk_config.cloud_region.CloudRegion:
    """Return an entry of the conductor's clouds.yaml, which has a session.

    :param region_name: region to use instead of the entry's own.
    :raises: CloudMisconfigured if it cannot be used.
    """
    with _yaml_errors() as unread:
        try:
            config = sdk_config.OpenStackConfig()
            if name == config.envvar_key:
                # What the conductor was started with is not for its nodes.
                raise errors.CloudMisconfigured(
                    f"'{name}' is not an entry of clouds.yaml but the "
                    'environment of the conductor, which is not used')
            found = _in_region(config, name, region_name)
            found.get_session()
            return found
        except (sdk_exceptions.SDKException,
                ks_exceptions.ClientException) as exc:
            reason = _place(unread[-1]) if unread else str(exc)
        except requests.exceptions.RequestException as exc:
            raise errors.CloudUnreachable(
                f"Entry '{name}' of the conductor's clouds.yaml has a profile "
                f'that cannot be fetched: {redaction.clean(exc)}')
        except yaml.YAMLError as exc:
            # Older openstacksdk (3.0) skips no file.
            reason = _place(exc)
        except errors.UNEXPECTED_FORM as exc:
            # Its text may hold what stands there.
            reason = ('it is not of the form of clouds.yaml '
                      f'({type(exc).__name__})')
    raise errors.CloudMisconfigured(
        f"clouds.yaml of the conductor has no usable entry '{name}': {reason}")


def _in_region(config: typing.Any, name: str, region_name: str | None
               ) -> sdk_config.cloud_region.CloudRegion:
    entries = config.cloud_config.get('clouds') or {}
    own = entries.get(name) or {}
    if region_name and own.get('region_name') and 'regions' not in own:
        # openstacksdk takes the only region that is named for the only one.
        found = config.get_one(cloud=name)
        found.region_name = found.config['region_name'] = region_name
        return found
    chosen = {'region_name': region_name} if region_name else {}
    return config.get_one(cloud=name, **chosen)
