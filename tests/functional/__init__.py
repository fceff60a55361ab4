# SPDX-License-Identifier: Apache-2.0

# Ironic 24.1 replaces parts of the standard library by eventlet's and each
# release replaces vendors' libraries that are not there: both must happen
# before anything of the driver is imported. The driver in turn is imported
# before a test forbids processes, which some library starts when imported.
import ironic.tests.unit  # noqa: F401

import quintupleo_power.hardware  # noqa: F401
