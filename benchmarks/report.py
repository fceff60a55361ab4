# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: printed as a table and kept in results.json.

The documentation draws its tables and charts from that file when it is built.
"""

import argparse
import datetime
import html
import json
import os
import pathlib
import re
import shlex
import sys

RESULTS = pathlib.Path(__file__).resolve().with_name('results.json')
COLORS = '#4c72b0', '#dd8452', '#55a868', '#8172b3'
# Of a chart, in pixels: where the bars begin, the longest one, and the height
# of a bar and of what separates two groups of them.
LEFT, LONGEST, BAR, GAP = 210, 440, 12, 8


def add_arguments(parser):
    """Add the options of :func:`write` to a parser."""
    parser.add_argument(
        '--write', metavar='FILE', type=pathlib.Path, nargs='?',
        const=RESULTS, help='put the table into FILE, in the place of an '
        'earlier one of this benchmark (default: benchmarks/results.json, '
        'which the documentation shows)')
    parser.add_argument(
        '--samples', metavar='FILE', type=pathlib.Path,
        help='write what each round took to FILE')


def write(arguments, name, versions, table, samples):
    """Print the table of a benchmark, and keep it if that is wanted.

    The cells of a table are texts, whole numbers, numbers that are rounded
    to the decimals that are to be shown, or None where there is no value. A
    column with the heading "SIDE: UNIT" is a series of the chart of that unit.

    :param arguments: the parsed options, those of :func:`add_arguments` among
        them.
    :param name: name of the result.
    :param versions: {what: its release}.
    :param table: list of rows, the headings first.
    :param samples: what each round took, for JSON.
    """
    rows = texts(table)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print('  '.join(text.ljust(width) for text, width in zip(
            row, widths, strict=True)).rstrip(), flush=True)
    if arguments.samples:
        arguments.samples.write_text(json.dumps(samples, indent=1) + '\n')
    if arguments.write:
        _merge(arguments.write, name, {
            'command': _command(), 'date': f'{datetime.date.today()}',
            'processors': os.cpu_count(), 'versions': versions,
            'table': table})


def _command():
    """Return the command of this run, without where its figures go."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_arguments(own)
    return shlex.join(['tools/benchmark', pathlib.Path(sys.argv[0]).stem,
                       *own.parse_known_args(sys.argv[1:])[1]])


def _merge(path, name, result):
    """Put a result into a file that may hold others."""
    results = json.loads(path.read_text()) if path.exists() else {}
    text = json.dumps(dict(sorted({**results, name: result}.items())),
                      indent=1, ensure_ascii=False)
    # A row of a table is one line.
    path.write_text(re.sub(
        r'\[\s+([^][{}]+?)\s+\]',
        lambda row: '[' + re.sub(r'\n\s+', ' ', row[1]) + ']', text) + '\n')


def texts(table):
    """Return a table with texts in the place of numbers.

    The numbers of a column have as many decimals as the longest of them.
    """
    columns = []
    for column in zip(*table, strict=True):
        decimals = max(len(str(cell).partition('.')[2])
                       if isinstance(cell, float) else 0 for cell in column)
        columns.append([_text(cell, decimals) for cell in column])
    return [list(row) for row in zip(*columns, strict=True)]


def _text(cell, decimals):
    if cell is None:
        return ''
    if isinstance(cell, float):
        return f'{cell:,.{decimals}f}'
    return f'{cell:,}' if isinstance(cell, int) else cell


def chart(table, unit):
    """Return an SVG image with a bar for each value of a unit.

    :param table: see :func:`write`.
    :param unit: what the headings of the series end with.
    """
    series = [place for place, heading in enumerate(table[0])
              if heading.endswith(f': {unit}')]
    shown, y = [], BAR
    for color, place in zip(COLORS, series, strict=False):
        shown += [f'<rect x="{LEFT}" y="{y}" width="{BAR}" height="{BAR}" '
                  f'fill="{color}"/>',
                  _label(LEFT + BAR + 4, y, table[0][place])]
        y += BAR + 2
    most = max(row[place] for row in table[1:] for place in series
               if isinstance(row[place], int | float))
    for row, row_texts in zip(table[1:], texts(table)[1:], strict=True):
        y += GAP
        shown.append(_label(LEFT - 6, y, row_texts[0], 'end'))
        # What took no time and what was not measured has no bar.
        bars = [(color, place)
                for color, place in zip(COLORS, series, strict=False)
                if isinstance(row[place], int | float) and row[place]]
        for color, place in bars:
            width = max(1, LONGEST * row[place] / most)
            shown += [f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" '
                      f'height="{BAR - 1}" fill="{color}"/>',
                      _label(LEFT + width + 4, y, row_texts[place])]
            y += BAR
        y += 0 if bars else BAR
    return (f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {LEFT + LONGEST + 70} {y + BAR}" '
            f'aria-label="the {unit} of the table as bars" '
            'font-family="sans-serif" font-size="11" width="100%">'
            + ''.join(shown) + '</svg>')


def _label(x, y, text, anchor='start'):
    return (f'<text x="{x:.1f}" y="{y + BAR - 3}" fill="currentColor" '
            f'text-anchor="{anchor}">{html.escape(text)}</text>')
