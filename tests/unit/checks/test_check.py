# SPDX-License-Identifier: Apache-2.0
"""The command against a cloud that lacks one thing after the other."""

from unittest import mock

import requests
import tenacity

from quintupleo_power.environments import patience
from quintupleo_power.host_cloud import cloud_info
from tests.unit.checks import base
from tests.unit import host_cloud_fixture


class GoodCloudTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()

    def test_all_is_well(self):
        self.assertEqual(0, self.run_command('--flavor', 'tiny'))
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assert_row('credentials', 'pass',
                        'user operator, project machines, roles member')
        self.assert_row('compute API', 'pass', '2.98')
        self.assert_row('quota: servers', 'pass', '2 of 10 in use')
        self.assert_row('quota: ram (MiB)', 'pass', 'no limit')
        self.assert_changed_nothing()

    def test_secrets_are_not_shown(self):
        self.run_command('--server', self.server.id)
        self.assertNotIn(host_cloud_fixture.SECRET, self.out + self.err)
        for token in self.host.console_tokens:
            self.assertNotIn(token, self.out + self.err)

    def test_warning_is_no_failure(self):
        self.host.roles = ['admin', 'member']
        self.check('credentials', 'warn', "administrator's",
                   'application credential')

    def test_interrupt(self):
        with mock.patch.object(cloud_info.CloudInfo, 'rates', autospec=True,
                               side_effect=KeyboardInterrupt):
            self.assertEqual(1, self.run_command())
        self.assertIn('Nothing was changed', self.err)

    def test_trial_needs_a_flavor(self):
        self.assertEqual(1, self.run_command('--try'))
        self.assertIn('--try needs the flavor', self.err)
        self.assertEqual([], self.host.requests)


class AccessTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()

    def test_wrong_password(self):
        self.auth['password'] = 'wrong'
        self.check('credentials', 'fail', 'does not accept the credentials',
                   'correct the credentials')
        others = {row['Result'] for name, row in self.rows.items()
                  if name != 'credentials'}
        self.assertEqual({'skipped'}, others)
        self.assert_row('image API', 'skipped', 'needs credentials')
        self.assert_row('rescue image bios', 'skipped', 'needs image API')

    def test_cloud_that_is_away(self):
        self.host.fail('GET', 'keystone', requests.exceptions.ConnectionError(
            'no route'), times=9)
        self.host.fail('POST', 'keystone',
                       requests.exceptions.ConnectionError('no route'),
                       times=9)
        self.check('credentials', 'fail', 'cannot be reached',
                   'check the address')

    def test_settings_that_cannot_be_used(self):
        self.options.cloud = 'other'
        self.check('credentials', 'fail', 'No usable cloud is named',
                   '--os-cloud')
        self.assertEqual([], self.host.requests)

    def test_application_credential(self):
        self.host.application_credential = {'id': 'e' * 32, 'name': 'ours',
                                            'restricted': True}
        self.check('credentials', 'pass', 'by an application credential')

    def test_no_project(self):
        del self.auth['project_name']
        token = cloud_info.Token('operator', None, None, (), False, 0.0)
        with mock.patch.object(cloud_info.CloudInfo, 'sign_in', autospec=True,
                               return_value=token):
            self.check('credentials', 'fail', 'signed in to no project',
                       'project_name')

    def test_reader(self):
        self.host.roles = ['reader']
        self.check('credentials', 'fail', 'a reader starts and rescues no',
                   'the role member')

    def test_old_compute_api(self):
        self.host.microversion = '2.79'
        self.check('compute API', 'warn',
                   '2.79 is used, which is without network boot of servers '
                   'that boot from a volume', 'newer Nova')
        self.assertNotIn('consoles', self.rows['compute API']['Found'])

    def test_no_volumes(self):
        self.host.has_volume_service = False
        self.check('volume API', 'pass', 'none')

    def test_no_network_service(self):
        self.host.has_network_service = False
        self.check('network API', 'fail', 'cannot be used', 'clouds.yaml')
        self.assert_row('port security', 'skipped', 'needs network API')
        self.assert_row('rescue image bios', 'pass')

    def test_image_service_that_fails(self):
        self.host.fail('GET', 'glance.*/images', 503, times=9)
        self.check('image API', 'fail', '503', 'try again later')
        self.assert_row('rescue image uefi', 'skipped')
        self.assert_row('port security', 'pass')

    def test_policy_that_forbids(self):
        self.host.fail('GET', '/servers/detail', (403, 'Policy says no'),
                       times=9)
        self.check('rescue', 'fail', 'Policy says no', 'operator')

    def test_limited_rates(self):
        self.host.rates = [{'uri': '*', 'regex': '.*', 'limit': [
            {'verb': 'GET', 'value': 120, 'unit': 'MINUTE',
             'remaining': 100}]}]
        self.check('rate limits', 'warn', 'GET * 120 per MINUTE',
                   'server_list_max_age')
        self.host.rates = [{'uri': '*'}]
        self.check('rate limits', 'fail', 'a form that Nova does not have',
                   'try again')

    def test_too_many_requests(self):
        self.host.fail('GET', '/limits', (429, 'Slow down'), times=9,
                       headers={'Retry-After': '30'})
        clock = self.host.clock
        with (mock.patch.object(patience, 'time', clock),
              mock.patch.object(tenacity, 'time', clock),
              mock.patch.object(patience.Patience, 'wait',
                                lambda _, seconds: clock.sleep(seconds))):
            self.check('rate limits', 'fail', 'Slow down', 'less often')
        # The request before it was tried again for as long as is worth it.
        self.assertGreater(sum(clock.slept), 60)

    def test_clocks(self):
        self.host.clock_skew = 120
        self.check('clocks', 'warn', '120 s ahead', 'NTP')
        self.host.clock_skew = -600
        self.check('clocks', 'warn', '600 s behind', 'NTP')

    def test_clocks_that_nobody_tells(self):
        token = cloud_info.Token('operator', 'a' * 32, 'machines', ('member',),
                              False, None)
        self.host.dates_answers = False
        with mock.patch.object(cloud_info.CloudInfo, 'sign_in', autospec=True,
                               return_value=token):
            self.check('clocks', 'warn', 'do not tell the time', 'compare')

    def test_clock_without_dates_is_that_of_the_tokens(self):
        self.host.dates_answers = False
        self.host.clock_skew = -45
        self.check('clocks', 'warn',
                   'the identity service is 45 s behind', 'NTP')


class ImagesTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()

    def remove(self, *purposes, mode='bios'):
        for purpose in purposes:
            del self.host.images[self.image(purpose, mode)['id']]

    def test_property_that_is_missing(self):
        image = self.image('rescue')
        del image['hw_rescue_device']
        self.check('rescue image bios', 'fail', 'lacks hw_rescue_device',
                   'openstack image set --property hw_rescue_device=cdrom')
        self.assertIn(image['id'],
                      self.rows['rescue image bios']['What To Do'])
        self.assert_row('rescue image uefi', 'pass')

    def test_image_that_was_never_uploaded(self):
        self.image('rescue')['status'] = 'queued'
        self.image('empty')['status'] = 'queued'
        self.check('rescue image bios', 'fail', "'queued'", '--replace')
        self.assert_row('empty image bios', 'fail', "'queued'", '--replace')

    def test_image_without_content(self):
        self.image('rescue')['size'] = 0
        self.check('rescue image bios', 'fail', 'is empty', '--replace')

    def test_one_boot_mode_may_be_enough(self):
        self.remove('rescue', 'empty', mode='uefi')
        self.check('rescue image uefi', 'warn',
                   'UEFI servers cannot boot from the network',
                   'openstack quintupleo image create')
        self.assert_row('empty image uefi', 'warn', 'wiped')
        self.assert_row('rescue image bios', 'pass')

    def test_no_images(self):
        for mode in ('bios', 'uefi'):
            self.remove('rescue', 'empty', mode=mode)
        self.check('rescue image bios', 'fail', 'No image is named',
                   'build-ipxe-image')
        self.assert_row('empty image uefi', 'fail')
        self.assert_row('clean shutdown', 'skipped', 'needs an empty image')

    def test_two_images_of_one_name(self):
        self.host.add_rescue_image('quintupleo-rescue-bios')
        self.check('rescue image bios', 'fail', '2 images are named',
                   'delete all but one')

    def test_images_for_the_other_boot_mode(self):
        self.image('rescue')['hw_firmware_type'] = 'uefi'
        self.image('empty')['hw_firmware_type'] = 'uefi'
        self.check('rescue image bios', 'warn', 'is for uefi',
                   'rescue_image_bios')
        self.assert_row('empty image bios', 'fail', 'boot by uefi')

    def test_image_that_is_not_empty(self):
        self.image('empty')['os_hash_value'] = 'f' * 128
        self.check('empty image bios', 'warn', 'is not the empty image')

    def test_clean_shutdown(self):
        image = self.image('empty')
        del image['os_shutdown_timeout']
        self.check('clean shutdown', 'warn', 'up to 60 s',
                   'os_shutdown_timeout=0')
        image['os_shutdown_timeout'] = '300'
        self.check('clean shutdown', 'fail', 'gives up after 300 s',
                   'os_shutdown_timeout=0')


class AllowancesTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()

    def test_no_quota(self):
        self.host.limits.update(maxTotalInstances=0, totalInstancesUsed=0)
        self.check('quota: servers', 'fail', '0 of 0 in use',
                   'larger quota of servers')
        self.assert_row('quota: vcpus', 'pass')

    def test_full_project_is_no_mistake_by_itself(self):
        self.host.limits['totalInstancesUsed'] = 10
        self.check('quota: servers', 'warn', '10 of 10', 'larger quota')
        self.assertEqual(1, self.run_command('--flavor', 'tiny'))
        self.assert_row('quota: servers', 'fail', '1 more are needed')

    def test_flavor_that_is_too_large_for_the_quota(self):
        self.host.add_flavor('large', vcpus=64)
        self.assertEqual(1, self.run_command('--flavor', 'large'))
        self.assert_row('quota: vcpus', 'fail',
                        '2 of 20 in use, and 64 more are needed')

    def test_quota_of_ports_and_images(self):
        self.host.network_quota = {'port': 1}
        self.host.image_usage['image_count_total']['usage'] = 100
        self.assertEqual(0, self.run_command())
        self.assert_row('quota: ports', 'warn', '1 of 1')
        self.assert_row('quota: images', 'warn', '100 of 100')

    def test_quota_that_is_not_told(self):
        self.host.network_quota = None
        self.host.image_usage = {}
        self.check('quota: ports', 'warn', 'not told', 'enough ports')
        self.assert_row('quota: images', 'warn', 'not told')
        self.assert_row('quota: servers', 'pass')

    def test_flavor(self):
        self.assertEqual(1, self.run_command('--flavor', 'none'))
        self.assert_row('flavor', 'fail', "no flavor 'none'", 'check the')
        self.assert_row('quota: vcpus', 'skipped', 'needs flavor')
        self.host.add_flavor('small', ram=512)
        self.run_command('--flavor', 'small')
        self.assert_row('flavor', 'warn', 'need 2048 MiB', 'larger flavor')

    def test_flavor_that_is_none(self):
        self.host.flavors = [{'name': 'tiny'}]
        self.run_command('--flavor', 'tiny')
        self.assert_row('flavor', 'fail', 'a form that Nova does not have')

    def test_image_usage_that_is_malformed(self):
        for usage in ({'image_count_total': 3},
                      {'image_count_total': {'limit': 'x', 'usage': 1}}):
            self.host.image_usage = usage
            self.check('quota: images', 'warn', 'not told')
        self.host.fail('GET', '/info/usage', (404, 'no such thing'))
        self.check('quota: images', 'warn', 'not told')
        self.host.image_usage = {
            'image_count_total': {'limit': -1, 'usage': 3}}
        self.check('quota: images', 'pass', 'no limit')

    def test_no_proof_of_a_rescue(self):
        self.host.events.clear()
        self.check('rescue', 'warn', 'nothing tells', '--try')
        self.server.vm_state = 'rescued'
        self.check('rescue', 'pass')

    def test_rescue_that_failed_proves_nothing(self):
        for event in self.host.events.values():
            event['message'] = 'Error'
        self.check('rescue', 'warn', 'nothing tells', '--try')

    def test_no_proof_of_ports(self):
        self.host.neutron_ports.clear()
        self.host.add_neutron_port('fa:16:3e:00:00:01', security=True)
        self.check('port security', 'warn', 'nothing tells', '--try')
        self.assert_row('MAC addresses', 'warn', 'nothing tells', '--try')

    def test_ports_of_routers_prove_nothing(self):
        self.host.neutron_ports.clear()
        self.host.add_neutron_port(device_owner='network:dhcp')
        self.check('port security', 'warn', 'nothing tells', '--try')

    def test_port_that_is_none(self):
        self.host.fail('GET', '/ports', {'ports': [{}]}, times=2)
        self.check('MAC addresses', 'fail', 'a form that Neutron does not')

    def test_neutron_without_port_security(self):
        self.host.extensions.remove('port-security')
        self.check('port security', 'warn', 'no extension', 'operator')


class NetworksTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()

    def look(self, **attributes):
        self.network = self.host.add_network('provision', **attributes)
        self.host.add_subnet(self.network)
        return self.run_command('--network', 'provision')

    def test_good_network(self):
        self.assertEqual(0, self.look())
        self.assert_row('network provision: DHCP', 'pass')
        self.assert_row('network provision: port security', 'pass', 'off')

    def test_dhcp(self):
        self.look()
        self.host.add_subnet(self.network, '198.51.100.0/24', dhcp=True)
        self.run_command('--network', self.network['id'])
        self.assert_row(f'network {self.network["id"]}: DHCP', 'warn',
                        '198.51.100.0/24', '--no-dhcp')

    def test_port_security(self):
        self.look(port_security_enabled=True)
        self.assert_row('network provision: port security', 'warn', 'on',
                        f'--disable-port-security {self.network["id"]}')

    def test_port_security_that_is_not_told(self):
        self.look(port_security_enabled=None)
        self.assert_row('network provision: port security', 'warn',
                        'does not tell')

    def test_network_of_another_project(self):
        self.assertEqual(1, self.look(port_security_enabled=True,
                                      project_id='d' * 32))
        self.assert_row('network provision: port security', 'fail',
                        "another project's", "the project's own")

    def test_no_such_network(self):
        self.assertEqual(1, self.run_command('--network', 'none'))
        self.assert_row('network none', 'fail', "no network 'none'")
        self.assert_row('network none: DHCP', 'skipped',
                        'needs network none')


class ServersTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.add_all()
        self.port = self.host.add_neutron_port(
            '52:54:00:00:00:02', device_id=self.server.id)

    def look(self, name, result, says='', advises=''):
        code = self.run_command('--server', 'machine-0')
        title = 'server machine-0' + (f': {name}' if name else '')
        self.assert_row(title, result, says, advises)
        self.assertEqual(int('fail' in self.results().values()), code)

    def test_good_server(self):
        self.look('', 'pass', 'ACTIVE')
        self.assertEqual({'pass'}, set(self.results().values()), self.rows)
        self.assert_row('server machine-0: network boot', 'pass',
                        f'by bios, with image {self.image("rescue")["id"]}')
        self.assert_row('server machine-0: console', 'pass', 'novnc')
        self.assert_changed_nothing()

    def test_no_such_server(self):
        self.assertEqual(1, self.run_command('--server', 'none'))
        self.assert_row('server none', 'fail', "named 'none'", 'check the')
        self.assert_row('server none: flavor', 'skipped',
                        'needs server none')

    def test_states(self):
        self.server.vm_state = 'shelved'
        self.look('', 'fail', 'it is shelved', 'openstack server unshelve')
        self.server.vm_state, self.server.fault = 'error', 'No valid host'
        self.look('', 'fail', 'No valid host', 'reboot --hard')

    def test_lock(self):
        self.server.locked, self.server.locked_reason = True, 'mine'
        self.look('', 'warn', 'locked: mine', 'unlock')

    def test_rescue_that_nova_refuses(self):
        self.server.extra_specs = {'hw:tpm_version': '2.0'}
        self.look('network boot', 'fail', 'virtual TPM', 'without')

    def test_rescue_image_that_is_missing(self):
        del self.host.images[self.image('rescue')['id']]
        self.look('network boot', 'fail', 'No image is named', 'check the')

    def test_boot_mode_that_nothing_tells(self):
        self.host.microversion = '2.87'
        self.server.image = None
        self.look('network boot', 'warn', 'boot mode', 'capability')
        self.assert_row('server machine-0: clean shutdown', 'warn',
                        'unless the image of its volume')

    def test_network_first_server(self):
        image = self.host.add_image('nf', quintupleo_boot='network-first')
        self.server.image = image['id']
        self.server.volumes = (self.host.add_volume(),)
        self.look('network boot', 'pass', 'network-first')

    def test_flavor(self):
        self.server.disk = 0
        self.look('flavor', 'fail', '0 GiB', 'resize')
        self.server.disk, self.server.ram = 20, 512
        self.look('flavor', 'warn', '512 MiB', 'larger flavor')

    def test_clean_shutdown(self):
        del self.image('empty')['os_shutdown_timeout']
        self.look('clean shutdown', 'warn', '60 s', 'os_shutdown_timeout=0')

    def test_mac_that_the_agent_passes_over(self):
        self.port['mac_address'] = 'FA:16:3E:00:00:02'
        self.look('MAC addresses', 'fail', 'fa:16:3e:00:00:02',
                  '--mac-address')
        self.host.add_neutron_port('52:54:00:00:00:03',
                                   device_id=self.server.id)
        self.look('MAC addresses', 'warn', 'fa:16:3e:00:00:02')

    def test_port_security(self):
        self.port['port_security_enabled'] = True
        self.look('port security', 'fail', '52:54:00:00:00:02',
                  f'--disable-port-security {self.port["id"]}')
        other = self.host.add_neutron_port('52:54:00:00:00:03',
                                           device_id=self.server.id)
        self.look('port security', 'warn', '52:54:00:00:00:02')
        self.port['port_security_enabled'] = False
        other['port_security_enabled'] = None
        self.look('port security', 'warn', 'does not tell')

    def test_server_without_ports(self):
        self.port['device_id'] = ''
        self.look('MAC addresses', 'fail', 'no network card')
        self.assert_row('server machine-0: port security', 'skipped')

    def test_consoles(self):
        self.host.consoles = {'serial': 'ws://serial.example.test/'}
        self.look('console', 'warn', 'serial, and no novnc',
                  'quintupleo_console_type')
        self.host.consoles = {}
        self.look('console', 'warn', 'gives none', 'no-console')
        self.server.vm_state, self.server.power_state = 'stopped', 4
        self.look('console', 'warn', 'as things stand', 'power the server on')

    def test_console_of_a_server_that_has_just_stopped(self):
        self.host.fail('POST', '/remote-consoles', (404, 'not running'))
        self.look('console', 'warn', 'as things stand')

    def test_environment(self):
        self.server.tag = 'quintupleo=lab'
        self.assertEqual(0, self.run_command('--environment', 'lab'))
        self.assert_row('environment lab', 'pass', '1 servers')
        self.assert_row('server machine-0: MAC addresses', 'pass')
        self.assertEqual(1, self.run_command('--environment', 'other'))
        self.assert_row('environment other', 'fail', 'no server of it',
                        'environment list')

    def test_environment_that_cannot_be_found_by_its_tag(self):
        self.host.microversion = '2.25'
        self.assertEqual(1, self.run_command('--environment', 'lab'))
        self.assert_row('environment lab', 'fail', '2.26', 'operator')
