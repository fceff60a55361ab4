# SPDX-License-Identifier: Apache-2.0
"""Random sequences of requests, meddling and faults against a real Nova.

``--hypothesis-seed`` gives the seed that an earlier run has printed. How long:
QUINTUPLEO_MODEL_STEPS, or QUINTUPLEO_MODEL_HOURS with other seeds each time.
QUINTUPLEO_MODEL_SHRINK=1 looks for a shorter sequence that fails.
"""

import os
import random

import pytest

from tests.functional import model_run


@pytest.mark.newest
def test_node_ends_where_the_model_says(deployment, pytestconfig):
    arguments = ['--clouds-yaml', str(deployment.clouds_yaml),
                 '--steps', os.environ.get('QUINTUPLEO_MODEL_STEPS', '100'),
                 '--hours', os.environ.get('QUINTUPLEO_MODEL_HOURS', '0')]
    if os.environ.get('QUINTUPLEO_MODEL_SHRINK'):
        arguments.append('--shrink')
    seed = pytestconfig.getoption('--hypothesis-seed', None)
    if seed in (None, 'random'):
        seed = random.randrange(model_run.LARGEST_SEED)
    failed = model_run.run(model_run.parser().parse_args(
        [*arguments, '--seed', str(seed)]))
    assert not failed, failed
