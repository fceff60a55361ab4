# SPDX-License-Identifier: Apache-2.0
"""An environment is made, completed, scaled and deleted."""

import contextlib
import io
import itertools
import textwrap
import time
import unittest
from unittest import mock

from openstack import exceptions
import pytest

from quintupleo_power.environments import definition
from quintupleo_power.environments import environment
from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import progress
from quintupleo_power.environments import retry
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import connection as host_connection
from tests.unit.environments import fake_connection

FILE = '''
networks:
  provision:
    subnets: [{cidr: 192.0.2.0/24, gateway: 192.0.2.254}]
  tenant:
    port_security: true
    subnets: [{cidr: 198.51.100.0/24}, {cidr: '2001:db8::/64'}]
  public: {existing: public}
routers:
  edge: {networks: [provision, tenant], external_network: public}
roles:
  control:
    kind: server
    image: debian
    flavor: small
    nics: [{network: tenant, floating_ip: public}]
  compute:
    count: 2
    flavor: {vcpus: 2, ram: 2048, disk: 20}
    server_group: anti-affinity
    nics:
    - network: provision
      trunk: [{network: tenant, segmentation_id: 5}]
    - {network: tenant, fixed_ip: release}
    disks: [{size: 3}]
virtual_ips:
  api: {network: tenant, roles: [control], floating_ip: public}
ports:
  undercloud: {network: provision, address: 192.0.2.9}
'''

def parse(text=FILE):
    return definition.parse(textwrap.dedent(text), 'env.yaml')


def fake_cloud(**options):
    cloud = fake_connection.FakeConnection(**options)
    cloud.add('network', fake_connection.OTHER_PROJECT, name='public')
    for name, vcpus, ram, disk in (('small', 1, 1024, 10),
                                   ('large', 8, 16384, 80),
                                   ('medium', 2, 4096, 40)):
        cloud.add('flavor', name=name, vcpus=vcpus, ram=ram, disk=disk)
    for name, properties in (
            ('debian', {}), ('quintupleo-empty-bios', {}),
            ('quintupleo-empty-uefi', {'hw_firmware_type': 'uefi'})):
        cloud.add('image', name=name, properties=properties)
    return cloud


class EnvironmentTestCase(unittest.TestCase):

    def setUp(self):
        self.cloud = fake_cloud()
        self.before = set(self.cloud.things)
        for module, name, value in (
                (retry, 'INTERVAL', 0),
                (retry, '_BACKOFF', lambda retry_state: 0),
                (host_connection, 'of_sdk',
                 lambda connection: connection.services)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def environments(self, **options):
        self.shown = io.StringIO()
        return environment.Environments(
            self.cloud, progress.Progress(self.shown), **options)

    def create(self, text=FILE, name='env', **options):
        return self.environments().create(parse(text), name, **options)

    def kill_deletion_anywhere(self):
        """Check that a deletion that is killed can be repeated."""
        self.create()
        made = self.cloud.changes
        self.environments().delete('env')
        for number in range(1, self.cloud.changes - made + 1):
            for before in (True, False):
                with self.subTest(number=number, before=before):
                    self.setUp()
                    self.create()
                    self.cloud.faults = {self.cloud.changes + number: (
                        before, fake_connection.Killed())}
                    with contextlib.suppress(fake_connection.Killed):
                        self.environments().delete('env')
                    self.cloud.deaf = False
                    self.environments().delete('env')
                    self.assertEqual([], self.added())

    def added(self, kind=None):
        return [thing for thing_id, thing in self.cloud.things.items()
                if thing_id not in self.before
                and kind in (None, thing.kind)]

    def assert_failure(self, *parts):
        return _Failure(self, parts)

    def unseen(self, what, readings):
        """Let the first readings of a list of Neutron's find nothing."""
        read = getattr(self.cloud.network, what)
        left = [[]] * readings
        return mock.patch.object(
            self.cloud.network, what, autospec=True,
            side_effect=lambda project_id: (
                left.pop() if left else read(project_id)))

    def server(self, name):
        return next(server for server in self.cloud.all('server')
                    if server.name == name)

    def port(self, name):
        return next(port for port in self.cloud.all('port')
                    if port.name == name)


class _Failure:
    def __init__(self, test, parts):
        self._test, self._parts = test, parts

    def __enter__(self):
        return self

    def __exit__(self, kind, exc, trace):
        self._test.assertIsInstance(exc, errors.EnvironmentsError)
        for part in self._parts:
            self._test.assertIn(part, str(exc))
        return True


class CreateTestCase(EnvironmentTestCase):

    def test_all_of_it(self):
        made = self.create()
        self.assertEqual(environment.COMPLETE, made.status)
        self.assertEqual(
            {'env-control-0': 'ACTIVE', 'env-compute-0': 'SHUTOFF',
             'env-compute-1': 'SHUTOFF'},
            {server.name: server.status
             for server in self.cloud.all('server')})
        self.assertEqual(
            set(plan.items(parse())),
            {each.key for each in made.resources})

    def test_all_are_requested_before_one_is_waited_for(self):
        with (mock.patch.object(task_graph, 'THREADS', 1),
              mock.patch.object(
                  self.cloud.compute, 'get_server', autospec=True,
                  side_effect=self.cloud.compute.get_server) as get_server,
              mock.patch.object(
                  self.cloud.compute, 'create_server', autospec=True,
                  side_effect=self.cloud.compute.create_server) as create):
            calls = mock.Mock()
            calls.attach_mock(create, 'create')
            calls.attach_mock(get_server, 'get')
            self.create()
        names = [call[0] for call in calls.mock_calls]
        self.assertEqual(['create'] * 3, names[:3])
        self.assertNotIn('create', names[3:])

    def test_ownership(self):
        self.create()
        for thing in self.added():
            if thing.kind == 'record' or thing.device_owner:
                continue
            with self.subTest(thing.kind):
                self.assertEqual('env', (
                    ownership.parse(thing.description)
                    or ownership.parse(thing.metadata)
                    or ownership.parse(thing.name))[0])
                if thing.kind == 'server':
                    self.assertIn('quintupleo=env', thing.tags)

    def test_server_group_of_an_earlier_release(self):
        self.create()
        group, = self.cloud.all('group')
        self.assertEqual('quintupleo environment env: group.compute',
                         group.name)
        group.name = 'quintupleo:env:group.compute'
        self.create()
        self.assertEqual([group], self.cloud.all('group'))

    def test_flavor_that_suffices_with_the_least(self):
        self.create()
        self.assertEqual(
            'medium', self.cloud.things[
                self.server('env-compute-0').flavor_id].name)

    def test_mac_addresses(self):
        self.create()
        parent = self.port('env-compute-0-0')
        self.assertEqual('52:54:00', parent.mac_address[:8])
        self.assertEqual(parent.mac_address,
                         self.port('env-compute-0-0-5').mac_address)

    def test_mac_address_that_is_taken(self):
        with mock.patch('secrets.randbelow', autospec=True, side_effect=[
                1, 1, 1, 1, 1, 1, 2, 2, 2]):
            self.create('networks: {one: {}}\nroles: {a: {count: 2, flavor: '
                        'small, nics: [{network: one}]}}')
        self.assertEqual(
            {'52:54:00:01:01:01', '52:54:00:02:02:02'},
            {port.mac_address for port in self.added('port')})

    def test_addresses_of_a_virtual_ip_are_allowed(self):
        self.create()
        address, = self.port('env-api').fixed_ips
        self.assertEqual([{'ip_address': address['ip_address']}],
                         self.port('env-control-0-0').allowed_address_pairs)
        # The network has no port security.
        self.assertIsNone(self.port('env-compute-0-0').allowed_address_pairs)

    def test_address_and_dhcp_options_of_a_nic(self):
        self.create('''
            networks: {one: {subnets: [{cidr: 192.0.2.0/24}]}}
            roles:
              a:
                count: 2
                flavor: small
                nics:
                - network: one
                  address: 192.0.2.250
                  dhcp_options: {ntp-server: 192.0.2.1}
            ''')
        self.assertEqual(
            [[{'ip_address': '192.0.2.250'}], [{'ip_address': '192.0.2.251'}]],
            [self.port(f'env-a-{number}-0').fixed_ips for number in (0, 1)])
        self.assertEqual(
            [{'opt_name': 'ntp-server', 'opt_value': '192.0.2.1'}],
            self.port('env-a-0-0').extra_dhcp_opts)

    def test_addresses_are_released(self):
        self.create()
        self.assertEqual([], self.port('env-compute-0-1').fixed_ips)
        self.assertTrue(self.port('env-compute-0-0').fixed_ips)

    def test_drives(self):
        self.create('''
            roles:
              a: {flavor: small, disks: [{size: 3}]}
              b: {flavor: small, root_volume: {size: 30}, disks: [{size: 4}]}
            ''')
        image = self.cloud.find('image', 'quintupleo-empty-bios', True).id
        local, volume = self.server('env-a-0').block_device_mapping
        self.assertEqual((0, image, 'local', -1), (
            local['boot_index'], local['uuid'], local['destination_type'],
            volume['boot_index']))
        self.assertEqual('env-a-0-1',
                         self.cloud.things[volume['uuid']].name)
        root, other = self.server('env-b-0').block_device_mapping
        self.assertEqual((0, -1), (root['boot_index'], other['boot_index']))
        self.assertEqual(image, self.cloud.things[root['uuid']].image_id)
        self.assertIsNone(self.server('env-b-0').image_id)

    def test_again_changes_nothing(self):
        self.create()
        changes = self.cloud.changes
        self.create()
        self.assertEqual(changes, self.cloud.changes)

    def test_again_leaves_servers_in_use_alone(self):
        self.create()
        for server in self.cloud.all('server'):
            server.status = 'RESCUE'
        self.create()
        self.assertEqual({'RESCUE'}, {server.status for server
                                      in self.cloud.all('server')})

    def test_without_waiting(self):
        made = self.create(wait=False)
        self.assertEqual(environment.INCOMPLETE, made.status)
        self.assertEqual(environment.COMPLETE, self.create().status)

    def test_what_is_lost_is_made_again(self):
        self.create()
        self.cloud.compute.delete_server(self.server('env-compute-1').id, True)
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assertEqual('SHUTOFF', self.server('env-compute-1').status)

    def test_volume_that_cinder_could_not_make(self):
        with mock.patch.object(
                self.cloud.block_storage, 'get_volume', autospec=True,
                return_value=fake_connection.Thing(
                    id='1', name='env-compute-0-1', status='error')), \
                self.assert_failure('Volume env-compute-0-1 (1) is in state '
                                    'error'):
            self.create()
        self.cloud.all('volume')[0].status = 'error'
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assertIn('To be removed, as it cannot be used: volume.compute.',
                      self.shown.getvalue())

    def test_what_a_server_has_lost_it_gets_again(self):
        self.create()
        server = self.server('env-compute-0')
        del self.cloud.things[self.port('env-compute-0-1').id]
        self.port('env-compute-0-0').device_id = None
        volume = next(each for each in self.cloud.all('volume')
                      if each.name == 'env-compute-0-1')
        volume.attachments, volume.status = None, 'available'
        self.assertEqual(environment.INCOMPLETE,
                         self.environments().get('env').status)
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assertEqual(
            {'env-compute-0-0', 'env-compute-0-1'},
            {port.name for port in self.cloud.all(
                'port', device_id=server.id)})
        self.assertEqual([], self.port('env-compute-0-1').fixed_ips)
        self.assertEqual([{'server_id': server.id}], volume.attachments)

    def test_lost_volumes_come_back_in_the_order_of_devices(self):
        text = FILE.replace('[{size: 3}]', '[{size: 3}, {size: 4}]')
        self.create(text)
        server = self.server('env-compute-0')
        first, second = (
            next(each for each in self.cloud.all('volume')
                 if each.name == name)
            for name in ('env-compute-0-1', 'env-compute-0-2'))
        post, came = self.cloud.compute.post, []

        def post_slowly(url, json):
            volume_id = json['volumeAttachment']['volumeId']
            # Long enough for a task that does not wait for the first one.
            time.sleep(0.2 if volume_id == first.id else 0)
            came.append(volume_id)
            return post(url, json=json)

        for volume in first, second:
            volume.attachments, volume.status = None, 'available'
        with mock.patch.object(self.cloud.compute, 'post', post_slowly):
            self.create(text)
        self.assertEqual([first.id, second.id], came)
        self.assertEqual([{'server_id': server.id}], second.attachments)

    def test_port_that_is_lost_before_its_server_is_completed(self):
        self.create(wait=False)
        del self.cloud.things[self.port('env-compute-0-1').id]
        create_port = self.cloud.network.create_port

        def create_slowly(**attributes):
            # Long enough for a task that does not wait for the port.
            time.sleep(0.2)
            return create_port(**attributes)

        with mock.patch.object(self.cloud.network, 'create_port',
                               create_slowly):
            self.create()
        self.assertEqual([], self.port('env-compute-0-1').fixed_ips)
        self.assertEqual(environment.COMPLETE, self.create().status)

    def test_what_a_killed_run_asked_for_is_made_meanwhile(self):
        self.create()
        servers = len(self.cloud.all('server'))
        with self.unseen('trunks', readings=2):
            made = self.create()
        self.assertEqual(environment.COMPLETE, made.status)
        self.assertEqual(2, len(self.cloud.all('trunk')))
        self.assertEqual(servers, len(self.cloud.all('server')))

    def test_nova_cannot_build_a_server(self):
        self.cloud.build_errors = 1
        with self.assert_failure('Nova did not build server env-',
                                 'No valid host was found.'):
            self.create()
        self.assertEqual(environment.COMPLETE, self.create().status)
        self.assertEqual(3, len(self.cloud.all('server')))

    def test_another_definition(self):
        self.create()
        with self.assert_failure('another definition', 'delete it first'):
            self.create(FILE.replace('198.51.100.0/24', '203.0.113.0/24'))
        with self.assert_failure(
                'environment scale env <role> <count>'):
            self.create(FILE.replace('count: 2', 'count: 3'))

    def test_same_definition_in_another_spelling(self):
        self.create()
        other = FILE.replace('2001:db8::/64', '2001:0DB8::0/64')
        self.assertNotEqual(FILE, other)
        self.assertEqual(environment.COMPLETE, self.create(other).status)

    def test_two_environments(self):
        self.create(name='one')
        self.create(name='one.more')
        self.environments().delete('one')
        self.assertEqual({'one.more'}, {
            each.name for each in self.environments().all()})
        self.assertEqual(environment.COMPLETE,
                         self.environments().get('one.more').status)

    def test_name_of_another_project(self):
        self.cloud.add('network', fake_connection.OTHER_PROJECT,
                       name='env-provision', description=ownership.description(
                           'env', 'network.provision'))
        self.create()
        self.environments().delete('env')
        self.assertEqual(
            1, len(self.cloud.all(
                'network', project_id=fake_connection.OTHER_PROJECT,
                name='env-provision')))

    def test_a_moment_of_trouble(self):
        for code in (429, 500, 503):
            for before in (True, False):
                with self.subTest(code=code, before=before):
                    self.setUp()
                    # 429 says that nothing was done.
                    self.cloud.faults = {
                        number: (before or code == 429,
                                 exceptions.HttpException(
                                     'busy', http_status=code))
                        for number in range(2, 200, 5)}
                    made = self.create()
                    self.assertEqual(environment.COMPLETE, made.status)
                    self.assertEqual(len(made.resources), len(
                        {each.key for each in made.resources}))

    def test_refusal(self):
        self.cloud.faults = {4: (True, exceptions.ForbiddenException(
            'Policy does not allow it', http_status=403))}
        with self.assert_failure('Policy does not allow it'):
            self.create()

    def test_killed_anywhere(self):
        # Every fifth takes each request and all four ways in turn.
        self._kill_each(list(self._deaths())[::5])

    @pytest.mark.full
    def test_killed_everywhere(self):
        self._kill_each(self._deaths())

    def _deaths(self):
        total = self._changes()
        self.assertGreater(total, 30)
        return itertools.product(range(1, total + 1), (True, False),
                                 ('create', 'delete'))

    def _kill_each(self, deaths):
        for number, before, then in deaths:
            with self.subTest(number=number, before=before, then=then):
                self.setUp()
                self._kill(number, before)
                if then == 'create':
                    made = self.create()
                    self.assertEqual(environment.COMPLETE, made.status)
                    self.assertEqual(len(made.resources), len(
                        {each.key for each in made.resources}))
                self.environments().delete('env')
                self.assertEqual([], self.added())

    def _changes(self):
        self.create()
        return self.cloud.changes

    def _kill(self, number, before):
        self.cloud.faults = {number: (before, fake_connection.Killed())}
        with contextlib.suppress(fake_connection.Killed):
            self.create()
        self.cloud.deaf = False
        self.cloud.faults = {}

    def test_delete_killed_anywhere(self):
        self.kill_deletion_anywhere()


class ForecastTestCase(EnvironmentTestCase):

    def test_costs(self):
        names, costs = self.environments().preview(parse(), 'env')
        costs = {each.what: each.needed for each in costs}
        self.assertEqual(
            {'networks': 2, 'subnets': 3, 'routers': 1, 'ports': 12,
             'floating IPs': 2, 'servers': 3, 'vcpus': 5,
             'ram (MiB)': 9216, 'server groups': 1, 'trunks': 2,
             'volumes': 2, 'volume storage (GiB)': 6}, costs)
        self.assertIn('env-compute-1', names['servers'])
        self.assertEqual([], self.added())

    def test_quota_does_not_suffice(self):
        for name, limit, what in (
                ('port', 12, 'ports does not suffice: 12 more are needed, '
                             'and 1 of 12'),
                ('cores', 4, 'vcpus does not suffice'),
                ('gigabytes', 5, 'volume storage (GiB)')):
            with self.subTest(name):
                self.cloud.quota = {name: limit}
                with self.assert_failure(what, 'Nothing was made'):
                    self.create()
                self.assertEqual([], self.added())

    def test_quota_that_is_not_told(self):
        with mock.patch.object(
                self.cloud.compute, 'get_limits', autospec=True,
                side_effect=exceptions.ForbiddenException(
                    'no', http_status=403)):
            _, costs = self.environments().preview(parse(), 'env')
        self.assertEqual({None}, {each.used for each in costs
                                  if each.what == 'servers'})

    def test_of_what_is_there_already(self):
        self.create()
        self.assertEqual([], self.environments().preview(
            parse(), 'env')[1])


class ResolverTestCase(EnvironmentTestCase):

    def test_all_that_the_cloud_lacks_is_told(self):
        with self.assert_failure(
                'network "one": the host cloud has no network "absent"',
                'role "a": the host cloud has no flavor "huge"',
                'role "a": the host cloud has no keypair "mine"',
                'availability zone "closed" does not exist; there are nova',
                'role "b": no flavor has 64 vcpus, 1 MiB of ram',
                'with "root_volume" it needs no disk',
                'no image "quintupleo-empty-uefi-lxc"',
                'openstack quintupleo image create --iso <file> '
                '--hypervisor-type lxc',
                'role "c": more than one network is named "twice"',
                'no volume type "fast"', 'no security group "web"'):
            self.cloud.add('network', name='twice')
            self.cloud.add('network', name='twice')
            self.create('''
                networks: {one: {existing: absent}, two: {}}
                roles:
                  a: {kind: server, image: debian, flavor: huge,
                      key_name: mine, availability_zone: closed}
                  b: {flavor: {vcpus: 64, ram: 1}, boot_mode: uefi,
                      hypervisor_type: lxc}
                  c:
                    flavor: small
                    root_volume: {size: 3, type: fast}
                    nics:
                    - {network: two, floating_ip: twice,
                       port_security: true, security_groups: [web]}
                ''')

    def test_image_of_another_hypervisor(self):
        with self.assert_failure(
                'image "debian" has img_hv_type=None', 'openstack image set '
                '--property img_hv_type=lxc debian'):
            self.create('roles: {a: {kind: server, image: debian, flavor: '
                        'small, hypervisor_type: lxc}}')

    def test_boot_mode_of_another_architecture(self):
        self.cloud.find('image', 'quintupleo-empty-uefi', True).properties = {
            'hw_architecture': 'aarch64'}
        self.create('roles: {node: {flavor: small, boot_mode: uefi}}')
        self.assertEqual(1, len(self.added('server')))

    def test_image_of_another_boot_mode(self):
        with self.assert_failure('boot by uefi', 'and not by bios'):
            self.create('roles: {a: {image: quintupleo-empty-uefi, flavor: '
                        'small}}')

    def test_image_that_is_too_large(self):
        self.cloud.add('image', name='large', min_disk=50, min_ram=2048)
        with self.assert_failure('needs a disk of 50 GiB, and flavor "small" '
                                 'has 10 GiB', 'needs 2048 MiB of memory'):
            self.create('roles: {a: {kind: server, image: large, flavor: '
                        'small}}')

    def test_network_without_subnets(self):
        text = ('networks: {one: {}}\n'
                'roles: {a: {flavor: small, nics: [{network: one}]}}')
        self.create(text)
        self.assertEqual([], self.port('env-a-0-0').fixed_ips)
        self.cloud.extensions = []
        with self.assert_failure('network "one" has no subnets', 'add a '
                                 'subnet; "fixed_ip: release"'):
            self.create(text, 'other')

    def test_no_block_storage(self):
        self.cloud = fake_cloud(volumes=False, trunks=False)
        with self.assert_failure('has no block storage service'):
            self.create()

    def test_cloud_without_volumes_and_trunks(self):
        self.cloud = fake_cloud(volumes=False, trunks=False)
        made = self.create('roles: {a: {flavor: small}}')
        self.assertEqual(environment.COMPLETE, made.status)
        self.environments().delete('env')


class ScaleTestCase(EnvironmentTestCase):

    def test_more(self):
        self.create()
        made = self.environments().scale('env', 'compute', 4)
        self.assertEqual(environment.COMPLETE, made.status)
        self.assertEqual(5, len(self.cloud.all('server')))

    def test_fewer(self):
        self.create()
        kept = self.server('env-compute-0').id
        made = self.environments().scale('env', 'compute', 1)
        self.assertEqual(environment.COMPLETE, made.status)
        self.assertEqual(kept, self.server('env-compute-0').id)
        self.assertEqual(2, len(self.cloud.all('server')))
        self.assertEqual([], [thing for thing in self.added()
                              if '-compute-1' in (thing.name or '')])

    def test_none_and_back(self):
        self.create()
        self.environments().scale('env', 'compute', 0)
        self.assertEqual([], self.cloud.all('group'))
        self.assertEqual(environment.COMPLETE, self.environments().scale(
            'env', 'compute', 2).status)

    def test_the_file_of_the_new_number_goes_on(self):
        self.create()
        self.environments().scale('env', 'compute', 3)
        self.assertEqual(environment.COMPLETE, self.create(
            FILE.replace('count: 2', 'count: 3')).status)

    def test_quota_does_not_suffice(self):
        self.create()
        self.cloud.quota = {'instances': 1}
        with self.assert_failure('servers does not suffice'):
            self.environments().scale('env', 'compute', 4)
        self.assertEqual(environment.COMPLETE,
                         self.environments().get('env').status)

    def test_unknown(self):
        self.create(name='mine')
        with self.assert_failure(
                'Environment "env" does not exist in this project; it has '
                'mine'):
            self.environments().scale('env', 'compute', 4)


class DeleteTestCase(EnvironmentTestCase):

    def test_nothing_stays(self):
        self.create()
        self.assertTrue(self.environments().delete('env'))
        self.assertEqual([], self.added())
        self.assertEqual([], self.environments().all())

    def test_grows_again(self):
        self.create('roles: {}')
        with mock.patch.object(
                self.cloud.network, 'networks', autospec=True,
                side_effect=lambda project_id: [self.cloud.add(
                    'network', name='env-one',
                    description=ownership.description(
                        'env', 'network.one'))]), \
                self.assert_failure('grows again while it is removed'):
            self.environments().delete('env')
        self.assertEqual(1, len(self.cloud.all('record')))

    def test_what_a_killed_run_asked_for_is_made_meanwhile(self):
        self.create()
        with self.unseen('trunks', readings=1):
            self.environments(removal_timeout=0).delete('env')
        self.assertEqual([], self.added())

    def test_unknown_one_is_no_mistake(self):
        self.assertFalse(self.environments().delete('env'))

    def test_what_was_there_stays(self):
        self.create()
        mine = self.cloud.add('port', name='mine', network_id='x')
        self.environments().delete('env')
        self.assertEqual([mine], self.added())

    def test_what_cannot_be_removed_is_told(self):
        self.create()
        volume = self.cloud.all('volume')[0]
        self.cloud.refused = {volume.id: exceptions.HttpException(
            'backend is away', http_status=403)}
        with self.assert_failure(f'Not removed: volume {volume.name} '
                                 f'({volume.id}): backend is away'):
            self.environments().delete('env')
        self.assertEqual({'volume', 'record'},
                         {thing.kind for thing in self.added()})
        self.cloud.refused = {}
        self.environments().delete('env')
        self.assertEqual([], self.added())

    def test_somebody_elses_port_keeps_the_network(self):
        self.create()
        network = next(each for each in self.cloud.all('network')
                       if each.name == 'env-tenant')
        self.cloud.add('port', name='mine', network_id=network.id)
        with self.assert_failure('Not removed: network env-tenant',
                                 'has ports'):
            self.environments(removal_timeout=0).delete('env')

    def test_leftovers_without_a_record(self):
        self.create()
        record, = self.cloud.all('record')
        del self.cloud.things[record.id]
        found, = self.environments().all()
        self.assertEqual(('env', environment.LEFTOVER), (
            found.name, found.status))
        self.assertEqual(2026, found.created_at.year)
        self.assertEqual(environment.LEFTOVER,
                         self.environments().get('env').status)
        self.assertTrue(self.environments().delete('env'))
        self.assertEqual([], self.added())

    def test_record_that_cannot_be_read(self):
        self.create()
        record, = self.cloud.all('record')
        record.body['quintupleo_definition'] = 'x'
        found, = self.environments().all()
        self.assertEqual(environment.INCOMPLETE, found.status)
        self.assertIn('cannot be read', self.shown.getvalue())
        self.assertTrue(self.environments().delete('env'))
        self.assertEqual([], self.added())
