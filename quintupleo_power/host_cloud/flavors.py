# SPDX-License-Identifier: Apache-2.0
"""Flavors of servers."""

import dataclasses
import re
from urllib import parse

from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import service
from quintupleo_power.host_cloud import typed_json

# Resource groups have a suffix of their own (XS_KEYPAT in Nova's
# nova/scheduler/utils.py).
_TRAIT = re.compile(r'trait(?:[a-zA-Z0-9_-]{1,64})?:(.+)')
_ARCHITECTURE = 'HW_ARCH_'


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor as a server has it: ``ram`` in MiB, ``disk`` in GiB.

    :ivar disk: size of the root disk, unless that is a volume.
    :ivar extra_specs: empty where the cloud does not show them.
    """

    name: str | None
    vcpus: int
    ram: int
    disk: int
    extra_specs: dict = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def from_body(cls, body: typed_json.Body,
                  extra_specs: dict | None = None) -> 'Flavor':
        """Return a flavor of Nova's API, by itself or within a server."""
        return cls(name=(body.find('original_name', str)
                         or body.find('name', str)),
                   vcpus=body.get('vcpus', int), ram=body.get('ram', int),
                   disk=body.get('disk', int),
                   extra_specs=(extra_specs
                                or body.find('extra_specs', dict) or {}))

    @property
    def required_traits(self) -> tuple[str, ...]:
        """The traits that it requires of a host, sorted."""
        return tuple(sorted({
            match[1] for name, value in self.extra_specs.items()
            if value == 'required' and (match := _TRAIT.fullmatch(name))}))

    @property
    def architecture(self) -> str | None:
        """The architecture that it requires of a host, or None."""
        for trait in self.required_traits:
            if trait.startswith(_ARCHITECTURE):
                return trait.removeprefix(_ARCHITECTURE).lower()
        return None


def read(compute: service.Service, flavor_id: str) -> Flavor:
    """Return a flavor, for compute APIs before 2.47; may raise NotFound."""
    path = f'/flavors/{parse.quote(flavor_id, safe="")}'
    try:
        body = compute.get(path, 'flavor')
    except errors.NotFound:
        raise errors.NotFound(
            f"Flavor '{flavor_id}' of the server does not exist any more")
    try:
        extra_specs = compute.get(f'{path}/os-extra_specs', 'extra_specs')
    except (errors.Forbidden, errors.NotFound):
        extra_specs = None
    return Flavor.from_body(typed_json.Body(body, 'a flavor', 'Nova'),
                            extra_specs)
