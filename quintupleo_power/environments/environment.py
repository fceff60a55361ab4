# SPDX-License-Identifier: Apache-2.0
"""What can be done with environments, whole."""

import contextlib
import dataclasses
import datetime
import functools

from quintupleo_power.environments import builder
from quintupleo_power.environments import choices
from quintupleo_power.environments import enrolment
from quintupleo_power.environments import failures
from quintupleo_power.environments import inventory
from quintupleo_power.environments import mark
from quintupleo_power.environments import patience
from quintupleo_power.environments import plan
from quintupleo_power.environments import quota
from quintupleo_power.environments import record
from quintupleo_power.environments import remover
from quintupleo_power.environments import sets
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power import transitions

COMPLETE, INCOMPLETE, LEFTOVER = 'COMPLETE', 'INCOMPLETE', 'LEFTOVER'
# Seconds to wait for one server or volume.
TIMEOUT = 600
# What a killed create asked for last may appear only after it was looked for,
# and then it uses what was found: it is looked for again after some seconds.
_REMOVALS = 3
_FIRST_PATIENCE = 5


@dataclasses.dataclass(frozen=True)
class Environment:
    """An environment as it is.

    :ivar name: its name.
    :ivar created_at: an aware :class:`datetime.datetime`, or None.
    :ivar status: COMPLETE, INCOMPLETE, or LEFTOVER if it has no record.
    :ivar definition: the :class:`definition.Definition`, or None.
    :ivar found: list of :class:`inventory.Found`.
    """

    name: str
    created_at: datetime.datetime | None
    status: str
    definition: object
    found: list

    def all(self, *kinds):
        """Choose what it has of some kinds.

        :param kinds: the kinds, of plan.KINDS.
        :returns: list of :class:`inventory.Found`.
        """
        return [each for each in self.found if each.kind in kinds]


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What creating an environment would do.

    :ivar name: its name.
    :ivar missing: list of :class:`plan.Item` that would be made.
    :ivar costs: list of :class:`quota.Cost`.
    """

    name: str
    missing: list
    costs: list

    def names(self):
        """List the names of what would be made.

        :returns: dict of lists of names by what it is, as plan.TITLES has it.
        """
        found = {}
        for item in self.missing:
            if item.kind not in (plan.INTERFACE, plan.FLOATING_IP):
                found.setdefault(plan.TITLES[item.kind], []).append(
                    mark.name(self.name, item.key))
        return found


class Environments:
    """The environments of one project of a host cloud."""

    def __init__(self, connection, shown, concurrency=patience.CONCURRENCY,
                 timeout=TIMEOUT, removal_timeout=remover.PATIENCE,
                 snapshot_timeout=sets.TIMEOUT):
        """Use a connection.

        :param connection: an openstacksdk ``Connection``.
        :param shown: the :class:`progress.Progress`.
        :param concurrency: how many requests may be under way at once.
        :param timeout: seconds to wait for one server or volume.
        :param removal_timeout: seconds for which the removal of one thing is
            tried again.
        :param snapshot_timeout: seconds to wait for the snapshot of one
            server, or its return to one.
        """
        self._connection = connection
        self._shown = shown
        self._patience = patience.Patience(concurrency)
        self._timeout = timeout
        self._snapshot_timeout = snapshot_timeout
        self._records = record.Records(connection, self._patience)
        self._inventory = inventory.Inventory(connection, self._patience)
        self._remover = remover.Remover(connection, self._patience,
                                        self._inventory, removal_timeout)

    def forecast(self, wanted, name):
        """Tell what would be made, and what it costs.

        :param wanted: the :class:`definition.Definition`.
        :param name: the environment's name.
        :returns: a :class:`Forecast`.
        :raises: failures.Failure if it cannot be made.
        """
        with _told():
            self._require_same(self._records.get(name), wanted)
            return self._forecast(
                wanted, name, choices.choose(
                    self._connection, self._patience, wanted))

    def _forecast(self, wanted, name, chosen):
        missing = builder.missing(wanted, self._inventory.read(name)[name])
        costs = quota.costs(self._connection, self._patience, missing, chosen)
        quota.require(costs)
        return Forecast(name, missing, costs)

    def create(self, wanted, name, wait=True):
        """Make an environment, or what is missing of it.

        :param wanted: the :class:`definition.Definition`.
        :param name: the environment's name.
        :param wait: whether to wait for servers, and complete them.
        :returns: the :class:`Environment`.
        :raises: failures.Failure.
        """
        with _told():
            known = self._records.get(name)
            self._require_same(known, wanted)
            chosen = choices.choose(self._connection, self._patience, wanted)
            self._forecast(wanted, name, chosen)
            return self._build(known or self._records.create(name, wanted),
                               chosen, wait)

    def scale(self, name, role, count, wait=True):
        """Give a role another number of servers.

        :param name: the environment's name.
        :param role: the role's name.
        :param count: how many there are to be.
        :param wait: whether to wait for servers, and complete them.
        :returns: the :class:`Environment`.
        :raises: failures.Failure, document.DocumentError.
        """
        with _told():
            known = self._records.require(name)
            wanted = known.definition.scaled(role, count)
            chosen = choices.choose(self._connection, self._patience, wanted)
            self._forecast(wanted, name, chosen)
            known = self._records.update(known, wanted)
            return self._build(known, chosen, wait)

    def _require_same(self, known, wanted):
        """Refuse another definition for an environment that is there."""
        if known is None or known.definition == wanted:
            return
        there = known.definition
        counts = {each.name: each.count for each in there.roles}
        if {each.name for each in wanted.roles} == set(counts):
            same = wanted
            for name, count in counts.items():
                same = same.scaled(name, count)
            if same == there:
                raise failures.Failure(
                    f'Environment "{known.name}" is there with other numbers '
                    'of servers: change them with "openstack quintupleo '
                    f'environment scale {known.name} <role> <count>"')
        raise failures.Failure(
            f'Environment "{known.name}" is there and was made from another '
            'definition: delete it first, or use another --name')

    def _build(self, known, chosen, wait):
        name = known.name
        found = self._inventory.read(name)[name]
        kept = plan.items(known.definition)
        surplus = [each for each in found if each.key not in kept]
        if surplus:
            # Left over by a smaller number.
            self._remover.remove(surplus, self._shown)
            found = [each for each in found if each.key in kept]
        builder.Builder(
            self._connection, self._patience, self._inventory, chosen, known,
            self._shown, self._timeout).build(found, wait)
        return self._read(known, self._inventory.read(name)[name])

    def all(self):
        """Read all environments of the project.

        :returns: list of :class:`Environment`, sorted by name.
        """
        with _told():
            found = self._inventory.read()
            records = {each.name: each for each in self._records.all()}
            return [self._read(records[name], found[name])
                    if name in records else _leftover(name, found[name])
                    for name in sorted({*found, *records})]

    def get(self, name):
        """Read one environment.

        :param name: its name.
        :returns: an :class:`Environment`.
        :raises: failures.Failure if there is none of that name.
        """
        with _told():
            found = self._inventory.read(name)[name]
            known = self._records.get(name)
            if known is None and found:
                return _leftover(name, found)
            return self._read(known or self._records.require(name), found)

    def _read(self, known, found):
        try:
            wanted = known.definition
        except failures.Failure as exc:
            self._shown.note(str(exc))
            return Environment(known.name, known.created_at, INCOMPLETE,
                               None, found)
        complete = builder.is_complete(wanted, found)
        return Environment(known.name, known.created_at,
                           COMPLETE if complete else INCOMPLETE, wanted,
                           found)

    def delete(self, name):
        """Remove an environment, and nothing else.

        :param name: its name; one that is not there is no mistake.
        :returns: whether there was anything.
        :raises: failures.Failure with a line for each thing that
            could not be removed.
        """
        with _told():
            known = self._records.get(name)
            existed = known is not None
            self._sets.delete_all(name)
            for number in range(_REMOVALS):
                found = self._inventory.read(name)[name]
                if not found:
                    break
                existed = True
                self._remove(found, number == 0)
            else:
                raise failures.Failure(
                    f'Environment "{name}" grows again while it is removed: '
                    'end the command that makes it, and delete it again')
            if known:
                self._records.delete(name)
            return existed

    def _remove(self, found, is_first):
        """Remove what was found, the first time without insisting."""
        if not is_first:
            self._remover.remove(found, self._shown)
            return
        try:
            self._remover.remove(found, self._shown, _FIRST_PATIENCE)
        except failures.Stopped:
            raise
        except failures.Failure:
            # Told after the second time.
            pass

    def enroll(self, name, baremetal=None, cloud=None):
        """Make nodes of an environment's machines.

        :param name: the environment's name.
        :param baremetal: openstacksdk's proxy of an Ironic, or None to have
            the nodes only described.
        :param cloud: what the conductor's clouds.yaml calls the host cloud.
        :returns: list of :class:`enrolment.Outcome`, or of dicts in the
            format of ``openstack baremetal create``.
        :raises: failures.Failure.
        """
        with _told():
            known = self._records.require(name)
            found = self._inventory.read(name)[name]
            if not builder.is_complete(known.definition, found):
                raise _incomplete(name)
            described = enrolment.nodes(
                known.definition, found, choices.choose(
                    self._connection, self._patience, known.definition),
                cloud)
            if baremetal is None:
                return described
            return enrolment.Enrolment(baremetal, self._patience).run(
                described)

    def snapshot(self, name, snapshot):
        """Keep the disks of all servers as they are at one moment.

        :param name: the environment's name.
        :param snapshot: what to call it.
        :raises: failures.Failure; then nothing of it is left.
        """
        with _told():
            known = self._records.require(name)
            found = self._inventory.read(name)[name]
            if not builder.is_complete(known.definition, found):
                raise _incomplete(name)
            self._sets.create(name, snapshot, _servers(found))

    def restore(self, name, snapshot, start=False):
        """Bring the disks of all servers back, and leave these off.

        :param name: the environment's name.
        :param snapshot: what the snapshot is called.
        :param start: whether to start those that ran at that moment.
        :raises: failures.Failure.
        """
        with _told():
            self._records.require(name)
            found = self._inventory.read(name)[name]
            self._sets.restore(name, snapshot, _servers(found), start)

    def snapshots(self, name=None):
        """Read the snapshots of environments.

        :param name: the environment's name, None for all.
        :returns: list of :class:`sets.Set`, the oldest first.
        :raises: failures.Failure.
        """
        with _told():
            return self._sets.all(name)

    def delete_snapshot(self, name, snapshot):
        """Remove a snapshot; one that is not there is no mistake.

        :param name: the environment's name.
        :param snapshot: what it is called.
        :returns: whether there was one.
        :raises: failures.Failure.
        """
        with _told():
            return self._sets.delete(name, snapshot)

    @functools.cached_property
    def _sets(self):
        return sets.Sets(openstacksdk.services(self._connection), self._shown,
                         self._snapshot_timeout)


def _servers(found):
    return [each for each in found if each.kind == plan.SERVER]


def _incomplete(name):
    return failures.Failure(
        f'Environment "{name}" is not complete: "openstack quintupleo '
        'environment create --wait" with its file completes it')


def _leftover(name, found):
    """What a deletion that was interrupted, or ran too early, has left."""
    moments = [datetime.datetime.fromisoformat(
        str(each.body.created_at).replace('Z', '+00:00'))
        for each in found if getattr(each.body, 'created_at', None)]
    moments = [each if each.tzinfo
               else each.replace(tzinfo=datetime.timezone.utc)
               for each in moments]
    return Environment(name, min(moments, default=None), LEFTOVER, None,
                       found)


@contextlib.contextmanager
def _told():
    """Turn what the client libraries raise into a sentence."""
    try:
        yield
    except failures.CLOUD_ERRORS as exc:
        raise failures.Failure(
            f'The host cloud: {failures.explain(exc)}')
    except (errors.HostCloudError, transitions.Refused) as exc:
        raise failures.Failure(str(exc))
