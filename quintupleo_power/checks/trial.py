# SPDX-License-Identifier: Apache-2.0
"""What only a trial shows: a server, made, used and removed."""

import json
import secrets
import time

from quintupleo_power.checks import access
from quintupleo_power.checks import clouds
from quintupleo_power.checks import images
from quintupleo_power.checks import quotas
from quintupleo_power.checks import results
from quintupleo_power.checks import servers
from quintupleo_power.environments import definition
from quintupleo_power.environments import environment
from quintupleo_power.environments import errors as env_errors
from quintupleo_power.environments import plan
from quintupleo_power.environments import progress
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images as host_images
from quintupleo_power.host_cloud import server_requests
from quintupleo_power import transitions

SERVER, POWER = 'trial machine', 'power'

# A network of the environment's own has no port security, and a NIC on it a
# MAC address of our choice, which is what is to be tried.
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
    """A server to try things with, until :meth:`close`."""

    def __init__(self, target: clouds.Cloud, flavor: str,
                 shown: progress.Progress, timeout: float):
        """Prepare to wait so many seconds for each thing; make nothing."""
        self._name = name = f'quintupleo-check-{secrets.token_hex(4)}'
        self._connection = target.connection
        self._host = target.host
        self._flavor = flavor
        self._shown = shown
        self._timeout = timeout
        self._operations = server_requests.Operations(target.host, timeout)
        self._may_be_there = False
        self._advice = f'run "openstack quintupleo environment delete {name}"'

    def close(self) -> None:
        """Remove what is left; raise EnvironmentsError of what stays."""
        left = self._may_be_there and self._remove()
        if left:
            raise env_errors.EnvironmentsError(
                f'{left}\nTo remove what is left of the trial, '
                f'{self._advice}')

    def checks(self) -> list[results.Check]:
        """Return the checks that use the server; :meth:`removal` is last."""
        return [
            results.Check(SERVER, self._make, lambda made: results.passed(
                f'server {made.id}, with a network without DHCP and port '
                'security and a MAC address that was chosen'), (
                images.name(images.RESCUE, host_images.BIOS),
                images.name(images.EMPTY, host_images.BIOS),
                quotas.FLAVOR)),
            results.Check(POWER, self._switch, needs=(SERVER,)),
            servers.console_check(self._host, SERVER),
            # It may well be empty so early.
            results.Check(
                'console log',
                lambda facts: consoles.log(self._host.compute, facts[SERVER]),
                lambda text: results.passed(f'{len(text)} characters'),
                (SERVER,)),
            results.Check(access.RESCUE, self._rescue,
                          needs=(SERVER, POWER))]

    def removal(self) -> results.Check:
        """Return the check of whether all of it can be removed."""
        return results.Check(
            'trial removal', lambda facts: self._remove(), lambda left: (
                results.failed(left, self._advice) if left
                else results.passed('nothing is left of it')))

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
        made = self._environments().create(wanted, self._name)
        return self._host.servers.get(made.all(plan.SERVER)[0].id)

    def _switch(self, facts):
        # An environment's servers are off when they are made.
        begun = time.monotonic()
        for request in (transitions.Request.POWER_ON,
                        transitions.Request.POWER_OFF,
                        transitions.Request.POWER_ON):
            self._operations.run(facts[SERVER].id, request)
        return results.passed(
            f'on, off and on again in {time.monotonic() - begun:.1f} s')

    def _rescue(self, facts):
        """Boot the server from the network, and then from its disk."""
        image = _image(facts, images.RESCUE, _mode(facts))
        begun = time.monotonic()
        self._operations.run(facts[SERVER].id, transitions.Request.REBOOT,
                             image, transitions.Device.PXE)
        rescued = time.monotonic()
        self._operations.run(facts[SERVER].id, transitions.Request.REBOOT)
        return results.passed(
            f'rescued in {rescued - begun:.1f} s, unrescued in '
            f'{time.monotonic() - rescued:.1f} s')

    def _remove(self):
        """Return what could not be removed and why; empty if nothing."""
        self._may_be_there = False
        try:
            with env_errors.translated():
                self._environments().delete(self._name)
        except (env_errors.EnvironmentsError, KeyboardInterrupt) as exc:
            return '; '.join(str(exc).splitlines()) or 'Interrupted'
        return ''


def _mode(facts):
    """Return the boot mode that has both images."""
    for mode in images.BOOT_MODES:
        if all(isinstance(facts[images.name(purpose, mode)][mode], dict)
               for purpose in (images.RESCUE, images.EMPTY)):
            return mode
    raise errors.UnsuitableImage(
        'no boot mode has both a rescue image and an empty one')


def _image(facts, purpose, mode):
    return facts[images.name(purpose, mode)][mode]['id']
