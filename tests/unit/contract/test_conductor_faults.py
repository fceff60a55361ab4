# SPDX-License-Identifier: Apache-2.0
"""A full disk and a failing database, by the conductor's own methods.

Nothing is lost, nothing is told as done that was not, and what is told is one
sentence.
"""

import contextlib
import errno
from unittest import mock

import fixtures
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic.conductor import task_manager
from ironic.db import api as db_api
from oslo_db import exception as db_exception

from quintupleo_power.node import pending_request
from quintupleo_power import takeover
from tests.unit.contract import lab
from tests.unit import nova_model

RUNNING = nova_model.RUNNING
SHUTDOWN = nova_model.SHUTDOWN
# More saves than any request makes.
MOST_SAVES = 60
FULL = 'No space left on device'


def no_space(*_args, **_kwargs):
    """Fail as a write to a full disk."""
    raise OSError(errno.ENOSPC, FULL, '/var/lib/ironic/part')


class FullDiskTestCase(lab.LabTestCase):
    """Temporary files cannot be written."""

    def assert_told(self):
        self.assert_says(self.node.last_error, FULL)
        self.assertEqual(1, self.node.last_error.count(FULL))

    def assert_untouched(self):
        """Check that the disk is what it was, and Glance has nothing new."""
        self.assertNotIn('rebuild', self.host_cloud.sent)
        self.assertEqual([], self.media())
        self.assertEqual([], self.uploaded())
        self.assertNotIn(pending_request.KEY, self.node.driver_internal_info)
        self.assertIsNone(self.node.reservation)

    def fill(self, function):
        self.useFixture(fixtures.MockPatch(function, no_space))

    def test_image_of_an_instance(self):
        self.fill('ironic.drivers.modules.deploy_utils.cache_instance_image')
        content = self.server.content
        self.attach_vif()
        self.deploy()
        self.assert_in(states.DEPLOYFAIL)
        self.assert_told()
        self.assert_untouched()
        self.assertEqual(content, self.server.content)

    def test_iso_that_a_user_attaches(self):
        self.config(group='redfish', use_swift=False)
        self.set_node(provision_state=states.MANAGEABLE)
        for function in ('ironic.common.images.fetch',
                         'ironic.common.utils.tempdir'):
            with mock.patch(function, no_space):
                self.request(self.manager.attach_virtual_media, 'cdrom',
                             'http://web.test/boot.iso', 'http')
            self.assert_told()
            self.assert_untouched()

    def test_iso_of_the_agent(self):
        self.set_node(deploy_interface='direct', network_interface='noop',
                      provision_state=states.MANAGEABLE)
        self.fill('ironic.common.images.create_boot_iso')
        self.do('provide')
        self.assert_in(states.CLEANFAIL)
        self.assert_told()
        self.assert_untouched()
        self.assert_server_is('stopped', SHUTDOWN)

    def test_console_log_that_cannot_be_kept_fails_no_request(self):
        self.config(group='agent', deploy_logs_collect='always')
        self.fill('ironic.drivers.utils.store_ramdisk_logs')
        self.server.console_log = 'kernel panic'
        self.set_server('active', RUNNING)
        self.set_node(provision_state=states.DEPLOYFAIL,
                      power_state=states.POWER_ON)
        self.request(self.manager.change_node_power_state, states.POWER_OFF)
        self.assertEqual((states.POWER_OFF, None), (
            self.node.power_state, self.node.last_error))
        self.assert_server_is('stopped', SHUTDOWN)


class DatabaseTestCase(lab.LabTestCase):
    """Each save of a request fails, one after the other, or all from it on."""

    @contextlib.contextmanager
    def failing(self, number, for_good):
        """Let the save of a number fail; yield a list of those that did."""
        save = db_api.get_instance().update_node
        saves, failed = [], []

        def update_node(_api, *args, **kwargs):
            saves.append(args)
            if len(saves) == number or for_good and len(saves) > number:
                failed.append(args)
                raise db_exception.DBConnectionError('gone away')
            return save(*args, **kwargs)

        with mock.patch('ironic.db.sqlalchemy.api.Connection.update_node',
                        update_node):
            yield failed

    def each_failure(self, prepare, request):
        """Yield after the request with each of its saves failing."""
        for for_good in (False, True):
            for number in range(1, MOST_SAVES):
                prepare()
                with self.failing(number, for_good) as failed, (
                        contextlib.suppress(db_exception.DBError)):
                    request()
                self.node.refresh()
                if not failed:
                    break
                self.restart(for_good)
                yield
            else:
                self.fail('There are more saves than were tried.')
            self.assertGreater(number, 1)

    def restart(self, for_good):
        """Let Ironic find the node again; a conductor may have to restart."""
        self.clock.now += 60
        if (for_good or self.node.reservation or self.node.target_power_state
                or self.node.provision_state in states.UNSTABLE_STATES):
            # ``prepare_host`` and ``init_host`` of BaseConductorManager.
            self.dbapi.clear_node_reservations_for_conductor('test-host')
            self.set_node(target_power_state=None)
            if self.node.provision_state in states.UNSTABLE_STATES:
                with self.acquire() as task:
                    task.process_event('fail')
                self.node.refresh()
        if takeover.is_needed(self.node):
            with self.acquire() as task:
                takeover.run(task)
        with task_manager.acquire(self.context, self.node.uuid,
                                  shared=True) as task:
            conductor_manager.do_sync_power_state(task, 0)
        self.node.refresh()

    def assert_as_the_server(self):
        is_on = self.server.power_state == RUNNING
        self.assertEqual(
            (states.POWER_ON if is_on else states.POWER_OFF, None, None),
            (self.node.power_state, self.node.target_power_state,
             self.node.reservation))
        self.assertNotIn(pending_request.KEY, self.node.driver_internal_info)

    def power(self, target):
        return self.request(self.manager.change_node_power_state, target)

    def set_power(self, power_state, vm_state, guest):
        self.set_server(vm_state, guest)
        self.set_node(provision_state=states.MANAGEABLE, last_error=None,
                      power_state=power_state, target_power_state=None,
                      driver_internal_info={})

    def test_power_requests(self):
        on = states.POWER_ON, 'active', RUNNING
        off = states.POWER_OFF, 'stopped', SHUTDOWN
        for before, target in ((on, states.POWER_OFF),
                               (off, states.POWER_ON), (on, states.REBOOT)):
            for _ in self.each_failure(lambda: self.set_power(*before),  # noqa: B023
                                       lambda: self.power(target)):  # noqa: B023
                self.assert_as_the_server()

    def test_a_wipe_is_not_told_as_done_that_was_not(self):
        def prepare():
            self.server.content = 'a secret'
            self.set_power(states.POWER_OFF, 'stopped', SHUTDOWN)
            self.set_node(provision_state=states.CLEANFAIL,
                          deploy_interface=lab.REBUILD, maintenance=False,
                          fault=None)
            self.do('manage')
            self.assert_in(states.MANAGEABLE)

        for _ in self.each_failure(prepare, lambda: self.do('provide')):
            if self.node.provision_state == states.AVAILABLE:
                self.assertEqual('', self.server.content)
            self.assert_as_the_server()

    def test_a_deployment_is_not_told_as_done_that_was_not(self):
        def prepare():
            self.server.content = ''
            self.set_power(states.POWER_OFF, 'stopped', SHUTDOWN)
            self.set_node(provision_state=states.AVAILABLE, maintenance=False,
                          fault=None, instance_uuid=None,
                          driver_internal_info={'is_whole_disk_image': True})

        self.attach_vif()
        for _ in self.each_failure(prepare, self.deploy):
            if self.node.provision_state == states.ACTIVE:
                self.assertEqual('a deployed system', self.server.content)
            self.assert_as_the_server()
