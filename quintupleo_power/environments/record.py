# SPDX-License-Identifier: Apache-2.0
"""An environment's record: its definition, kept in the host cloud itself.

It is an image without content in Glance, whose properties hold the file, so
that an environment can be scaled, enrolled and resumed from anywhere and
without the file. It is made before all else and removed after all else: what
has no record is no environment.
"""

import base64
import binascii
import dataclasses
import datetime
import json
import zlib

from openstack import exceptions

from quintupleo_power.environments import definition
from quintupleo_power.environments import document
from quintupleo_power.environments import failures
from quintupleo_power.environments import mark

_DEFINITION = 'quintupleo_definition'
# What Glance's database takes for a property.
_LONGEST = 65535


@dataclasses.dataclass(frozen=True)
class Record:
    """What is known of an environment without a look at its parts.

    :ivar id: UUID of the image.
    :ivar name: the environment's name.
    :ivar created_at: an aware :class:`datetime.datetime`.
    :ivar packed: the definition, as Glance keeps it.
    """

    id: str
    name: str
    created_at: datetime.datetime
    packed: str = dataclasses.field(repr=False)

    @property
    def definition(self):
        """The :class:`definition.Definition`.

        :raises: failures.Failure if it cannot be read.
        """
        return _unpacked(self.name, self.packed)


class Records:
    """The records of one project."""

    def __init__(self, connection, patience):
        """Use a connection.

        :param connection: an openstacksdk ``Connection``.
        :param patience: the :class:`patience.Patience`.
        """
        self._connection = connection
        self._call = patience.call
        self._make = patience.make

    def all(self):
        """Read all records.

        :returns: list of :class:`Record`, sorted by name.
        """
        found = {}
        for image in sorted(self._images(), key=lambda each: (
                each['created_at'], each['id'])):
            # Of two that were made at the same moment the first one counts.
            found.setdefault(image[mark.ENVIRONMENT], image)
        return [self._read(found[name]) for name in sorted(found)]

    def get(self, name):
        """Read one.

        :param name: the environment's name.
        :returns: a :class:`Record`, or None if there is no such environment.
        """
        return next((each for each in self.all() if each.name == name), None)

    def require(self, name):
        """Read one that has to be there.

        :param name: the environment's name.
        :returns: a :class:`Record`.
        :raises: failures.Failure if it is not.
        """
        known = self.all()
        for each in known:
            if each.name == name:
                return each
        raise failures.Failure(
            f'There is no environment "{name}" in this project; there are '
            + (', '.join(each.name for each in known) or 'none'))

    def create(self, name, wanted):
        """Make the record of a new environment.

        :param name: its name.
        :param wanted: the :class:`definition.Definition`.
        :returns: a :class:`Record`.
        """
        body = {'name': f'quintupleo-environment-{name}',
                'visibility': 'private', 'tags': [mark.tag(name)],
                mark.ENVIRONMENT: name, _DEFINITION: _packed(wanted)}
        self._make(lambda: self.get(name), self._post, body)
        return self.require(name)

    def update(self, record, wanted):
        """Keep another definition.

        :param record: the :class:`Record`.
        :param wanted: the :class:`definition.Definition`.
        :returns: the new :class:`Record`.
        """
        packed = _packed(wanted)
        self._call(self._patch, record.id, [
            {'op': 'replace', 'path': f'/{_DEFINITION}', 'value': packed}])
        return dataclasses.replace(record, packed=packed)

    def delete(self, name):
        """Forget an environment.

        :param name: its name.
        """
        for image in self._images():
            if image[mark.ENVIRONMENT] == name:
                self._call(self._connection.image.delete_image, image['id'],
                           ignore_missing=True)

    def _images(self):
        """The bodies of all records: openstacksdk knows no own properties."""
        project = self._connection.current_project_id
        url, params = '/images', {'owner': project, 'limit': 100}
        while url:
            answer = self._call(self._get, url, params)
            for image in answer['images']:
                # Others may share images that look like ours.
                if (image['owner'] == project and _DEFINITION in image
                        and mark.ENVIRONMENT in image):
                    yield image
            # It begins with the version, which the endpoint has, too.
            url = (answer.get('next') or '').removeprefix('/v2')
            params = None

    def _get(self, url, params):
        answer = self._connection.image.get(url, params=params)
        exceptions.raise_from_response(answer)
        return answer.json()

    def _post(self, body):
        exceptions.raise_from_response(
            self._connection.image.post('/images', json=body))

    def _patch(self, image_id, body):
        exceptions.raise_from_response(
            self._connection.image.patch(
                f'/images/{image_id}', json=body, headers={
                    'Content-Type':
                        'application/openstack-images-v2.1-json-patch'}))

    def _read(self, image):
        name = image[mark.ENVIRONMENT]
        return Record(
            image['id'], name,
            datetime.datetime.fromisoformat(
                image['created_at'].replace('Z', '+00:00')),
            image[_DEFINITION])


def _packed(wanted):
    """Write a definition as one short text.

    :raises: failures.Failure if it is too long.
    """
    content = json.dumps({'file': wanted.text,
                          'user_data': dict(wanted.user_data)})
    packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    if len(packed) > _LONGEST:
        raise failures.Failure(
            f'The definition with its user data is too long to be kept in '
            f'the host cloud, packed {len(packed)} of at most {_LONGEST} '
            'bytes: make the user data shorter, for example by loading the '
            'rest from elsewhere')
    return packed


def _unpacked(name, packed):
    try:
        content = json.loads(zlib.decompress(base64.b64decode(packed)))
        return definition.parse(content['file'], f'environment {name}',
                                content['user_data'])
    except (document.DocumentError, binascii.Error, zlib.error, ValueError,
            LookupError, AttributeError, TypeError) as exc:
        raise failures.Failure(
            f'The record of environment "{name}", property {_DEFINITION} of '
            f'image quintupleo-environment-{name}, cannot be read: {exc}')
