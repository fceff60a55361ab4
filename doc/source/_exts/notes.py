# SPDX-License-Identifier: Apache-2.0
"""The directive ``release-notes``, for a repository without a release, too."""

from docutils import nodes
from reno import sphinxext

# What reno calls the version of a history that has no tag.
NO_VERSION = '0.0.0'


class ReleaseNotes(sphinxext.ReleaseNotesDirective):
    """Has the title of what is not released yet before the first tag."""

    def run(self):
        """Return the nodes of the notes."""
        found = super().run()
        heading = self.options.get('unreleased-version-title')
        for section in found:
            for title in section.findall(nodes.title):
                if heading and title.astext() == NO_VERSION:
                    title[:] = [nodes.Text(heading)]
        return found


def setup(app):
    """Register the directive."""
    app.add_directive('release-notes', ReleaseNotes, override=True)
    return {'parallel_read_safe': True}
