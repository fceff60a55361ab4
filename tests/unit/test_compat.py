# SPDX-License-Identifier: Apache-2.0
"""What one release of Ironic needs and another does not."""

import unittest
from unittest import mock

from quintupleo_power import compat
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import power
from quintupleo_power.interfaces import server_interface


class TimedTestCase(unittest.TestCase):

    def test_methods_have_timers_by_the_name_of_the_interface(self):
        with mock.patch.object(compat.metrics_utils, 'get_metrics_logger',
                               autospec=True) as get_logger:
            timer = get_logger.return_value.timer
            timer.side_effect = lambda title: lambda method: method

            class Timed(server_interface.ServerInterface):

                def reboot(self):
                    pass

        get_logger.assert_called_once_with(Timed.__module__)
        timer.assert_called_once_with('Timed.reboot')

    def test_methods_of_each_interface_have_them(self):
        for method in (power.QuintupleoPower.reboot,
                       power.QuintupleoPower._take_over,
                       management.QuintupleoManagement.wipe_disk,
                       management.QuintupleoManagement.attach_virtual_media,
                       management.QuintupleoManagement._remove_left):
            self.assertIsNotNone(method.__wrapped__)

    def test_what_ironic_looks_for_stays(self):
        steps = management.QuintupleoManagement.wipe_disk
        self.assertTrue(steps._is_clean_step)
        self.assertTrue(steps._is_service_step)
        self.assertIsNotNone(
            power.QuintupleoPower.set_power_state.without_faults)
