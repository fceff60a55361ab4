# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

# Ironic 24.1 replaces parts of the standard library by eventlet's and each
# release replaces vendors' libraries that are not there: both must happen
# before anything of the driver is imported. The driver in turn is imported
# before a test forbids processes, which some library starts when imported.
import ironic.tests.unit  # noqa: F401

import quintupleo_power.hardware  # noqa: F401
