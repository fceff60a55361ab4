# SPDX-License-Identifier: Apache-2.0
"""Which server actions Nova permits in which state, and what they lead to.

Written from the ``check_instance_state`` decorators in Nova's
``nova/compute/api.py`` and independently of
:mod:`quintupleo_power.transitions`, which is tested against it.
"""

import dataclasses

RUNNING = 1
SHUTDOWN = 4


@dataclasses.dataclass(frozen=True)
class Action:
    """One action of ``POST /servers/{id}/action``.

    :ivar permitted_in: vm_states in which Nova takes it.
    :ivar task_state: what is under way while it goes on.
    :ivar vm_state: vm_state that it ends in; None if that depends on where it
        begins.
    :ivar power_state: power_state that it ends in.
    :ivar word: the action's name in ``os-instance-actions``.
    """

    permitted_in: tuple
    task_state: str
    vm_state: str | None
    power_state: int | None
    word: str

    def end(self, vm_state):
        """Tell where it leaves a server.

        :param vm_state: where it begins.
        :returns: (vm_state, power_state).
        """
        if self.vm_state is not None:
            return self.vm_state, self.power_state
        if vm_state == 'stopped':
            return vm_state, SHUTDOWN
        return ('active' if self.word == 'rebuild' else vm_state), RUNNING


_RESTARTABLE = ('active', 'stopped', 'paused', 'suspended', 'error')

ACTIONS = {
    'start': Action(('stopped',), 'powering-on', 'active', RUNNING, 'start'),
    'stop': Action(('active', 'error'), 'powering-off', 'stopped', SHUTDOWN,
                   'stop'),
    'hard reboot': Action(_RESTARTABLE, 'rebooting_hard', 'active', RUNNING,
                          'reboot'),
    'soft reboot': Action(('active',), 'rebooting', 'active', RUNNING,
                          'reboot'),
    'rescue': Action(('active', 'stopped', 'error'), 'rescuing', 'rescued',
                     RUNNING, 'rescue'),
    'unrescue': Action(('rescued',), 'unrescuing', 'active', RUNNING,
                       'unrescue'),
    'unpause': Action(('paused',), 'unpausing', 'active', RUNNING,
                      'unpause'),
    'rebuild': Action(('active', 'stopped', 'error'), 'rebuilding', None,
                      None, 'rebuild'),
    'snapshot': Action(('active', 'stopped', 'paused', 'suspended'),
                       'image_snapshot', None, None, 'createImage'),
}

# Where Nova takes an NMI, which leads nowhere else
# (ALLOW_TRIGGER_CRASH_DUMP in nova/compute/vm_states.py).
NMI_PERMITTED_IN = ('active', 'paused', 'rescued', 'resized', 'error')

# The word that ``status`` has for a vm_state.
STATUS = {
    'active': 'ACTIVE',
    'building': 'BUILD',
    'deleted': 'DELETED',
    'error': 'ERROR',
    'paused': 'PAUSED',
    'rescued': 'RESCUE',
    'resized': 'VERIFY_RESIZE',
    'shelved': 'SHELVED',
    'shelved_offloaded': 'SHELVED_OFFLOADED',
    'soft-delete': 'SOFT_DELETED',
    'stopped': 'SHUTOFF',
    'suspended': 'SUSPENDED',
}

# What ``remote_consoles`` takes: the types of each protocol that Nova has a
# handler for (nova/api/openstack/compute/remote_consoles.py), 2.98.
CONSOLE_TYPES = {
    'vnc': ('novnc',),
    'spice': ('spice-html5',),
    'serial': ('serial',),
    'mks': ('webmks',),
}


def tail(text, length):
    """Cut a console log (``ComputeManager._tail_log``); None for no cut."""
    if length is None:
        return text
    return '\n'.join(text.split('\n')[-length:]) if length else ''
