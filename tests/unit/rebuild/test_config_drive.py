# SPDX-License-Identifier: Apache-2.0
"""What of a config drive is read, and what is refused."""

import base64
import contextlib
import gzip
from http import server
import io
import json
import threading
import tracemalloc

from ironic.common import exception
from oslo_utils import units
import pycdlib

from quintupleo_power.rebuild import config_drive
from tests.unit import base
from tests.unit import socket_cloud

KEY = 'ssh-ed25519 AAAA machine'
META_DATA = {'uuid': 'c0ffee', 'name': 'node-7', 'hostname': 'web',
             'public_keys': {'mine': KEY}, 'meta': {'role': 'web'},
             'launch_index': 0, 'availability_zone': 'nova', 'files': []}
SCRIPT = b'#!/bin/sh\necho \xff\n'


def make_iso(rock_ridge='1.09', joliet=None, **files):
    """Make what ``openstack.baremetal.configdrive.pack`` makes.

    :param files: contents by name, with a dot as two underscores.
    """
    iso = pycdlib.PyCdlib()
    iso.new(rock_ridge=rock_ridge, joliet=joliet)

    def name_of(name):
        return {'rr_name': name} if rock_ridge else {}

    for path, iso_path in (('/openstack', '/OPENSTAC'),
                           ('/openstack/latest', '/OPENSTAC/LATEST')):
        iso.add_directory(
            iso_path, **name_of(path.rpartition('/')[2]),
            **({'joliet_path': path} if joliet else {}))
    for number, (name, content) in enumerate(files.items()):
        name = name.replace('__', '.')
        iso.add_fp(io.BytesIO(content), len(content),
                   f'/OPENSTAC/LATEST/FILE{number}.;1', **name_of(name),
                   **({'joliet_path': f'/openstack/latest/{name}'}
                      if joliet else {}))
    target = io.BytesIO()
    iso.write_fp(target)
    iso.close()
    return target.getvalue()


def pack(iso):
    return base64.b64encode(gzip.compress(iso)).decode()


class ConfigDriveTestCase(base.DriverTestCase):

    def read(self, wanted, **options):
        self.node.instance_info = {'configdrive': wanted}
        self.node.save()
        with self.acquire(shared=True) as task:
            return config_drive.of_task(task, **options)

    def assert_refused(self, wanted, *parts):
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.read, wanted)
        self.assert_says(error, self.node.uuid, 'config drive', *parts)


class DictTestCase(ConfigDriveTestCase):

    def test_none_is_wanted(self):
        for nothing in (None, {}, ''):
            self.assertEqual(config_drive.ConfigDrive(), self.read(nothing))

    def test_all_that_nova_takes(self):
        found = self.read({'meta_data': META_DATA, 'user_data': 'echo',
                           'vendor_data': {}, 'network_data': {'links': []}})
        self.assertEqual(config_drive.ConfigDrive(
            user_data=b'echo', hostname='web', name='node-7',
            public_key=KEY, metadata={'role': 'web'},
            network_data={'links': []}), found)

    def test_user_data_that_is_json_itself(self):
        found = self.read({'user_data': {'packages': ['jq']}})
        self.assertEqual({'packages': ['jq']}, json.loads(found.user_data))

    def test_secrets_are_not_shown(self):
        found = self.read({'user_data': 'hunter2', 'meta_data': {
            'admin_pass': 'hunter3'}})
        self.assertEqual('hunter3', found.admin_pass)
        self.assertNotIn('hunter', repr(found))

    def test_one_key_under_two_names_is_one(self):
        for keys in ({'a': KEY, 'b': KEY}, [KEY]):
            self.assertEqual(KEY, self.read(
                {'meta_data': {'public_keys': keys}}).public_key)

    def test_what_would_be_lost_is_refused(self):
        for drive, parts in (
                ({'meta_data': {'public_keys': {'a': KEY, 'b': 'ssh-rsa B'}}},
                 ('2 SSH keys', 'user_data')),
                ({'vendor_data': {'license': 'x'}}, ('vendor_data',)),
                ({'meta_data': {'files': ['a'], 'local-hostname': 'x'}},
                 ('meta_data/files, local-hostname',)),
                ({'volume_data': {}}, ('volume_data',))):
            self.assert_refused(drive, *parts)

    def test_what_has_another_form_is_refused(self):
        for drive, part in (
                ({'meta_data': ['x']}, 'meta_data'),
                ({'network_data': 'x'}, 'network_data'),
                ({'user_data': 3}, 'user_data'),
                ({'meta_data': {'hostname': 3}}, 'meta_data/hostname'),
                ({'meta_data': {'public_keys': 'x'}}, 'public_keys'),
                ({'meta_data': {'public_keys': {'a': 3}}}, 'public_keys'),
                ({'meta_data': {'meta': {'a': 3}}}, 'meta_data/meta'),
                ({'meta_data': {'meta': {'a': 'x' * 256}}}, '255'),
                (['x'], 'neither a dict nor a string')):
            self.assert_refused(drive, part)


class IsoTestCase(ConfigDriveTestCase):

    def test_iso_as_clients_of_ironic_make_it(self):
        iso = make_iso(meta_data__json=json.dumps(META_DATA).encode(),
                       user_data=SCRIPT, vendor_data__json=b'{}',
                       vendor_data2__json=b'{"static": {}}',
                       network_data__json=b'{"links": []}')
        found = self.read(pack(iso))
        self.assertEqual(
            (SCRIPT, 'web', KEY, {'role': 'web'}, {'links': []}),
            (found.user_data, found.hostname, found.public_key,
             found.metadata, found.network_data))

    def test_iso_with_names_of_joliet(self):
        iso = make_iso(rock_ridge=None, joliet=3, user_data=SCRIPT)
        self.assertEqual(SCRIPT, self.read(pack(iso)).user_data)

    def test_iso_without_files_wants_nothing(self):
        self.assertEqual(config_drive.ConfigDrive(),
                         self.read(pack(make_iso())))

    def test_rules_are_those_of_a_dict(self):
        self.assert_refused(
            pack(make_iso(vendor_data__json=b'{"a": 1}')), 'vendor_data')
        self.assert_refused(
            pack(make_iso(meta_data__json=b'[]')), 'meta_data')

    def test_what_is_no_config_drive(self):
        self.assert_refused('not base64', 'base64')
        self.assert_refused(base64.b64encode(b'plain').decode(), 'gzip')
        self.assert_refused(pack(b'no ISO'), 'ISO', 'as a dict')
        self.assert_refused(pack(bytes(64 * 1024)), 'ISO', 'as a dict')
        whole = make_iso(user_data=SCRIPT)
        self.assert_refused(pack(whole[:len(whole) // 2]), 'ISO')
        self.assert_refused(pack(make_iso(meta_data__json=b'{')),
                            'meta_data.json', 'JSON')

    def test_drive_of_another_kind(self):
        iso = pycdlib.PyCdlib()
        iso.new(rock_ridge='1.09')
        iso.add_fp(io.BytesIO(SCRIPT), len(SCRIPT), '/USERDATA.;1',
                   rr_name='user-data')
        target = io.BytesIO()
        iso.write_fp(target)
        self.assert_refused(pack(target.getvalue()), '/openstack/latest')

    def test_bomb_is_not_unpacked(self):
        self.assert_refused(pack(bytes(64 * units.Mi)), 'more than 2097152')

    def test_many_names_of_the_same_bytes(self):
        iso = pycdlib.PyCdlib()
        iso.new(joliet=3)
        iso.add_directory('/OPENSTAC', joliet_path='/openstack')
        iso.add_directory('/OPENSTAC/LATEST', joliet_path='/openstack/latest')
        iso.add_fp(io.BytesIO(bytes(units.Mi)), units.Mi,
                   '/OPENSTAC/LATEST/FILE.;1',
                   joliet_path='/openstack/latest/user_data')
        for number in range(100):
            iso.add_hard_link(
                joliet_old_path='/openstack/latest/user_data',
                joliet_new_path=f'/openstack/latest/{number}')
        target = io.BytesIO()
        iso.write_fp(target)
        wanted = pack(target.getvalue())
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.assertEqual(units.Mi, len(self.read(wanted).user_data))
        self.assertLess(tracemalloc.get_traced_memory()[1], 20 * units.Mi)

    def test_json_without_an_end(self):
        self.assert_refused(pack(make_iso(meta_data__json=b'[' * 100000)),
                            'meta_data.json', 'JSON')

    def test_one_that_was_cut_off(self):
        cut = base64.b64encode(gzip.compress(make_iso(user_data=SCRIPT))[:99])
        self.assert_refused(cut.decode(), 'cut off')


class ElsewhereTestCase(ConfigDriveTestCase):
    """A drive that is fetched from a web server."""

    def make_host_cloud(self):
        # With it requests are sent.
        return socket_cloud.SocketHostCloud()

    def setUp(self):
        super().setUp()
        self.content = pack(make_iso(user_data=SCRIPT)).encode()
        self.sent = 0
        case = self

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self):
                if case.content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    for begin in range(0, len(case.content), units.Mi):
                        self.wfile.write(case.content[begin:begin + units.Mi])
                        case.sent += units.Mi

            def log_message(self, *_):
                """Print nothing."""

        served = server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.addCleanup(served.server_close)
        threading.Thread(target=served.serve_forever, args=(0.01,),
                         daemon=True).start()
        self.addCleanup(served.shutdown)
        self.url = (f'http://127.0.0.1:{served.server_port}/drive'
                    '?temp_url_sig=hunter2')

    def test_it_is_fetched(self):
        self.assertEqual(SCRIPT, self.read(self.url).user_data)

    def test_it_may_do_without_the_encoding(self):
        self.content = gzip.compress(make_iso(user_data=SCRIPT))
        self.assertEqual(SCRIPT, self.read(self.url).user_data)

    def test_it_is_not_fetched_where_that_is_not_the_time(self):
        self.content = None
        self.assertIsNone(self.read(self.url, fetch=False))

    def test_failure_does_not_tell_the_secret_address(self):
        self.content = None
        error = self.assertRaises(exception.InvalidParameterValue,
                                  self.read, self.url)
        self.assert_says(error, 'cannot be fetched')
        self.assertNotIn('hunter2', str(error))

    def test_no_more_is_fetched_than_is_used(self):
        self.content = bytes(200 * units.Mi)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.assert_refused(self.url, 'more than 2097152 bytes')
        self.assertLess(self.sent, 100 * units.Mi)
        self.assertLess(tracemalloc.get_traced_memory()[1], 50 * units.Mi)
