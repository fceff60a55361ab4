# SPDX-License-Identifier: Apache-2.0
"""How each cell of the state table is proved.

Read by the tests, which prove it, and by the documentation, which shows it.
"""

import itertools

from quintupleo_power import transitions

Situation = transitions.Situation

FAKE, GUESTS, UNIT = 'fake', 'guests', 'unit'
MARKS = {
    FAKE: 'a real Nova with a fake hypervisor (``tests/functional``)',
    GUESTS: 'real guests under libvirt as well (``tests/e2e``)',
    UNIT: 'only a model of Nova (``tests/unit``), for the reason below',
}

# What leads an ACTIVE server into a situation, in the words of model_cloud.py.
WAYS_IN = {
    Situation.SHUTOFF: ('stop',),
    Situation.ACTIVE: (),
    Situation.RESCUE: ('rescue',),
    Situation.RESCUE_GUEST_OFF: ('rescue', 'guest switches itself off'),
    Situation.ERROR: ('set to ERROR by the administrator',),
    Situation.PAUSED: ('pause',),
    Situation.SUSPENDED: ('suspend',),
    Situation.SHELVED: ('shelve',),
    Situation.VERIFY_RESIZE: ('resize',),
}

# These are refused for every request; each has a test of its own.
ALSO_MET = (Situation.BUILD, Situation.SOFT_DELETED, Situation.DELETED)

NOT_MET = {
    Situation.ACTIVE_GUEST_OFF:
        'Nova stops a server whose guest switched itself off in the moment '
        'in which it records the guest as off, so that a request meets a '
        'task in progress or SHUTOFF instead.',
    Situation.UNKNOWN:
        'It takes a second cell whose database is cut off, which minicloud '
        'does not have; the form of the answer is that of Nova\'s API '
        'reference.',
}

# What the lives of machines in the end-to-end tests pass through.
WITH_GUESTS = {
    (Situation.SHUTOFF, 'on_disk'), (Situation.SHUTOFF, 'on_pxe'),
    (Situation.SHUTOFF, 'off'),
    (Situation.SHUTOFF, 'rebuild'), (Situation.SHUTOFF, 'snapshot'),
    (Situation.ACTIVE, 'rebuild'), (Situation.ACTIVE, 'snapshot'),
    (Situation.ACTIVE, 'off'), (Situation.ACTIVE, 'reboot_disk'),
    (Situation.ACTIVE, 'reboot_pxe'),
    (Situation.RESCUE, 'off'), (Situation.RESCUE, 'reboot_disk'),
    (Situation.RESCUE_GUEST_OFF, 'on_disk'),
}

COLUMNS = transitions.Row._fields
CELLS = tuple(itertools.product(
    (situation for situation in WAYS_IN if situation in transitions.TABLE),
    COLUMNS))
REFUSED = tuple(
    situation for situation in WAYS_IN if situation in transitions.REFUSALS)


def proof(situation, column):
    """Tell how a cell is proved.

    :param situation: a :class:`transitions.Situation`.
    :param column: a field of :class:`transitions.Row`.
    :returns: one of :data:`MARKS`.
    :raises: KeyError if the cell is neither proved nor excused.
    """
    if (situation, column) in WITH_GUESTS:
        return GUESTS
    if situation in WAYS_IN or situation in ALSO_MET:
        return FAKE
    NOT_MET[situation]
    return UNIT
