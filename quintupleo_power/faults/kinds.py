# SPDX-License-Identifier: Apache-2.0
"""The kinds of faults, and when one happens: without Ironic, for commands."""

import random
import secrets

_POWER = 'set_power_state'

# What each kind happens to, see injection._kinds_for, and what it does.
KINDS = {
    'power-fails': (_POWER, 'a power request fails'),
    'power-hangs': (_POWER, 'a power request takes seconds longer, or fails'),
    'power-ignored': (_POWER, 'a power request is answered and not done'),
    'power-late': (_POWER, 'a power request is answered and done later'),
    'power-state-lies': ('get_power_state', 'on is off, and off is on'),
    'reboot-stays-off': ('reboot', 'a reboot powers the machine off'),
    'boot-device-ignored': ('set_boot_device', 'a boot device is not set'),
    'boot-device-lost': ('persistent', 'a boot device is for one boot only'),
    'virtual-media-lost': ('boot_iso', 'the ISO to boot from is gone'),
    'console-away': ('get_console', 'the console cannot be reached'),
    'nmi-ignored': ('inject_nmi', 'an NMI is answered and not injected'),
}
TAKE_SECONDS = ('power-hangs', 'power-late')

# The arguments that are numbers: type, the least and the greatest, meaning.
NUMBERS = {
    'times': (int, 1, 10 ** 6, 'How often it happens (default: once, or '
              'without an end with --probability)'),
    'seconds': (int, 1, 3600, 'How long a request hangs, or how late it is'),
    'probability': (float, 0, 1, 'How likely a request meets it, 0 to 1'),
    'seed': (int, 0, 10 ** 9, 'Which requests meet it (default: random)'),
}


def parse(arguments: dict) -> dict:
    """Return the fault that ``kind`` and :data:`NUMBERS` describe.

    Its ``times`` is how often it is still to happen, None until it is
    deleted; its ``draws`` are the requests for which that was decided.

    :raises: ValueError with what is wrong.
    """
    kind = arguments.get('kind')
    if kind not in [*KINDS]:
        raise ValueError(f"'kind' must be one of {', '.join(KINDS)}")
    if unknown := {*arguments} - {'kind', *NUMBERS}:
        raise ValueError(f"'{min(unknown)}' is not an argument: they are kind,"
                         f' {", ".join(NUMBERS)}')
    times, seconds, probability, seed = (
        _number(name, arguments.get(name)) for name in NUMBERS)
    if (kind in TAKE_SECONDS) is (seconds is None):
        raise ValueError(f"{kind} takes {'' if seconds is None else 'no '}"
                         "'seconds'")
    if probability is None:
        if seed is not None:
            raise ValueError("'seed' goes with 'probability' only")
        times, probability = times or 1, 1.0
    return {'id': f'{kind}-{secrets.token_hex(3)}', 'kind': kind,
            'times': times, 'seconds': seconds, 'probability': probability,
            'seed': secrets.randbelow(10 ** 6) if seed is None else seed,
            'draws': 0, 'injected': 0}


def _number(name, value):
    """Return a number, of which Ironic's client sends the text."""
    convert, least, most, _ = NUMBERS[name]
    if value is None:
        return None
    try:
        found = convert(str(value))
    except ValueError:
        found = -1
    if not least <= found <= most:
        raise ValueError(f"'{name}' must be a number from {least} to {most}")
    return found


def draw(fault: dict) -> bool:
    """Return whether a fault happens to a request, and count that.

    The seed and the number of draws decide alone: the same requests meet the
    same faults.
    """
    chance = random.Random(  # nosec B311
        f'{fault["seed"]}/{fault["draws"]}').random()
    happens = chance < fault['probability']
    fault['draws'] += 1
    fault['injected'] += happens
    if fault['times'] is not None:
        fault['times'] -= happens
    return happens
