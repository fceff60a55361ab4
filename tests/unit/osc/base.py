# SPDX-License-Identifier: Apache-2.0
"""What the tests of commands have in common: a cloud, and the client."""

import io
import os
import tempfile
from unittest import mock

from openstackclient import shell
from osc_lib import exceptions

from quintupleo_power.osc import environment
from tests.unit.environments import test_enrolment
from tests.unit.environments import test_environment

COMMANDS = vars(environment)


def run(command, words, **cloud):
    """Run a command as python-openstackclient does.

    :param command: its class.
    :param words: what follows its name.
    :param cloud: attributes of the client's manager.
    :returns: (exit code, what was printed, what was printed as errors).
    """
    out, err = io.StringIO(), io.StringIO()
    with mock.patch('sys.stderr', err), mock.patch('sys.stdout', out):
        client = shell.OpenStackShell()
        client.initialize_app = mock.Mock()
        client.stdout, client.stderr = out, err
        client._set_streams(None, out, err)
        client.client_manager = mock.Mock(**cloud)
        made = command(client, mock.Mock())
        parser = made.get_parser('openstack')
        try:
            code = made.run(parser.parse_args(
                [str(word) for word in words])) or 0
        except exceptions.CommandError as exc:
            code = 1
            print(exc, file=err)
        except KeyboardInterrupt:
            # As cliff does, which shows nothing.
            code = 130
        except SystemExit as exc:
            code = exc.code
    return code, out.getvalue(), err.getvalue()


class CommandTestCase(test_environment.EnvironmentTestCase):
    """Runs commands as python-openstackclient does."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = self.write('env.yaml', test_environment.FILE)
        self.ironic = test_enrolment.FakeIronic()
        self.cloud.baremetal = self.ironic

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as target:
            target.write(text)
        return path

    def run_command(self, name, *words):
        """Run a command; return its exit code."""
        code, self.out, self.err = run(COMMANDS[name], words,
                                       sdk_connection=self.cloud)
        return code

    def succeed(self, *words):
        self.assertEqual(0, self.run_command(*words), getattr(
            self, 'err', ''))

    def fail_with(self, *words, says):
        self.assertNotEqual(0, self.run_command(*words))
        self.assertIn(says, self.err)
