# SPDX-License-Identifier: Apache-2.0

# Ironic 24.1 replaces parts of the standard library by eventlet's and each
# release replaces vendors' libraries that are not there: both must happen
# before anything of the driver is imported. The driver in turn is imported
# before a test forbids processes, which some library starts when imported.
import ironic.tests.unit  # noqa: F401

import fixtures
from ironic.tests.unit import policy_fixture

import quintupleo_power.hardware  # noqa: F401

# Policies are asked by Ironic's API, which no unit test is about, and to make
# them takes a third of the time of each test.
policy_fixture.PolicyFixture = fixtures.Fixture
