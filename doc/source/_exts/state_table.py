# SPDX-License-Identifier: Apache-2.0
"""The directive ``state-table``: the driver's own table, with its proofs."""

import cells
import list_table
from sphinx.util import docutils

from quintupleo_power import transitions

HEADINGS = {
    'on_disk': 'on, disk', 'on_pxe': 'on, pxe', 'off': 'off',
    'reboot_disk': 'reboot, disk', 'reboot_pxe': 'reboot, pxe',
    'soft_off': 'soft off', 'soft_reboot_disk': 'soft reboot, disk',
    'soft_reboot_pxe': 'soft reboot, pxe',
    'rebuild': 'rebuild', 'snapshot': 'snapshot'}
SYMBOLS = {cells.FAKE: 'N', cells.GUESTS: 'L', cells.UNIT: 'U'}


def _cell(situation, column):
    actions = getattr(transitions.TABLE[situation], column)
    return '{} :sup:`{}`'.format(
        ', '.join(action.value for action in actions) or '–',
        SYMBOLS[cells.proof(situation, column)])


def _legend():
    for proof, meaning in cells.MARKS.items():
        yield f'* :sup:`{SYMBOLS[proof]}` {meaning}'
    yield ''
    for situation, reason in cells.NOT_MET.items():
        yield f'* {situation.value}: {reason}'
    yield ''


def lines():
    """Yield the table as reStructuredText."""
    yield from list_table.lines([
        ('Server', *(HEADINGS[column] for column in cells.COLUMNS)),
        *((situation.value,
           *(_cell(situation, column) for column in cells.COLUMNS))
          for situation in transitions.TABLE)])
    yield from list_table.lines([
        ('Server', 'Each request is refused', 'Proof'),
        *((situation.value, sentence, SYMBOLS[cells.proof(situation, 'off')])
          for situation, sentence in transitions.REFUSALS.items())])
    yield from _legend()


class StateTable(docutils.SphinxDirective):
    """Puts the table where it stands."""

    def run(self):
        """Return the table's nodes."""
        self.env.note_dependency(transitions.__file__)
        self.env.note_dependency(cells.__file__)
        return self.parse_text_to_nodes('\n'.join(lines()))


def setup(app):
    """Register the directive."""
    app.add_directive('state-table', StateTable)
    return {'parallel_read_safe': True}
