# SPDX-License-Identifier: Apache-2.0
"""Where the host cloud's errors become Ironic's.

Only classes of :mod:`ironic.common.exception` leave the driver: the RPC
layer passes on no others.
"""

import contextlib
import time

from ironic.common import exception
from ironic.common import faults

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import time_limit
from quintupleo_power.node import driver_info
from quintupleo_power import transitions

# Seconds that all validations of one task may wait for host clouds: a request
# to Ironic's API waits for them, and gives up after a minute or two.
VALIDATION_TIME = 20.0


@contextlib.contextmanager
def host_cloud(node, validating=False):
    """Use the host cloud of a node, with its errors turned into Ironic's.

    :param node: an Ironic node.
    :param validating: see :func:`translated`.
    :returns: its :class:`host_cloud.cloud.HostCloud`, as a context.
    :raises: MissingParameterValue or InvalidParameterValue if a setting is
        missing or wrong, or what :func:`translated` raises.
    """
    info = driver_info.parse(node)
    with translated(info, validating), (
            time_limit.within(VALIDATION_TIME, node) if validating
            else contextlib.nullcontext()):
        # Who validates may have mended what was wrong, unless Ironic does, for
        # one node after the other (``_power_failure_recovery``).
        if not validating or node.fault == faults.POWER_FAILURE:
            cloud.require_answering(info.credentials)
        yield cloud.get(info.credentials)


@contextlib.contextmanager
def translated(info, validating=False):
    """Turn errors of the host cloud into exceptions of Ironic.

    :param info: the node's :class:`node.driver_info.DriverInfo`.
    :param validating: whether the caller only checks. Ironic shows the
        sentence of an InvalidParameterValue as the result of a validation,
        that of any other class as an unexpected fault.
    :raises: InvalidParameterValue while validating, else
        DriverOperationError.
    """
    begun = time.monotonic()
    try:
        yield
        cloud.answered(info.credentials)
    except (errors.HostCloudError, transitions.Refused) as exc:
        if isinstance(exc, errors.HostCloudError):
            cloud.failed(info.credentials, exc, time.monotonic() - begun)
        message = f'Node {info.node_uuid}: {redaction.clean(exc)}'
        if isinstance(exc, errors.PASSING):
            message += ' (may pass: try again later)'
        if validating:
            raise exception.InvalidParameterValue(message) from None
        # What led here stays behind: keystoneauth's frames hold passwords.
        raise exception.DriverOperationError(message) from None
