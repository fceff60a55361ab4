# SPDX-License-Identifier: Apache-2.0
"""The text of a YAML file: its bounds, and the lines of its mistakes."""

import re

import jsonschema
import yaml

from quintupleo_power.environments import errors


class _Loader(yaml.SafeLoader):
    """YAML with integers only: neither 52:54:00 nor 2026-11-21 is one."""


_INTEGER = ('tag:yaml.org,2002:int', re.compile('^[-+]?[0-9]+$'))
_PLAIN = tuple(f'tag:yaml.org,2002:{what}' for what in (
    'null', 'bool', 'merge'))
_Loader.yaml_implicit_resolvers = {
    first: [*((tag, pattern) for tag, pattern in resolvers if tag in _PLAIN),
            *([_INTEGER] if first in '+-0123456789' else [])]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}


# Keys, values and items of a file: thousands of machines have some 10,000.
_MOST_PARTS = 200000


def _size(node, known):
    """Return how many parts a node has when its aliases are written out.

    :param known: sizes of the nodes that were met, by the nodes' identity.
    """
    if id(node) not in known:
        # One that contains itself is nested too deep for _convert.
        known[id(node)] = 1
        if isinstance(node, yaml.CollectionNode):
            known[id(node)] += sum(
                _size(part, known) for item in node.value
                for part in (item if isinstance(item, tuple) else (item,)))
    return known[id(node)]


class Document:
    """A file's content, the line of each part of it, and its mistakes."""

    def __init__(self, text, path):
        """Read YAML; raise EnvironmentsError if it is not."""
        self._path = path
        self._lines = {(): 1}
        self._mistakes = []
        if text.lstrip().startswith('{'):
            # JSON may have tabs between its words, and has none inside them.
            text = text.replace('\t', ' ')
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node and _size(node, {}) > _MOST_PARTS:
                raise errors.EnvironmentsError(
                    f'{path}: it has more than {_MOST_PARTS} parts, aliases '
                    'written out: make several environments of it')
            self.content = node and self._convert(loader, node, ())
        except RecursionError:
            raise errors.EnvironmentsError(
                f'{path}: it is nested too deep for an environment')
        except yaml.YAMLError as exc:
            mark = getattr(exc, 'problem_mark', None)
            where = f', line {mark.line + 1}' if mark else ''
            raise errors.EnvironmentsError(
                f'{path}{where}: not YAML: {getattr(exc, "problem", exc)}')
        finally:
            loader.dispose()
        self.require_no_mistakes()

    def _convert(self, loader, node, where):
        self._lines[where] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self._convert(loader, item, (*where, number))
                    for number, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return loader.construct_object(node)
        seen = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._add(line, where, 'a key has to be text')
            elif key.value in seen:
                self._add(line, (*where, key.value), 'it is there twice')
            else:
                seen.add(key.value)
        loader.flatten_mapping(node)
        found = {}
        for key, value in node.value:
            inside = (*where, str(key.value))
            found[inside[-1]] = self._convert(loader, value, inside)
            self._lines[inside] = key.start_mark.line + 1
        return found

    def mistake(self, where, sentence):
        """Add a mistake in a place, the tuple of keys and numbers to it."""
        self._add(next(
            self._lines[where[:length]]
            for length in range(len(where), -1, -1)
            if where[:length] in self._lines), where, sentence)

    def _add(self, line, where, sentence):
        name = ''.join(f'[{part}]' if isinstance(part, int) else f'.{part}'
                       for part in where).lstrip('.') or 'the file'
        self._mistakes.append(
            (line, f'{self._path}, line {line}: {name}: {sentence}'))

    def require_no_mistakes(self):
        """Raise EnvironmentsError if the file has mistakes."""
        if self._mistakes:
            raise errors.EnvironmentsError('\n'.join(
                sentence for _, sentence in sorted(self._mistakes)))

    def check_schema(self, schema, formats):
        """Raise EnvironmentsError if a JSON schema is not fulfilled."""
        validator = jsonschema.Draft7Validator(schema, format_checker=formats)
        for error in validator.iter_errors(self.content):
            where = tuple(error.absolute_path)
            if error.validator == 'additionalProperties':
                known = error.schema['properties']
                for key in sorted(set(error.instance) - set(known)):
                    self.mistake((*where, key), 'unknown key; there are '
                                 + ', '.join(known))
            else:
                self.mistake(where, str(error.cause or error.message))
        self.require_no_mistakes()
