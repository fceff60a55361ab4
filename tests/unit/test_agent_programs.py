# SPDX-License-Identifier: Apache-2.0

"""Which programs tools/build-agent-ramdisk finds in the agent's code."""

from importlib import util
import pathlib
import subprocess
import sys

import pytest

SCRIPT = (pathlib.Path(__file__).parents[2]
          / 'tools/images/agent/programs.py')


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    spec = util.spec_from_file_location('agent_programs', SCRIPT)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('code,programs', [
    ("utils.execute('sgdisk', '-i', '1', device)", {'sgdisk'}),
    ("execute('/usr/sbin/mpathconf', '--enable')", {'mpathconf'}),
    ("subprocess.check_call(['journalctl', '--version'])", {'journalctl'}),
    ("utils.try_execute('modprobe', 'multipath')", {'modprobe'}),
    ("execute('chroot %s /bin/sh' % path, shell=True)", {'chroot'}),
    ("execute('ipmitool lan print {}'.format(1), shell=True)",
     {'ipmitool'}),
    ("cmd = ['env', 'LC_ALL=C', 'qemu-img', 'info', path]", {'qemu-img'}),
    ("cmd = 'ipmitool lan6 print {}'.format(1)", {'ipmitool'}),
    ("args = ('shred', '--force')", {'shred'}),
    ("commands = {'logs': ['dmesg'], 'disks': ['lsblk', '--all']}",
     {'dmesg', 'lsblk'}),
    ("args = ['--pairs', '--bytes']", set()),
    ("args = ['bs=%s' % size, 'oflag=direct']", set()),
    ("command = node.get('command')", set()),
    ("utils.execute(*cmd)", set()),
])
def test_programs_of_code(script, tmp_path, code, programs):
    (tmp_path / 'hardware.py').write_text(f'def run():\n    {code}\n')
    assert script.programs(tmp_path) == programs


def test_tests_of_the_agent_are_not_read(script, tmp_path):
    (tmp_path / 'tests').mkdir()
    (tmp_path / 'tests' / 'test_utils.py').write_text("execute('true')\n")
    assert script.programs(tmp_path) == set()


def test_only_what_is_missing_is_printed(tmp_path):
    (tmp_path / 'utils.py').write_text(
        "execute('sh', '-c', 'true')\nexecute('no-such-program')\n")
    assert subprocess.check_output(
        [sys.executable, SCRIPT, tmp_path], text=True) == 'no-such-program\n'
