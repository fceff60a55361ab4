# SPDX-License-Identifier: Apache-2.0
"""What an operator expects of a node whose machine is a Nova server.

Written from what Ironic promises and what Nova documents. It knows nothing of
the driver's own table: not which actions the driver sends, only where the
machine has to be and what it has to have booted from.
"""

import dataclasses

DISK, PXE = 'disk', 'pxe'
ON, OFF, REBOOT = 'power on', 'power off', 'rebooting'
SOFT_OFF, SOFT_REBOOT = 'soft power off', 'soft rebooting'

# In these nothing can be done with the power; a refusal has one of the words.
UNUSABLE = {None: ('does not exist', 'was deleted'), 'building': ('built',),
            'shelved': ('shelved',), 'shelved_offloaded': ('shelved',),
            'resized': ('resize',)}

LOCKED = ('lock',)

# What Nova calls an action in its record, and what the machine boots from.
BOOTS = {'start': DISK, 'reboot': DISK, 'unrescue': DISK, 'rescue': PXE}
LEAVES = {'stop': ('stopped', False), 'start': ('active', True),
          'reboot': ('active', True), 'rescue': ('rescued', True),
          'unrescue': ('active', True), 'pause': ('paused', True),
          'unpause': ('active', True), 'suspend': ('suspended', True),
          'resume': ('active', True)}


@dataclasses.dataclass(frozen=True)
class Machine:
    """What is true of a server.

    :ivar vm_state: Nova's, or None when it was deleted.
    :ivar guest_on: whether the guest runs.
    :ivar locked: whether somebody locked it.
    """

    vm_state: str | None
    guest_on: bool = False
    locked: bool = False

    @property
    def on(self):
        """Whether it is powered on; None when neither answer is honest."""
        if self.vm_state in (None, 'building', 'error'):
            return None
        return self.guest_on and self.vm_state not in (
            'suspended', 'shelved', 'shelved_offloaded')

    @property
    def device(self):
        """What it runs from, or would if its guest were on."""
        return PXE if self.vm_state == 'rescued' else DISK

    def after(self, action):
        """What it is when a Nova action that is under way has ended."""
        vm_state, guest_on = LEAVES.get(
            action, (self.vm_state, self.guest_on))
        return Machine(vm_state, guest_on, self.locked)


@dataclasses.dataclass
class Wish:
    """Which device Ironic was told to boot from."""

    always: str | None = None
    once: str | None = None

    @property
    def next(self):
        """What the next boot is from."""
        return self.once or self.always or DISK

    def record(self, device, persistent):
        """Take a boot device of Ironic's API."""
        if persistent:
            self.always, self.once = device, None
        else:
            self.once = device

    def booted(self):
        """The next boot has happened."""
        self.once = None


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a request has to come to.

    :ivar refusal: words of which the sentence that refuses it has one; empty
        if it is not to be refused.
    :ivar on: whether the machine is on afterwards.
    :ivar boots: whether it boots, at last from the wished device.
    """

    refusal: tuple = ()
    on: bool | None = None
    boots: bool = False


def tells(words, text):
    """Whether a sentence has one of some words."""
    return any(word in text for word in words)


def expect(machine, request, wish):
    """Tell what a power request to Ironic has to come to."""
    if machine.vm_state in UNUSABLE:
        return Expected(refusal=UNUSABLE[machine.vm_state])
    wants_on = request not in (OFF, SOFT_OFF)
    if machine.on is wants_on and request in (ON, OFF, SOFT_OFF):
        return Expected(on=wants_on)
    if machine.locked:
        return Expected(refusal=LOCKED)
    return Expected(on=wants_on, boots=wants_on)
