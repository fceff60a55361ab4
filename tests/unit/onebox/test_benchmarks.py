# SPDX-License-Identifier: Apache-2.0
"""Tests of what benchmarks keep, and of how it is shown."""

import argparse
import datetime
import importlib.util
import json
import sys
from xml.etree import ElementTree

import pytest

from onebox import benchmarks

SVG = '{http://www.w3.org/2000/svg}'
TABLE = [['median', 'bare Nova: seconds', 'ours: seconds', 'ours: requests'],
         ['off <1>', 2.0, 2.25, 4],
         ['on', 0.5, None, 1234],
         ['all', 0.0, 'failed', None]]
# Ratios, by what they are made of: the same run's medians.
RATIOS = {
    'one-node': [('quintupleo: times bare Nova', 'quintupleo: seconds',
                  'the bare Nova action: seconds')],
    'wipe-disk': [('times the bare rebuild', 'wipe_disk: seconds',
                   'the bare rebuild: seconds')],
    'environments': [('times the script', 'quintupleo: seconds',
                      'a script: seconds')],
    'many-to-pxe': [('times the script', 'quintupleo: seconds',
                     'script: seconds')],
    'many-to-pxe-apart': [('times the script', 'quintupleo: seconds',
                           'script: seconds')],
}


def _load():
    spec = importlib.util.spec_from_file_location(
        'report', benchmarks.FOLDER / 'report.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


report = _load()
RESULTS = json.loads(report.RESULTS.read_text())


def _write(monkeypatch, *words, name='one-node', table=TABLE):
    monkeypatch.setattr(sys, 'argv', ['/x/one_node.py', *map(str, words)])
    parser = argparse.ArgumentParser()
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--nodes', type=int, nargs='+')
    report.add_arguments(parser)
    report.write(parser.parse_args(), name, {'Nova': '32'}, table,
                 {'ours': [2.2, 2.3]})


@pytest.mark.parametrize('name', RESULTS)
def test_result_is_a_summary(name):
    result = RESULTS[name]

    assert {*result} == {'command', 'date', 'processors', 'versions', 'table'}
    datetime.date.fromisoformat(result['date'])
    assert result['versions']['Nova']
    # The command can be repeated by others.
    tool, benchmark, *words = result['command'].split()
    assert tool == 'tools/benchmark' and benchmark in benchmarks.HYPERVISORS
    assert not [word for word in words if '/' in word]
    headings, *rows = result['table']
    assert rows and {len(row) for row in rows} == {len(headings)}
    assert all(isinstance(cell, str | int | float | None)
               for row in rows for cell in row)


def test_each_benchmark_has_a_result():
    assert {result['command'].split()[1] for result in RESULTS.values()} == {
        *benchmarks.HYPERVISORS}


@pytest.mark.parametrize(('name', 'columns'), [
    (name, columns) for name, found in RATIOS.items() for columns in found])
def test_ratio_is_that_of_its_row(name, columns):
    headings, *rows = RESULTS[name]['table']
    for row in rows:
        ratio, over, under = (row[headings.index(each)] for each in columns)
        # All three are rounded.
        step = 0.05 if name not in ('one-node', 'wipe-disk') else 0.005
        assert (over - step) / (under + step) - 0.005 <= ratio
        assert ratio <= (over + step) / (under - step) + 0.005


def test_sides_are_compared_in_one_run():
    for name, result in RESULTS.items():
        assert sum(heading.endswith(': seconds')
                   for heading in result['table'][0]) > 1, name


def test_result_takes_the_place_of_an_earlier_one(monkeypatch, tmp_path):
    path = tmp_path / 'results.json'
    _write(monkeypatch, '--write', path)
    _write(monkeypatch, '--write', path, name='another')
    _write(monkeypatch, f'--write={path}', '--rounds', 3, '--nodes', 1, 2,
           table=TABLE[:2])

    found = json.loads(path.read_text())

    assert [*found] == ['another', 'one-node']
    assert found['another']['table'] == TABLE
    assert found['one-node']['table'] == TABLE[:2]
    assert (found['one-node']['command']
            == 'tools/benchmark one_node --rounds 3 --nodes 1 2')
    # A row is a line, for those who compare two versions of the file.
    assert '   ["on", 0.5, null, 1234],\n' in path.read_text()


def test_samples_are_written_elsewhere(monkeypatch, tmp_path):
    samples = tmp_path / 'samples.json'
    monkeypatch.setattr(report, 'RESULTS', tmp_path / 'results.json')
    _write(monkeypatch, '--samples', samples)

    assert json.loads(samples.read_text()) == {'ours': [2.2, 2.3]}
    assert not report.RESULTS.exists()


def test_results_are_where_the_documentation_reads_them(monkeypatch):
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)

    assert parser.parse_args(['--write']).write == report.RESULTS
    assert parser.parse_args([]).write is None
    assert report.RESULTS == benchmarks.FOLDER / 'results.json'


def test_table_is_printed(monkeypatch, capsys):
    _write(monkeypatch)

    assert capsys.readouterr().out.splitlines() == [
        'median   bare Nova: seconds  ours: seconds  ours: requests',
        'off <1>  2.0                 2.25           4',
        'on       0.5                                1,234',
        'all      0.0                 failed']


def test_numbers_of_a_column_have_the_same_decimals():
    assert report.texts([['what'], [1.5], [0.25], [1000.0], [3], [None]]) == [
        ['what'], ['1.50'], ['0.25'], ['1,000.00'], ['3'], ['']]


def test_chart_has_a_bar_for_each_value():
    image = ElementTree.fromstring(report.chart(TABLE, 'seconds'))
    bars = [each for each in image.iter(f'{SVG}rect')
            if each.get('height') != each.get('width')]
    texts = [each.text for each in image.iter(f'{SVG}text')]

    widths = [float(bar.get('width')) for bar in bars]
    assert len(widths) == 3
    assert widths[0] == pytest.approx(widths[1] * 2.0 / 2.25, abs=0.1)
    assert widths[2] == pytest.approx(widths[1] * 0.5 / 2.25, abs=0.1)
    # The legend, then each row with its values.
    assert texts == ['bare Nova: seconds', 'ours: seconds', 'off <1>', '2.0',
                     '2.25', 'on', '0.5', 'all']
    # A series has one colour.
    assert bars[0].get('fill') == bars[2].get('fill') != bars[1].get('fill')
    lowest = max(float(each.get('y')) for each in image.iter(f'{SVG}text'))
    assert lowest < float(image.get('viewBox').split()[3])


def test_chart_is_of_one_unit():
    image = ElementTree.fromstring(report.chart(TABLE, 'requests'))

    assert [each.text for each in image.iter(f'{SVG}text')] == [
        'ours: requests', 'off <1>', '4', 'on', '1,234', 'all']
