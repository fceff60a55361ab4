# SPDX-License-Identifier: Apache-2.0
"""What the documentation names is there: messages, commands, options, files.

Only the source is read, so that a name that is gone from it fails here.
"""

import ast
import configparser
import functools
import importlib
import json
import pathlib
import re
import shlex
from unittest import mock

import pytest
import yaml

from quintupleo_power import conf
from quintupleo_power.environments import definition

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*REPOSITORY.glob('*.rst'),
                *(REPOSITORY / 'doc' / 'source').rglob('*.rst')])
EXAMPLES = REPOSITORY / 'doc/source/install/examples'
REPOSITORY_URL = 'https://opendev.org/openstack/quintupleo-power'
BUGS_URL = 'https://bugs.launchpad.net/quintupleo-power'
TROUBLESHOOTING = REPOSITORY / 'doc/source/user/troubleshooting.rst'
PYTHON = sorted((REPOSITORY / 'quintupleo_power').rglob('*.py'))
SHELL = [REPOSITORY / 'devstack' / 'lib' / 'quintupleo']

GAP = '...'
# A template with fewer words of its own would fit anything.
LEAST_WORDS = 2


def messages():
    """The messages that the page of troubleshooting quotes."""
    blocks = re.findall(r'^   :class: message\n\n((?:   .*\n)+)',
                        TROUBLESHOOTING.read_text(), re.MULTILINE)
    return [' '.join(block.split()) for block in blocks]


def _template(node):
    """A text in the source, with gaps where it is filled in; or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r'%\(\w+\)[sd]|%[sd]|\{\w*\}', GAP, node.value)
    if isinstance(node, ast.JoinedStr):
        return ''.join(_template(value) or GAP for value in node.values)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mod):
            return _template(node.left)
        sides = [_template(node.left), _template(node.right)]
        if isinstance(node.op, ast.Add) and any(sides):
            return ''.join(side or GAP for side in sides)
    return None


def _shell_templates(text):
    for words in re.findall(r'\bdie \$LINENO ((?:"(?:\\.|[^"\\])*"|\\\n|\s)+)',
                            text):
        told = ' '.join(re.findall(r'"((?:\\.|[^"\\])*)"', words))
        yield re.sub(r'\$\{?\w+\}?|\$\(.*?\)', GAP,
                     told).replace('\\"', '"')


@functools.cache
def templates():
    """All sentences of the source, cut at their gaps."""
    found = set()
    for path in PYTHON:
        found |= {_template(node)
                  for node in ast.walk(ast.parse(path.read_text()))}
    for path in SHELL:
        found |= set(_shell_templates(path.read_text()))
    # The name of the section is a constant of the source.
    found = {' '.join(template.split()).replace(f'[{GAP}]',
                                                f'[{conf.GROUP}]')
             for template in found if template}
    return [template.split(GAP) for template in found
            if len(re.findall(r'[a-z]{2,}', template)) >= LEAST_WORDS]


def _fillings(parts, text):
    """What fills the gaps between parts in a text; None if it is another."""
    if len(parts) == 1:
        return [] if parts[0] == text else None
    first, *middle, last = parts
    if len(text) < len(first) + len(last) or not (
            text.startswith(first) and text.endswith(last)):
        return None
    text = text[len(first):len(text) - len(last)]
    fillings = []
    for part in middle:
        filling, found, text = text.partition(part) if part else ('', '', text)
        if part and not found:
            return None
        fillings.append(filling)
    return [*fillings, text]


@functools.cache
def is_printed(message):
    """Tell whether the source has a sentence, and those that fill its gaps.

    Of several sentences in one, such as a refusal and its reason, each has
    to be there.
    """
    for text in (message, message.removeprefix(f'Node {GAP}: ')):
        for parts in templates():
            fillings = _fillings(parts, text)
            if fillings is not None and all(
                    _is_value(filling) or is_printed(filling)
                    for filling in fillings):
                return True
    return False


def _is_value(filling):
    return len(filling.split()) <= 1 or not re.search(r'\w', filling)


@pytest.mark.parametrize('message', messages())
def test_a_message_of_the_page_is_printed_by_the_source(message):
    assert is_printed(message)


@pytest.mark.parametrize('message', messages())
def test_a_message_with_another_word_is_not_found(message):
    words = re.findall(r'[a-z]{3,}', message)
    word = max(words, key=len)

    assert not is_printed(message.replace(word, f'{word}x y'))


def test_the_page_quotes_messages_of_each_kind():
    assert len(messages()) > 40


def _named(expression):
    """What an expression finds in the pages, with the page."""
    return sorted({(name, str(path.relative_to(REPOSITORY)))
                   for path in PAGES
                   for name in re.findall(expression, path.read_text())})


def _commands():
    """Return {command: where its class is}."""
    parser = configparser.ConfigParser(delimiters='=')
    parser.read(REPOSITORY / 'setup.cfg')
    lines = [line.partition('=') for line in
             parser['entry_points']['openstack.quintupleo.v1'].split('\n')
             if line]
    return {name.strip().replace('_', ' '): place.strip()
            for name, _sign, place in lines}


def _lines():
    """Return lines of the pages' consoles that run a command of ours."""
    found = set()
    for path in PAGES:
        text = re.sub(r'\\\n\s*', '', path.read_text())
        found |= {(line, path.name) for line in re.findall(
            r'^ +[$#] openstack (?:--os-cloud \w+ )?(quintupleo .*)$', text,
            re.MULTILINE) if '--help' not in line}
    return sorted(found)


@pytest.mark.parametrize(('words', 'page'), _named(
    r'openstack(?: --os-cloud \w+)?\s+(quintupleo(?:[ \n]+[a-z]+)+)'))
def test_a_command_of_a_page_exists(words, page):
    words = ' '.join(words.split())

    # What follows is an argument, or the rest of a sentence.
    assert any(f'{words} '.startswith(f'{command} ')
               or f'{command} '.startswith(f'{words} ')
               for command in _commands())


@pytest.mark.parametrize(('line', 'page'), _lines())
def test_options_and_arguments_of_a_command_exist(line, page):
    words = shlex.split(line.partition(' > ')[0])
    command = max((command for command in _commands() if words[
        :len(command.split())] == command.split()), key=len)
    module, _colon, name = _commands()[command].partition(':')
    parser = getattr(importlib.import_module(module), name)(
        mock.Mock(), None).get_parser(command)

    parser.parse_args(words[len(command.split()):])


@pytest.mark.parametrize(('name', 'page'),
                         _named(r'\[quintupleo\](\w+)'))
def test_an_option_of_a_page_exists(name, page):
    assert name in {opt.dest for opt in conf.list_opts()[0][1]}


@pytest.mark.parametrize(('name', 'page'), _named(
    r'(?:driver_info/|driver-info )(quintupleo_\w+)'))
def test_a_key_of_driver_info_of_a_page_is_read(name, page):
    source = (REPOSITORY / 'quintupleo_power/node/driver_info.py'
              ).read_text()

    assert f"'{name}'" in source


@pytest.mark.parametrize(('name', 'page'), _named(
    # NAME stands for one that the reader chooses.
    r'(?<![\w/.-])(?![\w/]*NAME)((?:benchmarks|devstack|etc|playbooks|'
    r'quintupleo_power|releasenotes|tests|tools)/[\w./-]*\w)'))
def test_a_file_of_a_page_is_there(name, page):
    assert (REPOSITORY / name).exists()


@pytest.mark.parametrize(('name', 'page'), _named(r'\b(QUINTUPLEO_[A-Z_]+\w)'))
def test_a_variable_of_a_page_is_read(name, page):
    source = [path for folder in ('devstack', 'tests', 'tools', 'benchmarks')
              for path in (REPOSITORY / folder).rglob('*')
              if path.is_file() and path.suffix != '.pyc']

    assert any(name in path.read_text(errors='replace') for path in source)


def test_example_lets_nobody_deploy_the_database():
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / 'doc/source/install/examples/ironic.conf')
    allowed = [pathlib.PurePath(path) for path in
               parser['conductor']['file_url_allowed_paths'].split(',')]
    kernel = pathlib.PurePath(parser['conductor']['deploy_kernel'][7:])
    database = pathlib.PurePath(parser['database']['connection'][10:])

    assert database.name == 'ironic.sqlite'
    assert database.is_absolute()
    assert any(kernel.is_relative_to(path) for path in allowed)
    assert not any(database.is_relative_to(path) for path in allowed)


def test_reference_of_commands_is_that_of_the_entry_points():
    parser = configparser.ConfigParser(delimiters='=')
    parser.read(REPOSITORY / 'setup.cfg')
    (name, _page), = _named(r'\.\. autoprogram-cliff:: (\S+)')

    assert name in parser['entry_points']
    assert _commands()


def test_each_result_of_a_benchmark_is_shown_as_it_is():
    results = json.loads(
        (REPOSITORY / 'benchmarks/results.json').read_text())
    shown = _named(
        r'\.\. benchmark:: ([\w-]+)\n(?:   :charts: (.*)\n)?')

    assert {name for (name, _charts), _page in shown} == {*results}
    for (name, charts), page in shown:
        headings = results[name]['table'][0]
        for unit in (charts or 'seconds').split(', '):
            assert [heading for heading in headings
                    if heading.endswith(f': {unit}')], (name, page)


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_nothing_stands_before_a_directive(page):
    # docutils takes what does for text, and Sphinx does not warn of it.
    assert not [line for line in page.read_text().splitlines()
                if re.search(r'(^|[^`])\.\. [\w-]+::', line)
                and not re.match(r'[ *#-]*\.\. ', line)]


def _reading_paths():
    tree = ast.parse((REPOSITORY / 'doc/source/_exts/reading_paths.py'
                      ).read_text())
    values = {node.targets[0].id: ast.literal_eval(node.value)
              for node in tree.body if isinstance(node, ast.Assign)}
    return values['PATHS'], values['MOST_PAGES']


def test_goal_of_the_first_page_is_a_few_pages_away():
    paths, most = _reading_paths()

    for goal, _words, pages in paths:
        assert 1 <= len(pages) <= most, goal
        assert [page for page in pages if not (
            REPOSITORY / 'doc/source' / f'{page}.rst').exists()] == [], goal


@pytest.mark.parametrize(('url', 'page'), _named(
    r'(https?://[\w./-]*quintupleo-power[\w/-]*)'))
def test_addresses_of_the_repository_and_of_its_bugs_are_one_each(url, page):
    assert url in (REPOSITORY_URL, BUGS_URL)


def test_address_of_the_repository_is_that_of_the_pages_elsewhere():
    metadata = configparser.ConfigParser()
    metadata.read(REPOSITORY / 'setup.cfg')
    review = configparser.ConfigParser()
    review.read(REPOSITORY / '.gitreview')
    samples = [path.read_text()
               for path in (REPOSITORY / 'devstack').glob('*.sample')]

    assert metadata['metadata']['home_page'] == REPOSITORY_URL
    assert metadata['metadata']['project_urls'].split('\n') == [
        '', f'Bug Tracker = {BUGS_URL}', f'Source Code = {REPOSITORY_URL}']
    assert REPOSITORY_URL.endswith(
        '/' + review['gerrit']['project'].removesuffix('.git'))
    assert [sample for sample in samples if
            f'enable_plugin quintupleo-power {REPOSITORY_URL} main\n'
            not in sample] == []


@pytest.mark.parametrize('path', sorted(EXAMPLES.glob('*.conf')),
                         ids=lambda path: path.name)
def test_option_of_an_example_exists(path):
    parser = configparser.ConfigParser(default_section='none')
    parser.read(path)

    assert {*parser[conf.GROUP]} <= {
        opt.dest for opt in conf.list_opts()[0][1]}


@pytest.mark.parametrize('path', [
    *sorted(EXAMPLES.glob('*.yaml')),
    REPOSITORY / 'doc/source/user/examples/lab.yaml'],
    ids=lambda path: path.name)
def test_example_of_an_environment_is_read(path):
    assert definition.load(path).roles


def test_machines_of_the_standalone_page_are_behind_the_router_of_ironic():
    content = yaml.safe_load((EXAMPLES / 'environment.yaml').read_text())

    assert 'existing' in content['networks']['machines']
    assert 'routers' not in content


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_row_of_a_simple_table_has_all_its_cells(page):
    # A cell that goes on in the first column begins a row of its own.
    tables = re.findall(r'^(=+(?: +=+)+)\n(?:.+\n)+?\1\n((?:.+\n)+?)\1$',
                        page.read_text(), re.MULTILINE)
    for rule, rows in tables:
        second = re.match('=+ +', rule).end()
        assert not [row for row in rows.splitlines()
                    if row.strip() and not row[second:].strip()]
