# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A stand-in for a host cloud, at the level of HTTP, for unit tests only.

It answers in the shapes of Keystone, Nova and Glance and can be told to fail
in ways that a real cloud does rarely. What a real Nova does is shown by
tests/functional, which run against one.
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
PROJECT_ID = 'a' * 32
SECRET = 'correct-horse-battery-staple'
TOKEN = 'gAAAA-token-of-the-unit-tests'

# The key that wraps an error in Nova's API, by HTTP status.
_FAULT_KEYS = {400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound',
               409: 'conflictingRequest', 429: 'overLimit',
               500: 'computeFault', 503: 'serviceUnavailable'}


class Clock(fixtures.Fixture):
    """Time that passes only by sleeping, for the modules that look at it."""

    MODULES = ('quintupleo_power.course',
               'quintupleo_power.host_cloud.actions',
               'quintupleo_power.host_cloud.cloud',
               'quintupleo_power.host_cloud.service',
               'quintupleo_power.host_cloud.view',
               'quintupleo_power.interrupted',
               'quintupleo_power.power')

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def _setUp(self):
        for module in self.MODULES:
            self.useFixture(fixtures.MockPatch(f'{module}.time', self))

    def monotonic(self):
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
    launched_at: str = '2026-01-01T00:00:00.000000'


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

    :ivar requests: '<method> <path>' of each request since the last
        :meth:`forget_requests`, Keystone and version discovery included.
    """

    def __init__(self, microversion='2.98', reads_per_task=1):
        self.microversion = microversion
        self.reads_per_task = reads_per_task
        self.servers = {}
        self.images = {}
        self.volumes = {}
        self.has_volume_service = True
        self.events = {}
        self.requests = []
        self.sent = []
        self.bodies = []
        self._faults = []
        self._action_errors = {}

    def _setUp(self):
        mocker = requests_mock.Mocker(case_sensitive=True)
        mocker.start()
        self.addCleanup(mocker.stop)
        mocker.register_uri(requests_mock.ANY, requests_mock.ANY,
                            text=self._answer)
        self.clock = self.useFixture(Clock())

    # What a test prepares.

    def add_server(self, vm_state='active', power_state=None, **kwargs):
        """Make a server, by default one that runs from its own disk."""
        kwargs.setdefault('id', uuidutils.generate_uuid())
        kwargs.setdefault('name', 'machine-0')
        if 'image' not in kwargs:
            kwargs['image'] = self.add_image(
                'quintupleo-empty-bios', disk_format='raw')['id']
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
                 'container_format': 'bare', **properties}
        self.images[image['id']] = image
        return image

    def add_volume(self, image=None):
        """Make a volume from an image, or a blank one."""
        volume = {'id': uuidutils.generate_uuid(), 'status': 'in-use',
                  'bootable': 'true' if image else 'false'}
        if image:
            # Cinder keeps the image's own fields as texts beside the others.
            volume['volume_image_metadata'] = {
                'image_id': image['id'], **{
                    name: str(value) for name, value in image.items()
                    if name.startswith(('hw_', 'os_', 'quintupleo_'))
                    or name == 'disk_format'}}
        self.volumes[volume['id']] = volume
        return volume

    def add_rescue_image(self, name='quintupleo-rescue-bios', **properties):
        """Make an image that is fit to be rescued from."""
        return self.add_image(name, **{'hw_rescue_device': 'cdrom',
                                       'hw_rescue_bus': 'sata',
                                       **properties})

    def begin_task(self, server, task, reads, vm_state, power_state):
        """Let a task be under way that ends after some reads."""
        server.task = (task, reads)
        server.then = (vm_state, power_state, None)

    def fail(self, method, path, answer, times=1, skip=0,
             carried_out=False, headers=None):
        """Let requests fail.

        :param method: HTTP method.
        :param path: regular expression that the URL has to match.
        :param answer: HTTP status, (status, message), an exception, or what
            comes with status 200: a text, or a dict or list as JSON.
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

    def change_behind(self, server, action, **changes):
        """Let somebody else do something to a server, at another time."""
        time = '2026-01-02T00:00:00.000000'
        self.events[f'req-{uuidutils.generate_uuid()}'] = {
            'action': action, 'instance_uuid': server.id,
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
            if isinstance(fault.answer, (str, dict, list)):
                # Not from an OpenStack service.
                del context.headers['x-openstack-request-id']
            return self._faulty(fault, context)
        return self._serve(request, context)

    def _serve(self, request, context):
        host = f'{request.scheme}://{request.netloc}'
        service = {AUTH_URL: self._keystone, COMPUTE_URL: self._nova,
                   IMAGE_URL: self._glance, VOLUME_URL: self._cinder}
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
            'issued_at': '2026-01-01T00:00:00.000000Z',
            'project': {'id': PROJECT_ID, 'name': 'machines',
                        'domain': {'id': 'default', 'name': 'Default'}},
            'user': {'id': 'b' * 32, 'name': 'operator',
                     'domain': {'id': 'default', 'name': 'Default'}},
            'roles': [{'id': 'c' * 32, 'name': 'member'}],
            'catalog': self._catalog()}}

    def _catalog(self):
        services = [_service('compute', COMPUTE_URL),
                    _service('image', IMAGE_URL)]
        if self.has_volume_service:
            services.append(_service('volumev3', VOLUME_URL))
        return services

    def _cinder(self, request, context):
        path = request.path.strip('/').split('/')
        if path in ([''], ['v3']):
            return {'versions': [{
                'id': 'v3.0', 'status': 'CURRENT', 'version': '3.71',
                'min_version': '3.0', 'links': [
                    {'rel': 'self', 'href': f'{VOLUME_URL}/'}]}]}
        if path[2] not in self.volumes:
            return _nova_error(context, 404,
                               f'Volume {path[2]} could not be found.')
        return {'volume': self.volumes[path[2]]}

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
        if path == ['servers', 'detail']:
            wanted = parse.parse_qs(request.query).get('name', [''])[0]
            return {'servers': [
                self._server_body(server)
                for server in self.servers.values()
                if re.search(wanted, server.name, re.IGNORECASE)]}
        server = self.servers.get(path[1])
        if server is None or server.vm_state == 'deleted':
            return _nova_error(context, 404,
                               f'Instance {path[1]} could not be found.')
        if path[2:] == ['action']:
            return self._act(server, request, context)
        if path[2:] == ['os-instance-actions']:
            # Newest first, without their events.
            return {'instanceActions': [
                {key: value for key, value in row.items() if key != 'events'}
                for row in reversed(self.events.values())
                if row['instance_uuid'] == server.id]}
        if path[2:3] == ['os-instance-actions']:
            if path[3] not in self.events:
                return _nova_error(context, 404, 'Action not found')
            return {'instanceAction': self.events[path[3]]}
        return {'server': self._server_body(server)}

    def _look_at_task(self, server):
        """Let a task go on by one look; return it as this look sees it."""
        task, reads = server.task
        if task and reads <= 0:
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
            'flavor': {'original_name': server.flavor,
                       'extra_specs': server.extra_specs},
            'OS-SRV-USG:launched_at': server.launched_at,
            'os-extended-volumes:volumes_attached': [
                {'id': volume['id']} for volume in server.volumes]}
        if server.fault:
            body['fault'] = {'code': 500, 'message': server.fault,
                             'created': '2026-01-01T00:00:00Z'}
        return body

    def _image_of(self, server):
        if server.image is None:
            return ''
        body = {'id': server.image, 'links': []}
        if self.microversion == '2.98':
            body['properties'] = {
                name: value for name, value
                in self.images.get(server.image, {}).items()
                if name.startswith('hw_')}
        return body

    def _act(self, server, request, context):
        action, details = next(iter(request.json().items()))
        action = action.removeprefix('os-')
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
        self.sent.append(action)
        self._begin(server, action, known,
                    context.headers['x-openstack-request-id'])
        if action == 'rescue':
            # The one action that is not answered with 202.
            return {'adminPass': 'q7pRwVJ4xhMn'}
        context.status_code = 202
        return None

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
            'start_time': f'{self._now()}.000000'}
        if action in self._action_errors:
            details, fault, vm_state, power = self._action_errors.pop(action)
            server.then = (vm_state or server.vm_state,
                           server.power_state if power is None else power,
                           fault)
            event_end = {'result': 'Error', 'details': details}
        else:
            server.then = (known.vm_state, known.power_state, None)
            event_end = {'result': 'Success', 'details': None}
        self.events[request_id]['end'] = event_end

    def _end_task(self, server):
        server.task = (None, 0)
        server.updated = self._now()
        server.vm_state, server.power_state, server.fault = server.then
        for action in self.events.values():
            if action['instance_uuid'] == server.id and 'end' in action:
                action['events'][0].update(
                    action.pop('end'),
                    finish_time='2026-01-01T00:00:01.000000')
                if action['events'][0]['result'] == 'Error':
                    action['message'] = 'Error'

    def _now(self):
        seconds = datetime.timedelta(seconds=int(self.clock.now))
        return (datetime.datetime(2026, 1, 1) + seconds).isoformat()

    def _glance(self, request, context):
        path = request.path.strip('/').split('/')
        if path in ([''], ['v2']):
            context.status_code = 300
            return {'versions': [{
                'id': 'v2.17', 'status': 'CURRENT', 'links': [
                    {'rel': 'self', 'href': f'{IMAGE_URL}/v2/'}]}]}
        if request.method == 'POST':
            context.status_code = 201
            return self.add_image(**{'status': 'queued', **request.json()})
        if len(path) == 2:
            wanted = {key: values[0].lower() for key, values in
                      parse.parse_qs(request.query).items()}
            return {'images': [
                image for image in self.images.values()
                if all(str(image.get(key, '')).lower() == value
                       for key, value in wanted.items())]}
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


def _nova_error(context, status, message):
    context.status_code = status
    return {_FAULT_KEYS.get(status, 'computeFault'): {
        'code': status, 'message': message}}
