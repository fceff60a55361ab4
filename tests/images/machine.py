# SPDX-License-Identifier: Apache-2.0
"""A QEMU machine to try an image in, without a cloud around it."""

import os
import re
import shutil
import socket
import subprocess
import time

CACHE_DIR = os.environ.get('QUINTUPLEO_CACHE_DIR', '/var/cache/quintupleo')
IMAGES_DIR = os.path.join(CACHE_DIR, 'images')
OVMF = '/usr/share/OVMF/OVMF_%s_4M.fd'
# What OVMF and iPXE move the cursor and set colours with.
ESCAPES = re.compile(r'\x1b\[[0-9;=?]*[A-Za-z]')


class Machine(object):
    """One emulated machine; its serial port is what tests read.

    :param folder: empty folder for what belongs to the machine.
    :param firmware: 'bios' or 'uefi'.
    :param arguments: further arguments for QEMU.
    """

    def __init__(self, folder, firmware, arguments):
        self.serial_log = os.path.join(folder, 'serial.log')
        self._monitor = os.path.join(folder, 'monitor')
        self._read_up_to = 0
        command = ['qemu-system-x86_64', '-accel', 'tcg', '-display', 'none',
                   '-machine', 'q35' if firmware == 'uefi' else 'pc',
                   '-serial', 'file:' + self.serial_log,
                   '-monitor', 'unix:%s,server,nowait' % self._monitor]
        if firmware == 'uefi':
            variables = os.path.join(folder, 'variables.fd')
            shutil.copy(OVMF % 'VARS', variables)
            drive = 'if=pflash,format=raw,file=%s'
            command += ['-drive', drive % OVMF % 'CODE' + ',readonly=on',
                        '-drive', drive % variables]
        self.process = subprocess.Popen(command + list(arguments))

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.kill()
        self.process.wait()

    def console(self):
        """What the machine has shown on its serial port so far."""
        try:
            with open(self.serial_log, errors='replace') as log:
                return ESCAPES.sub('', log.read()).replace('\r', '')
        except FileNotFoundError:
            return ''

    def wait_for(self, text, timeout):
        """Wait until a text comes after those that were waited for before.

        :param text: a regular expression.
        :param timeout: seconds.
        :returns: the match.
        """
        give_up = time.monotonic() + timeout
        while True:
            console = self.console()
            match = re.compile(text).search(console, self._read_up_to)
            if match:
                self._read_up_to = match.end()
                return match
            if self.process.poll() is not None:
                raise AssertionError('QEMU ended while %r was awaited' % text)
            if time.monotonic() > give_up:
                raise AssertionError(
                    '%r did not come within %d seconds; the console ends '
                    'with:\n%s' % (text, timeout, console[-2000:]))
            time.sleep(0.2)

    def monitor(self, command):
        """Give QEMU's monitor one command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(self._monitor)
            self._read_prompt(connection)
            connection.sendall(command.encode() + b'\n')
            self._read_prompt(connection)

    @staticmethod
    def _read_prompt(connection):
        text = b''
        while not text.endswith(b'(qemu) '):
            text += connection.recv(4096)
