# SPDX-License-Identifier: Apache-2.0
"""A name such as ``[quintupleo]cloud`` leads to the option's description.

It is what the role ``oslo.config:option`` makes, without the role having to
be written each time.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx import transforms

NAME = re.compile(r'\[quintupleo\](\w+)')


class OptionLinks(transforms.SphinxTransform):
    """Makes a reference of each literal that is the name of an option."""

    default_priority = 500

    def apply(self, **_):
        """Change the document."""
        for literal in list(self.document.findall(nodes.literal)):
            name = NAME.fullmatch(literal.astext())
            if name and not isinstance(literal.parent, nodes.reference):
                reference = addnodes.pending_xref(
                    '', refdomain='oslo.config', reftype='option',
                    reftarget=f'quintupleo.{name[1]}', refexplicit=True,
                    refwarn=True, refdoc=self.env.docname)
                literal.replace_self(reference)
                reference += literal


def setup(app):
    """Register the transform."""
    app.add_transform(OptionLinks)
    return {'parallel_read_safe': True}
