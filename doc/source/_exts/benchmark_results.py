# SPDX-License-Identifier: Apache-2.0
"""The directive ``benchmark``: a result of benchmarks/results.json."""

import json

from docutils import nodes
from docutils.parsers.rst import directives
import list_table
import report
from sphinx.util import docutils

# A table with more columns than these is turned round.
MOST_COLUMNS = 6


class Benchmark(docutils.SphinxDirective):
    """Shows the table, a chart of each unit, and how they were measured."""

    required_arguments = 1
    option_spec = {'charts': directives.unchanged}

    def run(self):
        """Return the nodes of the result."""
        self.env.note_dependency(str(report.RESULTS))
        self.env.note_dependency(report.__file__)
        name, = self.arguments
        results = json.loads(report.RESULTS.read_text())
        if name not in results:
            raise self.error(f'{report.RESULTS} has no result "{name}".')
        result = results[name]
        charts = ''.join(
            report.chart(result['table'], unit.strip())
            for unit in self.options.get('charts', 'seconds').split(','))
        rows = report.texts(result['table'])
        if len(rows[0]) > MOST_COLUMNS:
            rows = [list(row) for row in zip(*rows, strict=True)]
        table = list_table.lines(rows)
        return [*self.parse_text_to_nodes('\n'.join(table)),
                nodes.raw('', charts, format='html'),
                *self.parse_text_to_nodes(_origin(result))]


def _origin(result):
    versions = ', '.join(f'{what} {version}' for what, version
                         in result['versions'].items())
    return (f'``{result["command"]}``, {result["date"]}, '
            f'{result["processors"]} processors. {versions}.')


def setup(app):
    """Register the directive."""
    app.add_directive('benchmark', Benchmark)
    return {'parallel_read_safe': True}
