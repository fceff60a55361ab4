# SPDX-License-Identifier: Apache-2.0
"""What a flavor gives a server."""

import dataclasses
import re
from urllib import parse

from quintupleo_power.host_cloud import errors

# Resource groups have a suffix of their own (XS_KEYPAT in Nova's
# nova/scheduler/utils.py).
_TRAIT = re.compile(r'trait(?:[a-zA-Z0-9_-]{1,64})?:(.+)')
_ARCHITECTURE = 'HW_ARCH_'


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor as a server has it.

    :ivar name: name.
    :ivar vcpus: number of virtual CPUs.
    :ivar ram: memory in MiB.
    :ivar disk: size of the root disk in GiB, where that is no volume.
    :ivar extra_specs: dict; empty where the cloud does not show them.
    """

    name: str | None
    vcpus: int
    ram: int
    disk: int
    extra_specs: dict = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def from_body(cls, body, extra_specs=None):
        """Read a flavor of Nova's API, by itself or within a server.

        :param body: the decoded object.
        :param extra_specs: what the object does not hold.
        :returns: a :class:`Flavor`.
        :raises: KeyError or TypeError if it is not what Nova's API reference
            says.
        """
        for name in ('vcpus', 'ram', 'disk'):
            if not isinstance(body[name], int):
                raise TypeError(f'{name} of the flavor is {body[name]!r}')
        return cls(name=body.get('original_name') or body.get('name'),
                   vcpus=body['vcpus'], ram=body['ram'], disk=body['disk'],
                   extra_specs=extra_specs or body.get('extra_specs') or {})

    @property
    def required_traits(self):
        """The traits that it requires of a host, sorted."""
        matches = [(_TRAIT.fullmatch(name), value)
                   for name, value in self.extra_specs.items()]
        return tuple(sorted({match[1] for match, value in matches
                             if match and value == 'required'}))

    @property
    def architecture(self):
        """The architecture that it requires of a host, or None."""
        for trait in self.required_traits:
            if trait.startswith(_ARCHITECTURE):
                return trait.removeprefix(_ARCHITECTURE).lower()
        return None


def within_server(body):
    """Read the flavor that a server's body holds since microversion 2.47.

    :param body: the server's ``flavor`` object.
    :returns: a :class:`Flavor`, or None if it is only an identifier.
    :raises: KeyError or TypeError if it has a wrong form.
    """
    return Flavor.from_body(body) if 'vcpus' in body else None


def read(compute, flavor_id):
    """Read a flavor, for compute APIs before 2.47.

    :param compute: the compute :class:`service.Service`.
    :param flavor_id: its identifier, which may be any text.
    :returns: a :class:`Flavor`.
    :raises: NotFound if it was deleted, or another HostCloudError.
    """
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
    return _checked(body, extra_specs)


def find(compute, reference):
    """Find a flavor that the project may use.

    :param compute: the compute :class:`service.Service`.
    :param reference: its identifier or name.
    :returns: a :class:`Flavor`.
    :raises: NotFound or another HostCloudError.
    """
    for body in compute.get('/flavors/detail', 'flavors', list):
        if reference in (body.get('id'), body.get('name')):
            return _checked(body)
    raise errors.NotFound(
        f"The host cloud has no flavor '{reference}' for this project")


def _checked(body, extra_specs=None):
    try:
        return Flavor.from_body(body, extra_specs)
    except (KeyError, TypeError) as exc:
        raise errors.ServerError(
            'The host cloud describes a flavor in a form that Nova does not '
            f'have ({type(exc).__name__}: {exc})')
