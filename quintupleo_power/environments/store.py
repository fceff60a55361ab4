# SPDX-License-Identifier: Apache-2.0
"""Definitions of environments, stored in the host cloud itself.

Each is in the properties of an image without content, so that an environment
can be scaled, enrolled and resumed from anywhere and without its file. The
image is created before all resources and deleted after them: what has none is
not an environment.
"""

import base64
import dataclasses
import datetime
import json
import zlib

from openstack import exceptions
from oslo_utils import timeutils

from quintupleo_power.environments import definition
from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership
from quintupleo_power.host_cloud import errors as host_errors

_DEFINITION = 'quintupleo_definition'
# What Glance's database takes for a property.
_MAX_LENGTH = 65535
_JSON_PATCH = 'application/openstack-images-v2.1-json-patch'


@dataclasses.dataclass(frozen=True)
class StoredEnvironment:
    """An environment as it is stored, in the image of an id."""

    id: str
    name: str
    created_at: datetime.datetime
    packed: str = dataclasses.field(repr=False)

    @property
    def definition(self):
        """The definition; EnvironmentsError if it cannot be read."""
        try:
            content = json.loads(zlib.decompress(base64.b64decode(
                self.packed)))
            return definition.parse(
                content['file'], f'environment {self.name}',
                content['user_data'])
        except (errors.EnvironmentsError, zlib.error,
                *host_errors.UNEXPECTED_FORM) as exc:
            raise errors.EnvironmentsError(
                f'The definition of environment "{self.name}", property '
                f'{_DEFINITION} of image quintupleo-environment-{self.name}, '
                f'cannot be read: {exc}')


class EnvironmentStore:
    """The stored environments of one project."""

    def __init__(self, inventory):
        self._inventory = inventory
        self._connection = inventory.connection
        self._retrier = inventory.retrier

    def all(self):
        """Return a dict of :class:`StoredEnvironment` by name."""
        found = {}
        for image in sorted(self._images(),
                            key=lambda each: (each.created_at, each.id)):
            name = image.properties[ownership.ENVIRONMENT]
            # Of two that were created at the same moment the first counts.
            found.setdefault(name, StoredEnvironment(
                image.id, name, timeutils.parse_isotime(image.created_at),
                image.properties[_DEFINITION]))
        return found

    def get(self, name):
        """Return the :class:`StoredEnvironment` of a name, or None."""
        return self.all().get(name)

    def require(self, name):
        """Return the :class:`StoredEnvironment` of a name, or raise."""
        stored = self.all()
        if name not in stored:
            raise errors.EnvironmentsError(
                f'Environment "{name}" does not exist in this project; it has '
                + (', '.join(sorted(stored)) or 'none'))
        return stored[name]

    def create(self, name, wanted):
        """Store a definition; return the :class:`StoredEnvironment`."""
        body = {'name': f'quintupleo-environment-{name}',
                'visibility': 'private', 'tags': [ownership.tag(name)],
                ownership.ENVIRONMENT: name, _DEFINITION: _packed(wanted)}
        self._retrier.create(
            lambda: self.get(name), lambda: exceptions.raise_from_response(
                self._connection.image.post('/images', json=body)))
        return self.require(name)

    def update(self, stored, wanted):
        """Return a stored environment with another definition."""
        packed = _packed(wanted)
        self._retrier.call(lambda: exceptions.raise_from_response(
            self._connection.image.patch(
                f'/images/{stored.id}', headers={'Content-Type': _JSON_PATCH},
                json=[{'op': 'replace', 'path': f'/{_DEFINITION}',
                       'value': packed}])))
        return dataclasses.replace(stored, packed=packed)

    def delete(self, name):
        """Delete a stored environment, which need not exist."""
        for image in self._images():
            if image.properties[ownership.ENVIRONMENT] == name:
                self._retrier.call(self._connection.image.delete_image,
                                   image.id, ignore_missing=True)

    def _images(self):
        return [image for image in self._retrier.call(
            self._inventory.own_images)
            if {_DEFINITION, ownership.ENVIRONMENT} <= set(
                image.properties or ())]


def _packed(wanted):
    """Return a definition as one short text, or raise EnvironmentsError."""
    content = json.dumps({'file': wanted.text,
                          'user_data': wanted.user_data})
    packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    if len(packed) > _MAX_LENGTH:
        raise errors.EnvironmentsError(
            f'The definition with its user data is too long to be kept in '
            f'the host cloud, packed {len(packed)} of at most {_MAX_LENGTH} '
            'bytes: make the user data shorter, for example by loading the '
            'rest from elsewhere')
    return packed
