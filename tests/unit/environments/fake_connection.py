# SPDX-License-Identifier: Apache-2.0
"""A stand-in for an openstacksdk connection, with a cloud in memory behind it.

It knows what environments use, and refuses what Neutron, Nova and Cinder
refuse while something is in use. The functional tests have the real ones. Each
request that changes something can be made to fail, before or after the cloud
has done it.
"""

import ipaddress
import itertools
import json as json_module
import threading
import types
import uuid

from keystoneauth1 import session
from openstack.config import cloud_region
from openstack import exceptions

from quintupleo_power.host_cloud import connection as host_connection

PROJECT = uuid.uuid4().hex
OTHER_PROJECT = uuid.uuid4().hex
USER = uuid.uuid4().hex
AUTH_URL = 'https://cloud.example/v3'
# Of the user's own credentials.
PASSWORD = 'the-password-of-the-user'


class Killed(BaseException):
    """What ends a run at once, as SIGKILL does."""


class Thing(types.SimpleNamespace):
    """Something in the cloud; attributes that it lacks are None."""

    def __getattr__(self, name):
        return None

    def to_dict(self):
        return dict(vars(self))


class Answer:
    def __init__(self, body, code=200):
        self._body, self.status_code = body, code
        self.headers = {'content-type': 'application/json'}

    def json(self):
        return self._body


class NoImages:
    """An image service as the driver's own code uses it."""

    def get(self, path, **filters):
        return {'images': []}


class FakeConnection:
    """An openstacksdk ``Connection``.

    :ivar services: what host_cloud.connection.of_sdk is to return for it.
    :ivar things: dict of what there is by UUID.
    :ivar changes: how many requests have changed something.
    :ivar faults: dict of (before, exception) by the number of the change.
    """

    current_project_id = PROJECT
    user_id = USER

    def __init__(self, volumes=True, trunks=True):
        self.config = cloud_region.CloudRegion('fake', 'here', {
            'auth_type': 'password', 'region_name': 'here',
            'interface': 'public', 'verify': True, 'cacert': None,
            'auth': {'auth_url': AUTH_URL, 'username': 'me',
                     'password': PASSWORD}})
        self.things = {}
        self.changes = 0
        self.faults = {}
        self.refused = {}
        self.quota = {}
        self.build_errors = 0
        self.has_trunks = trunks
        self.extensions = ['ip_allocation']
        self.deaf = False
        self.services = host_connection.Services(
            None, NoImages(), None, None)
        self.session = session.Session()
        self.session.get_user_id = lambda: self.user_id
        self._lock = threading.RLock()
        self._moments = itertools.count(1)
        self.network = Network(self)
        self.compute = Compute(self)
        self.image = Image(self)
        self.identity = Identity(self)
        self.block_storage = BlockStorage(self, volumes)

    def add(self, kind, project=PROJECT, **attributes):
        """Add something that was there before."""
        moment = next(self._moments)
        thing = Thing(**{
            'kind': kind, 'id': str(uuid.uuid4()), 'project_id': project,
            'created_at': f'2026-01-01T00:{moment // 60:02}:{moment % 60:02}Z',
            **attributes})
        self.things[thing.id] = thing
        return thing

    def change(self, action):
        """Do what changes something, with the fault that is due."""
        with self._lock:
            if self.deaf:
                raise Killed
            self.changes += 1
            before, exc = self.faults.get(self.changes, (None, None))
            if isinstance(exc, Killed):
                self.deaf = True
            if exc and before:
                raise exc
            result = action()
            if exc:
                raise exc
            return result

    def all(self, kind, **wanted):
        """What there is of a kind."""
        with self._lock:
            return [thing for thing in self.things.values()
                    if thing.kind == kind and all(
                        getattr(thing, name) == value
                        for name, value in wanted.items())]

    def require(self, kind, thing_id):
        thing = self.things.get(getattr(thing_id, 'id', thing_id))
        if thing is None or thing.kind != kind:
            raise exceptions.NotFoundException(
                f'no {kind} {thing_id}', http_status=404)
        return thing

    def names(self):
        """The names of what there is, but for what was there before."""
        return sorted(f'{thing.kind} {thing.name}'
                      for thing in self.things.values() if thing.description
                      or thing.metadata or thing.kind == 'group')

    def find(self, kind, name, ignore_missing):
        found = [thing for thing in self.all(kind)
                 if name in (thing.id, thing.name)]
        if len(found) > 1:
            raise exceptions.DuplicateResource(f'more than one {name}')
        return found[0] if found else None


def conflict(sentence):
    return exceptions.ConflictException(sentence, http_status=409)


class Service:
    def __init__(self, cloud):
        self._cloud = cloud

    def _create(self, kind, attributes):
        return self._cloud.change(lambda: self._cloud.add(kind, **attributes))

    def _delete(self, kind, thing_id, check=None):
        def delete():
            if thing_id in self._cloud.refused:
                raise self._cloud.refused[thing_id]
            if thing_id not in self._cloud.things:
                return
            if check:
                check()
            del self._cloud.things[thing_id]
        self._cloud.change(delete)


class Network(Service):
    def networks(self, project_id):
        return self._cloud.all('network', project_id=project_id)

    def subnets(self, project_id):
        return self._cloud.all('subnet', project_id=project_id)

    def routers(self, project_id):
        return self._cloud.all('router', project_id=project_id)

    def ports(self, **wanted):
        return self._cloud.all('port', **wanted)

    def ips(self, project_id):
        return self._cloud.all('fip', project_id=project_id)

    def trunks(self, project_id):
        if not self._cloud.has_trunks:
            raise exceptions.NotFoundException('no trunks', http_status=404)
        return self._cloud.all('trunk', project_id=project_id)

    def extensions(self):
        return [Thing(alias=alias) for alias in self._cloud.extensions]

    def find_network(self, name, ignore_missing):
        return self._cloud.find('network', name, ignore_missing)

    def find_security_group(self, name, ignore_missing):
        return self._cloud.find('security_group', name, ignore_missing)

    def create_network(self, **attributes):
        return self._create('network', attributes)

    def create_subnet(self, **attributes):
        attributes.setdefault('gateway_ip', str(
            ipaddress.ip_network(attributes['cidr'])[1]))
        return self._create('subnet', attributes)

    def create_router(self, **attributes):
        return self._create('router', attributes)

    def create_trunk(self, **attributes):
        if self._cloud.all('trunk', port_id=attributes['port_id']):
            raise conflict('the port is the parent of another trunk')
        return self._create('trunk', attributes)

    def create_ip(self, **attributes):
        return self._create('fip', {'floating_ip_address': '203.0.113.9',
                                    **attributes})

    def create_port(self, **attributes):
        used = [port.mac_address for port in self._cloud.all('port')
                if port.network_id == attributes['network_id']]
        number = len(self._cloud.all('port')) + 1
        attributes.setdefault('mac_address', f'fa:16:3e:00:00:{number:02x}')
        if attributes['mac_address'] in used:
            raise conflict('Unable to complete operation: the mac address '
                           'is in use')
        return self._create('port', {
            'fixed_ips': [{'ip_address': f'192.0.2.{number}',
                           'subnet_id': 'x'}], **attributes})

    def update_port(self, port_id, **attributes):
        self._cloud.change(lambda: vars(
            self._cloud.require('port', port_id)).update(attributes))

    def add_interface_to_router(self, router_id, subnet_id):
        self._cloud.change(lambda: self._cloud.add(
            'port', device_id=router_id, mac_address='fa:16:3e:00:01:00',
            device_owner='network:router_interface',
            network_id=self._cloud.things[subnet_id].network_id,
            fixed_ips=[{'subnet_id': subnet_id,
                        'ip_address': '192.0.2.254'}]))

    def remove_interface_from_router(self, router_id, subnet_id):
        for port in self._cloud.all('port', device_id=router_id):
            if port.fixed_ips[0]['subnet_id'] == subnet_id:
                self._delete('port', port.id)

    def get(self, url):
        return Answer({'quota': {
            name: {'used': 1, 'limit': self._cloud.quota.get(name, -1)}
            for name in ('network', 'subnet', 'port', 'router',
                         'floatingip', 'trunk')}})

    def delete_ip(self, thing_id, ignore_missing):
        self._delete('fip', thing_id)

    def delete_trunk(self, thing_id, ignore_missing):
        def check():
            if self._port_in_use(self._cloud.things[thing_id].port_id):
                raise conflict('the trunk is in use')
        self._delete('trunk', thing_id, check)

    def _port_in_use(self, port_id):
        return bool(self._cloud.things[port_id].device_id)

    def delete_port(self, thing_id, ignore_missing):
        def check():
            for trunk in self._cloud.all('trunk'):
                if thing_id in [trunk.port_id, *(
                        each['port_id'] for each in trunk.sub_ports)]:
                    raise conflict('the port is part of a trunk')
        self._delete('port', thing_id, check)

    def delete_router(self, thing_id, ignore_missing):
        def check():
            if self._cloud.all('port', device_id=thing_id):
                raise conflict('the router has interfaces')
        self._delete('router', thing_id, check)

    def delete_subnet(self, thing_id, ignore_missing):
        self._delete('subnet', thing_id)

    def delete_network(self, thing_id, ignore_missing):
        def check():
            if self._cloud.all('port', network_id=thing_id):
                raise conflict('the network has ports')
            for subnet in self._cloud.all('subnet', network_id=thing_id):
                del self._cloud.things[subnet.id]
        self._delete('network', thing_id, check)


class Compute(Service):
    def servers(self, tags=None, project_id=None):
        return [server for server in self._cloud.all('server')
                if tags is None or tags in server.tags]

    def get_server(self, server_id):
        server = self._cloud.require('server', server_id)
        if server.status == 'BUILD':
            failed = self._cloud.build_errors > 0
            self._cloud.build_errors -= failed
            server.status = 'ERROR' if failed else 'ACTIVE'
            server.fault = {'message': 'No valid host was found.'}
        return server

    def get_server_console_output(self, server_id):
        server = self._cloud.require('server', server_id)
        if server.console is None:
            raise exceptions.NotFoundException(
                'Guest does not have a console available.', http_status=404)
        return {'output': server.console}

    def server_actions(self, server_id):
        return iter(self._cloud.require('server', server_id).actions or ())

    def create_server(self, **attributes):
        for drive in attributes.get('block_device_mapping', ()):
            if drive['source_type'] == 'volume' and self._cloud.require(
                    'volume', drive['uuid']).status != 'available':
                raise exceptions.BadRequestException(
                    'the volume is not available', http_status=400)
        return self._cloud.change(lambda: self._build(attributes))

    def _build(self, attributes):
        for network in attributes['networks']:
            if network != 'none' and isinstance(network, dict) and (
                    self._cloud.things[network['port']].device_id):
                raise conflict(f'Port {network["port"]} is still in use.')
        server = self._cloud.add('server', status='BUILD', **attributes)
        if server.networks != 'none':
            for network in server.networks:
                self._cloud.things[network['port']].device_id = server.id
        for drive in server.block_device_mapping or ():
            if drive['source_type'] == 'volume':
                self._attach(server.id, drive['uuid'])
        return server

    def _attach(self, server_id, volume_id):
        volume = self._cloud.require('volume', volume_id)
        if volume.attachments:
            raise exceptions.BadRequestException('in use', http_status=400)
        volume.attachments = [{'server_id': server_id}]
        volume.status = 'in-use'

    def post(self, url, json):
        _, _, server_id, _ = url.split('/')
        if 'volumeAttachment' in json:
            self._cloud.change(lambda: self._attach(
                server_id, json['volumeAttachment']['volumeId']))
        else:
            port = self._cloud.require(
                'port', json['interfaceAttachment']['port_id'])
            self._cloud.change(
                lambda: setattr(port, 'device_id', server_id))
        return Answer({})

    def stop_server(self, server_id):
        def stop():
            server = self._cloud.require('server', server_id)
            if server.status != 'ACTIVE':
                raise conflict('it is not ACTIVE')
            server.status = 'SHUTOFF'
        self._cloud.change(stop)

    def set_server_metadata(self, server_id, **metadata):
        self._cloud.change(lambda: self._cloud.require(
            'server', server_id).metadata.update(metadata))

    def delete_server(self, server_id, ignore_missing):
        def detach():
            for port in self._cloud.all('port', device_id=server_id):
                port.device_id = None
            for volume in self._cloud.all('volume'):
                if volume.attachments == [{'server_id': server_id}]:
                    volume.attachments, volume.status = None, 'available'
        self._delete('server', server_id, detach)

    def server_groups(self):
        return self._cloud.all('group')

    def create_server_group(self, **attributes):
        return self._create('group', attributes)

    def delete_server_group(self, thing_id, ignore_missing):
        self._delete('group', thing_id)

    def flavors(self):
        return self._cloud.all('flavor')

    def find_flavor(self, name, ignore_missing):
        return self._cloud.find('flavor', name, ignore_missing)

    def find_keypair(self, name, ignore_missing):
        return self._cloud.find('keypair', name, ignore_missing)

    def find_server(self, name, ignore_missing):
        return self._cloud.find('server', name, ignore_missing)

    def availability_zones(self):
        return [Thing(name='nova', state={'available': True}),
                Thing(name='closed', state={'available': False})]

    def get_limits(self):
        quota = self._cloud.quota
        return Thing(absolute=Thing(
            instances_used=0, instances=quota.get('instances', -1),
            total_cores_used=0, total_cores=quota.get('cores', -1),
            total_ram_used=0, total_ram=quota.get('ram', -1),
            server_groups_used=0, server_groups=-1))


class BlockStorage(Service):
    def __init__(self, cloud, present):
        super().__init__(cloud)
        self._present = present

    def get_endpoint(self):
        return 'http://198.51.100.1' if self._present else None

    def volumes(self):
        return self._cloud.all('volume')

    def create_volume(self, **attributes):
        return self._create('volume', {'status': 'creating', **attributes})

    def get_volume(self, thing_id):
        volume = self._cloud.require('volume', thing_id)
        if volume.status == 'creating':
            volume.status = 'available'
        return volume

    def delete_volume(self, thing_id, ignore_missing):
        def check():
            if self._cloud.things[thing_id].attachments:
                raise exceptions.BadRequestException(
                    'the volume is in use', http_status=400)
        self._delete('volume', thing_id, check)

    def find_type(self, name, ignore_missing):
        return self._cloud.find('volume_type', name, ignore_missing)

    def get_limits(self):
        return Thing(absolute=Thing(
            total_volumes_used=0, max_total_volumes=-1,
            total_gigabytes_used=0, max_total_volume_gigabytes=(
                self._cloud.quota.get('gigabytes', -1))))


class Image(Service):
    def find_image(self, name, ignore_missing):
        return self._cloud.find('image', name, ignore_missing)

    def images(self, owner, limit, tag=None):
        return [Thing(id=image.id, owner_id=image.project_id, name=image.name,
                      created_at=image.created_at, properties=image.body)
                for image in self._cloud.all('record')
                if tag is None or tag in image.body['tags']]

    def post(self, url, json, connect_retries=None):
        made = self._create('record', {'body': json, 'name': json['name']})
        return Answer({'id': made.id}, 201)

    def put(self, url, data, headers, connect_retries):
        content = data.read()
        self._cloud.change(lambda: setattr(
            self._cloud.require('record', url.split('/')[-2]), 'data',
            content))
        return Answer({}, 204)

    def get(self, url):
        return Answer(json_module.loads(
            self._cloud.require('record', url.split('/')[-2]).data))

    def patch(self, url, json, headers):
        def patch():
            image = self._cloud.require('record', url.split('/')[-1])
            for change in json:
                image.body[change['path'].strip('/')] = change['value']
        self._cloud.change(patch)
        return Answer({})

    def delete_image(self, thing_id, ignore_missing=True):
        self._delete('record', thing_id)


class Identity(Service):
    """Keystone, to which a name is unique for each user.

    :ivar refuses: whether one may not create or delete.
    :ivar logged: the "log" of each request with a secret in its response.
    """

    def __init__(self, cloud):
        super().__init__(cloud)
        self.refuses = False
        self.logged = []

    def _check(self):
        if self.refuses:
            raise exceptions.ForbiddenException(
                'You are not authorized', http_status=403)

    def post(self, url, json, log=True):
        self._check()
        self.logged.append(log)
        wanted = json['application_credential']
        user = url.split('/')[2]
        if self._cloud.all('credential', user=user, name=wanted['name']):
            raise conflict('Duplicate entry')
        made = self._create('credential', {
            'user': user, 'secret': uuid.uuid4().hex, **wanted})
        return Answer({'application_credential': {
            'id': made.id, 'secret': made.secret}}, 201)

    def find_application_credential(self, user, name, ignore_missing):
        return next(iter(self._cloud.all('credential', user=user,
                                         name=name)), None)

    def delete_application_credential(self, user, thing_id, ignore_missing):
        self._check()
        self._delete('credential', thing_id)
