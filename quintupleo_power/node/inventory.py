# SPDX-License-Identifier: Apache-2.0
"""What an inspection finds of a server, in Ironic's words; pure."""

import dataclasses
import re

from ironic.common import exception
from ironic.drivers import utils as driver_utils
import os_traits
from oslo_utils import units

from quintupleo_power.host_cloud import ports

# What Nova puts into a guest's DMI tables (nova/version.py).
MANUFACTURER = 'OpenStack Foundation'
PRODUCT = 'OpenStack Nova'
# As Ironic's own drivers have it, which compare it in lower case.
VENDOR = MANUFACTURER.lower()

# Where neither the host cloud nor the node has it.
DEFAULT_ARCHITECTURE = 'x86_64'

_CUSTOM_TRAIT = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')


@dataclasses.dataclass(frozen=True)
class Inventory:
    """What the host cloud knows of a server; None for what it does not.

    :ivar memory_mb: memory in MiB.
    :ivar local_gb: root disk in GiB.
    :ivar boot_mode: 'bios' or 'uefi'.
    :ivar traits: names of the traits that its flavor requires.
    """

    server_id: str
    cpus: int
    memory_mb: int
    local_gb: int | None
    cpu_arch: str | None
    boot_mode: str | None
    secure_boot: bool | None
    traits: tuple[str, ...]
    cards: tuple[ports.Interface, ...]

    def properties(self, current: dict) -> dict:
        """Return a node's current properties, updated.

        :raises: HardwareInspectionFailure if the size of the disk is not
            known, InvalidParameterValue if the capabilities are malformed.
        """
        found = {'cpus': self.cpus, 'memory_mb': self.memory_mb,
                 'local_gb': (current.get('local_gb')
                              if self.local_gb is None else self.local_gb),
                 'cpu_arch': (self.cpu_arch or current.get('cpu_arch')
                              or DEFAULT_ARCHITECTURE),
                 'vendor': current.get('vendor') or VENDOR}
        if found['local_gb'] is None:
            raise exception.HardwareInspectionFailure(
                error=f'server {self.server_id} boots from a volume of which '
                'the host cloud does not tell the size: set '
                'properties/local_gb of the node, or let these credentials '
                'read volumes')
        # What an operator has set is not overwritten.
        capabilities = {**self._capabilities(),
                        **driver_utils.capabilities_to_dict(
                            current.get('capabilities'))}
        if capabilities:
            found['capabilities'] = ','.join(
                f'{name}:{value}' for name, value in capabilities.items())
        return {**current, **found}

    def contradictions(self, current: dict) -> dict[str, tuple[str, str]]:
        """Return the node's and the server's capabilities that differ.

        :param current: the node's properties.
        :returns: dict of (the node's value, the server's) by name.
        :raises: InvalidParameterValue if the node's are malformed.
        """
        own = driver_utils.capabilities_to_dict(current.get('capabilities'))
        return {name: (own[name], value)
                for name, value in self._capabilities().items()
                if own.get(name, value).lower() != value}

    def _capabilities(self):
        found = {}
        if self.boot_mode:
            found['boot_mode'] = self.boot_mode
        if self.secure_boot is not None:
            found['secure_boot'] = str(self.secure_boot).lower()
        return found

    def as_agent(self, properties: dict) -> dict:
        """Return the inventory in the form of ironic-python-agent.

        :param properties: those of the node.
        """
        return {
            'cpu': {'count': self.cpus,
                    'architecture': properties['cpu_arch']},
            'memory': {'physical_mb': self.memory_mb},
            'disks': [{'size': self.local_gb * units.Gi}]
                     if self.local_gb else [],
            'interfaces': [{'name': card.port_id, 'mac_address': card.mac}
                           for card in self.cards],
            'boot': {'current_boot_mode': self.boot_mode},
            'system_vendor': {'manufacturer': MANUFACTURER,
                              'product_name': PRODUCT,
                              'system_uuid': self.server_id}}

    @property
    def valid_traits(self) -> set[str]:
        """Those of its traits that Ironic's API would take."""
        standard = set(os_traits.get_traits())
        return {trait for trait in self.traits
                if trait in standard or _CUSTOM_TRAIT.fullmatch(trait)}
