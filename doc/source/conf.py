# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the documentation."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# The state table, its proofs and what is tested of Ironic are read from the
# code and the tests. The tests as a package would need Ironic.
sys.path[:0] = [str(HERE / '_exts'), str(REPOSITORY),
                str(REPOSITORY / 'benchmarks'),
                str(REPOSITORY / 'tests' / 'functional'),
                str(REPOSITORY / 'tests' / 'unit' / 'contract')]

extensions = [
    'benchmark_results',
    'cliff.sphinxext',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_config.sphinxconfiggen',
    'sphinxcontrib.svgbob',
    'command_reference',
    'contract_tables',
    'messages',
    'option_links',
    'reading_paths',
    'state_table',
    'table_boxes',
]
exclude_patterns = ['_build']
if (REPOSITORY / '.git').exists():
    extensions += ['reno.sphinxext', 'notes']
else:
    # An sdist has no history to tell which release a note belongs to.
    exclude_patterns.append('release-notes.rst')
autoprogram_cliff_app_dist_name = 'quintupleo-power'
autoprogram_cliff_application = 'openstack'
# What each command of the client has.
autoprogram_cliff_ignored = [
    '--help', '--format', '--column', '--quote', '--noindent', '--max-width',
    '--fit-width', '--print-empty', '--sort-column', '--sort-ascending',
    '--sort-descending']
config_generator_config_file = '../../tools/quintupleo-config-generator.conf'
sample_config_basename = '_static/quintupleo'
master_doc = 'index'
# A reference to a page, a label or an option that does not exist is an error.
nitpicky = True
project = 'quintupleo_power'
# Quotes and ellipses, but no dashes: help texts name options.
smartquotes_action = 'qe'
copyright = 'quintupleo_power developers'
html_static_path = ['_static']
html_css_files = ['tables.css']
html_theme = 'openstackdocs'
html_theme_options = {'sidebar_search': True}
openstackdocs_auto_name = False
# Where the source and the bugs are: each page leads there.
openstackdocs_repo_name = 'openstack/quintupleo-power'
openstackdocs_bug_project = 'quintupleo-power'
