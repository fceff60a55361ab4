# SPDX-License-Identifier: Apache-2.0
"""Application credentials of environments' Ironics.

Each belongs to an access image, is made after it and removed before it.
"""

import contextlib

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership

# Property of an access image: the user whose application credential it is.
USER = 'quintupleo_user'


def _name(connection, environment, image_id):
    # Two commands at the same time make two.
    return (f'quintupleo-environment-{environment}-'
            f'{connection.current_project_id}-{image_id[:8]}')


def create(inventory, environment, image_id):
    """Return a new one as ``auth`` of clouds.yaml.

    It has the roles of the user's token, and may make no others.
    """
    connection = inventory.connection
    user = connection.session.get_user_id()
    name = _name(connection, environment, image_id)

    def post():
        # The response has the secret.
        response = connection.identity.post(
            f'/users/{user}/application_credentials', log=False,
            json={'application_credential': {
                'name': name, 'unrestricted': False,
                'description': f'quintupleo environment {environment}'}})
        exceptions.raise_from_response(response)
        return response.json()['application_credential']

    try:
        # With a response that is lost its secret is lost, too.
        made = inventory.retrier.create(
            lambda: _delete(inventory, user, name), post)
    except exceptions.ForbiddenException as exc:
        raise errors.EnvironmentsError(
            'Keystone refuses the application credential that the role of '
            f'kind ironic needs ({errors.explain(exc)}): name an entry of '
            'clouds.yaml with other credentials with --ironic-os-cloud')
    return {f'application_credential_{key}': made[key]
            for key in ('id', 'secret')}


def delete(inventory, image, progress):
    """Delete that of an access image, or show how its owner does it."""
    user = image.properties.get(USER)
    if user is None:
        return
    name = _name(inventory.connection,
                 image.properties[ownership.ENVIRONMENT], image.id)
    if user == inventory.connection.session.get_user_id():
        # Those who signed in by an application credential may not.
        with contextlib.suppress(exceptions.ForbiddenException):
            return _delete(inventory, user, name)
    progress.note(
        f'Application credential "{name}" of user {user} cannot be removed '
        'with these credentials: its owner removes it with "openstack '
        f'application credential delete {name}"')


def _delete(inventory, user, name):
    identity, call = inventory.connection.identity, inventory.retrier.call
    found = call(identity.find_application_credential, user, name,
                 ignore_missing=True)
    if found is not None:
        call(identity.delete_application_credential, user, found.id,
             ignore_missing=True)
