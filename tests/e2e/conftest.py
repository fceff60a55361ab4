# SPDX-License-Identifier: Apache-2.0
"""What quickstart makes, with real guests, for the tests of this folder."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox import progress  # noqa: E402
from onebox import quickstart  # noqa: E402
from tests.e2e import lives as machine_lives  # noqa: E402
from tests.e2e import users_daemons  # noqa: E402


@pytest.fixture(scope='session')
def users_own(tmp_path_factory):
    """Have a guest and daemons of the user's, which must stay as they are."""
    with users_daemons.kept(tmp_path_factory.mktemp('user')):
        yield


@pytest.fixture(scope='session')
def lab(users_own):
    """Bring cloud, servers and Ironic up, and down again at the end."""
    with quickstart.for_tests(
            progress.Progress('end-to-end tests'), machines=(),
            network_first=True,
            images=['Debian image with keepalived']) as everything:
        yield everything


@pytest.fixture(scope='session')
def lives(lab, request):
    """The lives of the machines whose tests were chosen, from now on."""
    lives = machine_lives.Lives(lab)
    modules = {item.callspec.params['name']: item.module
               for item in request.session.items
               if hasattr(item.module, 'LIVES')}
    # The longest first, so that none is left to live alone.
    for name, module in sorted(
            modules.items(), key=lambda life: -len(life[1].LIVES[life[0]])):
        lives.begin(name, module.LIVES[name],
                    getattr(module, 'prepare', None))
    return lives
