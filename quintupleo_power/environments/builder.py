# SPDX-License-Identifier: Apache-2.0
"""Makes what is missing of an environment, and completes what is there."""

import collections
import functools
import threading

from quintupleo_power.environments import attachments
from quintupleo_power.environments import machines
from quintupleo_power.environments import networking
from quintupleo_power.environments import parallel
from quintupleo_power.environments import plan
from quintupleo_power.environments import remover

_NEUTRON = (plan.NETWORK, plan.SUBNET, plan.ROUTER, plan.INTERFACE,
            plan.VIRTUAL_IP, plan.PORT, plan.SUBPORT, plan.TRUNK,
            plan.FLOATING_IP)
# What is done with a server that is there, and with what it has lost.
COMPLETE, ATTACH = 'complete', 'attach'
_TITLES = {**plan.TITLES, COMPLETE: 'servers ready', ATTACH: 'attachments'}


class Builder:
    """Makes one environment."""

    def __init__(self, connection, patience, inventory, choices, record,
                 shown, timeout):
        """Prepare.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        :param inventory: the :class:`inventory.Inventory`.
        :param choices: the :class:`choices.Choices`.
        :param record: the :class:`record.Record`.
        :param shown: the :class:`progress.Progress`.
        :param timeout: seconds to wait for one server or volume.
        """
        wanted = record.definition
        self._nova = connection.compute
        self._patience = patience
        self._shown = shown
        self._items = plan.items(wanted)
        self._networking = networking.Networking(
            connection, patience, inventory, choices, record.name)
        self._machines = machines.Machines(
            connection, patience, inventory, choices, record.name, timeout,
            wanted)
        self._remover = remover.Remover(connection, patience, inventory)
        self._lock = threading.Lock()
        self._made = {}

    def build(self, found, wait):
        """Make what is missing.

        :param found: list of :class:`inventory.Found`: what is there.
        :param wait: whether to wait for servers, and complete them.
        :raises: failures.Failure.
        """
        self._adopt(found)
        tasks = [task for item in self._items.values()
                 for task in self._tasks(item, wait)]
        for key, server_id in attachments.lost(self._items, found).items():
            # A trunk is made of a port that no server has yet.
            trunk = key.replace(plan.PORT, plan.TRUNK, 1)
            tasks.append(parallel.Task(
                plan.key(ATTACH, key), functools.partial(
                    self._attach, server_id, key), (key, trunk)))
        self._shown.begin('making', collections.Counter(
            _title(task.name) for task in tasks))
        parallel.run(tasks, self._patience.stop,
                     lambda task: self._shown.done(_title(task.name)))

    def _tasks(self, item, wait):
        """What is to be done for an item."""
        there = self._made.get(item.key)
        if there is None:
            yield parallel.Task(item.key, lambda: self._make(item),
                                item.after)
        elif item.kind == plan.VOLUME and not machines.is_usable(there):
            # The run that asked for it may not have lived to see it.
            yield parallel.Task(
                item.key, lambda: self._machines.wait_for_volume(there))
        if item.kind == plan.SERVER and wait and not (
                there and attachments.is_made(there)):
            yield parallel.Task(plan.key(COMPLETE, item.key),
                                lambda: self._complete(item), (item.key,))

    def _adopt(self, found):
        """Go on with what is there, but for what cannot be used."""
        doomed = []
        for each in found:
            if each.key not in self._items:
                continue
            if each.key in self._made or _is_broken(each):
                # Of two made by runs at the same time the first one counts.
                doomed.append(each)
            else:
                self._made[each.key] = each.body
                if each.kind in _NEUTRON:
                    self._networking.tag(each.body)
        if doomed:
            names = ', '.join(sorted(each.key for each in doomed))
            self._shown.note(f'To be removed, as it cannot be used: {names}')
            self._remover.remove(doomed, self._shown)

    def _make(self, item):
        with self._lock:
            made = dict(self._made)
        maker = self._networking if item.kind in _NEUTRON else self._machines
        thing = maker.make(item, made)
        if item.kind == plan.VOLUME:
            thing = self._machines.wait_for_volume(thing)
        with self._lock:
            self._made[item.key] = thing

    def _complete(self, item):
        """Wait for a server, and make it what its role wants it to be."""
        server = self._machines.wait_built(self._made[item.key].id)
        if machines.is_baremetal(item):
            self._machines.switch_off(server)
        for key in item.after:
            self._release_addresses(key)
        self._machines.set_made(server)

    def _attach(self, server_id, key):
        attachments.attach(self._nova, self._patience, server_id, key,
                           self._made[key])
        self._release_addresses(key)

    def _release_addresses(self, key):
        if (plan.kind(key) == plan.PORT
                and self._items[key].what.release_fixed_ip):
            self._networking.release_addresses(self._made[key])


def _title(task):
    return _TITLES[plan.kind(task)]


def _is_broken(found):
    """Whether a thing never became what it was to be."""
    state = (getattr(found.body, 'status', None) or '').lower()
    if found.kind == plan.SERVER:
        return state == 'error' and not attachments.is_made(found.body)
    return found.kind == plan.VOLUME and state.startswith('error')


def missing(wanted, found):
    """List what is to be made of an environment.

    :param wanted: the :class:`definition.Definition`.
    :param found: list of :class:`inventory.Found`.
    :returns: list of :class:`plan.Item`.
    """
    there = {each.key for each in found if not _is_broken(each)}
    # A router's interfaces carry no mark; they are looked at with it.
    return [item for item in plan.items(wanted).values()
            if item.key not in there and not (
                item.kind == plan.INTERFACE
                and plan.key(plan.ROUTER, item.what.name) in there)]


def is_complete(wanted, found):
    """Tell whether all of an environment is there, its servers completed.

    :param wanted: the :class:`definition.Definition`.
    :param found: list of :class:`inventory.Found`.
    :returns: True or False.
    """
    return (not missing(wanted, found)
            and not attachments.lost(plan.items(wanted), found)
            and all(attachments.is_made(each.body) for each in found
                    if each.kind == plan.SERVER))
