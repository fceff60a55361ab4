# SPDX-License-Identifier: Apache-2.0
"""A machine as an inspection finds it, in Ironic's words.

This module is pure: it makes no request and writes nothing.
"""

import dataclasses
import re

from ironic.common import exception
from ironic.common import utils
import os_traits
from oslo_utils import units

from quintupleo_power.host_cloud import interfaces

# What Nova puts into a guest's DMI tables (nova/version.py).
MANUFACTURER = 'OpenStack Foundation'
PRODUCT = 'OpenStack Nova'
# As Ironic's own drivers have it, which compare it in lower case.
VENDOR = MANUFACTURER.lower()

# Where neither the host cloud nor the node tells.
DEFAULT_ARCHITECTURE = 'x86_64'

# Ironic's database keeps so many characters of a port's physical_network.
LONGEST_PHYSICAL_NETWORK = 64

_CUSTOM_TRAIT = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the host cloud tells of a server.

    :ivar server_id: UUID of the server.
    :ivar cpus: number of CPUs.
    :ivar memory_mb: memory in MiB.
    :ivar local_gb: root disk in GiB, or None.
    :ivar cpu_arch: architecture, or None.
    :ivar boot_mode: 'bios' or 'uefi', or None.
    :ivar secure_boot: True, False or None.
    :ivar traits: names of the traits that its flavor requires.
    :ivar cards: its network cards, each an :class:`interfaces.Interface`.
    """

    server_id: str
    cpus: int
    memory_mb: int
    local_gb: int | None
    cpu_arch: str | None
    boot_mode: str | None
    secure_boot: bool | None
    traits: tuple[str, ...]
    cards: tuple[interfaces.Interface, ...]

    def properties(self, known):
        """Merge it into a node's properties.

        :param known: dict of the properties that the node has.
        :returns: dict.
        :raises: HardwareInspectionFailure if an essential property is
            missing, or the node's capabilities are malformed.
        """
        found = {'cpus': self.cpus, 'memory_mb': self.memory_mb,
                 'local_gb': self._or_known('local_gb', known),
                 'cpu_arch': (self._or_known('cpu_arch', known)
                              or DEFAULT_ARCHITECTURE),
                 'vendor': known.get('vendor') or VENDOR}
        if found['local_gb'] is None:
            raise exception.HardwareInspectionFailure(
                error=f'server {self.server_id} boots from a volume of which '
                'the host cloud does not tell the size: set '
                'properties/local_gb of the node, or let these credentials '
                'read volumes')
        capabilities = self._capabilities(known)
        if capabilities:
            found['capabilities'] = capabilities
        return {**known, **found}

    def _or_known(self, name, known):
        value = getattr(self, name)
        return known.get(name) if value is None else value

    def _capabilities(self, known):
        found = {}
        if self.boot_mode:
            found['boot_mode'] = self.boot_mode
        if self.secure_boot is not None:
            found['secure_boot'] = str(self.secure_boot).lower()
        try:
            return utils.get_updated_capabilities(known.get('capabilities'),
                                                  found)
        except (AttributeError, ValueError):
            raise exception.HardwareInspectionFailure(
                error='properties/capabilities of the node is '
                f"{known['capabilities']!r} and not of the form "
                'name:value,name:value: correct it')

    def inventory(self, properties):
        """Describe it as ironic-python-agent does.

        :param properties: dict of the properties that the node gets.
        :returns: dict.
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
    def known_traits(self):
        """Those of its traits that Ironic's API would take."""
        standard = set(os_traits.get_traits())
        return {trait for trait in self.traits
                if trait in standard or _CUSTOM_TRAIT.fullmatch(trait)}

    @property
    def ignored_macs(self):
        """MAC addresses of the cards that agents pass over."""
        return [card.mac for card in self.cards
                if interfaces.is_ignored(card.mac)]


def physical_network(network_id, name):
    """Tell what Ironic is to call a network of the host cloud.

    :param network_id: its UUID.
    :param name: its name, or None.
    :returns: the name, or the UUID where there is none or it is too long.
    """
    return name if name and len(name) <= LONGEST_PHYSICAL_NETWORK else (
        network_id)
