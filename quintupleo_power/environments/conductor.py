# SPDX-License-Identifier: Apache-2.0
"""What a server with Ironic is created with, and what it reports."""

import base64
import dataclasses
import datetime
import ipaddress
import json
import pathlib
import secrets

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from cryptography.x509 import oid
from oslo_utils import timeutils
import yaml

from quintupleo_power.environments import application_credentials
from quintupleo_power.environments import errors
from quintupleo_power.environments import images
from quintupleo_power.environments import ownership
from quintupleo_power.environments import plan
from quintupleo_power.environments import schema
from quintupleo_power.environments import validation

_PORT = 6385
_FILE = '/etc/quintupleo/environment.json'
# Bytes that Nova takes, in base64.
_MOST_USER_DATA = 65535
_LIFETIME = datetime.timedelta(days=3653)
# Metadata of the server: its URL, and what it reports itself.
URL = 'quintupleo_ironic_url'
STATUS, NODES, SEEN = REPORT = (
    'quintupleo_ironic', 'quintupleo_ironic_nodes', 'quintupleo_ironic_seen')


@dataclasses.dataclass(frozen=True)
class Access:
    """A new access image of a UUID, and what its server is created with."""

    id: str
    metadata: dict
    user_data: str = dataclasses.field(repr=False)


class Conductor:
    """Creates access images of one environment, with what belongs to them."""

    def __init__(self, inventory, stored, cloud=None):
        """Use a project.

        :param cloud: openstacksdk's configuration of the cloud with the
            credentials to use; None to make an application credential.
        """
        self._connection = inventory.connection
        self._inventory = inventory
        self._name = stored.name
        self._definition = stored.definition
        self._cloud = cloud

    def create(self, item, created):
        """Return the :class:`Access` of a :class:`plan.Item`."""
        cloud, cacert = self._entry()
        addresses = _addresses(item, created)
        certificate, key = _certificate(addresses)
        host = f'[{addresses[0]}]' if ':' in addresses[0] else addresses[0]
        api = {'url': f'https://{host}:{_PORT}', 'username': 'admin',
               'password': secrets.token_urlsafe(24),
               'certificate': certificate}
        image_id = self._create_image(item, api)
        if self._cloud is None:
            credentials = application_credentials.ApplicationCredentials(
                self._inventory)
            cloud['auth_type'] = 'v3applicationcredential'
            cloud['auth'] = {
                'auth_url': cloud['auth']['auth_url'],
                **credentials.create(self._name, image_id)}
        return Access(
            image_id, {ownership.ACCESS: image_id, URL: api['url']},
            _user_data(item.role.name, {
                'environment': self._name, 'cloud': cloud, 'cacert': cacert,
                'api': {**api, 'key': key},
                'provision': self._provision(item.role, created),
                'redfish': item.role.redfish}))

    def _entry(self):
        """Return (entry of clouds.yaml, content of its CA file or None)."""
        config = self._cloud or self._connection.config
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
                f'The CA file of the host cloud, {verify}, cannot be read: '
                f'{exc}')

    def _create_image(self, item, api):
        properties = {**ownership.metadata(self._name, item.key),
                      ownership.ACCESS: 'yes',
                      'tags': [ownership.tag(self._name), ownership.ACCESS]}
        if self._cloud is None:
            properties[application_credentials.USER] = (
                self._connection.current_user_id)

        def remove():
            # An image without content, after a lost response.
            found = self._inventory.find(self._name, item)
            if found:
                self._connection.image.delete_image(found.id)

        return self._inventory.retrier.create(
            remove, images.upload, self._connection,
            f'quintupleo-access-{self._name}', images.Content(
                'raw', properties, json.dumps(api).encode()))

    def _provision(self, role, created):
        """Return what the DHCP server has to know of its network."""
        name = validation.provisioning_network(self._definition, role)
        place = [nic.network for nic in role.nics].index(name)
        port = created[plan.key(plan.PORT, role.name, 0, place)]
        network = next(each for each in self._definition.networks
                       if each.name == name)
        number, subnet = next(
            (number, subnet) for number, subnet in enumerate(network.subnets)
            if ':' not in subnet.cidr)
        address = next(address for address in _fixed_ips(port)
                       if ':' not in address)
        length = ipaddress.ip_network(subnet.cidr).prefixlen
        has_router = any(name in router.networks
                         for router in self._definition.routers)
        return {
            'address': f'{address}/{length}', 'mac': port.mac_address,
            'gateway': created[plan.key(plan.SUBNET, name, number)].gateway_ip
                       if has_router else None,
            'dns': subnet.dns, 'default_route': len(role.nics) == 1}


def _addresses(item, created):
    """Return the addresses of a server, the one for users first."""
    return [*(created[key].floating_ip_address for key in item.after
              if plan.kind(key) == plan.FLOATING_IP),
            *(address for key in item.after if plan.kind(key) == plan.PORT
              for address in _fixed_ips(created[key]))]


def _fixed_ips(port):
    return [each['ip_address'] for each in port.fixed_ips]


def _certificate(addresses):
    """Return (certificate, key) of an HTTPS server, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME,
                                         'quintupleo Ironic')])
    now = timeutils.utcnow()
    # Clocks may differ.
    builder = x509.CertificateBuilder().issuer_name(name).subject_name(
        name).public_key(key.public_key()).serial_number(
        x509.random_serial_number()).not_valid_before(
        now - datetime.timedelta(days=1)).not_valid_after(now + _LIFETIME)
    # What strict verification, as Python's since 3.13, wants of a CA.
    for extension, is_critical in (
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=False,
                content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False,
                encipher_only=False, decipher_only=False), True),
            (x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
             False),
            (x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address(address))
                 for address in dict.fromkeys(addresses)]), False)):
        builder = builder.add_extension(extension, is_critical)
    return (
        builder.sign(key, hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM).decode(),
        key.private_bytes(serialization.Encoding.PEM,
                          serialization.PrivateFormat.PKCS8,
                          serialization.NoEncryption()).decode())


def _user_data(role, content):
    """Return user data for cloud-init, in base64."""
    text = '#cloud-config\n' + yaml.safe_dump({'write_files': [{
        'path': _FILE, 'permissions': '0600',
        'content': json.dumps(content)}]}, sort_keys=False)
    encoded = base64.b64encode(text.encode()).decode()
    if len(encoded) > _MOST_USER_DATA:
        raise errors.EnvironmentsError(
            f'Role "{role}": its user data has {len(encoded)} bytes, and Nova '
            f'takes {_MOST_USER_DATA} at the most: most of it is the CA file '
            'of the host cloud ("cacert" in clouds.yaml), so name one with '
            'the CA of this cloud only')
    return encoded


def status(server):
    """Return what the Ironic on a server has reported, for users."""
    metadata = server.metadata or {}
    return ': '.join(filter(None, (metadata.get(STATUS, 'booting'),
                                   metadata.get(NODES))))


def wait_ready(inventory, stored, server_id, progress, timeout):
    """Wait until the Ironic on a server has made all servers nodes.

    :param timeout: seconds without any change after which to give up.
    :raises: EnvironmentsError if it fails or gives no sign.
    """
    retrier, get = inventory.retrier, inventory.connection.compute.get_server
    count = str(sum(role.count for role in stored.definition.roles
                    if role.kind == schema.BAREMETAL))
    report = None
    while True:
        last = report
        server = retrier.poll(
            lambda: retrier.call(get, server_id),
            lambda found, last=last: _report(found) != last, timeout)
        report = _report(server)
        state, _, seen = report
        if report != last:
            progress.note(f'{server.name}: {status(server)}')
        if state == 'ready' and seen == count:
            return
        if report == last or state == 'failed' and seen in (count, None):
            since = f' since {timeout} s' if report == last else ''
            raise errors.EnvironmentsError(
                f'The Ironic on server {server.name} ({server.id}) is not '
                f'ready, but "{status(server)}"{since}: "openstack quintupleo '
                f'environment logs {stored.name}" shows more')


def _report(server):
    return tuple((server.metadata or {}).get(name) for name in REPORT)
