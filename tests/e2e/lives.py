# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Lives of machines that go on beside each other.

A guest keeps one core busy, and its life is mostly waiting for it; so each
machine lives in a thread of its own, and the tests ask how it went.
"""

import concurrent.futures
import threading

from onebox import progress


class Lives:
    """The steps of some machines' lives, with how each ended."""

    def __init__(self, lab, steps):
        """Start the lives.

        :param lab: the :class:`quickstart.Quickstart`, with everything up.
        :param steps: the steps of each machine by its name: functions of
            the lab, a stage of the progress, and the name.
        """
        self._lab = lab
        self._ends = {(name, step.__name__): concurrent.futures.Future()
                      for name in steps for step in steps[name]}
        for name in steps:
            # A life that a failed test no longer waits for ends with pytest.
            threading.Thread(target=self._live, args=(name, steps[name]),
                             name=name, daemon=True).start()

    def went_well(self, name, step):
        """Wait for a step's end and raise what it raised."""
        self._ends[name, step.__name__].result()

    def _live(self, name, steps):
        shown = progress.Progress(name)
        failed = None
        for step in steps:
            end = self._ends[name, step.__name__]
            if failed:
                end.set_exception(AssertionError(
                    f'{name} did not get there: {failed} failed'))
                continue
            try:
                with shown.stage(f'{name}: {step.__name__}') as stage:
                    step(self._lab, stage, name)
            except Exception as exc:  # noqa: BLE001 the test raises it again
                failed = step.__name__
                try:
                    self._keep_console(name)
                finally:
                    end.set_exception(exc)
            else:
                end.set_result(None)

    def _keep_console(self, name):
        """Keep the console log of a machine whose step failed."""
        logs = self._lab.ironic.logs
        kept = logs / f'console-{name}.log'
        kept.write_text(self._lab.host_cloud.console_log(name))
        print(f'Console of {name}: {kept}; Ironic, Nova and the others: '
              f'{logs}', flush=True)
