# SPDX-License-Identifier: Apache-2.0
"""The host clouds that nodes name, one object for each."""

from collections import abc
import contextlib
import threading
import time

from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import actions
from quintupleo_power.host_cloud import cache
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import connection
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import ports
from quintupleo_power.host_cloud import server_cache
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import snapshots
from quintupleo_power.host_cloud import uploaded_images

# An endpoint that moved is found in a new token's catalog, but a cloud that is
# away for a while must not be asked for a token by each read of each node.
UNREACHABLE_AGE = 60.0

# Seconds for which one failure speaks for all nodes: one that took long for
# those of the cloud, refused credentials or an answer that was too large for
# those of the credentials. Others may be asked again.
FAILURE_AGE = 30.0
LONG = 3.0
# A reader waits for others to end: for so many seconds, so many times as long
# as the longest of the last readings took, or so many since the last answer.
READER_TIMEOUT = 2.0
READER_FACTOR = 1.5
SILENT_AFTER = 30.0

# By credentials. A cloud that no node has named for an hour is dropped: the
# credentials of its nodes were replaced or the nodes are gone.
_clouds = cache.Cache(3600.0)
_making = threading.Lock()
# The error of a cloud or of credentials, and when it may be tried again.
_failures = cache.Cache(3600.0)
# By cloud: how many read servers, and how long the longest reading took.
# Of an RLock, a second eventlet.monkey_patch() would exchange the lock and
# leave the condition with the old one (_green_existing_locks).
_reading_ended = threading.Condition(threading.Lock())
_readers: dict[connection.Credentials, int] = {}
_longest_readings = cache.Cache(3600.0)


def get(credentials: connection.Credentials) -> 'HostCloud':
    """Return the host cloud of some credentials, one object for all nodes.

    :raises: CloudMisconfigured if the settings do not name a cloud.
    """
    # Not with the lock: a remote profile of clouds.yaml is fetched.
    host = (_clouds.get(credentials)
            or HostCloud(*connection.connect(credentials), credentials))
    with _making:
        host = _clouds.get(credentials) or host
        _clouds.put(credentials, host)
    return host


def require_answering(credentials: connection.Credentials) -> None:
    """Raise what the host cloud of some credentials failed with just now.

    After FAILURE_AGE one caller tries it again, for the others as well.
    """
    now = time.monotonic()
    with _making:
        for key in {credentials, credentials.of_cloud}:
            failure = _failures.get(key)
            if failure is None:
                continue
            error, until = failure
            if now < until:
                break
            _failures.put(key, (error, now + FAILURE_AGE))
        else:
            return
    repeated = type(error)(f'{error} (asked again in {until - now:.0f} s)',
                           error.retry_after)
    repeated.is_repeated = True
    raise repeated


@contextlib.contextmanager
def limit_readers(credentials: connection.Credentials,
                  workers: int) -> abc.Iterator[None]:
    """Limit how many threads read servers of one cloud at the same time.

    It may have half of the workers that read nothing of other clouds: clouds
    that do not answer leave some of them to those that do.

    :param workers: how many threads power sync has for all clouds.
    :raises: CloudUnreachable if the threads that read get no answer.
    """
    of_cloud, begun = credentials.of_cloud, time.monotonic()
    longest = _longest_readings.get(of_cloud) or 0.0
    with _reading_ended:
        while (own := _readers.get(of_cloud, 0)) >= max(
                1, (workers - sum(_readers.values()) + own) // 2):
            now = time.monotonic()
            until = max(
                begun + max(READER_TIMEOUT, READER_FACTOR * longest),
                SILENT_AFTER + (connection.last_answers.get(of_cloud) or 0.0))
            if now >= until:
                error = errors.CloudUnreachable(
                    f'The host cloud has not answered for {now - begun:.0f} s '
                    'to others that read servers')
                _failures.put(of_cloud, (error, now + FAILURE_AGE))
                error.is_repeated = True
                raise error
            _reading_ended.wait(until - now)
        _readers[of_cloud] = own + 1
    begun, took = time.monotonic(), 0.0
    try:
        yield
        took = time.monotonic() - begun
    finally:
        with _reading_ended:
            longest = _longest_readings.get(of_cloud) or 0.0
            if took > longest / 2:
                _longest_readings.put(of_cloud, max(took, longest))
            _readers[of_cloud] -= 1
            if not _readers[of_cloud]:
                del _readers[of_cloud]
            _reading_ended.notify_all()


def answered(credentials: connection.Credentials) -> None:
    """Note that a host cloud does what it is asked for."""
    _failures.drop(credentials)
    _failures.drop(credentials.of_cloud)


def in_use() -> list[tuple[connection.Credentials, 'HostCloud']]:
    """Return the clouds that nodes have named of late."""
    return _clouds.items()


def failed(credentials: connection.Credentials,
           error: errors.HostCloudError, took: float = 0.0) -> None:
    """Drop what is kept of a cloud if an error may come from there.

    Settings, token, catalog and version documents are read again then.

    :param took: seconds until the error.
    """
    if error.is_repeated:
        return
    now = time.monotonic()
    if isinstance(error, (errors.TokenRefused, errors.AnswerTooLarge)):
        _failures.put(credentials, (error, now + FAILURE_AGE))
    elif took >= LONG and isinstance(error, errors.CloudUnreachable):
        _failures.put(credentials.of_cloud, (error, now + FAILURE_AGE))
    else:
        answered(credentials)
    host = _clouds.get(credentials)
    if isinstance(error, (errors.AuthenticationFailed, errors.MalformedAnswer,
                          errors.CloudMisconfigured)) or (
            host and isinstance(error, errors.CloudUnreachable)
            and now - host.made_at > UNREACHABLE_AGE):
        _clouds.drop(credentials)


class HostCloud:
    """One project of a host cloud, by what it holds."""

    def __init__(self, compute: service.Service, image: service.Service,
                 volume: service.Service, network: service.Service,
                 credentials: connection.Credentials | None = None):
        """Use the services of a cloud, which these credentials enter."""
        self.made_at = time.monotonic()
        # Commands and checks give none: they do not limit their readers.
        self.credentials = credentials or connection.Credentials()
        self.compute = compute
        self.image = image
        self.network = network
        self.capabilities = capabilities.Capabilities(compute, image, volume)
        self.servers = server_cache.ServerCache(compute, self.capabilities)
        self.actions = actions.Actions(compute, self.servers,
                                       CONF.quintupleo.poll_interval)
        self.rescue_images = cache.Cache(capabilities.IMAGE_MAX_AGE)
        self.boot_images = uploaded_images.BootImages(image)
        self.instance_images = uploaded_images.InstanceImages(compute, image)
        self.snapshots = snapshots.Snapshots(compute, image, volume)
        self.ports = ports.Ports(network, compute, self.servers)
