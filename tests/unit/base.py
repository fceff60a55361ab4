# SPDX-License-Identifier: Apache-2.0
"""What the tests of the driver's interfaces have in common."""

from unittest import mock

import futurist
from ironic.conductor import task_manager
from ironic.tests.unit.db import base
from ironic.tests.unit.objects import utils as objects_utils
from keystoneauth1 import loading

from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import connection
from tests.unit import host_cloud_fixture


class DriverTestCase(base.DbTestCase):
    """A node of hardware type quintupleo, its server and the host cloud."""

    def setUp(self):
        super().setUp()
        self.host_cloud = self.useFixture(self.make_host_cloud())
        self.clock = self.host_cloud.clock
        self.config(enabled_hardware_types=['quintupleo'],
                    enabled_console_interfaces=['quintupleo', 'no-console'],
                    enabled_power_interfaces=['quintupleo'],
                    enabled_management_interfaces=['quintupleo'],
                    enabled_vendor_interfaces=['quintupleo', 'no-vendor'],
                    enabled_boot_interfaces=['pxe',
                                             'quintupleo-virtual-media'],
                    enabled_network_interfaces=['noop', 'quintupleo'],
                    enabled_deploy_interfaces=['direct',
                                               'quintupleo-rebuild'])
        self.configure_auth('password', username='operator',
                            password=host_cloud_fixture.SECRET,
                            project_name='machines',
                            user_domain_name='Default',
                            project_domain_name='Default')
        self.forget_clouds()
        self.addCleanup(self.forget_clouds)
        self.rescue_image = self.host_cloud.add_rescue_image()
        self.server = self.host_cloud.add_server()
        self.node = objects_utils.create_test_node(
            self.context, driver='quintupleo', driver_internal_info={},
            driver_info={'quintupleo_server': self.server.id})

    def _clear_attrs(self):
        # Ironic's version also deletes the attribute that pytest puts a
        # test's method in and wants to delete itself.
        method = self.__dict__.get(self._testMethodName)
        super()._clear_attrs()
        if method is not None:
            setattr(self, self._testMethodName, method)

    def make_host_cloud(self):
        """Make the host cloud; for classes that want it otherwise."""
        return host_cloud_fixture.FakeHostCloud()

    def configure_auth(self, auth_type, **options):
        """Name the host cloud in [quintupleo]."""
        # Registered here so that they are gone after the test: some are
        # required and the driver registers them when it needs them.
        self.cfg_fixture.register_opts(
            loading.get_auth_plugin_conf_options(auth_type),
            group='quintupleo')
        self.config(auth_type=auth_type, group='quintupleo',
                    auth_url=self.host_cloud.auth_url, **options)

    @staticmethod
    def forget_clouds():
        """Drop cached clouds, as a new process has none."""
        for kept in (cloud._clouds, cloud._failures,
                     cloud._longest_readings, connection.last_answers):
            kept.clear()

    def set_driver_info(self, **values):
        """Change driver_info; None removes a key."""
        merged = self.node.driver_info | values
        self.node.driver_info = {
            key: value for key, value in merged.items() if value is not None}
        self.node.save()

    def acquire(self, shared=False):
        """Take the node as the conductor does."""
        return task_manager.acquire(self.context, self.node.uuid,
                                    shared=shared)

    def run_periodic(self, name):
        """Run a periodic task of the power interface as a conductor does.

        :returns: whether it had something to do.
        """
        manager = mock.Mock()
        manager._spawn_worker.side_effect = (
            futurist.SynchronousExecutor().submit)
        manager.iter_nodes.side_effect = lambda filters, fields: (
            self.dbapi.get_nodeinfo_list(
                columns=['uuid', 'driver', 'conductor_group', *fields],
                filters=filters))
        with self.acquire(shared=True) as task:
            power = task.driver.power
        getattr(power, name)(manager, self.context)
        self.node.refresh()
        return manager._spawn_worker.called

    def validate(self):
        """Ask the power interface whether the node is fit to be used."""
        with self.acquire(shared=True) as task:
            task.driver.power.validate(task)

    def set_server(self, vm_state, power_state=None):
        """Put the server into a state."""
        self.server.vm_state = vm_state
        if power_state is not None:
            self.server.power_state = power_state

    def assert_says(self, error, *parts):
        """Check that an error is one clear sentence, without secrets."""
        text = str(error)
        for part in parts:
            self.assertIn(part, text)
        self.assertNotIn(host_cloud_fixture.SECRET, text)
        self.assertNotIn(host_cloud_fixture.TOKEN, text)
        self.assertNotIn('Traceback', text)
        self.assertNotIn('\n', text)
