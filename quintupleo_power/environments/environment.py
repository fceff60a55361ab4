# SPDX-License-Identifier: Apache-2.0
"""Operations on environments: create, scale, delete, enroll, snapshot."""

import collections
import dataclasses
import datetime
import functools

from oslo_utils import timeutils

from quintupleo_power.environments import builder
from quintupleo_power.environments import conductor
from quintupleo_power.environments import definition
from quintupleo_power.environments import enrolment
from quintupleo_power.environments import errors
from quintupleo_power.environments import images
from quintupleo_power.environments import logs
from quintupleo_power.environments import node_states
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import quota
from quintupleo_power.environments import remover
from quintupleo_power.environments import resolver
from quintupleo_power.environments import retry
from quintupleo_power.environments import schema
from quintupleo_power.environments import snapshots
from quintupleo_power.environments import store
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import openstacksdk
from quintupleo_power.host_cloud import redaction

COMPLETE, INCOMPLETE, LEFTOVER = 'COMPLETE', 'INCOMPLETE', 'LEFTOVER'
# Seconds to wait for one server or volume.
TIMEOUT = 600
# What an interrupted create requested last may appear only after it was
# looked for, and then it uses what was found: delete looks for it again.
_REMOVALS = 3


@dataclasses.dataclass(frozen=True)
class Environment:
    """An environment as it is; without a definition if it is not stored.

    :ivar status: COMPLETE, INCOMPLETE, or LEFTOVER if it is not stored.
    """

    name: str
    created_at: datetime.datetime | None
    status: str
    definition: definition.Definition | None
    resources: list[owned_resources.Resource]

    def all(self, kind):
        """Return its resources of one of plan.KINDS."""
        return [each for each in self.resources if each.kind == kind]

    @property
    def ironic(self):
        """The :class:`owned_resources.Resource` with Ironic, or None."""
        return next((each for each in self.all(plan.SERVER)
                     if ownership.access_id(each.body)), None)


class Environments:
    """The environments of one project of a host cloud.

    All methods raise EnvironmentsError or what :func:`errors.translated`
    makes one of.
    """

    def __init__(self, connection, progress, concurrency=retry.CONCURRENCY,
                 timeout=TIMEOUT, removal_timeout=remover.TIMEOUT,
                 snapshot_timeout=snapshots.TIMEOUT):
        """Use an openstacksdk ``Connection``, for so many requests at once."""
        self._connection = connection
        # Nova's requests and responses may have user data.
        connection.compute.logger = redaction.Logger(
            'keystoneauth.session', connection.session.auth)
        self._progress = progress
        self._timeout = timeout
        self._snapshot_timeout = snapshot_timeout
        self._retrier = retry.Retrier(concurrency)
        self._inventory = owned_resources.Inventory(connection, self._retrier)
        self._store = store.EnvironmentStore(self._inventory)
        self._remover = remover.Remover(self._inventory, removal_timeout)

    def preview(self, wanted, name):
        """Return (names by title, list of quota.Cost) of a definition."""
        self._require_same(self._store.get(name), wanted)
        _, missing, costs = self._check(wanted, name)
        names = collections.defaultdict(list)
        for item in missing:
            if item.kind != plan.FLOATING_IP:
                names[plan.TITLES[item.kind]].append(
                    ownership.name(name, item.key))
        return names, costs

    def _check(self, wanted, name):
        """Return what the file names, what is missing, and its costs."""
        resolved = resolver.resolve(self._inventory, wanted)
        missing = builder.missing(wanted, self._inventory.read(name)[name])
        costs = quota.compare(quota.needed(missing, resolved),
                              quota.read(self._connection, self._retrier))
        quota.require(costs)
        return resolved, missing, costs

    def create(self, wanted, name, wait=True, ironic_cloud=None):
        """Create an environment, or what is missing of it, and return it.

        :param wait: whether to wait for servers, and complete them, and for
            the environment's Ironic.
        :param ironic_cloud: see :class:`conductor.Conductor`.
        """
        stored = self._store.get(name)
        self._require_same(stored, wanted)
        resolved, _, _ = self._check(wanted, name)
        return self._build(stored or self._store.create(name, wanted),
                           resolved, wait, ironic_cloud)

    def scale(self, name, role, count, wait=True):
        """Change the number of servers of a role, as :meth:`create`."""
        stored = self._store.require(name)
        wanted = definition.scale(stored.definition, role, count)
        resolved, _, _ = self._check(wanted, name)
        return self._build(self._store.update(stored, wanted), resolved, wait)

    def _require_same(self, stored, wanted):
        """Refuse another definition for an environment that exists."""
        if stored is not None and stored.definition != wanted:
            raise errors.EnvironmentsError(
                f'Environment "{stored.name}" is there and was made from '
                'another definition: delete it first, or use another --name; '
                'numbers of servers are changed with "openstack quintupleo '
                f'environment scale {stored.name} <role> <count>"')

    def _build(self, stored, resolved, wait, ironic_cloud=None):
        name = stored.name
        builder.Builder(
            self._inventory, resolved, stored,
            conductor.Conductor(self._inventory, stored, ironic_cloud),
            self._progress, self._timeout
        ).build(self._inventory.read(name)[name], wait)
        found = self.get(name)
        if wait and found.ironic:
            conductor.wait_ready(self._inventory, stored, found.ironic.id,
                                 self._progress, self._timeout)
            found = self.get(name)
        return found

    def access(self, found):
        """Return what it takes to use an :class:`Environment`'s Ironic."""
        if found.ironic is None:
            raise errors.EnvironmentsError(
                f'Environment "{found.name}" has no server of kind ironic: '
                'its file has no such role, or "openstack quintupleo '
                'environment create" has to go on')
        return self._retrier.call(images.download, self._connection,
                                  ownership.access_id(found.ironic.body))

    def all(self):
        """Return all :class:`Environment` of the project, by name."""
        found = self._inventory.read()
        stored = self._store.all()
        return [self._read(name, stored.get(name), found[name])
                for name in sorted({*found, *stored})]

    def get(self, name):
        """Return the :class:`Environment` of a name, which has to exist."""
        resources = self._inventory.read(name)[name]
        stored = (self._store.get(name) if resources
                  else self._store.require(name))
        return self._read(name, stored, resources)

    def _read(self, name, stored, resources):
        """Return an environment of what is stored, if it is, and exists."""
        if stored is None:
            # A deletion that was interrupted, or too early, has left it.
            moments = [timeutils.parse_isotime(str(each.body.created_at))
                       for each in resources
                       if getattr(each.body, 'created_at', None)]
            return Environment(name, min(moments, default=None), LEFTOVER,
                               None, resources)
        try:
            wanted = stored.definition
        except errors.EnvironmentsError as exc:
            self._progress.note(str(exc))
            wanted = None
        is_complete = wanted and builder.is_complete(wanted, resources)
        return Environment(name, stored.created_at,
                           COMPLETE if is_complete else INCOMPLETE, wanted,
                           resources)

    def delete(self, name):
        """Delete an environment; return whether there was anything of it."""
        stored = self._store.get(name)
        existed = stored is not None
        self.snapshots.delete_all(name)
        for _ in range(_REMOVALS):
            resources = self._inventory.read(name)[name]
            if not resources:
                break
            existed = True
            try:
                self._remover.remove(resources, self._progress)
            except errors.EnvironmentsError:
                # What came meanwhile may have been in the way.
                if set(self._inventory.read(name)[name]) <= set(resources):
                    raise
        else:
            raise errors.EnvironmentsError(
                f'Environment "{name}" grows again while it is removed: '
                'end the command that makes it, and delete it again')
        if stored:
            self._store.delete(name)
        return existed

    def console_logs(self, found):
        """Return :class:`logs.ConsoleLogs` of an :class:`Environment`."""
        return logs.ConsoleLogs(self._inventory, {
            ownership.name(found.name, each.key): each.body
            for each in found.all(plan.SERVER)})

    def save_logs(self, found, folder):
        """Write the logs of an :class:`Environment` into a folder.

        See :meth:`logs.ConsoleLogs.save` and :func:`logs.save_ironic`.

        :raises: EnvironmentsError if the folder cannot be written to.
        """
        try:
            self.console_logs(found).save(folder)
            if found.ironic:
                logs.save_ironic(self.access(found), ownership.name(
                    found.name, found.ironic.key), folder, self._progress)
        except OSError as exc:
            raise errors.EnvironmentsError(
                f'{exc.filename or folder} cannot be written: {exc.strerror}')

    def describe_nodes(self, name, host_cloud=None):
        """Return the nodes of :meth:`describe`, which has to be complete."""
        self._require_complete(name)
        return self.describe(name, host_cloud).nodes

    def describe(self, name, host_cloud=None):
        """Return :class:`enrolment.Described`, see :func:`describe` there."""
        wanted = self._store.require(name).definition
        # All else may be what other users have, such as key pairs.
        wanted = dataclasses.replace(
            wanted, routers=[], virtual_ips=[], ports=[],
            roles=[role for role in wanted.roles
                   if role.kind == schema.BAREMETAL])
        return enrolment.describe(
            wanted, builder.usable(self._inventory.read(name)[name]),
            resolver.resolve(self._inventory, wanted), host_cloud)

    def describe_servers(self, references, **options):
        """Return nodes for servers, as :func:`enrolment.describe_servers`."""
        described, warnings = enrolment.describe_servers(
            cloud.HostCloud(*openstacksdk.services(self._connection)),
            references, **options)
        for warning in warnings:
            self._progress.note(warning)
        return described

    @errors.translated('Ironic')
    def enroll(self, described, baremetal, tag_servers=False):
        """Enroll described nodes, as :func:`enrolment.enroll`.

        :param tag_servers: whether to put the UUID of each node into its
            server's metadata, for [quintupleo]require_server_metadata.
        """
        return enrolment.enroll(
            described, baremetal, self._retrier,
            self._connection.compute if tag_servers else None)

    @errors.translated('Ironic')
    def node_states(self, found, baremetal):
        """Return :func:`node_states.read` for an :class:`Environment`."""
        return node_states.read(
            [each.body for each in found.all(plan.SERVER)], baremetal,
            self._retrier)

    def snapshot(self, name, snapshot):
        """Snapshot the disks of all servers, all or none."""
        self.snapshots.create(
            name, snapshot, self._require_complete(name).all(plan.SERVER))

    def restore(self, name, snapshot, start=False):
        """Restore the disks of all servers; start those that ran, or none."""
        self.snapshots.restore(
            name, snapshot, self.get(name).all(plan.SERVER), start)

    @functools.cached_property
    def snapshots(self):
        """The :class:`snapshots.EnvironmentSnapshots` of the project."""
        return snapshots.EnvironmentSnapshots(
            cloud.HostCloud(*openstacksdk.services(self._connection)),
            self._progress, self._snapshot_timeout)

    def _require_complete(self, name):
        found = self.get(name)
        if found.status != COMPLETE:
            raise errors.EnvironmentsError(
                f'Environment "{name}" is not complete: "openstack '
                'quintupleo environment create --wait" with its file '
                'completes it')
        return found
