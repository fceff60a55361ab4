# SPDX-License-Identifier: Apache-2.0
"""Definitions of environments, stored in the host cloud itself.

Each is in the properties of an image without content, so that an environment
can be scaled, enrolled and resumed from anywhere and without its file. The
image is created before all resources and deleted after them: what has none is
not an environment.
"""

import base64
import binascii
import dataclasses
import datetime
import json
import zlib

from openstack import exceptions
from oslo_utils import timeutils

from quintupleo_power.environments import definition
from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership

_DEFINITION = 'quintupleo_definition'
# What Glance's database takes for a property.
_MAX_LENGTH = 65535


@dataclasses.dataclass(frozen=True)
class StoredEnvironment:
    """An environment as it is stored, without its resources.

    :ivar id: UUID of the image.
    :ivar packed: the definition, as Glance stores it.
    """

    id: str
    name: str
    created_at: datetime.datetime
    packed: str = dataclasses.field(repr=False)

    @property
    def definition(self):
        """The :class:`model.Definition`.

        :raises: EnvironmentsError if it cannot be read.
        """
        return _unpacked(self.name, self.packed)


class EnvironmentStore:
    """The stored environments of one project."""

    def __init__(self, connection, retrier):
        self._connection = connection
        self._retrier = retrier

    def all(self):
        """Return all :class:`StoredEnvironment`, sorted by name."""
        found = {}
        for image in sorted(self._images(),
                            key=lambda each: (each.created_at, each.id)):
            # Of two that were created at the same moment the first counts.
            found.setdefault(image.properties[ownership.ENVIRONMENT], image)
        return [_stored(found[name]) for name in sorted(found)]

    def get(self, name):
        """Return the :class:`StoredEnvironment` of a name, or None."""
        return next((each for each in self.all() if each.name == name), None)

    def require(self, name):
        """Return the :class:`StoredEnvironment` of a name.

        :raises: EnvironmentsError if it does not exist.
        """
        stored = self.get(name)
        if stored is None:
            raise errors.EnvironmentsError(
                f'Environment "{name}" does not exist in this project; it has '
                + (', '.join(each.name for each in self.all()) or 'none'))
        return stored

    def create(self, name, wanted):
        """Store a :class:`model.Definition`.

        :returns: a :class:`StoredEnvironment`.
        """
        body = {'name': f'quintupleo-environment-{name}',
                'visibility': 'private', 'tags': [ownership.tag(name)],
                ownership.ENVIRONMENT: name, _DEFINITION: _packed(wanted)}
        self._retrier.create(lambda: self.get(name), self._post, body)
        return self.require(name)

    def update(self, stored, wanted):
        """Return a stored environment with another definition."""
        packed = _packed(wanted)
        self._retrier.call(self._patch, stored.id, [
            {'op': 'replace', 'path': f'/{_DEFINITION}', 'value': packed}])
        return dataclasses.replace(stored, packed=packed)

    def delete(self, name):
        """Delete a stored environment, which need not exist."""
        for image in self._images():
            if image.properties[ownership.ENVIRONMENT] == name:
                self._retrier.call(self._connection.image.delete_image,
                                   image.id, ignore_missing=True)

    def _images(self):
        project = self._connection.current_project_id
        images = self._retrier.call(lambda: list(
            self._connection.image.images(owner=project, limit=100)))
        # Others may share images that look like ours.
        return [image for image in images if image.owner_id == project
                and {_DEFINITION, ownership.ENVIRONMENT} <= set(
                    image.properties or ())]

    def _post(self, body):
        exceptions.raise_from_response(
            self._connection.image.post('/images', json=body))

    def _patch(self, image_id, body):
        exceptions.raise_from_response(
            self._connection.image.patch(
                f'/images/{image_id}', json=body, headers={
                    'Content-Type':
                        'application/openstack-images-v2.1-json-patch'}))


def _stored(image):
    return StoredEnvironment(
        image.id, image.properties[ownership.ENVIRONMENT],
        timeutils.parse_isotime(image.created_at),
        image.properties[_DEFINITION])


def _packed(wanted):
    """Return a definition as one short text.

    :raises: EnvironmentsError if it is too long.
    """
    content = json.dumps({'file': wanted.text,
                          'user_data': dict(wanted.user_data)})
    packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    if len(packed) > _MAX_LENGTH:
        raise errors.EnvironmentsError(
            f'The definition with its user data is too long to be kept in '
            f'the host cloud, packed {len(packed)} of at most {_MAX_LENGTH} '
            'bytes: make the user data shorter, for example by loading the '
            'rest from elsewhere')
    return packed


def _unpacked(name, packed):
    try:
        content = json.loads(zlib.decompress(base64.b64decode(packed)))
        return definition.parse(content['file'], f'environment {name}',
                                content['user_data'])
    except (errors.DefinitionError, binascii.Error, zlib.error, ValueError,
            LookupError, AttributeError, TypeError) as exc:
        raise errors.EnvironmentsError(
            f'The definition of environment "{name}", property {_DEFINITION} '
            f'of image quintupleo-environment-{name}, cannot be read: {exc}')
