# SPDX-License-Identifier: Apache-2.0
"""Keys and secrets that services keep in files of their own."""

import base64
import os
import struct
import time

from onebox import system


def fernet(cloud, service=None):
    """Make Keystone's keys: 0 is the next key, 1 the one in use."""
    for folder in ('fernet-keys', 'credential-keys'):
        path = system.make_dir(cloud.etc / 'keystone' / folder, 0o700)
        for number in '01':
            if not (path / number).exists():
                key = base64.urlsafe_b64encode(os.urandom(32)).decode()
                system.write_file(path / number, key)


def cephx():
    """Make a key as Ceph has it: type AES, time, length and content."""
    header = struct.pack('<HIIH', 1, int(time.time()), 0, 16)
    return base64.b64encode(header + os.urandom(16)).decode()


def erlang_cookie(cloud, service):
    """Make the secret that RabbitMQ's own processes share."""
    home = system.make_dir(cloud.data / 'rabbitmq', 0o700, service.user)
    system.write_file(home / '.erlang.cookie', cloud.values['cookie'], 0o400,
                      service.user)
