# SPDX-License-Identifier: Apache-2.0
"""What one release of Ironic needs and another does not."""

import unittest
from unittest import mock

from quintupleo_power import compat
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import power


class TimedTestCase(unittest.TestCase):

    def timers(self, name, cls):
        """Return the names of the timers of a class."""
        with mock.patch.object(compat.metrics_utils, 'get_metrics_logger',
                               autospec=True) as get_logger:
            timer = get_logger.return_value.timer
            timer.side_effect = lambda title: lambda method: method
            self.assertIs(cls, compat.timed(name)(cls))
        get_logger.assert_called_once_with(cls.__module__)
        return {call.args[0] for call in timer.call_args_list}

    def test_methods_have_timers_by_the_name_of_the_interface(self):
        self.assertLessEqual(
            {f'QuintupleoPower.{each}' for each in (
                'validate', 'get_power_state', 'set_power_state', 'reboot',
                '_take_over', '_finish_late', '_keep_boot_logs')},
            self.timers('QuintupleoPower', power.QuintupleoPower))

    def test_methods_of_a_base_have_them_as_well(self):
        for method in ('wipe_disk', 'attach_virtual_media', '_remove_left'):
            timed = getattr(management.QuintupleoManagement, method)
            self.assertIsNotNone(timed.__wrapped__)

    def test_what_ironic_looks_for_stays(self):
        steps = management.QuintupleoManagement.wipe_disk
        self.assertTrue(steps._is_clean_step)
        self.assertTrue(steps._is_service_step)
        self.assertIsNotNone(
            power.QuintupleoPower.set_power_state.without_faults)
