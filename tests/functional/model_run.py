# SPDX-License-Identifier: Apache-2.0
"""Run random sequences against a host cloud, in several processes.

    python -m tests.functional.model_run --clouds-yaml FILE --steps 2000

The first line tells the seed; with ``--seed`` the same sequences run again.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import traceback

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
STEPS_PER_SEQUENCE = 50
LARGEST_SEED = 2 ** 31


def parser():
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(prog='model_run', description=__doc__)
    result.add_argument('--clouds-yaml', required=True,
                        help='what minicloud wrote')
    result.add_argument('--seed', type=int, default=None)
    result.add_argument('--steps', type=int, default=2000,
                        help='how many at least; 2000 by default')
    result.add_argument('--hours', type=float, default=0,
                        help='go on with other seeds for so long')
    result.add_argument('--processes', type=int, default=4)
    result.add_argument('--shrink', action='store_true',
                        help='look for a shorter sequence that fails')
    result.add_argument('--child', type=pathlib.Path, metavar='REPORT',
                        help=argparse.SUPPRESS)
    return result


def main(argv=None):
    """Run the command; return its exit code."""
    arguments = parser().parse_args(argv)
    if arguments.seed is None:
        arguments.seed = random.randrange(LARGEST_SEED)
    if arguments.child:
        return _child(arguments)
    return 1 if run(arguments) else 0


def run(arguments):
    """Run sequences in some processes.

    :param arguments: what :func:`parser` gave; has a seed.
    :returns: the steps of the sequences that failed, as text.
    """
    print(f'Model-based test: seed {arguments.seed}, '
          f'{arguments.processes} processes', flush=True)
    share = -(-arguments.steps // arguments.processes)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        reports = [pathlib.Path(folder) / str(number)
                   for number in range(arguments.processes)]
        children = [subprocess.Popen(
            [sys.executable, '-m', 'tests.functional.model_run',
             '--child', str(report),
             '--clouds-yaml', arguments.clouds_yaml, '--steps', str(share),
             '--hours', str(arguments.hours),
             '--seed', str(arguments.seed + number),
             *(['--shrink'] if arguments.shrink else [])],
            cwd=REPOSITORY, env=_environment(arguments),
            stdin=subprocess.DEVNULL) for number, report in enumerate(reports)]
        try:
            failed = [number for number, child in enumerate(children)
                      if child.wait()]
        finally:
            for child in children:
                child.kill()
        text = '\n'.join(
            reports[number].read_text() if reports[number].exists()
            else f'Process {number} of seed {arguments.seed} ended by itself'
            for number in failed)
    print(f'Model-based test: {time.monotonic() - begun:.0f} s, '
          f'{"a sequence failed, see above" if failed else "no fault"}',
          flush=True)
    return text


def _environment(arguments):
    return {**os.environ,
            'OS_CLIENT_CONFIG_FILE': arguments.clouds_yaml,
            # Of Ironic's base class for tests: no limit.
            'BASE_TEST_TIMEOUT': '0', 'OS_TEST_TIMEOUT': '0'}


def _child(arguments):
    # Imports Ironic, which the parent can do without.
    from tests.functional import model_worker
    deadline = time.monotonic() + arguments.hours * 3600
    worlds = model_worker.worlds(arguments.clouds_yaml)
    seed, failed = arguments.seed, False
    while True:
        begun, steps = time.monotonic(), worlds.steps
        wanted = arguments.steps if not arguments.hours else 500
        try:
            model_worker.run(worlds, seed, -(-wanted // STEPS_PER_SEQUENCE),
                             STEPS_PER_SEQUENCE, arguments.shrink)
        except Exception:  # noqa: BLE001
            failed = True
            _report(worlds, seed, arguments.child)
        done = worlds.steps - steps
        took = time.monotonic() - begun
        print(f'seed {seed}: {done} steps in {took:.0f} s '
              f'({done / took:.1f} a second), {worlds.steps} in all',
              flush=True)
        seed += 1000
        if time.monotonic() >= deadline and (
                worlds.steps >= arguments.steps or failed):
            break
    print('\n'.join(f'{count:7} {what}' for what, count
                    in sorted(worlds.counts.items())), flush=True)
    return 1 if failed else 0


def _report(worlds, seed, path):
    steps = '\n'.join(worlds.failed or worlds.transcript)
    text = (f'\nA sequence of seed {seed} failed:\n{steps}\n\n'
            f'{traceback.format_exc()}')
    print(text, flush=True)
    with path.open('a') as report:
        report.write(text)
    worlds.failed = []


if __name__ == '__main__':
    sys.exit(main())
