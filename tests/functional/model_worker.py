# SPDX-License-Identifier: Apache-2.0
"""One process of the model-based test."""

# First of all, as it replaces libraries.
import ironic.tests.unit  # noqa: F401 isort: skip

import hypothesis
from hypothesis import stateful

import quintupleo_power.hardware  # noqa: F401
from tests.functional import model_cloud
from tests.functional import model_ironic
from tests.functional import model_machine
from tests.functional import model_wire


def worlds(clouds_yaml):
    """Make what all sequences of this process share.

    :param clouds_yaml: path of the file that minicloud wrote.
    :returns: a :class:`model_machine.Worlds`.
    """
    conductor = model_ironic.Conductor()
    conductor.setUp()
    return model_machine.Worlds(model_cloud.HostCloud(clouds_yaml), conductor,
                                model_wire.Wire())


def run(shared, seed, sequences, steps, shrink):
    """Run sequences; the first that fails raises.

    :param shared: a :class:`model_machine.Worlds`.
    :param seed: an integer that decides what is in the sequences.
    :param sequences: how many.
    :param steps: steps in each.
    :param shrink: whether to look for a shorter sequence that fails.
    """
    phases = [hypothesis.Phase.generate]
    if shrink:
        phases.append(hypothesis.Phase.shrink)

    @hypothesis.seed(seed)
    class Sequence(model_machine.Sequence):
        worlds = shared

    stateful.run_state_machine_as_test(Sequence, settings=hypothesis.settings(
        # The first one of hypothesis is the simplest step again and again.
        max_examples=sequences + 1, stateful_step_count=steps, deadline=None,
        database=None, phases=phases, print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck)))
