# SPDX-License-Identifier: Apache-2.0
"""Random sequences: Ironic's requests, outsiders' meddling, faults.

After each step the real server is compared with what :mod:`model` says.
"""

import collections
import sys
import time

from hypothesis import stateful
from hypothesis import strategies
from ironic.common import exception

from quintupleo_power.node import boot_device
from tests.functional import model
from tests.functional import model_cloud
from tests.functional import model_wire

POWER_REQUESTS = (model.ON, model.OFF, model.REBOOT, model.SOFT_OFF,
                  model.SOFT_REBOOT)
# What a reading may be outdated by, on top of server_list_max_age.
LAG = 0.5
# A fault that outlasts a request, and the seconds that this request has.
ENDLESS, IMPATIENCE = 1000, 3
# Words of what is said of a server that others have changed.
DRIFT = ('not by Ironic', 'somebody ended that')

_requests = strategies.sampled_from(POWER_REQUESTS)
# Server actions are few among the requests, and matter most.
_moments = strategies.one_of(
    strategies.tuples(strategies.integers(0, 1), strategies.just(True)),
    strategies.tuples(strategies.integers(0, 12), strategies.just(False)))


def _told(machine):
    return (f'{machine.vm_state}, guest '
            f'{"on" if machine.guest_on else "off"}'
            f'{", locked" if machine.locked else ""}')


class Worlds:
    """What all sequences of one process share.

    :ivar cloud: the :class:`model_cloud.HostCloud`.
    :ivar ironic: the :class:`model_ironic.Conductor`.
    :ivar wire: the :class:`model_wire.Wire`.
    :ivar steps: number of steps so far.
    :ivar counts: how often what happened.
    :ivar transcript: the steps of the sequence that runs or ran last.
    :ivar failed: those of the first sequence that failed.
    """

    def __init__(self, cloud, ironic, wire):
        self.cloud = cloud
        self.ironic = ironic
        self.wire = wire
        self.steps = 0
        self.counts = collections.Counter()
        self.transcript = []
        self.failed = []


class Sequence(stateful.RuleBasedStateMachine):
    """One node and its server, from their making to their end."""

    worlds = None
    _meddled = frozenset()

    def __init__(self):
        super().__init__()
        self.cloud = self.worlds.cloud
        self.ironic = self.worlds.ironic
        self.wire = self.worlds.wire
        self.worlds.transcript.clear()
        self.wish = model.Wish()
        self.known_rows = set()
        self.recent = []
        self.under_way = False
        self.failures = 0
        self.interrupted = None
        self.has_booted = False
        self.drifted = False
        self.server = self.cloud.create()
        self.node = self.ironic.enroll(self.server)
        self.machine = None
        self._see(self.cloud.wait(self.server))
        self._new_rows()

    def teardown(self):
        """Remove the server."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not self.worlds.failed:
            # hypothesis runs it again, overwrites the transcript, and may
            # raise something else.
            self.worlds.failed = [*self.worlds.transcript, repr(error)]
        self.cloud.delete(self.server)

    # What is known of the server.

    def _note(self, text, *values):
        text = text % values
        self.worlds.transcript.append(f'{text}')

    def _step(self, text):
        self.begun = time.monotonic()
        self.worlds.steps += 1
        if self.worlds.steps % 100 == 0:
            print(f'  {self.worlds.steps} steps', flush=True)
        self.worlds.counts[text.partition(':')[0]] += 1
        # No step comes so soon that a failure of the cloud in the last one
        # speaks for it, too.
        self.ironic.forget_failures()
        self.worlds.transcript.append(
            f'{len(self.worlds.transcript) + 1}. {text}')

    def _result(self, text):
        self.worlds.transcript[-1] += f' -> {text}'

    def _see(self, machine):
        if machine != self.machine:
            self.recent.append((time.monotonic(), self.machine))
        self.machine = machine

    def _possible(self):
        """What a reading of the driver may show that is not too old."""
        oldest = self.begun - self.max_age - LAG
        return [self.machine] + [
            machine for until, machine in self.recent
            if machine is not None and until >= oldest and self.max_age]

    def _before(self):
        """Tell where the server is, or will be when its task has ended."""
        if self.under_way:
            seen = self.cloud.look(self.server)
            machine = seen.machine
            if seen.task:
                machine = machine.after(self.cloud.rows(self.server)[-1][1])
            else:
                self.under_way = False
            self._see(machine)
            self._new_rows()
        return self.machine

    def _driver_acted(self):
        """Whether the driver has asked Nova to do anything."""
        return any(request.endswith('/action')
                   for request in self.wire.requests)

    def _new_rows(self):
        """Give the actions that Nova has recorded since the last look."""
        rows = self.cloud.rows(self.server)
        new = [row for row in rows if row[0] not in self.known_rows]
        self.known_rows.update(request_id for request_id, _ in rows)
        return new

    def _after(self):
        """Tell where the server is when all has ended, and what was sent.

        :returns: (:class:`model.Machine`, actions that the driver sent).
        """
        if not (self.under_way or self._meddled or self._driver_acted()):
            return self.machine, []
        self._see(self.cloud.wait(self.server))
        self.under_way = False
        return self.machine, [
            action for request_id, action in self._new_rows()
            if request_id not in self._meddled]

    # Checks.

    def _check_sentence(self, error):
        text = str(error)
        assert isinstance(error, exception.IronicException), repr(error)
        assert self.node in text, f'names no node: {text}'
        assert any(part in text for part in (
            self.server, 'Host cloud', 'image', 'was interrupted')), (
            f'names no server: {text}')
        for part in ('Traceback', 'Unexpected', '<html', '\n'):
            assert part not in text, text

    def _check_returned(self, expected, before, sent, undisturbed):
        now = self.machine
        assert not expected.refusal, (
            f'{before} should be refused with "{expected.refusal}"')
        assert now.on is expected.on, f'it is {now}'
        booted = [model.BOOTS[action] for action in sent
                  if action in model.BOOTS]
        if expected.boots:
            assert booted, 'it has not booted'
            assert booted[-1] == self.wish.next == now.device, (
                f'it booted from {booted} and not {self.wish.next}')
            self.wish.booted()
        elif undisturbed and before.on is expected.on:
            assert not sent, f'{sent} for nothing'
            assert now == before, f'it is {now}'
        elif sent:
            assert sent[-1] == 'stop', f'{sent} does not end in a stop'
        if undisturbed:
            assert len(sent) <= 2, f'{sent} is more than is needed'

    def _check_refused(self, error, expected, before, sent):
        """Check an error that nothing outside the server has caused."""
        assert (model.tells(expected.refusal, str(error))
                or self._is_unusable(error)), f'{before}: {error}'
        assert not sent, f'{sent} before the refusal'
        assert self.machine == before, f'it is {self.machine}'

    def _is_unusable(self, error):
        """Whether an error says of the server what is or was so."""
        return any(
            model.tells(model.UNUSABLE.get(machine.vm_state, ()), str(error))
            for machine in self._possible())

    def _check_unfinished(self, request, sent):
        """Check that what was done is on the way to what was asked."""
        wrong = ({'stop'} if request not in (model.OFF, model.SOFT_OFF)
                 else {'start', 'rescue'})
        assert not wrong.intersection(sent), f'{sent} for "{request}"'

    def _check_wish(self):
        """Check what Ironic believes the next boot to be from."""
        if self.wish.once or self.wish.always:
            assert self.ironic.get_boot_device(self.node) == (
                self.wish.next, not self.wish.once), f'and not {self.wish}'
        else:
            # Ironic's API then tells what a reboot leads to.
            left = boot_device.wished(self.ironic.node(self.node))
            assert left == (None, None), f'{left} should be forgotten'

    # Ironic's requests.

    def _ask(self, request, disturbance=None, timeout=None):
        before = self._before()
        expected = model.expect(before, request, self.wish)
        error, killed = None, False
        begun = time.monotonic()
        with self.wire.driver(disturbance):
            try:
                self.ironic.request(self.node, request, timeout)
            except model_wire.Killed:
                killed = True
            except Exception as exc:  # noqa: BLE001
                error = exc
        took = time.monotonic() - begun
        if killed:
            self._die(request)
            return
        self.interrupted = self.ironic.interrupted(self.node)
        now, sent = self._after()
        struck = disturbance is not None and disturbance.struck
        self._result(f'{error or "done"}; {_told(now)}, '
                     f'{sent or "nothing"} sent, {took:.1f} s'
                     f'{"" if struck else " (undisturbed)"}')
        assert took < self.ironic.ACTION_TIMEOUT + 10, f'took {took:.0f} s'
        if error:
            self.worlds.counts['refused or failed'] += 1
            self._check_sentence(error)
            if not struck and timeout is None:
                self._check_refused(error, expected, before, sent)
            else:
                self._check_unfinished(request, sent)
        elif self._meddled:
            self._check_raced(request, sent)
        else:
            self._check_returned(expected, before, sent, not struck)
            self.drifted = self.drifted and not sent
        self._check_wish()

    @stateful.initialize(max_age=strategies.sampled_from([0.0, 5.0]),
                         force=strategies.booleans())
    def begin(self, max_age, force):
        """Configure Ironic."""
        self.max_age = max_age
        self.force = force
        self.ironic.configure(max_age, force)
        self._step(f'begin: server_list_max_age {max_age}, '
                   f'force_power_state_during_sync {force}')

    @stateful.rule(device=strategies.sampled_from([model.DISK, model.PXE]),
                   persistent=strategies.booleans())
    def set_boot_device(self, device, persistent):
        """Record a boot device: nothing happens to the server."""
        self._step(f'boot device: {device}, '
                   f'{"persistent" if persistent else "once"}')
        with self.wire.driver():
            self.ironic.set_boot_device(self.node, device, persistent)
        assert not self.wire.requests
        self.wish.record(device, persistent)
        self._check_wish()

    @stateful.rule(request=_requests)
    def request(self, request):
        """Ask for a power state."""
        self._step(f'request: {request}')
        self._ask(request)

    @stateful.rule(
        device=strategies.sampled_from([model.DISK, model.PXE]),
        persistent=strategies.booleans(),
        request=strategies.sampled_from([model.ON, model.REBOOT]))
    def boot(self, device, persistent, request):
        """Ask for a boot device and a boot, as Ironic mostly does."""
        self._step(f'request: {device}, '
                   f'{"persistent" if persistent else "once"}, {request}')
        self.ironic.set_boot_device(self.node, device, persistent)
        self.wish.record(device, persistent)
        self._ask(request)

    @stateful.rule(
        request=_requests, moment=_moments,
        kind=strategies.sampled_from(sorted(model_wire.FAULTS)),
        times=strategies.sampled_from([1, 1, 2, ENDLESS]))
    def request_with_fault(self, request, moment, kind, times):
        """Ask for a power state while the host cloud fails."""
        at, of_actions = moment
        self._step(f'request with fault: {request}, {times} x {kind} from '
                   f'{"action" if of_actions else "HTTP request"} {at + 1}')
        self._ask(request, model_wire.Fault(kind, at, of_actions, times),
                  IMPATIENCE if times == ENDLESS else None)

    @stateful.rule(request=_requests, moment=_moments,
                   reached=strategies.booleans())
    def request_and_die(self, request, moment, reached):
        """Ask for a power state of a conductor that dies on the way."""
        at, of_actions = moment
        self._step(f'request, then the conductor dies: {request}, '
                   f'{"after" if reached else "before"} '
                   f'{"action" if of_actions else "HTTP request"} {at + 1}')
        self._ask(request, model_wire.Kill(reached, at, of_actions))

    def _die(self, request):
        self.ironic.die()
        # The next one counts anew.
        self.failures = 0
        self.under_way = True
        boots = [model.BOOTS[action] for _, action in self._new_rows()
                 if action in model.BOOTS]
        # One that was not begun leaves the interrupted one before as it is.
        self.has_booted = boots[-1:] == [self.wish.next] or bool(
            self.interrupted and self.has_booted and not self._driver_acted())
        self.interrupted = self.ironic.interrupted(self.node)
        self._result(f'killed, {self.interrupted or "nothing"} is left')
        self.worlds.counts['killed'] += 1
        if self._driver_acted():
            assert self.interrupted == (request, self.wish.next), (
                'the request is lost')

    def _finish(self, disturbance=None):
        """Let the driver finish what a dead conductor has begun."""
        before = self._before()
        request, device = self.interrupted
        node = self.ironic.node(self.node)
        if node.maintenance:
            self._end_maintenance()
        with self.wire.driver(disturbance):
            self.ironic.finish(self.node)
        now, sent = self._after()
        node = self.ironic.node(self.node)
        self.interrupted = self.ironic.interrupted(self.node)
        self._result(f'{node.last_error or "no error"}; {_told(now)}, '
                     f'{sent or "nothing"} sent')
        struck = disturbance is not None and disturbance.struck
        if self.interrupted or node.last_error:
            assert (struck or before.locked
                    or before.vm_state in model.UNUSABLE), 'not finished'
            self._settle_wish()
            return
        expected = model.expect(before, request, self.wish)
        wants_on = request not in (model.OFF, model.SOFT_OFF)
        # One that is off has to be nothing else in order to be off, and a boot
        # that Nova recorded before the conductor died is not asked for again.
        done = before.on is wants_on and (self.has_booted or not wants_on)
        assert expected.refusal in ((), model.LOCKED) or done, (
            f'it is {before}')
        assert now.on is wants_on
        assert node.power_state == (model.ON if now.on else model.OFF)
        if now.on and sent:
            assert now.device == self.wish.next, f'it is {now}'
            self.wish.booted()
            self._check_wish()
        else:
            self._settle_wish()

    def _settle_wish(self):
        """Take over whether a one-time device was booted before."""
        _, persistent = boot_device.wished(self.ironic.node(self.node))
        if persistent is not False:
            self.wish.booted()
        self._check_wish()

    @stateful.rule(request=_requests, moment=_moments,
                   data=strategies.data())
    def request_amid_meddling(self, request, moment, data):
        """Ask for a power state that somebody else changes meanwhile."""
        before = self._before()
        name = self._choose(data, before, 'lock', 'delete')
        if name is None:
            self.request(request)
            return
        at, of_actions = moment
        self._step(f'request amid meddling: {request}, "{name}" before '
                   f'{"action" if of_actions else "HTTP request"} {at + 1}')
        meddled = []

        def meddle():
            request_id = (self.cloud.begin_delete(self.server)
                          if name == 'delete' else
                          self.cloud.act(self.server, name))
            if request_id:
                meddled.append(request_id)

        self._meddled = meddled
        self.drifted = True
        try:
            self._ask(request, model_wire.Meddle(meddle, at, of_actions))
        finally:
            self._meddled = frozenset()

    def _check_raced(self, request, sent):
        """Check a request that somebody else's action came between.

        Who came last decides.
        """
        rows = self.cloud.rows(self.server)
        last = [request_id for request_id, action in rows
                if action != 'lock'][-1]
        booted = [model.BOOTS[action] for action in sent
                  if action in model.BOOTS]
        if last in self._meddled or not sent:
            self._result('overtaken')
        elif request in (model.OFF, model.SOFT_OFF):
            assert self.machine.on is False, f'it is {self.machine}'
        else:
            assert self.machine.on is True, f'it is {self.machine}'
            assert booted[-1] == self.wish.next == self.machine.device, (
                f'it booted from {booted} and not {self.wish.next}')
        if request in (model.OFF, model.SOFT_OFF):
            return
        if booted:
            self.wish.booted()
        elif self.wish.next in [
                model.BOOTS.get(action) for request_id, action in rows
                if request_id in self._meddled and action == 'reboot']:
            # Nova may answer 500 to one of two reboots at once: then the
            # driver cannot know whose it was that happened.
            self._settle_wish()

    @stateful.rule()
    def take_over(self):
        """Let another conductor have the node."""
        self._step('another conductor')
        self.ironic.take_over()
        self.failures = 0

    # What Ironic reads.

    @stateful.rule(what=strategies.sampled_from(
        ['validate', 'boot device', 'power state']))
    def read(self, what):
        """Let Ironic read something of the node."""
        self._step(f'read: {what}')
        self._before()
        check, error = {
            'validate': self._read_validity,
            'boot device': self._read_boot_device,
            'power state': self._read_power_state}[what], None
        try:
            with self.wire.driver():
                result = check()
        except exception.IronicException as exc:
            error = exc
            self._check_sentence(error)
        self._result(error or result)
        self._check_read(what, error, None if error else result)

    def _read_validity(self):
        self.ironic.validate(self.node)
        return 'valid'

    def _read_boot_device(self):
        return self.ironic.get_boot_device(self.node)

    def _read_power_state(self):
        return self.ironic.get_power_state(self.node)

    def _check_read(self, what, error, result):
        possible = self._possible()
        if what == 'power state':
            answers = [machine.on for machine in possible]
            assert (None in answers or self.interrupted if error else
                    (result == model.ON) in answers), self.machine
        elif error and self.drifted and any(
                word in str(error) for word in DRIFT):
            assert what == 'validate'
        elif what == 'validate':
            assert self._is_unusable(error) if error else any(
                machine.vm_state not in model.UNUSABLE
                for machine in possible), self.machine
            assert not error or isinstance(
                error, exception.InvalidParameterValue)
        elif self.wish.once or self.wish.always:
            self._check_wish()
        elif error:
            assert None in [machine.vm_state for machine in possible]
        else:
            assert result == (model.DISK, None)

    # Power sync.

    def _sync(self, disturbance=None):
        node = self.ironic.node(self.node)
        if node.maintenance:
            self._end_maintenance()
            node = self.ironic.node(self.node)
        before = self._before()
        with self.wire.driver(disturbance):
            failures = self.ironic.sync(self.node)
        now, sent = self._after()
        recorded, node = node, self.ironic.node(self.node)
        self._result(f'{recorded.power_state} became {node.power_state}; '
                     f'{_told(now)}, {sent or "nothing"} sent, '
                     f'{failures} failures')
        self._check_sync(before, recorded.power_state, node, sent, failures,
                         disturbance is not None and disturbance.struck)
        self.failures = failures
        self._check_wish()

    def _end_maintenance(self):
        self._note('   (an operator ends the maintenance)')
        self.ironic.update(self.node, maintenance=False, fault=None)

    def _check_sync(self, before, recorded, node, sent, failures, struck):
        words = {True: model.ON, False: model.OFF, None: None}
        truth = words[before.on]
        maintenance = failures > self.ironic.sync_retries
        assert node.maintenance is maintenance, node.maintenance_reason
        assert failures <= self.failures + 1
        readings = {words[machine.on] for machine in self._possible()}
        if struck or readings != {truth}:
            # Either it was seen as it is or nothing has happened.
            if sent:
                assert recorded not in (None, truth) and self.force
                self._check_unfinished(recorded, sent)
                booted = [model.BOOTS[action] for action in sent
                          if action in model.BOOTS]
                device = self.ironic.get_boot_device(self.node)
                if booted and recorded == model.ON and device != (
                        self.wish.once, False):
                    self.wish.booted()
            assert node.power_state in {recorded, None, *readings}
        elif truth is None or self.interrupted:
            # Nobody can tell; in the end Ironic says so.
            assert not sent
            assert node.power_state == (None if maintenance else recorded)
            if recorded is not None:
                assert failures == self.failures + 1
        elif recorded is None and before.vm_state in model.UNUSABLE:
            # Ironic does not sync a node that was never valid.
            assert not sent
            assert node.power_state is None
            assert failures == 0
        elif recorded in (None, truth):
            assert not sent
            assert node.power_state == truth
            assert failures == 0
        elif maintenance or not self.force:
            assert not sent
            assert node.power_state == truth
        else:
            expected = model.expect(before, recorded, self.wish)
            assert node.power_state == recorded
            if expected.refusal:
                assert node.last_error, 'the refusal is told nowhere'
                assert model.tells(expected.refusal, node.last_error), (
                    node.last_error)
                assert not sent
            else:
                assert not node.last_error, node.last_error
                self._check_returned(expected, before, sent, True)

    @stateful.rule()
    def sync(self):
        """Let Ironic's power sync run."""
        self._step('periodic tasks')
        if self.interrupted:
            self._finish()
        else:
            self._sync()

    @stateful.rule(
        moment=_moments,
        kind=strategies.sampled_from(sorted(model_wire.FAULTS)),
        times=strategies.sampled_from([1, 1, 2, 4]))
    def sync_with_fault(self, moment, kind, times):
        """Let Ironic's power sync run while the host cloud fails."""
        at, of_actions = moment
        self._step(f'power sync with fault: {times} x {kind} from '
                   f'{"action" if of_actions else "HTTP request"} {at + 1}')
        self._sync(model_wire.Fault(kind, at, of_actions, times))

    @stateful.rule(
        moment=_moments,
        kind=strategies.sampled_from(sorted(model_wire.FAULTS)),
        request=_requests)
    def die_and_finish_with_fault(self, moment, kind, request):
        """Let a conductor die, and the cloud fail when another goes on."""
        self.request_and_die(request, moment, True)
        if self.interrupted:
            self._step(f'periodic task with fault: {kind}')
            self._finish(model_wire.Fault(kind, 0, False))

    # Those who go past Ironic.

    def _choose(self, data, machine, *more):
        names = model_cloud.BEGINNINGS.get(machine.vm_state)
        if machine.locked or not names:
            return None
        return data.draw(strategies.sampled_from(names + more))

    @stateful.rule(data=strategies.data())
    def meddle(self, data):
        """Let somebody go past Ironic, and wait for the end."""
        before = self._before()
        if before.vm_state is None:
            self._replace()
            return
        if before.locked:
            name = 'unlock'
        else:
            names = (*model_cloud.PERMITTED.get(before.vm_state, ()),
                     'lock', 'lock by the administrator', 'delete')
            name = data.draw(strategies.sampled_from(names))
        self.drifted = True
        self._step(f'past Ironic: {name}')
        if self.under_way:
            self._after()
        if name == 'delete':
            self.cloud.delete(self.server)
            self._see(model.Machine(None))
            self._new_rows()
            return
        begun = self.cloud.act(self.server, name)
        self._see(self.cloud.wait(
            self.server,
            model_cloud.ends_in(name, before.vm_state) if begun else None,
            model_cloud.MEDDLING[name].guest_on if begun else None))
        self._new_rows()
        self._result(f'{self.machine.vm_state}' if begun else 'refused')

    def _replace(self):
        self._step('past Ironic: another server takes the place')
        self.server = self.cloud.create()
        self.known_rows.clear()
        self._see(self.cloud.wait(self.server))
        self._new_rows()
        self.ironic.update(self.node, driver_info={
            'quintupleo_server': self.server})
        self.interrupted = self.ironic.interrupted(self.node)

    @stateful.rule(data=strategies.data())
    def begin_to_meddle(self, data):
        """Let somebody go past Ironic; the next step comes in between."""
        name = self._choose(data, self._before())
        if name is None:
            self.meddle(data)
            return
        self.drifted = True
        self._step(f'past Ironic, not waited for: {name}')
        if self.cloud.act(self.server, name):
            self.under_way = True
        else:
            self._result('refused')
        self._before()
