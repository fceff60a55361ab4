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
def chosen(lab, request):
    """The names of the machines whose tests were chosen, by module.

    Their servers, networks and images are made.
    """
    found = {}
    for item in request.session.items:
        name = item.callspec.params.get('name') if hasattr(
            item, 'callspec') else None
        found.setdefault(item.module, {})[name] = None
    for module, names in found.items():
        if hasattr(module, 'prepare'):
            module.prepare(lab, [name for name in names if name])
    return found


@pytest.fixture(scope='session')
def lives(lab, chosen):
    """The lives of the machines whose tests were chosen, from now on."""
    lives = machine_lives.Lives(lab)
    steps = {name: module.LIVES[name] for module, names in chosen.items()
             if hasattr(module, 'LIVES') for name in names}
    # The longest first, so that none is left to live alone.
    for name in sorted(steps, key=lambda name: -len(steps[name])):
        lives.begin(name, steps[name])
    return lives
