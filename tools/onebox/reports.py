# SPDX-License-Identifier: Apache-2.0
"""How tests went, how long they took, and what they took the last time."""

import collections
import dataclasses
import json
from xml.etree import ElementTree

from onebox import progress
from onebox import system

# Files and tests that are listed with their times.
SLOWEST = 12
# pytest's exit code when no test was chosen.
NO_TESTS = 5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How the tests of one tier went with one release."""

    tier: str
    ironic: str
    nova: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    complaints: list = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, tier, release, nova_release, report):
        """Read pytest's report in the format of JUnit."""
        suite = ElementTree.parse(report).getroot().find('testsuite')
        # The suite's own numbers count each subtest, pytest's last line
        # does not.
        cases = [{child.tag for child in case}
                 for case in suite.iter('testcase')]
        failed = sum(bool(tags & {'failure', 'error'}) for tags in cases)
        skipped = sum('skipped' in tags for tags in cases)
        return cls(tier, release.name, nova_release,
                   len(cases) - failed - skipped, failed, skipped,
                   float(suite.get('time')), list(_complaints(suite)))


def _complaints(suite):
    """What the failed tests of a report say, a line for all that say it."""
    names = collections.defaultdict(list)
    for case in suite.iter('testcase'):
        for found in (*case.iter('failure'), *case.iter('error')):
            said = ' '.join(found.get('message', '').split())
            names[said[:500]].append(
                f"{case.get('classname')} {case.get('name')}")
    for said, tests in names.items():
        others = f' and {len(tests) - 1} more' if len(tests) > 1 else ''
        yield f'{tests[0]}{others}: {said}'


def last_errors(logs):
    """Yield the last error that each log of a folder has, if it has one."""
    for path in sorted(logs.glob('*.log')):
        with path.open(errors='replace') as lines:
            errors = collections.deque(
                (line for line in lines if ' ERROR ' in line), maxlen=1)
        for line in errors:
            yield f'{path.name}: {line.strip()[:500]}'


def kept():
    """Return the folder of what is kept of a run for the next one."""
    return system.cache_dir() / 'tests' / 'kept'


def last_time():
    """Return the seconds that the stages of earlier runs took, by name."""
    try:
        return json.loads((kept() / 'stages.json').read_text())
    except (OSError, ValueError):
        return {}


def times():
    """Yield lines that say where the time of the last run went."""
    row = '  {:<60} {:>12}'.format
    yield 'Stages'
    for name, seconds in last_time().items():
        yield row(name, progress.elapsed(seconds))
    for path in sorted(kept().glob('*-*.json')):
        tests = json.loads(path.read_text())
        files = collections.Counter()
        for test, seconds in tests.items():
            files[test.partition('::')[0]] += seconds
        yield f'{path.stem}: {len(tests)} tests'
        for name, seconds in [*files.most_common(SLOWEST),
                              *collections.Counter(tests).most_common(
                                  SLOWEST)]:
            yield row(name.removeprefix('tests/')[-60:],
                      progress.elapsed(seconds))


def table(outcomes):
    """Lines that tell how each tier went with each release."""
    row = '{:<15} {:<8} {:<6} {:>6} {:>6} {:>7} {:>12}'
    return [row.format('Tests', 'Ironic', 'Nova', 'passed', 'failed',
                       'skipped', 'took'),
            *(row.format(each.tier, each.ironic, each.nova, each.passed,
                         each.failed, each.skipped,
                         progress.elapsed(each.seconds))
              for each in outcomes)]
