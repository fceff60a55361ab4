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

"""What quickstart makes, with real guests, for the tests of this folder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox import progress  # noqa: E402
from onebox import quickstart  # noqa: E402


@pytest.fixture(scope='session')
def lab():
    """Bring cloud, servers and Ironic up, and down again at the end."""
    with quickstart.for_tests(
            progress.Progress('end-to-end tests'), network_first=True,
            images=['Debian image with keepalived']) as everything:
        yield everything
