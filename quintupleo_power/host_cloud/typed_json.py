# SPDX-License-Identifier: Apache-2.0
"""Objects of answers, whose members have the types of the API reference."""

import typing

from quintupleo_power.host_cloud import errors


class Body:
    """A JSON object of an answer.

    Each method raises a ServerError where a member has another type.
    """

    def __init__(self, members: typing.Any, what: str, service: str):
        """Read what describes something, such as 'a server', to 'Nova'."""
        self._what = what
        self._service = service
        self._members = members
        if not isinstance(members, dict):
            raise self.wrong(f'it is of type {type(members).__name__}')

    def get(self, key: str, *kinds: type) -> typing.Any:
        """Return a member that has to be there, of one of some types."""
        if key not in self._members:
            raise self.wrong(f'{key} is missing')
        value = self._members[key]
        if not isinstance(value, kinds):
            # Its text may be a secret, such as the URL of a console.
            raise self.wrong(f'{key} is of type {type(value).__name__}')
        return value

    def find(self, key: str, kind: type) -> typing.Any:
        """Return a member; None if it is missing."""
        return (None if self._members.get(key) is None
                else self.get(key, kind))

    def part(self, key: str) -> 'Body':
        """Return an object within this one; an empty one if it is missing."""
        return Body(self._members.get(key) or {}, f'{key} of {self._what}',
                    self._service)

    def parts(self, key: str) -> list['Body']:
        """Return the objects of a list; none if it is missing."""
        return [Body(each, f'{key} of {self._what}', self._service)
                for each in self.find(key, list) or ()]

    def wrong(self, reason: str) -> errors.ServerError:
        """Return an error that says what is wrong with the object."""
        return errors.ServerError(
            f'The host cloud describes {self._what} in a form that '
            f'{self._service} does not have ({reason})')
