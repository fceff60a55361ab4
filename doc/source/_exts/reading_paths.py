# SPDX-License-Identifier: Apache-2.0
"""What to read for a goal: the table of the first page, and what is next.

Each page of a path ends with a link to the one that follows it.
"""

from docutils import nodes
from sphinx import addnodes
from sphinx import transforms
from sphinx.util import docutils

# The goal of a reader, what it is called in a link, and its pages in order.
PATHS = (
    ('See it work on one machine', 'to see more of it',
     ('user/quickstart', 'user/interfaces', 'user/environments')),
    ('Test a change to Ironic', 'to test a change to Ironic',
     ('user/test-ironic', 'user/fault-injection', 'user/devstack')),
    ('Make a lab on your cloud', 'for a lab on your cloud',
     ('user/lab', 'user/environments', 'user/snapshots')),
    ('Run a CI', 'for a CI',
     ('user/ci', 'user/ci-ironic', 'user/fault-injection')),
    ('Teach a course', 'for a course',
     ('user/course', 'user/lab', 'user/snapshots')),
    ('Operate nodes that others use', 'to operate nodes that others use',
     ('install/index', 'install/owners', 'admin/index')),
    ('Add machines to an Ironic that you have', 'to add machines to an Ironic',
     ('install/index', 'user/environments', 'user/interfaces')),
    ('Install an Ironic of your own', 'for an Ironic of your own',
     ('install/standalone', 'user/environments', 'user/interfaces')),
    ('Leave OVB, sushy-tools or HotStack', 'to leave OVB and the others',
     ('user/from-ovb', 'user/nodes', 'user/interfaces')),
)
# More pages than these nobody reads before the first try.
MOST_PAGES = 3


def lines():
    """Yield the table as reStructuredText."""
    yield from ('.. list-table::', '   :header-rows: 1',
                '   :widths: 28 24 24 24', '')
    rows = [('Your goal', 'Start here', 'Then', 'Then'),
            *((goal, *(f':doc:`/{page}`' for page in pages))
              for goal, _words, pages in PATHS)]
    for row in rows:
        for number, cell in enumerate(row):
            yield f"   {'  ' if number else '* '}- {cell}"
    yield ''


def following(page):
    """Yield what is next after a page: words for the goal, and a page."""
    for _goal, words, pages in PATHS:
        if page in pages[:-1]:
            yield words, pages[pages.index(page) + 1]


class ReadingPaths(docutils.SphinxDirective):
    """Puts the table where it stands."""

    def run(self):
        """Return the table's nodes."""
        self.env.note_dependency(__file__)
        return self.parse_text_to_nodes('\n'.join(lines()))


class NextPages(transforms.SphinxTransform):
    """Ends each page of a path with what is next."""

    default_priority = 500

    def apply(self, **_):
        """Change the document."""
        links = list(following(self.env.docname))
        sections = list(self.document.findall(nodes.section))
        if not links or not sections:
            return
        box = nodes.admonition('', nodes.title('', 'Next'),
                               classes=['next-pages'])
        for words, page in links:
            link = addnodes.pending_xref(
                '', refdomain='std', reftype='doc', reftarget=f'/{page}',
                refexplicit=False, refwarn=True, refdoc=self.env.docname)
            link += nodes.inline('', page, classes=['xref', 'doc'])
            text = nodes.Text(f'{words[0].upper()}{words[1:]}: ')
            box += nodes.paragraph('', '', text, link)
        sections[0] += box


def setup(app):
    """Register the directive and the transform."""
    app.add_directive('reading-paths', ReadingPaths)
    app.add_transform(NextPages)
    return {'parallel_read_safe': True}
