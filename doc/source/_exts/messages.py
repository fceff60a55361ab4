# SPDX-License-Identifier: Apache-2.0
"""Each message that is quoted has an address of its own.

A message is a literal block of class "message". Its anchor is made of its
first words: "#message-no-host-cloud-is-named-set". Pages link to it by the
role ref, as to a label.
"""

import re

from docutils import nodes
from sphinx import transforms

WORDS = 6


def anchor(text, taken):
    """Return the anchor of a message.

    :param text: the message, with "..." for what differs.
    :param taken: anchors that the page has.
    """
    words = re.findall(r'[a-z0-9]+', text.lower().replace("'", ''))
    name = '-'.join(['message', *words[:WORDS]])
    result, number = name, 1
    while result in taken:
        number += 1
        result = f'{name}-{number}'
    return result


class Messages(transforms.SphinxTransform):
    """Gives each message its anchor, and a link to copy."""

    default_priority = 500

    def apply(self, **_):
        """Change the document."""
        labels = self.env.domains['std'].anonlabels
        for block in list(self.document.findall(nodes.literal_block)):
            if 'message' not in block['classes']:
                continue
            name = anchor(block.astext(), self.document.ids)
            box = nodes.container(ids=[name], classes=['message'])
            self.document.ids[name] = box
            labels[name] = self.env.docname, name
            block.replace_self(box)
            box += block
            link = nodes.reference('', '¶', refid=name,
                                   classes=['headerlink'])
            box += nodes.paragraph('', '', link)


def setup(app):
    """Register the transform."""
    app.add_transform(Messages)
    return {'parallel_read_safe': True}
