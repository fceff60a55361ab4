# SPDX-License-Identifier: Apache-2.0
"""What the interfaces of a node that is a Nova server have in common."""

import inspect

from quintupleo_power import compat
from quintupleo_power.node import driver_info


class ServerInterface:
    """Base of all of them, before Ironic's class of the kind.

    Methods raise MissingParameterValue or InvalidParameterValue if a setting
    is missing or wrong, and DriverOperationError if the host cloud cannot be
    asked or does not do it. Docstrings name what they raise besides.

    :cvar properties: what of the node's ``driver_info`` is looked at.
    """

    properties = driver_info.COMMON_PROPERTIES

    def __init_subclass__(cls):
        """Time the public methods for Ironic's metrics."""
        super().__init_subclass__()
        metrics = compat.metrics_utils.get_metrics_logger(cls.__module__)
        for key, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not key.startswith('_'):
                setattr(cls, key,
                        metrics.timer(f'{cls.__name__}.{key}')(method))

    def validate(self, task):
        """Check the node's settings, without a request to the host cloud.

        Ironic calls that of the management interface before each look at a
        boot device or boot mode, power sync included.
        """
        driver_info.parse(task.node)

    def get_properties(self):
        """Return the properties of the interface, with a sentence each."""
        return self.properties.copy()
