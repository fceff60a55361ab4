# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin, run as DevStack runs it."""

import os
import pathlib
import shlex
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
PHASES = FOLDER / 'phases.sh'


class Plugin:
    """The plugin with the settings of one DevStack.

    :ivar environment: variables of the processes' environment.
    :ivar settings: what DevStack and local.conf set, as a dict.
    """

    def __init__(self, folder, **settings):
        """Describe a DevStack.

        :param folder: folder for what DevStack has in its own ones.
        :param settings: what differs from the stand-in's, or comes with it.
        """
        self.folder = folder
        self.environment = {
            'OS_CLIENT_CONFIG_FILE': str(folder / 'clouds.yaml')}
        self.settings = {
            'DATA_DIR': folder / 'data', 'DEST': folder / 'dest',
            'STANDIN_STATE': folder / 'run', 'PYTHON': sys.executable,
            'NOVA_CONF_DIR': folder, 'NOVA_CONF': folder / 'nova.conf',
            'IRONIC_CONF_FILE': folder / 'ironic.conf',
            'OPENSTACKCLIENT_CONF_DIR': folder,
            'HOST_IP': '127.0.0.1', 'IRONIC_OS_CLOUD': 'devstack-admin',
            'REGION_NAME': 'RegionOne', 'SERVICE_PASSWORD': 'secret',
            'DEVSTACK_PLUGINS': ',ironic,quintupleo-power',
            'ENABLED_SERVICES': 'key,n-api,n-cpu,ir-api,ir-cond',
            **settings}

    def run(self, *phases, check=True):
        """Run phases, such as 'stack install'.

        :returns: the finished process.
        :raises: AssertionError if it failed and that is not expected.
        """
        localrc = self.folder / 'localrc'
        localrc.write_text(''.join(
            f'{name}={shlex.quote(str(value))}\n'
            for name, value in self.settings.items()))
        return self._bash([PHASES, localrc, *phases], check)

    def after_settings(self, code, check=True):
        """Run code with the settings and functions of the plugin.

        :returns: what it printed.
        """
        script = self.folder / 'code.sh'
        script.write_text(code)
        self.settings['PLUGIN_CODE'] = script
        return self.run('code', check=check).stdout

    def variables(self, *names):
        """Tell what variables are after the settings, as a dict."""
        printed = self.after_settings(''.join(
            f'echo "{name}=${{{name}:-}}"\n' for name in names))
        return dict(line.split('=', 1) for line in printed.splitlines())

    def _bash(self, command, check):
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, **self.environment,
                 'PATH': f'{pathlib.Path(sys.executable).parent}:'
                         + os.environ['PATH']})
        assert not check or not done.returncode, done.stdout + done.stderr
        return done
