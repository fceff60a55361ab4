# SPDX-License-Identifier: Apache-2.0
"""The commands print the example of the documentation as it shows them."""

import pathlib
import re

from tests.unit.osc import base

EXAMPLES = pathlib.Path(__file__).resolve().parents[3].joinpath(
    'doc/source/user/examples')


def first_cells(text):
    """Return the first cells of the table, and the lines of progress."""
    return [re.match(r'\| *(\S*)|(?:\d+:\d+)?(.*)', line).groups()
            for line in text.splitlines()
            if not line.startswith('+') and not line.startswith('|  ')]


class PagesTestCase(base.CommandTestCase):

    def test_output_of_the_example(self):
        path = EXAMPLES / 'lab.yaml'
        for name, ram in (('tiny', 256), ('large', 3072)):
            self.cloud.add('flavor', name=name, vcpus=2, ram=ram, disk=6)

        for page, words in (
                ('dry-run.txt', ('CreateEnvironment', path, '--dry-run')),
                ('create.txt', ('CreateEnvironment', path, '--wait')),
                ('enroll.txt', ('EnrollEnvironment', 'lab'))):
            self.succeed(*words)
            self.assertEqual(first_cells(self.err + self.out),
                             first_cells((EXAMPLES / page).read_text()), page)
