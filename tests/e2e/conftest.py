# SPDX-License-Identifier: Apache-2.0
"""What quickstart makes, with real guests, for the tests of this folder."""

from concurrent import futures
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

from onebox import progress  # noqa: E402
from onebox import quickstart  # noqa: E402
from onebox import system  # noqa: E402
from tests.e2e import browser as browsers  # noqa: E402
from tests.e2e import lives as machine_lives  # noqa: E402
from tests.e2e import users_daemons  # noqa: E402


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put tests with a cloud of their own first: two are too much."""
    items.sort(key=lambda item: not getattr(item.module, 'OWN_CLOUD', False))


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


@pytest.fixture(scope='module')
def public_cloud(users_own):
    """Yield a cloud with floating IPs, whose APIs guests reach.

    A module that uses it has a cloud of its own.
    """
    with quickstart.for_tests(
            progress.Progress('public cloud'), machines=(), layer3=True,
            images=['conductor image']) as everything:
        yield everything


@pytest.fixture(scope='session')
def lives(lab, request):
    """The lives of the machines whose tests were chosen, from now on.

    All servers are made before the first begins.
    """
    names = {}
    for item in request.session.items:
        name = item.callspec.params.get('name') if hasattr(
            item, 'callspec') else None
        names.setdefault(item.module, {})[name] = None
    with futures.ThreadPoolExecutor() as pool:
        for made in [pool.submit(module.prepare, lab, [*filter(None, chosen)])
                     for module, chosen in names.items()
                     if hasattr(module, 'prepare')]:
            made.result()
    lives = machine_lives.Lives(lab)
    steps = {name: module.LIVES[name] for module, chosen in names.items()
             if hasattr(module, 'LIVES') for name in chosen if name}
    # The longest first, so that none is left to live alone.
    for name in sorted(steps, key=lambda name: -len(steps[name])):
        lives.begin(name, steps[name])
    return lives


@pytest.fixture(scope='module')
def browser(lab, tmp_path_factory):
    """A browser without a window."""
    system.install_packages(browsers.PACKAGES, lab.cloud.apt_log)
    found = browsers.Browser(tmp_path_factory.mktemp('browser'),
                             lab.ironic.logs)
    yield found
    found.close()
