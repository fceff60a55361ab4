# SPDX-License-Identifier: Apache-2.0
"""What the interfaces of a node that is a Nova server have in common."""

from quintupleo_power.node import driver_info


class ServerInterface:
    """Base of all of them, before Ironic's class of the kind.

    Methods raise MissingParameterValue or InvalidParameterValue if a setting
    is missing or wrong, and DriverOperationError if the host cloud cannot be
    asked or does not do it. Docstrings name what they raise besides.

    :cvar properties: what of the node's ``driver_info`` is looked at.
    """

    properties = driver_info.COMMON_PROPERTIES

    def validate(self, task):
        """Check the node's settings, without a request to the host cloud.

        Ironic calls that of the management interface before each look at a
        boot device or boot mode, power sync included.
        """
        driver_info.parse(task.node)

    def get_properties(self):
        """Return the properties of the interface, with a sentence each."""
        return self.properties.copy()
