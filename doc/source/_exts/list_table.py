# SPDX-License-Identifier: Apache-2.0
"""Tables that the directives of the documentation generate."""


def lines(rows):
    """Yield rows, the headings first, as a list-table."""
    yield '.. list-table::'
    yield '   :header-rows: 1'
    yield '   :stub-columns: 1'
    yield ''
    for row in rows:
        for number, cell in enumerate(row):
            yield f"   {'  ' if number else '* '}- {cell}"
    yield ''
