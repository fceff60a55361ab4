# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# The state table and its proofs are read from the code and the tests. The
# tests as a package would need Ironic.
sys.path[:0] = [str(HERE / '_exts'), str(REPOSITORY),
                str(REPOSITORY / 'benchmarks'),
                str(REPOSITORY / 'tests' / 'functional')]

extensions = [
    'benchmark_results',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_config.sphinxconfiggen',
    'sphinxcontrib.svgbob',
    'state_table',
]
exclude_patterns = ['_build']
if (REPOSITORY / '.git').exists():
    extensions.append('reno.sphinxext')
else:
    # An sdist has no history to tell which release a note belongs to.
    exclude_patterns.append('release-notes.rst')
config_generator_config_file = '../../tools/quintupleo-config-generator.conf'
sample_config_basename = '_static/quintupleo'
master_doc = 'index'
project = 'quintupleo_power'
copyright = 'quintupleo_power developers'
html_theme = 'openstackdocs'
openstackdocs_auto_name = False
openstackdocs_bug_tracker = ''
