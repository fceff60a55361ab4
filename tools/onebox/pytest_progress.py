# SPDX-License-Identifier: Apache-2.0
"""Pytest plugin that shows where a run is, and each failure at once."""

import json
import pathlib
import time

import pytest

from onebox import progress

# Seconds between two lines of a log, unless a test took as long.
INTERVAL = 5


def pytest_addoption(parser):
    """Add the options that ``tools/run-tests`` gives."""
    group = parser.getgroup('quintupleo')
    group.addoption('--run-title', default='tests',
                    help='what the tests are together')
    group.addoption('--run-times', type=pathlib.Path,
                    help='file in which the seconds of each test are kept')


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Report, unless this is one of several workers."""
    if not hasattr(config, 'workerinput'):
        config.pluginmanager.register(_Reporter(config))


class _Reporter:
    """Counts the tests of a run and prints how far it is.

    :param config: pytest's configuration.
    """

    def __init__(self, config):
        self._config = config
        self._out = config.pluginmanager.getplugin('terminalreporter')
        self._title = config.getoption('--run-title')
        self._file = config.getoption('--run-times')
        self._known = _read(self._file)
        self._took = {}
        self._not_set_up = set()
        self._ids = []
        self._done = 0
        self._begun = self._shown = time.monotonic()

    def pytest_collection_finish(self, session):
        """Get the tests of a run without workers."""
        self._ids = [item.nodeid for item in session.items]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        """Get the tests of a run with workers, each of which has them all."""
        self._ids = ids

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self):
        """Return the outcome for the summary, without a letter of its own."""
        category, _, _ = yield
        return category, '', ''

    def pytest_runtest_logreport(self, report):
        """Show a failure, and a test that ended."""
        if report.failed:
            self._fail(report)
        took = self._took[report.nodeid] = (
            self._took.get(report.nodeid, 0) + report.duration)
        if report.when != 'teardown' or type(report) is not pytest.TestReport:
            return
        self._done += 1
        now = time.monotonic()
        if (self._out.isatty or took >= INTERVAL
                or now - self._shown >= INTERVAL
                or self._done == len(self._ids)):
            self._shown = now
            self._print(f'{report.nodeid}, {progress.elapsed(took)}')

    def _fail(self, report):
        if report.when == 'setup':
            self._not_set_up.add(report.nodeid)
        self._out.ensure_newline()
        self._out.write_sep('_', f'{report.nodeid} failed in its '
                                 f'{report.when}', red=True)
        self._out.write_line(report.longreprtext)
        for title, text in report.sections:
            self._out.write_sep('-', title)
            self._out.write_line(text.rstrip())

    def _print(self, last):
        line = (f'{self._title} {self._done}/{len(self._ids)}, '
                f'{progress.elapsed(time.monotonic() - self._begun)}')
        expected = self._expected()
        if expected:
            line += f' of about {progress.elapsed(expected)}'
        line += f': {last}'
        if self._out.isatty:
            width = self._out._tw.fullwidth - 1
            self._out.rewrite(line[:width], erase=True)
        else:
            self._out.write_line(line)

    def _expected(self):
        """Return the seconds that the run takes by what its tests took last.

        :returns: seconds, or None where a test is new.
        """
        if not all(nodeid in self._known for nodeid in self._ids):
            return None
        workers = self._config.getoption('numprocesses', None) or 1
        return sum(self._known[nodeid] for nodeid in self._ids) / workers

    def pytest_sessionfinish(self):
        """Keep the times; no failure is shown a second time."""
        if self._out.isatty:
            self._out.rewrite('', erase=True)
        self._config.option.tbstyle = 'no'
        if self._file:
            # One that was not set up may take its time once it is.
            for nodeid in self._not_set_up:
                self._took.pop(nodeid, None)
            self._file.write_text(json.dumps({**self._known, **self._took}))


def _read(path):
    try:
        return json.loads(path.read_text())
    except (AttributeError, OSError, ValueError):
        return {}
