# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: a table, JSON and a chart.

With ``--write FOLDER`` there are NAME.json, NAME.svg and NAME.txt, which the
documentation includes.
"""

import dataclasses
import datetime
import json
import os
import pathlib
import shlex
import sys

COLORS = '#4c72b0', '#dd8452', '#55a868', '#8172b3', '#937860'


@dataclasses.dataclass
class Panel:
    """One part of a chart.

    :ivar title: what is shown, with its unit.
    :ivar x: labels for bars, or numbers for lines.
    :ivar series: {name: values}, None where there is no value.
    :ivar lines: whether it has lines, on logarithmic axes.
    :ivar x_title: what the numbers are.
    """

    title: str
    x: list
    series: dict
    lines: bool = False
    x_title: str = ''


def add_arguments(parser):
    """Add the options of :func:`write` to those of a benchmark."""
    parser.add_argument('--write', metavar='FOLDER', type=pathlib.Path,
                        help='write the figures, a chart and the table there')


def write(arguments, name, versions, table, figures, panels):
    """Print the table of a benchmark, and write all of it if that is wanted.

    :param arguments: what the parser found.
    :param name: name of the files.
    :param versions: {what: its release}.
    :param table: list of rows of texts, the titles first.
    :param figures: all of the figures, for JSON.
    :param panels: list of :class:`Panel` for the chart.
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print('  '.join(text.ljust(width) for text, width in zip(
            row, widths, strict=True)).rstrip(), flush=True)
    if not arguments.write:
        return
    # The option itself and its folder belong to whoever ran it.
    command = shlex.join(['tools/benchmark', pathlib.Path(sys.argv[0]).stem, *(
        word for word in sys.argv[1:]
        if word not in ('--write', str(arguments.write)))])
    about = {'command': command, 'versions': versions,
             'processors': os.cpu_count(),
             'date': f'{datetime.date.today()}'}
    arguments.write.mkdir(parents=True, exist_ok=True)
    path = arguments.write / name
    path.with_suffix('.json').write_text(json.dumps(
        {**about, 'table': table, 'figures': figures}, indent=1) + '\n')
    path.with_suffix('.txt').write_text(_rst(name, about, table))
    _draw(path.with_suffix('.svg'), panels)


def _rst(name, about, table):
    lines = ['.. list-table::', '   :header-rows: 1', '']
    for row in table:
        lines += [f'   {" " if number else "*"} - {text}'
                  for number, text in enumerate(row)]
    versions = ', '.join(f'{what} {version}'
                         for what, version in about['versions'].items())
    lines += ['', f'.. image:: /benchmarks/{name}.svg', '   :width: 100%',
              '   :alt: the same as a chart', '',
              f'``{about["command"]}``, {about["date"]}, '
              f'{about["processors"]} processors. {versions}.', '']
    return '\n'.join(lines)


def _draw(path, panels):
    import matplotlib
    matplotlib.use('svg')
    matplotlib.rcParams['svg.hashsalt'] = path.name
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 4), squeeze=False)
    for panel, axis in zip(panels, axes[0], strict=True):
        (_lines if panel.lines else _bars)(axis, panel)
        axis.set_title(panel.title, fontsize=10)
        axis.spines[['top', 'right']].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={'Date': None})


def _lines(axis, panel):
    for color, (name, values) in zip(COLORS, panel.series.items(),
                                     strict=False):
        points = [(x, y) for x, y in zip(panel.x, values, strict=True)
                  if y is not None]
        axis.plot(*zip(*points, strict=True), marker='o', color=color,
                  label=name)
    axis.set_xscale('log')
    axis.set_yscale('log')
    axis.set_xlabel(panel.x_title, fontsize=8)
    axis.set_xticks(panel.x, [f'{x:,}' for x in panel.x])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def _bars(axis, panel):
    width = 0.8 / len(panel.series)
    for number, (name, values) in enumerate(panel.series.items()):
        places = [place + (number - (len(panel.series) - 1) / 2) * width
                  for place in range(len(values))]
        bars = axis.bar(places, [value or 0 for value in values], width * 0.9,
                        color=COLORS[number], label=name)
        axis.bar_label(bars, [f'{value:.1f}' if value else ''
                              for value in values], fontsize=7)
    axis.set_xticks(range(len(panel.x)), panel.x)
