# SPDX-License-Identifier: Apache-2.0
"""Application credentials of environments' Ironics.

Each is made after the access image of its server, and removed before it:
without an access image there is no application credential.
"""

from openstack import exceptions

from quintupleo_power.environments import errors
from quintupleo_power.environments import ownership

# Property of an access image: the user whose application credential it is.
USER = 'quintupleo_user'


class ApplicationCredentials:
    """The application credentials of one project's environments."""

    def __init__(self, inventory):
        self._connection = inventory.connection
        self._retrier = inventory.retrier

    def _name(self, environment, image_id):
        # Of two commands each makes its own.
        return (f'quintupleo-environment-{environment}-'
                f'{self._connection.current_project_id}-{image_id[:8]}')

    def create(self, environment, image_id):
        """Return a new one as ``auth`` of clouds.yaml.

        It has the roles of the user's token, and may make no other ones.
        """
        identity = self._connection.identity
        user = self._connection.current_user_id
        name = self._name(environment, image_id)

        def create():
            # The response has the secret.
            response = identity.post(
                f'/users/{user}/application_credentials', log=False,
                json={'application_credential': {
                    'name': name, 'unrestricted': False,
                    'description': f'quintupleo environment {environment}'}})
            exceptions.raise_from_response(response)
            return response.json()['application_credential']

        try:
            # After a lost response its secret is lost, too.
            made = self._retrier.create(lambda: self._delete(user, name),
                                        create)
        except exceptions.ForbiddenException as exc:
            raise errors.EnvironmentsError(
                'Keystone refuses the application credential that the role '
                f'of kind ironic needs ({errors.explain(exc)}): name an entry '
                'of clouds.yaml with other credentials for it with '
                '--ironic-os-cloud')
        return {f'application_credential_{key}': made[key]
                for key in ('id', 'secret')}

    def delete(self, image, progress):
        """Delete that of an access image, or show who has to do so."""
        user = (image.properties or {}).get(USER)
        if user is None:
            return
        name = self._name(image.properties[ownership.ENVIRONMENT], image.id)
        try:
            if user == self._connection.current_user_id:
                self._delete(user, name)
                return
        except exceptions.ForbiddenException:
            # The user has signed in by an application credential.
            pass
        progress.note(
            f'Application credential "{name}" of user {user} cannot be '
            'removed with these credentials: its owner removes it with '
            f'"openstack application credential delete {name}"')

    def _delete(self, user, name):
        identity = self._connection.identity
        found = self._retrier.call(identity.find_application_credential, user,
                                   name, ignore_missing=True)
        if found is not None:
            self._retrier.call(identity.delete_application_credential, user,
                               found.id, ignore_missing=True)
