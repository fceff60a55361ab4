# SPDX-License-Identifier: Apache-2.0
"""The state table: from what a server is to what Nova must be asked.

This module is pure: it imports neither Ironic nor openstacksdk, reads no
clock and makes no request. What Nova permits in which state is read from
Nova's ``nova/compute/api.py`` (the ``check_instance_state`` decorators) and
was run against a real Nova.
"""

import collections
import dataclasses
import enum


class Request(enum.Enum):
    """What Ironic asks of a node."""

    POWER_ON = 'power on'
    POWER_OFF = 'power off'
    REBOOT = 'reboot'
    SOFT_POWER_OFF = 'soft power off'
    SOFT_REBOOT = 'soft reboot'
    REBUILD = 'rebuild'
    SNAPSHOT = 'snapshot'
    END_RESCUE = 'end of the rescue'

    @property
    def ends_on(self) -> bool:
        """Whether the node is to be powered on when the request is done."""
        return self not in (*_ENDS_OFF, Request.END_RESCUE)


# Their columns of the table; no boot device changes what they come to.
_ENDS_OFF = {
    Request.POWER_OFF: 'off',
    Request.SOFT_POWER_OFF: 'soft_off',
    Request.REBUILD: 'rebuild',
    Request.SNAPSHOT: 'snapshot',
}


class Device(enum.Enum):
    """What a node boots from."""

    DISK = 'disk'
    PXE = 'pxe'
    CDROM = 'cdrom'

    @property
    def by_rescue(self) -> bool:
        """Whether a rescue is what boots it, with an image beside the disk."""
        return self is not Device.DISK


class Action(enum.Enum):
    """A Nova server action; the value is the word an operator knows."""

    START = 'start'
    STOP = 'stop'
    HARD_REBOOT = 'hard reboot'
    SOFT_REBOOT = 'soft reboot'
    RESCUE = 'rescue'
    UNRESCUE = 'unrescue'
    UNPAUSE = 'unpause'
    REBUILD = 'rebuild'
    SNAPSHOT = 'snapshot'

    @property
    def boots(self) -> bool:
        """Whether the guest starts again, from the wished device."""
        return self not in (Action.STOP, Action.UNPAUSE, Action.REBUILD,
                            Action.SNAPSHOT)


class PowerState(enum.IntEnum):
    """Nova's power states (``nova/objects/fields.py``)."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


GUEST_OFF = frozenset((PowerState.SHUTDOWN, PowerState.CRASHED))


class Situation(enum.Enum):
    """A server's state, as far as the next action depends on it."""

    SHUTOFF = 'SHUTOFF'
    ACTIVE = 'ACTIVE'
    ACTIVE_GUEST_OFF = 'ACTIVE, guest switched off'
    RESCUE = 'RESCUE'
    RESCUE_GUEST_OFF = 'RESCUE, guest switched off'
    ERROR = 'ERROR'
    PAUSED = 'PAUSED'
    SUSPENDED = 'SUSPENDED'
    BUILD = 'BUILD'
    SHELVED = 'SHELVED or SHELVED_OFFLOADED'
    VERIFY_RESIZE = 'VERIFY_RESIZE'
    SOFT_DELETED = 'SOFT_DELETED'
    DELETED = 'DELETED'
    UNKNOWN = 'UNKNOWN'


@dataclasses.dataclass(frozen=True)
class ServerState:
    """The part of a server that the table looks at.

    :ivar vm_state: ``OS-EXT-STS:vm_state`` as Nova reports it.
    :ivar power_state: ``OS-EXT-STS:power_state`` as Nova reports it.
    :ivar task_state: ``OS-EXT-STS:task_state``, None when nothing is under
        way.
    """

    vm_state: str
    power_state: int = PowerState.NOSTATE
    task_state: str | None = None


class Refused(Exception):
    """The server is in a state that no permitted action leads out of."""


# Reached after an action, with the guest running or not.
_VM_STATE_AFTER = {
    Action.START: 'active',
    Action.STOP: 'stopped',
    Action.HARD_REBOOT: 'active',
    Action.SOFT_REBOOT: 'active',
    Action.RESCUE: 'rescued',
    Action.UNRESCUE: 'active',
    Action.UNPAUSE: 'active',
}

_SITUATIONS = {
    'active': Situation.ACTIVE,
    'stopped': Situation.SHUTOFF,
    'rescued': Situation.RESCUE,
    'error': Situation.ERROR,
    'paused': Situation.PAUSED,
    'suspended': Situation.SUSPENDED,
    'building': Situation.BUILD,
    'shelved': Situation.SHELVED,
    'shelved_offloaded': Situation.SHELVED,
    'resized': Situation.VERIFY_RESIZE,
    'soft-delete': Situation.SOFT_DELETED,
    'deleted': Situation.DELETED,
}

# Tasks in progress that lead to a guest that is on, and to one that is off.
_TASKS_TO_ON = frozenset((
    'powering-on', 'rebooting', 'reboot_pending', 'reboot_started',
    'rebooting_hard', 'reboot_pending_hard', 'reboot_started_hard',
    'rescuing', 'unrescuing', 'unpausing', 'resuming', 'unshelving'))
_TASKS_TO_OFF = frozenset(('powering-off', 'suspending', 'shelving'))

Row = collections.namedtuple('Row', (
    'on_disk', 'on_pxe', 'off', 'reboot_disk', 'reboot_pxe',
    'soft_off', 'soft_reboot_disk', 'soft_reboot_pxe',
    'rebuild', 'snapshot'))

_START, _STOP, _RESCUE, _UNRESCUE, _HARD, _SOFT, _UNPAUSE = (
    (Action.START,), (Action.STOP,), (Action.RESCUE,), (Action.UNRESCUE,),
    (Action.HARD_REBOOT,), (Action.SOFT_REBOOT,), (Action.UNPAUSE,))
_REBUILD, _SNAPSHOT = (Action.REBUILD,), (Action.SNAPSHOT,)
_NOTHING = ()


def _row(on_disk, on_pxe, off, reboot_disk, soft_reboot_disk=None,
         first=_NOTHING):
    """Return a row, the rest of which follows from some of its columns.

    Nova's stop shuts the guest down, so that it serves a soft power off, too.

    :param first: what leads to where Nova rescues, stops and rebuilds.
    """
    reboot_pxe = first + _RESCUE
    return Row(
        on_disk=on_disk, on_pxe=on_pxe, off=off,
        reboot_disk=reboot_disk, reboot_pxe=reboot_pxe,
        soft_off=off, soft_reboot_disk=soft_reboot_disk or reboot_disk,
        soft_reboot_pxe=reboot_pxe,
        # Of a server in ERROR a rebuild mends what a stop may stumble over,
        # so it comes first.
        rebuild=first + _REBUILD + _STOP, snapshot=first + _STOP + _SNAPSHOT)


# Nova leaves RESCUE only by unrescue, which boots the server's own disk:
# that is why some rows pass through it.
TABLE = {
    # Nova stops again what it has rebuilt of a stopped server.
    Situation.SHUTOFF: _row(
        on_disk=_START, on_pxe=_RESCUE, off=_NOTHING, reboot_disk=_START,
    )._replace(rebuild=_REBUILD, snapshot=_SNAPSHOT),
    Situation.ACTIVE: _row(
        on_disk=_NOTHING, on_pxe=_NOTHING, off=_STOP, reboot_disk=_HARD,
        soft_reboot_disk=_SOFT),
    Situation.ACTIVE_GUEST_OFF: _row(
        on_disk=_HARD, on_pxe=_RESCUE, off=_STOP, reboot_disk=_HARD),
    Situation.RESCUE: _row(
        on_disk=_NOTHING, on_pxe=_NOTHING, off=_UNRESCUE + _STOP,
        reboot_disk=_UNRESCUE, first=_UNRESCUE),
    Situation.RESCUE_GUEST_OFF: _row(
        on_disk=_UNRESCUE, on_pxe=_UNRESCUE + _RESCUE, off=_NOTHING,
        reboot_disk=_UNRESCUE, first=_UNRESCUE),
    Situation.ERROR: _row(
        on_disk=_HARD, on_pxe=_RESCUE, off=_STOP, reboot_disk=_HARD),
    # A paused server is on: it goes on where it stood, as one that was
    # never paused would.
    Situation.PAUSED: _row(
        on_disk=_UNPAUSE, on_pxe=_UNPAUSE, off=_UNPAUSE + _STOP,
        reboot_disk=_HARD, first=_UNPAUSE),
    # A suspended server is off: powered on, it boots and loses its memory.
    Situation.SUSPENDED: _row(
        on_disk=_HARD, on_pxe=_HARD + _RESCUE, off=_NOTHING,
        reboot_disk=_HARD, first=_HARD),
}

REFUSALS = {
    Situation.BUILD:
        'it is still being built: wait until it is ACTIVE or SHUTOFF',
    Situation.SHELVED:
        'it is shelved: run "openstack server unshelve" first',
    Situation.VERIFY_RESIZE:
        'a resize waits to be confirmed: run "openstack server resize '
        'confirm" or "openstack server resize revert" first',
    Situation.SOFT_DELETED:
        'it was deleted: run "openstack server restore" while the host cloud '
        'still keeps it, or point the node at another server',
    Situation.DELETED:
        'it was deleted: point the node at another server',
    Situation.UNKNOWN:
        'the host cloud does not show its state, as when the cell that it '
        'is in is down: try again later or ask the operator of the host cloud',
}

NO_CDROM = ('it is a network-first server, which boots no virtual media: use '
            'boot_interface ipxe, or make it a server that can be rescued')

BOOT_NOT_KNOWN = (
    'whether it is a network-first server, which is not to be rescued, is not '
    'known, as the host cloud does not show the volumes that it boots from: '
    'try again later, or have these credentials permitted to read them')

STAYS_ON = ('disable_power_off of the node forbids to power it off: unset it '
            'for as long as the node may be off')


def situation(state: ServerState) -> Situation:
    """Return the situation that a server's state is."""
    found = _SITUATIONS.get(state.vm_state, Situation.UNKNOWN)
    if state.power_state in GUEST_OFF:
        if found is Situation.ACTIVE:
            return Situation.ACTIVE_GUEST_OFF
        if found is Situation.RESCUE:
            return Situation.RESCUE_GUEST_OFF
    return found


def refusal(state: ServerState) -> str | None:
    """Return why no request can be served as things stand, and what to do.

    :returns: None when requests can be served.
    """
    return REFUSALS.get(situation(state))


def plan(state: ServerState, request: Request, device: Device,
         network_first: bool | None = False,
         stays_on: bool = False) -> tuple[Action, ...]:
    """Return the Nova actions that fulfil a request, in their order.

    A lock is not part of it: Nova alone knows whom it stops.

    :param state: the server's, with no task in progress.
    :param device: the wished one.
    :param network_first: whether the server asks the network at each boot by
        itself: then both devices are a boot of its own, and no rescue. None
        if that is not known.
    :param stays_on: whether the server must not be stopped: what else leaves
        it off leaves it on then.
    :raises: Refused with the sentence that helps, when no action does.
    """
    if refusal(state):
        raise Refused(refusal(state))
    row = TABLE[situation(state)]
    if not request.ends_on:
        if request is Request.END_RESCUE:
            actions = (_UNRESCUE + _STOP if state.vm_state == 'rescued'
                       else _NOTHING)
        else:
            actions = getattr(row, _ENDS_OFF[request])
        return _staying_on(request, actions) if stays_on else actions
    column = {Request.POWER_ON: 'on', Request.REBOOT: 'reboot',
              Request.SOFT_REBOOT: 'soft_reboot'}[request]
    if network_first:
        if device is Device.CDROM:
            raise Refused(NO_CDROM)
        device = Device.DISK
    actions = getattr(row, f'{column}_{"pxe" if device.by_rescue else "disk"}')
    if network_first is None and Action.RESCUE in actions:
        raise Refused(BOOT_NOT_KNOWN)
    return actions


def _staying_on(request, actions):
    """Return actions that leave a server on, where it may not be off."""
    if request is Request.REBUILD and Action.STOP not in actions:
        return actions + _START
    if request not in (Request.REBUILD, Request.END_RESCUE) and (
            Action.STOP in actions):
        raise Refused(STAYS_ON)
    return tuple(each for each in actions if each is not Action.STOP)


def reached(action: Action, state: ServerState, begun_in: str) -> bool:
    """Return whether an action has led to where it should.

    It has when no task is in progress, the server is in the state that the
    action leads to and the guest is off or not off with it.

    :param state: the server's, seen afterwards.
    :param begun_in: the ``vm_state`` in which the action was sent.
    """
    wanted = _VM_STATE_AFTER.get(action, begun_in)
    if action is Action.REBUILD and begun_in != 'stopped':
        wanted = 'active'
    if state.task_state or state.vm_state != wanted:
        return False
    return (state.power_state in GUEST_OFF) == (wanted == 'stopped')


def is_on(state: ServerState) -> bool | None:
    """Return whether the server is powered on; None if that is not known.

    A task in progress counts as done: Ironic would otherwise see a node
    change its power state by itself and force it back.
    """
    if state.task_state in _TASKS_TO_ON | _TASKS_TO_OFF:
        return state.task_state in _TASKS_TO_ON
    if state.task_state:
        # A resize or a rebuild switches the guest off for a while.
        state = dataclasses.replace(state, power_state=PowerState.NOSTATE)
    now = situation(state)
    if now in (Situation.ACTIVE, Situation.RESCUE, Situation.PAUSED):
        return True
    if now in (Situation.SHUTOFF, Situation.ACTIVE_GUEST_OFF,
               Situation.RESCUE_GUEST_OFF, Situation.SUSPENDED,
               Situation.SHELVED):
        return False
    if now is Situation.VERIFY_RESIZE:
        return state.power_state not in GUEST_OFF
    return None


def device_in_use(state: ServerState) -> Device:
    """Return what a server boots from, with PXE for a rescue of any kind."""
    if state.task_state == 'rescuing':
        return Device.PXE
    if state.task_state == 'unrescuing':
        return Device.DISK
    return Device.PXE if state.vm_state == 'rescued' else Device.DISK
