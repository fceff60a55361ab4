# SPDX-License-Identifier: Apache-2.0
"""What only trying tells: a machine, made, used and removed."""

import json
import secrets
import time

from quintupleo_power.checks import images
from quintupleo_power.checks import quotas
from quintupleo_power.checks import results
from quintupleo_power.checks import servers
from quintupleo_power.environments import definition
from quintupleo_power.environments import environment
from quintupleo_power.environments import failures
from quintupleo_power.environments import operations
from quintupleo_power.environments import plan
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images as host_images
from quintupleo_power import transitions

MACHINE, POWER, LOG, REMOVAL = (
    'trial machine', 'power', 'console log', 'trial removal')

# A network of the environment's own has no port security, and a NIC on it a
# MAC address of our choice: what the file leaves out is just what is to be
# tried.
_FILE = '''
networks: {{check: {{subnets: [{{cidr: 192.0.2.0/24, gateway: false}}]}}}}
roles:
  machine:
    flavor: {flavor}
    boot_mode: {mode}
    image: {image}
    nics: [{{network: check}}]
'''


class Trial:
    """A machine to try things with, gone when its context ends."""

    def __init__(self, connection, compute, host, flavor, shown,
                 timeout=environment.TIMEOUT):
        """Prepare; nothing is made yet.

        :param connection: an openstacksdk ``Connection``.
        :param compute: the compute :class:`host_cloud.service.Service`.
        :param host: the :class:`host_cloud.cloud.HostCloud`.
        :param flavor: identifier or name of the machine's flavor.
        :param shown: the :class:`progress.Progress`.
        :param timeout: seconds to wait for each thing.
        """
        self.name = f'quintupleo-check-{secrets.token_hex(4)}'
        self._connection = connection
        self._host = host
        self._flavor = flavor
        self._shown = shown
        self._timeout = timeout
        self._operations = operations.Operations(compute, timeout)
        self._may_be_there = False

    def __enter__(self):
        """Begin; nothing is made yet."""
        return self

    def __exit__(self, *exc_info):
        """Remove what is left, also after the user's interrupt.

        :raises: failures.Failure that names what could not be removed.
        """
        left = self._may_be_there and self._remove()
        if left:
            raise failures.Failure(f'{left}\nTo remove what is left of the '
                                   f'trial, {self._advice}')

    def checks(self):
        """List the checks that use the machine.

        :returns: list of :class:`results.Check`; :meth:`removal` comes
            after whatever looks at the machine from outside.
        """
        need = (MACHINE,)
        return [
            results.Check(MACHINE, self._make, judge_made, (
                images.name(images.RESCUE, host_images.BIOS),
                images.name(images.EMPTY, host_images.BIOS),
                quotas.FLAVOR)),
            results.Check(POWER, self._switch, judge_power, need),
            servers.console_check(self._host, MACHINE, lambda facts:
                                   self._host.server(facts[MACHINE])),
            results.Check(LOG, lambda facts: self._host.console_log(
                self._host.server(facts[MACHINE])), judge_log, need),
            results.Check(quotas.RESCUE, self._rescue, judge_rescue,
                           (MACHINE, POWER)),
        ]

    def removal(self):
        """Make the check of whether all of it can be removed.

        :returns: a :class:`results.Check`.
        """
        return results.Check(REMOVAL, lambda facts: self._remove(),
                              self._judge_removal)

    def _judge_removal(self, left):
        if left:
            return results.failed(left, self._advice)
        return results.passed('nothing is left of it')

    @property
    def _advice(self):
        return ('run "openstack quintupleo environment delete '
                f'{self.name}"')

    def _environments(self):
        # One that was interrupted sends no request any more.
        return environment.Environments(
            self._connection, self._shown, timeout=self._timeout)

    def _make(self, facts):
        mode = _mode(facts)
        wanted = definition.parse(_FILE.format(
            flavor=json.dumps(self._flavor), mode=mode,
            image=_image(facts, images.EMPTY, mode)), 'the trial machine')
        self._may_be_there = True
        made = self._environments().create(wanted, self.name)
        return made.all(plan.SERVER)[0].id

    def _switch(self, facts):
        """Stop the machine, which its making has left off, and start it."""
        server_id = facts[MACHINE]
        begun = time.monotonic()
        for request in (transitions.Request.POWER_ON,
                        transitions.Request.POWER_OFF,
                        transitions.Request.POWER_ON):
            self._operations.run(server_id, request)
        return time.monotonic() - begun

    def _rescue(self, facts):
        """Boot the machine from the network, and then from its disk."""
        image = _image(facts, images.RESCUE, _mode(facts))
        begun = time.monotonic()
        self._operations.run(facts[MACHINE], transitions.Request.REBOOT,
                             image, transitions.Device.PXE)
        rescued = time.monotonic()
        self._operations.run(facts[MACHINE], transitions.Request.REBOOT)
        return rescued - begun, time.monotonic() - rescued

    def _remove(self):
        """Remove all of it.

        :returns: what could not be removed and why; empty if nothing is left.
        """
        self._may_be_there = False
        try:
            self._environments().delete(self.name)
        except (failures.Failure, *failures.CLOUD_ERRORS,
                KeyboardInterrupt) as exc:
            return '; '.join(str(exc).splitlines()) or 'Interrupted'
        return ''


def _mode(facts):
    """The boot mode that has both images."""
    for mode in images.BOOT_MODES:
        if all(isinstance(facts[images.name(purpose, mode)][mode], dict)
               for purpose in (images.RESCUE, images.EMPTY)):
            return mode
    raise errors.UnsuitableImage(
        'no boot mode has both a rescue image and an empty one')


def _image(facts, purpose, mode):
    """UUID of an image that was looked at."""
    return facts[images.name(purpose, mode)][mode]['id']


def judge_made(server_id):
    """Judge a machine that was made.

    :param server_id: UUID of its server.
    :returns: a :class:`results.Verdict`.
    """
    return results.passed(
        f'server {server_id}, with a network without DHCP and port security '
        'and a MAC address that was chosen')


def judge_power(seconds):
    """Judge the start, stop and start of a machine.

    :param seconds: what they took together.
    :returns: a :class:`results.Verdict`.
    """
    return results.passed(f'on, off and on again in {seconds:.1f} s')


def judge_log(text):
    """Judge a console log, which may well be empty so early.

    :param text: the log.
    :returns: a :class:`results.Verdict`.
    """
    return results.passed(f'{len(text)} characters')


def judge_rescue(seconds):
    """Judge a rescue and its end.

    :param seconds: (of the rescue, of the unrescue).
    :returns: a :class:`results.Verdict`.
    """
    return results.passed('rescued in %.1f s, unrescued in %.1f s' % seconds)
