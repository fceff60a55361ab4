# SPDX-License-Identifier: Apache-2.0
"""What a server with Ironic is created with, and what it reports."""

import base64
import contextlib
import datetime
import functools
import io
import ipaddress
import json
import pathlib
import secrets

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from openstack import exceptions
from oslo_utils import timeutils
import yaml

from quintupleo_power.environments import errors
from quintupleo_power.environments import images
from quintupleo_power.environments import owned_resources
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import schema
from quintupleo_power.environments import validation

_PORT = 6385
# Bytes that Nova takes, in base64.
_MOST_USER_DATA = 65535
_DAY = datetime.timedelta(days=1)
# Property of an access image: the user whose application credential it is.
_USER = 'quintupleo_user'
# Metadata of the server: its URL, and what it reports itself.
URL = 'quintupleo_ironic_url'
_REPORT = ('quintupleo_ironic', 'quintupleo_ironic_nodes',
           'quintupleo_ironic_seen')


class Conductor:
    """Creates access images of one environment, with what belongs to them."""

    def __init__(self, inventory, stored, cloud=None):
        """Use a project.

        :param cloud: openstacksdk's configuration of the cloud with the
            credentials to use; None to make an application credential.
        """
        self._inventory = inventory
        self._name = stored.name
        self._definition = stored.definition
        self._cloud = cloud

    def create(self, item, created):
        """Create an access image; return what its server is created with.

        :param item: the :class:`plan.Item` of the server.
        :param created: see :meth:`creator.Creator.create`.
        """
        cloud, cacert = _entry(
            self._cloud or self._inventory.connection.config)
        # The one for users first.
        addresses = [
            *(created[key].floating_ip_address for key in item.after
              if plan.kind(key) == plan.FLOATING_IP),
            *(address for key in item.after if plan.kind(key) == plan.PORT
              for address in owned_resources.fixed_ips(created[key]))]
        certificate, key = _certificate(addresses)
        host = f'[{addresses[0]}]' if ':' in addresses[0] else addresses[0]
        api = {'url': f'https://{host}:{_PORT}', 'username': 'admin',
               'password': secrets.token_urlsafe(24),
               'certificate': certificate}
        image_id = self._create_image(item, api)
        if self._cloud is None:
            cloud['auth_type'] = 'v3applicationcredential'
            cloud['auth'] = {
                'auth_url': cloud['auth']['auth_url'],
                **create_credential(self._inventory, self._name, image_id)}
        return {
            'metadata': {ownership.ACCESS: image_id, URL: api['url']},
            'user_data': _user_data(item.role.name, {
                'environment': self._name, 'cloud': cloud, 'cacert': cacert,
                'api': {**api, 'key': key},
                'provision': self._provision(item, created),
                'redfish': item.role.redfish})}

    def _create_image(self, item, api):
        connection = self._inventory.connection
        key = item.sibling(plan.ACCESS)
        properties = {**ownership.metadata(self._name, key),
                      ownership.ACCESS: 'yes',
                      'tags': [ownership.tag(self._name), ownership.ACCESS]}
        if self._cloud is None:
            properties[_USER] = connection.session.get_user_id()

        def remove():
            # One without content, after a response that was lost.
            found = self._inventory.find(self._name, key)
            if found:
                connection.image.delete_image(found.id)

        return self._inventory.retrier.create(
            remove, images.upload, connection,
            f'quintupleo-access-{self._name}', images.Content(
                'raw', properties,
                functools.partial(io.BytesIO, json.dumps(api).encode())))

    def _provision(self, item, created):
        """Return what the DHCP server has to know of its network."""
        name = validation.provisioning_network(self._definition, item.role)
        places = [nic.network for nic in item.role.nics]
        port = created[item.sibling(plan.PORT, places.index(name))]
        network = next(each for each in self._definition.networks
                       if each.name == name)
        number, subnet = next(
            each for each in enumerate(network.subnets)
            if ':' not in each[1].cidr)
        address = next(each for each in owned_resources.fixed_ips(port)
                       if ':' not in each)
        has_router = any(name in router.networks
                         for router in self._definition.routers)
        return {
            'address': f'{address}/{subnet.cidr.partition("/")[2]}',
            'mac': port.mac_address,
            'gateway': created[plan.key(plan.SUBNET, name, number)].gateway_ip
                       if has_router else None,
            'dns': subnet.dns, 'default_route': len(places) == 1}


def _credential_name(connection, environment, image_id):
    # Two commands at the same time make two.
    return (f'quintupleo-environment-{environment}-'
            f'{connection.current_project_id}-{image_id[:8]}')


def create_credential(inventory, environment, image_id):
    """Return a new application credential as ``auth`` of clouds.yaml.

    It has the roles of the user's token, and may make no others.
    """
    connection = inventory.connection
    user = connection.session.get_user_id()
    name = _credential_name(connection, environment, image_id)

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
            lambda: _delete_credential(inventory, user, name), post)
    except exceptions.ForbiddenException as exc:
        raise errors.EnvironmentsError(
            'Keystone refuses the application credential that the role of '
            f'kind ironic needs ({errors.explain(exc)}): name an entry of '
            'clouds.yaml with other credentials with --ironic-os-cloud')
    return {f'application_credential_{key}': made[key]
            for key in ('id', 'secret')}


def delete_credential(inventory, image, progress):
    """Delete that of an access image, or show how its owner does it.

    It is made after the image, and removed before it.
    """
    user = image.properties.get(_USER)
    if user is None:
        return
    name = _credential_name(
        inventory.connection, image.properties[ownership.ENVIRONMENT],
        image.id)
    if user == inventory.connection.session.get_user_id():
        # Those who signed in by an application credential may not.
        with contextlib.suppress(exceptions.ForbiddenException):
            return _delete_credential(inventory, user, name)
    progress.note(
        f'Application credential "{name}" of user {user} cannot be removed '
        'with these credentials: its owner removes it with "openstack '
        f'application credential delete {name}"')


def _delete_credential(inventory, user, name):
    identity, call = inventory.connection.identity, inventory.retrier.call
    found = call(identity.find_application_credential, user, name,
                 ignore_missing=True)
    if found is not None:
        call(identity.delete_application_credential, user, found.id,
             ignore_missing=True)


def _entry(config):
    """Return (entry of clouds.yaml, content of its CA file or None)."""
    verify, _ = config.get_requests_verify_args()
    entry = {name: config.config[name] for name in (
        'auth_type', 'auth', 'region_name', 'interface')
        if config.config.get(name)}
    entry |= {'verify': bool(verify), 'identity_api_version': '3'}
    try:
        return entry, (pathlib.Path(verify).read_text()
                       if isinstance(verify, str) else None)
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.EnvironmentsError(
            f'The CA file of the host cloud cannot be read: {exc}')


def _certificate(addresses):
    """Return (certificate, key) of an HTTPS server, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME,
                                         'quintupleo Ironic')])
    # Clocks may differ.
    begin = timeutils.utcnow() - _DAY
    builder = x509.CertificateBuilder(
        name, name, public, x509.random_serial_number(), begin,
        begin + 3654 * _DAY)
    # It is its own CA, with what Python 3.13 and later want of one.
    usage = dict.fromkeys((
        'content_commitment', 'key_encipherment', 'data_encipherment',
        'key_agreement', 'crl_sign', 'encipher_only', 'decipher_only'), False)
    for extension in (
            x509.BasicConstraints(ca=True, path_length=0),
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage),
            x509.SubjectKeyIdentifier.from_public_key(public),
            x509.SubjectAlternativeName([
                x509.IPAddress(ipaddress.ip_address(address))
                for address in dict.fromkeys(addresses)])):
        builder = builder.add_extension(extension, critical=isinstance(
            extension, x509.BasicConstraints | x509.KeyUsage))
    pem = serialization.Encoding.PEM
    return (builder.sign(key, hashes.SHA256()).public_bytes(pem).decode(),
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8,
                              serialization.NoEncryption()).decode())


def _user_data(role, content):
    """Return user data for cloud-init, in base64."""
    text = '#cloud-config\n' + yaml.safe_dump({'write_files': [{
        'path': '/etc/quintupleo/environment.json', 'permissions': '0600',
        'content': json.dumps(content)}]}, sort_keys=False)
    encoded = base64.b64encode(text.encode()).decode()
    if len(encoded) > _MOST_USER_DATA:
        raise errors.EnvironmentsError(
            f'Role "{role}": its user data has {len(encoded)} bytes, and Nova '
            f'takes {_MOST_USER_DATA} at the most: name a shorter CA file of '
            'the host cloud ("cacert" in clouds.yaml), with its CA only')
    return encoded


def _report(server):
    return tuple((server.metadata or {}).get(name) for name in _REPORT)


def status(server):
    """Return what the Ironic on a server has reported, for users."""
    return ': '.join(filter(None, _report(server)[:2])) or 'booting'


def wait_ready(inventory, stored, server_id, progress, timeout):
    """Wait until the Ironic on a server has made all servers nodes.

    :param timeout: seconds without any change after which to give up.
    :raises: EnvironmentsError if it fails or gives no sign.
    """
    count = str(sum(role.count for role in stored.definition.roles
                    if role.kind == schema.BAREMETAL))
    last = None
    while True:
        server = inventory.retrier.poll(
            lambda: inventory.retrier.call(
                inventory.connection.compute.get_server, server_id),
            lambda found, last=last: _report(found) != last, timeout)
        report = state, _, seen = _report(server)
        if report != last:
            progress.note(f'{server.name}: {status(server)}')
        if (state, seen) == ('ready', count):
            return
        if report == last or state == 'failed' and seen in (count, None):
            raise errors.EnvironmentsError(
                f'The Ironic on server {server.name} ({server.id}) is not '
                f'ready, but "{status(server)}"'
                + (f' since {timeout} s' if report == last else '')
                + f': "openstack quintupleo environment logs {stored.name}" '
                'shows more')
        last = report
