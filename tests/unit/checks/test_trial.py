# SPDX-License-Identifier: Apache-2.0
"""The trial, with an environment in memory whose server Nova has, too."""

import io
from unittest import mock

import fixtures
from openstack import exceptions
from oslo_config import cfg

from quintupleo_power.checks import clouds
from quintupleo_power.checks import trial
from quintupleo_power.environments import environment
from quintupleo_power.environments import progress
from quintupleo_power.environments import task_graph
from quintupleo_power.host_cloud import connection
from tests.unit.checks import base
from tests.unit.environments import test_environment


class TrialTestCase(base.CommandTestCase,
                    test_environment.EnvironmentTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()
        patch = fixtures.MockPatch(
            'quintupleo_power.host_cloud.server_requests.time',
            self.host.clock)
        patch.setUp()
        self.addCleanup(patch.cleanUp)
        # The stand-in for Nova is for one request at a time.
        threads = mock.patch.object(task_graph, 'THREADS', 1)
        threads.start()
        self.addCleanup(threads.stop)
        self.cloud.add('flavor', name='tiny', vcpus=1, ram=2048, disk=10)
        for image in self.host.images.values():
            self.cloud.add('image', id=image['id'], name='either', properties={
                name: value for name, value in image.items()
                if name.startswith('hw_')})
        self.before = set(self.cloud.things)
        # Nothing else proves anything.
        self.host.neutron_ports.clear()
        self.host.events.clear()
        self.mirror()
        target = mock.patch.object(
            clouds, 'of_user', autospec=True,
            side_effect=lambda settings, options: self.target())
        target.start()
        self.addCleanup(target.stop)

    def target(self):
        """The cloud: what openstacksdk sees, and what the driver sees."""
        region = self.client().cloud_config.get_one('mine')
        return clouds.Cloud(self.cloud, *connection.services(
            'The host cloud', region))

    def mirror(self):
        """Have the server and its port in the stand-in for Nova, too."""
        build = self.cloud.compute._build

        def both(attributes):
            server = build(attributes)
            self.host.add_server('stopped', id=server.id, name=server.name,
                                 image=self.image('empty')['id'])
            port, = self.cloud.all('port', device_id=server.id)
            network = self.cloud.things[port.network_id]
            self.host.add_neutron_port(port.mac_address,
                                       network.is_port_security_enabled)
            return server

        self.cloud.compute._build = both

    def run_trial(self):
        return self.run_command('--try', '--flavor', 'tiny')

    def assert_nothing_left(self):
        self.assertEqual([], self.added())

    def test_all_is_tried(self):
        self.assertEqual(0, self.run_trial(), self.err)
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assertEqual(['start', 'stop', 'start', 'rescue', 'unrescue'],
                         self.host.sent)
        self.assert_row('rescue', 'pass', 'rescued in')
        self.assert_row('port security', 'pass')
        self.assert_row('MAC addresses', 'pass')
        self.assert_row('trial machine: console', 'pass', 'novnc')
        self.assert_row('trial removal', 'pass', 'nothing is left')
        self.assert_nothing_left()

    def test_uefi_where_only_that_has_images(self):
        for purpose in ('rescue', 'empty'):
            del self.host.images[self.image(purpose)['id']]
        uefi = self.image('empty', 'uefi')['id']
        created = []
        create = self.cloud.compute.create_server
        self.cloud.compute.create_server = lambda **attributes: (
            created.append(attributes['image_id']),
            create(**attributes))[1]
        with mock.patch.object(self, 'image', autospec=True,
                               return_value={'id': None}):
            self.run_trial()
        self.assertEqual([uefi], created)
        self.assert_nothing_left()

    def test_no_boot_mode_with_both_images(self):
        del self.host.images[self.image('rescue', 'uefi')['id']]
        del self.host.images[self.image('empty')['id']]
        self.assertEqual(1, self.run_trial())
        self.assert_row('trial machine', 'fail', 'no boot mode has both',
                        'image create')
        self.assert_nothing_left()

    def test_rescue_that_is_forbidden(self):
        self.host.fail('POST', '/action', (403, 'Policy says no'), skip=4)
        self.assertEqual(1, self.run_trial())
        self.assert_row('rescue', 'fail', 'Policy says no', "a project's")
        self.assert_row('power', 'pass')
        self.assert_row('trial removal', 'pass')
        self.assert_nothing_left()

    def test_machine_that_does_not_start(self):
        self.host.fail_action('start', 'no power')
        self.assertEqual(1, self.run_trial())
        self.assert_row('power', 'fail', 'no power', 'compute host')
        self.assert_row('rescue', 'skipped', 'needs power')
        self.assert_nothing_left()

    def test_port_security_that_must_stay_on(self):
        with mock.patch.object(
                self.cloud.network, 'create_network', autospec=True,
                side_effect=exceptions.ForbiddenException(
                    'create_network:port_security_enabled is disallowed',
                    http_status=403)):
            self.assertEqual(1, self.run_trial())
        self.assert_row('trial machine', 'fail', 'port_security_enabled',
                        'the right')
        self.assert_row('rescue', 'skipped', 'needs trial machine')
        self.assert_row('trial removal', 'pass')
        self.assert_nothing_left()

    def test_missing_images_keep_it_from_being_made(self):
        self.host.images.clear()
        self.assertEqual(1, self.run_trial())
        self.assert_row('trial machine', 'skipped', 'rescue image bios')
        self.assertEqual(0, self.cloud.changes)

    def test_what_cannot_be_removed_is_named(self):
        with mock.patch.object(
                self.cloud.network, 'delete_network', autospec=True,
                side_effect=exceptions.ForbiddenException(
                    'no', http_status=403)):
            self.assertEqual(1, self.run_trial())
        network, = self.cloud.all('network', name=mock.ANY,
                                  is_port_security_enabled=False)
        self.assert_row('trial removal', 'fail', network.id,
                        'openstack quintupleo environment delete '
                        'quintupleo-check-')

    def test_cloud_that_goes_away(self):
        with mock.patch.object(
                environment, 'Environments', autospec=True,
                side_effect=exceptions.SDKException('it has gone')):
            self.assertEqual(1, self.run_trial())
        self.assert_row('trial machine', 'fail', 'it has gone', 'operator')
        self.assert_row('trial removal', 'fail', 'it has gone',
                        'environment delete quintupleo-check-')

    def test_interrupt(self):
        with mock.patch.object(trial.Trial, '_rescue', autospec=True,
                               side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_trial())
        self.assertIn('Nothing is left of what --try made', self.err)
        self.assert_nothing_left()

    def test_interrupt_while_it_is_made(self):
        with mock.patch.object(self.cloud.network, 'create_port',
                               autospec=True, side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_trial())
        self.assert_nothing_left()

    def test_two_interrupts(self):
        with mock.patch.object(trial.Trial, '_rescue', autospec=True,
                               side_effect=KeyboardInterrupt), \
                mock.patch.object(self.cloud.network, 'delete_network',
                                  autospec=True,
                                  side_effect=KeyboardInterrupt):
            self.assertEqual(130, self.run_trial())
        self.assertIn('openstack quintupleo environment delete '
                      'quintupleo-check-', self.err)

    def test_trial_that_made_nothing_removes_nothing(self):
        target = self.target()
        cfg.CONF.reset()
        trial.Trial(target, 'tiny', progress.Progress(io.StringIO()),
                    timeout=1).close()
        self.assertEqual(0, self.cloud.changes)
