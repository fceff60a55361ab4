# SPDX-License-Identifier: Apache-2.0
"""The directive ``contract``: what of Ironic is tested, by release."""

import contracts
import list_table
from sphinx.util import docutils


def _marks(first):
    return ['✓' if contracts.is_in(release, first) else '–'
            for release in contracts.RELEASES]


def interfaces():
    """Yield what the hardware type supports: all at first, then changes."""
    for kind in contracts.SUPPORTED:
        before, cells = [], []
        for release in contracts.RELEASES:
            names = contracts.supported(kind, release)
            # A cell that begins with a plain "+" would be a list.
            changes = [*(f'\\+ ``{name}``' for name in names
                         if name not in before),
                       *(f'− ``{name}``' for name in before
                         if name not in names)]
            if not before:
                changes = [f'``{name}``' for name in names]
            cells.append(', '.join(changes))
            before = names
        yield (kind, *cells)


def methods():
    """Yield who answers each method, and since which release."""
    for kind, known in {'all': contracts.BASE, **contracts.METHODS}.items():
        for name, (arguments, who, *first) in known.items():
            if arguments is not None:
                yield (kind, f'``{name}``', who,
                       first[0] if first else contracts.RELEASES[0])


def flows():
    """Yield each flow, its releases and its tests."""
    for name, (first, *tests) in contracts.FLOWS.items():
        yield (name, *_marks(first),
               ', '.join(f'``{test}``' for test in tests))


TABLES = {
    'interfaces': (('Interface', *contracts.RELEASES), interfaces),
    'methods': (('Kind', 'Method', 'Answered by', 'Since'), methods),
    'flows': (('Flow', *contracts.RELEASES, 'Tests below ``tests/unit``'),
              flows),
}


def lines(name):
    """Yield a table as reStructuredText."""
    headings, rows = TABLES[name]
    yield from list_table.lines([headings, *rows()])


class Contract(docutils.SphinxDirective):
    """Puts one of the tables where it stands."""

    required_arguments = 1

    def run(self):
        """Return the table's nodes."""
        self.env.note_dependency(contracts.__file__)
        return self.parse_text_to_nodes('\n'.join(lines(self.arguments[0])))


def setup(app):
    """Register the directive."""
    app.add_directive('contract', Contract)
    return {'parallel_read_safe': True}
