# SPDX-License-Identifier: Apache-2.0
"""Each table is in a box, which scrolls where the page is narrower."""

from docutils import nodes
from sphinx.transforms import post_transforms

# With more columns than these a table has smaller letters.
MOST_COLUMNS = 5


class TableBoxes(post_transforms.SphinxPostTransform):
    """Puts each table into a container."""

    default_priority = 400
    formats = ('html',)

    def run(self):
        """Change the document."""
        for table in list(self.document.findall(nodes.table)):
            box = nodes.container(classes=['table-box'])
            if table.next_node(nodes.tgroup)['cols'] > MOST_COLUMNS:
                box['classes'].append('wide-table')
            table.replace_self(box)
            box += table


def setup(app):
    """Register the transform."""
    app.add_post_transform(TableBoxes)
    return {'parallel_read_safe': True}
