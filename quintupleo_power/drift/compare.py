# SPDX-License-Identifier: Apache-2.0
"""What was done to a server behind Ironic's back.

This module is pure, like :mod:`quintupleo_power.transitions`. It compares
what Nova tells of a server with what it told when Ironic acted on it last.
Nova gives a server a new ``launched_at`` when it spawns, rescues, resizes or
rebuilds it, so that its own record of actions has to be read only then.
"""

from collections import abc
import dataclasses
import enum

from quintupleo_power.host_cloud import redaction
from quintupleo_power.host_cloud import servers
from quintupleo_power import transitions

# Nova's names of actions, and what each did to the server, where that leaves
# a new disk.
DISK_LOST = {
    'rebuild': 'was rebuilt',
    'evacuate': 'was evacuated from a host that failed',
}


class Kind(enum.Enum):
    """What happened, the worst first."""

    REPLACED = 'another server has its name'
    DISK_LOST = 'its disk is new'
    MAYBE_DISK_LOST = 'its disk may be new'
    RESCUE_ENDED = 'it was unrescued'
    RESCUED = 'it was rescued'
    RESTORED = 'its disk is that of a snapshot'
    RESIZED = 'its flavor is another'

    @property
    def severe(self) -> bool:
        """Whether what Ironic deployed is gone for all that is known."""
        return self in (Kind.REPLACED, Kind.DISK_LOST)


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing that is not as Ironic left it, and what to do about it."""

    kind: Kind
    sentence: str

    def __post_init__(self) -> None:
        # Names in it are those that anybody has given.
        object.__setattr__(self, 'sentence', redaction.clean(self.sentence))


@dataclasses.dataclass(frozen=True)
class Baseline:
    """What is kept of a server with the node when Ironic has acted on it.

    :ivar updated: when Nova changed it last, by Nova's clock, in seconds.
    :ivar device: what it was booted from, 'disk' or 'pxe'; None where the
        server asks the network by itself.
    :ivar lost: how the node's disk was lost before Ironic acted again, or
        None; a power request does not bring back what was deployed.
    :ivar request_id: identifier of the request by which Ironic acted on it,
        None if it is not known.
    """

    server: str
    launched_at: str | None
    updated: str | None
    image: str | None
    flavor: str | None
    device: str | None
    lost: str | None = None
    request_id: str | None = None

    @classmethod
    def of(cls, server: servers.Server, lost: str | None = None,
           request_id: str | None = None) -> 'Baseline':
        """Return the baseline of a server as it is."""
        return cls(server=server.id, launched_at=server.launched_at,
                   updated=server.updated, image=server.image_id,
                   flavor=server.flavor, device=_device(server), lost=lost,
                   request_id=request_id)


def find(baseline: Baseline, server: servers.Server, deployed: bool,
         actions: abc.Callable[[], list | None],
         snapshot: abc.Callable[[], str | None] = lambda: None,
         ) -> Difference | None:
    """Return the worst that happened to a server.

    :param deployed: whether the node has a system on its disk by Ironic.
    :param actions: function that returns Nova's record of actions since the
        baseline as (action, time), or None if that cannot be read.
    :param snapshot: function that returns the name of the snapshot that the
        server was restored from, or None.
    """
    if server.state.task_state:
        # What is under way may be Ironic's own doing.
        return None
    if server.id != baseline.server:
        return Difference(Kind.REPLACED, (
            f"'{server.name}' is server {server.id} now and was server "
            f'{baseline.server} when Ironic acted last: what was deployed is '
            'not on it; deploy the node again, or set '
            'driver_info/quintupleo_server to the UUID of the right server')
        ) if deployed else None
    return ((_disk(baseline, server, actions, snapshot) if deployed else None)
            or _boot(baseline, server) or _flavor(baseline, server))


def _disk(baseline, server, actions, snapshot):
    if baseline.lost:
        return Difference(Kind.DISK_LOST, baseline.lost)
    if baseline.launched_at == server.launched_at and baseline.image == (
            server.image_id):
        return None
    since = actions()
    action, time = next(((action, time) for action, time in since or []
                         if action in DISK_LOST), (None, None))
    if action == 'rebuild' or baseline.image != server.image_id:
        name = snapshot()
        if name:
            return Difference(Kind.RESTORED, (
                f'Server {server.id} was restored at {server.launched_at}, '
                f'not by Ironic, from its snapshot "{name}": what is on its '
                'disk is as it was then; reboot the node to have it taken so'))
    if action:
        return _disk_lost(server, f'{DISK_LOST[action]} at {time}')
    if baseline.image != server.image_id:
        return _disk_lost(server, 'was rebuilt from another image')
    if since is None:
        return Difference(Kind.MAYBE_DISK_LOST, (
            f'Server {server.id} was launched again at {server.launched_at}, '
            'not by Ironic, and the host cloud does not say why: if it was '
            'rebuilt, what was deployed on its disk is gone'))
    return None


def _disk_lost(server, how):
    return Difference(Kind.DISK_LOST, (
        f'Server {server.id} {how}, not by Ironic: what was deployed on its '
        'disk is gone; deploy the node again'))


def _boot(baseline, server):
    now = _device(server)
    if baseline.device is None or now in (None, baseline.device):
        return None
    if now == transitions.Device.PXE.value:
        return Difference(Kind.RESCUED, (
            f'Server {server.id} was rescued, not by Ironic: it runs from a '
            'rescue image; reboot the node to boot what is wished for it'))
    return Difference(Kind.RESCUE_ENDED, (
        f'Server {server.id} was booted from the network by Ironic and is '
        f'{server.status} now: somebody ended that, and what ran from the '
        'network does not run any more; start again what the node was doing'))


def _flavor(baseline, server):
    if baseline.flavor == server.flavor:
        return None
    return Difference(Kind.RESIZED, (
        f'Server {server.id} was resized, not by Ironic, from flavor '
        f"'{baseline.flavor}' to '{server.flavor}': inspect the node again, "
        'and see that its properties and resource class still fit'))


def _device(server):
    """What a server boots from, None if its state does not tell."""
    if server.network_first is not False or server.state.vm_state in (
            'error', 'building', 'deleted', 'unknown'):
        return None
    return transitions.device_in_use(server.state).value
