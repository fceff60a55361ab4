# SPDX-License-Identifier: Apache-2.0
"""A small client of the cloud's APIs, for setting it up."""

import json
import threading
import urllib.error
import urllib.request

from onebox import system

# From 3.49 on Cinder asks cinder-volume, too, when its services are listed;
# while that one starts, the list then fails after a minute.
VERSIONS = 'compute 2.90,volume 3.48'

_clients = {}
_lock = threading.Lock()


class Failure(system.Error):
    """A request that was refused or not answered."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


def _request(method, url, body=None, headers=None):
    headers = {'Content-Type': 'application/json', **(headers or {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            text = response.read()
            return response.headers, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors='replace')[:500]
        raise Failure('%s %s was answered with %d: %s' % (
            method, url, error.code, said), error.code)
    except (OSError, ValueError) as error:
        raise Failure('%s %s failed: %s' % (method, url, error))


class Client:
    """Requests with a token of a user in a project."""

    def __init__(self, cloud, user, password, project):
        self._cloud = cloud
        self._credentials = (user, password, project)
        self._token = None

    def _sign_in(self):
        user, password, project = self._credentials
        domain = {'id': 'default'}
        headers, _ = _request(
            'POST', self._cloud.url('keystone', '/v3/auth/tokens'),
            {'auth': {
                'identity': {'methods': ['password'], 'password': {'user': {
                    'name': user, 'password': password, 'domain': domain}}},
                'scope': {'project': {'name': project, 'domain': domain}}}})
        self._token = headers['X-Subject-Token']

    def request(self, method, service, path, body=None):
        """Make a request, with a new token if that is needed."""
        url = self._cloud.url(service, path)
        for last in (False, True):
            if not self._token:
                self._sign_in()
            try:
                return _request(method, url, body, {
                    'X-Auth-Token': self._token,
                    'OpenStack-API-Version': VERSIONS})[1]
            except Failure as failure:
                if failure.code != 401 or last:
                    raise
                self._token = None

    def get(self, service, path):
        """Read."""
        return self.request('GET', service, path)

    def post(self, service, path, body):
        """Create."""
        return self.request('POST', service, path, body)

    def put(self, service, path):
        """Assign."""
        return self.request('PUT', service, path)

    def delete(self, service, path):
        """Delete."""
        return self.request('DELETE', service, path)


def admin(cloud):
    """The administrator's client; one for a process."""
    with _lock:
        key = (str(cloud.state), cloud.password('admin'))
        if key not in _clients:
            _clients[key] = Client(cloud, 'admin', cloud.password('admin'),
                                   'admin')
        return _clients[key]
