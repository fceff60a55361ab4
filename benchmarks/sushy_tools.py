# SPDX-License-Identifier: Apache-2.0
"""The peer: sushy-tools' Redfish emulator in front of the same cloud.

Its newest release on PyPI, used by Ironic's own redfish hardware type.
"""

import re

from onebox import ironic
from onebox import lab
from onebox import processes
from onebox import releases
from onebox import system

# The newest release, unless another is asked for.
REQUIREMENT = 'sushy-tools'

# Booting from PXE by a Nova rescue is on master and in no release yet; those
# that do not know it ignore this.
RESCUE_SETTING = 'SUSHY_EMULATOR_OS_RESCUE_PXE_BOOT'
SETTINGS = f"""
{RESCUE_SETTING} = True
SUSHY_EMULATOR_OS_RESCUE_PXE_IMAGE_BIOS = 'quintupleo-rescue-bios'
SUSHY_EMULATOR_OS_RESCUE_PXE_IMAGE_UEFI = 'quintupleo-rescue-uefi'
"""

# Of an Ironic that has its hardware type, and none at all, beside ours.
IRONIC_LINES = (
    '[DEFAULT]',
    'enabled_hardware_types = quintupleo,redfish,fake-hardware',
    'enabled_power_interfaces = quintupleo,redfish,fake',
    'enabled_management_interfaces = quintupleo,redfish,fake')


def add_argument(parser):
    """Add the option of what to install to those of a benchmark."""
    parser.add_argument('--peer', default=REQUIREMENT, metavar='REQUIREMENT',
                        help='what to install as sushy-tools, such as a '
                             'folder of its source')


def ironic_venv(cache, logs):
    """Make a Python environment with Ironic, its redfish client and us.

    :param cache: folder for it.
    :param logs: folder for logs.
    :returns: its path.
    """
    path = cache / 'benchmarks' / 'ironic'
    log = logs / 'ironic-python.log'
    system.make_venv(path, [*releases.NEWEST.requirements, 'sushy'], log,
                     releases.NEWEST.constraints, ironic.PYTHON)
    ironic.install_checkout(path, log)
    return path


class Emulator:
    """The emulator, as the tenant of the cloud.

    :ivar address: its URL.
    :ivar version: its release.
    :ivar rescues: whether it boots from PXE by a Nova rescue.
    """

    def __init__(self, requirement, cache, folder, environment):
        """Start it.

        :param requirement: what to install, such as a folder of its source.
        :param cache: folder for its Python environment.
        :param folder: folder for its state and log.
        :param environment: the environment that names the cloud.
        """
        name = re.sub(r'\W+', '-', requirement)
        venv = cache / 'benchmarks' / f'{name}-emulator'
        system.make_venv(venv, [requirement, 'openstacksdk'],
                         folder / 'sushy-tools.log')
        port = processes.free_port()
        self.address = f'http://127.0.0.1:{port}'
        settings = folder / 'sushy-emulator.conf'
        settings.write_text(f"SUSHY_EMULATOR_OS_CLOUD = '{lab.CLOUD}'\n"
                            f"SUSHY_EMULATOR_STATE_DIR = '{folder}'\n"
                            + SETTINGS)
        self._daemon = processes.Daemon('sushy-emulator', folder, folder)
        self._daemon.start(
            [venv / 'bin' / 'sushy-emulator', '--config', settings,
             '--interface', '127.0.0.1', '--port', str(port)], environment)
        processes.wait_for(lambda: processes.listening(port), 60,
                           'the Redfish emulator',
                           stop=self._daemon.require_alive)
        self.version = system.release(venv, 'sushy-tools')
        driver, = venv.glob('lib/python*/site-packages/sushy_tools/emulator/'
                            'resources/systems/novadriver.py')
        self.rescues = RESCUE_SETTING in driver.read_text()

    def driver_info(self, server_id):
        """The settings of a node for a server."""
        return {'redfish_address': self.address,
                'redfish_system_id': f'/redfish/v1/Systems/{server_id}',
                'redfish_username': 'benchmark',
                'redfish_password': 'benchmark'}

    def close(self):
        """Stop it."""
        self._daemon.stop()
