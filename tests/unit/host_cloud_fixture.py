# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a host cloud, at the level of HTTP, for unit tests only.

It answers in the shapes of Keystone, Nova, Glance, Cinder and Neutron and can
be told to fail in ways that a real cloud does rarely. What a real Nova does is
shown by tests/functional, which run against one.
"""

import dataclasses
import datetime
import hashlib
import json
import re
import time as real_time
from urllib import parse

import fixtures
from oslo_utils import uuidutils
import requests
import requests_mock

from tests.unit import nova_model

AUTH_URL = 'http://keystone.example.test/v3'
COMPUTE_URL = 'http://nova.example.test/v2.1'
IMAGE_URL = 'http://glance.example.test'
VOLUME_URL = 'http://cinder.example.test/v3'
NETWORK_URL = 'http://neutron.example.test'
PROJECT_ID = 'a' * 32
SECRET = 'correct-horse-battery-staple'
TOKEN = 'gAAAA-token-of-the-unit-tests'
# What ``openstack quintupleo image create`` uploads.
EMPTY_SHA512 = hashlib.sha512(bytes(1024 * 1024)).hexdigest()
# What Nova keeps of an image with a server, and hands on to a snapshot.
_INHERITED = ('hw_', 'os_', 'img_', 'quintupleo_')

# What a rebuild takes from a minor version on.
REBUILD_MEMBERS = {'key_name': 54, 'user_data': 57, 'hostname': 90}

# The key that wraps an error in Nova's API, by HTTP status.
_FAULT_KEYS = {400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound',
               409: 'conflictingRequest', 429: 'overLimit',
               500: 'computeFault', 503: 'serviceUnavailable'}


# Of the time that Nova's records and its answers' dates tell.
BEGINNING = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Clock(fixtures.Fixture):
    """Time that passes only by sleeping, for the modules that look at it.

    :ivar tick: seconds between two looks at it.
    """

    MODULES = ('quintupleo_power.interfaces.deploy',
               'quintupleo_power.rebuild.disk_steps',
               'quintupleo_power.exceptions',
               'quintupleo_power.executor',
               'quintupleo_power.faults.injection',
               'quintupleo_power.host_cloud.actions',
               'quintupleo_power.host_cloud.cache',
               'quintupleo_power.host_cloud.cloud',
               'quintupleo_power.host_cloud.uploaded_images',
               'quintupleo_power.host_cloud.service',
               'quintupleo_power.host_cloud.snapshots',
               'quintupleo_power.host_cloud.server_cache',
               'quintupleo_power.host_cloud.servers',
               'quintupleo_power.node.pending_request',
               'quintupleo_power.takeover',
               'tenacity', 'tenacity.nap')

    def __init__(self):
        self.now = 1000.0
        self.tick = 0.0
        self.slept = []

    def _setUp(self):
        for module in self.MODULES:
            self.useFixture(fixtures.MockPatch(f'{module}.time', self))
        self.useFixture(fixtures.MockPatch(
            'quintupleo_power.host_cloud.authentication._now', self.time))

    def moment(self):
        return BEGINNING + datetime.timedelta(seconds=self.now)

    def time(self):
        return self.moment().timestamp()

    def monotonic(self):
        self.now += self.tick
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def __getattr__(self, name):
        return getattr(real_time, name)


class CloudsYaml(fixtures.Fixture):
    """A clouds.yaml instead of those of the machine that tests run on."""

    def __init__(self, path):
        self.path = path

    def _setUp(self):
        # The variable itself is read when openstacksdk is imported.
        self.useFixture(fixtures.MockPatch(
            'openstack.config.loader.CONFIG_FILES', [self.path]))
        for name in ('OS_CLIENT_CONFIG_FILE', 'OS_CLOUD'):
            self.useFixture(fixtures.EnvironmentVariable(name))


@dataclasses.dataclass
class Server:
    """A Nova server; ``task`` is (name, reads that still show it)."""

    id: str
    name: str
    image: str | None
    vm_state: str = 'active'
    power_state: int = nova_model.RUNNING
    task: tuple = (None, 0)
    then: tuple | None = None
    fault: str | None = None
    locked: bool = False
    locked_reason: str | None = None
    volumes: tuple = ()
    extra_specs: dict = dataclasses.field(default_factory=dict)
    updated: str = '2026-01-01T00:00:00'
    flavor: str = 'tiny'
    vcpus: int = 2
    ram: int = 4096
    disk: int = 20
    launched_at: str = '2026-01-01T00:00:00.000000'
    console_log: str | None = ''
    content: str = 'what the machine wrote'
    snapshot: str | None = None
    runs_before_stop: bool = False
    tag: str | None = None
    metadata: dict = dataclasses.field(default_factory=dict)
    hostname: str | None = None
    user_data: str | None = None
    key: str | None = None
    admin_pass: str | None = None
    has_config_drive: bool = False


@dataclasses.dataclass
class Page:
    """What an ingress, a proxy or another server answers."""

    status: int
    body: str = 'default backend - 404'


@dataclasses.dataclass
class Fault:
    """What a matching request gets instead of an answer."""

    method: str
    path: str
    answer: object
    times: int
    skip: int
    carried_out: bool
    headers: dict


class FakeHostCloud(fixtures.Fixture):
    """Keystone, Nova and Glance with the servers and images of a test.

    :ivar contents: what a disk has that is made from an image, and what
        volumes have, by UUID.
    :ivar runs_after_rebuild: whether a look meets the moment in which Nova
        shows a stopped server as running that it has just rebuilt.
    :ivar requests: '<method> <path>' of each request since the last
        :meth:`forget_requests`, Keystone and version discovery included.
    :ivar limits: what Nova tells of quota, by Nova's names.
    :ivar network_quota: Neutron's quota, of which one each is used, by name;
        None if Neutron does not tell.
    :ivar image_usage: what Glance tells of quota.
    :ivar extensions: aliases of Neutron's extensions.
    :ivar flavors: bodies of the flavors that the project may use.
    :ivar roles: the user's roles.
    :ivar application_credential: what a token tells of one, or None.
    :ivar clock_skew: seconds that the cloud's clocks are ahead.
    :ivar moment_format: how finely its database keeps a time.
    :ivar consoles: the addresses of the proxies, by type of console.
    :ivar console_tokens: what was given to open consoles with.
    """

    def __init__(self, microversion='2.98', reads_per_task=1):
        self.microversion = microversion
        self.reads_per_task = reads_per_task
        self.servers = {}
        self.images = {}
        self.contents = {}
        self.images_per_page = 1000
        self.runs_after_rebuild = False
        self.volumes = {}
        self.networks = {}
        self.ports = []
        self.keypairs = {}
        self.neutron_ports = {}
        self.subnets = {}
        self.limits = {}
        self.network_quota = {}
        self.image_usage = {}
        self.extensions = ['port-security', 'ip_allocation']
        self.flavors = []
        self.roles = ['member']
        self.application_credential = None
        self.clock_skew = 0
        self.moment_format = '%Y-%m-%dT%H:%M:%S.%f'
        self.volume_snapshots = {}
        self.has_volume_service = True
        self.consoles = {'novnc': 'http://novnc.example.test/vnc_lite.html'}
        self.console_tokens = []
        self.has_network_service = True
        self.events = {}
        self.requests = []
        self.sent = []
        self.bodies = []
        self._faults = []
        self._action_errors = {}

    def _setUp(self):
        self._listen()
        self.clock = self.useFixture(Clock())

    def _listen(self):
        answers = requests_mock.Adapter(case_sensitive=True)
        answers.register_uri(requests_mock.ANY, requests_mock.ANY,
                             text=self._answer)
        # Below the adapters that the driver mounts itself.
        self.useFixture(fixtures.MockPatchObject(
            requests.adapters.HTTPAdapter, 'send',
            lambda adapter, request, **kwargs: answers.send(
                request, **kwargs)))
        self.auth_url = AUTH_URL

    # What a test prepares.

    def add_server(self, vm_state='active', power_state=None, **kwargs):
        """Make a server, by default one that runs from its own disk."""
        kwargs.setdefault('id', uuidutils.generate_uuid())
        kwargs.setdefault('name', 'machine-0')
        if 'image' not in kwargs:
            kwargs['image'] = self.add_empty_image()['id']
        if power_state is None:
            power_state = (nova_model.SHUTDOWN if vm_state == 'stopped'
                           else nova_model.RUNNING)
        server = Server(vm_state=vm_state, power_state=power_state, **kwargs)
        self.servers[server.id] = server
        return server

    def add_image(self, name, **properties):
        """Make an image; properties beside its own fields are free."""
        image = {'id': uuidutils.generate_uuid(), 'name': name,
                 'status': 'active', 'owner': PROJECT_ID,
                 'visibility': 'private', 'disk_format': 'iso',
                 'container_format': 'bare',
                 'created_at': f'{self._now()}Z', **properties}
        self.images[image['id']] = image
        return image

    def add_volume(self, image=None, size=10):
        """Make a volume from an image, or a blank one."""
        volume = {'id': uuidutils.generate_uuid(), 'status': 'in-use',
                  'size': size, 'attachments': [],
                  'bootable': 'true' if image else 'false'}
        if image:
            volume['volume_image_metadata'] = _image_metadata(image)
        self.volumes[volume['id']] = volume
        return volume

    def attach_volume(self, server, volume, device):
        """Let a volume have a device name, as a server that was built has."""
        volume['attachments'] = [{'server_id': server.id, 'device': device}]

    def add_network(self, name='provision', **attributes):
        """Make a network."""
        network = {'id': uuidutils.generate_uuid(), 'name': name,
                   'project_id': PROJECT_ID, 'mtu': 1450,
                   'port_security_enabled': False, **attributes}
        self.networks[network['id']] = network
        return network

    def add_subnet(self, network, cidr='192.0.2.0/24', dhcp=False):
        """Make a subnet."""
        subnet = {'id': uuidutils.generate_uuid(), 'cidr': cidr,
                  'network_id': network['id'], 'enable_dhcp': dhcp}
        self.subnets[subnet['id']] = subnet
        return subnet

    def add_neutron_port(self, mac='52:54:00:00:00:01', security=False,
                         **attributes):
        """Make a port that Neutron knows."""
        port = {'id': uuidutils.generate_uuid(), 'mac_address': mac,
                'port_security_enabled': security, 'device_id': '',
                'device_owner': '', 'project_id': PROJECT_ID, **attributes}
        self.neutron_ports[port['id']] = port
        return port

    def add_flavor(self, name='tiny', vcpus=1, ram=2048, disk=10):
        """Make a flavor that the project may use."""
        self.flavors.append({'id': uuidutils.generate_uuid(), 'name': name,
                             'vcpus': vcpus, 'ram': ram, 'disk': disk})

    def add_port(self, server, mac, network, *addresses):
        """Give a server a port, by default one without an address."""
        port = {'mac_addr': mac, 'net_id': network['id'],
                'port_id': uuidutils.generate_uuid(),
                'port_state': 'ACTIVE', 'tag': None, 'fixed_ips': [
                    {'subnet_id': network['id'], 'ip_address': address}
                    for address in addresses]}
        self.ports.append((server.id, port))
        return port

    def add_rescue_image(self, name='quintupleo-rescue-bios', **properties):
        """Make an image that is fit to be rescued from."""
        return self.add_image(name, **{'hw_rescue_device': 'cdrom',
                                       'hw_rescue_bus': 'sata',
                                       **properties})

    def add_empty_image(self, name='quintupleo-empty-bios', **properties):
        """Make an image of a disk that nothing is on."""
        image = self.add_image(name, disk_format='raw',
                               os_hash_value=EMPTY_SHA512, **properties)
        self.contents[image['id']] = ''
        return image

    def begin_task(self, server, task, reads, vm_state, power_state):
        """Let a task be under way that ends after some reads."""
        server.task = (task, reads)
        server.then = (vm_state, power_state, None)

    def fail(self, method, path, answer, times=1, skip=0,
             carried_out=False, headers=None):
        """Let requests fail.

        :param method: HTTP method.
        :param path: regular expression that the URL has to match.
        :param answer: HTTP status, (status, message), an exception, a
            :class:`Page`, or what comes with status 200: a text, or a dict or
            list as JSON.
        :param headers: headers of the answer.
        :param times: how many of them fail.
        :param skip: how many are served before.
        :param carried_out: whether the cloud does what was asked although
            it answers so.
        """
        self._faults.append(Fault(
            method, path, answer, times, skip, carried_out, headers or {}))

    def stop_failing(self):
        """Serve all requests again."""
        self._faults.clear()

    def fail_action(self, action, details, fault=None, vm_state=None,
                    power_state=None):
        """Let Nova accept the next such action and then not do it.

        :param details: what the event of the action tells.
        :param fault: the fault of the server afterwards, if it has one.
        :param vm_state: where the server ends, if not where it was.
        :param power_state: the same for the guest.
        """
        self._action_errors[action] = (details, fault, vm_state, power_state)

    def change_behind(self, server, action, time='2026-01-02T00:00:00.000000',
                      **changes):
        """Let somebody else do something to a server, at another time."""
        request_id = f'req-{uuidutils.generate_uuid()}'
        self.events[request_id] = {
            'action': action, 'instance_uuid': server.id,
            'request_id': request_id,
            'start_time': time, 'events': []}
        server.launched_at = time
        server.updated = time[:19]
        for name, value in changes.items():
            setattr(server, name, value)

    def forget_requests(self):
        """Count requests from here."""
        self.requests.clear()
        self.sent.clear()

    # What it answers.

    def _answer(self, request, context):
        request_id = f'req-{uuidutils.generate_uuid()}'
        context.headers['x-openstack-request-id'] = request_id
        self.requests.append(f'{request.method} {request.path}')
        self.bodies.append(request.text if request.method == 'POST' else '')
        fault = self._next_fault(request)
        if fault:
            if fault.carried_out:
                self._serve(request, context)
            if isinstance(fault.answer, (str, Page)):
                # Not from an OpenStack service.
                context.headers.pop('x-openstack-request-id', None)
            return self._faulty(fault, context)
        return self._serve(request, context)

    def _clock(self):
        return self.clock.moment() + datetime.timedelta(
            seconds=self.clock_skew)

    def _serve(self, request, context):
        host = f'{request.scheme}://{request.netloc}'
        service = {AUTH_URL: self._keystone, COMPUTE_URL: self._nova,
                   IMAGE_URL: self._glance, VOLUME_URL: self._cinder,
                   NETWORK_URL: self._neutron}
        for url, answer in service.items():
            if url.startswith(host):
                return self._encode(answer(request, context), context)
        raise requests.exceptions.ConnectionError(f'No route to {host}')

    @staticmethod
    def _encode(body, context):
        if isinstance(body, str):
            context.headers['Content-Type'] = 'text/html'
            return body
        context.headers['Content-Type'] = 'application/json'
        return json.dumps(body) if body is not None else ''

    def _next_fault(self, request):
        for fault in self._faults:
            if (fault.times and fault.method == request.method
                    and re.search(fault.path, request.url)):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _faulty(self, fault, context):
        if isinstance(fault.answer, Exception):
            raise fault.answer
        context.headers.update(fault.headers)
        if isinstance(fault.answer, Page):
            context.status_code = fault.answer.status
            return self._encode(fault.answer.body, context)
        if isinstance(fault.answer, (str, dict, list)):
            context.status_code = 200
            return self._encode(fault.answer, context)
        status, message = (fault.answer if isinstance(fault.answer, tuple)
                           else (fault.answer, 'It did not go well'))
        return self._encode(_nova_error(context, status, message), context)

    def _keystone(self, request, context):
        if request.method == 'GET' and request.url.startswith(AUTH_URL):
            return {'version': {'id': 'v3.14', 'status': 'stable', 'links': [
                {'rel': 'self', 'href': f'{AUTH_URL}/'}]}}
        if request.path != '/v3/auth/tokens':
            context.status_code = 404
            return _keystone_error(404, 'The resource could not be found.')
        if SECRET not in request.text:
            context.status_code = 401
            return _keystone_error(
                401, 'The request you have made requires authentication.')
        context.status_code = 201
        context.headers['X-Subject-Token'] = TOKEN
        return {'token': {
            'methods': ['password'],
            'expires_at': '2099-01-01T00:00:00.000000Z',
            'issued_at': f'{self._clock():%Y-%m-%dT%H:%M:%S.%fZ}',
            'project': {'id': PROJECT_ID, 'name': 'machines',
                        'domain': {'id': 'default', 'name': 'Default'}},
            'user': {'id': 'b' * 32, 'name': 'operator',
                     'domain': {'id': 'default', 'name': 'Default'}},
            'roles': [{'id': 'c' * 32, 'name': role} for role in self.roles],
            **({'application_credential': self.application_credential}
               if self.application_credential else {}),
            'catalog': self._catalog()}}

    def _catalog(self):
        services = [_service('compute', COMPUTE_URL),
                    _service('image', IMAGE_URL)]
        if self.has_volume_service:
            services.append(_service('volumev3', VOLUME_URL))
        if self.has_network_service:
            services.append(_service('network', NETWORK_URL))
        return services

    def _neutron(self, request, context):
        version, *path = request.path.strip('/').split('/')
        if version != 'v2.0':
            # Outside of its version's address nothing has a request ID.
            context.headers.pop('x-openstack-request-id')
        if version not in ('', 'v2.0'):
            context.status_code = 404
            return '<html><head><title>404 Not Found</title></head></html>'
        if not path:
            return {'versions': [{
                'id': 'v2.0', 'status': 'CURRENT', 'links': [
                    {'rel': 'self', 'href': f'{NETWORK_URL}/v2.0/'}]}]}
        if path[0] == 'quotas':
            if self.network_quota is None:
                return _nova_error(context, 403, 'Not permitted')
            return {'quota': {
                name: {'used': 1, 'reserved': 0,
                       'limit': self.network_quota.get(name, -1)}
                for name in ('network', 'subnet', 'port', 'router')}}
        if path[0] == 'extensions':
            return {'extensions': [{'alias': alias}
                                   for alias in self.extensions]}
        wanted = parse.parse_qs(request.query)
        if path == ['subnets'] or path == ['ports'] and (
                request.method == 'GET'):
            known = {'subnets': self.subnets, 'ports': self.neutron_ports}
            return {path[0]: [each for each in known[path[0]].values()
                              if all(each[key] in values
                                     for key, values in wanted.items())]}
        if path[0] == 'ports':
            return self._neutron_port(request, path, context)
        if path[0] == 'subnets':
            return {'subnet': self.subnets[path[1]]}
        if path[1:]:
            return {'network': self.networks[path[1]]}
        fields = wanted.pop('fields', ['id', 'name'])
        return {'networks': [
            {field: network[field] for field in fields}
            for network in self.networks.values()
            if all(network[key] in values for key, values in wanted.items())]}

    def _neutron_port(self, request, path, context):
        if request.method == 'POST':
            context.status_code = 201
            port = {'id': uuidutils.generate_uuid(), 'fixed_ips': [],
                    **request.json()['port']}
            if self._find_ports(port, 'network_id', 'mac_address'):
                # neutron/db/db_base_plugin_v2.py
                return _neutron_error(
                    context, 409, 'MacAddressInUse',
                    'Unable to complete operation for network '
                    f'{port["network_id"]}. The mac address '
                    f'{port["mac_address"]} is in use.')
            self.neutron_ports[port['id']] = port
            return {'port': port}
        port = self.neutron_ports.get(path[1])
        if port is None:
            return _neutron_error(context, 404, 'PortNotFound',
                                  f'Port {path[1]} could not be found.')
        if request.method == 'DELETE':
            context.status_code = 204
            self.neutron_ports.pop(path[1])
            return None
        if request.method == 'PUT':
            port.update(request.json()['port'])
        return {'port': port}

    def _find_ports(self, wanted, *keys):
        return [port for port in self.neutron_ports.values()
                if all(port[key] == wanted[key] for key in keys)]

    def _cinder(self, request, context):
        path = request.path.strip('/').split('/')
        if path in ([''], ['v3']):
            return {'versions': [{
                'id': 'v3.0', 'status': 'CURRENT', 'version': '3.71',
                'min_version': '3.0', 'links': [
                    {'rel': 'self', 'href': f'{VOLUME_URL}/'}]}]}
        if path[1] == 'limits':
            return {'limits': {'rate': [], 'absolute': {}}}
        if path[1] == 'snapshots':
            return self._cinder_snapshots(path[2:], request, context)
        if path[2] not in self.volumes:
            return _nova_error(context, 404,
                               f'Volume {path[2]} could not be found.')
        volume = self.volumes[path[2]]
        if path[3:] == ['action']:
            return self._revert(volume, request, context)
        return {'volume': {**volume, 'attachments': volume['attachments']
                           or self._devices(volume)}}

    def _devices(self, volume):
        """Return the attachments of a volume that has none of its own."""
        return [{'server_id': server.id, 'device': '/dev/vd%c' % (
                    ord('b' if server.image else 'a') + number)}
                for server in self.servers.values()
                for number, each in enumerate(server.volumes)
                if each is volume]

    def _cinder_snapshots(self, path, request, context):
        if request.method == 'POST':
            wanted = request.json()['snapshot']
            volume = self.volumes[wanted['volume_id']]
            if volume['status'] == 'in-use' and not wanted.get('force'):
                return _nova_error(context, 400, 'Invalid volume')
            snapshot = {
                'id': uuidutils.generate_uuid(), 'status': 'creating',
                'volume_id': volume['id'], 'name': wanted['name'],
                'metadata': wanted.get('metadata', {}),
                'created_at': f'{self._now()}.'
                              f'{len(self.volume_snapshots):06}'}
            self.volume_snapshots[snapshot['id']] = snapshot
            self.contents[snapshot['id']] = self.contents.get(volume['id'])
            context.status_code = 202
            return {'snapshot': dict(snapshot)}
        if path == ['detail']:
            wanted = {key: values[0] for key, values in
                      parse.parse_qs(request.query).items()}
            return {'snapshots': [
                each for each in self.volume_snapshots.values()
                if all(each[key] == value for key, value in wanted.items())]}
        if path[0] not in self.volume_snapshots:
            return _nova_error(context, 404,
                               f'Snapshot {path[0]} could not be found.')
        if request.method == 'DELETE':
            context.status_code = 202
            return self.volume_snapshots.pop(path[0]) and None
        snapshot = self.volume_snapshots[path[0]]
        seen = dict(snapshot)
        if snapshot['status'] == 'creating':
            snapshot['status'] = 'available'
        return {'snapshot': seen}

    def _revert(self, volume, request, context):
        """Bring a volume back (``cinder/volume/api.py``)."""
        wanted = request.json()['revert']['snapshot_id']
        if request.headers.get('OpenStack-API-Version') != 'volume 3.40':
            return _nova_error(context, 400, 'There is no such action: revert')
        latest = [each['id'] for each in self.volume_snapshots.values()
                  if each['volume_id'] == volume['id']][-1]
        if volume['status'] != 'available' or latest != wanted:
            return _nova_error(context, 400, 'Invalid volume')
        self.contents[volume['id']] = self.contents[wanted]
        context.status_code = 202
        return None

    def _nova(self, request, context):
        if request.headers.get('X-Auth-Token') != TOKEN:
            # Version discovery needs no token.
            if request.path.strip('/') != 'v2.1':
                context.status_code = 401
                return _keystone_error(401, 'Unauthorized')
        path = request.path.removeprefix('/v2.1').strip('/').split('/')
        if path == ['']:
            return {'version': {
                'id': 'v2.1', 'status': 'CURRENT',
                'version': self.microversion, 'min_version': '2.1',
                'links': [{'rel': 'self', 'href': f'{COMPUTE_URL}/'}]}}
        if path == ['limits']:
            return {'limits': {'rate': [], 'absolute': self.limits}}
        if path == ['flavors', 'detail']:
            return {'flavors': self.flavors}
        if path == ['servers', 'detail']:
            query = parse.parse_qs(request.query)
            wanted = query.get('name', [''])[0]
            return {'servers': [
                self._server_body(server)
                for server in self.servers.values()
                if re.search(wanted, server.name, re.IGNORECASE)
                and query.get('tags', [server.tag])[0] == server.tag]}
        if path == ['servers']:
            wanted = parse.parse_qs(request.query).get('image')
            return {'servers': [
                {'id': server.id, 'name': server.name, 'links': []}
                for server in self.servers.values()
                if not wanted or server.image in wanted]}
        if path[0] == 'os-keypairs':
            return self._keypair(path, request, context)
        if path[0] == 'flavors':
            return self._flavor(path, context)
        server = self.servers.get(path[1])
        if server is None or server.vm_state == 'deleted':
            return _nova_error(context, 404,
                               f'Instance {path[1]} could not be found.')
        if path[2:] == ['action']:
            return self._act(server, request, context)
        if path[2:] == ['remote-consoles']:
            return self._console(server, request, context)
        if path[2:3] == ['os-interface']:
            return self._interfaces(server, request, path[3:], context)
        if path[2:3] == ['os-volume_attachments']:
            return self._attachments(server, path[3:], request, context)
        if path[2:] == ['os-instance-actions']:
            # Newest first, without their events.
            return {'instanceActions': [
                {key: value for key, value in row.items() if key != 'events'}
                for row in reversed(self.events.values())
                if row['instance_uuid'] == server.id]}
        if path[2:3] == ['os-instance-actions']:
            if path[3] not in self.events:
                return _nova_error(context, 404, 'Action not found')
            return {'instanceAction': {
                key: value for key, value in self.events[path[3]].items()
                # By default policy their owner sees them since 2.51.
                if key != 'events' or not self._before(51)}}
        return {'server': self._server_body(server)}

    def _keypair(self, path, request, context):
        if request.method == 'DELETE':
            if path[1] not in self.keypairs:
                return _nova_error(context, 404,
                                   f'Keypair {path[1]} not found for user')
            context.status_code = 204 if self._before(2) else 202
            return self.keypairs.pop(path[1]) and None
        wanted = request.json()['keypair']
        if wanted['name'] in self.keypairs:
            return _nova_error(context, 409, f"Key pair '{wanted['name']}' "
                               'already exists.')
        if not wanted['public_key'].startswith('ssh-'):
            return _nova_error(context, 400, 'Keypair data is invalid: '
                               'failed to generate fingerprint')
        self.keypairs[wanted['name']] = wanted['public_key']
        context.status_code = 201
        return {'keypair': wanted}

    def _console(self, server, request, context):
        version = request.headers.get('OpenStack-API-Version', 'compute 2.1')
        if int(version.rpartition('.')[2]) < 6:
            return _nova_error(context, 404,
                               'The resource could not be found.')
        wanted = request.json()['remote_console']
        console_type = wanted['type']
        if console_type not in nova_model.CONSOLE_TYPES[wanted['protocol']]:
            return _nova_error(context, 400,
                               f'Invalid console type {console_type}')
        if console_type not in self.consoles:
            return _nova_error(context, 400,
                               f'Unavailable console type {console_type}.')
        token = uuidutils.generate_uuid()
        self.console_tokens.append(token)
        query = (f'path={parse.quote(f"?token={token}")}'
                 if console_type == 'novnc' else f'token={token}')
        return {'remote_console': {
            **wanted, 'url': f'{self.consoles[console_type]}?{query}'}}

    @staticmethod
    def _console_output(server, options, context):
        if server.console_log is None:
            return _nova_error(context, 404,
                               'Guest does not have a console available.')
        return {'output': nova_model.tail(server.console_log,
                                          options.get('length'))}

    def _interfaces(self, server, request, rest, context):
        if request.method == 'GET':
            return {'interfaceAttachments': [
                port for server_id, port in self.ports
                if server_id == server.id]}
        if server.vm_state not in ('active', 'paused', 'stopped'):
            word = ('attach' if request.method == 'POST' else 'detach')
            return _nova_error(
                context, 409, f"Cannot '{word}_interface' instance "
                f'{server.id} while it is in vm_state {server.vm_state}')
        if request.method == 'DELETE':
            context.status_code = 202
            self.ports = [(owner, port) for owner, port in self.ports
                          if port['port_id'] != rest[0]]
            return None
        port = self.neutron_ports[
            request.json()['interfaceAttachment']['port_id']]
        self.ports.append((server.id, {
            'mac_addr': port['mac_address'], 'net_id': port['network_id'],
            'port_id': port['id'], 'port_state': 'ACTIVE', 'fixed_ips': [],
            'tag': None}))
        return {'interfaceAttachment': self.ports[-1][1]}

    def _attachments(self, server, path, request, context):
        if request.method == 'DELETE':
            volume = self.volumes[path[0]]
            if volume not in server.volumes:
                return _nova_error(
                    context, 404, f'Instance {server.id} is not attached.')
            server.volumes = tuple(
                each for each in server.volumes if each is not volume)
            volume.update(status='available', attachments=[])
            context.status_code = 202
            return None
        attachment = request.json()['volumeAttachment']
        volume = self.volumes[attachment['volumeId']]
        server.volumes += (volume,)
        volume.update(status='in-use', attachments=[])
        return {'volumeAttachment': attachment}

    def _look_at_task(self, server):
        """Let a task go on by one look; return it as this look sees it."""
        task, reads = server.task
        if server.runs_before_stop and not task:
            # The look before this one has met the moment.
            server.runs_before_stop = False
            task = 'powering-off'
            server.task = (task, 0)
            server.then = ('stopped', nova_model.SHUTDOWN, None)
        elif task and reads <= 0:
            task = None
            self._end_task(server)
        elif task:
            server.task = (task, reads - 1)
        return task

    def _server_body(self, server):
        task = self._look_at_task(server)
        body = {
            'id': server.id, 'name': server.name, 'locked': server.locked,
            'locked_reason': server.locked_reason,
            'updated': f'{server.updated}Z',
            'status': nova_model.STATUS.get(server.vm_state, 'UNKNOWN'),
            'OS-EXT-STS:vm_state': server.vm_state,
            'OS-EXT-STS:power_state': server.power_state,
            'OS-EXT-STS:task_state': task,
            'image': self._image_of(server),
            'flavor': self._flavor_of(server),
            'OS-SRV-USG:launched_at': server.launched_at,
            'metadata': server.metadata,
            # nova/db/main/api.py does not sort them.
            'os-extended-volumes:volumes_attached': [
                {'id': volume['id']} for volume in reversed(server.volumes)]}
        if server.fault:
            body['fault'] = {'code': 500, 'message': server.fault,
                             'created': '2026-01-01T00:00:00Z'}
        return body

    def _flavor_of(self, server):
        """The flavor as a server's body holds it."""
        if self._before(47):
            return {'id': server.flavor, 'links': []}
        return {'original_name': server.flavor, 'vcpus': server.vcpus,
                'ram': server.ram, 'disk': server.disk, 'ephemeral': 0,
                'swap': 0, 'extra_specs': server.extra_specs}

    def _flavor(self, path, context):
        for server in self.servers.values():
            if server.flavor == parse.unquote(path[1]):
                if path[2:] == ['os-extra_specs']:
                    return {'extra_specs': server.extra_specs}
                return {'flavor': {
                    'id': server.flavor, 'name': f'name of {server.flavor}',
                    'vcpus': server.vcpus, 'ram': server.ram,
                    'disk': server.disk, 'swap': ''}}
        return _nova_error(context, 404,
                           f'Flavor {path[1]} could not be found.')

    def _before(self, minor):
        return int(self.microversion.partition('.')[2]) < minor

    def _image_of(self, server):
        if server.image is None:
            return ''
        body = {'id': server.image, 'links': []}
        if self.microversion == '2.98':
            body['properties'] = {
                name: value for name, value
                in self.images.get(server.image, {}).items()
                if name.startswith('hw_')
                or name in ('os_secure_boot', 'architecture')}
        return body

    def _act(self, server, request, context):
        action, details = next(iter(request.json().items()))
        action = action.removeprefix('os-')
        if action == 'getConsoleOutput':
            return self._console_output(server, details, context)
        if action == 'trigger_crash_dump':
            return self._inject_nmi(server, context)
        action = {'createImage': 'snapshot'}.get(action, action)
        if action == 'reboot':
            action = f"{details['type'].lower()} reboot"
        known = nova_model.ACTIONS[action]
        # What is refused because of a task looks at it, as a read does.
        self._look_at_task(server)
        for attribute, permitted in (('vm_state', known.permitted_in),
                                     ('task_state', (None,))):
            value = (server.vm_state if attribute == 'vm_state'
                     else server.task[0])
            if value not in permitted:
                return _nova_error(
                    context, 409,
                    f"Cannot '{known.word}' instance {server.id} while it is "
                    f'in {attribute} {value}')
        if action == 'rescue' and details['rescue_image_ref'] not in (
                self.images):
            return _nova_error(context, 400, 'Image not found')
        if action == 'rebuild':
            fault = self._rebuild_fault(server, details)
            if fault:
                return _nova_error(context, 400, fault)
        self.sent.append(action)
        failed = self._begin(server, action, known,
                             context.headers['x-openstack-request-id'])
        if action == 'rescue':
            # The one action that is not answered with 202.
            return {'adminPass': 'q7pRwVJ4xhMn'}
        context.status_code = 202
        if action == 'rebuild':
            if not failed:
                self._rebuild(server, details['imageRef'])
            self._take(server, details)
            return {'server': {'id': server.id, 'adminPass': 'q7pRwVJ4xhMn'}}
        if action == 'snapshot':
            return {'image_id': self._snapshot(server, **details)}
        return None

    def _inject_nmi(self, server, context):
        if self._before(17):
            return _nova_error(context, 400, 'There is no such action: '
                               'trigger_crash_dump')
        for attribute, value, permitted in (
                ('vm_state', server.vm_state, nova_model.NMI_PERMITTED_IN),
                ('task_state', server.task[0], (None,))):
            if value not in permitted:
                return _nova_error(
                    context, 409,
                    "Cannot 'trigger_crash_dump' instance "
                    f'{server.id} while it is in {attribute} {value}')
        self.sent.append('trigger_crash_dump')
        details, *_ = self._action_errors.pop('trigger_crash_dump', (None,))
        self.events[context.headers['x-openstack-request-id']] = {
            'action': 'trigger_crash_dump', 'instance_uuid': server.id,
            'request_id': context.headers['x-openstack-request-id'],
            'message': 'Error' if details else None,
            'start_time': self._moment(), 'events': [{
                'event': 'compute_trigger_crash_dump',
                'start_time': '2026-01-01T00:00:00.000000',
                'finish_time': '2026-01-01T00:00:01.000000',
                'result': 'Error' if details else 'Success',
                'details': details}]}
        context.status_code = 202
        return None

    def _rebuild_fault(self, server, details):
        """What Nova has against a rebuild.

        See ``nova/compute/api.py``, and ``schemas/servers.py`` of its API.
        """
        image_id = details['imageRef']
        for name, minor in REBUILD_MEMBERS.items():
            if name in details and self._before(minor):
                return ('Additional properties are not allowed '
                        f"('{name}' was unexpected)")
        if details.get('key_name') and (
                details['key_name'] not in self.keypairs):
            return 'Invalid key_name provided.'
        if self.images.get(image_id, {}).get('status') != 'active':
            return 'Cannot find image for rebuild'
        if server.extra_specs.get('hw:tpm_version'):
            return ("Operation 'rebuild' not supported for vTPM-enabled "
                    f'instance ({server.id}).')
        if server.image is None and self._version() < (2, 93):
            return (f'Image {image_id} is unacceptable: Unable to rebuild '
                    'with a different image for a volume-backed server.')
        return None

    def _version(self):
        return tuple(map(int, self.microversion.split('.')))

    def _take(self, server, details):
        """Keep what a rebuild names, and nothing else of it."""
        for name in ('hostname', 'user_data', 'metadata'):
            if name in details:
                setattr(server, name, details[name])
        if 'key_name' in details:
            server.key = self.keypairs.get(details['key_name'])
        server.admin_pass = details.get('adminPass')

    def _rebuild(self, server, image_id):
        server.has_config_drive |= self.images[image_id].get(
            'img_config_drive') == 'mandatory'
        server.launched_at = self._moment()
        server.content = self.contents.get(image_id, 'a deployed system')
        if server.image is not None:
            server.image = image_id
        elif server.volumes:
            # cinder/volume/manager.py, reimage
            server.volumes[0]['volume_image_metadata'] = _image_metadata(
                self.images[image_id])
        if server.vm_state == 'stopped' and self.runs_after_rebuild:
            server.then = ('active', nova_model.RUNNING, None)
            server.runs_before_stop = True

    def _snapshot(self, server, name, metadata=()):
        kept = {key: value for key, value
                in self.images.get(server.image, {}).items()
                if key.startswith(_INHERITED) and 'hash' not in key}
        image = self.add_image(name, **{
            **kept, 'status': 'queued', 'disk_format': None,
            'container_format': None, 'instance_uuid': server.id,
            'image_type': 'snapshot', 'base_image_ref': server.image,
            **dict(metadata)})
        server.snapshot = image['id']
        return image['id']

    def _begin(self, server, action, known, request_id):
        server.task = (known.task_state, self.reads_per_task)
        server.updated = self._now()
        event = {'event': f'compute_{known.word}_instance',
                 'start_time': '2026-01-01T00:00:00.000000',
                 'finish_time': None, 'result': None}
        self.events[request_id] = {
            'action': known.word, 'instance_uuid': server.id,
            'request_id': request_id, 'project_id': PROJECT_ID,
            'message': None, 'events': [event],
            'start_time': self._moment()}
        if action in self._action_errors:
            details, fault, vm_state, power = self._action_errors.pop(action)
            server.then = (vm_state or server.vm_state,
                           server.power_state if power is None else power,
                           fault)
            event_end = {'result': 'Error', 'details': details}
        else:
            server.then = (*known.end(server.vm_state), None)
            event_end = {'result': 'Success', 'details': None}
        self.events[request_id]['end'] = event_end
        return event_end['result'] == 'Error'

    def _end_task(self, server):
        server.task = (None, 0)
        server.updated = self._now()
        server.vm_state, server.power_state, server.fault = server.then
        if server.runs_before_stop:
            # Nova's record of the rebuild ends with the stop.
            return
        for action in self.events.values():
            if action['instance_uuid'] == server.id and 'end' in action:
                action['events'][0].update(
                    action.pop('end'),
                    finish_time='2026-01-01T00:00:01.000000')
                if action['events'][0]['result'] == 'Error':
                    action['message'] = 'Error'
                if action['action'] == 'createImage':
                    self._end_snapshot(server, action['message'])

    def _end_snapshot(self, server, failed):
        if failed:
            # nova/compute/manager.py, delete_image_on_error
            del self.images[server.snapshot]
            return
        self.images[server.snapshot].update(
            status='active', disk_format='qcow2', container_format='bare')
        self.contents[server.snapshot] = server.content

    def _now(self):
        return self._moment()[:len('2026-01-01T00:00:00')]

    def _moment(self):
        """The same as Nova's records have it."""
        return self._clock().strftime(self.moment_format)

    def _glance(self, request, context):
        path = request.path.strip('/').split('/')
        if path[0] != 'v2' or path == ['v2']:
            # Whatever is asked for without a version.
            context.headers.pop('x-openstack-request-id')
            context.status_code = 300
            return {'versions': [{
                'id': 'v2.17', 'status': 'CURRENT', 'links': [
                    {'rel': 'self', 'href': f'{IMAGE_URL}/v2/'}]}]}
        if request.method == 'POST':
            context.status_code = 201
            return self.add_image(**{'status': 'queued', **request.json()})
        if path[1:] == ['info', 'usage']:
            return {'usage': self.image_usage}
        if len(path) == 2:
            wanted = {key: values[0].lower() for key, values in
                      parse.parse_qs(request.query).items()}
            marker = wanted.pop('marker', None)
            wanted.pop('limit', None)
            found = [image for image in self.images.values()
                     if all(value in image.get('tags', ())
                            if key == 'tag' else
                            str(image.get(key, '')).lower() == value
                            for key, value in wanted.items())]
            if marker:
                found = found[[image['id'] for image in found].index(
                    marker) + 1:]
            page = found[:self.images_per_page]
            following = {'next': f"/v2/images?marker={page[-1]['id']}"} if (
                len(page) < len(found)) else {}
            return {'images': page, **following}
        if path[2] not in self.images:
            context.status_code = 404
            return ('<html><head><title>404 Not Found</title></head><body>'
                    '<h1>404 Not Found</h1>No image found with ID '
                    f'{path[2]}<br /><br /></body></html>')
        if request.method == 'DELETE':
            context.status_code = 204
            return self.images.pop(path[2]) and None
        if request.method == 'PATCH':
            for change in request.json():
                self.images[path[2]][change['path'].strip('/')] = (
                    change['value'])
            return self.images[path[2]]
        if request.method == 'PUT':
            context.status_code = 204
            content = request.body.read()
            return self.images[path[2]].update(
                status='active', size=len(content), os_hash_algo='sha512',
                os_hash_value=hashlib.sha512(content).hexdigest())
        return self.images[path[2]]


def _service(kind, url):
    return {'type': kind, 'name': kind, 'id': kind, 'endpoints': [
        {'id': kind, 'interface': 'public', 'region': 'RegionOne',
         'region_id': 'RegionOne', 'url': url}]}


def _keystone_error(status, message):
    return {'error': {'code': status, 'message': message, 'title': '-'}}


def _neutron_error(context, status, kind, message):
    context.status_code = status
    return {'NeutronError': {'type': kind, 'detail': '', 'message': message}}


def _image_metadata(image):
    """What Cinder keeps of a volume's image, with its own fields as texts."""
    return {'image_id': image['id'], **{
        name: str(value) for name, value in image.items()
        if name.startswith(('hw_', 'os_', 'quintupleo_'))
        or name == 'disk_format'}}


def _nova_error(context, status, message):
    context.status_code = status
    return {_FAULT_KEYS.get(status, 'computeFault'): {
        'code': status, 'message': message}}
