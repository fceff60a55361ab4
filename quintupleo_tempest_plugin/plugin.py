# SPDX-License-Identifier: Apache-2.0
"""The entry point of Tempest."""

import pathlib

from tempest import config
from tempest.test_discover import plugins

from quintupleo_tempest_plugin import config as plugin_config


class QuintupleoTempestPlugin(plugins.TempestPlugin):
    """Tells Tempest of the tests and of their options.

    See Tempest's plugin interface; ironic-tempest-plugin, whose scenarios the
    tests are, registers its own options and client.
    """

    def load_tests(self):
        """Tell where the tests are.

        :returns: a tuple of their folder and of the one to import from.
        """
        package = pathlib.Path(__file__).resolve().parent
        return str(package / 'tests'), str(package.parent)

    def register_opts(self, conf):
        """Add our options to Tempest's.

        :param conf: its :class:`oslo_config.cfg.ConfigOpts`.
        """
        config.register_opt_group(conf, plugin_config.quintupleo_group,
                                  plugin_config.QuintupleoGroup)

    def get_opt_lists(self):
        """Tell the options for the sample of Tempest's configuration.

        :returns: a list of (name of the group, list of options) tuples.
        """
        return [(plugin_config.quintupleo_group.name,
                 plugin_config.QuintupleoGroup)]
